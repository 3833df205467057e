"""Deployments, ReplicaSets and Jobs get the pods that they ask for, as from kube-controller-manager.

It works from the state of the store; a change marks the workload that it concerns, and marked ones are
brought up to date one after the other. Pods and ReplicaSets go through admission as anybody's do; a refusal
stands in the condition ReplicaFailure and is tried again.

- A Deployment rolls out by maxSurge and maxUnavailable, or by Recreate; it keeps old ReplicaSets as revisions
  for ``kubectl rollout undo``. A scale in the middle of a rollout is not spread over old ReplicaSets.
- A Job makes another pod at once where a real one waits longer after each failure.
- What has no controller yet and matches the selector is adopted. No Events are written.

Source: k8s.io/kubernetes/pkg/controller/{deployment,replicaset,job}.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from kubedouble.authentication import service_account
from kubedouble.cluster import Cluster
from kubedouble.deletion import Options, delete_stored
from kubedouble.errors import StatusError
from kubedouble.pod_cells import instant
from kubedouble.requests import Call, RequestInfo
from kubedouble.resources import ResourceInfo
from kubedouble.schema.decoding import timestamp
from kubedouble.selectors import label_selector, satisfies
from kubedouble.store import Change, Key, Object, Stored
from kubedouble.writing import Change as Edit
from kubedouble.writing import change_object, create_object

_STORAGES = {"Deployment": "deployments.apps", "ReplicaSet": "replicasets.apps", "Job": "jobs.batch"}
_LONGEST_REVISION = 18
_HASH = "pod-template-hash"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_REVISION = "deployment.kubernetes.io/revision"
_NOT_COPIED = {_REVISION, "kubectl.kubernetes.io/last-applied-configuration"}
_FINISHED = {"Succeeded", "Failed"}
_AGAIN_SECONDS = 5.0
_USER = service_account("kube-system", "workload-controller")

Place = tuple[str, Key]
"""Storage key and object key."""


class Controllers:
    """Brings workloads up to date until canceled."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._marked: dict[Place, None] = {}
        self._wake = asyncio.Event()
        self._syncs: Mapping[str, Callable[[Place, Stored], Awaitable[None]]] = {
            "deployments.apps": self._deployment,
            "replicasets.apps": self._replica_set,
            "jobs.batch": self._job,
        }
        cluster.store.listen(self._note)
        for storage in self._syncs:
            for stored in cluster.store.table(storage).scan():
                self._mark((storage, stored.key))

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            while self._marked:
                place = next(iter(self._marked))
                del self._marked[place]
                stored = self._cluster.store.get(place[0], *place[1])
                if stored is None or stored.object["metadata"].get("deletionTimestamp"):
                    continue
                try:
                    await self._syncs[place[0]](place, stored)
                except StatusError:
                    self._mark_in(_AGAIN_SECONDS, place)
            self._wake.clear()

    def _note(self, storage: str, change: Change) -> None:
        """Mark the workload that changed, and the workloads that own or owned the changed object."""
        if storage in self._syncs:
            self._mark((storage, change.stored.key))
        for state in filter(None, (change.stored, change.previous)):
            owner = _controller(state.object)
            if owner and owner["kind"] in _STORAGES:
                self._mark((_STORAGES[owner["kind"]], (state.key[0], owner["name"])))

    def _mark(self, place: Place) -> None:
        self._marked[place] = None
        self._wake.set()

    def _mark_in(self, seconds: float, place: Place) -> None:
        asyncio.get_running_loop().call_later(max(seconds, 0.1), self._mark, place)

    # What all have in common.

    def _children(self, owner: Stored, storage: str) -> list[Stored]:
        """Return an owner's objects; adopt those without a controller that its selector matches."""
        namespace, uid = owner.key[0], owner.object["metadata"]["uid"]
        wanted = label_selector(owner.object["spec"].get("selector"))
        found = []
        for stored in list(self._cluster.store.table(storage).scan(namespace)):
            metadata, controller = stored.object["metadata"], _controller(stored.object)
            if controller is None and _is_active(stored) and satisfies(metadata.get("labels") or {}, wanted):
                references = [*(metadata.get("ownerReferences") or ()), _reference(owner)]
                adopted = {**stored.object, "metadata": {**metadata, "ownerReferences": references}}
                found.append(self._cluster.store.put(storage, stored.key, adopted))
            elif controller is not None and controller["uid"] == uid:
                found.append(stored)
        return found

    async def _make_pods(self, owner: Stored, count: int) -> None:
        template = owner.object["spec"]["template"]
        kept = {
            name: value
            for name, value in (template.get("metadata") or {}).items()
            if name in {"labels", "annotations", "finalizers"}
        }
        metadata = {**kept, "generateName": f"{owner.key[1]}-", "ownerReferences": [_reference(owner)]}
        for _ in range(count):
            await self._create("pods", owner.key[0], {"metadata": metadata, "spec": template["spec"]})
            await asyncio.sleep(0)

    async def _create(self, storage: str, namespace: str, body: Object) -> None:
        resource = self._resource(storage)
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        await create_object(
            self._cluster, self._call("create", resource, (namespace, "")), Edit(lambda _: body)
        )

    async def change(self, place: Place, part: str, values: Object) -> None:
        """Set fields of a part of an object: ``spec``, ``status``, or ``metadata``'s annotations."""
        resource = self._resource(place[0])
        call = self._call("update", resource, place[1], "status" if part == "status" else "")

        def make(obj: Object | None) -> Object:
            before = obj or {}
            if part == "annotations":
                return {**before, "metadata": {**before["metadata"], "annotations": values}}
            return {**before, part: values if part == "status" else {**before[part], **values}}

        await change_object(self._cluster, call, Edit(make), attempts=5)

    def _call(self, verb: str, resource: ResourceInfo, key: Key, subresource: str = "") -> Call:
        info = RequestInfo(verb, "", resource.group, resource.version, resource.plural, subresource, *key)
        headers = {"User-Agent": "kube-controller-manager"}
        return Call(info, resource, _USER, {}, headers, self._cluster.clock())

    def _delete(self, storage: str, doomed: Iterable[Stored]) -> None:
        for stored in doomed:
            delete_stored(self._cluster, self._resource(storage), stored, Options())

    def _resource(self, storage: str) -> ResourceInfo:
        resource = self._cluster.registry.of_storage(storage)
        if resource is None:
            raise LookupError(storage)
        return resource

    @property
    def _now(self) -> datetime:
        return self._cluster.clock()

    # ReplicaSets.

    async def _replica_set(self, place: Place, stored: Stored) -> None:
        wanted = stored.object["spec"]["replicas"]
        active = [pod for pod in self._children(stored, "pods") if _is_active(pod)]
        refusal = None
        try:
            await self._make_pods(stored, wanted - len(active))
        except StatusError as error:
            refusal = error
        self._delete("pods", sorted(active, key=_first_to_go)[: max(len(active) - wanted, 0)])
        await self.change(place, "status", self._replica_set_status(place, stored, refusal))
        if refusal is not None:
            raise refusal

    def _replica_set_status(self, place: Place, stored: Stored, refusal: StatusError | None) -> Object:
        pods = self._children(stored, "pods")
        active = [pod for pod in pods if _is_active(pod)]
        since = [self._since(pod) for pod in active if _is_ready(pod)]
        least = timedelta(seconds=stored.object["spec"].get("minReadySeconds", 0))
        waiting = [at + least - self._now for at in since if at + least > self._now]
        if waiting:
            self._mark_in(min(waiting).total_seconds(), place)
        conditions: list[Object] = []
        if refusal is not None:
            said = ("True", "FailedCreate", refusal.message)
            conditions = _with(_stated(stored), self._now, "ReplicaFailure", said)
        return {
            "replicas": len(active),
            "fullyLabeledReplicas": len(active),
            "readyReplicas": len(since),
            "availableReplicas": len(since) - len(waiting),
            "terminatingReplicas": sum(not _is_active(pod) and not _is_finished(pod) for pod in pods),
            "observedGeneration": stored.object["metadata"]["generation"],
            "conditions": conditions,
        }

    def _since(self, pod: Stored) -> datetime:
        """Return the time at which a pod became ready."""
        stated = (each.get("lastTransitionTime") for each in _stated(pod) if each["type"] == "Ready")
        return instant(next(stated, None)) or self._now

    # Deployments.

    async def _deployment(self, place: Place, stored: Stored) -> None:
        spec = stored.object["spec"]
        sets = sorted(self._children(stored, "replicasets.apps"), key=_age)
        new = next((each for each in sets if _template_of(each) == spec["template"]), None)
        old = [each for each in sets if each is not new]
        if new is None and not spec.get("paused"):
            await self._create("replicasets.apps", stored.key[0], _replica_set_of(stored))
            return
        if new is not None and not spec.get("paused"):
            await self._number(place, stored, new, old)
        for each, size in scaled(spec, new, old).items():
            await self.change(("replicasets.apps", each), "spec", {"replicas": size})
        status = self._deployment_status(place, stored, new, old)
        await self.change(place, "status", status)
        if _is_complete(spec, status):
            empty = [each for each in old if not _is_populated(each)]
            excess = len(empty) - spec.get("revisionHistoryLimit", 10)
            self._delete("replicasets.apps", sorted(empty, key=_revision)[: max(excess, 0)])

    async def _number(self, place: Place, stored: Stored, new: Stored, old: Sequence[Stored]) -> None:
        """Make the newest ReplicaSet the last revision, with the Deployment's annotations."""
        own = stored.object["metadata"].get("annotations") or {}
        before = new.object["metadata"].get("annotations") or {}
        revision = {_REVISION: str(max(_revision(new), 1 + max(map(_revision, old), default=0)))}
        copied = {key: value for key, value in own.items() if key not in _NOT_COPIED}
        if (wanted := {**before, **copied, **revision}) != before:
            await self.change(("replicasets.apps", new.key), "annotations", wanted)
        if own.get(_REVISION) != revision[_REVISION]:
            await self.change(place, "annotations", {**own, **revision})

    def _deployment_status(
        self, place: Place, stored: Stored, new: Stored | None, old: Sequence[Stored]
    ) -> Object:
        """Return the totals of the ReplicaSets; the newest one is the one that a rollout is about."""
        sets = [*([new] if new else ()), *old]
        status = {
            "observedGeneration": stored.object["metadata"]["generation"],
            "updatedReplicas": _count(new, "replicas") if new else 0,
            **{name: sum(_count(each, name) for each in sets)
               for name in ("replicas", "readyReplicas", "availableReplicas")},
        }  # fmt: skip
        status["unavailableReplicas"] = max(0, status["replicas"] - status["availableReplicas"])
        return {**status, "conditions": self._deployment_conditions(place, stored, status, sets)}

    def _deployment_conditions(
        self, place: Place, stored: Stored, status: Object, sets: Sequence[Stored]
    ) -> list[Object]:
        spec, now = stored.object["spec"], self._now
        enough = status["availableReplicas"] >= spec["replicas"] - bounds(spec)[1]
        words = ("True", "Available", "has") if enough else ("False", "Unavailable", "does not have")
        reason, message = f"MinimumReplicas{words[1]}", f"Deployment {words[2]} minimum availability."
        conditions = _with(_stated(stored), now, "Available", (words[0], reason, message))
        conditions = [each for each in conditions if each["type"] != "ReplicaFailure"]
        conditions += [{**each, "lastUpdateTime": each["lastTransitionTime"]}
                       for one in sets[:1] for each in _stated(one)]  # fmt: skip
        named = f'ReplicaSet "{sets[0].key[1]}"' if sets else "Deployment"
        progress = next((each for each in conditions if each["type"] == "Progressing"), None)
        if _is_complete(spec, status):
            said = ("True", "NewReplicaSetAvailable", f"{named} has successfully progressed.")
            return _with(conditions, now, "Progressing", said)
        before = stored.object.get("status") or {}
        counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        moved = any(status[name] > before.get(name, 0) for name in counts)
        if progress is None or moved or progress["reason"] == "NewReplicaSetAvailable":
            said = ("True", "ReplicaSetUpdated", f"{named} is progressing.")
            others = [each for each in conditions if each is not progress]
            return _with(others, now, "Progressing", said)
        since = instant(progress.get("lastUpdateTime")) or now
        left = (since + timedelta(seconds=spec.get("progressDeadlineSeconds", 600)) - now).total_seconds()
        if left > 0:
            self._mark_in(left, place)
        elif not spec.get("paused"):
            said = ("False", "ProgressDeadlineExceeded", f"{named} has timed out progressing.")
            conditions = _with(conditions, now, "Progressing", said)
        return conditions

    # Jobs.

    async def _job(self, place: Place, stored: Stored) -> None:
        spec, status, now = stored.object["spec"], stored.object.get("status") or {}, self._now
        if {"Complete", "Failed"} & {each["type"] for each in _stated(stored)}:
            self._expire(place, stored)
            return
        pods = self._children(stored, "pods")
        active = [pod for pod in pods if _is_active(pod)]
        phases = [pod.object["status"]["phase"] for pod in pods]
        succeeded, failed = phases.count("Succeeded"), phases.count("Failed")
        if not spec.get("suspend"):
            status = {"startTime": timestamp(now), **status}
        if spec.get("completions") is not None:
            done, wanted = succeeded >= spec["completions"], spec["completions"] - succeeded
        else:
            done, wanted = bool(succeeded and not active), len(active) if succeeded else spec["parallelism"]
        conditions: list[Object] = []
        if done:
            said = ("True", "CompletionsReached", "Reached expected number of succeeded pods")
            conditions = _with(_with((), now, "SuccessCriteriaMet", said), now, "Complete", said)
            status = {**status, "completionTime": timestamp(now)}
        elif failure := self._failure(place, spec, status, active, failed):
            conditions = _with(_with((), now, "FailureTarget", failure), now, "Failed", failure)
        elif spec.get("suspend"):
            conditions = _with(_stated(stored), now, "Suspended", ("True", "JobSuspended", "Job suspended"))
        wanted = 0 if conditions else max(min(wanted, spec["parallelism"]), 0)
        self._delete("pods", sorted(active, key=_first_to_go)[: max(len(active) - wanted, 0)])
        await self._make_pods(stored, wanted - len(active))
        active = [pod for pod in self._children(stored, "pods") if _is_active(pod)]
        ready = len([pod for pod in active if _is_ready(pod)])
        counts = {"active": len(active), "ready": ready, "succeeded": succeeded, "failed": failed}
        await self.change(place, "status", {**status, **counts, "conditions": conditions})

    def _failure(
        self, place: Place, spec: Object, status: Object, active: Sequence[Stored], failed: int
    ) -> tuple[str, str, str] | None:
        """Return status, reason and message of a Job's failure."""
        containers = [each for pod in active for each in pod.object["status"].get("containerStatuses") or ()]
        restarts = sum(each.get("restartCount", 0) for each in containers)
        if max(failed, restarts) > spec["backoffLimit"]:
            return "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        started, limit = instant(status.get("startTime")), spec.get("activeDeadlineSeconds")
        if not started or limit is None:
            return None
        left = (started + timedelta(seconds=limit) - self._now).total_seconds()
        if left <= 0:
            return "True", "DeadlineExceeded", "Job was active longer than specified deadline"
        self._mark_in(left, place)
        return None

    def _expire(self, place: Place, stored: Stored) -> None:
        """Delete a Job that ended ``ttlSecondsAfterFinished`` ago."""
        seconds = stored.object["spec"].get("ttlSecondsAfterFinished")
        ended = instant(_stated(stored)[-1]["lastTransitionTime"])
        if seconds is None or ended is None:
            return
        left = (ended + timedelta(seconds=seconds) - self._now).total_seconds()
        if left > 0:
            self._mark_in(left, place)
        else:
            self._delete(place[0], [stored])


def bounds(spec: Object) -> tuple[int, int]:
    """Return the pods a rollout may have above the wanted number, and the pods that may be missing."""
    if spec["strategy"]["type"] == "Recreate":
        return 0, spec["replicas"]
    rolling, wanted = spec["strategy"]["rollingUpdate"], spec["replicas"]
    surge, missing = (
        round_to(int(given[:-1]) * wanted / 100) if isinstance(given := rolling[name], str) else given
        for name, round_to in (("maxSurge", math.ceil), ("maxUnavailable", math.floor))
    )
    return surge, min(missing if surge or missing else 1, wanted)


def scaled(spec: Object, new: Stored | None, old: Sequence[Stored]) -> dict[Key, int]:
    """Return the ReplicaSets whose size is to change next, ``old`` in order of age, and their sizes."""
    wanted, total = spec["replicas"], sum(map(_size, [*old, *([new] if new else ())]))
    if new is None or spec.get("paused"):
        populated = [each for each in [*old, *([new] if new else ())] if _size(each)] or (
            [new] if new else []
        )
        return {each.key: wanted for each in populated if len(populated) == 1 and _size(each) != wanted}
    if spec["strategy"]["type"] == "Recreate" and any(map(_is_populated, old)):
        return {each.key: 0 for each in old if _size(each)}
    surge, missing = bounds(spec)
    size = min(wanted, _size(new) + max(wanted + surge - total, 0))
    if size != _size(new):
        return {new.key: size}
    sizes = {each.key: _size(each) for each in old}
    least = wanted - missing
    room = total - least - (_size(new) - _available(new))
    for each in old:  # those that are not available go first: they serve no clients
        gone = max(min(room, _size(each) - _available(each)), 0)
        sizes[each.key] -= gone
        room -= gone
    spare = _available(new) + sum(min(_available(each), sizes[each.key]) for each in old) - least
    for each in old:
        gone = max(min(spare, room, sizes[each.key]), 0)
        sizes[each.key] -= gone
        spare, room = spare - gone, room - gone
    return {each.key: sizes[each.key] for each in old if sizes[each.key] != _size(each)}


def _replica_set_of(deployment: Stored) -> Object:
    """Return a ReplicaSet of nothing yet for a Deployment's template, named after the template."""
    spec = deployment.object["spec"]
    digest = hashlib.sha256(msgspec.json.encode(spec["template"], order="deterministic")).digest()
    name = {_HASH: "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:10])}
    template, selector = spec["template"], spec["selector"]
    labels = {**(template["metadata"].get("labels") or {}), **name}
    metadata = {
        "name": f"{deployment.key[1]}-{name[_HASH]}",
        "labels": labels,
        "ownerReferences": [_reference(deployment)],
    }
    return {
        "metadata": metadata,
        "spec": {
            "replicas": 0,
            "minReadySeconds": spec.get("minReadySeconds", 0),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **name}},
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        },
    }


def _template_of(replica_set: Stored) -> Object:
    """Return the template that a ReplicaSet was made for."""
    template: Object = replica_set.object["spec"]["template"]
    labels = {key: value for key, value in template["metadata"]["labels"].items() if key != _HASH}
    return {**template, "metadata": {**template["metadata"], "labels": labels}}


def _is_complete(spec: Object, status: Object) -> bool:
    names = ("replicas", "updatedReplicas", "availableReplicas")
    return all(status[name] == spec["replicas"] for name in names)


def _size(replica_set: Stored) -> int:
    size: int = replica_set.object["spec"]["replicas"]
    return size


def _count(replica_set: Stored, name: str) -> int:
    count: int = (replica_set.object.get("status") or {}).get(name, 0)
    return count


def _available(replica_set: Stored) -> int:
    """Return the number of pods that serve; the status may be older than the last change of the size."""
    return min(_count(replica_set, "availableReplicas"), _size(replica_set))


def _is_populated(replica_set: Stored) -> bool:
    """Whether a ReplicaSet has pods, or may have some that its status does not count yet."""
    seen = _count(replica_set, "observedGeneration") == replica_set.object["metadata"]["generation"]
    left = sum(_count(replica_set, name) for name in ("replicas", "terminatingReplicas"))
    return bool(_size(replica_set) or left or not seen)


def _age(stored: Stored) -> tuple[str, int]:
    return stored.object["metadata"]["creationTimestamp"], _revision(stored)


def _revision(replica_set: Stored) -> int:
    text = (replica_set.object["metadata"].get("annotations") or {}).get(_REVISION, "")
    return int(text) if text.isdecimal() and len(text) <= _LONGEST_REVISION else 0


def _controller(obj: Object) -> Object | None:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def _reference(owner: Stored) -> Object:
    fields = {"apiVersion": owner.object["apiVersion"], "kind": owner.object["kind"], "name": owner.key[1]}
    flags = {"controller": True, "blockOwnerDeletion": True}
    return {**fields, "uid": owner.object["metadata"]["uid"], **flags}


def _is_finished(stored: Stored) -> bool:
    return (stored.object.get("status") or {}).get("phase") in _FINISHED


def _is_active(stored: Stored) -> bool:
    return not stored.object["metadata"].get("deletionTimestamp") and not _is_finished(stored)


def _stated(stored: Stored) -> list[Object]:
    conditions: list[Object] = (stored.object.get("status") or {}).get("conditions") or []
    return conditions


def _is_ready(pod: Stored) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in _stated(pod))


def _first_to_go(pod: Stored) -> tuple[bool, bool, bool]:
    """Order pods: those that no node has first, then those that are not ready."""
    placed, status = bool(pod.object["spec"].get("nodeName")), pod.object["status"]
    return placed, status["phase"] == "Running", _is_ready(pod)


def _with(conditions: Iterable[Object], now: datetime, kind: str, said: tuple[str, str, str]) -> list[Object]:
    """Return conditions with one of a status, reason and message; unchanged ones keep their times."""
    status, reason, message = said
    stated = {"type": kind, "status": status, "reason": reason, "message": message}
    before = next((each for each in conditions if each["type"] == kind), {})
    if stated.items() <= before.items():
        return [*conditions]
    since = before["lastTransitionTime"] if before.get("status") == status else timestamp(now)
    stated["lastTransitionTime"] = since
    if kind in {"Available", "Progressing"}:
        stated["lastUpdateTime"] = timestamp(now)
    return [*(each for each in conditions if each["type"] != kind), stated]
