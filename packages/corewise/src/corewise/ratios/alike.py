"""The demand of nodes with many pods alike: each kind of pod is reckoned once.

A dump of a cluster has 100,000 pods, and a few hundred kinds: what decides a pod's demand is the same text in
all pods of a template. Only these parts are decoded, into structs that can be compared. The demand of a kind
is that of the first of its pods, by the same lines as everywhere (:func:`corewise.ratios.nodes.demand_of`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import msgspec
from msgspec.structs import force_setattr

from corewise.amplification import NodeDemand, PodDemand, node_demand
from corewise.amplification.amounts import CPU, MEMORY
from corewise.quantities import Quantity
from corewise.ratios.nodes import Annotations, demand_of, demand_with_owners, owners_of_node
from corewise.vocabulary.names import QOS_CLASS, RESOURCE_STATUS
from corewise.workload.pods import Pod


class _Part(msgspec.Struct, rename="camel", frozen=True, gc=False, omit_defaults=True):
    """A part of a pod, as in :mod:`corewise.workload.pods`, with what decides its demand alone."""


class _Amounts(_Part, frozen=True):
    cpu: str | msgspec.UnsetType = msgspec.UNSET
    memory: str | msgspec.UnsetType = msgspec.UNSET


class _Resources(_Part, frozen=True):
    requests: _Amounts = _Amounts()
    limits: _Amounts = _Amounts()


class _Container(_Part, frozen=True):
    name: str
    resources: _Resources = _Resources()
    restart_policy: str = ""


class _Actual(_Part, frozen=True):
    requests: _Amounts | None = None


class _Granted(_Part, frozen=True):
    name: str
    allocated_resources: _Amounts | None = None
    resources: _Actual | None = None


class _Condition(_Part, frozen=True):
    type: str = ""
    reason: str = ""


class _Labels(_Part, frozen=True):
    qos: str | msgspec.UnsetType = msgspec.field(name=QOS_CLASS, default=msgspec.UNSET)


class _Annotations(_Part, frozen=True):
    claim: str | msgspec.UnsetType = msgspec.field(name=RESOURCE_STATUS, default=msgspec.UNSET)


class _Metadata(_Part, frozen=True):
    uid: str = ""
    namespace: str = ""
    labels: _Labels = _Labels()
    annotations: _Annotations = _Annotations()


class _Spec(_Part, frozen=True):
    node_name: str = ""
    containers: tuple[_Container, ...] | None = ()
    init_containers: tuple[_Container, ...] | None = ()
    overhead: _Amounts | None = None
    resources: _Resources = _Resources()


class _Status(_Part, frozen=True):
    phase: str = "Pending"
    qos_class: str = ""
    container_statuses: tuple[_Granted, ...] | None = ()
    init_container_statuses: tuple[_Granted, ...] | None = ()
    conditions: tuple[_Condition, ...] | None = ()

    def __post_init__(self) -> None:
        """Forget the conditions that do not decide the pod's demand."""
        kept = tuple(each for each in self.conditions or () if each.type == "PodResizePending")
        force_setattr(self, "conditions", kept)


class RequestingPod(_Part, frozen=True):
    """A pod on a node."""

    metadata: _Metadata
    spec: _Spec
    status: _Status = _Status()

    @property
    def kind(self) -> Hashable:
        """What decides the pod's demand: all but who it is, and where."""
        meta, spec = self.metadata, self.spec
        of_spec = spec.containers, spec.init_containers, spec.overhead, spec.resources
        return meta.namespace, meta.labels, meta.annotations, of_spec, self.status


@dataclass(frozen=True, slots=True)
class _Kind:
    """The demand of a pod, and of a node with that pod alone: with the static CPU manager, and without."""

    pod: PodDemand
    static: NodeDemand
    shared: NodeDemand


_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(Pod).decode


class Demands:
    """Sums up the demand of nodes, and remembers that of each kind of pod."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}

    def of_node(
        self,
        pods: Iterable[RequestingPod],
        topology: Annotations | None,
        annotations: Annotations,
        capacity: Quantity | None,
    ) -> NodeDemand:
        """Return the same sum as :func:`corewise.ratios.nodes.demand_of_node`."""
        owners, static = owners_of_node(topology, annotations, capacity)
        kinds = {pod.metadata.uid or str(number): self._kind(pod) for number, pod in enumerate(pods)}
        owning: dict[str, PodDemand] = {}
        cpu = memory = owned = 0
        for uid, each in kinds.items():
            if each.pod.exclusive_cpus or uid in owners:
                owning[uid] = each.pod
                continue
            alone = each.static if static else each.shared
            cpu += alone.requests[CPU]
            memory += alone.requests[MEMORY]
            owned += alone.cpuset_milli
        if not owning and not owners:
            return NodeDemand({CPU: cpu, MEMORY: memory}, owned)
        rest = demand_with_owners(owning, owners, static_cpu_manager=static)
        requests = {CPU: cpu + rest.requests[CPU], MEMORY: memory + rest.requests[MEMORY]}
        return NodeDemand(requests, owned + rest.cpuset_milli, rest.surplus)

    def _kind(self, pod: RequestingPod) -> _Kind:
        kind = pod.kind
        known = self._kinds.get(kind)
        if known is None:
            demand = demand_of(_decode(_encode(pod)))
            known = _Kind(demand, node_demand([demand], static_cpu_manager=True), node_demand([demand]))
            self._kinds[kind] = known
        return known
