"""The outcome of scheduling: a host with CPUs, or no valid host, explained by counts; and the order of hosts.

Score of a host = 100 x its free CPUs / the most free CPUs of any, plus its interference score where there are
scores: 0 to 100, where 100 means the least interference; 0 for a host without one. The highest goes first;
equal ones by name, so that the same hosts give the same order. ``pack`` prefers the fullest host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from corewise.compute.ledger import GuestRecord
from corewise.compute.offers import Stage
from corewise.pinning import Refusal
from corewise.vocabulary.reasons import Reason

Scores = Mapping[str, int]
"""Host -> 0 to 100: 100 is where interference is least."""

_WHOLE = 100
_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Weighed:
    """A host and what speaks for it: free CPUs of the kind that is asked for, and ``milli`` of a score."""

    host: str
    free: int
    interference: int | None
    milli: int

    @property
    def score(self) -> str:
        """The score for people, rounded down to one place: "153.3"."""
        return f"{self.milli // _MILLI}.{self.milli % _MILLI // 100}"


def weighed(free: Mapping[str, int], scores: Scores | None, *, pack: bool = False) -> Sequence[Weighed]:
    """Order hosts by score; ``free`` maps each to its free CPUs."""
    most = max(free.values(), default=0)
    found = [_weighed(host, amount, most, scores, pack=pack) for host, amount in free.items()]
    return sorted(found, key=lambda each: (-each.milli, each.host))


def _weighed(host: str, free: int, most: int, scores: Scores | None, *, pack: bool) -> Weighed:
    room = max(0, free) * _WHOLE * _MILLI // most if most > 0 else 0
    room = _WHOLE * _MILLI - room if pack else room
    interference = None if scores is None else scores.get(host, 0)
    return Weighed(host, free, interference, room + (interference or 0) * _MILLI)


@dataclass(frozen=True, slots=True)
class Placed:
    """A guest has a host. ``by_fallback``: the host counts pinned guests as VCPU.

    ``weighed`` are the hosts that were offered, best first, without those found not to fit. ``lost`` says of
    each better host why it came to nothing: somebody was faster.
    """

    guest: str
    host: str
    record: GuestRecord
    by_fallback: bool
    weighed: Sequence[Weighed]
    lost: Mapping[str, Refusal]


@dataclass(frozen=True, slots=True)
class Fallen:
    """How many hosts fell at one demand. ``reason`` is None where the demand is Placement's.

    ``by_fallback``: legacy hosts, which the query itself did not find.
    """

    hosts: int
    demand: str
    reason: Reason | None = None
    by_fallback: bool = False


@dataclass(frozen=True, slots=True)
class NoValidHost:
    """No host can take the guest: how many there are, and at which demand they fell."""

    hosts: int
    fallen: tuple[Fallen, ...]
    details: tuple[str, ...] = ()
    """What was said of each host that had enough of everything."""

    @property
    def message(self) -> str:
        """One sentence: "0 of 5 hosts can take the guest: 3 fell at PCPU, 2 at NUMA fit"."""
        if not self.hosts:
            return "there are no hosts: Placement learns of one from its agent (corewise compute run)"
        counts = ", ".join(_worded(index, each) for index, each in enumerate(self.fallen))
        of = "the only host cannot" if self.hosts == 1 else f"none of {self.hosts} hosts can"
        return f"{of} take the guest: {counts or 'nobody offers a CPU'}"


def fallen_in_stages(hosts: int, stages: Iterable[Stage], found: int) -> list[Fallen]:
    """Return how many hosts fell at each part of the query; of those left, ``found`` came in its answer."""
    fallen = []
    left = hosts
    for stage in stages:
        if stage.left < left:
            fallen.append(Fallen(left - stage.left, stage.demand))
        left = min(left, stage.left)
    if left > found:
        fallen.append(Fallen(left - found, "the limit of the query"))
    return fallen


def fallen_in_fit(refusals: Iterable[Refusal], *, by_fallback: bool = False) -> list[Fallen]:
    """Return how many hosts, of those that have enough of everything, fell at each reason."""
    counts = Counter(refusal.reason for refusal in refusals)
    return [
        Fallen(number, _DEMANDS.get(reason, "NUMA fit"), reason, by_fallback)
        for reason, number in counts.most_common()
    ]


_DEMANDS = {
    Reason.DEDICATED_CPUS_INSUFFICIENT: "dedicated CPUs",
    Reason.SHARED_CPUS_INSUFFICIENT: "shared CPUs",
    Reason.HYPER_THREADS_MISSING: "thread policy",
    Reason.HYPER_THREADS_PRESENT: "thread policy",
    Reason.THREAD_POLICY_UNMET: "thread policy",
    Reason.NUMA_MEMORY_INSUFFICIENT: "memory of a NUMA node",
    Reason.HOST_UNKNOWN: "an unknown topology",
    Reason.CPUS_PROMISED_TWICE: "their ledger",
    Reason.LEDGER_DAMAGED: "their ledger",
    Reason.LEDGER_UNUSABLE: "their ledger",
    Reason.FILE_UNUSABLE: "their files",
    Reason.CLAIM_LOST: "the claim",
}


def _worded(index: int, fallen: Fallen) -> str:
    reason = f" ({fallen.reason})" if fallen.reason else ""
    verb = "fell " if index == 0 else ""
    legacy = "of the legacy hosts " if fallen.by_fallback else ""
    return f"{legacy}{fallen.hosts} {verb}at {fallen.demand}{reason}"
