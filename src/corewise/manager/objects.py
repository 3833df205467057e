"""Nodes and pods as far as the manager reads them."""

from __future__ import annotations

from collections.abc import Mapping

from corewise.kube.objects import EMPTY, NO_META, NO_RESOURCES, ObjectMeta, ResourceRequirements, Struct
from corewise.kube.resources import NODES, PODS, Resource


class NodeSystemInfo(Struct, frozen=True):
    """core/v1 NodeSystemInfo: which boot of the machine its kubelet speaks of."""

    boot_id: str = ""


class ManagedNodeStatus(Struct, frozen=True):
    """core/v1 NodeStatus, the amounts of it."""

    capacity: Mapping[str, str] = EMPTY
    allocatable: Mapping[str, str] = EMPTY
    node_info: NodeSystemInfo = NodeSystemInfo()


class Taint(Struct, frozen=True):
    """core/v1 Taint."""

    key: str
    effect: str


class ManagedNodeSpec(Struct, frozen=True):
    """core/v1 NodeSpec: what keeps pods away."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ManagedNode(Struct, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta = NO_META
    spec: ManagedNodeSpec = ManagedNodeSpec()
    status: ManagedNodeStatus = ManagedNodeStatus()


class DemandingContainer(Struct, frozen=True):
    """core/v1 Container: what it asks for."""

    name: str
    resources: ResourceRequirements = NO_RESOURCES
    restart_policy: str = ""


class DemandingPodSpec(Struct, frozen=True):
    """core/v1 PodSpec: what the pod asks for, and of whom."""

    node_name: str = ""
    containers: tuple[DemandingContainer, ...] = ()
    init_containers: tuple[DemandingContainer, ...] = ()
    overhead: Mapping[str, str] = EMPTY
    resources: ResourceRequirements = NO_RESOURCES


class GrantedContainer(Struct, frozen=True):
    """core/v1 ContainerStatus: what kubelet has granted, which lags behind while a resize is under way."""

    name: str
    allocated_resources: Mapping[str, str] = EMPTY


class DemandingPodStatus(Struct, frozen=True):
    """core/v1 PodStatus."""

    phase: str = "Pending"
    qos_class: str = ""
    container_statuses: tuple[GrantedContainer, ...] = ()
    init_container_statuses: tuple[GrantedContainer, ...] = ()


class DemandingPod(Struct, frozen=True):
    """core/v1 Pod: what it takes of its node."""

    metadata: ObjectMeta = NO_META
    spec: DemandingPodSpec = DemandingPodSpec()
    status: DemandingPodStatus = DemandingPodStatus()


MANAGED_NODES: Resource[ManagedNode] = NODES.typed(ManagedNode)
DEMANDING_PODS: Resource[DemandingPod] = PODS.typed(DemandingPod)
RUNNING_ON_A_NODE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of the pods that take something of a node."""


def running_on(node: str) -> str:
    """Return the field selector of the pods that take something of this node."""
    return f"{RUNNING_ON_A_NODE},spec.nodeName={node}"
