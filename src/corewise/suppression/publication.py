"""When, and as what, an offer is published on the Node.

    batch-cpu    = floor(offered milli-CPU x normalization ratio)     offline pods' quotas are divided by it
    batch-memory = offered bytes

Published is what changed by more than 10 % of what is published, in CPU or memory, and everything once a
minute; so the API server gets one write a minute from a quiet node. An offer that is not known yet changes
nothing; a withdrawn one is 0, which is a change of 100 %.

Source: design/suppression.md, Oversubscription.
"""

from __future__ import annotations

from corewise.quantities import Ratio, amplify
from corewise.suppression.history import Offer
from corewise.suppression.offer import Amounts

REPEATED_AFTER = 60
"""Seconds."""

_PARTS = 10


def published_form(offer: Offer, normalization: Ratio) -> Amounts:
    """Return the amounts of ``kubernetes.io/batch-cpu`` and ``kubernetes.io/batch-memory``."""
    return Amounts(amplify(offer.cpu_milli, normalization), offer.memory)


def due(
    published: Amounts | None, published_at: float | None, offer: Offer, normalization: Ratio, now: float
) -> Amounts | None:
    """Return what is to be published, or None if what is published may stay.

    ``published`` is None where nothing is. ``published_at`` and ``now`` are monotonic seconds.
    """
    if not offer.is_known:
        return None
    amounts = published_form(offer, normalization)
    if published is None or published_at is None or not 0 <= now - published_at < REPEATED_AFTER:
        return amounts
    changed = _differs(published.cpu_milli, amounts.cpu_milli) or _differs(published.memory, amounts.memory)
    return amounts if changed else None


def _differs(old: int, new: int) -> bool:
    """Whether this is a change of more than 10 %."""
    return abs(new - old) * _PARTS > old
