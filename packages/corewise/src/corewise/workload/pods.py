"""The Pod of the API that every program reads, with only the fields that are used.

A manager and a scheduler cache all pods of a cluster, so what pods of one template state alike is kept once:
containers, tolerations, affinity, and the whole status, from which the conditions are taken out first.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import force_setattr

from corewise.amplification.amounts import CPU
from corewise.kube.objects import (
    EMPTY,
    NO_META,
    NO_RESOURCES,
    ObjectMeta,
    ResourceRequirements,
    Struct,
    keep_annotations,
    shared_map,
    shared_struct,
    shared_structs,
    shared_text,
)
from corewise.kube.resources import PODS, Resource
from corewise.vocabulary.names import POD_ANNOTATIONS
from corewise.workload.wire import Map, Slice


class Container(Struct, frozen=True):
    """core/v1 Container; ``restart_policy`` is "Always" for a sidecar among the init containers."""

    name: str
    resources: ResourceRequirements = NO_RESOURCES
    restart_policy: str = ""


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


class PodSpec(Struct, frozen=True):
    """core/v1 PodSpec: what the pod requests, and where it may go."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    scheduling_gates: Slice[SchedulingGate] = ()
    containers: Slice[Container] = ()
    init_containers: Slice[Container] = ()
    overhead: Map = EMPTY
    resources: ResourceRequirements = NO_RESOURCES
    node_selector: Map = EMPTY
    affinity: Affinity | None = None
    tolerations: Slice[PodToleration] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "node_name", shared_text(self.node_name))
        force_setattr(self, "scheduler_name", shared_text(self.scheduler_name))
        force_setattr(self, "containers", shared_structs(self.containers or ()))
        if self.init_containers != ():
            force_setattr(self, "init_containers", shared_structs(self.init_containers or ()))
        if self.tolerations != ():
            force_setattr(self, "tolerations", shared_structs(self.tolerations or ()))
        if self.node_selector is not EMPTY:
            force_setattr(self, "node_selector", shared_map(self.node_selector))
        if self.overhead is not EMPTY:
            force_setattr(self, "overhead", shared_map(self.overhead))
        if self.affinity is not None:
            force_setattr(self, "affinity", shared_struct(self.affinity))


class ActualResources(Struct, frozen=True):
    """core/v1 ResourceRequirements of a ContainerStatus: what the container runs with."""

    requests: Map = EMPTY


class GrantedContainer(Struct, frozen=True):
    """core/v1 ContainerStatus: what kubelet has granted, which lags behind while a resize is under way.

    Since Kubernetes 1.32 kubelet states ``resources``, but ``allocated_resources`` only behind a gate.
    """

    name: str
    allocated_resources: Map = EMPTY
    resources: ActualResources | None = None

    def __post_init__(self) -> None:
        if self.allocated_resources is not EMPTY:
            force_setattr(self, "allocated_resources", shared_map(self.allocated_resources))


class PodCondition(Struct, frozen=True):
    """core/v1 PodCondition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = ""


class ClaimedResource(Struct, frozen=True):
    """core/v1 NodeAllocatableDirectResources and NodeAllocatableOverheadResources."""

    name: str = ""


class ClaimStatus(Struct, frozen=True):
    """core/v1 NodeAllocatableResourceClaimStatus: what a ResourceClaim brings beyond the spec (KEP-5517)."""

    direct: tuple[ClaimedResource, ...] | None = ()
    overhead: tuple[ClaimedResource, ...] | None = ()


class PodStatus(Struct, frozen=True):
    """core/v1 PodStatus. Of a decoded Pod ``conditions`` are empty: see what the Pod keeps of them."""

    phase: str = "Pending"
    qos_class: str = ""
    container_statuses: Slice[GrantedContainer] = ()
    init_container_statuses: Slice[GrantedContainer] = ()
    conditions: Slice[PodCondition] = ()
    node_allocatable_resource_claim_statuses: tuple[ClaimStatus, ...] | None = ()

    def __post_init__(self) -> None:
        force_setattr(self, "phase", shared_text(self.phase))
        force_setattr(self, "qos_class", shared_text(self.qos_class))
        for name in ("container_statuses", "init_container_statuses", "conditions"):
            if getattr(self, name) is None:
                force_setattr(self, name, ())

    def kept(self) -> PodStatus:
        """Return the status to keep: without conditions it is that of many pods, and kept once."""
        force_setattr(self, "conditions", ())
        return shared_struct(self)


class Pod(Struct, frozen=True):
    """core/v1 Pod.

    ``scheduled_at``: the time it was given its node, "" where its conditions do not say. ``is_infeasible``:
    its spec states a resize that its node can never carry out.
    """

    metadata: ObjectMeta = NO_META
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    scheduled_at: str = ""
    is_infeasible: bool = False

    def __post_init__(self) -> None:
        keep_annotations(self.metadata, POD_ANNOTATIONS)
        for each in self.status.conditions:
            if each.type == "PodScheduled" and each.status == "True":
                force_setattr(self, "scheduled_at", shared_text(each.last_transition_time or ""))
            elif each.type == "PodResizePending" and each.reason == "Infeasible":
                force_setattr(self, "is_infeasible", True)
        force_setattr(self, "status", self.status.kept())

    @property
    def has_claimed_cpu(self) -> bool:
        """Whether a ResourceClaim brings CPU, which kubelet adds to quotas and no limit states."""
        claims = self.status.node_allocatable_resource_claim_statuses or ()
        return any(
            each.name == CPU for claim in claims for each in (*(claim.direct or ()), *(claim.overhead or ()))
        )


WORKLOAD_PODS: Resource[Pod] = PODS.typed(Pod)
