"""The ratios of CPU models by the scores of their nodes, and which configured ones are off. Pure.

**Ratio.** The score of a model with its settings is the median over its nodes, so that a slow node does not
change it. One of them is the *base*, and a ratio is that median / the median of the base x the configured
ratio of the base, half-even to hundredths: so ratios are in the scale of the configuration, which may know a
slower model that no node has at the moment. The base is the slowest model that has a configured ratio and at
least 3 nodes, so that one odd node does not become the measure of all. One with its ratio from the cluster's
``ratioModel`` goes first, so that a wrong entry of ``nodeConfigs`` does not make all others wrong. If none
has as many nodes, the base is the slowest with a configured ratio; if none has one, the slowest, with 1.00.

**Hyper-threading.** A score is of one thread that has its core to itself. It does not show what a thread is
worth whose neighbor is busy, so models with hyper-threading and models without have a base each and are never
compared. If no ratio is configured on one side, its place in the scale is unknown, and it gets none; if none
is configured on either, this is so for the side with fewer nodes.

**Suggestion.** It keeps that scale while the configuration has ratios that were not measured. Otherwise, or
if a model would have less than 1.00, all ratios are divided by that of the slowest, which then has 1.00.

**Interval.** It needs no assumption about how scores are distributed. Of n scores in order, the k-th smallest
and the k-th largest miss the true median with a probability of at most

    2 x P(Binomial(n, 1/2) <= k - 1)

A ratio has two medians, and each may be missed in 2.5 % of all cases: so the interval from the lower end of
the one over the upper end of the other, to the reverse, misses the true ratio in at most 5 %, whatever the
two have to do with each other. That takes 7 nodes of both; with fewer there is no interval. The scores of
one, two or three nodes are shown as they are, by their median and their range.
Source: H. A. David, H. N. Nagaraja, Order Statistics, 3rd ed., section 7.1; the sum of the two is
Bonferroni's inequality.

**A configured ratio is off** if it differs from the measured one by more than 5 %, and lies outside the
interval; where there is none, outside the range of all nodes, of at least 3 of each model. A ratio is judged
by the nodes that have it: those whose ratio comes from ``ratioModel``, whether a label or a strategy enables
them. An entry of ``nodeConfigs`` with a ratio of its own is judged apart, against the same base.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from statistics import median
from typing import TypeAlias

from corewise.config.configuration import (
    LARGEST_NORMALIZATION_RATIO,
    ModelRatios,
    NormalizationConfig,
    RatioField,
)
from corewise.normalization.calibration import ModelSetting
from corewise.normalization.decision import RatioNode, decide
from corewise.normalization.fleet import LIMIT, Fleet, ScoredNode
from corewise.quantities import ONE, Ratio
from corewise.vocabulary.reasons import Reason

LEAST_NODES = 3
"""Nodes of a model by which a configured ratio is judged."""
_ENDS = Fraction(4, 100)
"""Difference below which a ratio that was off is no longer so: noise does not turn it on and off."""
_MISSED = Fraction(25, 1000)
_HUNDRED = 100

_Ends: TypeAlias = tuple[Fraction, Fraction]
RatioKey: TypeAlias = tuple[str, RatioField, str]
"""A CPU model, its settings, and the entry of ``nodeConfigs`` with its ratio, "" for the cluster's."""


@dataclass(frozen=True, slots=True)
class MeasuredRatio:
    """The ratio of a CPU model with its settings, as its nodes measured it, and the configured one.

    ``interval`` holds the true ratio in 95 % of all cases; None where there are too few nodes. ``extremes``:
    from the slowest to the fastest node. ``likely``: the ratios that the scores allow; None if nothing can be
    said. ``entry``: the one of ``nodeConfigs`` whose ratio it is, "" for the cluster's. ``is_scaled``:
    whether it is in the scale of the configuration; otherwise that is unknown, and the base has 1.
    """

    model: str
    field: RatioField
    entry: str
    nodes: tuple[str, ...]
    configured: Ratio | None
    exact: Fraction
    interval: _Ends | None
    extremes: _Ends
    likely: _Ends | None
    is_base: bool = False
    is_scaled: bool = True

    @property
    def setting(self) -> ModelSetting:
        return self.model, self.field

    @property
    def ratio(self) -> Ratio:
        return Ratio(round(self.exact * _HUNDRED))

    @property
    def is_allowed(self) -> bool:
        """Whether the configuration takes such a ratio."""
        return self.ratio <= LARGEST_NORMALIZATION_RATIO

    @property
    def is_suggested(self) -> bool:
        """Whether the suggestion has this ratio."""
        return self.is_scaled and self.is_allowed

    def divided_by(self, divisor: Fraction) -> MeasuredRatio:
        """Return this ratio in another scale."""
        return replace(
            self,
            exact=self.exact / divisor,
            interval=_times(self.interval, 1 / divisor),
            extremes=(self.extremes[0] / divisor, self.extremes[1] / divisor),
            likely=_times(self.likely, 1 / divisor),
        )


def measured_ratios(fleet: Fleet, configured: Mapping[str, ModelRatios]) -> tuple[MeasuredRatio, ...]:
    """Return the ratios of all models in the scale of the cluster's ratioModel, the slowest first."""
    groups: dict[RatioKey, list[ScoredNode]] = defaultdict(list)
    for node in fleet.nodes:
        groups[*node.setting, ""].append(node)
    stated = {
        (model, field, ""): ratio for model, ratios in configured.items() for field, ratio in ratios.items()
    }
    return _measured(groups, stated)


def applied_ratios(
    fleet: Fleet, nodes: Mapping[str, RatioNode], config: NormalizationConfig
) -> tuple[MeasuredRatio, ...]:
    """Return the ratios of models on the nodes that have theirs from a ratioModel.

    ``nodes``: by name. Scores of nodes that are not among them do not count.
    """
    groups: dict[RatioKey, list[ScoredNode]] = defaultdict(list)
    stated: dict[RatioKey, Ratio] = {}
    for scored in fleet.nodes:
        node, (model, field) = nodes.get(scored.name), scored.setting
        if node is None:
            continue
        verdict = decide(node, config)
        if verdict.reason is not Reason.RATIO_FROM_MODEL or verdict.ratio is None:
            continue
        entry = next(config.each_matching(node.labels), None)
        inherits = verdict.ratio == config.cluster.ratio_model.get(model, {}).get(field)
        key = model, field, "" if entry is None or inherits else str(entry)
        groups[key].append(scored)
        stated[key] = verdict.ratio
    return _measured(groups, stated)


def _measured(
    groups: Mapping[RatioKey, Sequence[ScoredNode]], stated: Mapping[RatioKey, Ratio]
) -> tuple[MeasuredRatio, ...]:
    """Return the ratios of groups of nodes in the scale of the stated ones, the slowest first.

    Groups whose scale is unknown are last.
    """
    sides = {
        on: {key: nodes for key, nodes in groups.items() if key[1].hyper_threading is on} for on in _SIDES
    }
    scaled = {on for on in _SIDES if sides[on].keys() & stated.keys()}
    if not scaled:
        scaled = {max(_SIDES, key=lambda on: sum(map(len, sides[on].values())))}
    found = [each for on in _SIDES for each in _of_side(sides[on], stated, is_scaled=on in scaled)]
    return tuple(sorted(found, key=lambda each: (not each.is_scaled, each.exact, each.setting, each.entry)))


_SIDES = (True, False)
"""Hyper-threading on and off."""


def _of_side(
    groups: Mapping[RatioKey, Sequence[ScoredNode]], stated: Mapping[RatioKey, Ratio], *, is_scaled: bool
) -> Iterator[MeasuredRatio]:
    """Yield the ratios of groups of nodes that are compared with each other."""
    scores = {key: sorted(each.report.score for each in nodes) for key, nodes in groups.items()}
    medians = {key: Fraction(median(map(Fraction, found))) for key, found in scores.items()}
    if not medians:
        return

    def order(key: RatioKey) -> tuple[bool, bool, bool, Fraction, RatioKey]:
        is_stated, is_of_entry = key in stated, bool(key[2])
        return not is_stated, is_stated and len(scores[key]) < LEAST_NODES, is_of_entry, medians[key], key

    base = min(medians, key=order)
    scale = Fraction(stated.get(base, ONE).hundredths, _HUNDRED)

    for key, own in scores.items():
        others, is_base = scores[base], key == base
        interval = None if is_base else _quotient(_interval(own), _interval(others))
        whole = None if is_base else _quotient(_extremes(own), _extremes(others))
        yield MeasuredRatio(
            *key,
            nodes=tuple(sorted(each.name for each in groups[key])),
            configured=stated.get(key),
            exact=medians[key] / medians[base] * scale,
            interval=_times(interval, scale),
            extremes=(own[0] / medians[base] * scale, own[-1] / medians[base] * scale),
            likely=_times(interval or whole, scale),
            is_base=is_base,
            is_scaled=is_scaled,
        )


def _extremes(scores: Sequence[int]) -> tuple[int, int] | None:
    return (scores[0], scores[-1]) if len(scores) >= LEAST_NODES else None


def _interval(scores: Sequence[int]) -> tuple[int, int] | None:
    rank = interval_rank(len(scores))
    return (scores[rank - 1], scores[-rank]) if rank else None


def _quotient(one: tuple[int, int] | None, other: tuple[int, int] | None) -> _Ends | None:
    if one is None or other is None:
        return None
    return Fraction(one[0], other[1]), Fraction(one[1], other[0])


def _times(ends: _Ends | None, factor: Fraction) -> _Ends | None:
    return None if ends is None else (ends[0] * factor, ends[1] * factor)


@lru_cache(maxsize=1024)
def interval_rank(count: int, missed: Fraction = _MISSED) -> int:
    """Return the largest k so that the k-th smallest and largest scores enclose the true median.

    They miss it with a probability of at most ``missed``. 0 if even the smallest and the largest are not
    enough.
    """
    below, chosen, rank = 0, 1, 0
    while rank < count // 2:
        below += chosen
        if 2 * below * missed.denominator > missed.numerator << count:
            break
        chosen = chosen * (count - rank) // (rank + 1)
        rank += 1
    return rank


@dataclass(frozen=True, slots=True)
class RatioOff:
    """A configured ratio that is not the measured one. ``measured`` is in the configuration's terms.

    ``entry``: the one of ``nodeConfigs`` that states it, "" for the cluster's ratioModel.
    """

    model: str
    field: RatioField
    entry: str
    nodes: int
    configured: Ratio
    measured: Ratio

    @property
    def key(self) -> RatioKey:
        return self.model, self.field, self.entry

    @property
    def message(self) -> str:
        """One sentence with the numbers."""
        what = f'{self.field} of "{self.model}"' + (f" in {self.entry}" if self.entry else "")
        nodes = f"{self.nodes} node{'' if self.nodes == 1 else 's'}"
        return f"{what} is {self.configured}, and {nodes} of it measured {self.measured}"


def ratios_off(measured: Iterable[MeasuredRatio], before: Collection[RatioKey] = ()) -> tuple[RatioOff, ...]:
    """Return the configured ratios that are off; ``before``: those that were when last looked at."""
    return tuple(_off(measured, frozenset(before)))


def _off(measured: Iterable[MeasuredRatio], before: frozenset[RatioKey]) -> Iterator[RatioOff]:
    for each in measured:
        ratio = each.configured
        if ratio is None or each.likely is None:
            continue
        was_off = (*each.setting, each.entry) in before
        stated = Fraction(ratio.hundredths, _HUNDRED)
        difference = abs(each.exact - stated) / stated
        low, high = each.likely
        is_certain = was_off or not low <= stated <= high
        if is_certain and difference > (_ENDS if was_off else LIMIT):
            yield RatioOff(each.model, each.field, each.entry, len(each.nodes), ratio, each.ratio)


def suggested_ratios(measured: Sequence[MeasuredRatio], *, others_stay: bool) -> tuple[MeasuredRatio, ...]:
    """Return the ratios to configure; ``others_stay``: the key has ratios that were not measured."""
    if not measured or (others_stay and measured[0].ratio >= ONE):
        return tuple(measured)
    return tuple(each.divided_by(measured[0].exact) if each.is_scaled else each for each in measured)


def suggested_model(
    suggested: Iterable[MeasuredRatio], configured: Mapping[str, ModelRatios]
) -> Mapping[str, ModelRatios]:
    """Return the configured ratioModel with the suggested ratios in it; what was not measured stays."""
    models = {name: dict(ratios) for name, ratios in configured.items()}
    for each in suggested:
        if each.is_suggested:
            models.setdefault(each.model, {})[each.field] = each.ratio
    return models
