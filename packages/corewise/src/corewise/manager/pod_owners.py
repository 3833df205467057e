"""Which labels of a new pod its controller selects it by.

A pod whose label a profile has changed, so that the selector of its controller no longer matches, is released
by that controller, which then creates another: without end. So a profile leaves such labels alone.

A ReplicaSet, StatefulSet, DaemonSet or Job is read once for all its pods: their selectors cannot be changed.
Of other controllers, and of one that cannot be read, the selector is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

import msgspec

from corewise.kube.client import Client
from corewise.kube.errors import KubeError
from corewise.kube.objects import EMPTY, NO_META, ObjectMeta, OwnerReference, Struct
from corewise.kube.resources import Resource
from corewise.service.logs import fields
from corewise.vocabulary.selectors import object_name_fault

log = logging.getLogger(__name__)

_READ_WITHIN = 2.0
_REMEMBERED = 5000


class _Expression(Struct, frozen=True):
    key: str


class WorkloadSelector(Struct, frozen=True):
    """The keys of a workload's selector."""

    match_labels: Mapping[str, str] = EMPTY
    match_expressions: tuple[_Expression, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.match_labels) | {each.key for each in self.match_expressions}


class _Spec(Struct, frozen=True):
    selector: WorkloadSelector = msgspec.field(default_factory=WorkloadSelector)


class _Workload(Struct, frozen=True):
    metadata: ObjectMeta = NO_META
    spec: _Spec = msgspec.field(default_factory=_Spec)


_READABLE = {
    (f"{group}/v1", kind): Resource(group, "v1", plural, kind, namespaced=True, type=_Workload)
    for group, plural, kind in (
        ("apps", "replicasets", "ReplicaSet"),
        ("apps", "statefulsets", "StatefulSet"),
        ("apps", "daemonsets", "DaemonSet"),
        ("batch", "jobs", "Job"),
    )
}


class PodOwners:
    """Reads the controllers of pods."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, frozenset[str]] = {}

    async def selected_by(self, owner: OwnerReference, namespace: str) -> Collection[str] | None:
        """Return the keys of the labels by which a controller selects pods; None if they are unknown."""
        resource = _READABLE.get((owner.api_version, owner.kind))
        if resource is None or object_name_fault(owner.name):
            return None
        if owner.uid in self._known:
            return self._known[owner.uid]
        try:
            async with asyncio.timeout(_READ_WITHIN):
                found = await self._client.get(resource, owner.name, namespace)
        except (KubeError, TimeoutError) as error:
            log.warning(
                "the controller of a pod cannot be read: the pod keeps all its labels",
                extra=fields(kind=owner.kind, name=owner.name, namespace=namespace, error=error),
            )
            return None
        if found.metadata.uid != owner.uid:
            return None
        if len(self._known) >= _REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[owner.uid] = found.spec.selector.keys
        return found.spec.selector.keys
