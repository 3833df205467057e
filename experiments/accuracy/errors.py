"""How far the mix's ratio of two CPU models is from what programs gain. Pure: draws have a seed.

    error of a program = | ln(mix on A / mix on B) - ln(program on A / program on B) |, in percent

The speed of a model is the median of its runs, and of a run the median of its repetitions; the mix is the
geometric mean of its kernels, as for ratios. A program is compared only between runs of one version of it.

Intervals (95 %) are by bootstrap: runs, repetitions and, for figures over all programs, the programs too are
drawn with replacement, since other programs could have been chosen. The CPU models are not drawn: a figure is
one of these models.

Weights of the kernels are chosen on a grid of twelfths by the mean error. *Leave one out*: for each program,
by all others; the error is that of the program left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from corewise.normalization.mix import KERNELS, VERSION
from experiments.accuracy.records import MeasuredRun
from experiments.latency.figures import bounds

DRAWS = 1000
STEPS = 12
"""The grid of weights."""
_SEED = 37
_PERCENT = 100.0
_P95 = 0.95
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure in percent, and its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} % ({self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True, slots=True)
class Weighted:
    """The best weights of the kernels, and errors with them: of all programs, and of each when left out."""

    weights: Mapping[str, float]
    median: float
    p95: float
    left_out_median: float
    left_out_p95: float


class Comparison:
    """The errors of all pairs of models.

    ``programs`` are those that some pair has in one version. ``errors`` has pairs in rows and programs in
    columns, in percent; NaN where a pair does not have a program in one version.
    """

    def __init__(self, runs: Sequence[MeasuredRun]) -> None:
        self.models = by_model(runs)
        self.pairs = list(combinations(self.models, 2))
        self.programs = [
            name
            for name in dict.fromkeys(name for run in runs for name in run.programs)
            if any(_are_equal(*(_version(self.models[each], name) for each in pair)) for pair in self.pairs)
        ]
        rng = np.random.default_rng(_SEED)
        self._speeds = {name: _Speeds(of, self.programs, rng) for name, of in self.models.items()}
        self._rng = rng

    @cached_property
    def kernels(self) -> Floats:
        """The log ratios of the kernels, in the order of the mix: pairs in rows."""
        return np.array([self._of(pair)[0][0] for pair in self.pairs])

    @cached_property
    def gains(self) -> Floats:
        """The log ratios of the programs: pairs in rows."""
        return np.array([self._of(pair)[1][0] for pair in self.pairs])

    def _of(self, pair: tuple[str, str]) -> tuple[Floats, Floats]:
        """Return log ratios of kernels and of programs: first as measured, then of each draw."""
        one, other = (self._speeds[name] for name in pair)
        same = np.array([_are_equal(one.versions[name], other.versions[name]) for name in self.programs])
        gains = np.where(same, one.programs - other.programs, np.nan)
        return one.kernels - other.kernels, gains

    @cached_property
    def _drawn(self) -> Floats:
        """The errors: draws, pairs, programs; the first draw is what was measured."""
        found = []
        for pair in self.pairs:
            kernels, gains = self._of(pair)
            found.append(np.abs(kernels.mean(axis=1, keepdims=True) - gains) * _PERCENT)
        return np.stack(found, axis=1)

    @cached_property
    def _chosen(self) -> npt.NDArray[np.int64]:
        """The programs of each draw; the first draw has all once."""
        count = len(self.programs)
        chosen = self._rng.integers(0, count, (DRAWS + 1, count))
        chosen[0] = np.arange(count)
        return chosen

    @property
    def errors(self) -> Floats:
        of_first: Floats = self._drawn[0]
        return of_first

    def compared(self, program: str) -> int:
        """Return between how many pairs a program was compared."""
        return int(np.count_nonzero(~np.isnan(self.errors[:, self.programs.index(program)])))

    def of_program(self, program: str, quantile: float) -> Figure:
        """Return a quantile of a program's errors over the pairs."""
        drawn = self._drawn[:, :, self.programs.index(program)]
        return _figure(np.quantile(drawn[:, ~np.isnan(drawn[0])], quantile, axis=1))

    def of_all(self, quantile: float) -> Figure:
        """Return a quantile of the errors of all programs and pairs."""
        pairs = zip(self._drawn, self._chosen, strict=True)
        values = [_quantile(drawn[:, columns], quantile) for drawn, columns in pairs]
        return _figure(np.array(values))

    def of_best_ratios(self, quantile: float) -> float:
        """Return a quantile of the errors if each pair had the ratio with which it is smallest for that pair.

        For a single pair no mix does better: it too comes to one ratio for all programs.
        """
        return _quantile(np.concatenate([_nearest(gains, quantile) for gains in self.gains]), quantile)

    def best_weights(self) -> Weighted:
        """Return the weights of the kernels with the smallest mean error, and what they come to."""
        grid = weights_grid(len(KERNELS))
        predicted = grid @ self.kernels.T
        errors = np.abs(predicted[:, :, None] - self.gains[None]) * _PERCENT
        costs = np.nanmean(errors, axis=1)
        # Of weights that are as good, those nearest to equal ones.
        tie = 1e-9 * np.abs(grid - 1 / len(KERNELS)).sum(axis=1)
        total = np.nansum(costs, axis=1) + tie
        best = int(np.argmin(total))
        left_out = np.concatenate(
            [
                errors[int(np.argmin(total - np.nan_to_num(costs[:, at]))), :, at]
                for at in range(len(self.programs))
            ]
        )
        of_best = errors[best]
        return Weighted(
            dict(zip(KERNELS, grid[best].tolist(), strict=True)),
            _quantile(of_best, 0.5),
            _quantile(of_best, _P95),
            _quantile(left_out, 0.5),
            _quantile(left_out, _P95),
        )


class _Speeds:
    """The log speeds of one model: in row 0 as measured, in the others as drawn."""

    def __init__(
        self, runs: Sequence[MeasuredRun], programs: Sequence[str], rng: np.random.Generator
    ) -> None:
        picks = rng.integers(0, len(runs), (DRAWS, len(runs)))
        self.versions = {name: _version(runs, name) for name in programs}

        def column(rates: Sequence[Sequence[int]]) -> Floats:
            return _medians(rates, picks, rng)

        self.kernels = np.stack([column([run.kernels[name] for run in runs]) for name in KERNELS], axis=1)
        self.programs = np.full((DRAWS + 1, len(programs)), np.nan)
        for at, name in enumerate(programs):
            if self.versions[name] is not None:
                self.programs[:, at] = column([run.programs[name].rates for run in runs])


def _version(runs: Sequence[MeasuredRun], program: str) -> str | None:
    """Return the version of a program in these runs; None if one lacks it, or they differ."""
    versions = {run.programs[program].version if program in run.programs else None for run in runs}
    return versions.pop() if len(versions) == 1 else None


def _are_equal(one: str | None, other: str | None) -> bool:
    return one is not None and one == other


def _medians(
    rates: Sequence[Sequence[int]], picks: npt.NDArray[np.int64], rng: np.random.Generator
) -> Floats:
    """Return the log of the median over runs of medians over repetitions: as measured, then of each draw."""
    measured = np.log([np.median(of_run) for of_run in rates])
    drawn = np.stack(
        [
            np.log(np.median(np.asarray(of_run)[rng.integers(0, len(of_run), (DRAWS, len(of_run)))], axis=1))
            for of_run in rates
        ],
        axis=1,
    )
    return np.concatenate(
        [[np.median(measured)], np.median(np.take_along_axis(drawn, picks, axis=1), axis=1)]
    )


def _nearest(gains: Floats, quantile: float) -> Floats:
    """Return the errors of the best ratio: of those half-way between two programs, one is the best."""
    known = gains[~np.isnan(gains)]
    if not known.size:
        return known
    ratios = np.unique((known[:, None] + known) / 2)
    errors: Floats = np.abs(known - ratios[:, None]) * _PERCENT
    best: Floats = errors[int(np.argmin(np.quantile(errors, quantile, axis=1)))]
    return best


def _quantile(errors: Floats, quantile: float) -> float:
    return float(np.quantile(errors[~np.isnan(errors)], quantile))


def _figure(values: Floats) -> Figure:
    return Figure(float(values[0]), *bounds(values[1:]))


def by_model(runs: Sequence[MeasuredRun]) -> Mapping[str, Sequence[MeasuredRun]]:
    """Return the runs of the present mix by CPU model with its settings, in the order of the names."""
    found: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        if run.mix == VERSION:
            found.setdefault(run.machine.name, []).append(run)
    return dict(sorted(found.items()))


def weights_grid(count: int) -> Floats:
    """Return all weights in twelfths that add up to one."""

    def parts(left: int, of: int) -> Iterator[tuple[int, ...]]:
        if of == 1:
            yield (left,)
            return
        for first in range(left + 1):
            for rest in parts(left - first, of - 1):
                yield (first, *rest)

    return np.array(list(parts(STEPS, count))) / STEPS


def spread(rates: Sequence[int]) -> float:
    """Return the width of the middle half of the repetitions over their median, in percent."""
    low, middle, high = np.quantile(np.asarray(rates), [0.25, 0.5, 0.75])
    return float((high - low) / middle * _PERCENT)
