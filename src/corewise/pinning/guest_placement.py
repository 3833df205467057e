"""Which CPUs of a host a guest gets: fit and claim are this one function.

A guest without NUMA nodes floats over the shared CPUs. Each NUMA node of another lies within one of the
host's, no two within the same: its dedicated CPUs are chosen by the thread policy, of shared CPUs there are
at least as many as the node has CPUs that float, and the memory is there. The host's nodes are tried with the
most free dedicated CPUs first, then the most free memory, then the lowest number; ``pack`` tries those with
the fewest first. Emulator threads of their own have their CPU on guest node 0.

The choice depends on the ledger and the guest alone, so what fits can be claimed on the same ledger.
"""

from __future__ import annotations

from corewise.pinning.guest_ledger import CellPins, GuestLedger, GuestPins
from corewise.pinning.guest_refusal import refuse
from corewise.pinning.host_cells import HostCell, cpus_of
from corewise.pinning.matching import assign
from corewise.pinning.thread_choice import Threads, choose_threads
from corewise.pinning.wish import Refusal
from corewise.topology import CPUSet
from corewise.vocabulary.guests import CPUPolicy, EmulatorThreads, GuestCPUs, ThreadPolicy

FLOATING = GuestPins()
_Need = tuple[int, int, int, bool]
"""What a guest node needs of a host node: dedicated CPUs, CPUs that float, memory, the emulator's CPU."""


def place(ledger: GuestLedger, guest: GuestCPUs, *, pack: bool = False) -> GuestPins | Refusal:
    """Choose the CPUs of a guest among those that are free. The ledger stays as it is."""
    pins = _placed(ledger, guest, pack=pack)
    return refuse(ledger, guest, _fits) if pins is None else pins


def _fits(ledger: GuestLedger, guest: GuestCPUs) -> bool:
    return _placed(ledger, guest, pack=False) is not None


def _placed(ledger: GuestLedger, guest: GuestCPUs, *, pack: bool) -> GuestPins | None:
    if not guest.nodes:
        return FLOATING if any(cell.shared for cell in ledger.cells) else None
    if not _may_lie_here(ledger, guest):
        return None
    needs = _needs(guest)
    cells = _ordered(ledger, guest, pack=pack)
    if len(needs) > 1:
        chosen = _assigned(ledger, guest, needs, cells)
        return None if chosen is None else _joined(guest, chosen)
    for cell in cells:
        threads = _fit(ledger, cell, needs[0], guest)
        if threads is not None:
            return _joined(guest, [(cell, threads)])
    return None


def _may_lie_here(ledger: GuestLedger, guest: GuestCPUs) -> bool:
    """Whether the host as such suits the guest, whoever is on it."""
    if len(guest.nodes) > len(ledger.cells):
        return False
    if guest.thread_policy is ThreadPolicy.REQUIRE:
        return ledger.hyper_threading
    return guest.thread_policy is not ThreadPolicy.ISOLATE or ledger.legacy or not ledger.hyper_threading


def _needs(guest: GuestCPUs) -> list[_Need]:
    emulator = guest.emulator is EmulatorThreads.ISOLATE
    return [
        (len(node.dedicated), len(node.cpus) - len(node.dedicated), node.memory_mb, emulator and not index)
        for index, node in enumerate(guest.nodes)
    ]


def _ordered(ledger: GuestLedger, guest: GuestCPUs, *, pack: bool) -> list[HostCell]:
    taken, used = ledger.taken, ledger.memory_used
    sign = 1 if pack else -1
    floats = guest.policy is CPUPolicy.SHARED

    def key(cell: HostCell) -> tuple[int, int, int]:
        free = len(cell.shared) if floats else (cell.dedicated_mask & ~taken).bit_count()
        return sign * free, sign * ((cell.memory_mb or 0) - used[cell.number]), cell.number

    return sorted(ledger.cells, key=key)


def _fit(ledger: GuestLedger, cell: HostCell, need: _Need, guest: GuestCPUs) -> Threads | None:
    dedicated, floating, memory, emulator = need
    if cell.memory_mb is not None and memory > cell.memory_mb - ledger.memory_used[cell.number]:
        return None
    if floating:
        shared = cell.shared if guest.policy is CPUPolicy.SHARED else cell.shared_only
        if floating > len(shared):
            return None
    return choose_threads(cell, ledger.taken, dedicated, guest.thread_policy, emulator=emulator)


def _assigned(
    ledger: GuestLedger, guest: GuestCPUs, needs: list[_Need], cells: list[HostCell]
) -> list[tuple[HostCell, Threads]] | None:
    known: dict[tuple[_Need, int], Threads | None] = {}

    def threads(node: int, place: int) -> Threads | None:
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


def _joined(guest: GuestCPUs, chosen: list[tuple[HostCell, Threads]]) -> GuestPins:
    withheld = 0
    emulator = None
    cells = []
    for node, (cell, threads) in zip(guest.nodes, chosen, strict=True):
        pins = dict(zip(sorted(node.dedicated.cpus), threads.cpus, strict=True))
        cells.append(CellPins(cell.number, pins, node.memory_mb))
        withheld |= threads.withheld
        emulator = threads.emulator if threads.emulator is not None else emulator
    return GuestPins(tuple(cells), emulator, CPUSet.of(cpus_of(withheld)))
