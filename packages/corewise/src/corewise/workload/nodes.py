"""The Node of the API that every program reads, with only the fields that are used."""

from __future__ import annotations

import msgspec
from msgspec.structs import force_setattr

from corewise.kube.objects import EMPTY, NO_META, ObjectMeta, Struct, shared_map, shared_structs, shared_text
from corewise.kube.resources import NODES, Resource
from corewise.workload.wire import Map, Slice


class Taint(Struct, frozen=True):
    """core/v1 Taint."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(Struct, frozen=True):
    """core/v1 NodeSpec: what keeps pods away."""

    unschedulable: bool = False
    taints: Slice[Taint] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "taints", shared_structs(self.taints or ()))


class NodeAddress(Struct, frozen=True):
    """core/v1 NodeAddress."""

    address: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "address", shared_text(self.address))


class NodeSystemInfo(Struct, frozen=True):
    """core/v1 NodeSystemInfo: the boot of the machine that kubelet reports."""

    boot_id: str = msgspec.field(default="", name="bootID")


class NodeStatus(Struct, frozen=True):
    """core/v1 NodeStatus: its amounts, where it is reached, and its boot."""

    capacity: Map = EMPTY
    allocatable: Map = EMPTY
    addresses: Slice[NodeAddress] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()

    def __post_init__(self) -> None:
        for name in ("capacity", "allocatable"):
            force_setattr(self, name, shared_map(getattr(self, name)))
        force_setattr(self, "addresses", self.addresses or ())


class Node(Struct, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta = NO_META
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


WORKLOAD_NODES: Resource[Node] = NODES.typed(Node)
