"""Which dedicated threads of one NUMA node a guest gets, by its thread policy.

F is the free threads of a core: its dedicated siblings that nobody holds. G(k) is the cores with at least k.
Cores and threads are taken in ascending order, and n is how many CPUs are wanted.

======= =============================================================================================
prefer  k threads of each core in G(k), for the largest k for which k x |G(k)| >= n; if there is none,
        all free threads core by core
require every core that is used gives two threads or more; if n is odd, one may give a single thread.
        Cores with the most free threads first
isolate one thread of each of n cores that are wholly free; their other threads are withheld from all
======= =============================================================================================

Isolated emulator threads take one more CPU: of what is left, a thread of the core with the fewest free ones,
so that few cores are broken. The cores of an isolated guest have none left.
"""

from __future__ import annotations

from typing import NamedTuple

from corewise.pinning.guest_ledger import HostCell
from corewise.vocabulary.guests import ThreadPolicy


class Threads(NamedTuple):
    """What a guest gets of a NUMA node: CPUs core by core, the emulator's, and a mask of those withheld."""

    cpus: list[int]
    emulator: int | None = None
    withheld: int = 0


def choose_threads(
    cell: HostCell, taken: int, count: int, policy: ThreadPolicy | None, *, emulator: bool
) -> Threads | None:
    """Choose ``count`` CPUs, and one for the emulator; None if they are not there. ``taken`` is a mask."""
    available = cell.dedicated_mask & ~taken
    if available.bit_count() < count + emulator:
        return None
    chosen = _chosen(cell, available, count, policy)
    if chosen is None or not emulator:
        return chosen and chosen[0]
    threads, used = chosen
    left = available & ~used
    return threads._replace(emulator=_lonely(cell, left)) if left else None


_Chosen = tuple[Threads, int]
"""Threads, and the mask of them and of those withheld."""


def _chosen(cell: HostCell, available: int, count: int, policy: ThreadPolicy | None) -> _Chosen | None:
    if not count:
        return Threads([]), 0
    if policy is ThreadPolicy.ISOLATE:
        return _isolated(cell, available, count)
    choose = _required if policy is ThreadPolicy.REQUIRE else _preferred
    return choose(cell, available, count)


def _preferred(cell: HostCell, available: int, count: int) -> _Chosen | None:
    for threads in range(cell.most_threads, 0, -1):
        chosen = _dealt(cell, available, count, threads)
        if chosen is not None:
            return chosen
    return _all_in_turn(cell, available, count)


def _dealt(cell: HostCell, available: int, count: int, threads: int) -> _Chosen | None:
    """Take this many threads of each core that has as many, until there are enough."""
    needed = -(-count // threads)
    cores = []
    for core in cell.core_masks:
        free = core & available
        if free.bit_count() >= threads:
            cores.append(free)
            if len(cores) == needed:
                break
    else:
        return None
    cpus: list[int] = []
    used = 0
    for core in cores:
        used |= _take(core, min(threads, count - len(cpus)), cpus)
    return Threads(cpus), used


def _take(core: int, count: int, cpus: list[int]) -> int:
    """Append the lowest CPUs of a mask to ``cpus``, and return their mask."""
    left = core
    for _ in range(count):
        lowest = left & -left
        cpus.append(lowest.bit_length() - 1)
        left ^= lowest
    return core ^ left


def _all_in_turn(cell: HostCell, available: int, count: int) -> _Chosen:
    cpus: list[int] = []
    used = 0
    for core in cell.core_masks:
        free = core & available
        used |= _take(free, min(free.bit_count(), count - len(cpus)), cpus)
    return Threads(cpus), used


def _required(cell: HostCell, available: int, count: int) -> _Chosen | None:
    """Take threads in twos or more, and at most one alone.

    Cores with two free threads or more, the largest first, give all they have until the count is met. If one
    CPU is then missing, a core gives a single thread if the count is odd; else a core that gave three or more
    gives one less, and the next core gives two. That finds CPUs whenever there are any.
    """
    frees = [free for core in cell.core_masks if (free := core & available)]
    frees.sort(key=int.bit_count, reverse=True)
    gives: list[int] = []
    left = count
    for free in frees:
        if left < 2 or free.bit_count() < 2:
            break
        give = min(free.bit_count(), left)
        gives.append(give)
        left -= give
    if left == 1 and len(gives) < len(frees):
        _settle_last(gives, frees, count)
        left = count - sum(gives)
    if left:
        return None
    cpus: list[int] = []
    used = 0
    for free, give in zip(frees, gives, strict=False):
        used |= _take(free, give, cpus)
    return Threads(cpus), used


def _settle_last(gives: list[int], frees: list[int], count: int) -> None:
    """Find the CPU that is missing on one core more."""
    following = frees[len(gives)]
    if count % 2:
        fewest = min(range(len(gives), len(frees)), key=lambda each: frees[each].bit_count())
        frees[len(gives)], frees[fewest] = frees[fewest], following
        gives.append(1)
    elif following.bit_count() >= 2:
        generous = max(index for index, give in enumerate(gives) if give > 2)
        gives[generous] -= 1
        gives.append(2)


def _isolated(cell: HostCell, available: int, count: int) -> _Chosen | None:
    cores = []
    for core in cell.core_masks:
        if core & available == core:
            cores.append(core)
            if len(cores) == count:
                break
    else:
        return None
    cpus: list[int] = []
    used = withheld = 0
    for core in cores:
        withheld |= core ^ _take(core, 1, cpus)
        used |= core
    return Threads(cpus, withheld=withheld), used


def _lonely(cell: HostCell, left: int) -> int:
    """Return the first thread of the core with the fewest free ones."""
    frees = [free for core in cell.core_masks if (free := core & left)]
    fewest = min(frees, key=int.bit_count)
    return (fewest & -fewest).bit_length() - 1
