"""What is to be planned: nodes, their topologies, and pods in the order in which they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from corewise.engine import PodFacts
from corewise.engine.objects import SchedulableNode, Topology
from corewise.manager.objects import ManagedNode
from corewise.topology import Topology as Arrangement


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node as the manager and as the scheduler read it.

    ``assumed``: how its CPUs are arranged where no annotation says it.
    """

    managed: ManagedNode
    schedulable: SchedulableNode
    topology: Topology
    assumed: Arrangement

    @property
    def name(self) -> str:
        return self.managed.metadata.name


@dataclass(frozen=True, slots=True)
class PlanInput:
    """Nodes and pods. ``config``: the texts of the cluster's own configuration, by ConfigMap key.

    ``offered_share``: of the CPU and memory that online pods have not even requested, so many hundredths are
    offered to offline pods, which are placed last; None where nodes state themselves what they offer.
    """

    source: str
    nodes: tuple[PlannedNode, ...]
    pods: tuple[PodFacts, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    offered_share: int | None = None
    notes: tuple[str, ...] = ()
