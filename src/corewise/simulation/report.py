"""The report of a run: what each node offered and delivered with corewise off and on, and what it cost. Pure.

Every number comes from the run. Keys say their unit; CPU is in milli-CPU unless it says otherwise, compute
in baseline CPUs (:mod:`corewise.simulation.machines`). ``off`` is null in a cluster that was on already
when
the run began (``--state``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corewise.quantities import Bytes
from corewise.simulation.agents import WINDOW
from corewise.simulation.measurement import Colocation, NodeView, Snapshot, total
from corewise.simulation.node_memory import MemoryState, mean, summary


@dataclass(frozen=True, slots=True)
class Rest:
    """A stretch of the run in which nobody changed anything, and the node writes in it."""

    seconds: float
    status_patches: int
    """Patches of nodes/status that kubelets sent."""
    node_writes: int
    """Writes of nodes that were stored, whoever sent them: what every watcher of nodes gets."""
    publications: int = 0
    """Those of them in which agents told what nodes offer to offline pods."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a run has found out."""

    source: str
    notes: tuple[str, ...]
    off: Snapshot | None
    on: Snapshot
    unsettled: tuple[str, ...] = ()
    """Nodes that the manager neither brought to their ratio in time nor said why not."""
    rest_off: Rest | None = None
    rest_on: Rest | None = None
    colocation_off: Mapping[str, Colocation] | None = None
    """By node, for the nodes that have offline pods."""
    colocation_on: Mapping[str, Colocation] = field(default_factory=dict)
    memory_off: Mapping[str, MemoryState] | None = None
    """By node, for the nodes whose memory bandwidth is known."""
    memory_on: Mapping[str, MemoryState] = field(default_factory=dict)
    pending_off: int = 0
    nodes_not_simulated: int = 0
    """Nodes with offline pods beyond those that are in ``colocation_on``."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, Bytes | None] = field(default_factory=dict)
    pods_rejected: int = 0
    pods_pending: int = 0
    """Those that fit on no node in the end."""
    failed_requests: int = 0
    last_failure: str = ""

    @property
    def sound(self) -> bool:
        """Whether the run did what it set out to do."""
        return not self.unsettled


def document(report: Report) -> dict[str, Any]:
    """Return the report as it is printed with ``-o json``."""
    off = {node.name: node for node in report.off.nodes} if report.off else {}
    return {
        "source": report.source,
        "sound": report.sound,
        "notes": list(report.notes),
        "nodes": [_node(report, node, off.get(node.name)) for node in report.on.nodes],
        "colocation": _colocations(report),
        "memory": _memories(report),
        "spread": {"off": _round(report.off.spread if report.off else None), "on": _round(report.on.spread)},
        "schedulableCPUMilli": _pair(report, "schedulable"),
        "requestedCPUMilli": _pair(report, "requested"),
        "pods": {**_pair(report, "pods"), "rejected": report.pods_rejected, "pending": report.pods_pending},
        "atRest": {"off": _rest(report.rest_off), "on": _rest(report.rest_on)},
        "unsettledNodes": list(report.unsettled),
        "failedRequests": report.failed_requests,
        "lastFailure": report.last_failure,
        "seconds": {name: round(value, 2) for name, value in report.seconds.items()},
        "residentMemoryBytes": dict(report.memory),
    }


def _pair(report: Report, name: str) -> dict[str, int | None]:
    return {
        "off": getattr(report.off, name) if report.off else None,
        "on": getattr(report.on, name),
    }


def _node(report: Report, on: NodeView, off: NodeView | None) -> dict[str, Any]:
    return {
        "name": on.name,
        "cpuFacts": dict(on.facts) if on.facts is not None else None,
        "normalizationRatio": on.normalization_ratio,
        "amplificationRatio": dict(on.amplification_ratio),
        "rawCPUMilli": on.raw_capacity,
        "rawAllocatableCPUMilli": on.raw_allocatable,
        "amplifiedCPUMilli": on.amplified_capacity,
        "schedulableCPUMilli": {"off": off.schedulable if off else None, "on": on.schedulable},
        "requestedCPUMilli": {"off": off.requested if off else None, "on": on.requested},
        "pods": {"off": off.pods if off else None, "on": on.pods},
        "computePerRequestedCPU": {"off": _per_requested(off), "on": _per_requested(on)},
        "computeBaselineCPUs": {"off": _compute(off), "on": _compute(on)},
        "colocation": _of_node(report, on.name),
        "memory": _memory_of_node(report, on.name),
        "verdict": {"reason": on.verdict.reason, "message": on.verdict.message} if on.verdict else None,
    }


def _colocations(report: Report) -> dict[str, Any] | None:
    """Return the sums over the nodes that have offline pods; None without any."""
    on = total(report.colocation_on.values())
    if on is None:
        return None
    return {
        "nodes": len(report.colocation_on),
        "nodesNotSimulated": report.nodes_not_simulated,
        "simulatedSeconds": int(WINDOW),
        "off": _colocation(total((report.colocation_off or {}).values())),
        "on": _colocation(on),
    }


def _memories(report: Report) -> dict[str, Any] | None:
    """Return how crowded the memory of all nodes is; None where nobody knows what any of it can do."""
    if not report.memory_on:
        return None
    off = None if report.memory_off is None else _memory_summary(report.memory_off, report.pending_off)
    return {"off": off, "on": _memory_summary(report.memory_on, report.pods_pending)}


def _memory_summary(of: Mapping[str, MemoryState], pending: int) -> dict[str, Any]:
    every = summary(of.values())
    return {
        "nodes": every.nodes,
        "nodesAbove80Percent": every.crowded,
        "meanSlowdown": _round(every.mean_slowdown),
        "meanSlowdownByType": {kind: _round(mean(lost)) for kind, lost in every.slowdowns.items()},
        "podsPending": pending,
    }


def _memory_of_node(report: Report, name: str) -> dict[str, Any] | None:
    on = report.memory_on.get(name)
    if on is None:
        return None
    off = (report.memory_off or {}).get(name)
    return {"off": _memory(off) if off else None, "on": _memory(on)}


def _memory(of: MemoryState) -> dict[str, Any]:
    return {
        "bandwidthBytesPerSecond": round(of.bandwidth),
        "usedBytesPerSecond": round(of.used),
        "latencySeconds": of.latency,
        "llcOccupancyBytes": round(of.llc_occupancy),
        "llcMPKI": _round(of.llc_mpki),
        "meanSlowdown": _round(summary([of]).mean_slowdown),
    }


def _of_node(report: Report, name: str) -> dict[str, Any] | None:
    on = report.colocation_on.get(name)
    if on is None:
        return None
    return {"off": _colocation((report.colocation_off or {}).get(name)), "on": _colocation(on)}


def _colocation(of: Colocation | None) -> dict[str, Any] | None:
    if of is None:
        return None
    return {
        "onlineSlowdown": {"mean": _round(of.mean_slowdown), "worst": _round(of.worst_slowdown)},
        "onlineCPUTimeGrowth": _round(of.stretch),
        "onlineCPUs": _round(of.online),
        "offlineCPUs": _round(of.offline),
        "offeredCPUs": _round(of.offered),
        "offlineCPUsRefused": _round(of.refused),
        "utilization": _round(of.utilization),
    }


def _per_requested(node: NodeView | None) -> float | None:
    return _round(node.delivered.per_requested) if node and node.delivered else None


def _compute(node: NodeView | None) -> float | None:
    return _round(node.delivered.compute) if node and node.delivered else None


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
