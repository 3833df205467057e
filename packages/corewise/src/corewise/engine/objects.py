"""Nodes, pods and topologies of the API: the fields that the scheduler reads."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import force_setattr

from corewise.kube.objects import (
    EMPTY,
    NO_META,
    NO_RESOURCES,
    ObjectMeta,
    ResourceRequirements,
    Struct,
    TopologyZone,
    keep_annotations,
    share_annotations,
    shared_structs,
    shared_text,
)
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS, Resource
from corewise.vocabulary.names import POD_ANNOTATIONS


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


class PlacedContainer(Struct, frozen=True):
    """core/v1 Container: what it asks for."""

    name: str = ""
    resources: ResourceRequirements | None = NO_RESOURCES
    restart_policy: str | None = ""


class PodToleration(Struct, frozen=True):
    """core/v1 Toleration."""

    key: str | None = ""
    operator: str | None = ""
    value: str | None = ""
    effect: str | None = ""


class SelectorRequirement(Struct, frozen=True):
    """core/v1 NodeSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = ()


class SelectorTerm(Struct, frozen=True):
    """core/v1 NodeSelectorTerm."""

    match_expressions: tuple[SelectorRequirement, ...] | None = ()
    match_fields: tuple[SelectorRequirement, ...] | None = ()


class NodeSelector(Struct, frozen=True):
    """core/v1 NodeSelector."""

    node_selector_terms: tuple[SelectorTerm, ...] | None = ()


class PreferredTerm(Struct, frozen=True):
    """core/v1 PreferredSchedulingTerm."""

    weight: int = 0
    preference: SelectorTerm = SelectorTerm()


class NodeAffinity(Struct, frozen=True):
    """core/v1 NodeAffinity."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredTerm, ...] | None = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True):
    """core/v1 Affinity, the part about nodes."""

    node_affinity: NodeAffinity | None = None


class SchedulingGate(Struct, frozen=True):
    """core/v1 PodSchedulingGate: what has to happen before the pod may be scheduled."""

    name: str = ""


class PlacedPodSpec(Struct, frozen=True):
    """core/v1 PodSpec: what the pod asks for, and where it may go."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = 0
    scheduling_gates: tuple[SchedulingGate, ...] | None = ()
    containers: tuple[PlacedContainer, ...] | None = ()
    init_containers: tuple[PlacedContainer, ...] | None = ()
    overhead: Mapping[str, str | int] | None = EMPTY
    resources: ResourceRequirements | None = NO_RESOURCES
    node_selector: Mapping[str, str] | None = EMPTY
    affinity: Affinity | None = None
    tolerations: tuple[PodToleration, ...] | None = ()

    def __post_init__(self) -> None:
        for name in ("node_name", "scheduler_name"):
            force_setattr(self, name, shared_text(getattr(self, name)))
        for name in ("containers", "init_containers", "tolerations"):
            force_setattr(self, name, shared_structs(getattr(self, name)))


class GrantedResources(Struct, frozen=True):
    """core/v1 ContainerStatus: what kubelet has granted, which lags behind while a resize is under way."""

    name: str
    allocated_resources: Mapping[str, str] | None = EMPTY


class PodCondition(Struct, frozen=True):
    """core/v1 PodCondition."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = ""


class PlacedPodStatus(Struct, frozen=True):
    """core/v1 PodStatus."""

    phase: str = "Pending"
    qos_class: str = ""
    container_statuses: tuple[GrantedResources, ...] | None = ()
    init_container_statuses: tuple[GrantedResources, ...] | None = ()
    conditions: tuple[PodCondition, ...] | None = ()
    """Only the one that says when the pod was given its node."""

    def __post_init__(self) -> None:
        kept = tuple(
            PodCondition("PodScheduled", shared_text(each.status), each.last_transition_time)
            for each in self.conditions or ()
            if each.type == "PodScheduled"
        )
        force_setattr(self, "conditions", kept)
        for name in ("phase", "qos_class"):
            force_setattr(self, name, shared_text(getattr(self, name)))
        for name in ("container_statuses", "init_container_statuses"):
            force_setattr(self, name, shared_structs(getattr(self, name)))


class PlacedPod(Struct, frozen=True):
    """core/v1 Pod."""

    metadata: ObjectMeta = NO_META
    spec: PlacedPodSpec = PlacedPodSpec()
    status: PlacedPodStatus = PlacedPodStatus()

    def __post_init__(self) -> None:
        keep_annotations(self.metadata, POD_ANNOTATIONS)


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
PLACED_PODS: Resource[PlacedPod] = PODS.typed(PlacedPod)
TOPOLOGIES: Resource[ReportedTopology] = NODE_RESOURCE_TOPOLOGIES.typed(ReportedTopology)
