"""Finds the pods that should be offline and count as online, since no manager changed them when new.

The webhooks on pods have failurePolicy Ignore: a pod that is created while no replica answers stays as it was
written. The leader reports such a pod once it is bound: an Event on it, and a metric. It changes no pod.

A pod counts if it is marked as offline, or a profile that is as old as the pod would mark it, and a container
asks for cpu or memory. Profiles that apply to a part of the pods are passed over, and so is everything while
no node offers batch CPU: then pods stay as they are on purpose.

**Cost.** A pod is examined when it appears, when its metadata or spec change, and when profiles, namespaces
or PriorityClasses do. While nothing of this changes, no pod is looked at, however many there are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from corewise.actions import EmitEvent
from corewise.colocation.offline import is_offered
from corewise.colocation.profiles import PriorityOfClass, why_not_online
from corewise.kube.clock import Clock, sleep_unless
from corewise.kube.objects import ObjectMeta
from corewise.manager.pod_webhooks import SPARED_NAMESPACES
from corewise.manager.profiles import Profiles
from corewise.manager.snapshot import Snapshot
from corewise.vocabulary.names import STATIC_POD
from corewise.vocabulary.reasons import Reason
from corewise.workload.pods import Container, Pod

_GATHERED_FOR = 1.0
_OFFER_SEEN_WITHIN = 30.0
_AT_ONCE = 500


class UntranslatedPods:
    """The pods found so far; only ``run`` looks for them. ``namespace`` is the manager's own."""

    def __init__(
        self,
        snapshot: Snapshot,
        profiles: Profiles,
        *,
        namespace: str,
        record: Callable[[EmitEvent], object],
        clock: Clock,
    ) -> None:
        self._snapshot, self._profiles = snapshot, profiles
        self._spared = {*SPARED_NAMESPACES, namespace}
        self._record, self._clock = record, clock
        self._running = self._all = self._offered = False
        self._changed: dict[str, Pod] = {}
        self._wake = asyncio.Event()
        self._found: dict[str, ObjectMeta] = {}
        self.examined = 0
        """How often a pod has been looked at."""

    def count(self) -> Mapping[tuple[str, ...], float]:
        """Return the number of such pods, by namespace."""
        return {(name,): n for name, n in Counter(each.namespace for each in self._found.values()).items()}

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._changed.pop(old.metadata.uid, None)
                self._found.pop(old.metadata.uid, None)
        elif self._running and (old is None or _said(old) != _said(new)):
            self._changed[new.metadata.uid] = new
            self._wake.set()

    def everything_changed(self) -> None:
        """Look at all pods again: what selects or marks them is another."""
        self._all = True
        self._wake.set()

    async def run(self) -> None:
        """Find them and report each once, until canceled."""
        self._running = True
        self.everything_changed()
        try:
            while True:
                await sleep_unless(self._wake, self._clock, _OFFER_SEEN_WITHIN)
                await self._clock.sleep(_GATHERED_FOR)
                self._wake.clear()
                await self._examine_changed()
        finally:
            self._running = False
            self._changed.clear()
            self._found.clear()

    async def _examine_changed(self) -> None:
        nodes = self._snapshot.nodes.items.values()
        offered = is_offered([each.status.allocatable for each in nodes])
        pods, self._changed = self._changed, {}
        if self._all or offered != self._offered:
            pods = {each.metadata.uid: each for each in self._snapshot.pods.items.values()}
        self._all, self._offered = False, offered
        priorities = self._profiles.priorities() if pods else {}
        for number, pod in enumerate(pods.values()):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)  # the webhooks answer in between
            self._examine(pod, priorities)

    def _examine(self, pod: Pod, priorities: Mapping[str, PriorityOfClass]) -> None:
        meta = pod.metadata
        current = self._snapshot.pods.get(meta.name, meta.namespace)
        if current is None or current.metadata.uid != meta.uid:
            return
        self.examined += 1
        why = self._why(current, priorities) if self._offered else ""
        if not why:
            self._found.pop(meta.uid, None)
        elif meta.uid not in self._found:
            self._found[meta.uid] = meta
            reason = Reason.OFFLINE_POD_ONLINE
            self._record(EmitEvent("Pod", meta.namespace, meta.name, meta.uid, reason, why, reason.warning))

    def _why(self, pod: Pod, priorities: Mapping[str, PriorityOfClass]) -> str:
        meta = pod.metadata
        if meta.namespace in self._spared or STATIC_POD in meta.annotations or meta.deletion_timestamp:
            return ""
        profiles = [
            each
            for each in self._profiles.ordered()
            if self._profiles.created(each.name) <= (meta.creation_timestamp or "")
        ]
        labels = self._profiles.labels_of(meta.namespace)
        return why_not_online(_document(pod), labels, profiles, priorities)


def _said(pod: Pod) -> tuple[object, ...]:
    meta = pod.metadata
    return meta.labels, meta.annotations, meta.deletion_timestamp, pod.spec


def _document(pod: Pod) -> dict[str, Any]:
    """Return the fields that mark a pod and its requests, as the API has them."""
    meta, spec = pod.metadata, pod.spec
    return {
        "metadata": {"labels": meta.labels, "annotations": meta.annotations},
        "spec": {
            "priority": spec.priority,
            "resources": {"requests": spec.resources.requests, "limits": spec.resources.limits},
            "containers": _containers(spec.containers),
            "initContainers": _containers(spec.init_containers),
        },
    }


def _containers(containers: tuple[Container, ...]) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "resources": {"requests": each.resources.requests, "limits": each.resources.limits},
        }
        for each in containers
    ]
