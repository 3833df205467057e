"""From the results of several machines to a ``ratioModel``. Pure, exact.

ratio = all-CPUs score of a model with its settings / the smallest of those scores, half-even to hundredths.
So the slowest is 1.00, as it must be. Only settings that were measured get a ratio: what hyper-threading or
turbo would do to another machine is not guessed. Of several results for one model and setting the median
counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from types import MappingProxyType

from corewise.agent.calibration.results import Calibration
from corewise.config.node_configs import LARGEST_NORMALIZATION_RATIO, ModelRatios, RatioField
from corewise.kernel.cpu_facts import UNKNOWN
from corewise.quantities import Ratio

Setting = tuple[str, RatioField]


class IncomparableError(Exception):
    """No ratios can be made of these results; the message says why."""


@dataclass(frozen=True, slots=True)
class RatioModel:
    """Ratios for each model, and what to know about them."""

    ratios: Mapping[str, ModelRatios]
    warnings: tuple[str, ...]

    def json(self) -> str:
        """Return the configuration key's text; every ratio has its two decimals."""
        models = ",\n".join(
            f"    {json.dumps(name)}: {_members(ratios)}" for name, ratios in self.ratios.items()
        )
        return f'{{\n  "ratioModel": {{\n{models}\n  }}\n}}\n'


def ratio_model(results: Sequence[Calibration]) -> RatioModel:
    """Return the ratios that results of several machines give.

    Raises:
        IncomparableError: if the results are not of one mix, one is of an unknown model, or one is too fast.
    """
    _check(results)
    scores: dict[Setting, list[int]] = {}
    for each in results:
        scores.setdefault(_setting(each), []).append(each.all_cpus.score)
    medians = {setting: Fraction(median(map(Fraction, found))) for setting, found in scores.items()}
    slowest = min(medians.values())
    models: dict[str, dict[RatioField, Ratio]] = {}
    for (model, field), score in sorted(medians.items()):
        models.setdefault(model, {})[field] = _bounded(model, _rounded(score / slowest))
    warnings = [*_conflicts(scores, slowest), *_remarks(results)]
    return RatioModel(MappingProxyType(models), tuple(warnings))


def _setting(result: Calibration) -> Setting:
    field = RatioField.of(hyper_threading=result.hyper_thread_enabled, turbo=result.turbo_enabled)
    return result.cpu_model, field


def _rounded(ratio: Fraction) -> Ratio:
    return Ratio(round(ratio * 100))


def _bounded(model: str, ratio: Ratio) -> Ratio:
    if ratio > LARGEST_NORMALIZATION_RATIO:
        raise IncomparableError(
            f'"{model}" is {ratio} times as fast as the slowest, and no ratio may be above '
            f"{LARGEST_NORMALIZATION_RATIO}: leave the slowest out, or check its result"
        )
    return ratio


def _check(results: Sequence[Calibration]) -> None:
    if not results:
        raise IncomparableError("there is no result")
    mixes = sorted({each.mix for each in results})
    if len(mixes) > 1:
        raise IncomparableError(f"the results are of mixes {mixes}, which cannot be compared: measure anew")
    for each in results:
        if each.cpu_model.strip() in {"", UNKNOWN}:
            raise IncomparableError("a result names no CPU model, so no ratio could be found by it")
        if each.all_cpus.score <= 0:
            raise IncomparableError(f'the result of "{each.cpu_model}" has no score')


def _conflicts(scores: Mapping[Setting, Sequence[int]], slowest: Fraction) -> Iterator[str]:
    for (model, field), found in sorted(scores.items()):
        ratios = [_rounded(Fraction(score) / slowest) for score in (min(found), max(found))]
        if ratios[0] != ratios[1]:
            yield (
                f'{len(found)} results of "{model}" ({field}) give from {ratios[0]} to {ratios[1]}: '
                "the median counts"
            )


def _remarks(results: Sequence[Calibration]) -> Iterator[str]:
    for what, versions in (
        ("Python", {each.python for each in results}),
        ("zlib", {each.zlib for each in results}),
    ):
        if len(versions) > 1:
            yield f"measured with several versions of {what} ({_listed(versions)}): that alone shifts scores"
    if len(results) == 1:
        yield "one result says nothing about other models: its ratio is 1.00"
    for each in results:
        if each.all_cpus.cpus < each.online_cpus:
            yield (
                f'"{each.cpu_model}": only {each.all_cpus.cpus} of {each.online_cpus} CPUs were measured, '
                "so the others were idle"
            )
        if not each.cores_alike:
            yield f'"{each.cpu_model}": its cores are not all alike, and the ratio is that of their mean'


def _listed(versions: Iterable[str]) -> str:
    return ", ".join(sorted(versions))


def _members(ratios: ModelRatios) -> str:
    return "{" + ", ".join(f'"{field}": {ratio}' for field, ratio in ratios.items()) + "}"
