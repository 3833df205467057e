"""The writes of binder and collector, as actions, and the executor that carries them out.

An action names the uid of its object, and the resourceVersion where the object must not have changed since it
was decided: if it has, that is a ``Conflict`` and no harm. Who decided reads again then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from corewise.engine import Placement
from corewise.engine.facts import CPU
from corewise.kube.client import Client
from corewise.kube.clock import rfc3339
from corewise.kube.errors import NotFound
from corewise.kube.resources import PODS
from corewise.quantities import MILLI, Quantity
from corewise.scheduler.state import ClusterState
from corewise.vocabulary.cpu_annotations import ResourceStatus, asks_to_normalize, print_resource_status
from corewise.vocabulary.names import CLAIM_EXPIRED, OWNED_CPU_COUNT, RESOURCE_STATUS
from corewise.vocabulary.owned_cpus import Owners, print_owned_cpus
from corewise.workload.nodes import WORKLOAD_NODES, Node
from corewise.workload.pods import WORKLOAD_PODS, Pod


@dataclass(frozen=True, slots=True)
class WriteLedger:
    """Write the ledger of a node, which must not have changed since it was read."""

    node: Node
    owners: Owners


@dataclass(frozen=True, slots=True)
class BindPod:
    """Bind a pod, which must not have changed if it gets CPUs, and annotate what it gets."""

    pod: Pod
    placement: Placement


@dataclass(frozen=True, slots=True)
class FencePod:
    """Make the Bindings fail that earlier attempts may still send: the pod changes, if it has not yet."""

    pod: Pod
    at: datetime


@dataclass(frozen=True, slots=True)
class StateCPUs:
    """Have the annotation of a bound pod say what it has."""

    pod: Pod
    placement: Placement


LedgerAction: TypeAlias = WriteLedger | BindPod | FencePod | StateCPUs


@dataclass(frozen=True, slots=True)
class LedgerExecutor:
    """Writes to the API server; ``state`` counts its answers until the watch has caught up."""

    client: Client
    state: ClusterState

    async def carry_out(self, action: LedgerAction) -> None:
        """Carry out one action.

        Raises:
            Conflict: if the object has changed.
            NotFound: if it is gone.
            KubeError: if the API server does not do it, or does not tell.
        """
        body = body_of(action)
        if isinstance(action, WriteLedger):
            name = action.node.metadata.name
            self.state.take_node(await self.client.patch(WORKLOAD_NODES, name, body, subresource="status"))
            return
        name, namespace = action.pod.metadata.name, action.pod.metadata.namespace
        if isinstance(action, BindPod):
            path = PODS.path(name, namespace=namespace, subresource="binding")
            await self.client.request("POST", path, body=body, repeatable=True)
        else:
            await self.client.patch(WORKLOAD_PODS, name, body, namespace=namespace)

    async def read_node(self, name: str) -> Node | None:
        """Ask the API server for a node, and count it as it is; None if there is none.

        Raises:
            KubeError: if the API server does not tell.
        """
        try:
            self.state.take_node(await self.client.get(WORKLOAD_NODES, name))
        except NotFound:
            return None
        return self.state.node(name)


def body_of(action: LedgerAction) -> dict[str, Any]:
    """Return the merge patch, or the Binding, that carries out an action."""
    meta = action.node.metadata if isinstance(action, WriteLedger) else action.pod.metadata
    unchanged = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    match action:
        case WriteLedger():
            return {"metadata": {**unchanged, "annotations": print_owned_cpus(action.owners)}}
        case FencePod():
            return {"metadata": {**unchanged, "annotations": {CLAIM_EXPIRED: rfc3339(action.at)}}}
        case StateCPUs():
            return {"metadata": {"uid": meta.uid, "annotations": _stated(action)}}
        case BindPod(placement=placement):
            status = stated_status(placement)
            metadata: dict[str, Any] = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
            if placement.cpus:
                metadata["resourceVersion"] = meta.resource_version
            if status.cpus or status.zones or RESOURCE_STATUS in meta.annotations:
                metadata["annotations"] = _stated(action)
            target = {"apiVersion": "v1", "kind": "Node", "name": placement.node}
            return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def _stated(action: BindPod | StateCPUs) -> dict[str, str]:
    """Return the annotations that say what a pod has."""
    placement = action.placement
    stated = {RESOURCE_STATUS: print_resource_status(stated_status(placement))}
    if placement.cpus and asks_to_normalize(action.pod.metadata.annotations):
        stated[OWNED_CPU_COUNT] = str(len(placement.cpus))
    return stated


def stated_status(placement: Placement) -> ResourceStatus:
    """Return a placement's resource-status."""
    zones = {zone: _quantities(amounts) for zone, amounts in placement.zones.items()}
    request = len(placement.cpus) + placement.surplus // MILLI if placement.surplus > 0 else 0
    return ResourceStatus(placement.cpus, zones, request=request)


def _quantities(amounts: Mapping[str, int]) -> dict[str, Quantity]:
    return {
        name: Quantity.of_milli(amount) if name == CPU else Quantity.parse(str(amount))
        for name, amount in amounts.items()
    }
