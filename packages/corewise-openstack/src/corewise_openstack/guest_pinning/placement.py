"""The choice of a guest's CPUs on a host, or the refusal: fit and claim are this one function.

A guest without NUMA nodes floats over the shared CPUs. Otherwise each of its NUMA nodes lies within one of
the host's, no two within the same: its dedicated CPUs are chosen by the thread policy, the host's node has at
least as many shared CPUs as the guest's node has floating ones, and the memory is there. All guest CPUs that
float over a node are at most its shared CPUs times the allocation ratio. The host's nodes are tried with the
most free dedicated CPUs first (for a guest without any: with the fewest floating CPUs), then the most free
memory, then the lowest number; ``pack`` tries the fullest first. Isolated emulator threads get their CPU on
guest node 0. These rules are those of Nova's NUMATopologyFilter and of its claim.

The choice depends on the ledger and the guest alone, so what fits can be claimed on the same ledger.

Several nodes are assigned by augmenting paths (H. W. Kuhn, "The Hungarian method for the assignment
problem"), never by trying permutations. Of all
assignments the first in the order of preference is taken: the first node gets the best place it can have
while all others get one, then the second, and so on.

A guest that does not fit is refused for the first of these reasons:

1. the guest has more NUMA nodes than the host;
2. its thread policy does not suit the host's cores, whoever runs there;
3. fewer dedicated CPUs are free on the whole host than it needs;
4. no NUMA node has the shared CPUs that one of its nodes needs;
5. it would fit if all memory were free: memory is missing;
6. it would fit with another thread policy: cores are missing;
7. the free CPUs are not distributed as its NUMA nodes need them.

Within a NUMA node, the thread policy chooses among the free threads of a core: its dedicated siblings
that are free. G(k) is the cores with at least k of them; cores and threads are taken in ascending order,
and n CPUs are wanted.

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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.guest_pinning.ledger import (
    CellPins,
    GuestLedger,
    GuestPins,
    HostCell,
    cpus_of,
    mask_of,
)
from corewise_openstack.vocabulary.guests import CPUPolicy, EmulatorThreads, GuestCPUs, ThreadPolicy

_FLOATING = GuestPins()
_Why = tuple[Reason, str]
_Need = tuple[int, int, int, bool]
"""The needs of a guest node: dedicated CPUs, CPUs that float, memory, the emulator's CPU."""


def place(ledger: GuestLedger, guest: GuestCPUs, *, pack: bool = False) -> GuestPins | Finding:
    """Choose the CPUs of a guest among those that are free. The ledger stays as it is."""
    pins = _placed(ledger, guest, pack=pack)
    if pins is not None:
        return pins
    reason, message = _unsuitable(ledger, guest) or _too_few(ledger, guest) or _misplaced(ledger, guest)
    empty = replace(ledger, guests=MappingProxyType({}))
    return Finding(reason, message, unresolvable=not _fits(empty, guest))


def _fits(ledger: GuestLedger, guest: GuestCPUs) -> bool:
    return _placed(ledger, guest, pack=False) is not None


def _placed(ledger: GuestLedger, guest: GuestCPUs, *, pack: bool) -> GuestPins | None:
    if not guest.nodes:
        return _FLOATING if any(cell.shared for cell in ledger.cells) else None
    if _unsuitable(ledger, guest) is not None:
        return None
    emulator = guest.emulator is EmulatorThreads.ISOLATE
    needs = [
        (len(node.dedicated), len(node.cpus) - len(node.dedicated), node.memory_mb, emulator and not index)
        for index, node in enumerate(guest.nodes)
    ]
    cells = _ordered(ledger, guest, pack=pack)
    if len(needs) > 1:
        chosen = _assigned(ledger, guest, needs, cells)
        return None if chosen is None else _joined(guest, chosen)
    for cell in cells:
        threads = _fit(ledger, cell, needs[0], guest)
        if threads is not None:
            return _joined(guest, [(cell, threads)])
    return None


def _ordered(ledger: GuestLedger, guest: GuestCPUs, *, pack: bool) -> list[HostCell]:
    taken, used = ledger.taken, ledger.memory_used
    sign = 1 if pack else -1
    floats = guest.policy is CPUPolicy.SHARED

    def key(cell: HostCell) -> tuple[int, int, int]:
        free = -ledger.floating[cell.number] if floats else (cell.dedicated_mask & ~taken).bit_count()
        return sign * free, sign * ((cell.memory_mb or 0) - used[cell.number]), cell.number

    return sorted(ledger.cells, key=key)


def _fit(ledger: GuestLedger, cell: HostCell, need: _Need, guest: GuestCPUs) -> ThreadPick | None:
    if not _has_room(ledger, cell, need, guest):
        return None
    return _choose_threads(cell, ledger.taken, need, guest.thread_policy)


def _has_room(ledger: GuestLedger, cell: HostCell, need: _Need, guest: GuestCPUs) -> bool:
    """Whether there are enough CPUs and memory, however the CPUs lie on their cores."""
    dedicated, floating, memory, emulator = need
    if (cell.dedicated_mask & ~ledger.taken).bit_count() < dedicated + emulator:
        return False
    if cell.memory_mb is not None and memory > cell.memory_mb - ledger.memory_used[cell.number]:
        return False
    return not floating or floating <= _most_floating(ledger, cell, guest)


def _most_floating(ledger: GuestLedger, cell: HostCell, guest: GuestCPUs) -> int:
    """Return the most CPUs of a guest node that may float over a host's node."""
    shared = len(cell.shared if guest.policy is CPUPolicy.SHARED else cell.shared_only)
    return max(min(shared, int(shared * cell.ratio) - ledger.floating[cell.number]), 0)


def _assigned(
    ledger: GuestLedger, guest: GuestCPUs, needs: list[_Need], cells: list[HostCell]
) -> list[tuple[HostCell, ThreadPick]] | None:
    """Choose a host's node for each of the guest's; what several nodes need is looked for once."""
    any_threads = guest.thread_policy not in _CHOICES  # then room is enough: threads can be chosen later

    def fitting(need: _Need) -> Iterator[int]:
        for place, cell in enumerate(cells):
            if _has_room(ledger, cell, need, guest) and (any_threads or _fit(ledger, cell, need, guest)):
                yield place

    places: list[int] | None
    if len(set(needs)) == 1:
        places = list(islice(fitting(needs[0]), len(needs)))
    else:
        fits = {need: mask_of(fitting(need)) for need in dict.fromkeys(needs)}
        places = assign([fits[need] for need in needs])
    if places is None or len(places) < len(needs):
        return None
    chosen = [
        (cells[place], _choose_threads(cells[place], ledger.taken, need, guest.thread_policy))
        for need, place in zip(needs, places, strict=True)
    ]
    return [(cell, threads) for cell, threads in chosen if threads is not None]


def _joined(guest: GuestCPUs, chosen: list[tuple[HostCell, ThreadPick]]) -> GuestPins:
    withheld = 0
    emulator = None
    cells = []
    for node, (cell, threads) in zip(guest.nodes, chosen, strict=True):
        pins = dict(zip(sorted(node.dedicated.cpus), threads.cpus, strict=True))
        cells.append(CellPins(cell.number, pins, node.memory_mb, tuple(node.cpus - node.dedicated)))
        withheld |= threads.withheld
        emulator = threads.emulator if threads.emulator is not None else emulator
    return GuestPins(tuple(cells), emulator, CPUSet.of(cpus_of(withheld)))


def _unsuitable(ledger: GuestLedger, guest: GuestCPUs) -> _Why | None:
    """Return the reason that the host can never take the guest, whatever else runs there; None if it can."""
    if len(guest.nodes) > len(ledger.cells):
        message = f"the guest has {len(guest.nodes)} NUMA nodes, the host {len(ledger.cells)}"
        return Reason.NUMA_NODES_INSUFFICIENT, message
    if guest.thread_policy is ThreadPolicy.REQUIRE and not ledger.hyper_threading:
        return Reason.HYPER_THREADS_MISSING, "the guest requires hyperthread siblings, and the host has none"
    if guest.thread_policy is ThreadPolicy.ISOLATE and ledger.hyper_threading and not ledger.legacy:
        return Reason.HYPER_THREADS_PRESENT, "the guest must not share cores, and the host has hyperthreads"
    return None


def _too_few(ledger: GuestLedger, guest: GuestCPUs) -> _Why | None:
    free = (ledger.dedicated_mask & ~ledger.taken).bit_count()
    if guest.host_cpus > free:
        message = f"the guest needs {guest.host_cpus} dedicated CPUs, {free} are free"
        return Reason.DEDICATED_CPUS_INSUFFICIENT, message
    needed = max((len(node.cpus) - len(node.dedicated) for node in guest.nodes), default=1)
    if not needed:
        return None
    empty = replace(ledger, guests=MappingProxyType({}))
    most = max((_most_floating(empty, cell, guest) for cell in ledger.cells), default=0)
    left = max((_most_floating(ledger, cell, guest) for cell in ledger.cells), default=0)
    if needed > most:
        message = f"the guest needs a NUMA node with {needed} shared CPUs, the largest has {most}"
        return Reason.SHARED_CPUS_INSUFFICIENT, message
    if guest.nodes and needed > left:
        message = (
            f"the guest needs {needed} shared CPUs on one NUMA node, and no node has more than {left} left: "
            f"other guests use the rest, at an allocation ratio of {ledger.cells[0].ratio}"
        )
        return Reason.SHARED_CPUS_INSUFFICIENT, message
    return None


def _misplaced(ledger: GuestLedger, guest: GuestCPUs) -> _Why:
    without_memory = replace(guest, nodes=tuple(replace(node, memory_mb=0) for node in guest.nodes))
    if _fits(ledger, without_memory):
        sizes = ", ".join(f"{node.memory_mb} MiB" for node in guest.nodes)
        message = f"the CPUs are free, but not on NUMA nodes with the memory ({sizes})"
        return Reason.NUMA_MEMORY_INSUFFICIENT, message
    if guest.thread_policy is not None and _fits(ledger, replace(guest, thread_policy=None)):
        message = f"the CPUs are free, but not on cores as thread policy {guest.thread_policy} demands"
        return Reason.THREAD_POLICY_UNMET, message
    parts = ", ".join(str(len(node.dedicated)) for node in guest.nodes)
    message = f"the CPUs are free, but not grouped as the guest's NUMA nodes need them ({parts})"
    return Reason.NUMA_NODES_UNFIT, message


def assign(fits: Sequence[int]) -> list[int] | None:
    """Return a place for each node, given the mask of the places that it fits; None if there is no way.

    Bit 0 is the place that is preferred most. With n nodes and m places, that takes n x (n + m) steps once
    all nodes have a place.
    """
    matching = _Matching(fits)
    if not all(matching.augment(node, set()) for node in range(len(fits))):
        return None
    for node in range(len(fits)):
        matching.improve(node)
    return matching.place_of


class _Matching:
    """The place of each node, -1 if it has none, and the node at each place that is taken."""

    def __init__(self, fits: Sequence[int]) -> None:
        self.place_of = [-1] * len(fits)
        self._node_at: dict[int, int] = {}
        self._places = [cpus_of(mask) for mask in fits]
        self._nodes: dict[int, int] = {}
        """Place -> the mask of the nodes that fit it."""
        for node, places in enumerate(self._places):
            for place in places:
                self._nodes[place] = self._nodes.get(place, 0) | 1 << node

    def augment(self, node: int, seen: set[int]) -> bool:
        """Find a place for a node, moving others along if need be."""
        for place in self._places[node]:
            if place in seen:
                continue
            seen.add(place)
            holder = self._node_at.get(place)
            if holder is None or self.augment(holder, seen):
                self._put(node, place)
                return True
        return False

    def improve(self, node: int) -> None:
        """Move a node to the first place that leaves one for all later nodes; earlier ones stay.

        A place leads to another if its node can move there. Those that lead to a free place, or to the one
        that the node leaves, can be made free for it: they are found backwards, each once.
        """
        current = self.place_of[node]
        if self._places[node][0] == current:
            return
        leads_to = dict.fromkeys([current, *(self._nodes.keys() - self._node_at.keys())], -1)
        later = -1 << (node + 1)
        reached = list(leads_to)
        for place in reached:
            for follower in cpus_of(self._nodes[place] & later):
                later ^= 1 << follower
                held = self.place_of[follower]
                leads_to[held] = place
                reached.append(held)
        best = next(place for place in self._places[node] if place in leads_to)
        del self._node_at[current]
        mover: int | None = node
        while mover is not None:
            holder = self._node_at.get(best)
            self._put(mover, best)
            mover, best = holder, leads_to[best]

    def _put(self, node: int, place: int) -> None:
        self.place_of[node], self._node_at[place] = place, node


class ThreadPick(NamedTuple):
    """A guest's share of a NUMA node: CPUs core by core, the emulator's, and a mask of those withheld."""

    cpus: list[int]
    emulator: int | None = None
    withheld: int = 0


def _choose_threads(
    cell: HostCell, taken: int, need: _Need, policy: ThreadPolicy | None
) -> ThreadPick | None:
    """Choose CPUs where there is room, and one for the emulator; None if the policy finds none."""
    count, _, _, emulator = need
    available = cell.dedicated_mask & ~taken
    choose = _CHOICES.get(policy, _preferred)
    chosen: _Chosen | None = choose(cell, available, count) if count else (ThreadPick([]), 0)
    if chosen is None or not emulator:
        return chosen and chosen[0]
    threads, used = chosen
    left = available & ~used
    return threads._replace(emulator=_lonely(cell, left)) if left else None


_Chosen = tuple[ThreadPick, int]
"""Threads, and the mask of them and of those withheld."""


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
    return ThreadPick(cpus), used


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
    return ThreadPick(cpus), used


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
    return ThreadPick(cpus), used


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
    return ThreadPick(cpus, withheld=withheld), used


def _lonely(cell: HostCell, left: int) -> int:
    """Return the first thread of the core with the fewest free ones."""
    frees = [free for core in cell.core_masks if (free := core & left)]
    fewest = min(frees, key=int.bit_count)
    return (fewest & -fewest).bit_length() - 1


_CHOICES: dict[ThreadPolicy | None, Callable[[HostCell, int, int], _Chosen | None]] = {
    ThreadPolicy.REQUIRE: _required,
    ThreadPolicy.ISOLATE: _isolated,
}
"""The chooser of each thread policy; other policies are chosen as preferred."""
