"""The Node of the API that every program reads, with only the fields that are used."""

from __future__ import annotations

import msgspec
from msgspec.structs import force_setattr

from corewise.kube.objects import EMPTY, NO_META, ObjectMeta, Struct, shared_map, shared_structs, shared_text
from corewise.kube.resources import NODES, Resource
from corewise.vocabulary.names import NODE_CONDITIONS
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


class NodeCondition(Struct, frozen=True):
    """core/v1 NodeCondition. ``since`` is when its status was last another."""

    type: str = ""
    status: str = ""
    message: str = ""
    since: str | None = msgspec.field(name="lastTransitionTime", default=None)


class NodeStatus(Struct, frozen=True):
    """core/v1 NodeStatus: its amounts, where it is reached, its boot, and the conditions of corewise.

    Of a decoded status, all other conditions are left out: they change at each heartbeat.
    """

    capacity: Map = EMPTY
    allocatable: Map = EMPTY
    addresses: Slice[NodeAddress] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    conditions: Slice[NodeCondition] = ()

    def __post_init__(self) -> None:
        for name in ("capacity", "allocatable"):
            force_setattr(self, name, shared_map(getattr(self, name)))
        force_setattr(self, "addresses", self.addresses or ())
        own = tuple([each for each in self.conditions or () if each.type in NODE_CONDITIONS])
        force_setattr(self, "conditions", own)

    def condition(self, kind: str) -> NodeCondition | None:
        """Return a condition of corewise that is True."""
        return next((each for each in self.conditions if each.type == kind and each.status == "True"), None)


class Node(Struct, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta = NO_META
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


WORKLOAD_NODES: Resource[Node] = NODES.typed(Node)
