"""The outcome of scheduling: a host with CPUs, or no valid host, explained by counts; and the order of hosts.

Score of a host = 100 x its free CPUs / the most free CPUs of any, plus its interference score where there are
scores: 0 to 100, where 100 means the least interference; 0 for a host without one. The highest goes first;
equal ones by name, so that the same hosts give the same order. ``pack`` prefers the fullest host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.ledger import GuestRecord
from corewise_openstack.compute.offers import Stage

HostScores = Mapping[str, int]
"""Host -> 0 to 100: 100 is the least interference."""

_WHOLE = 100
_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Weighed:
    """A host and its score in thousandths, ``milli``; ``free`` are its CPUs of the requested kind."""

    host: str
    free: int
    interference: int | None
    milli: int

    @property
    def score(self) -> str:
        """The score for people, rounded down to one place: "153.3"."""
        return f"{self.milli // _MILLI}.{self.milli % _MILLI // 100}"


def weighed(free: Mapping[str, int], scores: HostScores | None, *, pack: bool = False) -> Sequence[Weighed]:
    """Order hosts by score; ``free`` maps each to its free CPUs."""
    most = max(free.values(), default=0)
    found = []
    for host, amount in free.items():
        room = max(0, amount) * _WHOLE * _MILLI // most if most > 0 else 0
        room = _WHOLE * _MILLI - room if pack else room
        interference = None if scores is None else scores.get(host, 0)
        found.append(Weighed(host, amount, interference, room + (interference or 0) * _MILLI))
    return sorted(found, key=lambda each: (-each.milli, each.host))


@dataclass(frozen=True, slots=True)
class Placed:
    """A guest has a host. ``by_fallback``: the host counts pinned guests as VCPU.

    ``weighed`` are the hosts that were offered, best first, without those that did not fit. ``lost`` says for
    each better host why its claim failed: somebody was faster.
    """

    guest: str
    host: str
    record: GuestRecord
    by_fallback: bool
    weighed: Sequence[Weighed]
    lost: Mapping[str, Finding]


@dataclass(frozen=True, slots=True)
class Eliminated:
    """The number of hosts that one demand eliminated. ``reason`` is None where the demand is Placement's.

    ``by_fallback``: legacy hosts, which the query itself did not find.
    """

    hosts: int
    demand: str
    reason: Reason | None = None
    by_fallback: bool = False


@dataclass(frozen=True, slots=True)
class NoValidHost:
    """No host can take the guest: how many there are, and which demands eliminated them."""

    hosts: int
    eliminated: tuple[Eliminated, ...]
    details: tuple[str, ...] = ()
    """The refusal of each host that had enough of everything."""

    @property
    def message(self) -> str:
        """One sentence: "0 of 5 hosts can take the guest: 3 eliminated by PCPU, 2 by NUMA fit"."""
        if not self.hosts:
            return "there are no hosts: Placement learns of one from its agent (corewise compute run)"
        counts = ", ".join(_worded(index, each) for index, each in enumerate(self.eliminated))
        of = "the only host cannot" if self.hosts == 1 else f"none of {self.hosts} hosts can"
        return f"{of} take the guest: {counts or 'no host offers a CPU'}"


def eliminated_by_query(hosts: int, stages: Iterable[Stage], found: int) -> list[Eliminated]:
    """Count the hosts that each part of the query eliminated; its answer has ``found`` of those left."""
    eliminated = []
    left = hosts
    for stage in stages:
        if stage.left < left:
            eliminated.append(Eliminated(left - stage.left, stage.demand))
        left = min(left, stage.left)
    if left > found:
        eliminated.append(Eliminated(left - found, "the limit of the query"))
    return eliminated


def eliminated_by_fit(refusals: Iterable[Finding], *, by_fallback: bool = False) -> list[Eliminated]:
    """Count the hosts that each reason eliminated, of those with enough of everything."""
    counts = Counter(refusal.reason for refusal in refusals)
    return [
        Eliminated(number, _DEMANDS.get(reason, "NUMA fit"), reason, by_fallback)
        for reason, number in counts.most_common()
    ]


_DEMANDS = {
    Reason.DEDICATED_CPUS_INSUFFICIENT: "dedicated CPUs",
    Reason.SHARED_CPUS_INSUFFICIENT: "shared CPUs",
    Reason.HYPER_THREADS_MISSING: "thread policy",
    Reason.HYPER_THREADS_PRESENT: "thread policy",
    Reason.THREAD_POLICY_UNMET: "thread policy",
    Reason.NUMA_MEMORY_INSUFFICIENT: "memory of a NUMA node",
    Reason.NOVA_GIVES_CPUS: "nova-compute, which gives their CPUs",
    Reason.PROVIDER_OF_NOVA: "nova-compute, which owns their provider",
    Reason.HOST_DISABLED: "being disabled in Nova",
    Reason.HOST_SILENT: "an agent that is silent",
    Reason.HOST_UNKNOWN: "an unknown topology",
    Reason.CPUS_PROMISED_TWICE: "their ledger",
    Reason.LEDGER_DAMAGED: "their ledger",
    Reason.LEDGER_UNUSABLE: "their ledger",
    Reason.FILE_UNUSABLE: "their files",
    Reason.CLAIM_LOST: "the claim",
}


def _worded(index: int, eliminated: Eliminated) -> str:
    reason = f" ({eliminated.reason})" if eliminated.reason else ""
    verb = "eliminated " if index == 0 else ""
    legacy = "of the legacy hosts " if eliminated.by_fallback else ""
    return f"{legacy}{eliminated.hosts} {verb}by {eliminated.demand}{reason}"
