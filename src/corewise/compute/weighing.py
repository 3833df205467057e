"""Which of several hosts that could take a guest gets it.

Score of a host = 100 x its free CPUs / the most free CPUs of any, plus its interference score where there are
scores: 0 to 100 as who looks at memory bandwidth and caches gives them, 0 of a host that has none. The
highest goes first; equal ones by name, so that the same hosts give the same order. ``pack`` prefers the
fullest host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
