"""Which CPUs of a host a guest gets, or why it gets none: fit and claim are this one function.

A guest without NUMA nodes floats over the shared CPUs. Otherwise each of its NUMA nodes lies within one of
the host's, no two within the same: its dedicated CPUs are chosen by the thread policy, the host's node has at
least as many shared CPUs as the guest's node has floating ones, and the memory is there. All guest CPUs that
float over a node are at most its shared CPUs times the allocation ratio. The host's nodes are tried with the
most free dedicated CPUs first (for a guest without any: with the fewest floating CPUs), then the most free
memory, then the lowest number; ``pack`` tries the fullest first. Isolated emulator threads get their CPU on
guest node 0. These rules are those of Nova's NUMATopologyFilter and of its claim.

The choice depends on the ledger and the guest alone, so what fits can be claimed on the same ledger.

Several nodes are assigned by augmenting paths (H. W. Kuhn, "The Hungarian method for the assignment
problem"), so 8 nodes on 16 places need some hundred looks at a pair, and never their permutations. Of all
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

Within a NUMA node, the thread policy chooses among the free threads of a core: its dedicated siblings that
nobody holds. G(k) is the cores with at least k of them; cores and threads are taken in ascending order, and n
CPUs are wanted.

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

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from corewise.pinning.guest_ledger import CellPins, GuestLedger, GuestPins, HostCell, cpus_of
from corewise.pinning.ledger import Refusal
from corewise.topology import CPUSet
from corewise.vocabulary.guests import CPUPolicy, EmulatorThreads, GuestCPUs, ThreadPolicy
from corewise.vocabulary.reasons import Reason

_FLOATING = GuestPins()
_Why = tuple[Reason, str]
_Need = tuple[int, int, int, bool]
"""What a guest node needs of a host node: dedicated CPUs, CPUs that float, memory, the emulator's CPU."""


def place(ledger: GuestLedger, guest: GuestCPUs, *, pack: bool = False) -> GuestPins | Refusal:
    """Choose the CPUs of a guest among those that are free. The ledger stays as it is."""
    pins = _placed(ledger, guest, pack=pack)
    if pins is not None:
        return pins
    reason, message = _unsuitable(ledger, guest) or _too_few(ledger, guest) or _misplaced(ledger, guest)
    empty = replace(ledger, guests=MappingProxyType({}))
    return Refusal(reason, message, unresolvable=not _fits(empty, guest))


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
    dedicated, floating, memory, emulator = need
    if cell.memory_mb is not None and memory > cell.memory_mb - ledger.memory_used[cell.number]:
        return None
    if floating > _most_floating(ledger, cell, guest):
        return None
    return _choose_threads(cell, ledger.taken, dedicated, guest.thread_policy, emulator=emulator)


def _most_floating(ledger: GuestLedger, cell: HostCell, guest: GuestCPUs) -> int:
    """Return how many CPUs of a guest node may float over a host's node."""
    shared = len(cell.shared if guest.policy is CPUPolicy.SHARED else cell.shared_only)
    return max(min(shared, int(shared * cell.ratio) - ledger.floating[cell.number]), 0)


def _assigned(
    ledger: GuestLedger, guest: GuestCPUs, needs: list[_Need], cells: list[HostCell]
) -> list[tuple[HostCell, ThreadPick]] | None:
    known: dict[tuple[_Need, int], ThreadPick | None] = {}

    def threads(node: int, place: int) -> ThreadPick | None:
        """Choose once for all guest nodes that need the same."""
        pair = (needs[node], place)
        if pair not in known:
            known[pair] = _fit(ledger, cells[place], needs[node], guest)
        return known[pair]

    places = assign(len(needs), len(cells), lambda node, place: threads(node, place) is not None)
    if places is None:
        return None
    pairs = [(cells[place], threads(node, place)) for node, place in enumerate(places)]
    return [(cell, chosen) for cell, chosen in pairs if chosen is not None]


def _joined(guest: GuestCPUs, chosen: list[tuple[HostCell, ThreadPick]]) -> GuestPins:
    withheld = 0
    emulator = None
    cells = []
    for node, (cell, threads) in zip(guest.nodes, chosen, strict=True):
        pins = dict(zip(sorted(node.dedicated.cpus), threads.cpus, strict=True))
        cells.append(CellPins(cell.number, pins, node.memory_mb, node.cpus - node.dedicated))
        withheld |= threads.withheld
        emulator = threads.emulator if threads.emulator is not None else emulator
    return GuestPins(tuple(cells), emulator, CPUSet.of(cpus_of(withheld)))


def _unsuitable(ledger: GuestLedger, guest: GuestCPUs) -> _Why | None:
    """Say why the host can never take the guest, whoever runs there."""
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
    message = f"the CPUs are free, but no NUMA nodes have them together as the guest's need them ({parts})"
    return Reason.NUMA_NODES_UNFIT, message


def assign(nodes: int, places: int, fits: Callable[[int, int], bool]) -> list[int] | None:
    """Return the place of each node; None if there is no way. Places are given in the order of preference."""
    matching = _Matching(nodes, places, fits)
    if not all(matching.augment(node, set(), 0) for node in range(nodes)):
        return None
    for node in range(nodes):
        matching.improve(node)
    return matching.place_of


class _Matching:
    """Nodes at places; -1 is none."""

    def __init__(self, nodes: int, places: int, fits: Callable[[int, int], bool]) -> None:
        self.place_of = [-1] * nodes
        self._node_at = [-1] * places
        self._fits = fits

    def augment(self, node: int, seen: set[int], settled: int) -> bool:
        """Find a place for a node, moving others along if need be, but none of the first ``settled``."""
        for place, holder in enumerate(self._node_at):
            if place in seen or 0 <= holder < settled or not self._fits(node, place):
                continue
            seen.add(place)
            if holder < 0 or self.augment(holder, seen, settled):
                self._put(node, place)
                return True
        return False

    def improve(self, node: int) -> None:
        """Move a node to the first place that leaves one for all later nodes; earlier ones stay."""
        current = self.place_of[node]
        for place in range(current):
            holder = self._node_at[place]
            if 0 <= holder < node or not self._fits(node, place):
                continue
            self._node_at[current] = -1
            if holder < 0 or self.augment(holder, {place}, node + 1):
                self._put(node, place)
                return
            self._node_at[current] = node

    def _put(self, node: int, place: int) -> None:
        self.place_of[node], self._node_at[place] = place, node


class ThreadPick(NamedTuple):
    """What a guest gets of a NUMA node: CPUs core by core, the emulator's, and a mask of those withheld."""

    cpus: list[int]
    emulator: int | None = None
    withheld: int = 0


def _choose_threads(
    cell: HostCell, taken: int, count: int, policy: ThreadPolicy | None, *, emulator: bool
) -> ThreadPick | None:
    """Choose ``count`` CPUs, and one for the emulator; None if there are too few. ``taken`` is a mask."""
    available = cell.dedicated_mask & ~taken
    if available.bit_count() < count + emulator:
        return None
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
"""What is not here is chosen as preferred."""
