"""The off-line analysis: what each type of workload uses, and what slows it down, from a history. Pure.

    findings = analyse(history, affinity)

A type's *use* is the mean over everything that was seen of its pods after their warm-up, every value counting
once, beside the 95th percentile. Its *affinities* say how much longer its work takes under pressure
(:mod:`analysis_affinity`), by cycles per instruction where enough runs have them, else by how long its Jobs
took (:mod:`analysis_history`).

What cannot be said is refused with a reason: too few runs, or none whose pressure differed. A type that is
refused has no affinities at all; what it uses is told all the same. Bandwidth that nobody counted by pod is
estimated from what nodes used while the type's pods ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from corewise.interference.analysis_affinity import (
    FEWEST,
    Affinity,
    Scale,
    affinities,
    usual_runs,
)
from corewise.interference.analysis_fit import Numbers
from corewise.interference.analysis_history import (
    History,
    PodRecord,
    Run,
    Slicing,
    runs_by_cpi,
    runs_by_duration,
    use_after_warm_up,
)
from corewise.interference.analysis_shares import Share, bandwidth_shares
from corewise.vocabulary.reasons import Reason

BANDWIDTH = "memoryBandwidth"
AMOUNTS = (BANDWIDTH, "memory", "cpu", "llc")
"""What a profile holds, by the names it has there: bytes/s, bytes, CPUs, bytes."""

SURE = 10.0
LIKELY = 25.0
_MANY = 50


class Pace(StrEnum):
    """What a type's runs were timed by."""

    CPI = "cycles per instruction"
    DURATION = "run time"


class Confidence(StrEnum):
    """How far an affinity may be off: within ``SURE`` points, within ``LIKELY``, or more."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Use:
    """What pods of a type used of something. ``spread`` is the standard deviation of the pods' own means.

    Where nobody counted by pod, it is ``estimated`` from what nodes used (:mod:`analysis_shares`): ``p95`` is
    the mean then, and ``spread`` half of its 95 % interval.
    """

    mean: float
    p95: float
    spread: float
    pods: int
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a type has no affinities."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about a type. ``odd`` runs are left out; ``affinity`` is empty where it is refused."""

    type: str
    pods: int
    pace: Pace | None
    runs: int
    odd: int
    nodes: int
    use: Mapping[str, Use]
    affinity: Mapping[str, Affinity] = field(default_factory=dict)
    refusal: Refusal | None = None

    def confidence(self, metric: str) -> Confidence:
        """Return how much the affinity to a metric is to be trusted."""
        found = self.affinity.get(metric)
        if found is None or found.why_default:
            return Confidence.NONE
        if found.spread <= SURE and self.runs >= _MANY:
            return Confidence.HIGH
        return Confidence.MEDIUM if found.spread <= LIKELY else Confidence.LOW


def analyse(
    history: History, default: Mapping[str, int], slicing: Slicing | None = None
) -> tuple[Finding, ...]:
    """Return what the history says about each type, by name. ``default``: the affinity to every metric."""
    cut, history = slicing or Slicing(), history.comparable()
    scales = {metric: _scale(history, metric) for metric in default}
    by_type: dict[str, list[PodRecord]] = {}
    for pod in history.pods:
        by_type.setdefault(pod.type, []).append(pod)
    found = (
        _finding(history, kind, by_type[kind], scales=scales, default=default, slicing=cut)
        for kind in sorted(by_type)
    )
    return tuple(_with_shares(list(found), bandwidth_shares(history, cut.window)))


def _with_shares(findings: Sequence[Finding], shares: Mapping[str, Share]) -> Iterator[Finding]:
    """Yield the findings, with estimates of bandwidth where none was counted."""
    for each in findings:
        share = shares.get(each.type)
        if share is None or BANDWIDTH in each.use:
            yield each
        else:
            estimate = Use(share.value, share.value, share.spread, each.pods, estimated=True)
            yield replace(each, use={BANDWIDTH: estimate, **each.use})


def _finding(
    history: History,
    kind: str,
    pods: Sequence[PodRecord],
    *,
    scales: Mapping[str, Scale],
    default: Mapping[str, int],
    slicing: Slicing,
) -> Finding:
    pace, every = _runs(history, pods, slicing)
    runs = usual_runs(every)
    found = affinities(runs, scales, default) if len(runs) >= FEWEST else {}
    refusal = _refusal(pace, runs, found)
    return Finding(
        type=kind,
        pods=len(pods),
        pace=pace,
        runs=len(runs),
        odd=len(every) - len(runs),
        nodes=len({run.node for run in runs}),
        use={what: used for what in AMOUNTS if (used := _use(pods, what, slicing)) is not None},
        affinity={} if refusal else found,
        refusal=refusal,
    )


def _runs(history: History, pods: Sequence[PodRecord], slicing: Slicing) -> tuple[Pace | None, list[Run]]:
    counted = runs_by_cpi(history, pods, slicing)
    if len(counted) >= FEWEST:
        return Pace.CPI, counted
    finished = runs_by_duration(history, pods)
    if len(finished) >= len(counted):
        return (Pace.DURATION if finished else None), finished
    return Pace.CPI, counted


def _refusal(pace: Pace | None, runs: Sequence[Run], found: Mapping[str, Affinity]) -> Refusal | None:
    if pace is None:
        text = "no pod of it finished as a Job's pod does, and none had its cycles per instruction counted"
        return Refusal(Reason.TOO_FEW_RUNS, text)
    if len(runs) < FEWEST:
        kind = "runs" if pace is Pace.DURATION else "episodes"
        return Refusal(Reason.TOO_FEW_RUNS, f"{len(runs)} {kind} by {pace}; at least {FEWEST} are needed")
    if all(each.why_default for each in found.values()):
        why = "; ".join(f"{metric}: {each.why_default}" for metric, each in found.items())
        return Refusal(Reason.PRESSURE_NEVER_VARIED, why)
    return None


def _scale(history: History, metric: str) -> Scale:
    series = [
        each[metric].values / history.measure(node, metric)
        for node, each in history.nodes.items()
        if metric in each
    ]
    return Scale.of(np.concatenate(series) if series else np.empty(0))


def _use(pods: Sequence[PodRecord], what: str, slicing: Slicing) -> Use | None:
    values: list[Numbers] = [use_after_warm_up(pod, what, slicing) for pod in pods]
    seen = [each for each in values if len(each)]
    if not seen:
        return None
    every = np.concatenate(seen)
    return Use(
        mean=float(every.mean()),
        p95=float(np.percentile(every, 95)),
        spread=float(np.std([each.mean() for each in seen])),
        pods=len(seen),
    )
