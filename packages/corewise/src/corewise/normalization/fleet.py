"""The speed of a cluster's CPU models, from the scores that agents measured on its nodes. Pure.

A score is that of one CPU on a nearly idle node (:mod:`corewise.vocabulary.evaluation_report`). ``corewise
calibrate`` measures all CPUs at once: the two are never mixed.

**Which scores count.** The median of at least :data:`LEAST_RUNS` runs, of a known CPU model, whose model and
settings the node still has. Only scores of one mix, one version of Python and one of zlib are compared: those
that most nodes have (of two as frequent, the newer). The others are left out and named, since another version
shifts scores by itself. Architectures may differ: that is part of what is compared.

**Ratio.** The score of a model with its settings is the median over its nodes, so that a slow node does not
change it. ratio = that median / the smallest median, half-even to hundredths. The slowest is 1.00.

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
interval; where there is none, outside the range of all nodes, of at least 3 of each model. Measured ratios
are first multiplied by the configured ratio of the slowest model: a configuration may know a slower model,
which no node has at the moment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from statistics import median
from typing import TypeAlias

from corewise.config.configuration import LARGEST_NORMALIZATION_RATIO, ModelRatios, RatioField
from corewise.config.facts import CPUFacts
from corewise.normalization.calibration import UNKNOWN_MODEL, ModelSetting
from corewise.quantities import ONE, Ratio
from corewise.vocabulary.evaluation_report import EvaluationReport, decode
from corewise.vocabulary.findings import Finding

LEAST_RUNS = 5
"""Runs behind a score that counts, as many as ``corewise calibrate`` makes."""
LEAST_NODES = 3
"""Nodes of a model by which a configured ratio is judged."""
LIMIT = Fraction(5, 100)
"""Difference from which a ratio is off, or a node is slow."""
_ENDS = Fraction(4, 100)
"""Difference below which a ratio that was off is no longer so: noise does not turn it on and off."""
_MISSED = Fraction(25, 1000)
_HUNDRED = 100

Toolchain: TypeAlias = tuple[int, str, str]
"""What scores must share to be compared: the mix, the version of Python, that of zlib."""


class LeftOut(StrEnum):
    """Why the score of a node does not count; the value follows the number of nodes."""

    NO_REPORT = "without a score: their agents do not measure yet (corewise agent --evaluate)"
    UNREADABLE = "with a report that cannot be read"
    NOT_MEASURED = "which cannot be measured"
    FEW_RUNS = f"with fewer than {LEAST_RUNS} runs so far"
    UNKNOWN_MODEL = "whose CPU model is unknown"
    OTHER_SETTINGS = "measured with another CPU model, hyper-threading or turbo than they have"
    OTHER_TOOLCHAIN = "measured with another mix, Python or zlib than most"


@dataclass(frozen=True, slots=True)
class ScoredNode:
    """A node with a score that counts."""

    name: str
    report: EvaluationReport

    @property
    def setting(self) -> ModelSetting:
        report = self.report
        field = RatioField.of(hyper_threading=report.hyper_thread_enabled, turbo=report.turbo_enabled)
        return report.cpu_model, field

    @property
    def toolchain(self) -> Toolchain:
        return self.report.mix, self.report.python, self.report.zlib


def scored_node(name: str, text: str | None, facts: CPUFacts | Finding | None = None) -> ScoredNode | LeftOut:
    """Read the annotation with a node's score; ``facts`` are those that the node reports."""
    if text is None:
        return LeftOut.NO_REPORT
    report = decode(text)
    if report is None:
        return LeftOut.UNREADABLE
    return _why_not(report, facts) or ScoredNode(name, report)


def _why_not(report: EvaluationReport, facts: CPUFacts | Finding | None) -> LeftOut | None:
    """Return the reason for leaving a report out; None if it counts."""
    if report.score <= 0:
        return LeftOut.NOT_MEASURED
    if report.runs < LEAST_RUNS:
        return LeftOut.FEW_RUNS
    if report.cpu_model.strip() in {"", UNKNOWN_MODEL}:
        return LeftOut.UNKNOWN_MODEL
    measured = report.cpu_model, report.hyper_thread_enabled, report.turbo_enabled
    if isinstance(facts, CPUFacts) and measured != (facts.model, facts.hyper_threading, facts.turbo):
        return LeftOut.OTHER_SETTINGS
    return None


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes whose scores are compared, and the names of all others by the reason."""

    nodes: tuple[ScoredNode, ...]
    left_out: Mapping[LeftOut, tuple[str, ...]]

    @classmethod
    def of(cls, read: Iterable[tuple[str, ScoredNode | LeftOut]]) -> Fleet:
        """Return the fleet of nodes that were read one by one."""
        left_out: dict[LeftOut, list[str]] = defaultdict(list)
        scored = []
        for name, each in read:
            if isinstance(each, LeftOut):
                left_out[each].append(name)
            else:
                scored.append(each)
        counts = Counter(each.toolchain for each in scored)
        used = max(counts, key=lambda each: (counts[each], each), default=None)
        others = [each.name for each in scored if each.toolchain != used]
        if others:
            left_out[LeftOut.OTHER_TOOLCHAIN] = others
        return cls(
            tuple(each for each in scored if each.toolchain == used),
            {why: tuple(sorted(left_out[why])) for why in LeftOut if why in left_out},
        )


@dataclass(frozen=True, slots=True)
class MeasuredRatio:
    """The ratio of a CPU model with its settings, as its nodes measured it; the slowest has 1.

    ``interval`` holds the true ratio in 95 % of all cases; None where there are too few nodes. ``extremes``:
    from the slowest to the fastest node, over the median of the slowest model. ``likely``: the ratios that
    the scores allow; None if nothing can be said.
    """

    model: str
    field: RatioField
    nodes: tuple[str, ...]
    exact: Fraction
    interval: tuple[Fraction, Fraction] | None
    extremes: tuple[Fraction, Fraction]
    likely: tuple[Fraction, Fraction] | None

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


def measured_ratios(fleet: Fleet) -> tuple[MeasuredRatio, ...]:
    """Return the ratios of all models, the slowest first."""
    groups: dict[ModelSetting, list[ScoredNode]] = defaultdict(list)
    for node in fleet.nodes:
        groups[node.setting].append(node)
    scores = {setting: sorted(each.report.score for each in nodes) for setting, nodes in groups.items()}
    medians = {setting: Fraction(median(map(Fraction, found))) for setting, found in scores.items()}
    in_order = sorted(medians, key=lambda setting: (medians[setting], setting))
    if not in_order:
        return ()
    base = in_order[0]

    def measured(setting: ModelSetting) -> MeasuredRatio:
        own, slowest = scores[setting], scores[base]
        model, field = setting
        interval = None if setting == base else _quotient(_interval(own), _interval(slowest))
        whole = _quotient(_extremes(own), _extremes(slowest)) if setting != base else None
        return MeasuredRatio(
            model=model,
            field=field,
            nodes=tuple(sorted(each.name for each in groups[setting])),
            exact=medians[setting] / medians[base],
            interval=interval,
            extremes=(own[0] / medians[base], own[-1] / medians[base]),
            likely=interval or whole,
        )

    return tuple(map(measured, in_order))


def _extremes(scores: Sequence[int]) -> tuple[int, int] | None:
    return (scores[0], scores[-1]) if len(scores) >= LEAST_NODES else None


def _interval(scores: Sequence[int]) -> tuple[int, int] | None:
    rank = interval_rank(len(scores))
    return (scores[rank - 1], scores[-rank]) if rank else None


def _quotient(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[Fraction, Fraction] | None:
    if one is None or other is None:
        return None
    return Fraction(one[0], other[1]), Fraction(one[1], other[0])


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
    """A configured ratio that is not the measured one. ``measured`` is in the configuration's terms."""

    model: str
    field: RatioField
    nodes: int
    configured: Ratio
    measured: Ratio

    @property
    def setting(self) -> ModelSetting:
        return self.model, self.field

    @property
    def message(self) -> str:
        """One sentence with the numbers."""
        nodes = f"{self.nodes} node{'' if self.nodes == 1 else 's'}"
        return (
            f'{self.field} of "{self.model}" is {self.configured}, and {nodes} of it measured {self.measured}'
        )


def ratios_off(
    measured: Sequence[MeasuredRatio],
    configured: Mapping[str, ModelRatios],
    before: Collection[ModelSetting] = (),
) -> tuple[RatioOff, ...]:
    """Return the configured ratios that are off; ``before``: those that were when last looked at."""
    return tuple(_off(measured, configured, frozenset(before)))


def _off(
    measured: Sequence[MeasuredRatio],
    configured: Mapping[str, ModelRatios],
    before: frozenset[ModelSetting],
) -> Iterator[RatioOff]:
    scale = scale_of(measured, configured)
    for each in measured:
        ratio = configured.get(each.model, {}).get(each.field)
        if ratio is None or each.likely is None or not ratio.hundredths:
            continue
        was_off = each.setting in before
        stated = Fraction(ratio.hundredths, _HUNDRED)
        difference = abs(each.exact * scale - stated) / stated
        low, high = (end * scale for end in each.likely)
        is_certain = was_off or not low <= stated <= high
        if is_certain and difference > (_ENDS if was_off else LIMIT):
            yield RatioOff(
                each.model, each.field, len(each.nodes), ratio, Ratio(round(each.exact * scale * _HUNDRED))
            )


def scale_of(measured: Sequence[MeasuredRatio], configured: Mapping[str, ModelRatios]) -> Fraction:
    """Return the configured ratio of the slowest model measured, by which all others are compared."""
    slowest = measured[0] if measured else None
    ratio = configured.get(slowest.model, {}).get(slowest.field) if slowest else None
    return Fraction((ratio or ONE).hundredths, _HUNDRED)


def suggested_model(
    measured: Iterable[MeasuredRatio], configured: Mapping[str, ModelRatios]
) -> Mapping[str, ModelRatios]:
    """Return the configured ratioModel with the measured ratios in it; what was not measured stays."""
    models = {name: dict(ratios) for name, ratios in configured.items()}
    for each in measured:
        if each.is_allowed:
            models.setdefault(each.model, {})[each.field] = each.ratio
    return models
