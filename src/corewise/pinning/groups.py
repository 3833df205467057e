"""Free CPUs in groups: which group of a machine a number of CPUs fits into, and how it is filled.

A piece is what is taken at once: a core, or a single CPU. A group fits a number if some of its pieces make up
exactly that number. Of the groups that fit the one with the fewest free CPUs is taken, so that large groups
stay whole for those that need them; a number that fits only a larger group takes from as few of its parts
as it can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import TypeAlias

from corewise.topology import Thread

Piece: TypeAlias = tuple[Thread, ...]
"""Threads of one core, taken together."""


class Level(IntEnum):
    """How far apart CPUs are, from near to far. A cache counts within its NUMA node."""

    CACHE = 0
    NUMA_NODE = 1
    SOCKET = 2
    MACHINE = 3


_KEYS: dict[Level, Callable[[Thread], tuple[int, ...]]] = {
    Level.CACHE: lambda thread: (thread.numa_node, thread.cache),
    Level.NUMA_NODE: lambda thread: (thread.numa_node,),
    Level.SOCKET: lambda thread: (thread.socket,),
    Level.MACHINE: lambda _: (),
}


@dataclass(frozen=True, slots=True)
class Group:
    """Pieces that lie near each other."""

    key: tuple[int, ...]
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        """How many CPUs there are in it."""
        return sum(map(len, self.pieces))

    def take(self, count: int) -> tuple[Piece, ...] | None:
        """Return pieces of exactly ``count`` CPUs, earlier pieces first; None if there are no such."""
        return _exactly(self.pieces, count)


def split(pieces: Iterable[Piece], level: Level) -> list[Group]:
    """Return the groups of a level; the order of the pieces stays."""

    def key(piece: Piece) -> tuple[int, ...]:
        return _KEYS[level](piece[0])

    ordered = sorted(pieces, key=key)
    return [Group(name, tuple(members)) for name, members in groupby(ordered, key=key)]


def gather(pieces: Sequence[Piece], count: int, level: Level) -> tuple[Piece, ...] | None:
    """Return pieces of exactly ``count`` CPUs within one group of a level, near to each other; or None."""
    fitting = [group for group in split(pieces, level) if group.take(count) is not None]
    if not fitting:
        return None
    best = min(fitting, key=lambda group: (group.size, group.key))
    return _nearest(best.pieces, count, level) or best.take(count)


def _nearest(pieces: tuple[Piece, ...], count: int, level: Level) -> tuple[Piece, ...] | None:
    """Fill a group from as few of its parts as possible: whole large parts first, then what fits the rest."""
    if level is Level.CACHE:
        return _exactly(pieces, count)
    nearer = Level(level - 1)
    within = gather(pieces, count, nearer)
    if within is not None:
        return within
    parts = split(pieces, nearer)
    largest = max(parts, key=lambda part: (part.size, tuple(-each for each in part.key)))
    if len(parts) == 1 or largest.size >= count:
        return _nearest(pieces, count, nearer)
    others = tuple(piece for part in parts if part is not largest for piece in part.pieces)
    rest = _nearest(others, count - largest.size, level)
    return None if rest is None else (*largest.pieces, *rest)


def _exactly(pieces: tuple[Piece, ...], count: int) -> tuple[Piece, ...] | None:
    """Choose how many pieces of each size, larger sizes first, so that the sizes sum up to ``count``."""
    if sum(map(len, pieces)) < count:
        return None
    of_size: dict[int, list[Piece]] = {}
    for piece in pieces:
        of_size.setdefault(len(piece), []).append(piece)
    sizes = sorted(of_size, reverse=True)
    numbers = _numbers([(size, len(of_size[size])) for size in sizes], count)
    if numbers is None:
        return None
    return tuple(
        piece for size, number in zip(sizes, numbers, strict=True) for piece in of_size[size][:number]
    )


def _numbers(sizes: Sequence[tuple[int, int]], count: int) -> tuple[int, ...] | None:
    """Return how many of each (size, how many there are) make up ``count``: large ones first."""
    if not sizes:
        return None if count else ()
    (size, there_are), *smaller = sizes
    for number in range(min(there_are, count // size), -1, -1):
        rest = _numbers(smaller, count - number * size)
        if rest is not None:
            return (number, *rest)
    return None
