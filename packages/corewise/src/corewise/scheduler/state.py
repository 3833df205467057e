"""The scheduler's knowledge of the cluster: caches of nodes, pods and topologies, in the engine's columns.

Everything is rebuilt from the API server at start, nothing is kept on disk. The resource
NodeResourceTopology may not be installed: then no node states its CPUs. What the API server says last
counts, with one exception: a bound pod never becomes unbound, so an older state of it, from a watch that
lags behind a list, takes nothing back.

A write of this program may be answered before the watch shows it: what the API server answered counts until
the watch has caught up. So does a pod from the decision where it goes until it is seen bound, unless its
binding fails: it is *assumed* there, as kube-scheduler does it. Nothing exact rests on that, which is the
ledger's (binding.py); it keeps decisions of the same moment from getting in each other's way.

Only bound pods are watched: most pods are none of this program's business, and so each of them is one event
when it is bound, not two or more. A pod that is being scheduled comes with the calls of kube-scheduler.
Their events are taken in ten times a second at most, which is most of what a plain pod would cost, and at
once when kube-scheduler asks.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from corewise.engine import Cluster, Placement, PodFacts
from corewise.engine.objects import TOPOLOGIES, ReportedTopology
from corewise.engine.reading import (
    holds_resources,
    key_of,
    placement,
    pod_facts,
    read_node_facts,
)
from corewise.kube.cache import STALE_AFTER, Cache, Caches
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.watch import Gathering
from corewise.service.logs import fields
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.owned_cpus import NO_OWNERS, Owners
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import WORKLOAD_NODES, Node
from corewise.workload.pods import WORKLOAD_PODS, Pod

log = logging.getLogger(__name__)

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
BOUND = f"spec.nodeName!=,{UNFINISHED}"
_GATHERING = 0.1
_MOST_ASKED = 1024


@dataclass(slots=True)
class _Assumed:
    """A pod where it is going to be bound; ``until``: how long the watch has to show that it was."""

    facts: PodFacts
    placement: Placement
    until: float = math.inf


class ClusterState:
    """The caches, and the engine's cluster that follows them.

    ``on_pod`` is called after every change of a pod has been counted; ``on_room`` when pods may fit where
    they did not: a node has changed, or a pod has given back what it held. ``pods``: which ones are watched.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        on_pod: Callable[[Pod | None, Pod | None], None] | None = None,
        on_room: Callable[[], None] | None = None,
        rules: QoSRules = DEFAULT_RULES,
        pods: str = BOUND,
    ) -> None:
        self.rules = rules
        self._clock = clock
        self._on_pod = on_pod
        self._on_room = on_room
        self._uids: dict[str, str] = {}
        self._assumed: dict[str, _Assumed] = {}
        self.asked: dict[str, Pod] = {}
        """Unbound pods that decisions were asked about lately, by uid."""
        self._answered: dict[str, Node] = {}
        self.changed: set[str] = set()
        """Nodes that changed, or their topologies or pods, since somebody took the set away."""
        self.given_back = asyncio.Event()
        """Set when a pod that owned CPUs by its class is gone."""
        self._told: dict[str, tuple[Finding, ...]] = {}
        self.cluster = Cluster()
        self._gathering = Gathering(_GATHERING)
        self.nodes = Cache(client, WORKLOAD_NODES, on_change=self._node_changed, clock=clock)
        self.topologies = Cache(client, TOPOLOGIES, on_change=self._topology_changed, clock=clock)
        self.pods = Cache(
            client,
            WORKLOAD_PODS,
            field_selector=pods,
            on_change=self._pod_changed,
            gathering=self._gathering,
            clock=clock,
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
        """The number of pods' claims to CPUs that are not fulfilled."""
        ledgers = (self.cluster.ledger(name) for name in self.cluster.nodes)
        return sum(len(ledger.conflicts) for ledger in ledgers if ledger)

    @property
    def findings(self) -> Mapping[str, tuple[Finding, ...]]:
        """The problems of nodes, by name, and of bound pods, by NAMESPACE/NAME."""
        return {name: found for name, found in self._told.items() if found}

    async def synced(self) -> None:
        """Wait until everything has been listed."""
        await self.caches.listed(self._clock)

    async def catch_up(self) -> None:
        """Count the changes of pods that have arrived."""
        await self._gathering.end()

    def node(self, name: str) -> Node | None:
        """Return a node in the newest state that is known of it."""
        return self._answered.get(name) or self.nodes.get(name)

    def owners(self, node: str) -> Owners:
        """Return the ledger of a node, in the newest state that is known of it."""
        facts = self.cluster.nodes.get(node)
        return facts.owned.owners if facts else NO_OWNERS

    def take_node(self, node: Node) -> None:
        """Count a node as the API server has answered it, until the watch shows this state or a later one.

        The watch must know it: nothing else says when it is gone.
        """
        known = self.node(node.metadata.name)
        if known is not None and not _is_older(node, known):
            self._answered[node.metadata.name] = node
            self._put_node(node)

    def assume(self, facts: PodFacts, placement: Placement) -> None:
        """Count a pod where it is going to be bound."""
        self._assumed[facts.uid] = _Assumed(facts, placement)
        self._uids[facts.key] = facts.uid
        self.cluster.put_pod(facts, placement)

    def keep_assumed(self, uid: str) -> None:
        """Count an assumed pod, whose Binding was answered, until the watch shows it bound.

        A watch that restarts may never show it, if it is gone by then: so it expires.
        """
        if uid in self._assumed:
            self._assumed[uid].until = self._clock.monotonic() + STALE_AFTER

    def expire(self) -> None:
        """Forget pods that the watch did not show bound in time."""
        now = self._clock.monotonic()
        for uid in [uid for uid, assumed in self._assumed.items() if assumed.until <= now]:
            self._assumed[uid].until = math.inf
            self.forget(uid)

    def remember(self, pod: Pod) -> None:
        """Keep an unbound pod, which the watch does not show, for its binding; the oldest makes room."""
        self.asked.pop(pod.metadata.uid, None)
        self.asked[pod.metadata.uid] = pod
        if len(self.asked) > _MOST_ASKED:
            del self.asked[next(iter(self.asked))]

    def forget(self, uid: str) -> None:
        """Count a pod no more where it was assumed, unless its Binding was answered.

        One that the watch has shown bound counts there again.
        """
        assumed = self._assumed.get(uid)
        if assumed is None or assumed.until < math.inf:
            return
        del self._assumed[uid]
        key = assumed.facts.key
        if self._uids.get(key) != uid:
            return
        namespace, _, name = key.partition("/")
        pod = self.pods.get(name, namespace)
        if pod is not None and pod.metadata.uid == uid and holds_resources(pod):
            self.count(pod)
        else:
            del self._uids[key]
            self.cluster.remove_pod(key)
        self._has_room()

    @contextmanager
    def without(self, pod: Pod) -> Iterator[None]:
        """Leave out what is assumed of a pod and what ledgers keep for it, for a decision about it."""
        uid = pod.metadata.uid
        assumed = self._assumed.get(uid)
        if assumed is not None:
            self.cluster.remove_pod(assumed.facts.key)
        try:
            with self.cluster.without_entries(uid):
                yield
        finally:
            if assumed is not None:
                self.cluster.put_pod(assumed.facts, assumed.placement)

    def count(self, pod: Pod) -> None:
        """Count a pod if it is bound."""
        if not holds_resources(pod):
            return
        where, finding = placement(pod, self.rules)
        self._assumed.pop(pod.metadata.uid, None)
        facts = pod_facts(pod, self.rules)
        self._uids[facts.key] = pod.metadata.uid
        self.cluster.put_pod(facts, where)
        findings = [finding] if finding else []
        problem = facts.problem
        if problem is not None and problem.reason is Reason.AMOUNT_TOO_LARGE:
            message = f"{facts.key}: {problem.message}; it fills node {where.node}"
            findings.append(Finding(problem.reason, message))
        self._tell(facts.key, findings)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._follow(old, new)
        if self._on_pod:
            self._on_pod(old, new)

    def _follow(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._gone(old)
        for pod in (old, new):
            if pod is not None:
                self.changed.add(pod.spec.node_name)
        if new is not None and holds_resources(new):
            if old is None or not _same(old, new) or old.scheduled_at != new.scheduled_at:
                self.count(new)
            return
        pod = new or old
        if pod is not None and (new is None or new.spec.node_name):
            self._gone(pod)

    def _gone(self, pod: Pod) -> None:
        key = key_of(pod)
        self._assumed.pop(pod.metadata.uid, None)
        if self._uids.get(key) == pod.metadata.uid:
            del self._uids[key]
            self._told.pop(key, None)
            if pod_facts(pod, self.rules).owned_by_class:
                self.given_back.set()
            self.cluster.remove_pod(key)
            self._has_room()

    def _has_room(self) -> None:
        if self._on_room:
            self._on_room()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        answered = self._answered.get(new.metadata.name) if new else None
        if new is not None and (answered is None or not _is_older(new, answered)):
            self._answered.pop(new.metadata.name, None)
            if answered is not None or old is None or not _same(old, new):  # most changes are heartbeats
                self._put_node(new)
        elif new is None and old is not None:
            self._answered.pop(old.metadata.name, None)
            self.cluster.remove_node(old.metadata.name)
            self._told.pop(old.metadata.name, None)

    def _topology_changed(self, old: ReportedTopology | None, new: ReportedTopology | None) -> None:
        changed = new or old
        node = self.node(changed.metadata.name) if changed else None
        if node is not None:
            self._put_node(node)

    def _put_node(self, node: Node) -> None:
        before = self.cluster.nodes.get(node.metadata.name)
        self.changed.add(node.metadata.name)
        reading = read_node_facts(node, self.topologies.get(node.metadata.name))
        self.cluster.put_node(reading.facts)
        if self._on_room and before != reading.facts:
            self._on_room()
        self._tell(node.metadata.name, reading.findings)

    def _tell(self, name: str, findings: Iterable[Finding]) -> None:
        """Log what is wrong with an object, once as long as it stays so."""
        found = tuple(findings)
        if found == self._told.get(name, ()):
            return
        self._told[name] = found
        for each in found:
            log.warning(each.message, extra=fields(reason=each.reason.value))


def _is_older(node: Node, than: Node) -> bool:
    """Whether a state of a node is older than another one, also of a node that had its name before.

    Versions are numbers that grow, over all nodes together.
    """
    versions = node.metadata.resource_version, than.metadata.resource_version
    return all(map(str.isdecimal, versions)) and int(versions[0]) < int(versions[1])


def _same(old: Pod | Node, new: Pod | Node) -> bool:
    """Whether two states of a pod or of a node count alike."""
    before, after = old.metadata, new.metadata
    return (before.annotations, before.labels, old.spec, old.status, before.uid) == (
        after.annotations,
        after.labels,
        new.spec,
        new.status,
        after.uid,
    )
