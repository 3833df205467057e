"""Latencies as counts, and what follows from them: quantiles, ratios of two arms, and their intervals.

A latency is counted in a bin whose bounds are 1 % apart, so a quantile is off by 0.5 % at most. Repetitions
of two arms are pairs: they have the same arrivals. A ratio is the median of the pairs' ratios, so that one
trial in which the machine stood still counts as one; its interval is the bootstrap's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_FIRST_MS, _STEP = 0.01, 1.01
_BINS = 2000
_RESAMPLES = 2000

Counts = npt.NDArray[np.int64]
"""For each repetition, the number of requests in each bin: shape (repetitions, bins)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def counts_of(milliseconds: npt.NDArray[np.float64]) -> dict[int, int]:
    """Return the number of latencies in each bin that has any."""
    bins = np.floor(np.log(np.maximum(milliseconds, _FIRST_MS) / _FIRST_MS) / math.log(_STEP)).astype(int)
    found, numbers = np.unique(np.minimum(bins, _BINS - 1), return_counts=True)
    return dict(zip(found.tolist(), numbers.tolist(), strict=True))


def stacked(trials: Sequence[Mapping[int, int]]) -> Counts:
    """Return the counts of several repetitions as one array."""
    counts = np.zeros((len(trials), _BINS), np.int64)
    for row, each in enumerate(trials):
        counts[row, list(each)] = list(each.values())
    return counts


def quantile(counts: npt.NDArray[np.int64], part: float) -> npt.NDArray[np.float64]:
    """Return the milliseconds that this part of the requests does not exceed, over the last axis."""
    total = counts.cumsum(axis=-1)
    rank = np.maximum(1, np.ceil(part * total[..., -1:]))
    middle: npt.NDArray[np.float64] = _FIRST_MS * _STEP ** ((total < rank).sum(axis=-1) + 0.5)
    return middle


def above(counts: npt.NDArray[np.int64], milliseconds: float) -> float:
    """Return the part of the requests that took longer."""
    bounds_ms = _FIRST_MS * _STEP ** np.arange(_BINS)
    return float(counts[bounds_ms >= milliseconds].sum() / counts.sum())


def ratio(arm: Counts, base: Counts, part: float, seed: int = 0) -> Interval:
    """Return a quantile of one arm relative to the same of another: the median of paired repetitions."""
    ratios = quantile(arm, part) / quantile(base, part)
    return Interval(float(np.median(ratios)), *bounds(np.median(ratios[_picks(len(ratios), seed)], axis=1)))


def mean(values: Sequence[float], seed: int = 0) -> Interval:
    """Return a mean over repetitions."""
    array = np.array(values)
    return Interval(float(array.mean()), *bounds(array[_picks(len(array), seed)].mean(axis=1)))


def bounds(drawn: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % confidence interval of a figure, by its values in the bootstrap's resamples."""
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(low), float(high)


def _picks(repetitions: int, seed: int) -> npt.NDArray[np.int64]:
    """Draw repetitions again, with replacement: each row is one resample."""
    return np.random.default_rng(seed).integers(repetitions, size=(_RESAMPLES, repetitions))
