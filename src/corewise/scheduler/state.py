"""What the scheduler knows of the cluster: caches of nodes, pods and topologies, in the engine's columns.

Everything is rebuilt from the API server at start, nothing is kept on disk. The resource
NodeResourceTopology may not be installed: then no node states its CPUs. What the API server says last
counts, with one exception: a bound pod never becomes unbound, so an older state of it, from a watch that
lags behind a list, takes nothing back.

Reservations are what the gate has given to pods that are not seen bound yet. A reservation counts in the
cluster like a bound pod, under a name of its own. It ends when the pod is seen bound (and then counts as
itself), when the pod is gone, or when it has expired and the API server says that the pod is not bound. One
binding of a pod may still be under way when another begins, to the same node or to another: each pair of
pod and node has its own reservation, so neither takes what the other may yet get.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from corewise.engine import Cluster, Placement, PodFacts
from corewise.engine.objects import (
    PLACED_PODS,
    SCHEDULABLE_NODES,
    TOPOLOGIES,
    PlacedPod,
    ReportedTopology,
    SchedulableNode,
)
from corewise.engine.reading import (
    ReadProblem,
    holds_resources,
    key_of,
    placement,
    pod_facts,
    read_node_facts,
)
from corewise.kube.cache import Cache, Caches
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.errors import KubeError, NotFound
from corewise.service.logs import fields
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules
from corewise.vocabulary.reasons import Reason

log = logging.getLogger(__name__)

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
RESERVED_FOR = 90.0
"""Seconds: longer than an API server works on a request (60), after which no binding can happen."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A pod, by its uid, that was admitted to a node; ``until`` is monotonic."""

    uid: str
    namespace: str
    name: str
    facts: PodFacts
    placement: Placement
    until: float


class Reservations:
    """All reservations, and their counting in the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._of: dict[str, dict[str, Reservation]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def of(self, uid: str, node: str) -> Reservation | None:
        """Return what a pod has on a node."""
        return self._of.get(uid, {}).get(node)

    def hold(self, reservation: Reservation) -> None:
        """Count a reservation, in the place of the pod's earlier one on the same node."""
        facts = replace(
            reservation.facts,
            key=f"{reservation.facts.key} ({reservation.uid} on {reservation.placement.node})",
        )
        held = replace(reservation, facts=facts)
        self._of.setdefault(reservation.uid, {})[reservation.placement.node] = held
        self._cluster.put_pod(facts, held.placement)

    def drop(self, uid: str) -> None:
        """Count nothing of a pod any more: it is bound, or gone."""
        for each in list(self._of.get(uid, {}).values()):
            self.release(each)

    def release(self, reservation: Reservation) -> None:
        """Count one reservation no more, unless it has been renewed."""
        held = self._of.get(reservation.uid, {})
        if held.get(reservation.placement.node) is reservation:
            self._cluster.remove_pod(reservation.facts.key)
            del held[reservation.placement.node]
            if not held:
                del self._of[reservation.uid]

    def expired(self, now: float) -> list[Reservation]:
        """Return those that have expired."""
        return [each for held in self._of.values() for each in held.values() if each.until <= now]

    @contextmanager
    def without(self, uid: str) -> Iterator[None]:
        """Leave out of the cluster what a pod has, for a decision about that pod itself."""
        own = list(self._of.get(uid, {}).values())
        for each in own:
            self._cluster.remove_pod(each.facts.key)
        try:
            yield
        finally:
            for each in own:
                self._cluster.put_pod(each.facts, each.placement)


class ClusterState:
    """The caches, the engine's cluster that follows them, and the gate's reservations in it.

    ``on_pod`` is called after every change of a pod has been counted; ``on_room`` when pods may fit where
    they did not: a node has changed, or a pod has given back what it held.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        on_pod: Callable[[PlacedPod | None, PlacedPod | None], None] | None = None,
        on_room: Callable[[], None] | None = None,
        rules: QoSRules = DEFAULT_RULES,
    ) -> None:
        self.rules = rules
        self._client = client
        self._clock = clock
        self._on_pod = on_pod
        self._on_room = on_room
        self._uids: dict[str, str] = {}
        self._told: dict[str, tuple[ReadProblem, ...]] = {}
        self.cluster = Cluster()
        self.reservations = Reservations(self.cluster)
        self.nodes = Cache(client, SCHEDULABLE_NODES, on_change=self._node_changed, clock=clock)
        self.topologies = Cache(client, TOPOLOGIES, on_change=self._topology_changed, clock=clock)
        self.pods = Cache(
            client, PLACED_PODS, field_selector=UNFINISHED, on_change=self._pod_changed, clock=clock
        )
        self.caches = Caches(self.nodes, self.topologies, self.pods)

    @property
    def ages(self) -> Mapping[str, float]:
        """For each cache, the seconds since the API server was last heard of about it."""
        now = self._clock.monotonic()
        heard = ((name, cache.last_contact) for name, cache in self.caches.items())
        return {name: round(now - moment, 1) for name, moment in heard if moment is not None}

    @property
    def conflicts(self) -> int:
        """How many claims of pods to CPUs are not fulfilled."""
        ledgers = (self.cluster.ledger(name) for name in self.cluster.nodes)
        return sum(len(ledger.conflicts) for ledger in ledgers if ledger)

    async def synced(self) -> None:
        """Wait until everything has been listed."""
        await self.caches.listed(self._clock)

    async def catch_up(self) -> None:
        """Count every pod that is bound by now, though its watch event may still be under way.

        Raises:
            KubeError: if the API server does not tell.
        """
        for pod in await self._client.list(PLACED_PODS, field_selector=UNFINISHED):
            self.count(pod)

    async def pod(self, namespace: str, name: str, uid: str) -> PlacedPod:
        """Return a pod, asking the API server only for one that is not in the cache; any uid if "".

        Raises:
            KubeError: if there is none, or the API server does not tell.
        """
        known = self.pods.get(name, namespace)
        if known is not None and uid in {"", known.metadata.uid}:
            return known
        return await self._client.get(PLACED_PODS, name, namespace)

    def reserve(self, pod: PlacedPod, facts: PodFacts, placement: Placement) -> None:
        """Count a pod where it is going to be bound."""
        meta, until = pod.metadata, self._clock.monotonic() + RESERVED_FOR
        self.reservations.hold(Reservation(meta.uid, meta.namespace, meta.name, facts, placement, until))

    async def settle(self) -> int:
        """Give back what was reserved for bindings that did not happen; return how many there were."""
        freed = 0
        for each in self.reservations.expired(self._clock.monotonic()):
            try:
                pod = await self._client.get(PLACED_PODS, each.name, each.namespace)
            except NotFound:
                pod = None
            except KubeError as error:
                log.warning(
                    "a reservation stays: the pod cannot be read",
                    extra=fields(pod=each.facts.key, error=error),
                )
                continue
            if pod is not None and pod.metadata.uid == each.uid and pod.spec.node_name:
                self.count(pod)
            else:
                freed += 1
                self.reservations.release(each)
        return freed

    def count(self, pod: PlacedPod) -> None:
        """Count a pod if it is bound."""
        if not holds_resources(pod):
            return
        where, finding = placement(pod, self.rules)
        held = self.reservations.of(pod.metadata.uid, where.node)
        if held is not None and held.placement.since is not None:
            where = replace(where, since=held.placement.since)
        self.reservations.drop(pod.metadata.uid)
        facts = pod_facts(pod, self.rules)
        self._uids[facts.key] = pod.metadata.uid
        self.cluster.put_pod(facts, where)
        findings = [finding] if finding else []
        problem = facts.problem
        if problem is not None and problem.reason is Reason.AMOUNT_TOO_LARGE:
            message = f"{facts.key}: {problem.message}; it fills node {where.node}"
            findings.append(ReadProblem(problem.reason, message))
        self._tell(facts.key, findings)

    def _pod_changed(self, old: PlacedPod | None, new: PlacedPod | None) -> None:
        self._follow(old, new)
        if self._on_pod:
            self._on_pod(old, new)

    def _follow(self, old: PlacedPod | None, new: PlacedPod | None) -> None:
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._gone(old)
        if new is not None and holds_resources(new):
            if old is None or not _same(old, new):
                self.count(new)
            return
        pod = new or old
        if pod is not None and (new is None or new.spec.node_name):
            self._gone(pod)

    def _gone(self, pod: PlacedPod) -> None:
        key = key_of(pod)
        self.reservations.drop(pod.metadata.uid)
        if self._uids.get(key) == pod.metadata.uid:
            del self._uids[key]
            self._told.pop(key, None)
            self.cluster.remove_pod(key)
            self._has_room()

    def _has_room(self) -> None:
        if self._on_room:
            self._on_room()

    def _node_changed(self, old: SchedulableNode | None, new: SchedulableNode | None) -> None:
        if new is not None:
            self._put_node(new)
        elif old is not None:
            self.cluster.remove_node(old.metadata.name)
            self._told.pop(old.metadata.name, None)

    def _topology_changed(self, old: ReportedTopology | None, new: ReportedTopology | None) -> None:
        changed = new or old
        node = self.nodes.get(changed.metadata.name) if changed else None
        if node is not None:
            self._put_node(node)

    def _put_node(self, node: SchedulableNode) -> None:
        before = self.cluster.nodes.get(node.metadata.name)
        reading = read_node_facts(node, self.topologies.get(node.metadata.name))
        self.cluster.put_node(reading.facts)
        if self._on_room and before != reading.facts:
            self._on_room()
        self._tell(node.metadata.name, reading.findings)

    def _tell(self, name: str, findings: Iterable[ReadProblem]) -> None:
        """Log what is wrong with an object, once as long as it stays so."""
        found = tuple(findings)
        if found == self._told.get(name, ()):
            return
        self._told[name] = found
        for each in found:
            log.warning(each.message, extra=fields(reason=each.reason.value))


def _same(old: PlacedPod, new: PlacedPod) -> bool:
    """Whether two states of a pod count alike."""
    before, after = old.metadata, new.metadata
    return (before.annotations, before.labels, old.spec, old.status, before.uid) == (
        after.annotations,
        after.labels,
        new.spec,
        new.status,
        after.uid,
    )
