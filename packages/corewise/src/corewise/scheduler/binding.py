"""Binding: a pod's CPUs are entered in its Node's ledger by compare and swap, then the pod is bound.

Any replica binds, any number of them at once, and nothing in memory matters: the Node's resourceVersion
decides who was first. An attempt

1. takes the pod as kube-scheduler sent it last, else reads it: its version is V;
2. chooses CPUs by the Node as it is known, and writes the entry with the Node's version, under a name of its
   own: 409 means that the Node has changed, and it is read and chosen again;
3. posts the Binding with the pod's uid and V, and with what was chosen in the annotation resource-status,
   which the API server copies to the pod. 409 means that the pod has changed: it is read, and the attempt
   begins again.

kube-scheduler waits for a call only so long. Where the API server is slow, the attempt goes on meanwhile
until its entry is written, but posts no Binding: kube-scheduler has given up the pod's place. The next call
goes on from there: if the Node has the entry that this replica wrote for the pod at V, it is not written
again.

What makes this exact:

- A Binding at V is sent only after an entry was written that is newer than V. Whoever removes an entry of
  an unbound pod changes the pod first, so V is no longer its version (collector.py). So how old V is does not
  matter.
- A pod's entry keeps its CPUs while it exists: an earlier Binding, whose answer was lost, may still arrive.
  So does their number, where they are normalized, whatever becomes of the node's ratio meanwhile.
- An attempt takes its entry back when its Binding was refused, and only if it made the entry: an entry that
  was there may belong to a Binding that is under way. Where no answer came, the entry stays. The collector
  removes what was never bound.

A pod that owns nothing is bound by a plain Binding; on a node with a NUMA topology policy, with its requests
by NUMA node. It counts on its node from the decision on, so that bindings under way see each other.

Refusals are written for the pod's owner: kube-scheduler shows them in the pod's condition and Event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Final
from weakref import WeakValueDictionary

from corewise.engine import ChosenNode, Engine, Placement, PodFacts
from corewise.engine.reading import key_of, pod_facts
from corewise.kube.client import Client
from corewise.kube.errors import Conflict, KubeError, NotFound
from corewise.prometheus.exposition import Exposition
from corewise.quantities import MILLI
from corewise.scheduler.decisions import Asked, Decisions
from corewise.scheduler.executor import BindPod, LedgerExecutor, WriteLedger, stated_status
from corewise.scheduler.installation import HTTP_TIMEOUT
from corewise.scheduler.state import ClusterState
from corewise.service.logs import fields
from corewise.vocabulary.cpu_annotations import LONGEST_STATUS, print_resource_status
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.metrics import BIND_CONFLICTS, BIND_REFUSALS
from corewise.vocabulary.names import OWNED_CPUS, RESOURCE_STATUS
from corewise.vocabulary.owned_cpus import LONGEST_LEDGER, CPUOwner, Owners, print_owned_cpus
from corewise.vocabulary.reasons import Reason
from corewise.workload.pods import WORKLOAD_PODS, Pod

log = logging.getLogger(__name__)

DEADLINE: Final = 0.9 * HTTP_TIMEOUT
"""Seconds for one call."""
SWAPS: Final = 10
"""How often one write of a ledger is tried."""
_ATTEMPTS: Final = 4
_MOST_WRITTEN: Final = 1024
_AGAIN: Final = "; the pod will be tried again"
_LATE: Final = Finding(Reason.BINDING_FAILED, f"the pod was not bound within {DEADLINE:.1f} s{_AGAIN}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which pod is to be bound to which node; any uid if it is ""."""

    namespace: str
    name: str
    node: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds pods. ``engine`` returns the engine that is in use now."""

    client: Client
    state: ClusterState
    executor: LedgerExecutor
    engine: Callable[[], Engine]
    decisions: Decisions
    metrics: Exposition
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)
    _written: dict[str, tuple[str, str]] = field(default_factory=dict, init=False)
    """The last entry of a pod that is not bound yet, by uid: its name, and the pod's version before it."""
    late: set[asyncio.Task[Finding | None]] = field(default_factory=set, init=False)
    """Attempts whose calls are answered."""

    async def bind(self, wanted: Wanted) -> Finding | None:
        """Bind a pod; return why it is not bound, None if it is."""
        loop = asyncio.get_running_loop()
        attempt = loop.create_task(self._attempt(wanted, loop.time() + DEADLINE))
        try:
            await asyncio.wait({attempt}, timeout=DEADLINE)
        except asyncio.CancelledError:
            attempt.cancel()
            raise
        if attempt.done():
            refused = attempt.result()
        else:
            refused = _LATE
            self.late.add(attempt)
            attempt.add_done_callback(self.late.discard)
        if refused is not None:
            self.metrics.count(BIND_REFUSALS, refused.reason)
        return refused

    async def _attempt(self, wanted: Wanted, ends: float) -> Finding | None:
        # One call for a pod after the other: what a later one assumes must not hide what an earlier did.
        # No node's name has a slash.
        async with self._locks.setdefault(f"{wanted.namespace}/{wanted.name}", asyncio.Lock()):
            if _is_over(ends):
                return _LATE
            try:
                await self.state.catch_up()
                return await self._bind(wanted, ends)
            except KubeError as error:
                return Finding(Reason.BINDING_FAILED, f"{error}{_AGAIN}")

    async def _bind(self, wanted: Wanted, ends: float) -> Finding | None:
        pod, uid = self._known(wanted), ""
        mine: set[str] = set()
        try:
            for _ in range(_ATTEMPTS):
                found = pod or await self._read(wanted)
                if not isinstance(found, Pod):
                    return await self._given_up(wanted.node, uid, mine, found)
                pod, uid = None, found.metadata.uid
                chosen = await self._claim(found, wanted.node, mine)
                if isinstance(chosen, Finding):
                    return await self._given_up(wanted.node, uid, mine, chosen)
                if _is_over(ends):
                    return _LATE
                try:
                    await self.executor.carry_out(BindPod(found, chosen))
                except (Conflict, NotFound):
                    continue
                except KubeError as error:
                    if error.retryable:
                        raise
                    refused = Finding(Reason.BINDING_FAILED, f"{error}{_AGAIN}")
                    return await self._given_up(wanted.node, uid, mine, refused)
                self.state.assumed.keep(uid)
                self._written.pop(uid, None)
                return None
        finally:
            self.state.assumed.forget(uid)
        refused = Finding(Reason.POD_CHANGED, f"the pod kept changing while it was being bound{_AGAIN}")
        return await self._given_up(wanted.node, uid, mine, refused)

    def _known(self, wanted: Wanted) -> Pod | None:
        """Return the pod as it was asked about, if that will do; a Binding without a version is a blind one.

        What counts on a node already may be bound there: then the call is an old one.
        """
        pod = self.state.assumed.asked.pop(wanted.uid, None) if wanted.uid else None
        if pod is None or self.state.counted.cluster.node_of(key_of(pod)) is not None:
            return None
        return pod if pod.metadata.resource_version else None

    async def _read(self, wanted: Wanted) -> Pod | Finding | None:
        """Return the pod as the API server has it; None if it is bound to the wanted node already."""
        where = f"pod {wanted.namespace}/{wanted.name}"
        try:
            pod = await self.client.get(WORKLOAD_PODS, wanted.name, wanted.namespace)
        except NotFound:
            return Finding(Reason.POD_CHANGED, f"{where} no longer exists")
        if wanted.uid not in {"", pod.metadata.uid}:
            return Finding(Reason.POD_CHANGED, f"{where} was deleted, and another has its name")
        if pod.spec.node_name:
            if pod.spec.node_name == wanted.node:
                return None
            return Finding(Reason.POD_CHANGED, f"{where} is bound to node {pod.spec.node_name} already")
        if pod.metadata.deletion_timestamp:
            return Finding(Reason.POD_CHANGED, f"{where} is being deleted")
        return pod

    async def _claim(self, pod: Pod, node: str, mine: set[str]) -> Placement | Finding:
        """Choose what the pod gets, and enter what it owns in the ledger.

        ``mine`` names the entries that this call alone has made, also where the answer to the write was lost.
        """
        facts = pod_facts(pod, self.state.counted.rules)
        if not facts.owned_by_class:
            return self._decide(pod, facts, node, None)
        # One after the other, so that attempts of this replica do not make each other's writes fail.
        async with self._locks.setdefault(node, asyncio.Lock()):
            for again in range(SWAPS):
                known = await self.executor.read_node(node) if again else self.state.node(node)
                owners = self.state.counted.owners(node)
                before = owners.get(pod.metadata.uid)
                answer = self._decide(pod, facts, node, before)
                if isinstance(answer, Finding) or known is None:
                    return answer if isinstance(answer, Finding) else _unknown(node)
                written = self._entered(pod)
                if written and before == owner_of(facts.key, answer, written):
                    return answer
                entry = owner_of(facts.key, answer, token_hex(4))
                if before is None or before.bind in mine:
                    mine.add(entry.bind)
                self._remember(pod, entry.bind)
                try:
                    await self.executor.carry_out(WriteLedger(known, {**owners, pod.metadata.uid: entry}))
                except Conflict:
                    self.metrics.count(BIND_CONFLICTS)
                    continue
                except NotFound:
                    return _unknown(node)
                return answer
        message = f"node {node} kept changing while CPUs were entered in its ledger{_AGAIN}"
        return Finding(Reason.NODE_CHANGING, message)

    def _entered(self, pod: Pod) -> str:
        """Return the name of the entry that was written for the pod as it is; "" if none was."""
        name, version = self._written.get(pod.metadata.uid, ("", ""))
        return name if version == pod.metadata.resource_version else ""

    def _remember(self, pod: Pod, entry: str) -> None:
        """Keep the name of an entry until the pod is bound; the oldest makes room."""
        self._written.pop(pod.metadata.uid, None)
        self._written[pod.metadata.uid] = entry, pod.metadata.resource_version
        if len(self._written) > _MOST_WRITTEN:
            del self._written[next(iter(self._written))]

    def _decide(self, pod: Pod, facts: PodFacts, name: str, before: CPUOwner | None) -> Placement | Finding:
        """Choose what the pod gets on the node, and count it there. Nothing is awaited here.

        ``before``: its entry in the node's ledger, whose CPUs it keeps, unless they are reserved by now.
        """
        cluster = self.state.counted.cluster
        node = cluster.nodes.get(name)
        if node is None:
            return _unknown(name)
        with self.state.assumed.without(pod):
            every = cluster.snapshot()
            snapshot = every.only(every.index[name])
            engine = self.engine()
            ledger, asked = cluster.ledger(name), facts
            if ledger and before and _is_for(before, facts) and before.cpus.isdisjoint(ledger.reserved):
                ledger = replace(ledger, reserved=ledger.topology.cpus - before.cpus)
                asked = replace(facts, kept=len(before.cpus))
            decision = engine.decide(asked, snapshot)
            chosen = ChosenNode(node, snapshot.index[name], ledger, snapshot)
            refused = next((each for _, each in decision.refusals(chosen.row)), None)
            answer = refused or engine.reserve(asked, chosen)
        if isinstance(answer, Placement):
            answer = too_long(answer, pod, self.state.counted.owners(name)) or answer
        if isinstance(answer, Placement):
            self.state.assumed.put(facts, answer)
        else:
            answer = replace(answer, message=f"node {name} does not suit the pod: {answer.message}{_AGAIN}")
        self.decisions.remember(Asked.BIND, decision, self.state.ages, _outcome(answer))
        return answer

    async def _given_up(
        self, node: str, uid: str, mine: AbstractSet[str], answer: Finding | None
    ) -> Finding | None:
        """Take back the entry if this call alone has made it, unless the pod is bound there.

        First of all the pod counts no more: while this waits, others decide, among them whoever has the CPUs
        by its entry.
        """
        self.state.assumed.forget(uid)
        if not mine or answer is None:
            return answer
        try:
            for _ in range(SWAPS):
                known = await self.executor.read_node(node)
                owners = self.state.counted.owners(node)
                if known is None or uid not in owners or owners[uid].bind not in mine:
                    break
                try:
                    await self.executor.carry_out(WriteLedger(known, without(owners, uid)))
                except Conflict:
                    continue
                break
        except KubeError as error:
            log.warning("the ledger keeps an entry that was not bound", extra=fields(node=node, error=error))
        return answer


def _is_over(ends: float) -> bool:
    return asyncio.get_running_loop().time() >= ends


def owner_of(pod: str, placement: Placement, bind: str = "") -> CPUOwner:
    """Return the entry of a pod in its node's ledger."""
    cpus = len(placement.cpus)
    request = cpus + placement.surplus // MILLI if placement.surplus > 0 else 0
    return CPUOwner(pod, placement.cpus, bind, request)


def _is_for(owner: CPUOwner, facts: PodFacts) -> bool:
    """Whether an entry is for what a pod requests now: else the pod has changed since it was made."""
    if owner.requested * MILLI != facts.owned_by_class:
        return False
    return facts.normalizes or not owner.surplus


def _unknown(node: str) -> Finding:
    return Finding(Reason.NODE_UNKNOWN, f"corewise does not know node {node} yet{_AGAIN}")


def without(owners: Owners, *uids: str) -> Owners:
    """Return a ledger without some entries."""
    return {uid: owner for uid, owner in owners.items() if uid not in uids}


def too_long(placement: Placement, pod: Pod, owners: Owners) -> Finding | None:
    """Refuse a placement whose annotations would be too long to be read."""
    if not placement.cpus:
        return None
    owner = owner_of(key_of(pod), placement, "00000000")
    texts = (
        (RESOURCE_STATUS, print_resource_status(stated_status(placement)), LONGEST_STATUS),
        (OWNED_CPUS, print_owned_cpus({**owners, pod.metadata.uid: owner})[OWNED_CPUS] or "", LONGEST_LEDGER),
    )
    for name, text, longest in texts:
        if len(text) > longest:
            message = (
                f"the pod would own {len(placement.cpus)} CPUs so scattered that {name} would have "
                f"{len(text)} characters, more than {longest}"
            )
            return Finding(Reason.CPUS_TOO_SCATTERED, message)
    return None


def _outcome(answer: Placement | Finding) -> str:
    if isinstance(answer, Finding):
        return f"refused, {answer.reason}: {answer.message}"
    cpus = f" with CPUs {answer.cpus}" if answer.cpus else ""
    return f"placed on node {answer.node}{cpus}"
