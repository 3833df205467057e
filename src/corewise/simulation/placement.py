"""Placing pods without a scheduler: the machine with the largest free share of CPU that the pod fits on.

Deterministic: ties go to the machine named first. Amounts are tuples of whole numbers, CPU first, the same
order for rooms and pods. It stands in for a scheduler only where pods are said to run already, and not where:
those of a trace, and offline pods that have come before anybody offered batch CPU.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Amounts = tuple[int, ...]


@dataclass
class Room:
    """What a machine has left. ``total`` is what it offered in the beginning."""

    name: str
    free: Amounts
    total_cpu: int

    def fits(self, wanted: Amounts) -> bool:
        return all(have >= want for have, want in zip(self.free, wanted, strict=True))

    def take(self, wanted: Amounts) -> None:
        self.free = tuple(have - want for have, want in zip(self.free, wanted, strict=True))

    @property
    def used_share(self) -> float:
        return 1.0 - self.free[0] / self.total_cpu if self.total_cpu else 1.0


@dataclass(frozen=True, slots=True)
class Placement:
    """Which pod goes where, by the pod's index, and which fit nowhere."""

    node_of: dict[int, str] = field(default_factory=dict)
    unplaced: list[int] = field(default_factory=list)


def place(pods: Iterable[Amounts], rooms: Sequence[Room]) -> Placement:
    """Place pods one after the other; ``rooms`` are used up on the way."""
    heap = [(room.used_share, index) for index, room in enumerate(rooms)]
    heapq.heapify(heap)
    placement = Placement()
    for number, wanted in enumerate(pods):
        index = _pop_first_fit(heap, rooms, wanted)
        if index is None:
            placement.unplaced.append(number)
            continue
        rooms[index].take(wanted)
        heapq.heappush(heap, (rooms[index].used_share, index))
        placement.node_of[number] = rooms[index].name
    return placement


def _pop_first_fit(heap: list[tuple[float, int]], rooms: Sequence[Room], wanted: Amounts) -> int | None:
    """Take the emptiest room that fits off the heap; the ones passed over go back."""
    passed: list[tuple[float, int]] = []
    found: int | None = None
    while heap and found is None:
        entry = heapq.heappop(heap)
        if rooms[entry[1]].fits(wanted):
            found = entry[1]
        else:
            passed.append(entry)
    for entry in passed:
        heapq.heappush(heap, entry)
    return found
