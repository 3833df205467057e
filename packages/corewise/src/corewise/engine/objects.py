"""Nodes, topologies and disruption budgets of the API: the fields that the scheduler reads."""

from __future__ import annotations

from collections.abc import Mapping

from corewise.kube.objects import (
    EMPTY,
    NO_META,
    ObjectMeta,
    Struct,
    TopologyZone,
    share_annotations,
)
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, Resource


class NodeTaint(Struct, frozen=True):
    """core/v1 Taint."""

    key: str
    effect: str
    value: str = ""


class SchedulableNodeSpec(Struct, frozen=True):
    """core/v1 NodeSpec: what keeps pods away."""

    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] | None = ()


class NodeAddress(Struct, frozen=True):
    """core/v1 NodeAddress."""

    address: str = ""


class SchedulableNodeStatus(Struct, frozen=True):
    """core/v1 NodeStatus: its amounts, and where it is reached."""

    capacity: Mapping[str, str | int] = EMPTY
    allocatable: Mapping[str, str | int] = EMPTY
    addresses: tuple[NodeAddress, ...] | None = ()


class SchedulableNode(Struct, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta = NO_META
    spec: SchedulableNodeSpec = SchedulableNodeSpec()
    status: SchedulableNodeStatus = SchedulableNodeStatus()


class ReportedTopology(Struct, frozen=True):
    """topology.node.k8s.io/v1alpha1 NodeResourceTopology."""

    metadata: ObjectMeta = NO_META
    topology_policies: tuple[str, ...] | None = ()
    zones: tuple[TopologyZone, ...] | None = ()

    def __post_init__(self) -> None:
        share_annotations(self.metadata)


class LabelRequirement(Struct, frozen=True):
    """meta/v1 LabelSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = ()


class BudgetSelector(Struct, frozen=True):
    """meta/v1 LabelSelector."""

    match_labels: Mapping[str, str] | None = EMPTY
    match_expressions: tuple[LabelRequirement, ...] | None = ()


class DisruptionBudgetSpec(Struct, frozen=True):
    """policy/v1 PodDisruptionBudgetSpec: the pods it protects."""

    selector: BudgetSelector | None = None


class DisruptionBudgetStatus(Struct, frozen=True):
    """policy/v1 PodDisruptionBudgetStatus: how many of these pods may be evicted now."""

    disruptions_allowed: int = 0
    disrupted_pods: Mapping[str, str | None] | None = EMPTY


class DisruptionBudget(Struct, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: ObjectMeta = NO_META
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True, type=DisruptionBudget
)
SCHEDULABLE_NODES: Resource[SchedulableNode] = NODES.typed(SchedulableNode)
TOPOLOGIES: Resource[ReportedTopology] = NODE_RESOURCE_TOPOLOGIES.typed(ReportedTopology)
