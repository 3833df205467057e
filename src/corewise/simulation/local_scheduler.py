"""The local cluster's scheduler: the engine of ``corewise scheduler``, with kube-scheduler's checks and
scores.

It follows the API, chooses a node for each pod, binds the pod, or says on the pod why not. Pods without a
node whose schedulerName is ``default-scheduler`` are scheduled, like in a real cluster. One decision is
made after the other, without waiting in between; each pod is at once assumed on its node, so that the next
decision sees it, while bindings are under way, ``_CONCURRENCY`` at most.

- An online pod goes to the node with the best score by allocation, preferences and, if it is configured,
  interference. An offline pod goes where the largest share of the batch CPU is left.
- With ``extender``, pods that request owned CPUs are placed by it, as kube-scheduler's configuration says;
  no other pod goes there.
- Else a pod is bound as ``corewise scheduler`` binds it (scheduler/binding.py): what it owns is entered in
  the Node's ledger first.
- A pod that fits nowhere gets the condition PodScheduled False, with the reason Unschedulable and a text that
  counts nodes by cause, and an Event FailedScheduling. So does one whose binding is refused.

``active`` takes another configuration, with interference for instance, and what was measured of the nodes.
There is no preemption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from corewise.engine import Engine, Placement, assemble, place
from corewise.engine.objects import PlacedPod
from corewise.engine.reading import pod_facts
from corewise.kube.cache import Cache
from corewise.kube.client import Client, PatchType
from corewise.kube.clock import Clock, rfc3339
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.events import EventRecorder
from corewise.kube.objects import KubeObject, ObjectReference
from corewise.kube.resources import PODS
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.active_config import ActiveConfig
from corewise.scheduler.binding import Binder, Wanted
from corewise.scheduler.configuration import DEFAULTS
from corewise.scheduler.decisions import Decisions
from corewise.scheduler.plugins import load_plugins
from corewise.scheduler.state import UNFINISHED, ClusterState
from corewise.simulation.extender_calls import ExtenderCalls, ExtenderError
from corewise.simulation.scheduling_queue import SchedulingQueue
from corewise.vocabulary.metrics import SCHEDULER, exported_by
from corewise.vocabulary.names import OWNED_CPUS_RESOURCE
from corewise.vocabulary.qos import ANY_NAMESPACE
from corewise.vocabulary.reasons import Reason

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
        assembled = partial(assemble, plugins=load_plugins(), kube_checks=True, kube_scores=True)
        self.active = ActiveConfig(self.state.cluster, clock, DEFAULTS, assembled)
        metrics = Exposition(exported_by(SCHEDULER))
        self._binder = Binder(client, self.state, self._engine, Decisions(0, clock), metrics)
        self.extender: ExtenderCalls | None = None
        self._queue = SchedulingQueue()
        self._pods: dict[str, PlacedPod] = {}
        self._said: dict[str, str] = {}
        self._held: set[Key] = set()
        self._running = False
        self._awake = asyncio.Event()
        self._slots = asyncio.Semaphore(_CONCURRENCY)

    @property
    def is_idle(self) -> bool:
        """Whether every pod that it knows of has been bound, or tried in vain."""
        return self._queue.is_idle

    def has_refused(self, key: Key) -> bool:
        """Whether a pod has been tried in vain."""
        pod = self.state.pods.items.get(key)
        return pod is not None and self._queue.is_refused(pod.metadata.uid)

    @property
    def pending(self) -> int:
        """How many pods have no node."""
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
        """Schedule what was held, in this order, once the created ones have been seen."""
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
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.state.caches.run())
            group.create_task(self._events.run())
            group.create_task(self._expire())
            await self.state.synced()
            self._running = True
            for pod in sorted(self.state.pods.items.values(), key=_age):
                self._consider(pod)
            while True:
                await self._slots.acquire()
                uid = await self._next()
                self._decide(self._pods[uid], group)

    def _pod_changed(self, old: PlacedPod | None, new: PlacedPod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget(old)
        if new is not None and (old is None or not _asks_the_same(old, new)):
            self._consider(new)

    def _room_changed(self) -> None:
        self._queue.changed()
        self._awake.set()

    def _consider(self, pod: PlacedPod | None) -> None:
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

    def _forget(self, pod: PlacedPod) -> None:
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

    def _decide(self, pod: PlacedPod, group: asyncio.TaskGroup) -> None:
        """Choose a node and reserve what the pod gets there; then carry it out in a slot, beside others."""
        facts = pod_facts(pod, ANY_NAMESPACE)
        with self.state.without(pod):
            answer = place(self.active.engine, self.state.cluster, facts)
        if self.extender is not None and is_managed(pod):
            group.create_task(self._extended(self.extender, pod))
        elif isinstance(answer, Placement):
            self.state.assume(facts, answer)
            self.state.remember(pod)
            group.create_task(self._bind(pod, answer.node))
        else:
            self._queue.refused(pod.metadata.uid)
            group.create_task(self._refuse(pod, answer.message))

    async def _bind(self, pod: PlacedPod, node: str) -> None:
        meta = pod.metadata
        try:
            refused = await self._binder.bind(Wanted(meta.namespace, meta.name, node, meta.uid))
            if refused is not None:
                self._queue.failed(meta.uid)
                self._awake.set()
                if refused.reason is not Reason.POD_CHANGED:
                    await self._report(pod, refused.message)
        finally:
            self._slots.release()

    async def _extended(self, extender: ExtenderCalls, pod: PlacedPod) -> None:
        """Have the extender choose among all nodes, and bind."""
        meta = pod.metadata
        try:
            stored = await self._client.get(PODS.typed(dict), meta.name, meta.namespace)
            await extender.place(stored, sorted(self.state.cluster.nodes))
        except NotFound:
            self._forget(pod)
        except (ExtenderError, KubeError) as error:
            self._queue.failed(meta.uid)
            self._awake.set()
            await self._report(pod, str(error))
        finally:
            self._slots.release()

    def _engine(self) -> Engine:
        return self.active.engine

    async def _refuse(self, pod: PlacedPod, message: str) -> None:
        try:
            await self._report(pod, message)
        finally:
            self._slots.release()

    async def _report(self, pod: PlacedPod, message: str) -> None:
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
        """Forget what weighs nothing any more."""
        while True:
            await self._clock.sleep(_EXPIRE_EVERY)
            self.state.cluster.expire(self.active.now())
            self.state.expire()


def is_in(cache: Cache[Any], of: KubeObject) -> bool:
    """Whether a cache has an object in this version or a later one: versions count upwards here."""
    seen = cache.get(of.metadata.name, of.metadata.namespace)
    return seen is not None and int(seen.metadata.resource_version) >= int(of.metadata.resource_version)


def is_managed(pod: PlacedPod) -> bool:
    """Whether a pod requests the resource for which kube-scheduler calls the extender."""
    lists = (each.resources.requests for each in pod.spec.containers or () if each.resources)
    return any(OWNED_CPUS_RESOURCE in requests for requests in lists)


def _waits(pod: PlacedPod) -> bool:
    """Whether a pod is to be scheduled by this scheduler, now."""
    spec = pod.spec
    ours = spec.scheduler_name == NAME and not spec.scheduling_gates
    return ours and not spec.node_name and pod.metadata.deletion_timestamp is None


def _asks_the_same(old: PlacedPod, new: PlacedPod) -> bool:
    before, after = old.metadata, new.metadata
    return (old.spec, before.labels, before.annotations, before.deletion_timestamp) == (
        new.spec,
        after.labels,
        after.annotations,
        after.deletion_timestamp,
    )


def _age(pod: PlacedPod) -> str:
    return pod.metadata.creation_timestamp or ""
