"""Maintenance of the Nodes' ledgers of owned CPUs; the leader runs it.

**Removing.** An entry goes at once when its pod is gone, has finished, or is bound to another node. An entry
of a pod that is not bound goes 90 seconds after this leader first saw it. Before that the pod is annotated
with ``claim-expired``, under the version that was read: so its version changes, and a Binding that a stopped
replica may still send, under the version that *it* had read, is refused. An attempt that begins after that
writes the entry again, under another name, and then the removal finds another Node than it was made for.

**Late entries.** See :mod:`corewise.scheduler.late_owners`.

**Repair.** A damaged ledger is rebuilt, from what is readable of it and from the pods that are bound: 90
seconds after it was first seen, when the bindings that were under way have ended.

All of it is computed from the state as it is. A look is about the nodes that changed, or whose pods did, and
those that were not in order at the last one: what fails is tried again. Once a minute it is about all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from corewise.engine import Engine, NodeFacts
from corewise.engine.reading import holds_resources, key_of, placement, pod_facts
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.errors import Conflict, KubeError, NotFound
from corewise.kube.events import EventRecorder
from corewise.kube.objects import ObjectReference
from corewise.prometheus.exposition import Exposition
from corewise.quantities import MILLI
from corewise.scheduler.binding import SWAPS, owner_of, without
from corewise.scheduler.executor import FencePod, LedgerExecutor, WriteLedger
from corewise.scheduler.late_owners import LateOwners, is_to_own
from corewise.scheduler.state import UNFINISHED, ClusterState
from corewise.service.logs import fields
from corewise.topology import CPUSet
from corewise.vocabulary.metrics import LEDGER_ENTRIES, LEDGER_REMOVED, LEDGER_REPAIRS
from corewise.vocabulary.owned_cpus import CPUOwner
from corewise.vocabulary.reasons import Reason
from corewise.workload.pods import WORKLOAD_PODS

log = logging.getLogger(__name__)

EXPIRY: Final = 90.0
"""Seconds: longer than an API server works on a request (60)."""
_EVERYWHERE_EVERY: Final = 60.0
"""Seconds after which all nodes are looked at."""
_ASKED_AT_ONCE: Final = 50
"""Entries of one node whose pods the API server is asked for in one look."""
_LOGGED_EACH: Final = 5
_AT_ONCE: Final = 20
"""Nodes that are looked at in one go: some milliseconds."""
_GONE: Final = "gone"
_EXPIRED: Final = "expired"


@dataclass(slots=True)
class LedgerCollector:
    """Looks at all ledgers; ``engine`` returns the engine that is in use now."""

    client: Client
    state: ClusterState
    executor: LedgerExecutor
    engine: Callable[[], Engine]
    events: EventRecorder
    metrics: Exposition
    clock: Clock
    _first_seen: dict[tuple[str, ...], float] = field(default_factory=dict, init=False)
    _seen: set[tuple[str, ...]] = field(default_factory=set, init=False)
    _waiting: set[str] = field(default_factory=set, init=False)
    """Nodes that were not in order at the last look."""
    _everywhere_at: float = field(default=0.0, init=False)
    _looks: int = field(default=0, init=False)
    _late: LateOwners = field(init=False)

    def __post_init__(self) -> None:
        self._late = LateOwners(
            self.client, self.state, self.executor, self.engine, self.events, self.metrics
        )

    def publish(self) -> None:
        """Set the gauges, as they are now."""
        cluster = self.state.counted.cluster
        entries = sum(len(each.owned.owners) for each in cluster.nodes.values())
        self.metrics.set(LEDGER_ENTRIES, entries - cluster.unbound_entries, "true")
        self.metrics.set(LEDGER_ENTRIES, cluster.unbound_entries, "false")

    def begin(self) -> None:
        """Forget what was seen before: meanwhile another replica may have led."""
        self._first_seen = {}
        self._late.keep(())
        self._everywhere_at = 0.0

    async def look(self) -> None:
        """Put in order what is not; bindings are answered meanwhile."""
        self._seen = set()
        self._looks += 1
        nodes, now = self.state.counted.cluster.nodes, self.clock.monotonic()
        names, self.state.counted.changed = self.state.counted.changed | self._waiting, set()
        if now >= self._everywhere_at:
            self._everywhere_at = now + _EVERYWHERE_EVERY
            names = set(nodes)
        self._waiting = set()
        for number, name in enumerate(sorted(names)):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            facts = nodes.get(name)
            if facts is not None and not await self._put_in_order(facts):
                self._waiting.add(name)
        self._first_seen = {key: self._first_seen[key] for key in self._seen}
        self._late.keep(self._waiting)

    async def _put_in_order(self, facts: NodeFacts) -> bool:
        """Look at one node; say whether nothing was to be done there, and nothing is to be waited for."""
        name = facts.name
        try:
            in_order = await (self._repair(facts) if facts.owned.problem else self._tidy(facts))
        except KubeError as error:
            log.warning("a ledger stays as it is", extra=fields(node=name, error=error))
            in_order = False
        pods = self.state.counted.cluster.pods_on(name).items()
        static = facts.static_cpu_manager
        for key in sorted(key for key, (pod, _) in pods if is_to_own(pod, static_cpu_manager=static)):
            try:
                in_order &= await self._late.follow(key)
            except KubeError as error:
                log.warning("a pod is not entered in the ledger", extra=fields(pod=key, error=error))
                in_order = False
        self._tell_conflicts(name)
        return in_order

    def _tell_conflicts(self, node: str) -> None:
        """Tell the owners of pods that claim CPUs which others hold, or which the machine does not have."""
        ledger = self.state.counted.cluster.ledger(node)
        for conflict in ledger.conflicts if ledger else ():
            pod = self.state.pod(conflict.owner)
            if pod is not None:
                meta = pod.metadata
                reference = ObjectReference(
                    kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid
                )
                self.events.emit(reference, conflict.reason, conflict.message, warning=True)

    def _is_due(self, *key: str) -> bool:
        """Whether something was first seen long enough ago."""
        now = self.clock.monotonic()
        self._seen.add(key)
        return now - self._first_seen.setdefault(key, now) >= EXPIRY

    async def _tidy(self, facts: NodeFacts) -> bool:
        """Remove the entries of pods that are gone, or were not bound in time; say if all are bound."""
        entries = facts.owned.owners.items()
        unbound = [entry for entry in entries if not self._is_bound(facts.name, *entry)]
        due = {uid: self._is_due(facts.name, uid, owner.bind) for uid, owner in unbound}
        removed: dict[str, tuple[CPUOwner, str]] = {}
        failed: list[tuple[CPUOwner, KubeError]] = []
        for uid, owner in self._some_of(unbound):
            try:
                cause = await self._cause(facts.name, uid, owner, due=due[uid])
            except KubeError as error:
                failed.append((owner, error))
                continue
            if cause:
                removed[uid] = owner, cause
        if failed:
            extra = fields(node=facts.name, entries=len(failed), pod=failed[0][0].pod, error=failed[0][1])
            log.warning("an entry of a ledger stays, since its pod cannot be looked at", extra=extra)
        for _ in range(SWAPS if removed else 0):
            node, owners = self.state.node(facts.name), self.state.counted.owners(facts.name)
            found = [uid for uid, (owner, _) in removed.items() if owners.get(uid) == owner]
            if node is None or not found:
                break
            try:
                await self.executor.carry_out(WriteLedger(node, without(owners, *found)))
            except Conflict:
                await self.executor.read_node(facts.name)
                continue
            self._tell_removed(facts.name, {uid: removed[uid] for uid in found})
            break
        return not unbound

    def _some_of(self, unbound: Sequence[tuple[str, CPUOwner]]) -> Sequence[tuple[str, CPUOwner]]:
        """Return the entries of a node to ask about in this look; others have their turn in later ones.

        A node that states thousands of entries must not keep all other nodes waiting.
        """
        if len(unbound) <= _ASKED_AT_ONCE:
            return unbound
        start = self._looks * _ASKED_AT_ONCE % len(unbound)
        return [*unbound[start:], *unbound[:start]][:_ASKED_AT_ONCE]

    def _tell_removed(self, node: str, removed: Mapping[str, tuple[CPUOwner, str]]) -> None:
        """Count and log the entries removed from one ledger: one line each, or one for many."""
        for uid, (owner, cause) in removed.items():
            self.metrics.count(LEDGER_REMOVED, cause)
            if cause == _EXPIRED:
                message = (
                    f"node {node} no longer keeps CPUs {owner.cpus} for the pod: it was not bound in time"
                )
                reference = ObjectReference(kind="Pod", namespace=owner.namespace, name=owner.name, uid=uid)
                self.events.emit(reference, Reason.CLAIM_EXPIRED, message, warning=False)
            if len(removed) <= _LOGGED_EACH:
                extra = fields(node=node, pod=owner.pod, cpus=str(owner.cpus), cause=cause)
                log.info("entry removed from a ledger", extra=extra)
        if len(removed) > _LOGGED_EACH:
            pods = ", ".join(owner.pod for owner, _ in list(removed.values())[:_LOGGED_EACH])
            extra = fields(node=node, entries=len(removed))
            log.info("%d entries removed from a ledger, of %s and others", len(removed), pods, extra=extra)

    def _is_bound(self, node: str, uid: str, owner: CPUOwner) -> bool:
        pod = self.state.pods.get(owner.name, owner.namespace)
        return pod is not None and pod.metadata.uid == uid and pod.spec.node_name == node

    async def _cause(self, node: str, uid: str, owner: CPUOwner, *, due: bool) -> str:
        """Return the cause for removing the entry of a pod that is not known to be bound; "" if it stays.

        Before it expires, the Bindings are made to fail that earlier attempts may still send.
        """
        try:
            pod = await self.client.get(WORKLOAD_PODS, owner.name, owner.namespace)
            bound = pod.spec.node_name
            if pod.metadata.uid != uid or (bound and not (bound == node and holds_resources(pod))):
                return _GONE
            if bound or not due:
                return ""
            await self.executor.carry_out(FencePod(pod, self.clock.now()))
        except NotFound:
            return _GONE
        except Conflict:
            return ""
        return _EXPIRED

    async def _repair(self, facts: NodeFacts) -> bool:
        """Rebuild a damaged ledger. Always returns False: it is not in order yet."""
        name = facts.name
        node = await self.executor.read_node(name) if self._is_due(name) else None
        ledger = self.state.counted.cluster.nodes.get(name, facts).owned
        if node is None or not ledger.problem:
            return False
        owners = dict(ledger.owners)
        taken = CPUSet.of(cpu for owner in owners.values() for cpu in owner.cpus.cpus)
        for pod in await self.client.list(WORKLOAD_PODS, field_selector=f"spec.nodeName={name},{UNFINISHED}"):
            where, _ = placement(pod, self.state.counted.rules)
            uid, made = pod.metadata.uid, owner_of(key_of(pod), where)
            if uid in owners and owners[uid].cpus == where.cpus:
                owners[uid] = replace(owners[uid], request=made.request)
            if uid in owners or not where.cpus or where.cpus & taken:
                continue
            if pod_facts(pod, self.state.counted.rules).owned_by_class == made.requested * MILLI:
                owners[uid] = made
                taken |= where.cpus
        try:
            await self.executor.carry_out(WriteLedger(node, owners))
        except Conflict:
            return False
        self.metrics.count(LEDGER_REPAIRS)
        message = f"{ledger.problem}; it has been rewritten, with {len(owners)} pods that own CPUs"
        log.warning(message, extra=fields(reason=Reason.OWNED_CPUS_REPAIRED, node=name))
        reference = ObjectReference(kind="Node", name=name, uid=name)
        self.events.emit(reference, Reason.OWNED_CPUS_REPAIRED, message, warning=True)
        return False
