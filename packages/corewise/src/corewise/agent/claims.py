"""The CPUs of a node that pods own, and the CPUs that all other pods share. Pure.

A pod claims CPUs by the annotation ``scheduling.koordinator.sh/resource-status``. The scheduler writes it,
but so may anybody who may write pods, so a claim is believed by the rules of :mod:`corewise.vocabulary.qos`.
Claims are granted in this order: first those of pods that own these very CPUs already, then all others in
the order in which pods were bound, within one second by UID. So an edit of the annotation takes no CPU from
its owner. A pod that only the runtime has reported so far comes last; its request is not known yet.

A claim is granted whole or refused. It is refused if it names a CPU that the node does not have, that an
earlier claim has, or that kubelet reserves for the system, or if it would leave no CPU to share; then the pod
shares, and takes nothing from others. A CPU that is offline stays its owner's, who runs on the rest
meanwhile; if all shared CPUs go offline, owners keep theirs.

The NodeResourceTopology shows the owners in Koordinator's form (:func:`print_ledger`):
``[{"namespace": "default", "name": "db", "uid": "…", "cpuset": "0-3"}, …]``, by namespace and name. Pods that
own CPUs by kubelet's static policy are marked ``"managedByKubelet": true``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

from corewise.agent.kubelet import CPUManager
from corewise.agent.objects import QuotaPod
from corewise.pinning.ledger import Claim, Ledger
from corewise.topology import CPUSet, Thread, Topology
from corewise.vocabulary.cpu_annotations import parse_resource_status, stated_status
from corewise.vocabulary.names import RESOURCE_STATUS
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules
from corewise.vocabulary.reasons import Reason

_NO_CPUS = CPUSet()
_NOBODY: Mapping[str, CPUSet] = MappingProxyType({})
_LATEST = "~"
"""After every time."""


@dataclass(frozen=True, slots=True)
class NodeCPUs:
    """The CPUs that pods may run on, those of the node that are offline, and those of the system."""

    online: CPUSet
    offline: CPUSet = _NO_CPUS
    reserved: CPUSet = _NO_CPUS


@dataclass(frozen=True, slots=True)
class Owner:
    """A pod that owns CPUs. ``online``: those it runs on."""

    pod: QuotaPod
    cpus: CPUSet
    online: CPUSet


@dataclass(frozen=True, slots=True)
class CPUDivision:
    """The owners by UID, the UIDs of pods whose claim is refused, and what is ``shared``.

    ``problems`` are sentences by pod.
    """

    owners: Mapping[str, Owner] = field(default_factory=dict)
    shared: CPUSet = _NO_CPUS
    problems: Mapping[str, str] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()

    @property
    def owned(self) -> CPUSet:
        """All CPUs that somebody owns, offline ones among them."""
        return CPUSet.of(cpu for owner in self.owners.values() for cpu in owner.cpus)

    def owns(self, pod: QuotaPod) -> bool | None:
        """Whether a pod owns CPUs; None if it claims some and that has not been decided yet."""
        if pod.uid in self.owners:
            return True
        return None if pod.uid not in self.refused and claimed(pod) else False

    def cpus_of(self, uid: str) -> CPUSet:
        """Return the CPUs that a pod runs on; empty where no CPU is left to share."""
        owner = self.owners.get(uid)
        return (owner.online if owner else _NO_CPUS) or self.shared


def claimants(pods: Iterable[QuotaPod]) -> list[QuotaPod]:
    """Return the pods that claim CPUs, or whose claim is unreadable. The earliest first."""
    claiming = (pod for pod in pods if not pod.has_ended and claimed(pod))
    return sorted(claiming, key=lambda pod: (pod.bound_at or _LATEST, pod.uid))


def claimed(pod: QuotaPod) -> CPUSet | str:
    """Return the CPUs that a pod claims, or what is wrong with its annotation."""
    status = parse_resource_status(pod.metadata.annotations.get(RESOURCE_STATUS))
    if isinstance(status, str):
        invalid = Reason.RESOURCE_STATUS_INVALID
        return f"pod {pod.name} shares CPUs: {RESOURCE_STATUS} cannot be read: {status} ({invalid})"
    return status.cpus


def divide(
    pods: Iterable[QuotaPod],
    node_cpus: NodeCPUs,
    held: Mapping[str, CPUSet] = _NOBODY,
    rules: QoSRules = DEFAULT_RULES,
) -> CPUDivision:
    """Divide a node's CPUs among its pods. ``held``: who has owned which until now, by UID."""
    # How CPUs are arranged is the scheduler's concern: here each is a core of its own.
    flat = Topology(tuple(Thread(cpu, cpu, 0, 0, 0) for cpu in node_cpus.online))
    ledger = Ledger(flat, offline=node_cpus.offline, reserved=node_cpus.reserved)
    owners: dict[str, Owner] = {}
    problems: dict[str, str] = {}
    claims = [(pod, claimed(pod)) for pod in claimants(pods)]
    for pod, cpus in sorted(claims, key=lambda claim: claim[1] != held.get(claim[0].uid)):
        if isinstance(cpus, str):
            problems[pod.name] = cpus
            continue
        claim = stated_status(pod.metadata.annotations.get(RESOURCE_STATUS))
        granted = ledger.with_claim(pod.uid, Claim(cpus))
        # A resize that kubelet has not applied takes no CPUs from their owner.
        is_kept = held.get(pod.uid) == cpus and pod.awaits_resize
        request = None if is_kept else pod.cpu_request
        doubted = rules.claim_problem(pod.metadata.labels, pod.metadata.namespace, claim, request)
        problem = (
            f"{doubted.message} ({doubted.reason})"
            if doubted
            else _refusal(pod, cpus, granted, owners, owned=held.get(pod.uid) == cpus)
        )
        if problem:
            problems[pod.name] = f"pod {pod.name} shares CPUs: it claims {problem}"
            continue
        ledger = granted
        owners[pod.uid] = owner = Owner(pod, cpus, cpus & node_cpus.online)
        if not owner.online:
            offline = f"all CPUs that it owns ({cpus}) are offline ({Reason.CPUS_OFFLINE})"
            problems[pod.name] = f"pod {pod.name} shares CPUs: {offline}"
    if owners and not ledger.shared:
        problems["shared pool"] = (
            "pods own every CPU that is online; pods that own none run on all of them "
            f"({Reason.SHARED_POOL_EMPTY})"
        )
    refused = frozenset(pod.uid for pod, _ in claims if pod.uid not in owners)
    return CPUDivision(owners, ledger.shared, problems, refused)


def _refusal(pod: QuotaPod, cpus: CPUSet, ledger: Ledger, owners: Mapping[str, Owner], *, owned: bool) -> str:
    """Return the reason that a ledger cannot grant its last claim; "" if it can."""
    reserved = cpus & ledger.reserved
    if reserved:
        return f"CPUs {reserved}, which kubelet reserves for the system ({Reason.CPUS_RESERVED})"
    for conflict in ledger.conflicts:
        if conflict.owner == pod.uid:
            holder = owners.get(conflict.holder)
            whose = f"pod {holder.pod.name} owns" if holder else "this node does not have"
            return f"CPUs {conflict.cpus}, which {whose} ({conflict.reason})"
    # Who owns the last shared CPUs already keeps them while others are offline.
    left = ledger.shared or (owned and CPUSet.of(ledger.offline.cpus - ledger.holder.keys()))
    return "" if left else f"CPUs {cpus}, and would leave none to share ({Reason.SHARED_POOL_EMPTY})"


class _PodCPUs(msgspec.Struct, omit_defaults=True):
    namespace: str
    name: str
    uid: str
    cpuset: str
    managed_by_kubelet: bool = msgspec.field(name="managedByKubelet", default=False)


def print_ledger(division: CPUDivision, pods: Iterable[QuotaPod], manager: CPUManager) -> str:
    """Write the annotation."""
    rows = [(owner.pod, owner.cpus, False) for owner in division.owners.values()]
    rows += [
        (pod, manager.exclusive[pod.uid], True)
        for pod in pods
        if pod.uid in manager.exclusive and not pod.has_ended
    ]
    shown = [
        _PodCPUs(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, str(cpus), by_kubelet)
        for pod, cpus, by_kubelet in rows
    ]
    return msgspec.json.encode(sorted(shown, key=lambda row: (row.namespace, row.name, row.uid))).decode()
