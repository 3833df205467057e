"""The plugins of the local scheduler, and the choice of a node for one pod.

Filters are those of kube-scheduler that matter here, AmplifiedCPU, and, if it is configured, Interference. Of
the nodes that suit, an online pod goes to the least allocated one, or with interference to the best by both;
preferred affinity and taints PreferNoSchedule weigh against that as they do in kube-scheduler. An offline pod
requests neither cpu nor memory, so that says nothing about it: it goes where the largest share of the batch
CPU is left.

A node that refuses at the last moment is left out, and the next best one is asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.amplification import Column
from corewise.engine import (
    AllocationScore,
    AmplifiedCPU,
    ChosenNode,
    Cluster,
    ClusterSnapshot,
    CPUPlacement,
    Engine,
    Interference,
    NodeConstraints,
    NodePreferences,
    Placement,
    PodFacts,
    Refused,
    ResourceFit,
    Weighted,
    explain_pod,
)
from corewise.engine.framework import BEST_SCORE
from corewise.engine.kube_plugins import WEIGHT
from corewise.scheduler.configuration import DEFAULTS, SchedulerConfiguration
from corewise.vocabulary.names import BATCH_CPU

_MOST_ASKED = 100


@dataclass(frozen=True, slots=True)
class BatchShare:
    """The Score of offline pods: the share of the node's batch CPU that nobody requests, in hundredths."""

    name: str = "BatchShare"

    def score(self, pod: PodFacts, snapshot: ClusterSnapshot, prepared: object) -> Column:
        """Return 0 to 100 for every node; 0 everywhere for pods that request no batch CPU."""
        free = snapshot.free.get(BATCH_CPU)
        if free is None or BATCH_CPU not in pod.requests:
            return snapshot.nowhere()
        offered = np.maximum(snapshot.allocatable[BATCH_CPU], 1)
        share: Column = np.clip(np.maximum(free, 0) * BEST_SCORE // offered, 0, BEST_SCORE)
        return share


def local_engine(
    configuration: SchedulerConfiguration = DEFAULTS, plugin: Interference | None = None
) -> Engine:
    """Return the engine with its plugins; of offline pods the share of batch CPU decides before all else."""
    preferences = NodePreferences()
    filters = (NodeConstraints(), ResourceFit(), AmplifiedCPU())
    others = [Weighted(AllocationScore(configuration.scoring)), Weighted(preferences, WEIGHT, preferences)]
    if plugin is not None:
        others.append(Weighted(plugin, prepares=plugin))
    batch = Weighted(BatchShare(), sum(each.weight for each in others) * BEST_SCORE + 1)
    if plugin is None:
        return Engine(filters, (*others, batch), (CPUPlacement(),))
    return Engine((*filters, plugin), (*others, batch), (CPUPlacement(), plugin), (plugin,))


def choose_node(engine: Engine, cluster: Cluster, pod: PodFacts) -> Placement | str:
    """Return where a pod goes and what it gets there, or in one sentence why it goes nowhere."""
    snapshot = cluster.snapshot()
    among = snapshot.present.copy()
    refusals: list[str] = []
    for _ in range(_MOST_ASKED):
        decision = engine.decide(pod, snapshot, among)
        if decision.node is None:
            return _without_cpus(snapshot, refusals) if refusals else explain_pod(decision).headline
        ledger = cluster.ledger(decision.node)
        chosen = ChosenNode(cluster.nodes[decision.node], decision.row, ledger, snapshot)
        answer = engine.reserve(pod, chosen)
        if not isinstance(answer, Refused):
            return answer
        refusals.append(f"{decision.node}: {answer.message}")
        among[decision.row] = False
    return _without_cpus(snapshot, refusals)


def _without_cpus(snapshot: ClusterSnapshot, refusals: list[str]) -> str:
    """Say that the nodes with room enough have no CPUs that the pod can be given."""
    without_cpus = f"{len(refusals)} without CPUs in the shape that the pod needs"
    return f"0/{int(snapshot.present.sum())} nodes are available: {without_cpus} ({refusals[0]})"
