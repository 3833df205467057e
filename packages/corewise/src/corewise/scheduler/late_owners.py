"""Late entries in the Nodes' ledgers of owned CPUs: those of pods that were bound by somebody else.

A pod that owns CPUs and was bound by somebody else is entered: with the CPUs that its resource-status names,
if they are free and as many as it is to own, else with chosen ones; a pod that kubelet gives CPUs, with those
that the agent reports. Then resource-status says what the ledger says. It is not entered if there are no such
CPUs, or if allocatable would fall below what the node's pods request: kubelet would fail running pods when it
restarts. Then an Event on the pod says so, as it does on a bound pod whose QoS class is not allowed in its
namespace, or that requests no whole number of CPUs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from corewise.amplification import left
from corewise.engine import ChosenNode, Engine, NodeFacts, Placement, PodFacts
from corewise.engine.amplified_cpu import cpu_text
from corewise.engine.facts import CPU
from corewise.engine.reading import holds_resources, key_of, placement
from corewise.kube.client import Client
from corewise.kube.errors import Conflict
from corewise.kube.events import EventRecorder
from corewise.kube.objects import ObjectReference
from corewise.prometheus.exposition import Exposition
from corewise.quantities import MILLI, ONE
from corewise.scheduler.binding import owner_of, too_long, without
from corewise.scheduler.executor import LedgerExecutor, StateCPUs, WriteLedger
from corewise.scheduler.state import ClusterState
from corewise.service.logs import fields
from corewise.topology import LARGEST_CPU, CPUSet, CPUSetError
from corewise.vocabulary.cpu_annotations import stated_status
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.metrics import LEDGER_LATE
from corewise.vocabulary.names import POD_CPUS, RESOURCE_STATUS
from corewise.vocabulary.owned_cpus import CPUOwner
from corewise.vocabulary.reasons import Reason
from corewise.vocabulary.text_cache import CPU_BYTES, MIB, remembered, text_bytes
from corewise.workload.nodes import Node
from corewise.workload.pods import WORKLOAD_PODS, Pod

log = logging.getLogger(__name__)

_REPORTS_REMEMBERED: Final = 8 * MIB
_REPORT_BYTES: Final = 600


class _ReportedOwner(msgspec.Struct):
    uid: str = ""
    cpuset: str = ""
    managed: bool = msgspec.field(default=False, name="managedByKubelet")


_REPORT = msgspec.json.Decoder(list[_ReportedOwner])


@dataclass(frozen=True, slots=True)
class _Late:
    """A bound pod that owns CPUs, as it counts on its node, and its entry there."""

    pod: Pod
    facts: PodFacts
    where: Placement
    node: NodeFacts

    @property
    def owner(self) -> CPUOwner | None:
        return self.node.owned.owners.get(self.facts.uid)


@dataclass(slots=True)
class LateOwners:
    """Enters bound pods that own CPUs; ``engine`` returns the engine that is in use now."""

    client: Client
    state: ClusterState
    executor: LedgerExecutor
    engine: Callable[[], Engine]
    events: EventRecorder
    metrics: Exposition
    _refused: dict[str, tuple[str, Reason]] = field(default_factory=dict, init=False)
    """Why pods are not entered, by their keys, with their uids."""

    def __post_init__(self) -> None:
        # increase() misses what begins at 1
        self.metrics.count(LEDGER_LATE, Reason.OWNED_LATE, by=0)

    def keep(self, nodes: Container[str]) -> None:
        """Forget the refusals of pods on all other nodes: one that comes again is told again."""
        node_of = self.state.counted.cluster.node_of
        self._refused = {key: told for key, told in self._refused.items() if node_of(key) in nodes}

    async def follow(self, key: str) -> bool:
        """Enter a pod that owns CPUs, if it is missing; make its annotation agree with the ledger.

        Says whether the pod was in order.
        """
        late = self._late(key)
        if late is None:
            return True
        before = late.facts.uid, late.owner
        if late.facts.owned_by_class and late.owner is not None:
            if _says(late.pod, late.owner):
                return True
            await self._annotate(late)
            return False
        wanted = self._wanted(late)
        if not self._is_news(late, wanted):
            return not isinstance(wanted, Finding)
        node = await self.executor.read_node(late.node.name)
        late = self._late(key)
        if node is not None and late is not None and (late.facts.uid, late.owner) == before:
            await self._enter_or_tell(late, node)
        return False

    async def _enter_or_tell(self, late: _Late, node: Node) -> None:
        """Enter a pod, or say why it owns no CPUs."""
        wanted = self._wanted(late)
        if not self._is_news(late, wanted):
            return
        if isinstance(wanted, Placement):
            await self._enter(late, wanted, node)
        elif wanted is not None:
            self._refused[late.facts.key] = late.facts.uid, wanted.reason
            self.metrics.count(LEDGER_LATE, wanted.reason)
            how = "" if late.owner else "bound without the scheduler, and "
            message = f"{how}owns no CPUs of node {late.node.name}: {wanted.message}"
            self._tell(late.pod, wanted.reason, message)

    async def _enter(self, late: _Late, wanted: Placement, node: Node) -> None:
        """Write the entry of a pod, tell, and write its annotation; nothing if the node has changed."""
        owners = {**late.node.owned.owners, late.facts.uid: owner_of(late.facts.key, wanted)}
        try:
            await self.executor.carry_out(WriteLedger(node, owners))
        except Conflict:
            return
        self._refused.pop(late.facts.key, None)
        self.metrics.count(LEDGER_LATE, Reason.OWNED_LATE)
        message = (
            f"bound without the scheduler; it owns CPUs {wanted.cpus} of node {late.node.name} from now on"
        )
        self._tell(late.pod, Reason.OWNED_LATE, message)
        if late.facts.owned_by_class:
            await self.executor.carry_out(StateCPUs(late.pod, wanted))

    def _is_news(self, late: _Late, wanted: Placement | Finding | None) -> bool:
        """Whether a late pod's ledger entry is still to be written, or its refusal to be reported."""
        if isinstance(wanted, Finding):
            return self._refused.get(late.facts.key) != (late.facts.uid, wanted.reason)
        return wanted is not None and (late.owner is None or late.owner.cpus != wanted.cpus)

    def _late(self, key: str) -> _Late | None:
        """Return a bound pod that owns CPUs, as it counts now; None where no ledger can have it."""
        pod, cluster = self.state.pod(key), self.state.counted.cluster
        on = cluster.node_of(key) or ""
        node, counted = cluster.nodes.get(on), cluster.pods_on(on).get(key)
        if pod is None or node is None or counted is None or node.owned.problem:
            return None
        if (counted[0].uid, on) != (pod.metadata.uid, pod.spec.node_name):
            return None
        if not holds_resources(pod) or pod.metadata.deletion_timestamp:
            return None
        owns = is_to_own(counted[0], static_cpu_manager=node.static_cpu_manager)
        return _Late(pod, *counted, node) if owns else None

    def _wanted(self, late: _Late) -> Placement | Finding | None:
        """Return the CPUs that a pod is to own, or why it owns none; None if kubelet is still to say so."""
        cluster, key, owned = self.state.counted.cluster, late.facts.key, late.facts.owned_by_class
        if refused := _why_unowned(late.facts):
            return refused
        answer: Placement | Finding | None = None
        if not owned:
            answer = self._reported(late)
            if not isinstance(answer, Placement) or not self._is_news(late, answer):
                return answer
        cluster.remove_pod(key)
        try:
            with cluster.without_entries(late.facts.uid):
                ledger = cluster.ledger(late.node.name)
                every = cluster.snapshot()
                row = every.index[late.node.name]
                claimed = late.where.cpus
                asked = len(claimed) * MILLI + late.where.surplus
                if owned and ledger and asked == owned and claimed <= ledger.free:
                    answer = late.where
                elif owned:
                    chosen = ChosenNode(late.node, 0, ledger, every.only(row))
                    answer = self.engine().reserve(late.facts, chosen)
                requested = int(every.requested_cpu[row]) + late.facts.cpu
                if isinstance(answer, Placement):
                    refused = _no_room(late, answer, requested)
                    answer = refused or too_long(answer, late.pod, late.node.owned.owners) or answer
        finally:
            self.state.count(late.pod)
        return answer

    def _reported(self, late: _Late) -> Placement | Finding | None:
        """Return the CPUs that kubelet has given a pod, as the agent reports them."""
        topology = self.state.topologies.get(late.node.name)
        text = topology.metadata.annotations.get(POD_CPUS, "") if topology else ""
        cpus = _reports(text).get(late.facts.uid, CPUSet())
        if not cpus:
            return None
        others = without(late.node.owned.owners, late.facts.uid)
        taken = CPUSet.of(cpu for owner in others.values() for cpu in (owner.cpus & cpus).cpus)
        if taken:
            return Finding(Reason.CPUS_TAKEN, f"kubelet gave it CPUs {taken}, which other pods own")
        return replace(late.where, cpus=cpus)

    async def _annotate(self, late: _Late) -> None:
        """Have a pod's annotation say what the ledger says, if they differ in the API server too."""
        node = await self.executor.read_node(late.where.node)
        pod = await self.client.get(WORKLOAD_PODS, late.pod.metadata.name, late.pod.metadata.namespace)
        owner = self.state.counted.owners(late.where.node).get(late.facts.uid)
        if node and owner and pod.metadata.uid == late.facts.uid and not _says(pod, owner):
            where, _ = placement(pod, self.state.counted.rules)
            where = replace(where, cpus=owner.cpus, surplus=owner.surplus)
            await self.executor.carry_out(StateCPUs(pod, where))

    def _tell(self, pod: Pod, reason: Reason, message: str) -> None:
        meta = pod.metadata
        reference = ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)
        self.events.emit(reference, reason, message, warning=True)
        log.warning(message, extra=fields(reason=reason.value, pod=key_of(pod)))


def _says(pod: Pod, owner: CPUOwner) -> bool:
    """Whether a pod's resource-status says what its entry in the ledger says."""
    status = stated_status(pod.metadata.annotations.get(RESOURCE_STATUS))
    return (status.cpus, status.surplus) == (owner.cpus, owner.surplus)


def is_to_own(facts: PodFacts, *, static_cpu_manager: bool) -> bool:
    """Whether a pod owns CPUs, or states a QoS class by which it would."""
    return bool(_why_unowned(facts) or facts.owned(static_cpu_manager=static_cpu_manager))


def _why_unowned(facts: PodFacts) -> Finding | None:
    """Return the reason a pod owns no CPUs although it states a QoS class by which it would."""
    if facts.refused_class or facts.problem is None or facts.problem.reason is not Reason.CPUS_NOT_INTEGER:
        return facts.refused_class
    return facts.problem


def _no_room(late: _Late, wanted: Placement, requested: int) -> Finding | None:
    """Refuse CPUs whose entry would make allocatable less than what the node's pods request, in milli-CPU.

    Other pods that wait for an entry own nothing yet, and may never.
    """
    owners = without(late.node.owned.owners, late.facts.uid)
    owned = sum(len(each.cpus) for each in owners.values()) + len(wanted.cpus)
    surplus = sum(each.surplus for each in owners.values()) + wanted.surplus
    ratio = late.node.ratio or ONE
    room = left(late.node.allocatable.get(CPU, 0), requested, owned * MILLI, ratio.hundredths, surplus)
    if room >= 0:
        return None
    message = f"its CPUs cost {cpu_text(-room)} amplified CPUs more than node {late.node.name} has left"
    return Finding(Reason.AMPLIFIED_CPU_INSUFFICIENT, message)


def _reports_bytes(reports: Mapping[str, CPUSet], text: str) -> int:
    cpus = sum(map(len, reports.values()))
    return 2 * text_bytes(text) + _REPORT_BYTES * (len(reports) + 1) + CPU_BYTES * cpus


@remembered(most=_REPORTS_REMEMBERED, weigh=_reports_bytes)
def _reports(text: str) -> Mapping[str, CPUSet]:
    """Return the CPUs that kubelet has given to pods, by uid; none where that cannot be read.

    Kubelet gives a CPU to one pod. A report of more CPUs than a machine has is no report of kubelet's.
    """
    given: dict[str, CPUSet] = {}
    together = 0
    try:
        for each in _REPORT.decode(text or "[]"):
            if each.managed:
                given[each.uid] = CPUSet.parse_claim(each.cpuset)
                together += len(given[each.uid])
                if together > LARGEST_CPU + 1:
                    return {}
    except (*UNREADABLE, CPUSetError):
        return {}
    return given
