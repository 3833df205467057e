"""The schedule of requests, and the figures of their latencies: the part that needs no kernel."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

QUANTILES = (0.5, 0.99, 0.999)
SERVICE = 0.001, 0.005
PERIOD, SWING = 10.0, 0.3
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Trial:
    """One arm in one repetition: milliseconds at each quantile, CPUs of offline pods, part of time stolen."""

    arm: str
    load: float
    shape: str
    latency: tuple[float, ...]
    offline: float
    stolen: float
    requests: int


def schedule(rng: random.Random, seconds: float, load: float, shape: str) -> list[tuple[float, float]]:
    """Return arrivals and CPU seconds of requests for one CPU: Poisson, each 1 to 5 ms.

    The square wave has the same mean: 30 % above it and 30 % below it, 5 s each.
    """
    low, high = SERVICE
    most = load * (1 + SWING) / fmean(SERVICE)
    arrivals, at = [], rng.expovariate(most)
    while at < seconds:
        factor = 1.0
        if shape == "square":
            factor = 1 + SWING if at % PERIOD >= PERIOD / 2 else 1 - SWING
        if rng.random() * (1 + SWING) < factor:
            arrivals.append((at, rng.uniform(low, high)))
        at += rng.expovariate(most)
    return arrivals


def quantile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that at least this part of all values does not exceed."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def interval(values: Sequence[float], rng: random.Random) -> tuple[float, float]:
    """Return the bootstrap's 95 % confidence interval of the mean over repetitions."""
    means = [fmean(rng.choices(values, k=len(values))) for _ in range(_RESAMPLES)]
    return quantile(means, 0.025), quantile(means, 0.975)


def table(trials: Sequence[Trial], arms: Sequence[str], base: str) -> str:
    """Return the table of all arms: means over repetitions, with confidence intervals.

    The last column is an arm's p99 relative to that of the arm ``base`` in the same repetition.
    """
    rng = random.Random(0)  # noqa: S311
    lines = [
        f"| load | arm | repetitions | p50 ms | p99 ms | p99.9 ms | p99, of {base} | offline CPUs | stolen |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    cases = sorted(
        {(each.load, each.shape) for each in trials}, key=lambda case: (case[0], case[1] == "square")
    )
    for load, shape in cases:
        by_arm = {
            arm: [each for each in trials if (each.load, each.shape, each.arm) == (load, shape, arm)]
            for arm in arms
        }
        for arm, same in by_arm.items():
            if not same:
                continue
            ratios = [
                one.latency[1] / other.latency[1] for one, other in zip(same, by_arm[base], strict=False)
            ]
            cells = [_cell(column, rng) for column in zip(*(each.latency for each in same), strict=True)]
            cells += [_cell(ratios, rng), _cell([each.offline for each in same], rng)]
            stolen = f"{fmean(each.stolen for each in same):.1%}"
            lines.append(f"| {' | '.join([f'{load:.0%} {shape}', arm, str(len(same)), *cells, stolen])} |")
    return "\n".join(lines)


def _cell(values: Sequence[float], rng: random.Random) -> str:
    if not values:
        return "-"
    low, high = interval(values, rng)
    return f"{fmean(values):.2f} ({low:.2f}-{high:.2f})"
