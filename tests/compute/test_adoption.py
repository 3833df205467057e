"""Guests that libvirt shows are entered in the ledger as they are, and keep their CPUs."""

from __future__ import annotations

import json

import pytest

from compute.compute_world import guest, machine
from corewise.compute.host_state import adopt, record_of_domain
from corewise.compute.ledger import GuestRecord, MemoryLedger
from corewise.compute.machine_file import parse_machine
from corewise.openstack.libvirt_xml import Domain, read_domain
from corewise.topology import CPUSet, Host
from corewise.vocabulary.guests import CPUPolicy, ThreadPolicy

NOVA = "http://openstack.org/xmlns/libvirt/nova/1.1"


@pytest.fixture
def host() -> Host:
    read = parse_machine(json.dumps(machine())).value
    assert read is not None
    return read


def domain(number: int, tune: str = "", *, vcpus: int = 4, numa: str = "", policy: str = "") -> Domain:
    specs = f'<nova:extraSpecs><nova:extraSpec name="hw:cpu_thread_policy">{policy}</nova:extraSpec>'
    flavor = f'<nova:flavor name="f">{specs}</nova:extraSpecs></nova:flavor>' if policy else ""
    return read_domain(
        f"<domain><name>g{number}</name><uuid>{guest(number)}</uuid><memory unit='MiB'>2048</memory>"
        f"<vcpu>{vcpus}</vcpu><cputune>{tune}</cputune><cpu><numa>{numa}</numa></cpu>"
        f"<metadata><nova:instance xmlns:nova='{NOVA}'>{flavor}</nova:instance></metadata></domain>"
    )


def pins(*cpus: int, emulator: str = "") -> str:
    own = "".join(f"<vcpupin vcpu='{index}' cpuset='{cpu}'/>" for index, cpu in enumerate(cpus))
    return own + (f"<emulatorpin cpuset='{emulator}'/>" if emulator else "")


def test_a_pinned_guest_holds_its_cpus_in_the_node_they_are_in(host: Host) -> None:
    record = record_of_domain(domain(1, pins(26, 27, 28, 29, emulator="30")), host)
    assert (record.cpu_policy, record.emulator) == (CPUPolicy.DEDICATED, 30)
    assert [(cell.node, dict(cell.pins), cell.memory_mb) for cell in record.cells] == [
        (1, {0: 26, 1: 27, 2: 28, 3: 29}, 2048)
    ]


def test_emulator_threads_on_the_guests_own_cpus_own_none(host: Host) -> None:
    assert record_of_domain(domain(1, pins(2, 3, 4, 5, emulator="2-5")), host).emulator is None
    assert record_of_domain(domain(1, pins(2, 3, 4, 5, emulator="2")), host).emulator is None


def test_an_isolated_guest_keeps_the_threads_beside_its_own_empty(host: Host) -> None:
    record = record_of_domain(domain(1, pins(2, 4, 6, 8), policy="isolate"), host)
    assert record.thread_policy is ThreadPolicy.ISOLATE
    assert record.pins.held == CPUSet.parse("2-9")


def test_a_guest_that_floats_and_one_that_is_mixed(host: Host) -> None:
    floating = record_of_domain(domain(1, "<vcpupin vcpu='0' cpuset='18-47'/>"), host)
    assert (floating.cpu_policy, floating.pins.held) == (CPUPolicy.SHARED, CPUSet())
    mixed = record_of_domain(domain(1, pins(2, 3) + "<vcpupin vcpu='2' cpuset='18-23'/>"), host)
    assert mixed.cpu_policy is CPUPolicy.MIXED
    assert mixed.hosted(guest(1)).shared == 2


def test_nodes_of_a_guest_lie_where_its_pins_are(host: Host) -> None:
    numa = "<cell id='0' cpus='0-1' memory='1' unit='GiB'/><cell id='1' cpus='2-3' memory='1' unit='GiB'/>"
    record = record_of_domain(domain(1, pins(24, 25, 2, 3), numa=numa), host)
    assert [(cell.node, sorted(cell.pins)) for cell in record.cells] == [(1, [0, 1]), (0, [2, 3])]
    assert [cell.memory_mb for cell in record.cells] == [1024, 1024]


def test_what_the_ledger_knows_stays_and_the_rest_is_entered(host: Host) -> None:
    known = record_of_domain(domain(1, pins(2, 3, 4, 5)), host)
    ledger = MemoryLedger("n1", {guest(1): known})
    with ledger.changing() as change:
        entered = adopt(change, [domain(1, pins(6, 7, 8, 9)), domain(2, pins(10, 11, 12, 13))], host)
    assert entered == (guest(2),)
    guests: dict[str, GuestRecord] = dict(ledger.read().guests)
    assert guests[guest(1)] == known
    assert guests[guest(2)].pins.cpus == CPUSet.parse("10-13")
