"""The own Node and the pods on it, as far as the agent reads them.

A pod of 10 KB comes down to its limits, who runs where, and how far a resize has come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from corewise.kube.objects import EMPTY, NO_META, NO_RESOURCES, ObjectMeta, ResourceRequirements, Struct
from corewise.kube.resources import NODES, PODS, Resource
from corewise.policy.names import STATIC_POD


class AgentNodeStatus(Struct, frozen=True):
    """core/v1 NodeStatus: amounts are quantities as text, of cpu and memory amplified ones."""

    capacity: Mapping[str, str] = EMPTY
    allocatable: Mapping[str, str] = EMPTY


class AgentNode(Struct, frozen=True):
    """core/v1 Node: labels, annotations, and what it offers."""

    metadata: ObjectMeta = NO_META
    status: AgentNodeStatus = AgentNodeStatus()


class PodMeta(ObjectMeta, frozen=True):
    """metav1.ObjectMeta; ``generation`` counts the changes of the spec."""

    generation: int = 0


class QuotaContainer(Struct, frozen=True):
    """core/v1 Container; ``restart_policy`` is "Always" for a sidecar among the init containers."""

    name: str
    resources: ResourceRequirements = NO_RESOURCES
    restart_policy: str = ""


class ContainerState(Struct, frozen=True):
    """core/v1 ContainerState: since when it runs, if it does."""

    running: Mapping[str, str] | None = None


NOT_RUNNING = ContainerState()


class ContainerStatus(Struct, frozen=True):
    """core/v1 ContainerStatus: which container of the runtime it is."""

    name: str
    container_id: str = msgspec.field(name="containerID", default="")
    state: ContainerState = NOT_RUNNING

    @property
    def runs(self) -> bool:
        return bool(self.container_id) and self.state.running is not None


class PodCondition(Struct, frozen=True):
    """core/v1 PodCondition, without reasons. ``since`` is when the status was last another."""

    type: str
    status: str
    since: str | None = msgspec.field(name="lastTransitionTime", default=None)


class QuotaPodSpec(Struct, frozen=True):
    """core/v1 PodSpec: everything that a limit follows from."""

    node_name: str = ""
    containers: tuple[QuotaContainer, ...] = ()
    init_containers: tuple[QuotaContainer, ...] = ()
    ephemeral_containers: tuple[QuotaContainer, ...] = ()
    overhead: Mapping[str, str] = EMPTY
    resources: ResourceRequirements = NO_RESOURCES

    @property
    def all_containers(self) -> Iterator[QuotaContainer]:
        yield from self.containers
        yield from self.init_containers
        yield from self.ephemeral_containers


class QuotaPodStatus(Struct, frozen=True):
    """core/v1 PodStatus. ``resize`` is what conditions have said since Kubernetes 1.33."""

    phase: str = "Pending"
    qos_class: str = ""
    resize: str = ""
    observed_generation: int = 0
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()

    @property
    def all_containers(self) -> Iterator[ContainerStatus]:
        yield from self.container_statuses
        yield from self.init_container_statuses
        yield from self.ephemeral_container_statuses


class QuotaPod(Struct, frozen=True):
    """core/v1 Pod."""

    metadata: PodMeta = PodMeta()
    spec: QuotaPodSpec = QuotaPodSpec()
    status: QuotaPodStatus = QuotaPodStatus()

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def uid(self) -> str:
        """The UID that kubelet and runtime know; a static pod's is not that of its mirror in the API."""
        return self.metadata.annotations.get(STATIC_POD) or self.metadata.uid

    @property
    def bound_at(self) -> str:
        """When it was bound, else when it was created; in UTC, so that texts compare as times do."""
        bound = (each for each in self.status.conditions if each.type == "PodScheduled" and each.since)
        return next((each.since or "" for each in bound), self.metadata.creation_timestamp or "")

    @property
    def has_ended(self) -> bool:
        return self.status.phase in {"Succeeded", "Failed"}

    def says_the_same(self, other: QuotaPod) -> bool:
        """Whether nothing has changed that a quota could follow from."""
        mine, others = self.metadata, other.metadata
        return (
            self.spec == other.spec
            and self.status == other.status
            and (mine.uid, mine.generation, mine.labels) == (others.uid, others.generation, others.labels)
            and mine.annotations == others.annotations
        )


AGENT_NODES: Resource[AgentNode] = NODES.typed(AgentNode)
QUOTA_PODS: Resource[QuotaPod] = PODS.typed(QuotaPod)
