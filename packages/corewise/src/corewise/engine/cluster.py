"""The cluster as it is: nodes and pods are put and removed one by one, and the snapshot shows all of them.

Each change refreshes the one row it concerns, so a decision never waits for a rebuild, and the rows are what
a new cluster with the same nodes and pods would have: what a node's pods take is kept exactly, and order
matters only for who holds a CPU that two pods claim (ledger). Pods may come before their node.

The Node's ledger of owned CPUs counts with its pods: a pod has the CPUs of its entry, whatever its
resource-status says. The entry of a pod that is not known on that node counts as a pod of its own,
which requests what it owns: that pod is being bound, or is gone and its entry is still to be removed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from corewise.config.interference.model import CounterweightSettings, Profile
from corewise.engine.columns import NO_ROW, ClusterSnapshot, NodeColumns
from corewise.engine.facts import CPU, NodeAccount, NodeFacts, Placement, PodFacts
from corewise.engine.table import Measures
from corewise.interference.neighbors import Neighbors
from corewise.interference.outlook import Counterweights, shares
from corewise.pinning.ledger import Claim, Exclusivity, Ledger
from corewise.quantities import MILLI
from corewise.topology import CPUSet, Topology
from corewise.vocabulary.cpu_annotations import ExclusivePolicy
from corewise.vocabulary.owned_cpus import NO_OWNERS, CPUOwner, Owners

EXCLUSIVITY = {
    ExclusivePolicy.NONE: Exclusivity.NONE,
    ExclusivePolicy.PCPU_LEVEL: Exclusivity.CORE,
    ExclusivePolicy.NUMA_NODE_LEVEL: Exclusivity.NUMA_NODE,
}
_MOST_REMEMBERED = 1024
_NOT_COUNTED = CounterweightSettings(expiry=0)


@dataclass(frozen=True, slots=True)
class Estimates:
    """Profiles of pods, how long they count once placed, and what nodes can move by their labels.

    ``now`` is Unix time. A node's own statement wins over that by its labels.
    ``cache_affinity_of`` returns how much a pod of a known type minds losing its cache.
    ``shown_for``: seconds for which measurements show the use of a pod that has ended.
    """

    profile_of: Callable[[PodFacts], Profile | None] = lambda _: None
    counterweight: CounterweightSettings = _NOT_COUNTED
    now: Callable[[], float] = lambda: math.inf
    bandwidth_by_labels: Callable[[Mapping[str, str]], int | None] = lambda _: None
    cache_affinity_of: Callable[[PodFacts], int] = lambda _: 0
    shown_for: float = 0.0

    def recent(self, pod: PodFacts, since: float) -> Profile | None:
        """Return the profile of a pod that was placed at ``since``, if that still counts."""
        if since + self.counterweight.expiry <= self.now():
            return None
        return self.profile_of(pod)

    def bandwidth_of(self, node: NodeFacts) -> int | None:
        """Return a node's stated memory bandwidth, in bytes/s."""
        if node.memory_bandwidth is not None:
            return node.memory_bandwidth
        return self.bandwidth_by_labels(node.labels)


def _no_columns() -> Mapping[str, tuple[Measures, Measures]]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of the nodes ``names``, by column of :class:`corewise.interference.Pressure`.

    ``columns``: values in the order of the names, and the Unix times of the samples they are from; NaN is
    missing.
    """

    names: tuple[str, ...] = ()
    columns: Mapping[str, tuple[Measures, Measures]] = field(default_factory=_no_columns)

    def without(self, name: str, uses: Iterable[Profile]) -> Measured:
        """Return the measurements without what some pods use of a node's bandwidth and memory.

        A measured bandwidth stays above 0, since 0 is missing (interference/pressure.py): profiles can state
        more than the pods use.
        """
        row, columns, uses = self.names.index(name), dict(self.columns), tuple(uses)
        for column, freed in (
            ("memorybandwidth_used", -sum(each.memory_bandwidth for each in uses)),
            ("memory_available", sum(each.memory for each in uses)),
        ):
            if column in columns:
                values, sampled = columns[column][0].copy(), columns[column][1]
                left = values[row] + freed
                values[row] = max(left, 1.0) if values[row] > 0 else left
                columns[column] = values, sampled
        return replace(self, columns=columns)


class Cluster:
    """Nodes, their pods, and the columns over them."""

    def __init__(self) -> None:
        self._columns = NodeColumns()
        self._facts: dict[str, NodeFacts] = {}
        self._accounts: dict[str, NodeAccount] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._empty_ledgers: dict[tuple[int, CPUSet], Ledger] = {}
        self._node_of: dict[str, str] = {}
        self._stated: dict[str, Placement] = {}
        """Where pods are that the ledger gives other CPUs than they were put with."""
        self._entries: dict[tuple[str, str], str] = {}
        """The keys of entries that count as pods of their own, by node and uid."""
        self._ended: dict[str, deque[tuple[float, Profile]]] = {}
        """Pods that have ended, by node: the Unix time, and their use that measurements showed then."""
        self._ended_entries: set[tuple[str, str]] = set()
        """The entries of pods that have ended, by node and uid."""
        self._estimates = Estimates()
        self._changed: dict[str, set[str]] = {}
        """Resources whose columns are behind, by node: they are written when somebody looks."""

    @property
    def nodes(self) -> Mapping[str, NodeFacts]:
        return self._facts

    def pods_on(self, node: str) -> Mapping[str, tuple[PodFacts, Placement]]:
        """Return the pods of a node, in the order they were put."""
        account = self._accounts.get(node)
        return account.pods if account else {}

    def node_of(self, pod: str) -> str | None:
        return self._node_of.get(pod)

    def ledger(self, node: str) -> Ledger | None:
        """Return the ledger of a node's CPUs; None where its topology is unknown."""
        return self._ledgers.get(node)

    def put_node(self, facts: NodeFacts) -> None:
        """Add a node, or replace what is known of it; its pods stay."""
        before = self._facts.get(facts.name)
        if before == facts:
            return
        self._facts[facts.name] = facts
        account = self._accounts.get(facts.name)
        account = account.on(facts) if account else NodeAccount(facts.static_cpu_manager, facts.topology)
        self._accounts[facts.name] = account
        if before is None or (before.topology, before.reserved) != (facts.topology, facts.reserved):
            self._fold_ledger(facts, account)
        self._columns.put(before, facts)
        self._state_bandwidth(facts)
        if before is None:
            for pod, placement in account.pods.values():
                self._weigh(pod, placement)
        resources = {*facts.allocatable, *(before.allocatable if before else ()), *account.requests}
        self._refresh(facts.name, resources)
        self._follow_entries(facts.name, before.owned.owners if before else NO_OWNERS, facts.owned.owners)

    def remove_node(self, name: str) -> None:
        """Forget a node; its pods are still known, in case it comes back before they go."""
        facts = self._facts.pop(name, None)
        if facts is None:
            return
        self._changed.pop(name, None)
        self._ended.pop(name, None)
        self._columns.counterweights.remove_node(self._columns.row(name))
        for pod in self.pods_on(name):
            self._columns.neighbors.remove(pod)
        self._columns.remove(facts)
        self._ledgers.pop(name, None)
        self._follow_entries(name, facts.owned.owners, NO_OWNERS)
        if not self.pods_on(name):
            self._accounts.pop(name, None)

    def put_pod(self, pod: PodFacts, placement: Placement) -> None:
        """Count a pod on its node, as it is and no longer as it was.

        A claim to the same CPUs keeps its rank; one to others comes after those that are there. Of two times
        at which it was placed there the earlier counts.
        """
        before = self.pods_on(self._node_of.get(pod.key, "")).get(pod.key)
        if before is not None and before[1].node == placement.node:
            placement = placement.since_earliest(before[1].since)
        if before is not None and (before[0].uid, before[1].node) != (pod.uid, placement.node):
            self.remove_pod(pod.key)
        self._stated.pop(pod.key, None)
        owner = self._owner(pod, placement.node)
        if owner is not None:
            self._drop_entry(placement.node, pod.uid)
            self._stated[pod.key] = placement
            placement = replace(placement, cpus=owner.cpus, surplus=owner.surplus)
        if self.pods_on(placement.node).get(pod.key) != (pod, placement):
            self._put(pod, placement, before[0].requests if before else ())
            self._weigh(pod, placement)

    def _put(self, pod: PodFacts, placement: Placement, resources: Iterable[str] = ()) -> None:
        self._node_of[pod.key] = placement.node
        if placement.node not in self._accounts:
            self._accounts[placement.node] = NodeAccount()
        self._accounts[placement.node].put(pod, placement)
        ledger = self._ledgers.get(placement.node)
        if ledger is not None:
            self._ledgers[placement.node] = _with_pod(ledger, pod, placement)
        self._refresh(placement.node, {*pod.requests, *resources})

    def remove_pod(self, key: str) -> None:
        """Count a pod no more; nothing happens if it is unknown. Its entry in the ledger still counts."""
        node = self._node_of.get(key)
        if node is None:
            return
        pod, _ = self.pods_on(node)[key]
        self._take(key)
        self._stated.pop(key, None)
        owner = self._owner(pod, node)
        if owner is not None:
            self._put_entry(node, pod.uid, owner)

    def end_pod(self, key: str) -> None:
        """Count a pod no more, which has ended.

        Its use lingers in the measurements of its node, and its entry in the ledger until the leader removes
        it.
        """
        node = self._node_of.get(key)
        if node in self._facts:
            pod, placement = self.pods_on(node)[key]
            use = self.lasting_use(pod, placement)
            if use.memory_bandwidth or use.memory:
                now, ended = self._estimates.now(), self._ended.setdefault(node, deque())
                while ended and now - ended[0][0] >= self._estimates.shown_for:
                    ended.popleft()
                ended.append((now, use))
            if self._owner(pod, node) is not None:
                self._ended_entries.add((node, pod.uid))
        self.remove_pod(key)

    def _take(self, key: str) -> None:
        node = self._node_of.pop(key)
        account = self._accounts[node]
        taken = account.take(key)
        self._columns.counterweights.remove(key)
        self._columns.neighbors.remove(key)
        if node in self._ledgers:
            self._ledgers[node] = self._ledgers[node].without(key)
        if not account.pods and node not in self._facts:
            del self._accounts[node]
        self._refresh(node, taken[0].requests if taken else ())

    @property
    def unbound_entries(self) -> int:
        """The number of ledger entries whose pods are not known to be bound there."""
        return len(self._entries)

    def nodes_keeping(self, uid: str) -> list[str]:
        """Return the names of nodes whose ledgers keep CPUs for a pod that is not bound."""
        return [node for node, each in self._entries if each == uid]

    @contextmanager
    def without_entries(self, uid: str) -> Iterator[None]:
        """Leave out what ledgers keep for a pod that is not bound, for a decision about that pod itself."""
        kept = self.nodes_keeping(uid)
        for node in kept:
            self._drop_entry(node, uid)
        try:
            yield
        finally:
            for node in kept:
                self._put_entry(node, uid, self._facts[node].owned.owners[uid])

    def _owner(self, pod: PodFacts, node: str) -> CPUOwner | None:
        facts = self._facts.get(node)
        return facts.owned.owners.get(pod.uid) if facts and pod.uid else None

    def _follow_entries(self, node: str, before: Owners, after: Owners) -> None:
        """Count the entries of a node's ledger as they are now."""
        changed = {uid for uid in {*before, *after} if before.get(uid) != after.get(uid)}
        if not changed:
            return
        pods = {pod.uid: (pod, where) for pod, where in self.pods_on(node).values() if pod.uid in changed}
        for uid in sorted(changed):
            self._drop_entry(node, uid)
            if uid in pods:
                pod, where = pods[uid]
                self.put_pod(pod, self._stated.get(pod.key, where))
            elif uid in after:
                self._put_entry(node, uid, after[uid])

    def _put_entry(self, node: str, uid: str, owner: CPUOwner) -> None:
        key, milli = f"{owner.pod} ({uid} on {node})", owner.requested * MILLI
        self._entries[node, uid] = key
        placement = Placement(node, owner.cpus, surplus=owner.surplus)
        self._put(PodFacts(key, {CPU: milli}, owned_by_class=milli), placement)

    def drop_ended_entries(self) -> None:
        """Count the ledgers' entries of pods that have ended no more."""
        for node, uid in tuple(self._ended_entries):
            self._drop_entry(node, uid)

    def _drop_entry(self, node: str, uid: str) -> None:
        self._ended_entries.discard((node, uid))
        key = self._entries.pop((node, uid), None)
        if key is not None:
            self._take(key)

    def estimate(self, estimates: Estimates) -> None:
        """Count pods placed lately, and what nodes' memory can move, in another way from now on."""
        self._estimates = estimates
        self._columns.counterweights = Counterweights(estimates.counterweight)
        self._columns.neighbors = Neighbors()
        entries = set(self._entries.values())
        for account in self._accounts.values():
            for pod, placement in account.pods.values():
                if pod.key not in entries:
                    self._weigh(pod, placement)
        for facts in self._facts.values():
            self._state_bandwidth(facts)

    def measure(self, measured: Measured) -> None:
        """Take what was measured in the place of all that was before; nodes not named have nothing."""
        self._columns.measure(measured.names, measured.columns)

    def expire(self, now: float) -> int:
        """Forget counterweights that weigh nothing any more; return how many there are left."""
        self._columns.counterweights.expire(now)
        return len(self._columns.counterweights)

    def snapshot(self) -> ClusterSnapshot:
        """Return the columns as they are; valid until the next change."""
        for name, resources in self._changed.items():
            account, ledger = self._accounts[name], self._ledgers.get(name)
            self._columns.refresh(self._facts[name], account, ledger, resources)
        self._changed.clear()
        return self._columns.snapshot()

    def alone(self, name: str) -> Cluster:
        """Return a cluster of one of the nodes: its pods, and what was measured of it.

        A change of the one does not show in the other. There a pod has its CPUs by itself: its entry in the
        ledger goes with it.
        """
        made, every, facts = Cluster(), self.snapshot(), self._facts[name]
        made.estimate(self._estimates)
        entries = {uid: key for (node, uid), key in self._entries.items() if node == name}
        unbound = {uid: owner for uid, owner in facts.owned.owners.items() if uid in entries}
        made.put_node(replace(facts, owned=replace(facts.owned, owners=unbound)))
        for pod, placement in self.pods_on(name).values():
            if pod.key not in entries.values():
                made.put_pod(pod, placement)
        here = slice(every.index[name], every.index[name] + 1)
        columns = {
            each: (every.measured[each][here], every.measured_at[each][here]) for each in every.measured
        }
        made.measure(Measured((name,), columns))
        made._ended[name] = deque(self._ended.get(name, ()))
        made._ended_entries = self._ended_entries & made._entries.keys()
        return made

    def lasting_use(self, pod: PodFacts, placement: Placement) -> Profile:
        """Return the pod's use that measurements already show, by its profile: the rest is counterweight."""
        profile = self._estimates.profile_of(pod)
        if profile is None or placement.since is None:
            return profile or Profile()
        age, counterweight = self._estimates.now() - placement.since, self._estimates.counterweight
        if age >= counterweight.expiry:
            return profile
        shown = 1.0 - float(shares(np.array([age]), counterweight)[0])
        return Profile(round(profile.memory_bandwidth * shown), round(profile.memory * shown))

    def lingering_use(self, node: str) -> Profile:
        """Return the use that the measurements of a node still show of pods that have ended there.

        It goes evenly, as it goes from an average. Pods that ended before this program began are unknown.
        """
        now, shown_for = self._estimates.now(), self._estimates.shown_for
        ended = [(now - since, use) for since, use in self._ended.get(node, ()) if now - since < shown_for]
        parts = [(1 - max(0.0, age) / shown_for, use) for age, use in ended]
        return Profile(
            round(sum(part * use.memory_bandwidth for part, use in parts)),
            round(sum(part * use.memory for part, use in parts)),
        )

    def _weigh(self, pod: PodFacts, placement: Placement) -> None:
        """Count a pod by its profile, if its node is known: as a neighbor, and as placed lately if it was."""
        row, since = self._columns.row(placement.node), placement.since
        if row == NO_ROW:
            return
        self._columns.neighbors.put(pod.key, row, self._estimates.cache_affinity_of(pod))
        profile = None if since is None else self._estimates.recent(pod, since)
        if profile is not None and since is not None:
            self._columns.counterweights.put(pod.key, row, profile, since)

    def _state_bandwidth(self, facts: NodeFacts) -> None:
        self._columns.state_bandwidth(facts.name, self._estimates.bandwidth_of(facts) or 0)

    def _refresh(self, name: str, resources: Iterable[str]) -> None:
        if name in self._facts:
            self._changed.setdefault(name, set()).update(resources)

    def _fold_ledger(self, facts: NodeFacts, account: NodeAccount) -> None:
        if facts.topology is None:
            self._ledgers.pop(facts.name, None)
            return
        ledger = self._empty_ledger(facts.topology, facts.reserved)
        for pod, placement in account.pods.values():
            ledger = _with_pod(ledger, pod, placement)
        self._ledgers[facts.name] = ledger

    def _empty_ledger(self, topology: Topology, reserved: CPUSet) -> Ledger:
        """Return the ledger of a machine without claims, one for all machines of the same topology."""
        key = id(topology), reserved
        if len(self._empty_ledgers) >= _MOST_REMEMBERED:
            self._empty_ledgers.clear()
        if key not in self._empty_ledgers:
            self._empty_ledgers[key] = Ledger(topology, reserved=reserved)
        return self._empty_ledgers[key]


def _with_pod(ledger: Ledger, pod: PodFacts, placement: Placement) -> Ledger:
    if not placement.cpus:
        return ledger.without(pod.key)
    before = ledger.claims.get(pod.key)
    if before is not None and before.cpus != placement.cpus:
        ledger = ledger.without(pod.key)
    return ledger.with_claim(pod.key, Claim(placement.cpus, exclusive=EXCLUSIVITY[pod.binding.exclusive]))
