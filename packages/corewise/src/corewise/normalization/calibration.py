"""The results of calibrating machines, in exact integers, and the ``ratioModel`` that follows. Pure.

A rate is passes in 1000 seconds; a score is the geometric mean of the rates of some kernels, rounded down. So
a score is a whole number of which only the ratio to another score of the same mix means anything.

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
from statistics import median, median_low
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

from corewise.config.configuration import LARGEST_NORMALIZATION_RATIO, ModelRatios, RatioField
from corewise.normalization.mix import KERNELS, VERSION, Done, Work
from corewise.quantities import Ratio

CalibrationFormat: TypeAlias = Literal["corewise.io/calibration/v1"]
FORMAT: CalibrationFormat = "corewise.io/calibration/v1"
_RATE_UNIT = 1000 * 10**9
_TEN_THOUSAND = 10_000


class CalibrationScore(msgspec.Struct, frozen=True, rename="camel"):
    """The speed of one CPU while a set of CPUs is busy: the median of several runs.

    ``spread`` is the width of the middle half of the runs' scores over their median, in basis points.
    """

    cpus: int
    score: int
    integer: int
    float: int
    memory: int
    spread: int = msgspec.field(name="spreadBasisPoints")


class Calibration(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The result of one machine. ``core_threads`` is absent where no core has two threads."""

    format: CalibrationFormat = FORMAT
    mix: int = VERSION
    cpu_model: str
    vendor_id: str = msgspec.field(default="", name="vendorID")
    hyper_thread_enabled: bool
    turbo_enabled: bool
    online_cpus: int = msgspec.field(name="onlineCPUs")
    cores_alike: bool = True
    single_thread: CalibrationScore
    all_cpus: CalibrationScore = msgspec.field(name="allCPUs")
    core_threads: CalibrationScore | None = None
    repeats: int
    python: str
    zlib: str
    architecture: str = ""


def decoded(text: bytes) -> list[Calibration]:
    """Read one result, or one a line.

    Raises:
        UNREADABLE: if the text is neither.
    """
    try:
        return [msgspec.json.decode(text, type=Calibration)]
    except msgspec.DecodeError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) <= 1:
            raise
        return [msgspec.json.decode(line, type=Calibration) for line in lines]


def rate(done: Iterable[Done]) -> int:
    """Return the mean rate of workers that ran at the same time."""
    rates = [each.passes * _RATE_UNIT // max(1, each.elapsed) for each in done]
    return sum(rates) // len(rates)


def scored(cpus: int, runs: Sequence[Mapping[str, int]]) -> CalibrationScore:
    """Return the score of several runs; each maps kernels to rates."""
    scores = [geometric_mean(list(run.values())) for run in runs]
    middle = median_low(scores)
    parts = {
        work: median_low(
            [geometric_mean([run[name] for name in run if KERNELS[name].work is work]) for run in runs]
        )
        for work in Work
    }
    # Without the outer quarters: one bad run of five does not matter.
    ordered, outer = sorted(scores), len(scores) // 4
    spread = (ordered[-1 - outer] - ordered[outer]) * _TEN_THOUSAND // max(1, middle)
    return CalibrationScore(cpus, middle, parts[Work.INTEGER], parts[Work.FLOAT], parts[Work.MEMORY], spread)


def percent(basis_points: int) -> str:
    """Return basis points as a percentage: "4.2 %"."""
    return f"{basis_points // 100}.{basis_points % 100 // 10} %"


def geometric_mean(numbers: Sequence[int]) -> int:
    """Return floor of the geometric mean of non-negative integers, exactly."""
    product, count = 1, len(numbers)
    for number in numbers:
        product *= number
    low, high = 0, max(numbers)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**count <= product else (low, middle - 1)
    return low


ModelSetting = tuple[str, RatioField]
UNKNOWN_MODEL = "unknown"
"""The model that the agent reports for a CPU whose model it cannot read."""


class IncomparableError(Exception):
    """No ratios can be made of these results; the message says why."""


@dataclass(frozen=True, slots=True)
class RatioModel:
    """Ratios for each model, and what to know about them."""

    ratios: Mapping[str, ModelRatios]
    warnings: tuple[str, ...]

    def json(self) -> str:
        """Return the configuration key's text, but for ``enable``; every ratio has its two decimals."""
        return f'{{\n  "ratioModel": {ratio_model_json(self.ratios)}\n}}\n'


def ratio_model_json(ratios: Mapping[str, ModelRatios]) -> str:
    """Return the member ``ratioModel``, indented as a member; every ratio has its two decimals."""
    models = [
        f"    {json.dumps(name)}: {{"
        + ", ".join(f'"{field}": {ratio}' for field, ratio in of_model.items())
        + "}"
        for name, of_model in ratios.items()
    ]
    return "{\n" + ",\n".join(models) + "\n  }" if models else "{}"


def ratio_model(results: Sequence[Calibration]) -> RatioModel:
    """Return the ratios that results of several machines give.

    Raises:
        IncomparableError: if the results are not of one mix, one is of an unknown model, or one is too fast.
    """
    _check(results)
    scores: dict[ModelSetting, list[int]] = {}
    for each in results:
        field = RatioField.of(hyper_threading=each.hyper_thread_enabled, turbo=each.turbo_enabled)
        scores.setdefault((each.cpu_model, field), []).append(each.all_cpus.score)
    medians = {setting: Fraction(median(map(Fraction, found))) for setting, found in scores.items()}
    slowest = min(medians.values())
    models: dict[str, dict[RatioField, Ratio]] = {}
    for (model, field), score in sorted(medians.items()):
        ratio = _rounded(score / slowest)
        if ratio > LARGEST_NORMALIZATION_RATIO:
            raise IncomparableError(
                f'"{model}" is {ratio} times as fast as the slowest, and no ratio may be above '
                f"{LARGEST_NORMALIZATION_RATIO}: leave the slowest out, or check its result"
            )
        models.setdefault(model, {})[field] = ratio
    warnings = [*_conflicts(scores, slowest), *_remarks(results)]
    return RatioModel(MappingProxyType(models), tuple(warnings))


def _rounded(ratio: Fraction) -> Ratio:
    return Ratio(round(ratio * 100))


def _check(results: Sequence[Calibration]) -> None:
    if not results:
        raise IncomparableError("there is no result")
    mixes = sorted({each.mix for each in results})
    if len(mixes) > 1:
        raise IncomparableError(f"the results are of mixes {mixes}, which cannot be compared: measure again")
    for each in results:
        if each.cpu_model.strip() in {"", UNKNOWN_MODEL}:
            raise IncomparableError("a result names no CPU model, so no ratio could be found by it")
        if each.all_cpus.score <= 0:
            raise IncomparableError(f'the result of "{each.cpu_model}" has no score')


def _conflicts(scores: Mapping[ModelSetting, Sequence[int]], slowest: Fraction) -> Iterator[str]:
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
            listed = ", ".join(sorted(versions))
            yield f"measured with several versions of {what} ({listed}): that alone shifts scores"
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
