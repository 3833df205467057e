"""The stand-in of kube-scheduler in a local cluster: its own checks and scores, and calls of the extender.

It follows the API, chooses a node for each pod, binds the pod, or says on the pod why not. Pods without a
node whose schedulerName is ``default-scheduler`` are scheduled, like in a real cluster. One decision is
made after the other; each pod is at once assumed on its node, so that the next decision sees it, while
bindings are under way, ``_CONCURRENCY`` at most.

- What is decided here knows nothing of corewise: resources fit, taints, affinity, and their scores, with the
  scoring of resources that ``corewise scheduler config`` prints.
- ``extender`` is how ``corewise scheduler`` is reached. For the pods that are its business, it filters the
  nodes that are left, its scores count beside those from here, and it binds those that own CPUs, or all.
  None: it is not installed.
- A pod that fits nowhere gets the condition PodScheduled False, with the reason Unschedulable and a text that
  counts nodes by cause, and an Event FailedScheduling. So does one whose binding is refused.

There is no preemption.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from corewise.engine import Decision, Placement
from corewise.engine.assembly import kube_scheduler
from corewise.engine.reading import pod_facts
from corewise.kube.cache import Cache
from corewise.kube.client import Client, PatchType
from corewise.kube.clock import Clock, rfc3339
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.events import EventRecorder
from corewise.kube.objects import KubeObject, ObjectReference
from corewise.kube.resources import PODS
from corewise.scheduler.state import UNFINISHED, ClusterState
from corewise.vocabulary.qos import ANY_NAMESPACE
from corewise.workload.pods import Pod
from corewise_lab.extender_calls import Entry, ExtenderCalls, ExtenderError
from corewise_lab.scheduling_queue import SchedulingQueue
from corewise_lab.waiting import Failures

NAME = "default-scheduler"
_CONCURRENCY = 32
_POLL = 0.05
_EXPIRE_EVERY = 5.0
Key = tuple[str, str]


class LocalScheduler:
    """One of them runs in a local cluster."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.state = ClusterState(
            client,
            clock,
            on_pod=self._pod_changed,
            on_room=self._room_changed,
            rules=ANY_NAMESPACE,
            pods=UNFINISHED,
        )
        self._events = EventRecorder(client, component=NAME, instance=NAME, clock=clock)
        self._engine = kube_scheduler()
        self.extender: ExtenderCalls | None = None
        self.answered = 0
        """How many times a pod was bound, or found no node."""
        self.failures = Failures()
        """Of the extender, or of the API server."""
        self._queue = SchedulingQueue()
        self._pods: dict[str, Pod] = {}
        self._said: dict[str, str] = {}
        self._held: set[Key] = set()
        self._running = False
        self._awake = asyncio.Event()
        self._slots = asyncio.Semaphore(_CONCURRENCY)

    @property
    def is_idle(self) -> bool:
        """Whether every known pod has been bound, or could not be scheduled."""
        return self._queue.is_idle

    def has_refused(self, key: Key) -> bool:
        """Whether a pod could not be scheduled."""
        pod = self.state.pods.items.get(key)
        return pod is not None and self._queue.is_refused(pod.metadata.uid)

    @property
    def pending(self) -> int:
        """The number of pods without a node."""
        return len(self._queue)

    async def have_seen(self, nodes: Iterable[KubeObject]) -> None:
        """Wait until these nodes have been seen in these versions or later ones."""
        for node in nodes:
            while not is_in(self.state.nodes, node):
                await self._clock.sleep(_POLL)

    def hold(self, keys: Collection[Key]) -> None:
        """Leave these pods alone, which are about to be created, until they are released together."""
        self._held.update(keys)

    async def release(self, keys: Sequence[Key], created: Iterable[KubeObject]) -> None:
        """Schedule the held pods, in this order, once the created ones have been seen."""
        for pod in created:
            while not (self._running and is_in(self.state.pods, pod)):
                await self._clock.sleep(_POLL)
        self._held.difference_update(keys)
        for key in keys:
            self._consider(self.state.pods.items.get(key))

    def try_all(self) -> None:
        """Try every pod without a node again now."""
        self._queue.try_all()
        self._awake.set()

    async def run(self) -> None:
        """Schedule until canceled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.state.caches.run())
            group.create_task(self._events.run())
            group.create_task(self._expire())
            await self.state.caches.listed(self._clock)
            self._running = True
            for pod in sorted(self.state.pods.items.values(), key=_age):
                self._consider(pod)
            try:
                while True:
                    await self._slots.acquire()
                    uid = await self._next()
                    await self._schedule(self._pods[uid], group)
            finally:
                if self.extender is not None:
                    await self.extender.close()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget(old)
        if new is not None and (old is None or not _asks_the_same(old, new)):
            self._consider(new)

    def _room_changed(self) -> None:
        self._queue.changed()
        self._awake.set()

    def _consider(self, pod: Pod | None) -> None:
        """Queue a pod that waits for a node; forget one that does not."""
        if pod is None or not self._running:
            return
        meta = pod.metadata
        if not _waits(pod):
            self._forget(pod)
        elif (meta.namespace, meta.name) not in self._held:
            self._pods[meta.uid] = pod
            self._queue.add(meta.uid, pod.spec.priority or 0)
            self._awake.set()

    def _forget(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._queue.remove(uid)
        self._pods.pop(uid, None)
        self._said.pop(uid, None)

    async def _next(self) -> str:
        """Wait for a pod whose turn it is."""
        while True:
            now = self._clock.monotonic()
            uid = self._queue.take(now)
            if uid is not None:
                return uid
            self._awake.clear()
            due = self._queue.next_due()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - now)):
                    await self._awake.wait()
            except TimeoutError:
                continue

    async def _schedule(self, pod: Pod, group: asyncio.TaskGroup) -> None:
        """Choose a node and count the pod there; then carry it out in a slot, beside others."""
        facts = pod_facts(pod, self.state.counted.rules)
        decision = self._engine.decide(facts, self.state.counted.cluster.snapshot())
        extender = self.extender.entry(pod) if self.extender is not None else None
        try:
            node, why = await self._choose(pod, decision, extender)
        except NotFound:
            self._forget(pod)
            self._slots.release()
        except (ExtenderError, KubeError) as error:
            self.failures.note(error)
            self._queue.failed(pod.metadata.uid)
            self._awake.set()
            group.create_task(self._refuse(pod, str(error)))
        else:
            if node:
                self.state.assumed.put(facts, Placement(node))
                group.create_task(self._bind(pod, node, extender))
            else:
                self.answered += 1
                self._queue.refused(pod.metadata.uid)
                group.create_task(self._refuse(pod, why))

    async def _choose(self, pod: Pod, decision: Decision, extender: Entry | None) -> tuple[str, str]:
        """Return the best node, or "" and the reason why there is none.

        Raises:
            ExtenderError: if the extender does not answer.
        """
        if extender is None or decision.node is None:
            return decision.node or "", decision.headline
        own = {
            decision.names[row]: int(decision.total[row])
            for row in np.flatnonzero(decision.feasible).tolist()
        }
        asked = int(decision.asked.sum())
        causes = Counter({each.cause.summary: each.nodes for each in decision.causes()})
        document = await self._client.get(PODS.typed(dict), pod.metadata.name, pod.metadata.namespace)
        left, refused = await extender.filter(document, list(own))
        if not left:
            told = ", ".join(f"{nodes} {cause}" for cause, nodes in (causes + refused).most_common())
            return "", f"0/{asked} nodes are available: {told}"
        scores = await extender.prioritize(document, left)
        return max(left, key=lambda name: own[name] + scores.get(name, 0)), ""

    async def _bind(self, pod: Pod, node: str, extender: Entry | None) -> None:
        uid = pod.metadata.uid
        try:
            await (extender.bind(pod, node) if extender and extender.binds else self._post(pod, node))
            self.state.assumed.keep(uid)
            self.answered += 1
        except (ExtenderError, KubeError) as error:
            self.failures.note(error)
            self._queue.failed(uid)
            self._awake.set()
            await self._report(pod, str(error))
        finally:
            self.state.assumed.forget(uid)
            self._slots.release()

    async def _post(self, pod: Pod, node: str) -> None:
        meta = pod.metadata
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(meta.name, namespace=meta.namespace, subresource="binding")
        await self._client.request("POST", path, body=body, repeatable=True)

    async def _refuse(self, pod: Pod, message: str) -> None:
        try:
            await self._report(pod, message)
        finally:
            self._slots.release()

    async def _report(self, pod: Pod, message: str) -> None:
        """Say on the pod why it has no node, unless that has been said."""
        meta = pod.metadata
        if self._said.get(meta.uid) == message or meta.uid not in self._pods:
            return
        self._said[meta.uid] = message
        regarding = ObjectReference(kind="Pod", name=meta.name, namespace=meta.namespace, uid=meta.uid)
        self._events.emit(regarding, "FailedScheduling", message, warning=True)
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        try:
            await self._client.patch(
                PODS,
                meta.name,
                {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}},
                type=PatchType.STRATEGIC,
                namespace=meta.namespace,
                subresource="status",
            )
        except KubeError:
            self._said.pop(meta.uid, None)

    async def _expire(self) -> None:
        """Forget pods that the watch has not shown bound in time, again and again."""
        while True:
            await self._clock.sleep(_EXPIRE_EVERY)
            self.state.assumed.expire()


def is_in(cache: Cache[Any], of: KubeObject) -> bool:
    """Whether a cache has an object in this version or a later one: versions count upwards here."""
    seen = cache.get(of.metadata.name, of.metadata.namespace)
    return seen is not None and int(seen.metadata.resource_version) >= int(of.metadata.resource_version)


def _waits(pod: Pod) -> bool:
    """Whether a pod is to be scheduled by this scheduler, now."""
    spec = pod.spec
    ours = spec.scheduler_name == NAME and not spec.scheduling_gates
    return ours and not spec.node_name and pod.metadata.deletion_timestamp is None


def _asks_the_same(old: Pod, new: Pod) -> bool:
    before, after = old.metadata, new.metadata
    return (before.uid, old.spec, before.labels, before.annotations, before.deletion_timestamp) == (
        after.uid,
        new.spec,
        after.labels,
        after.annotations,
        after.deletion_timestamp,
    )


def _age(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""
