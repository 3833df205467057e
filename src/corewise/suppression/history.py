"""The offer over time: smoothed, and careful with what is missing.

    offer = sum(2^i x sample i) / sum(2^i)      over the last up to 10 samples, i = 0 the oldest, rounded down

A missing sample is missing, not zero: it changes nothing. After 3 in a row the offer is *frozen*, which is
told; after 15 minutes without a sample it is *withdrawn*, 0, and what was sampled before that does not count.
Until the first sample there is no amount to act on (``Offer.is_known``): an agent that starts changes nothing
before it has measured.

``now`` is monotonic, in seconds. Should it go back all the same, the sample taken then is a miss, and time
goes on from there.

Source: design/suppression.md, Oversubscription.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from corewise.suppression.offer import Computed
from corewise.vocabulary.offline_report import OfferState
from corewise.vocabulary.reasons import Reason

LONGEST = 10
FROZEN_AFTER = 3
WITHDRAWN_AFTER = 15 * 60
"""Seconds without a sample."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What is offered, physical, and how far it can be relied on.

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
        """What the offer is bounded by."""
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
        """Add the sample of the interval that ends at ``now``."""
        if self.seen_at is not None and now < self.seen_at:
            return self.with_miss(now)
        kept = () if self._is_withdrawn(now) else self.samples
        return OfferHistory((*kept, computed)[-LONGEST:], 0, now, now)

    def with_miss(self, now: float) -> OfferHistory:
        """Add an interval of which there is no sample."""
        since = now if self.sampled_at is None else self.sampled_at
        seen = now if self.seen_at is None else self.seen_at
        if now < seen:
            since -= seen - now
        return replace(self, missing=self.missing + 1, sampled_at=since, seen_at=now)

    def offer(self, now: float) -> Offer:
        """Return what is offered at ``now``."""
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
    weights = 2 ** len(samples) - 1
    return sum(value << i for i, value in enumerate(samples)) // weights if weights else 0
