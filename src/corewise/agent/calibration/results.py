"""What a calibration finds, in exact integers, and its form as a line of JSON.

A rate is passes in 1000 seconds; a score is the geometric mean of the rates of some kernels, rounded down. So
a score is a whole number of which only the ratio to another score of the same mix means anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median_low
from typing import Literal, TypeAlias

import msgspec

from corewise.agent.calibration.mix import KERNELS, VERSION, Work
from corewise.agent.calibration.worker import Done

Format: TypeAlias = Literal["corewise.io/calibration/v1"]
FORMAT: Format = "corewise.io/calibration/v1"
_RATE_UNIT = 1000 * 10**9
_TEN_THOUSAND = 10_000


class Score(msgspec.Struct, frozen=True, rename="camel"):
    """How fast one CPU is while a set of CPUs is busy: the median of several runs.

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

    format: Format = FORMAT
    mix: int = VERSION
    cpu_model: str
    vendor_id: str = msgspec.field(default="", name="vendorID")
    hyper_thread_enabled: bool
    turbo_enabled: bool
    online_cpus: int = msgspec.field(name="onlineCPUs")
    cores_alike: bool = True
    single_thread: Score
    all_cpus: Score = msgspec.field(name="allCPUs")
    core_threads: Score | None = None
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


def scored(cpus: int, runs: Sequence[Mapping[str, int]]) -> Score:
    """Return the score of several runs; each maps kernels to rates."""
    scores = [geometric_mean(list(run.values())) for run in runs]
    middle = median_low(scores)
    parts = {
        work: median_low(
            [geometric_mean([run[name] for name in run if KERNELS[name].work is work]) for run in runs]
        )
        for work in Work
    }
    spread = _middle_half(scores) * _TEN_THOUSAND // max(1, middle)
    return Score(cpus, middle, parts[Work.INTEGER], parts[Work.FLOAT], parts[Work.MEMORY], spread)


def _middle_half(scores: Sequence[int]) -> int:
    """Return how far apart the scores are without the outer quarters: one bad run of five is no matter."""
    ordered, outer = sorted(scores), len(scores) // 4
    return ordered[-1 - outer] - ordered[outer]


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
