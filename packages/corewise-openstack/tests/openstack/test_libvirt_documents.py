"""libvirt's documents: the machine and the guests that they mean, and the CPUs written into a guest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import Bytes
from corewise.topology import LARGEST_CPU, CPUSet, LastLevelCache, NumaMemory
from corewise_openstack.openstack.errors import LibvirtXMLError
from corewise_openstack.openstack.libvirt import Libvirt
from corewise_openstack.openstack.libvirt_xml import CPUTuning, read_domain, read_host, tuned

GIB = 2**30


def machine(
    nodes: int = 2, cores: int = 2, threads: int = 2, offline: Sequence[int] = (), banks: bool = True
) -> str:
    """Capabilities of a host: a core's threads have numbers side by side, core_id restarts in each socket."""
    cells, found = [], []
    for node in range(nodes):
        first = node * cores * threads
        rows = []
        for cpu in range(first, first + cores * threads):
            core = (cpu - first) // threads
            low = first + core * threads
            siblings = str(CPUSet.of(set(range(low, low + threads)) - set(offline)))
            where = f"socket_id='{node}' die_id='0' core_id='{core}' siblings='{siblings}'"
            rows.append(f"<cpu id='{cpu}'/>" if cpu in offline else f"<cpu id='{cpu}' {where}/>")
        cells.append(
            f"<cell id='{node}'><memory unit='KiB'>{4 * GIB // 1024}</memory>"
            "<pages unit='KiB' size='4'>786432</pages><pages unit='KiB' size='2048'>512</pages>"
            f"<cpus num='{len(rows)}'>{''.join(rows)}</cpus></cell>"
        )
        last = first + cores * threads - 1
        found.append(
            f"<bank id='{node}' level='3' type='both' size='32' unit='MiB' cpus='{first}-{last}'/>"
            f"<bank id='{node}' level='2' type='both' size='1' unit='MiB' cpus='{first}'/>"
        )
    cache = f"<cache>{''.join(found)}</cache>" if banks else ""
    arch = "<cpu><arch>x86_64</arch></cpu>"
    return (
        f"<capabilities><host>{arch}<topology><cells num='{nodes}'>{''.join(cells)}</cells></topology>"
        f"{cache}</host></capabilities>"
    )


GUEST = """
<domain type='kvm' id='3'>
  <name>instance-00000001</name>
  <uuid>8a2f6c6e-0f0e-4c47-9f0d-0a2c1a2b3c4d</uuid>
  <metadata>
    <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:flavor name="example-3">
        <nova:vcpus>4</nova:vcpus>
        <nova:extraSpecs>
          <nova:extraSpec name="hw:cpu_policy">dedicated</nova:extraSpec>
          <nova:extraSpec name="hw:cpu_thread_policy">isolate</nova:extraSpec>
        </nova:extraSpecs>
      </nova:flavor>
      <nova:image uuid="x"><nova:properties>
        <nova:property name="hw_cpu_policy">dedicated</nova:property>
      </nova:properties></nova:image>
    </nova:instance>
  </metadata>
  <memory unit='KiB'>2097152</memory>
  <vcpu placement='static'>4</vcpu>
  <cputune>
    <shares>4096</shares>
    <vcpupin vcpu='0' cpuset='2'/>
    <vcpupin vcpu='1' cpuset='3'/>
    <vcpupin vcpu='2' cpuset='8'/>
    <vcpupin vcpu='3' cpuset='18-47'/>
    <emulatorpin cpuset='2-3,8'/>
  </cputune>
  <numatune>
    <memory mode='strict' nodeset='0-1'/>
    <memnode cellid='0' mode='strict' nodeset='0'/>
    <memnode cellid='1' mode='strict' nodeset='1'/>
  </numatune>
  <cpu>
    <numa>
      <cell id='0' cpus='0-1' memory='1048576' unit='KiB'/>
      <cell id='1' cpus='2-3' memory='1048576' unit='KiB'/>
    </numa>
  </cpu>
  <devices><emulator>/usr/bin/qemu-system-x86_64</emulator></devices>
</domain>
"""
PLAIN = (
    "<domain type='test'><name>g</name><uuid>8a2f6c6e-0f0e-4c47-9f0d-0a2c1a2b3c4d</uuid>"
    "<memory>65536</memory><vcpu{cpuset}>2</vcpu></domain>"
)


def test_host_has_the_topology_of_its_capabilities() -> None:
    topology = read_host(machine()).topology
    assert [str(cpus) for cpus in topology.cores.values()] == ["0-1", "2-3", "4-5", "6-7"]
    assert [str(cpus) for cpus in topology.numa_nodes.values()] == ["0-3", "4-7"]
    assert [str(cpus) for cpus in topology.sockets.values()] == ["0-3", "4-7"]
    assert [str(cpus) for cpus in topology.caches.values()] == ["0-3", "4-7"]
    assert read_host(machine()).caches == {node: LastLevelCache(3, Bytes(32 * 2**20)) for node in (0, 1)}


def test_memory_and_hugepages_of_each_node_are_read() -> None:
    host = read_host(machine())
    assert host.memory == {node: NumaMemory(Bytes(4 * GIB), Bytes(GIB)) for node in (0, 1)}
    assert host.memory_total == 8 * GIB


def test_offline_cpu_stands_beside_the_topology() -> None:
    host = read_host(machine(offline=[3, 6, 7]))
    assert (str(host.topology.cpus), host.offline) == ("0-2,4-5", {3: 0, 6: 1, 7: 1})
    assert [str(cpus) for cpus in host.topology.cores.values()] == ["0-1", "2", "4-5"]


def test_without_banks_cpus_share_cache_by_socket_node() -> None:
    host = read_host(machine(banks=False))
    assert [str(cpus) for cpus in host.topology.caches.values()] == ["0-3", "4-7"]
    assert host.caches == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not XML"),
        ("<domain/>", "<domain>"),
        ("<capabilities/>", "no <host>"),
        ("<capabilities><host/></capabilities>", "topology/cells"),
        (machine(nodes=0), "no CPU"),
        (machine().replace("id='5'", "id='4'"), "twice"),
        (machine().replace("id='5'", "id='x'"), "'x'"),
        (machine().replace("siblings='4-5'", "siblings='5-4'", 1), "backwards"),
        (machine().replace("MiB", "MiX"), "MiX"),
        (machine().replace("unit='MiB' cpus", "unit='MiB' cpux"), "no cpus"),
    ],
)
def test_nonsensical_host_is_an_error_that_says_where(text: str, said: str) -> None:
    with pytest.raises(LibvirtXMLError, match=said):
        read_host(text)


def test_guest_has_its_pins_cells_and_nova_facts() -> None:
    guest = read_domain(GUEST)
    assert (guest.name, guest.vcpus, guest.memory) == ("instance-00000001", 4, 2 * GIB)
    assert guest.pins == {0: 2, 1: 3, 2: 8}
    assert str(guest.affinity[3]) == "18-47"
    assert str(guest.emulator) == "2-3,8"
    assert [(each.cell, str(each.vcpus), each.memory, str(each.host_nodes)) for each in guest.cells] == [
        (0, "0-1", GIB, "0"),
        (1, "2-3", GIB, "1"),
    ]
    assert guest.flavor == "example-3"
    assert guest.extra_specs == {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"}
    assert guest.image_properties == {"hw_cpu_policy": "dedicated"}


def test_a_guest_that_floats_has_no_pins() -> None:
    assert read_domain(PLAIN.format(cpuset="")).affinity == {}
    floating = read_domain(PLAIN.format(cpuset=" cpuset='18-47'"))
    assert floating.pins == {}
    assert {vcpu: str(cpus) for vcpu, cpus in floating.affinity.items()} == {0: "18-47", 1: "18-47"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GUEST.replace("<uuid>8a2f6c6e-0f0e-4c47-9f0d-0a2c1a2b3c4d</uuid>", ""), "no <uuid>"),
        (GUEST.replace("<vcpu placement='static'>4</vcpu>", "<vcpu>four</vcpu>"), "'four'"),
        (GUEST.replace("cpuset='18-47'", "cpuset='47-18'"), "backwards"),
        (GUEST.replace("vcpu='3' ", ""), "no vcpu"),
        (machine(), "<capabilities>"),
        (
            GUEST.replace("<vcpu placement='static'>4", "<vcpu placement='static'>1000000000"),
            f"more than {LARGEST_CPU}",
        ),
        ("<domain>" + "<a>" * 100_000, "nested deeper than 256 levels"),
        ("<domain>" + "<a>" * 256 + "</a>" * 256 + "</domain>", "nested deeper than 256 levels"),
        ("<domain>" + " " * (4 << 20), "longer than 4 MiB"),
        ('<!DOCTYPE domain [<!ENTITY a "aaaaaaaaaa">]><domain>&a;</domain>', "<!DOCTYPE domain>"),
        ('<!DOCTYPE domain SYSTEM "file:///etc/passwd"><domain/>', "<!DOCTYPE domain>"),
        ("<domain>\ud800</domain>", "not XML"),
        ("<domain>\0</domain>", "not XML"),
    ],
)
def test_nonsensical_guest_is_an_error_that_says_where(text: str, said: str) -> None:
    with pytest.raises(LibvirtXMLError, match=said):
        read_domain(text)


def test_tuning_replaces_pins_and_nodes_and_nothing_else() -> None:
    shared = CPUSet.of([8, 9])
    vcpus = {0: CPUSet.of([4]), 1: CPUSet.of([5]), 2: shared, 3: shared}
    text = tuned(GUEST, CPUTuning(vcpus, CPUSet.of([6]), {0: 1, 1: 0}))
    guest = read_domain(text)
    assert guest.affinity == vcpus
    assert str(guest.emulator) == "6"
    assert [str(each.host_nodes) for each in guest.cells] == ["1", "0"]
    assert guest.extra_specs == read_domain(GUEST).extra_specs
    document = ET.fromstring(text)  # noqa: S314 - our own
    assert document.findtext("cputune/shares") == "4096"
    assert document.findtext("devices/emulator") == "/usr/bin/qemu-system-x86_64"


def test_numa_cell_of_memory_alone_is_read() -> None:
    cell = "<cell id='2' memory='512' unit='MiB'/></numa>"
    guest = read_domain(GUEST.replace("</numa>", cell))
    assert len(guest.cells) == 3
    assert (guest.cells[2].vcpus, guest.cells[2].memory) == (CPUSet(), 512 << 20)


class Listed:
    """A domain as libvirt's Python package lists it."""

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def name(self) -> str:
        return self._name

    def XMLDesc(self) -> str:  # noqa: N802 - libvirt names it so
        return self._text


class Connection:
    """A connection with these domains."""

    def __init__(self, *domains: Listed) -> None:
        self._domains = domains

    def listAllDomains(self) -> Sequence[Listed]:  # noqa: N802 - libvirt names it so
        return self._domains


def test_unreadable_domain_is_named() -> None:
    connection = Connection(Listed("good", GUEST), Listed("web-7", GUEST.replace(">4</vcpu>", ">x</vcpu>")))
    with pytest.raises(LibvirtXMLError, match="domain web-7: <vcpu> is 'x', not a whole number"):
        Libvirt("test", connection, OSError).domains()


def test_guest_without_own_nodes_uses_named_nodes_memory() -> None:
    text = tuned(PLAIN.format(cpuset=""), CPUTuning({0: CPUSet.of([4]), 1: CPUSet.of([5])}, None, {0: 1}))
    document = ET.fromstring(text)  # noqa: S314 - our own
    memory = document.find("numatune/memory")
    assert memory is not None
    assert memory.attrib == {"mode": "strict", "nodeset": "1"}
    assert document.find("numatune/memnode") is None
    assert document.find("cputune/emulatorpin") is None


@pytest.mark.parametrize("cpus", [3, 5])
def test_domain_with_other_cpus_is_refused(cpus: int) -> None:
    vcpus = {vcpu: CPUSet.of([2 + vcpu]) for vcpu in range(cpus)}
    with pytest.raises(LibvirtXMLError, match=f"has 4 CPUs, but the guest was given {cpus}"):
        tuned(GUEST, CPUTuning(vcpus, None, {}))


def test_pins_beyond_any_hosts_cpus_are_refused() -> None:
    pins = "".join(f"<vcpupin vcpu='{vcpu}' cpuset='0-{LARGEST_CPU},{vcpu}'/>" for vcpu in range(600))
    domain = (
        "<domain><uuid>u</uuid><name>n</name><memory>1</memory><vcpu>600</vcpu>"
        f"<cputune>{pins}</cputune></domain>"
    )
    with pytest.raises(LibvirtXMLError, match="more than 4194304 CPUs"):
        read_domain(domain)
    alike = pins.replace(f"0-{LARGEST_CPU}", "0-9")
    assert len(read_domain(domain.replace(pins, alike)).affinity) == 600


def test_a_domain_that_is_read_can_be_written() -> None:
    deep = PLAIN.format(cpuset="").replace(
        "<name>", "<metadata>" + "<a>" * 250 + "</a>" * 250 + "</metadata><name>"
    )
    assert "<vcpupin" in tuned(deep, CPUTuning({0: CPUSet.of([1]), 1: CPUSet.of([2])}, None, {}))


XML_PIECES = st.sampled_from(
    [
        *("<domain>", "</domain>", "<vcpu>", "</vcpu>", "<a b='1'/>", "<!--", "-->", "<![CDATA[", "]]>"),
        *(
            "<?x ?>",
            "&lt;",
            "&a;",
            "<!DOCTYPE d>",
            "xmlns:x='y'",
            "<x:y/>",
            "9" * 30,
            "\ud800",
            "\0",
            "<",
            ">",
        ),
    ]
)


@given(st.lists(XML_PIECES, max_size=20).map("".join))
def test_any_text_is_a_document_or_an_error(text: str) -> None:
    for read in (read_domain, read_host, lambda text: tuned(text, CPUTuning({}, None, {}))):
        with suppress(LibvirtXMLError):
            read(text)
        with suppress(LibvirtXMLError):
            read(GUEST.replace("<name>", f"{text}<name>"))


def test_a_cpu_that_could_run_nowhere_is_refused() -> None:
    with pytest.raises(LibvirtXMLError, match="CPU 2 of the guest"):
        tuned(GUEST, CPUTuning({**dict.fromkeys(range(4), CPUSet.of([2])), 2: CPUSet()}, None, {}))


CPU_SETS = st.frozensets(st.integers(0, 300), min_size=1, max_size=8).map(CPUSet)


@given(
    st.fixed_dictionaries(dict.fromkeys(range(4), CPU_SETS)),
    st.none() | CPU_SETS,
    st.fixed_dictionaries({0: st.integers(0, 7), 1: st.integers(0, 7)}),
)
def test_writes_are_read_back_and_idempotent(
    vcpus: dict[int, CPUSet], emulator: CPUSet | None, cells: dict[int, int]
) -> None:
    wanted = CPUTuning(vcpus, emulator, cells)
    text = tuned(GUEST, wanted)
    guest = read_domain(text)
    assert (guest.affinity, guest.emulator) == (vcpus, emulator)
    assert {each.cell: each.host_nodes for each in guest.cells} == {
        cell: CPUSet.of([node]) for cell, node in cells.items()
    }
    assert tuned(text, wanted) == text
