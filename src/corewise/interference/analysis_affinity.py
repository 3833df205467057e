"""How much longer work takes under pressure, metric by metric, and how far that is to be believed. Pure.

A metric's pressure is put on the cluster's own scale: 0 is the 5th percentile over all nodes and times, 1 the
95th. With ``y`` a run's pace over the median pace of its type,

    y = y0 x (1 + sum of effect_k x pressure_k)

is fitted by least squares, no effect being negative: one that comes out so is left out, and the rest fitted
anew. Run times scatter by a part of themselves, so errors count relative to ``y``. So an effect is how much
longer work takes on the most pressed nodes than on the least pressed ones, as far as this metric goes: 0.5 is
half as long again. What moves together is not counted twice; two metrics whose pressures correlate above
``INSEPARABLE`` cannot be told apart, and share their effect evenly.

Whether there is an effect at all is asked of ranks, which no single odd run can move: ``r`` is the partial
rank correlation (Spearman's) of pace and pressure, given the other pressures, and with ``n`` runs

    t = r x sqrt((n - 1 - metrics) / (1 - r^2))
    believed = effect x max(0, 1 - 1 / t^2)         0 where r is not positive (James and Stein)

    measured = 100 x min(1, believed)
    affinity = (n x measured + FEW x default) / (n + FEW)

A metric whose pressure the type's runs saw less of than ``LEAST_SEEN`` of the cluster's scale says nothing:
its affinity is the default one. Runs that took more than ``ODD`` times the median are left out: something
else happened to them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from corewise.interference.analysis_fit import Numbers, least_squares
from corewise.interference.analysis_history import Run

FEW = 10
FEWEST = 12
"""Runs below which nothing is said."""

ODD = 5.0
LEAST_SEEN = 0.2
LEAST_MOVED = 0.05
"""Of the largest value: a cluster whose pressure moves less between its percentiles does not vary."""

INSEPARABLE = 0.95
_RANK_RIDGE = 1e-4
_REWEIGHTED = 2
_NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class Scale:
    """The cluster's range of a metric: its 5th and 95th percentile over nodes and times."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Numbers) -> Scale:
        low, high = np.percentile(values, (5, 95)) if len(values) else (0.0, 0.0)
        return cls(float(low), float(high))

    @property
    def varies(self) -> bool:
        return self.high - self.low > LEAST_MOVED * abs(self.high)

    def place(self, values: Numbers) -> Numbers:
        """Return where values are: 0 to 1."""
        placed: Numbers = np.clip((values - self.low) / (self.high - self.low), 0.0, 1.0)
        return placed


@dataclass(frozen=True, slots=True)
class Affinity:
    """What was found about a metric. ``spread`` is half of the 95 % interval of ``value``, in points.

    ``why_default`` says why nothing was measured and ``value`` is the default; empty where it was.
    """

    value: int
    effect: float = 0.0
    correlation: float = 0.0
    spread: float = 0.0
    seen: float = 0.0
    inseparable_from: tuple[str, ...] = ()
    why_default: str = ""


@dataclass(frozen=True, slots=True)
class _Fit:
    """Effects, their standard errors and partial rank correlations, by column."""

    effect: Numbers
    error: Numbers
    correlation: Numbers


def usual_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the runs without the odd ones."""
    median = float(np.median([run.pace for run in runs])) if runs else 0.0
    return [run for run in runs if run.pace <= ODD * median]


def affinities(
    runs: Sequence[Run], scales: Mapping[str, Scale], default: Mapping[str, int]
) -> dict[str, Affinity]:
    """Return what these runs of one type say about every metric of ``default``.

    A metric that most runs lack is not asked; of the others, runs that lack one are left out. Nothing is said
    by fewer than ``FEWEST`` runs.
    """
    there = [metric for metric in default if 2 * sum(metric in run.pressure for run in runs) > len(runs)]
    whole = [run for run in runs if all(metric in run.pressure for metric in there)]
    found: dict[str, Affinity] = {}
    columns: dict[str, Numbers] = {}
    for metric, usual in default.items():
        seen, why = 0.0, _silent(metric, there, scales)
        if not why and len(whole) < FEWEST:
            why = f"only {len(whole)} runs have all metrics"
        if not why:
            column = scales[metric].place(np.array([run.pressure[metric] for run in whole]))
            seen = _seen(column)
            if seen >= LEAST_SEEN:
                columns[metric] = column
            else:
                why = f"its pods saw {seen:.0%} of the cluster's range"
        found[metric] = Affinity(usual, seen=seen, why_default=why)
    if columns:
        paces = np.array([run.pace for run in whole])
        found |= _measured(paces, columns, default, {metric: each.seen for metric, each in found.items()})
    return found


def _silent(metric: str, there: Sequence[str], scales: Mapping[str, Scale]) -> str:
    """Return why a metric says nothing for any type; empty if it may."""
    if metric not in there:
        return "unknown for most runs"
    scale = scales[metric]
    return "" if scale.varies else f"never varied: {scale.low:.4g} to {scale.high:.4g} over all nodes"


def _seen(column: Numbers) -> float:
    low, high = np.percentile(column, (5, 95)) if len(column) else (0.0, 0.0)
    return float(high - low)


def _measured(
    paces: Numbers, columns: Mapping[str, Numbers], default: Mapping[str, int], seen: Mapping[str, float]
) -> dict[str, Affinity]:
    groups = _inseparable(columns)
    joined = np.column_stack([np.mean([columns[metric] for metric in group], axis=0) for group in groups])
    fit = _fit(paces / np.median(paces), joined)
    found = {}
    for index, group in enumerate(groups):
        for metric in group:
            part = 1 / len(group)
            effect, correlation = float(fit.effect[index]) * part, float(fit.correlation[index])
            believed = effect * _belief(correlation, len(paces), len(groups))
            found[metric] = Affinity(
                value=_shrunk(100 * min(1.0, believed), default[metric], len(paces)),
                effect=effect,
                correlation=correlation,
                spread=100 * _NORMAL_95 * float(fit.error[index]) * part,
                seen=seen[metric],
                inseparable_from=tuple(other for other in group if other != metric),
            )
    return found


def _inseparable(columns: Mapping[str, Numbers]) -> list[list[str]]:
    """Return the metrics in groups of those whose pressures move as one."""
    groups: list[list[str]] = []
    for metric, column in columns.items():
        for group in groups:
            if np.corrcoef(columns[group[0]], column)[0, 1] > INSEPARABLE:
                group.append(metric)
                break
        else:
            groups.append([metric])
    return groups


def _fit(paces: Numbers, pressures: Numbers) -> _Fit:
    """Fit paces to pressures, no effect being negative, each weighted by what the fit before says of it."""
    design = np.column_stack([np.ones(len(paces)), pressures])
    solution, errors = least_squares(paces, design, free=1)
    for _ in range(_REWEIGHTED):
        weights = 1 / np.maximum(design @ solution, 1 / ODD)
        solution, errors = least_squares(paces * weights, design * weights[:, None], free=1)
    base = max(float(solution[0]), 1 / ODD)
    return _Fit(solution[1:] / base, errors[1:] / base, _partial_rank_correlations(paces, pressures))


def _partial_rank_correlations(paces: Numbers, pressures: Numbers) -> Numbers:
    """Return Spearman's correlation of pace with each column, given the other columns."""
    ranks = np.column_stack([_ranks(column) for column in (paces, *pressures.T)])
    wide = ranks.shape[1]
    if np.ptp(paces) == 0:
        return np.zeros(wide - 1)
    precision = np.linalg.inv(np.corrcoef(ranks, rowvar=False) + _RANK_RIDGE * np.eye(wide))
    scale = np.sqrt(precision[0, 0] * np.diag(precision)[1:])
    found: Numbers = -precision[0, 1:] / scale
    return found


def _ranks(values: Numbers) -> Numbers:
    """Return the rank of each value; equal ones share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle: Numbers = last - (counts - 1) / 2.0
    ranks: Numbers = middle[inverse]
    return ranks


def _belief(correlation: float, runs: int, metrics: int) -> float:
    if correlation <= 0:
        return 0.0
    spare = max(1, runs - 1 - metrics)
    squared = correlation**2 * spare / max(1e-9, 1 - correlation**2)
    return 1 - 1 / squared if squared > 1 else 0.0


def _shrunk(measured: float, default: int, runs: int) -> int:
    return math.floor((runs * measured + FEW * default) / (runs + FEW) + 0.5)
