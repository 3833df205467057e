"""The report of a run: what each node offered and delivered with corewise off and on, and what it cost. Pure.

Every number comes from the run. Keys say their unit; CPU is in milli-CPU unless it says otherwise, compute
in baseline CPUs (:mod:`corewise_lab.machines`). ``off`` is null in a cluster that was on already
when the run began (``--state``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from corewise.quantities import Bytes
from corewise_lab.agents import WINDOW
from corewise_lab.measurement import ClusterMeasurement, Colocation, NodeMeasurement, total
from corewise_lab.node_memory import MemoryState, mean, summary

if TYPE_CHECKING:
    from corewise.views.cluster_report import ClusterReport

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rest:
    """A part of the run in which nothing changed, and the node writes in it."""

    seconds: float
    status_patches: int
    """Patches of nodes/status that kubelets sent."""
    node_writes: int
    """Writes of nodes that were stored, whoever sent them: what every watcher of nodes gets."""
    publications: int = 0
    """Those of them in which agents published what nodes offer to offline pods."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurements with corewise off, or with it on."""

    snapshot: ClusterMeasurement
    colocation: Mapping[str, Colocation] = field(default_factory=dict)
    """By node, for the nodes that have offline pods."""
    memory: Mapping[str, MemoryState] = field(default_factory=dict)
    """By node, for the nodes whose memory bandwidth is known."""
    pods_pending: int = 0
    """Those that fit on no node."""
    rest: Rest | None = None


@dataclass(frozen=True, slots=True)
class RunReport:
    """Everything a run has found out."""

    source: str
    notes: tuple[str, ...]
    off: Measurement | None
    on: Measurement
    changed: bool = False
    """Whether pods came or went after ``on`` was measured, such as by a drain: it was not at rest."""
    unsettled: tuple[str, ...] = ()
    """Nodes that the manager neither brought to their ratio in time nor said why not."""
    nodes_not_simulated: int = 0
    """Nodes with offline pods beyond those that were measured."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, Bytes | None] = field(default_factory=dict)
    failed_requests: int = 0
    last_failure: str = ""
    cluster: ClusterReport | None = None
    """The cluster at the end, if that was asked for."""

    @property
    def sound(self) -> bool:
        """Whether the run did what it set out to do."""
        return not self.unsettled


def document(report: RunReport) -> dict[str, Any]:
    """Return the report as it is printed with ``-o json``."""
    off, on = report.off, report.on
    nodes_off = {node.name: node for node in off.snapshot.nodes} if off else {}
    beside = total(on.colocation.values())
    return {
        "source": report.source,
        "sound": report.sound,
        "notes": list(report.notes),
        "nodes": [_node(report, nodes_off.get(node.name), node) for node in on.snapshot.nodes],
        "colocation": {
            "nodes": len(on.colocation),
            "nodesNotSimulated": report.nodes_not_simulated,
            "simulatedSeconds": int(WINDOW),
            **_pair(total(off.colocation.values()) if off else None, beside, _colocation),
        }
        if beside
        else None,
        "memory": _pair(off, on, _memory_summary) if on.memory else None,
        "spread": _pair(off, on, lambda of: _round(of.snapshot.spread)),
        "schedulableCPUMilli": _pair(off, on, lambda of: of.snapshot.schedulable),
        "requestedCPUMilli": _pair(off, on, lambda of: of.snapshot.requested),
        "pods": {
            **_pair(off, on, lambda of: of.snapshot.pods),
            "rejected": _pair(off, on, lambda of: of.snapshot.rejected),
            "pending": on.pods_pending,
        },
        "atRest": _pair(off, on, lambda of: _rest(of.rest)),
        "unsettledNodes": list(report.unsettled),
        "failedRequests": report.failed_requests,
        "lastFailure": report.last_failure,
        "seconds": {name: round(value, 2) for name, value in report.seconds.items()},
        "residentMemoryBytes": dict(report.memory),
    }


def _pair(off: T | None, on: T, show: Callable[[T], Any]) -> dict[str, Any]:
    return {"off": None if off is None else show(off), "on": show(on)}


def _node(report: RunReport, off: NodeMeasurement | None, on: NodeMeasurement) -> dict[str, Any]:
    name, before = on.name, report.off
    beside, memory = report.on.colocation.get(name), report.on.memory.get(name)
    return {
        "name": name,
        "cpuFacts": dict(on.facts) if on.facts is not None else None,
        "normalizationRatio": on.normalization_ratio,
        "amplificationRatio": dict(on.amplification_ratio),
        "rawCPUMilli": on.raw_capacity,
        "rawAllocatableCPUMilli": on.raw_allocatable,
        "amplifiedCPUMilli": on.amplified_capacity,
        "schedulableCPUMilli": _pair(off, on, lambda node: node.schedulable),
        "requestedCPUMilli": _pair(off, on, lambda node: node.requested),
        "pods": _pair(off, on, lambda node: node.pods),
        "computePerRequestedCPU": _pair(
            off, on, lambda node: _round(node.delivered.per_requested) if node.delivered else None
        ),
        "computeBaselineCPUs": _pair(
            off, on, lambda node: _round(node.delivered.compute) if node.delivered else None
        ),
        "colocation": _pair(before.colocation.get(name) if before else None, beside, _colocation)
        if beside
        else None,
        "memory": _pair(before.memory.get(name) if before else None, memory, _memory) if memory else None,
        "verdict": {"reason": on.verdict.reason, "message": on.verdict.message} if on.verdict else None,
    }


def _memory_summary(of: Measurement) -> dict[str, Any]:
    every = summary(of.memory.values())
    return {
        "nodes": every.nodes,
        "nodesAbove80Percent": every.crowded,
        "meanSlowdown": _round(every.mean_slowdown),
        "meanSlowdownByType": {kind: _round(mean(lost)) for kind, lost in every.slowdowns.items()},
        "podsPending": of.pods_pending,
    }


def _memory(of: MemoryState) -> dict[str, Any]:
    return {
        "bandwidthBytesPerSecond": round(of.bandwidth),
        "usedBytesPerSecond": round(of.used),
        "latencySeconds": of.latency,
        "llcOccupancyBytes": round(of.llc_occupancy),
        "llcMPKI": _round(of.llc_mpki),
        "meanSlowdown": _round(summary([of]).mean_slowdown),
    }


def _colocation(of: Colocation) -> dict[str, Any]:
    return {
        "onlineSlowdown": {"mean": _round(of.mean_slowdown), "worst": _round(of.worst_slowdown)},
        "onlineCPUTimeGrowth": _round(of.stretch),
        "onlineCPUs": _round(of.online),
        "offlineCPUs": _round(of.offline),
        "idleCPUsWithoutOffline": _round(of.idle_alone),
        "offeredCPUs": _round(of.offered),
        "offlineCPUsRefused": _round(of.refused),
        "utilization": _round(of.utilization),
    }


def _rest(rest: Rest | None) -> dict[str, float] | None:
    if rest is None:
        return None
    return {
        "seconds": round(rest.seconds, 1),
        "kubeletStatusPatchesSent": rest.status_patches,
        "nodeWritesStored": rest.node_writes,
        "offerPublications": rest.publications,
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
