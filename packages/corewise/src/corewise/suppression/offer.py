"""The offer of a node to offline pods: a share of the resources that online work leaves idle.

    online      = node usage - offline usage                      (daemons outside of pods are online)
    pinned      = sum over CPUSet pods of max(0, requested - used)  (their CPUs cannot be lent)
    offline_cpu = clamp((allocatable - online - pinned) x ratio, 0, allocatable)
    offline_mem = clamp((allocatable - (node - offline working set)) x ratio, 0, allocatable)

All of it is physical: milli-CPU and bytes, allocatable before amplification, and at most the CPUs online:
kubelet counts CPUs when it starts, and some may go offline later. Offline usage is taken out of
the usage, or else the offer would shrink because it is used: x = (idle - x) x 0.6 settles at 37.5 % of idle.
Two counters are never read at the same instant, so a difference below zero is zero.

The offer over time is smoothed, and careful with what is missing:

    offer = sum(2^i x sample i) / sum(2^i)      over the last up to 10 samples, i = 0 the oldest, rounded down

A missing sample is missing, not zero: it changes nothing. After 3 in a row the offer is reported as *frozen*;
after 15 minutes without a sample it is *withdrawn*, 0, and what was sampled before that does not count.
Until the first sample there is no amount to act on (``Offer.is_known``): an agent that starts changes nothing
before it has measured.

``now`` is monotonic, in seconds. Should it go back all the same, the sample taken then is a miss, and time
goes on from there.

On the Node the offer is published as

    batch-cpu    = max(floor(offered milli-CPU x normalization ratio), held)    quotas are divided by it
    batch-memory = max(offered bytes, held)
    held         = what offline pods on the node request

since a kubelet that starts admits its pods again by what the Node shows, and fails for good those that do not
fit. An offer below ``held`` is a *shortfall*: what is published leaves no room for further pods, and
suppression goes by the offer as ever. Pods that kubelet has not started yet never raise what is published.

It is written when CPU or memory has changed by more than 10 % of what is published, or in a shortfall at all,
and every 90 s in any case. An offer that is not known yet changes nothing; a withdrawn one is 0, which is a
change of 100 %.

docs/concepts/suppression.md has an example.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from corewise.quantities import NOTHING, Ratio, Share, amplify
from corewise.vocabulary.offline_report import OfferState
from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class Pinned:
    """The CPU of one CPUSet pod, in milli-CPU."""

    requested_milli: int
    used_milli: int
    is_known: bool = True
    """Not of a pod that has just started or ended: its ``used_milli`` is 0."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The average usage of a node in one interval. Offline is all that runs in the BestEffort slice.

    ``memory_total`` is what the node could use; 0 where that is not known.
    """

    node_milli: int
    offline_milli: int
    pinned: tuple[Pinned, ...]
    node_memory: int
    offline_memory: int
    memory_total: int = 0


@dataclass(frozen=True, slots=True)
class OfflineAmounts:
    """CPU in milli-CPU and memory in bytes."""

    cpu_milli: int
    memory: int

    def at_least(self, other: OfflineAmounts) -> OfflineAmounts:
        return OfflineAmounts(max(self.cpu_milli, other.cpu_milli), max(self.memory, other.memory))

    def at_most(self, other: OfflineAmounts) -> OfflineAmounts:
        return OfflineAmounts(min(self.cpu_milli, other.cpu_milli), min(self.memory, other.memory))


NO_AMOUNTS = OfflineAmounts(0, 0)


@dataclass(frozen=True, slots=True)
class Computed:
    """The offer of one interval, what it was computed from, and which bound holds."""

    cpu_milli: int
    memory: int
    allocatable_milli: int
    online_milli: int
    pinned_extra_milli: int
    online_memory: int
    limited_by: Reason


def compute(usage: Usage, allocatable: OfflineAmounts, ratio: Share) -> Computed:
    """Return the amounts that the usage of one interval leaves for offline pods, all physical."""
    online = max(0, usage.node_milli - usage.offline_milli)
    pinned = sum(max(0, each.requested_milli - each.used_milli) for each in usage.pinned)
    online_memory = max(0, usage.node_memory - usage.offline_memory)
    cpu = _offered(allocatable.cpu_milli, online + pinned, ratio)
    memory = _offered(allocatable.memory, online_memory, ratio)
    reason = _limited_by(allocatable.cpu_milli - online - pinned, pinned, ratio)
    return Computed(cpu, memory, allocatable.cpu_milli, online, pinned, online_memory, reason)


def _offered(allocatable: int, taken: int, ratio: Share) -> int:
    return min(max(0, allocatable), ratio.of(max(0, allocatable - taken)))


def _limited_by(idle: int, pinned: int, ratio: Share) -> Reason:
    if idle <= 0:
        return Reason.OFFER_NOTHING_IDLE
    if ratio == NOTHING:
        return Reason.OFFER_RATIO_ZERO
    return Reason.OFFER_LESS_PINNED if pinned else Reason.OFFER_FROM_IDLE


LONGEST = 10
FROZEN_AFTER = 3
WITHDRAWN_AFTER = 15 * 60
"""Seconds without a sample."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The physical amounts offered, and their reliability.

    ``age`` is the seconds since the last sample, or since the first miss if there was none.
    """

    cpu_milli: int
    memory: int
    state: OfferState
    samples: int
    missing: int
    latest: Computed | None
    age: float

    @property
    def is_known(self) -> bool:
        """Whether there is an amount to act on. If not, what is published and applied stays."""
        return self.latest is not None or self.state is OfferState.WITHDRAWN

    @property
    def reason(self) -> Reason:
        if self.state is OfferState.WITHDRAWN:
            return Reason.OFFER_WITHDRAWN
        if self.latest is None:
            return Reason.SAMPLE_MISSED
        return Reason.OFFER_FROZEN if self.state is OfferState.FROZEN else self.latest.limited_by


@dataclass(frozen=True, slots=True)
class OfferHistory:
    """The last samples, newest last, as a value: each event makes another one."""

    samples: tuple[Computed, ...] = ()
    missing: int = 0
    sampled_at: float | None = None
    seen_at: float | None = None

    def with_sample(self, now: float, computed: Computed) -> OfferHistory:
        if self.seen_at is not None and now < self.seen_at:
            return self.with_miss(now)
        kept = () if self._is_withdrawn(now) else self.samples
        return OfferHistory((*kept, computed)[-LONGEST:], 0, now, now)

    def with_miss(self, now: float) -> OfferHistory:
        since = now if self.sampled_at is None else self.sampled_at
        seen = now if self.seen_at is None else self.seen_at
        if now < seen:
            since -= seen - now
        return replace(self, missing=self.missing + 1, sampled_at=since, seen_at=now)

    def offer(self, now: float) -> Offer:
        age = self._age(now)
        latest = self.samples[-1] if self.samples else None
        if self._is_withdrawn(now):
            return Offer(0, 0, OfferState.WITHDRAWN, 0, self.missing, latest, age)
        frozen = latest is None or self.missing >= FROZEN_AFTER
        state = OfferState.FROZEN if frozen else OfferState.FRESH
        cpu = _smoothed([each.cpu_milli for each in self.samples])
        memory = _smoothed([each.memory for each in self.samples])
        return Offer(cpu, memory, state, len(self.samples), self.missing, latest, age)

    def _age(self, now: float) -> float:
        return 0.0 if self.sampled_at is None else max(0.0, now - self.sampled_at)

    def _is_withdrawn(self, now: float) -> bool:
        return self._age(now) >= WITHDRAWN_AFTER


def _smoothed(samples: list[int]) -> int:
    weights = 2 ** len(samples) - 1  # 1 + 2 + 4 + …
    return sum(value << i for i, value in enumerate(samples)) // weights if weights else 0


REPEATED_AFTER = 90
"""Seconds. With a kubelet's own report every five minutes an idle node is stored less than once a minute."""

_PARTS = 10


def published_form(offer: Offer, normalization: Ratio) -> OfflineAmounts:
    """Return the amounts of ``kubernetes.io/batch-cpu`` and ``kubernetes.io/batch-memory``."""
    return OfflineAmounts(amplify(offer.cpu_milli, normalization), offer.memory)


def due(
    published: OfflineAmounts | None,
    published_at: float | None,
    offered: OfflineAmounts,
    held: OfflineAmounts,
    now: float,
) -> OfflineAmounts | None:
    """Return the amounts to publish, or None if the published ones may stay.

    ``published`` is None where nothing is. ``published_at`` and ``now`` are monotonic seconds.
    """
    amounts = offered.at_least(held)
    if published is None or published_at is None or not 0 <= now - published_at < REPEATED_AFTER:
        return amounts
    changed = _changes(published.cpu_milli, offered.cpu_milli, held.cpu_milli)
    changed = changed or _changes(published.memory, offered.memory, held.memory)
    return amounts if changed else None


def _changes(old: int, offered: int, held: int) -> bool:
    """Whether this is a change of more than 10 %, or any of what is held."""
    if old < held or held > offered:
        return old != held
    return abs(offered - old) * _PARTS > old
