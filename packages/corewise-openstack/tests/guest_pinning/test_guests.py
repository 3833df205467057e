"""Which CPUs a guest of a compute host gets.

Host H: 2 NUMA nodes x 6 cores x 2 threads, siblings neighbors: node 0 has CPUs 0-11, node 1 has 12-23; all
are dedicated but those of the last core of each node, 10-11 and 22-23, which are shared. 4096 MiB a node.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from corewise.quantities import Bytes
from corewise.topology import CPUSet, Host, NumaMemory, Thread, Topology
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.guest_pinning.ledger import CellPins, GuestLedger, GuestPins, HostCell, host_cells
from corewise_openstack.guest_pinning.placement import place
from corewise_openstack.vocabulary.guests import (
    CPUPolicy,
    EmulatorThreads,
    GuestCPUs,
    GuestNode,
    ThreadPolicy,
)

PREFER, REQUIRE, ISOLATE = ThreadPolicy.PREFER, ThreadPolicy.REQUIRE, ThreadPolicy.ISOLATE
GIB = 1 << 30
BROKEN = "0,2,4,6,8,12,14,16,18,20"
"""One thread of each dedicated core of host H."""


def cpus(text: str) -> CPUSet:
    return CPUSet.parse(text)


def cell(number: int, cores: list[str], shared: str = "", memory: int | None = 4096) -> HostCell:
    """Return a NUMA node of these cores, all dedicated but those that are shared."""
    siblings = tuple(map(cpus, cores))
    everything = CPUSet.of(cpu for core in siblings for cpu in core)
    return HostCell(number, siblings, everything - cpus(shared), cpus(shared), memory)


def pairs(first: int, last: int) -> list[str]:
    return [f"{cpu},{cpu + 1}" for cpu in range(first, last, 2)]


H = GuestLedger((cell(0, pairs(0, 12), "10-11"), cell(1, pairs(12, 24), "22-23")), hyper_threading=True)
PLAIN = GuestLedger((cell(0, [str(cpu) for cpu in range(8)]),), hyper_threading=False)
LEGACY = replace(H, legacy=True)
QUAD = GuestLedger((cell(0, ["0-3", "4-7", "8-11"]),), hyper_threading=True)


def guest(
    *dedicated: int,
    policy: ThreadPolicy | None = None,
    emulator: bool = False,
    floating: int = 0,
    memory: int = 0,
) -> GuestCPUs:
    """Return a guest with as many NUMA nodes as numbers, each with these CPUs and as many that float."""
    nodes, first = [], 0
    for count in dedicated:
        own = CPUSet.of(range(first, first + count + floating))
        nodes.append(GuestNode(own, CPUSet.of(range(first, first + count)), memory))
        first += count + floating
    cpu_policy = CPUPolicy.MIXED if floating else CPUPolicy.DEDICATED
    if not sum(dedicated):
        cpu_policy = CPUPolicy.SHARED
    isolated = EmulatorThreads.ISOLATE if emulator else None
    return GuestCPUs(first, cpu_policy, policy, isolated, tuple(nodes))


def placed(ledger: GuestLedger, wanted: GuestCPUs, *, pack: bool = False) -> GuestPins:
    pins = place(ledger, wanted, pack=pack)
    assert isinstance(pins, GuestPins), pins
    return pins


def refused(ledger: GuestLedger, wanted: GuestCPUs) -> Finding:
    answer = place(ledger, wanted)
    assert isinstance(answer, Finding), answer
    return answer


def taken(ledger: GuestLedger, text: str, memory: tuple[int, ...] = ()) -> GuestLedger:
    """Return the ledger with one guest that holds these CPUs, and this memory of each node."""
    held = tuple(CellPins(number, {}, amount) for number, amount in enumerate(memory))
    return ledger.found("other", GuestPins(held, withheld=cpus(text)))


def where(pins: GuestPins) -> str:
    """Return the CPUs node by node, in the order of the guest's CPUs."""
    return " | ".join(
        f"{cell.node}: {' '.join(str(cpu) for _, cpu in sorted(cell.pins.items()))}" for cell in pins.cells
    )


@pytest.mark.parametrize(
    ("ledger", "wanted", "lies"),
    [
        (H, guest(4), "0: 0 1 2 3"),
        (H, guest(4, policy=PREFER), "0: 0 1 2 3"),
        (H, guest(3), "0: 0 1 2"),
        (taken(H, "0"), guest(4), "1: 12 13 14 15"),
        (taken(H, "0,12-13"), guest(4), "0: 2 3 4 5"),
        (taken(H, "0,2,4,6,8,12-13,15,17,19,21"), guest(4), "0: 1 3 5 7"),
        (taken(H, "0,2,4,12-21"), guest(6), "0: 1 3 5 6 7 8"),
        (taken(H, "0,12-21"), guest(9), "0: 1 2 3 4 5 6 7 8 9"),
        (H, guest(4, policy=REQUIRE), "0: 0 1 2 3"),
        (H, guest(5, policy=REQUIRE), "0: 0 1 2 3 4"),
        (taken(H, "0,2,4,12,14,16"), guest(5, policy=REQUIRE), "0: 6 7 8 9 1"),
        (taken(H, "0,2,4,12,14,16"), guest(3, policy=REQUIRE), "0: 6 7 1"),
        (QUAD, guest(8), "0: 0 1 2 3 4 5 6 7"),
        (QUAD, guest(6), "0: 0 1 2 3 4 5"),
        (taken(QUAD, "0-1,4-5"), guest(8, policy=REQUIRE), "0: 8 9 10 11 2 3 6 7"),
        (taken(QUAD, "0-1,4-5"), guest(8), "0: 2 3 6 7 8 9 10 11"),
        (taken(QUAD, "0,4-5,8-11"), guest(4, policy=REQUIRE), "0: 1 2 6 7"),
        (PLAIN, guest(3, policy=ISOLATE), "0: 0 1 2"),
        (PLAIN, guest(3), "0: 0 1 2"),
        (LEGACY, guest(3, policy=ISOLATE), "0: 0 2 4"),
        (taken(LEGACY, "1,12"), guest(4, policy=ISOLATE), "0: 2 4 6 8"),
        (H, guest(4, 4), "0: 0 1 2 3 | 1: 12 13 14 15"),
        (taken(H, "0-3"), guest(6, 4), "1: 12 13 14 15 16 17 | 0: 4 5 6 7"),
        (taken(H, "0-3"), guest(4, 8), "0: 4 5 6 7 | 1: 12 13 14 15 16 17 18 19"),
        (taken(H, "", (1024,)), guest(4), "1: 12 13 14 15"),
        (taken(H, "", (1024, 1024)), guest(4), "0: 0 1 2 3"),
    ],
)  # fmt: skip
def test_a_guest_lies(ledger: GuestLedger, wanted: GuestCPUs, lies: str) -> None:
    assert where(placed(ledger, wanted)) == lies


def test_guest_cpus_run_on_host_cpus_in_order() -> None:
    nodes = (GuestNode(cpus("0,2,4"), cpus("0,2,4")), GuestNode(cpus("1,3,5"), cpus("1,3,5")))
    first, second = placed(H, GuestCPUs(6, CPUPolicy.DEDICATED, nodes=nodes)).cells
    assert first.pins == {0: 0, 2: 1, 4: 2}
    assert second.pins == {1: 12, 3: 13, 5: 14}


def test_packing_fills_the_fullest_node_first() -> None:
    busy = taken(H, "12-15")
    assert where(placed(busy, guest(4))) == "0: 0 1 2 3"
    assert where(placed(busy, guest(4), pack=True)) == "1: 16 17 18 19"


def test_isolated_guests_of_legacy_hosts_hold_siblings_too() -> None:
    pins = placed(LEGACY, guest(2, policy=ISOLATE))
    assert (pins.cpus, pins.withheld, pins.held) == (cpus("0,2"), cpus("1,3"), cpus("0-3"))
    after = LEGACY.pin("a", pins)
    assert isinstance(after, GuestLedger)
    assert where(placed(after, guest(10))) == "1: 12 13 14 15 16 17 18 19 20 21"


@pytest.mark.parametrize(
    ("ledger", "wanted", "lies", "emulator"),
    [
        (H, guest(4, emulator=True), "0: 0 1 2 3", 4),
        (H, guest(3, emulator=True), "0: 0 1 2", 3),
        (H, guest(4, 4, emulator=True), "0: 0 1 2 3 | 1: 12 13 14 15", 4),
        (taken(H, "5,12-21"), guest(2, emulator=True), "0: 0 1", 4),
        (H, guest(3, policy=REQUIRE, emulator=True), "0: 0 1 2", 3),
        (LEGACY, guest(2, policy=ISOLATE, emulator=True), "0: 0 2", 4),
        (taken(LEGACY, "3,12-21"), guest(4, policy=ISOLATE, emulator=True), "0: 0 4 6 8", 2),
        (PLAIN, guest(7, policy=ISOLATE, emulator=True), "0: 0 1 2 3 4 5 6", 7),
        (H, guest(9, emulator=True), "0: 0 1 2 3 4 5 6 7 8", 9),
    ],
)
def test_isolated_emulator_threads_own_a_node_0_cpu(
    ledger: GuestLedger, wanted: GuestCPUs, lies: str, emulator: int
) -> None:
    pins = placed(ledger, wanted)
    assert (where(pins), pins.emulator) == (lies, emulator)
    assert emulator in pins.held


def test_emulator_guest_node_goes_where_both_have_room() -> None:
    pins = placed(taken(H, "0-5"), guest(3, 10, emulator=True))
    assert (where(pins), pins.emulator) == ("0: 6 7 8 | 1: 12 13 14 15 16 17 18 19 20 21", 9)


def test_mixed_guests_float_over_same_node_shared_cpus() -> None:
    assert where(placed(H, guest(2, floating=2))) == "0: 0 1"
    assert refused(H, guest(2, floating=3)).reason is Reason.SHARED_CPUS_INSUFFICIENT
    everything = replace(LEGACY.cells[0], shared=LEGACY.cells[0].dedicated)
    legacy = GuestLedger((everything,), hyper_threading=True, legacy=True)
    assert refused(legacy, guest(2, floating=1)).reason is Reason.SHARED_CPUS_INSUFFICIENT


def test_guest_without_numa_nodes_floats_over_shared_cpus() -> None:
    assert place(H, GuestCPUs(64)) == GuestPins()
    answer = refused(PLAIN, GuestCPUs(2))
    assert (answer.reason, answer.unresolvable) == (Reason.SHARED_CPUS_INSUFFICIENT, True)


def test_guest_that_shares_cpus_may_have_numa_nodes() -> None:
    pins = placed(H, guest(0, 0, floating=2, memory=1024))
    assert [(each.node, dict(each.pins), each.memory_mb) for each in pins.cells] == [
        (0, {}, 1024),
        (1, {}, 1024),
    ]
    assert refused(H, guest(0, floating=3)).reason is Reason.SHARED_CPUS_INSUFFICIENT


@pytest.mark.parametrize(
    ("ledger", "wanted", "reason", "unresolvable"),
    [
        (H, guest(1, 1, 1), Reason.NUMA_NODES_INSUFFICIENT, True),
        (PLAIN, guest(2, policy=REQUIRE), Reason.HYPER_THREADS_MISSING, True),
        (H, guest(2, policy=ISOLATE), Reason.HYPER_THREADS_PRESENT, True),
        (H, guest(21), Reason.DEDICATED_CPUS_INSUFFICIENT, True),
        (taken(H, "0-8,12-21"), guest(2), Reason.DEDICATED_CPUS_INSUFFICIENT, False),
        (taken(H, "0-8,12-21"), guest(1, emulator=True), Reason.DEDICATED_CPUS_INSUFFICIENT, False),
        (H, guest(12), Reason.NUMA_NODES_UNFIT, True),
        (taken(H, "0-3,12-15"), guest(8), Reason.NUMA_NODES_UNFIT, False),
        (taken(H, "0-3,12-15"), guest(4, 8), Reason.NUMA_NODES_UNFIT, False),
        (H, guest(4, memory=4097), Reason.NUMA_MEMORY_INSUFFICIENT, True),
        (taken(H, "", (4000, 4000)), guest(4, memory=97), Reason.NUMA_MEMORY_INSUFFICIENT, False),
        (taken(H, "0-9", (0, 4096)), guest(4, memory=1), Reason.NUMA_MEMORY_INSUFFICIENT, False),
        (taken(H, BROKEN), guest(4, policy=REQUIRE), Reason.THREAD_POLICY_UNMET, False),
        (taken(LEGACY, BROKEN), guest(2, policy=ISOLATE), Reason.THREAD_POLICY_UNMET, False),
        (LEGACY, guest(5, policy=ISOLATE, emulator=True), Reason.THREAD_POLICY_UNMET, True),
        (taken(LEGACY, "1,12-21"), guest(5, policy=ISOLATE), Reason.THREAD_POLICY_UNMET, False),
    ],
)  # fmt: skip
def test_a_guest_is_refused_for_a_reason(
    ledger: GuestLedger, wanted: GuestCPUs, reason: Reason, unresolvable: bool
) -> None:
    answer = refused(ledger, wanted)
    assert (answer.reason, answer.unresolvable) == (reason, unresolvable)
    assert answer.message


def test_cells_have_machine_cores_and_memory_outside_hugepages() -> None:
    machine = Topology(tuple(Thread(cpu, cpu // 2, 0, cpu // 4, 0) for cpu in range(8)))
    memory = {0: NumaMemory(Bytes(8 * GIB), Bytes(2 * GIB)), 1: NumaMemory(Bytes(8 * GIB))}
    first, second = host_cells(Host(machine, memory=memory), cpus("1-5"), cpus("6-7"))
    assert (str(first.dedicated), str(first.shared), first.memory_mb) == ("1-3", "", 6144)
    assert (str(second.dedicated), str(second.shared), second.memory_mb) == ("4-5", "6-7", 8192)
    assert first.core_masks == (0b0010, 0b1100)


def test_offline_cpu_is_a_core_of_unknown_memory() -> None:
    machine = Topology((Thread(0, 0, 0, 0, 0), Thread(1, 0, 0, 0, 0)))
    host = Host(machine, offline={2: 0, 3: 0, 4: None})
    (only,) = host_cells(host, cpus("0-2,4"), cpus("3"))
    assert (str(only.dedicated), str(only.shared), only.memory_mb) == ("0-2", "", None)
    assert only.core_masks == (0b011, 0b100)
    ledger = GuestLedger((only,), hyper_threading=True)
    assert where(placed(ledger, guest(3, memory=1 << 40))) == "0: 0 1 2"


def test_only_numa_node_defaults_to_all_machine_memory() -> None:
    machine = Topology((Thread(0, 0, 0, 0, 0),))
    (only,) = host_cells(Host(machine, memory_total=Bytes(3 * GIB)), cpus("0"), CPUSet())
    assert only.memory_mb == 3072
