"""The agent's own Node and the pods on it, with only the fields that the agent reads.

A pod of 10 KB comes down to its limits, who runs where, and how far a resize has come.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from corewise.amplification import pod_request
from corewise.amplification.amounts import CPU
from corewise.kube.objects import ObjectMeta, Struct
from corewise.kube.resources import NODES, PODS, Resource
from corewise.quantities import Quantity
from corewise.vocabulary.names import STATIC_POD, STATIC_POD_HASH, STATIC_POD_SOURCE
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import Node
from corewise.workload.pods import Container, GrantedContainer, Pod, PodSpec, PodStatus
from corewise.workload.requests import pod_demand

_STATIC_UID = re.compile(r"[0-9a-f]{32}")
_STATIC_SOURCES = frozenset({"file", "http"})


class AgentNode(Node, frozen=True):
    """core/v1 Node; its amounts of cpu and memory are amplified."""


class PodMeta(ObjectMeta, frozen=True):
    """metav1.ObjectMeta; ``generation`` counts the changes of the spec."""

    generation: int = 0


class ContainerState(Struct, frozen=True):
    """core/v1 ContainerState: since when it runs, if it does; the API server writes no time as null."""

    running: Mapping[str, str | None] | None = None


NOT_RUNNING = ContainerState()


class ContainerStatus(GrantedContainer, frozen=True):
    """core/v1 ContainerStatus: which container of the runtime it is, and since when it runs."""

    container_id: str = msgspec.field(name="containerID", default="")
    state: ContainerState = NOT_RUNNING

    @property
    def runs(self) -> bool:
        return bool(self.container_id) and self.state.running is not None


class QuotaPodSpec(PodSpec, frozen=True):
    """core/v1 PodSpec: everything that a limit follows from."""

    ephemeral_containers: tuple[Container, ...] = ()
    priority: int = 0
    priority_class_name: str = ""

    @property
    def all_containers(self) -> Iterator[Container]:
        yield from self.containers
        yield from self.init_containers
        yield from self.ephemeral_containers


class QuotaPodStatus(PodStatus, frozen=True):
    """core/v1 PodStatus. ``resize`` is what conditions have said since Kubernetes 1.33."""

    resize: str = ""
    observed_generation: int = 0
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()

    @property
    def all_containers(self) -> Iterator[ContainerStatus]:
        yield from self.container_statuses
        yield from self.init_container_statuses
        yield from self.ephemeral_container_statuses

    def kept(self) -> QuotaPodStatus:
        """Return the whole status: conditions say how far a resize has come."""
        return self


_WAITING = frozenset({"Proposed", "Deferred", "Infeasible"})


class QuotaPod(Pod, frozen=True):
    """core/v1 Pod with the states of its containers, which are its own: a node has few pods."""

    metadata: PodMeta = PodMeta()
    spec: QuotaPodSpec = QuotaPodSpec()
    status: QuotaPodStatus = QuotaPodStatus()

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def uid(self) -> str:
        """The UID that kubelet and runtime know; a static pod's is not that of its mirror in the API."""
        if STATIC_POD not in self.metadata.annotations or self.mirror_problem():
            return self.metadata.uid
        return self.metadata.annotations[STATIC_POD]

    def mirror_problem(self, node_uid: str = "") -> str:
        """Return the reason that a pod claims falsely to mirror a static pod; "" if it does not.

        Whoever may create pods can write annotations. kubelet writes the UID, 32 hexadecimal digits, in two
        of them, and a source that is not the API; and it has its Node control the pod. ``node_uid``: that of
        the Node, "" if it is not known.

        Source: kubelet's pkg/kubelet/pod/mirror_client.go (CreateMirrorPod) and pkg/kubelet/config/common.go
        (applyDefaults).
        """
        stated, node = self.metadata.annotations, self.spec.node_name
        if STATIC_POD not in stated:
            return ""
        uid, source = stated[STATIC_POD], stated.get(STATIC_POD_SOURCE, "")
        controllers = [each for each in self.metadata.owner_references if each.controller]
        nodes = [each.name for each in controllers if (each.api_version, each.kind) == ("v1", "Node")]
        checks = (
            (_STATIC_UID.fullmatch(uid), f"{STATIC_POD} is not 32 hexadecimal digits: {uid[:40]!r}"),
            (stated.get(STATIC_POD_HASH) == uid, f"{STATIC_POD_HASH} is not the UID in {STATIC_POD}"),
            (source in _STATIC_SOURCES, f"{STATIC_POD_SOURCE} is {source[:40]!r}, not file or http"),
            (nodes == [node], f"Node {node} does not control the pod"),
            (
                node_uid in {"", *(each.uid for each in controllers)},
                f"an earlier Node {node} controls the pod",
            ),
        )
        return next((problem for holds, problem in checks if not holds), "")

    @property
    def bound_at(self) -> str:
        """The time it was bound, else created; in UTC, so that texts compare as times do."""
        return self.scheduled_at or self.metadata.creation_timestamp or ""

    @property
    def cpu_request(self) -> int | None:
        """Its request in milli-CPU, as the scheduler counts it; None if only the runtime knows the pod."""
        return self.request(CPU).milli if self.spec.containers else None

    def request(self, resource: str) -> Quantity:
        """Return the pod's request for a resource, as scheduler and kubelet count it."""
        return pod_request(pod_demand(self, (resource,)), resource)

    @property
    def awaits_resize(self) -> bool:
        """Whether the spec is not yet what kubelet goes by: a resize waits, or kubelet has not seen it."""
        status = self.status
        unseen = 0 < status.observed_generation < self.metadata.generation
        pending = any(
            condition.type == "PodResizePending" and condition.status == "True"
            for condition in status.conditions
        )
        return unseen or pending or status.resize in _WAITING

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
            and (mine.annotations, mine.owner_references) == (others.annotations, others.owner_references)
        )


@dataclass(frozen=True, slots=True)
class CertainPods:
    """The ``pods`` whose cgroups are certain, and the UIDs that two pods state. ``problems`` are by pod."""

    pods: Collection[QuotaPod]
    contested: frozenset[str]
    problems: Mapping[str, str]


def certain_pods(pods: Collection[QuotaPod], node_uid: str) -> CertainPods:
    """Leave out the pods of which it is not certain which cgroup is theirs."""
    problems = {
        pod.name: f"pod {pod.name} is left alone: {problem} ({Reason.MIRROR_POD_INVALID})"
        for pod in pods
        if STATIC_POD in pod.metadata.annotations and (problem := pod.mirror_problem(node_uid))
    }
    by_uid: dict[str, list[QuotaPod]] = {}
    for pod in pods:
        if pod.name not in problems and not pod.has_ended:
            by_uid.setdefault(pod.uid, []).append(pod)
    contested = {uid: rivals for uid, rivals in by_uid.items() if len(rivals) > 1}
    for uid, rivals in contested.items():
        names = " and ".join(sorted(pod.name for pod in rivals))
        text = f"pods {names} state the UID {uid} of one cgroup; nothing is written to it for either"
        problems |= {pod.name: f"{text} ({Reason.CGROUP_CONTESTED})" for pod in rivals}
    certain = [pod for pod in pods if pod.name not in problems] if problems else pods
    return CertainPods(certain, frozenset(contested), problems)


AGENT_NODES: Resource[AgentNode] = NODES.typed(AgentNode)
QUOTA_PODS: Resource[QuotaPod] = PODS.typed(QuotaPod)
