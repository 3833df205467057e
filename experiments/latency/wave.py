"""A load that jumps: p99 in windows of time while requests arrive in a square wave.

A quota stays at the arm's amount for the mean load: only the kernel follows the jumps.
"""

from __future__ import annotations

import msgspec
import numpy as np

from corewise.quantities import MILLI
from experiments.latency.arms import ALONE
from experiments.latency.programs import square_wave
from experiments.latency.trials import TAIL, WARM_UP, Bench, Case, seed_of, serve

SIZE, LOADS = 0.1, (0.2, 0.7)
TURN, WINDOW = 4.0, 0.5
"""Seconds: between two jumps, and of requests that one p99 is of."""

ARMS = (ALONE, "weights", "option 1", "option 1, idle pods, 1 s")


class Run(msgspec.Struct, frozen=True):
    """One arm in one repetition: for each window p99 in milliseconds and the number of requests.

    ``offline`` and ``others`` are CPUs used by offline work and by other work, on average.
    """

    arm: str
    repetition: int
    p99: list[float]
    requests: list[int]
    offline: float
    others: float


class Wave(msgspec.Struct, frozen=True):
    """A file of runs, with the machine and what the requests were."""

    machine: str
    size: float
    loads: tuple[float, float]
    turn: float
    window: float
    runs: list[Run]


def run(bench: Bench, arm: str, repetition: int, seconds: float) -> Run:
    """Run one arm through the wave.

    Raises:
        SystemExit: as :func:`trials.serve` does.
    """
    case = Case(SIZE, sum(LOADS) / len(LOADS), "spin")
    low, high = (load * len(bench.cpus) * MILLI / bench.request_ms[SIZE] for load in LOADS)
    due = square_wave(seed_of(case, repetition), WARM_UP + seconds + TAIL, (low, high), TURN, WARM_UP)
    served = serve(bench, case, arm, due, seconds)
    windows = [
        served.latencies[(served.due >= begin) & (served.due < begin + WINDOW)]
        for begin in np.arange(0.0, seconds, WINDOW)
    ]
    return Run(
        arm=arm,
        repetition=repetition,
        p99=[round(float(np.quantile(each, 0.99, method="inverted_cdf")), 4) for each in windows],
        requests=[len(each) for each in windows],
        offline=served.used("offline"),
        others=served.others,
    )
