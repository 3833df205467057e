"""One counter that only grows, made of many that come, go and begin anew. Pure.

The growth of each counter between two looks is added up. One that is seen for the first time, or has gone
back (its group was removed and made again, resctrl was mounted anew), adds nothing this time: what it had
counted before is nobody's. So the total never falls and never has more than was counted, and Prometheus'
rate() of it means what it says; summing up the counters themselves would show a reset as one huge jump.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Tally(Generic[K]):
    """The total since the first look."""

    def __init__(self) -> None:
        self.total = 0
        self._before: Mapping[K, int] = {}

    def take(self, counts: Mapping[K, int]) -> None:
        """Take all counters as they are now."""
        for key, count in counts.items():
            self.total += max(0, count - self._before.get(key, count))
        self._before = dict(counts)

    def forget(self) -> None:
        """Begin anew at the next look: what is counted until then is told by somebody else."""
        self._before = {}
