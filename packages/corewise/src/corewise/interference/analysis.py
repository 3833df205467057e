"""The off-line analysis of a history: what each type of workload uses, and what slows it down. Pure.

    findings = analyze(history, affinity)

A type's *use* is the mean over all values of its pods after their warm-up, beside the 95th percentile.
Bandwidth that was not counted by pod is estimated (:func:`~corewise.interference.history.bandwidth_shares`).
Its *affinities* say how much longer its work takes under pressure: by cycles per instruction where enough
runs have them, else by how long its Jobs took. A type with too few runs, or none whose pressure differed, is
refused with the reason; it has no affinities, and its use is reported all the same.

A metric's pressure is put on the cluster's own scale: 0 is the 5th percentile over all nodes and times, 1 the
95th. With ``y`` a run's pace over the median pace of its type,

    y = y0 x (1 + sum of effect_k x pressure_k)

is fitted by least squares, no effect being negative: the most negative one is left out, and the rest fitted
again. Run times scatter in proportion to themselves, so errors count relative to ``y``. An effect is how much
longer work takes on the most loaded nodes than on the least loaded ones, due to this metric: 0.5 is half as
long again. What moves together is not counted twice: metrics whose pressures correlate above ``INSEPARABLE``
cannot be told apart, and share their effect evenly.

Whether there is an effect at all is decided by ranks, which no single odd run can move: ``r`` is the partial
rank correlation (Spearman's) of pace and pressure, given the other pressures, and with ``n`` runs

    t = r x sqrt((n - 1 - metrics) / (1 - r^2))
    believed = effect x max(0, 1 - 1 / t^2)         0 where r is not positive (James and Stein)

    measured = 100 x min(1, believed)
    affinity = (n x measured + FEW x default) / (n + FEW)

A metric gets its default affinity if the type's runs saw less than ``LEAST_SEEN`` of the cluster's scale.
Runs that took more than ``ODD`` times the median are left out: something else happened to them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from corewise.interference.history import (
    NORMAL_95,
    History,
    Numbers,
    PodRecord,
    Run,
    Slicing,
    bandwidth_shares,
    least_squares,
    runs_by_cpi,
    runs_by_duration,
    use_after_warm_up,
)
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

AMOUNTS = ("memoryBandwidth", "memory", "cpu", "llc")
"""The amounts in a profile, by their names there: bytes/s, bytes, CPUs, bytes."""

BANDWIDTH = AMOUNTS[0]
FEW = 10
FEWEST = 12
"""Runs below which nothing is said."""

ODD = 5.0
LEAST_SEEN = 0.2
LEAST_MOVED = 0.05
"""Of the largest value: a cluster whose pressure moves less between its percentiles does not vary."""

INSEPARABLE = 0.95
SURE = 10.0
LIKELY = 25.0
_MANY = 50
_RANK_RIDGE = 1e-4
_REWEIGHTED = 2


class Pace(StrEnum):
    """The measure that times a type's runs."""

    CPI = "cycles per instruction"
    DURATION = "run time"


class Confidence(StrEnum):
    """The accuracy of an affinity: within ``SURE`` points, within ``LIKELY``, or worse."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class TypeUse:
    """The use of a resource by pods of a type. ``spread``: the standard deviation of the pods' own means.

    Where it was not counted by pod, it is ``estimated`` from what nodes used: ``p95`` is the mean then, and
    ``spread`` half of its 95 % interval.
    """

    mean: float
    p95: float
    spread: float
    pods: int
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class AffinityEstimate:
    """The estimate for a metric. ``spread`` is half of the 95 % interval of ``value``, in points.

    ``why_default`` says why nothing was measured and ``value`` is the default; empty if it was measured.
    """

    value: int
    effect: float = 0.0
    correlation: float = 0.0
    spread: float = 0.0
    seen: float = 0.0
    inseparable_from: tuple[str, ...] = ()
    why_default: str = ""


@dataclass(frozen=True, slots=True)
class TypeFinding:
    """The findings for a type. ``odd`` runs are left out; ``affinity`` is empty where it is refused."""

    type: str
    pods: int
    pace: Pace | None
    runs: int
    odd: int
    nodes: int
    use: Mapping[str, TypeUse]
    affinity: Mapping[str, AffinityEstimate] = field(default_factory=dict)
    refusal: Finding | None = None

    def confidence(self, metric: str) -> Confidence:
        """Return the confidence in the affinity to a metric."""
        found = self.affinity.get(metric)
        if found is None or found.why_default:
            return Confidence.NONE
        if found.spread <= SURE and self.runs >= _MANY:
            return Confidence.HIGH
        return Confidence.MEDIUM if found.spread <= LIKELY else Confidence.LOW


@dataclass(frozen=True, slots=True)
class MetricRange:
    """The cluster's range of a metric: its 5th and 95th percentile over nodes and times."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Numbers) -> MetricRange:
        low, high = np.percentile(values, (5, 95)) if len(values) else (0.0, 0.0)
        return cls(float(low), float(high))

    @property
    def varies(self) -> bool:
        return self.high - self.low > LEAST_MOVED * abs(self.high)

    def place(self, values: Numbers) -> Numbers:
        """Return the positions of values on the scale: 0 to 1."""
        placed: Numbers = np.clip((values - self.low) / (self.high - self.low), 0.0, 1.0)
        return placed


def analyze(
    history: History, default: Mapping[str, int], slicing: Slicing | None = None
) -> tuple[TypeFinding, ...]:
    """Return the findings for each type, by name. ``default``: the affinity to every metric."""
    slicing, history = slicing or Slicing(), history.comparable()
    scales = {metric: _scale(history, metric) for metric in default}
    by_type: dict[str, list[PodRecord]] = {}
    for pod in history.pods:
        by_type.setdefault(pod.type, []).append(pod)
    shares = bandwidth_shares(history, slicing.window)
    found = []
    for kind, pods in sorted(by_type.items()):
        use = {what: used for what in AMOUNTS if (used := _use(pods, what, slicing)) is not None}
        if BANDWIDTH not in use and kind in shares:
            share = shares[kind]
            use = {
                BANDWIDTH: TypeUse(share.value, share.value, share.spread, len(pods), estimated=True),
                **use,
            }
        found.append(_finding(history, kind, pods, use, scales=scales, default=default, slicing=slicing))
    return tuple(found)


def _scale(history: History, metric: str) -> MetricRange:
    series = [
        each[metric].values / history.reference(node, metric)
        for node, each in history.nodes.items()
        if metric in each
    ]
    return MetricRange.of(np.concatenate(series) if series else np.empty(0))


def _use(pods: Sequence[PodRecord], what: str, slicing: Slicing) -> TypeUse | None:
    by_pod: list[Numbers] = [values for pod in pods if len(values := use_after_warm_up(pod, what, slicing))]
    if not by_pod:
        return None
    every = np.concatenate(by_pod)
    spread = float(np.std([values.mean() for values in by_pod]))
    return TypeUse(float(every.mean()), float(np.percentile(every, 95)), spread, len(by_pod))


def _finding(
    history: History,
    kind: str,
    pods: Sequence[PodRecord],
    use: Mapping[str, TypeUse],
    *,
    scales: Mapping[str, MetricRange],
    default: Mapping[str, int],
    slicing: Slicing,
) -> TypeFinding:
    """Choose what times the runs, fit the affinities, and refuse what they cannot say."""
    every, pace = runs_by_cpi(history, pods, slicing), Pace.CPI
    if len(every) < FEWEST:
        finished = runs_by_duration(history, pods)
        if len(finished) >= len(every):
            every, pace = finished, Pace.DURATION
    runs = usual_runs(every)
    found = affinities(runs, scales, default) if len(runs) >= FEWEST else {}
    refusal = _refusal(pace, every, runs, found)
    return TypeFinding(
        type=kind,
        pods=len(pods),
        pace=pace if every else None,
        runs=len(runs),
        odd=len(every) - len(runs),
        nodes=len({run.node for run in runs}),
        use=use,
        affinity={} if refusal else found,
        refusal=refusal,
    )


def usual_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the runs without the odd ones."""
    median = float(np.median([run.pace for run in runs])) if runs else 0.0
    return [run for run in runs if run.pace <= ODD * median]


def _refusal(
    pace: Pace, every: Sequence[Run], runs: Sequence[Run], found: Mapping[str, AffinityEstimate]
) -> Finding | None:
    if not every:
        text = "no pod finished as a Job's pod does, and none had its cycles per instruction counted"
        return Finding(Reason.TOO_FEW_RUNS, text)
    if len(runs) < FEWEST:
        kind = "runs" if pace is Pace.DURATION else "episodes"
        return Finding(Reason.TOO_FEW_RUNS, f"{len(runs)} {kind} by {pace}; at least {FEWEST} are needed")
    if all(each.why_default for each in found.values()):
        why = "; ".join(f"{metric}: {each.why_default}" for metric, each in found.items())
        return Finding(Reason.PRESSURE_NEVER_VARIED, why)
    return None


def affinities(
    runs: Sequence[Run], scales: Mapping[str, MetricRange], default: Mapping[str, int]
) -> dict[str, AffinityEstimate]:
    """Return the estimates from these runs of one type for every metric of ``default``.

    A metric that most runs lack is left out; of the others, runs that lack one are. Fewer than ``FEWEST``
    runs say nothing.
    """
    common = [metric for metric in default if 2 * sum(metric in run.pressure for run in runs) > len(runs)]
    complete = [run for run in runs if all(metric in run.pressure for metric in common)]
    found: dict[str, AffinityEstimate] = {}
    columns: dict[str, Numbers] = {}
    for metric, usual in default.items():
        scale, seen, why = scales[metric], 0.0, ""
        if metric not in common:
            why = "unknown for most runs"
        elif not scale.varies:
            why = f"never varied: {scale.low:.4g} to {scale.high:.4g} over all nodes"
        elif len(complete) < FEWEST:
            why = f"only {len(complete)} runs have all metrics"
        else:
            column = scale.place(np.array([run.pressure[metric] for run in complete]))
            low, high = np.percentile(column, (5, 95))
            seen = float(high - low)
            if seen >= LEAST_SEEN:
                columns[metric] = column
            else:
                why = f"its pods saw {seen:.0%} of the cluster's range"
        found[metric] = AffinityEstimate(usual, seen=seen, why_default=why)
    if columns:
        found |= _measured(np.array([run.pace for run in complete]), columns, found)
    return found


def _measured(
    paces: Numbers, columns: Mapping[str, Numbers], default: Mapping[str, AffinityEstimate]
) -> dict[str, AffinityEstimate]:
    """Return the default affinities of these columns' metrics with what was measured in their place."""
    groups = _inseparable(columns)
    pressures = np.column_stack([np.mean([columns[metric] for metric in group], axis=0) for group in groups])
    paces = paces / np.median(paces)
    effects, errors = _fit(paces, pressures)
    correlations = _partial_rank_correlations(paces, pressures)
    found, runs = {}, len(paces)
    for group, whole, error, correlation in zip(
        groups, effects.tolist(), errors.tolist(), correlations.tolist(), strict=True
    ):
        part = 1 / len(group)
        effect = whole * part
        measured = 100 * min(1.0, effect * _belief(correlation, runs, len(groups)))
        for metric in group:
            found[metric] = replace(
                default[metric],
                value=math.floor((runs * measured + FEW * default[metric].value) / (runs + FEW) + 0.5),
                effect=effect,
                correlation=correlation,
                spread=100 * NORMAL_95 * error * part,
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


def _fit(paces: Numbers, pressures: Numbers) -> tuple[Numbers, Numbers]:
    """Return effects and their standard errors, each fit weighted by the paces of the one before."""
    design = np.column_stack([np.ones(len(paces)), pressures])
    solution, errors = least_squares(paces, design, free=1)
    for _ in range(_REWEIGHTED):
        weights = 1 / np.maximum(design @ solution, 1 / ODD)
        solution, errors = least_squares(paces * weights, design * weights[:, None], free=1)
    base = max(float(solution[0]), 1 / ODD)
    return solution[1:] / base, errors[1:] / base


def _partial_rank_correlations(paces: Numbers, pressures: Numbers) -> Numbers:
    """Return Spearman's correlation of pace with each column, given the other columns."""
    ranks = np.column_stack([_ranks(column) for column in (paces, *pressures.T)])
    width = ranks.shape[1]
    if np.ptp(paces) == 0:
        return np.zeros(width - 1)
    precision = np.linalg.inv(np.corrcoef(ranks, rowvar=False) + _RANK_RIDGE * np.eye(width))
    scale = np.sqrt(precision[0, 0] * np.diag(precision)[1:])
    found: Numbers = -precision[0, 1:] / scale
    return found


def _ranks(values: Numbers) -> Numbers:
    """Return the rank of each value; equal ones share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle: Numbers = np.cumsum(counts) - (counts - 1) / 2.0
    ranks: Numbers = middle[inverse]
    return ranks


def _belief(correlation: float, runs: int, metrics: int) -> float:
    """Return the part of an effect that is believed, by the t of its rank correlation."""
    if correlation <= 0:
        return 0.0
    squared = correlation**2 * max(1, runs - 1 - metrics) / max(1e-9, 1 - correlation**2)
    return 1 - 1 / squared if squared > 1 else 0.0
