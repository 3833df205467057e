"""The choice of CPUs for a wish.

What is tried, the first that works wins:

1. without CPUs that exclusivity would rather leave alone, then with them;
2. of one kind of core, the preferred kind first, then of all kinds;
3. the shapes of the wish at the levels below, near ones first.

============ ==================================================================================
wish         shapes and levels
============ ==================================================================================
WHOLE        whole cores in one cache, NUMA node, socket, the machine; then any CPUs likewise
SPREAD       one thread a core in one cache or NUMA node; any CPUs of one NUMA node; and so on for
             the socket and the machine: staying in the NUMA node counts more than the cores
ISOLATED     one thread of each of several empty cores, in one cache, NUMA node, socket, the machine
============ ==================================================================================

A wish that is strict is tried in its own shape alone. Any CPUs are taken core by core by a WHOLE wish, whole
cores first and what is left of broken ones before another is broken; a SPREAD wish takes a thread of each
core before it takes a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from corewise.pinning.groups import Level, Piece, gather, split
from corewise.pinning.ledger import Ledger
from corewise.pinning.wish import CoreUse, Exclusivity, Grant, Refusal, Wish
from corewise.topology import CPUSet, Thread
from corewise.vocabulary.reasons import Reason

_NEAR_FIRST = (Level.CACHE, Level.NUMA_NODE, Level.SOCKET, Level.MACHINE)
_Attempt = tuple[Level, bool]
"""A level, and whether the shape of the wish must be kept."""

_STRICT: tuple[_Attempt, ...] = tuple((level, True) for level in _NEAR_FIRST)
_WHOLE: tuple[_Attempt, ...] = (*_STRICT, *((level, False) for level in _NEAR_FIRST))
_SPREAD: tuple[_Attempt, ...] = (
    (Level.CACHE, True),
    *((level, strict) for level in _NEAR_FIRST[1:] for strict in (True, False)),
)


@dataclass(frozen=True, slots=True)
class _Core:
    """The threads of a core that can be granted, and whether these are all it has."""

    threads: Piece
    whole: bool


def choose(ledger: Ledger, wish: Wish) -> Grant | Refusal:
    """Choose CPUs for a wish among those that are free. The ledger stays as it is.

    Raises:
        ValueError: if the wish is for less than one CPU.
    """
    if wish.count < 1:
        raise ValueError(f"a wish for {wish.count} CPUs")
    free = _allowed(ledger, wish)
    for pool in _pools(ledger, wish, free):
        cores = _cores(ledger, pool)
        for level, strict in _attempts(wish):
            pieces = _gathered(cores, wish, level, strict=strict)
            if pieces is not None:
                return _grant(ledger, wish, CPUSet.of(each.cpu for piece in pieces for each in piece))
    return _refusal(ledger, wish, free)


def _allowed(ledger: Ledger, wish: Wish) -> CPUSet:
    return ledger.free if wish.within is None else ledger.free & wish.within


def _attempts(wish: Wish) -> tuple[_Attempt, ...]:
    if wish.is_strict:
        return _STRICT
    return _WHOLE if wish.use is CoreUse.WHOLE else _SPREAD


def _pools(ledger: Ledger, wish: Wish, free: CPUSet) -> Iterator[CPUSet]:
    """Yield the CPUs to choose from, those that suit the wish best first, each set once."""
    seen: set[CPUSet] = set()
    for cpus in (free - _avoided(ledger, wish.exclusive), free):
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


def _cores(ledger: Ledger, pool: CPUSet) -> list[_Core]:
    """Return the cores of a pool in the order of their lowest CPUs."""
    members: dict[int, list[Thread]] = {}
    cpus = pool.cpus
    for thread in ledger.topology.in_order:
        if thread.cpu in cpus:
            members.setdefault(thread.core, []).append(thread)
    return [
        _Core(tuple(threads), len(threads) == len(ledger.topology.cores[core]))
        for core, threads in members.items()
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
    """Return what a wish that keeps its shape can take: cores, or the first free thread of each core."""
    if use is CoreUse.WHOLE:
        return [core.threads for core in cores if core.whole]
    empty_only = use is CoreUse.ISOLATED
    ordered = sorted(cores, key=lambda core: not core.whole)
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
    """Return a thread of each core, of those that nobody else uses first; then second threads, and so on."""
    ordered = sorted(cores, key=lambda core: not core.whole)
    most = max(len(core.threads) for core in cores)
    return [core.threads[turn] for turn in range(most) for core in ordered if turn < len(core.threads)]


def _grant(ledger: Ledger, wish: Wish, cpus: CPUSet) -> Grant:
    if wish.use is not CoreUse.ISOLATED:
        return Grant(cpus)
    beside = frozenset[int]().union(*(ledger.topology.siblings(cpu).cpus for cpu in cpus))
    return Grant(cpus, CPUSet(beside) - cpus)


def _refusal(ledger: Ledger, wish: Wish, free: CPUSet) -> Refusal:
    """Say which limit was met: CPUs, or cores in the shape that is required."""
    machine = ledger.topology.cpus - ledger.reserved
    within = machine if wish.within is None else machine & wish.within
    if len(free) < wish.count:
        message = f"{wish.count} CPUs are needed, {len(free)} of {len(within)} are free"
        return Refusal(Reason.NOT_ENOUGH_CPUS, message, hopeless=wish.count > len(within))
    cores, all_cores = _cores(ledger, free), _cores(ledger, within)
    hopeless = gather(_pieces(all_cores, wish.use), wish.count, Level.MACHINE) is None
    if wish.use is CoreUse.WHOLE:
        whole = [len(core.threads) for core in cores if core.whole]
        message = f"{wish.count} CPUs in whole cores are needed, {len(whole)} whole cores are free"
        if hopeless:
            message = f"{wish.count} CPUs cannot be made up of whole cores of this machine"
        return Refusal(Reason.NOT_WHOLE_CORES, message, hopeless)
    suitable = sum(core.whole or wish.use is CoreUse.SPREAD for core in cores)
    kind = "empty cores" if wish.use is CoreUse.ISOLATED else "cores with a free thread"
    message = f"{wish.count} CPUs, each on a core of its own, are needed; there are {suitable} {kind}"
    return Refusal(Reason.NOT_ENOUGH_CORES, message, hopeless)
