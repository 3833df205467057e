"""The choice of CPUs for a wish: which groups of near CPUs are tried, and how a group is filled.

The first attempt that succeeds wins:

1. without CPUs that exclusivity prefers to leave alone, then with them;
2. of one kind of core, the preferred kind first, then of all kinds;
3. the shapes of the wish at the levels below, near ones first.

============ ==================================================================================
wish         shapes and levels
============ ==================================================================================
WHOLE        whole cores in one cache, NUMA node, socket, the machine; then any CPUs likewise
SPREAD       one thread per core in one cache or NUMA node; any CPUs of one NUMA node; and so on
             for the socket and the machine: staying in the NUMA node counts more than the cores
ISOLATED     one thread of each of several empty cores, in one cache, NUMA node, socket, machine
============ ==================================================================================

A strict wish is tried in its own shape only. A WHOLE wish takes any CPUs core by core: whole cores first, and
what is left of broken cores before it breaks another. A SPREAD wish takes a thread of each core before it
takes a second.

A piece is what is taken at once: a core, or a single CPU. A group fits a number if some of its pieces make up
exactly that number. Of the groups that fit, the one with the fewest free CPUs is taken, so that large groups
stay whole for those that need them; a number that fits only a larger group takes from as few of its parts
as it can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

from corewise.pinning.ledger import REMEMBERED, CoreUse, Exclusivity, Grant, Ledger, Wish
from corewise.topology import CPUSet, Thread, Topology
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

Piece: TypeAlias = tuple[Thread, ...]
"""Threads of one core, taken together."""


class Level(IntEnum):
    """The distance between CPUs, from near to far. A cache counts within its NUMA node."""

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
class PieceGroup:
    """Pieces that lie near each other."""

    key: tuple[int, ...]
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        """The number of CPUs in it."""
        return sum(map(len, self.pieces))

    def take(self, count: int) -> tuple[Piece, ...] | None:
        """Return pieces of exactly ``count`` CPUs, earlier pieces first; None if there are no such."""
        return _exactly(self.pieces, count)


def split(pieces: Iterable[Piece], level: Level) -> list[PieceGroup]:
    """Return the groups of a level; the order of the pieces stays."""

    def key(piece: Piece) -> tuple[int, ...]:
        return _KEYS[level](piece[0])

    ordered = sorted(pieces, key=key)
    return [PieceGroup(name, tuple(members)) for name, members in groupby(ordered, key=key)]


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
    """Return the number of pieces of each (size, available) that make up ``count``: large ones first."""
    if not sizes:
        return None if count else ()
    (size, there_are), *smaller = sizes
    for number in range(min(there_are, count // size), -1, -1):
        rest = _numbers(smaller, count - number * size)
        if rest is not None:
            return (number, *rest)
    return None


_NEAR_FIRST = (Level.CACHE, Level.NUMA_NODE, Level.SOCKET, Level.MACHINE)
_Attempt = tuple[Level, bool]
"""A level, and whether the shape of the wish must be kept."""

# ISOLATED, and strict wishes: their own shape, near first
_STRICT: tuple[_Attempt, ...] = tuple((level, True) for level in _NEAR_FIRST)
# WHOLE: whole cores anywhere, then any CPUs
_WHOLE: tuple[_Attempt, ...] = (*_STRICT, *((level, False) for level in _NEAR_FIRST))
# SPREAD: one cache, then per level one thread per core before any CPUs
_SPREAD: tuple[_Attempt, ...] = (
    (Level.CACHE, True),
    *((level, strict) for level in _NEAR_FIRST[1:] for strict in (True, False)),
)


@dataclass(frozen=True, slots=True)
class _Core:
    """The threads of a core that can be granted, and whether these are all it has."""

    threads: Piece
    whole: bool


def choose(ledger: Ledger, wish: Wish) -> Grant | Finding:
    """Choose CPUs for a wish among those that are free. The ledger stays as it is.

    A refusal is unresolvable if not even the empty machine could grant the wish.

    Raises:
        ValueError: if the wish is for less than one CPU.
    """
    if wish.count < 1:
        raise ValueError(f"a wish for {wish.count} CPUs")
    free = ledger.free if wish.within is None else ledger.free & wish.within
    for pool in _pools(ledger, wish, free):
        cpus = _chosen(ledger.topology, pool, wish)
        if cpus is not None:
            return _grant(ledger, wish, cpus)
    return _refusal(ledger, wish, free)


@lru_cache(maxsize=REMEMBERED)
def _chosen(topology: Topology, pool: CPUSet, wish: Wish) -> CPUSet | None:
    """Choose CPUs of one pool, the same for all machines of a kind on which the same CPUs are free."""
    attempts = _STRICT if wish.is_strict else _WHOLE if wish.use is CoreUse.WHOLE else _SPREAD
    cores = _cores(topology, pool)
    # 3: shapes and levels of the wish
    for level, strict in attempts:
        pieces = _gathered(cores, wish, level, strict=strict)
        if pieces is not None:
            return CPUSet.of(each.cpu for piece in pieces for each in piece)
    return None


def _pools(ledger: Ledger, wish: Wish, free: CPUSet) -> Iterator[CPUSet]:
    """Yield the CPUs to choose from, those that suit the wish best first, each set once."""
    seen: set[CPUSet] = set()
    # 1: without CPUs that exclusivity avoids, then with them
    for cpus in (free - _avoided(ledger, wish.exclusive), free):
        # 2: of one kind of core, the preferred kind first, then of all kinds
        for pool in (*(cpus & kind for kind in ledger.kinds.values()), cpus):
            if len(pool) >= wish.count and pool not in seen:
                seen.add(pool)
                yield pool


def _avoided(ledger: Ledger, exclusive: Exclusivity) -> CPUSet:
    """Return the CPUs in cores or NUMA nodes of workloads that wish the same exclusivity."""
    if exclusive is Exclusivity.NONE:
        return CPUSet()
    others = ledger.exclusive_cpus(exclusive)
    topology = ledger.topology
    parts = topology.cores if exclusive is Exclusivity.CORE else topology.numa_nodes
    groups = (cpus.cpus for cpus in parts.values() if not cpus.isdisjoint(others))
    return CPUSet.of(frozenset[int]().union(*groups))


def _cores(topology: Topology, pool: CPUSet) -> list[_Core]:
    """Return the cores of a pool in the order of their lowest CPUs."""
    members: dict[int, list[Thread]] = {}
    cpus = pool.cpus
    for thread in topology.in_order:
        if thread.cpu in cpus:
            members.setdefault(thread.core, []).append(thread)
    return [
        _Core(tuple(threads), len(threads) == len(topology.cores[core])) for core, threads in members.items()
    ]


def _gathered(cores: list[_Core], wish: Wish, level: Level, *, strict: bool) -> tuple[Piece, ...] | None:
    if strict:
        return gather(_pieces(cores, wish.use), wish.count, level)
    groups = [group for group in split((core.threads for core in cores), level) if group.size >= wish.count]
    if not groups:
        return None
    best = min(groups, key=lambda group: (group.size, group.key))
    near = _by_numa_node([core for core in cores if core.threads in best.pieces])
    ordered = _packed(near, wish.count) if wish.use is CoreUse.WHOLE else _dealt(near)
    return tuple((thread,) for thread in ordered[: wish.count])


def _by_numa_node(cores: list[_Core]) -> list[_Core]:
    """Return the cores with those of the NUMA node that has the most free CPUs first."""
    free = Counter(thread.numa_node for core in cores for thread in core.threads)
    numa = [core.threads[0].numa_node for core in cores]
    order = sorted(range(len(cores)), key=lambda each: (-free[numa[each]], numa[each]))
    return [cores[each] for each in order]


def _pieces(cores: Iterable[_Core], use: CoreUse) -> list[Piece]:
    """Return the pieces for a wish that keeps its shape: cores, or the first free thread of each core."""
    if use is CoreUse.WHOLE:
        return [core.threads for core in cores if core.whole]
    empty_only = use is CoreUse.ISOLATED
    ordered = sorted(cores, key=lambda core: not core.whole)
    # ISOLATED: one thread of each empty core; SPREAD: of each core with a free one
    return [core.threads[:1] for core in ordered if core.whole or not empty_only]


def _packed(cores: list[_Core], count: int) -> list[Thread]:
    """Return threads core by core: whole cores as long as they are needed whole, then broken ones."""
    whole = [core for core in cores if core.whole]
    broken = sorted((core for core in cores if not core.whole), key=lambda core: len(core.threads))
    taken: list[Thread] = []
    left: list[_Core] = []
    for core in whole:
        if len(taken) + len(core.threads) <= count:
            taken += core.threads
        else:
            left.append(core)
    return [*taken, *(thread for core in (*broken, *left) for thread in core.threads)]


def _dealt(cores: list[_Core]) -> list[Thread]:
    """Return a thread of each core, cores that are otherwise free first; then second threads, and so on."""
    ordered = sorted(cores, key=lambda core: not core.whole)
    most = max(len(core.threads) for core in cores)
    return [core.threads[turn] for turn in range(most) for core in ordered if turn < len(core.threads)]


def _grant(ledger: Ledger, wish: Wish, cpus: CPUSet) -> Grant:
    if wish.use is not CoreUse.ISOLATED:
        return Grant(cpus)
    beside = frozenset[int]().union(*(ledger.topology.siblings(cpu).cpus for cpu in cpus))
    return Grant(cpus, CPUSet(beside) - cpus)


def _refusal(ledger: Ledger, wish: Wish, free: CPUSet) -> Finding:
    """Return the refusal by the limit that was met: CPUs, or cores in the required shape."""
    machine = ledger.topology.cpus - ledger.reserved
    within = machine if wish.within is None else machine & wish.within
    if len(free) < wish.count:
        message = f"{wish.count} CPUs are needed, {len(free)} of {len(within)} are free"
        return Finding(Reason.NOT_ENOUGH_CPUS, message, unresolvable=wish.count > len(within))
    cores, all_cores = _cores(ledger.topology, free), _cores(ledger.topology, within)
    unresolvable = gather(_pieces(all_cores, wish.use), wish.count, Level.MACHINE) is None
    if wish.use is CoreUse.WHOLE:
        whole = [len(core.threads) for core in cores if core.whole]
        message = f"{wish.count} CPUs in whole cores are needed, {len(whole)} whole cores are free"
        if unresolvable:
            message = f"{wish.count} CPUs cannot be made up of whole cores of this machine"
        return Finding(Reason.NOT_WHOLE_CORES, message, unresolvable=unresolvable)
    suitable = sum(core.whole or wish.use is CoreUse.SPREAD for core in cores)
    kind = "empty cores" if wish.use is CoreUse.ISOLATED else "cores with a free thread"
    message = f"{wish.count} CPUs, each on a core of its own, are needed; there are {suitable} {kind}"
    return Finding(Reason.NOT_ENOUGH_CORES, message, unresolvable=unresolvable)
