"""Guests fit if and only if some legal way exists: held against an oracle that tries every way.

Legal is: each guest node within one host node, no two within the same; every dedicated guest CPU and the
emulator on a dedicated host CPU that no one holds, each on another; memory and shared CPUs are there; and by
policy

    require  every core gives 0 or at least 2 CPUs to a guest node; if its count is odd, one core may give 1
    isolate  every CPU on another core, whose dedicated threads are all free; the emulator on none of these

The oracle looks at every subset of the free CPUs of a node and every arrangement of nodes.
"""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise_openstack.guest_pinning.ledger import GuestLedger, GuestPins, HostCell, mask_of
from corewise_openstack.guest_pinning.placement import _Matching, assign, place
from corewise_openstack.vocabulary.guests import (
    CPUPolicy,
    EmulatorThreads,
    GuestCPUs,
    GuestNode,
    ThreadPolicy,
)

POLICIES = (None, ThreadPolicy.PREFER, ThreadPolicy.REQUIRE, ThreadPolicy.ISOLATE)


@st.composite
def ledgers(draw: st.DrawFn, most_cells: int = 3) -> GuestLedger:
    """Draw a small host with cores of 1 to 4 threads, some of whose CPUs are shared, reserved or held."""
    cells, first, held = [], 0, set()
    sizes = draw(st.sampled_from(((1,), (2,), (2,), (1, 2, 3, 4))))
    uses = draw(st.sampled_from(("d", "ddddddf", "ddddffs-")))
    for number in range(draw(st.integers(1, most_cells))):
        cores = []
        for _ in range(draw(st.integers(1, 4))):
            size = draw(st.sampled_from(sizes))
            cores.append(CPUSet.of(range(first, first + size)))
            first += size
        use = {cpu: draw(st.sampled_from(uses)) for core in cores for cpu in core}
        held |= {cpu for cpu in use if use[cpu] == "f"}
        dedicated = CPUSet.of(cpu for cpu in use if use[cpu] in "df")
        shared = CPUSet.of(cpu for cpu in use if use[cpu] == "s")
        memory = draw(st.sampled_from((None, None, 2, 4)))
        cells.append(HostCell(number, tuple(cores), dedicated, shared, memory))
    threads = any(len(core) > 1 for cell in cells for core in cell.cores)
    ledger = GuestLedger(tuple(cells), hyper_threading=threads, legacy=draw(st.booleans()))
    return ledger.found("other", GuestPins(withheld=CPUSet.of(held)))


@st.composite
def guests(draw: st.DrawFn, most_nodes: int = 3) -> GuestCPUs:
    nodes, first = [], 0
    for _ in range(draw(st.integers(1, most_nodes))):
        dedicated, floating = draw(st.integers(1, 5)), draw(st.sampled_from((0, 0, 0, 0, 0, 1, -1)))
        if floating < 0:
            dedicated, floating = 0, 1
        own = CPUSet.of(range(first, first + dedicated + floating))
        memory = draw(st.sampled_from((0, 0, 1, 3)))
        nodes.append(GuestNode(own, CPUSet.of(range(first, first + dedicated)), memory))
        first += dedicated + floating
    assume(any(node.dedicated for node in nodes))
    pinned = all(node.cpus == node.dedicated for node in nodes)
    return GuestCPUs(
        vcpus=first,
        policy=CPUPolicy.DEDICATED if pinned else CPUPolicy.MIXED,
        thread_policy=draw(st.sampled_from(POLICIES)),
        emulator=draw(st.sampled_from((None, None, EmulatorThreads.ISOLATE))),
        nodes=tuple(nodes),
    )


@st.composite
def hosts_and_guests(draw: st.DrawFn) -> tuple[GuestLedger, GuestCPUs]:
    """Draw a host and a guest with about as many NUMA nodes, so that about half of them fit."""
    ledger = draw(ledgers())
    return ledger, draw(guests(most_nodes=min(3, len(ledger.cells) + draw(st.sampled_from((0, 0, 0, 1))))))


def suits_host(ledger: GuestLedger, guest: GuestCPUs) -> bool:
    if guest.thread_policy is ThreadPolicy.REQUIRE:
        return ledger.hyper_threading
    return guest.thread_policy is not ThreadPolicy.ISOLATE or ledger.legacy or not ledger.hyper_threading


def keeps_policy(cell: HostCell, free: set[int], chosen: set[int], policy: ThreadPolicy | None) -> bool:
    """Whether the CPUs of one guest node lie as the policy demands."""
    per_core = [len(chosen & core.cpus) for core in cell.cores]
    if policy is ThreadPolicy.REQUIRE:
        return per_core.count(1) <= len(chosen) % 2
    if policy is ThreadPolicy.ISOLATE:
        used = [core for core in cell.cores if chosen & core.cpus]
        return max(per_core, default=0) <= 1 and all((core & cell.dedicated).cpus <= free for core in used)
    return True


def node_has_a_way(ledger: GuestLedger, cell: HostCell, guest: GuestCPUs, index: int) -> bool:
    node = guest.nodes[index]
    memory = cell.memory_mb
    if memory is not None and node.memory_mb > memory - ledger.memory_used[cell.number]:
        return False
    if len(node.cpus) - len(node.dedicated) > len(cell.shared - cell.dedicated):
        return False
    free = set((cell.dedicated & ledger.free).cpus)
    emulator = index == 0 and guest.emulator is EmulatorThreads.ISOLATE
    policy = guest.thread_policy
    for chosen in map(set, combinations(sorted(free), len(node.dedicated))):
        if not keeps_policy(cell, free, chosen, policy):
            continue
        others = free - chosen
        if not emulator:
            return True
        if policy is ThreadPolicy.ISOLATE:
            others -= {cpu for core in cell.cores if core.cpus & chosen for cpu in core}
        if others:
            return True
    return False


def some_way_exists(ledger: GuestLedger, guest: GuestCPUs) -> bool:
    if not suits_host(ledger, guest) or len(guest.nodes) > len(ledger.cells):
        return False
    ways = {
        (index, cell.number): node_has_a_way(ledger, cell, guest, index)
        for index in range(len(guest.nodes))
        for cell in ledger.cells
    }
    return any(
        all(ways[index, cell.number] for index, cell in enumerate(chosen))
        for chosen in permutations(ledger.cells, len(guest.nodes))
    )


def assert_legal(ledger: GuestLedger, guest: GuestCPUs, pins: GuestPins) -> None:
    named = [cpu for cell in pins.cells for cpu in cell.pins.values()]
    named += [] if pins.emulator is None else [pins.emulator]
    assert len(set(named)) == len(named)
    assert CPUSet.of(named) | pins.withheld <= ledger.free
    assert pins.is_consistent
    cells = {cell.number: cell for cell in ledger.cells}
    assert len({cell.node for cell in pins.cells}) == len(pins.cells) == len(guest.nodes)
    for node, lies in zip(guest.nodes, pins.cells, strict=True):
        cell = cells[lies.node]
        assert set(lies.pins) == set(node.dedicated)
        assert set(lies.pins.values()) <= cell.dedicated.cpus
        free = set((cell.dedicated & ledger.free).cpus)
        assert keeps_policy(cell, free, set(lies.pins.values()), guest.thread_policy)
        assert cell.memory_mb is None or lies.memory_mb <= cell.memory_mb
    if guest.emulator is not None:
        assert pins.emulator is not None
        assert pins.emulator in cells[pins.cells[0].node].dedicated
    if guest.thread_policy is ThreadPolicy.ISOLATE:
        cores = [core & cell.dedicated for cell in ledger.cells for core in cell.cores]
        used = [core for core in cores if core & pins.cpus]
        assert all(len(core & pins.cpus) == 1 and pins.emulator not in core.cpus for core in used)
        assert pins.withheld == CPUSet.of(cpu for core in used for cpu in core) - pins.cpus
    else:
        assert not pins.withheld


@settings(max_examples=400)
@given(hosts_and_guests(), st.booleans())
def test_guest_fits_exactly_when_a_legal_way_exists(pair: tuple[GuestLedger, GuestCPUs], pack: bool) -> None:
    ledger, guest = pair
    answer = place(ledger, guest, pack=pack)
    assert isinstance(answer, GuestPins) == some_way_exists(ledger, guest)
    if isinstance(answer, GuestPins):
        assert_legal(ledger, guest, answer)


@settings(max_examples=200)
@given(ledgers(most_cells=1), guests(most_nodes=1))
def test_within_one_node_likewise(ledger: GuestLedger, guest: GuestCPUs) -> None:
    answer = place(ledger, guest)
    assert isinstance(answer, GuestPins) == some_way_exists(ledger, guest)
    if isinstance(answer, GuestPins):
        assert_legal(ledger, guest, answer)


@given(ledgers(), st.lists(guests(), max_size=6))
def test_fitting_guest_is_claimable_without_sharing_a_cpu(
    ledger: GuestLedger, arriving: list[GuestCPUs]
) -> None:
    for number, guest in enumerate(arriving):
        pins = place(ledger, guest)
        if isinstance(pins, Finding):
            continue
        assert place(ledger, guest) == pins
        after = ledger.pin(str(number), pins)
        assert isinstance(after, GuestLedger), after
        ledger = after
    held = [cpu for pins in ledger.guests.values() for cpu in pins.held]
    assert len(held) == len(set(held))
    assert all(
        used <= cell.memory_mb
        for cell in ledger.cells
        if (used := ledger.memory_used[cell.number]) and cell.memory_mb is not None
    )


@given(ledgers(), guests())
def test_unresolvable_refusal_also_occurs_on_the_empty_host(ledger: GuestLedger, guest: GuestCPUs) -> None:
    answer = place(ledger, guest)
    if isinstance(answer, Finding):
        empty = GuestLedger(ledger.cells, ledger.hyper_threading, ledger.legacy)
        assert answer.unresolvable == isinstance(place(empty, guest), Finding)


FITS = st.integers(1, 6).flatmap(
    lambda places: st.lists(
        st.lists(st.booleans(), min_size=places, max_size=places), min_size=1, max_size=places
    )
)


@given(FITS)
@example([[True, True, False], [True, False, False], [False, True, True]])
def test_assignment_is_first_in_order_of_preference(fits: list[list[bool]]) -> None:
    nodes, places = len(fits), len(fits[0])
    ways = [
        list(chosen)
        for chosen in permutations(range(places), nodes)
        if all(fits[node][place] for node, place in enumerate(chosen))
    ]
    masks = [mask_of(place for place in range(places) if row[place]) for row in fits]
    assert assign(masks) == (min(ways) if ways else None)


def test_128_increasingly_constrained_nodes_take_few_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves = 0
    put = _Matching._put

    def counted(self: _Matching, node: int, place: int) -> None:
        nonlocal moves
        moves += 1
        put(self, node, place)

    monkeypatch.setattr(_Matching, "_put", counted)
    assert assign([(1 << 128 - node) - 1 for node in range(128)]) == [*range(127, -1, -1)]
    assert moves <= 2 * 128 * 128
    assert assign([*[(1 << 127) - 1] * 128]) is None
