"""The ledger follows libvirt's domains.

=========================  =============================  ====================================
the ledger has              libvirt has                    then
=========================  =============================  ====================================
nothing                    a domain                       it is adopted as it is
a guest, applied           the same pins                  nothing
a guest, applied           other CPUs                     they are adopted at once
a guest, applied           fewer CPUs, or no pins         given back after the grace
a guest, applied           no domain                      given back after the grace
a guest, not applied       no domain                      given back after the longer grace
a guest, not applied       a domain without pins          kept, and reported as unapplied
a guest, not applied       a domain with other pins       they are adopted at once
a guest, claiming or busy  anything                       nothing
=========================  =============================  ====================================
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import pytest
from msgspec.structs import replace

from compute.compute_world import guest, machine
from corewise.config.machine_file import parse_machine
from corewise.topology import CPUSet, Host
from corewise_openstack.compute.adoption import Followed, LedgerChangeKind, follow, record_of_domain
from corewise_openstack.compute.hosts import conflicts_of
from corewise_openstack.compute.ledger import GuestRecord, GuestState
from corewise_openstack.openstack.libvirt_xml import Domain, read_domain
from corewise_openstack.tracking import HostSettings
from corewise_openstack.vocabulary.guests import CPUPolicy, EmulatorThreads, ThreadPolicy
from corewise_openstack.vocabulary.placement import PCPU

OWNED = HostSettings(
    shared=CPUSet.parse("0"),
    dedicated=CPUSet.parse("2-47"),
    pinnable=CPUSet.parse("2-47"),
    emulator=CPUSet.parse("0"),
)
LEGACY = HostSettings(
    shared=CPUSet.parse("2-47"),
    dedicated=CPUSet.parse("2-47"),
    pinnable=CPUSet.parse("2-47"),
    emulator=CPUSet.parse("0,30"),
    legacy=True,
)
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


def test_pinned_guest_holds_cpus_in_their_own_node(host: Host) -> None:
    record = record_of_domain(domain(1, pins(26, 27, 28, 29, emulator="30")), host, OWNED)
    assert (record.cpu_policy, record.emulator) == (CPUPolicy.DEDICATED, 30)
    assert [(cell.node, dict(cell.pins), cell.memory_mb) for cell in record.cells] == [
        (1, {0: 26, 1: 27, 2: 28, 3: 29}, 2048)
    ]


def test_emulator_threads_on_guest_cpus_own_none(host: Host) -> None:
    assert record_of_domain(domain(1, pins(2, 3, 4, 5, emulator="2-5")), host, OWNED).emulator is None
    assert record_of_domain(domain(1, pins(2, 3, 4, 5, emulator="2")), host, OWNED).emulator is None


@pytest.mark.parametrize(
    ("settings", "cpu", "owned"),
    [
        (OWNED, "30", True),
        (OWNED, "0", False),  # cpu_shared_set
        (OWNED, "1", False),  # the host's
        (LEGACY, "31", True),
        (LEGACY, "0", False),
        (LEGACY, "30", False),  # cpu_shared_set, for emulator threads only
        (dataclasses.replace(OWNED, emulator=CPUSet(), shared=CPUSet()), "0", False),
    ],
)
def test_emulator_threads_own_only_dedicated_cpus(
    host: Host, settings: HostSettings, cpu: str, *, owned: bool
) -> None:
    found = [domain(1, pins(2, 3, emulator=cpu), vcpus=2), domain(2, pins(4, 5, emulator=cpu), vcpus=2)]
    record = record_of_domain(found[0], host, settings)
    assert (record.emulator, len(record.hosted(guest(1)).emulator)) == ((int(cpu), 1) if owned else (None, 0))
    entered = follow({}, found, host, settings).guests
    assert bool(conflicts_of(entered)) == owned


def test_emulator_cpu_given_by_ledger_stays_owned(host: Host) -> None:
    record = replace(scheduled(host, 2, 3, 4, 5), emulator=30, emulator_threads=EmulatorThreads.ISOLATE)
    followed = looked(host, record, domain(1, pins(2, 3, 4, 5, emulator="30")), settings=LEGACY)
    assert followed.guests == {guest(1): replace(record, applied=True)}


def test_guest_loses_no_more_than_it_holds(host: Host) -> None:
    record = replace(scheduled(host, 2, 3, 4, 5), emulator=0, applied=True)  # Placement has 4 PCPU
    same = domain(1, pins(2, 3, 4, 5, emulator="0"))
    (returned,) = looked(host, record, same, at=1e6, since={guest(1): 0.0}).returned
    assert (returned.kept, returned.floating, returned.message) == (
        4,
        0,
        "the domain is pinned to fewer CPUs: it had CPUs 0,2-5, and now has CPUs 2-5",
    )
    fewer = domain(1, pins(2, 3, emulator="0"))
    (returned,) = looked(host, record, fewer, at=1e6, since={guest(1): 0.0}).returned
    assert (returned.kept, returned.floating) == (2, 2)


@pytest.mark.parametrize(("counted", "kept"), [(8, 4), (4, 2)])
def test_isolated_guest_returns_its_siblings_too(host: Host, counted: int, kept: int) -> None:
    isolated = record_of_domain(domain(1, pins(2, 4, 6, 8), policy="isolate"), host, OWNED)
    record = replace(isolated, resources={PCPU: counted})
    for left, floating in ((2, 2), (0, 4)):
        seen = domain(1, pins(*(2, 4)[:left]))
        (returned,) = looked(host, record, seen, at=1e6, since={guest(1): 0.0}).returned
        assert (returned.kept, returned.floating) == (kept if left else 0, floating)


def test_isolated_guest_keeps_sibling_threads_empty(host: Host) -> None:
    record = record_of_domain(domain(1, pins(2, 4, 6, 8), policy="isolate"), host, OWNED)
    assert record.thread_policy is ThreadPolicy.ISOLATE
    assert record.pins.held == CPUSet.parse("2-9")


def test_floating_and_mixed_guests_are_recognized(host: Host) -> None:
    floating = record_of_domain(domain(1, "<vcpupin vcpu='0' cpuset='18-47'/>"), host, OWNED)
    assert (floating.cpu_policy, floating.pins.held) == (CPUPolicy.SHARED, CPUSet())
    mixed = record_of_domain(domain(1, pins(2, 3) + "<vcpupin vcpu='2' cpuset='18-23'/>"), host, OWNED)
    assert mixed.cpu_policy is CPUPolicy.MIXED
    assert mixed.hosted(guest(1)).shared == 2


def test_guest_nodes_lie_where_its_pins_are(host: Host) -> None:
    numa = "<cell id='0' cpus='0-1' memory='1' unit='GiB'/><cell id='1' cpus='2-3' memory='1' unit='GiB'/>"
    record = record_of_domain(domain(1, pins(24, 25, 2, 3), numa=numa), host, OWNED)
    assert [(cell.node, sorted(cell.pins)) for cell in record.cells] == [(1, [0, 1]), (0, [2, 3])]
    assert [cell.memory_mb for cell in record.cells] == [1024, 1024]


NOTHING: Mapping[str, float] = MappingProxyType({})


def looked(
    host: Host,
    record: GuestRecord,
    *domains: Domain,
    at: float = 0.0,
    since: Mapping[str, float] = NOTHING,
    settings: HostSettings = OWNED,
    busy: Iterable[str] = (),
) -> Followed:
    """Compare a ledger with guest 1 alone with these domains."""
    return follow(
        {guest(1): record},
        domains,
        host,
        settings,
        since=since,
        now=at,
        busy=list(busy),
    )


def scheduled(host: Host, *cpus: int) -> GuestRecord:
    """A guest as the scheduler has entered it: its domain is yet unseen."""
    made = record_of_domain(domain(1, pins(*cpus)), host, OWNED)
    return replace(made, applied=False, resources={"PCPU": len(cpus)}, provider="p", flavor="f")


def test_new_domain_is_adopted_as_it_is(host: Host) -> None:
    followed = looked(host, scheduled(host, 2, 3, 4, 5), domain(2, pins(10, 11, 12, 13)))
    (entered,) = followed.entered
    assert (entered.guest, entered.kind) == (guest(2), LedgerChangeKind.ADOPTED)
    assert followed.guests[guest(2)].pins.cpus == CPUSet.parse("10-13")
    assert entered.message == "the domain is new to the ledger: it has CPUs 10-13"


def test_domain_matching_the_ledger_only_marks_it_applied(host: Host) -> None:
    record = scheduled(host, 2, 3, 4, 5)
    followed = looked(host, record, domain(1, pins(2, 3, 4, 5)))
    assert followed.guests == {guest(1): replace(record, applied=True)}
    assert (followed.entered, followed.returned, followed.since) == ((), (), {})


@pytest.mark.parametrize("applied", [True, False])
def test_hand_changed_pins_are_adopted_keeping_the_promise(host: Host, applied: bool) -> None:
    record = replace(scheduled(host, 2, 3, 4, 5), applied=applied, thread_policy=ThreadPolicy.ISOLATE)
    followed = looked(host, record, domain(1, pins(6, 8, 10, 12)))
    after = followed.guests[guest(1)]
    assert [each.kind for each in followed.entered] == [LedgerChangeKind.REPINNED]
    assert after.pins.held == CPUSet.parse("6-13")
    assert (after.resources, after.provider, after.flavor) == ({"PCPU": 4}, "p", "f")


def test_same_cpus_in_another_order_are_adopted_too(host: Host) -> None:
    record = replace(scheduled(host, 2, 3, 4, 5), applied=True)
    followed = looked(host, record, domain(1, pins(5, 4, 3, 2)))
    assert followed.guests[guest(1)].cells[0].pins == {0: 5, 1: 4, 2: 3, 3: 2}


@pytest.mark.parametrize(
    ("tune", "kind", "left"),
    [
        (None, LedgerChangeKind.GONE, None),
        ("", LedgerChangeKind.UNPINNED, ""),
        (pins(2, 3), LedgerChangeKind.UNPINNED, "2-3"),
    ],
)
def test_dropped_cpus_return_only_after_the_grace(
    host: Host, tune: str | None, kind: LedgerChangeKind, left: str | None
) -> None:
    record = replace(scheduled(host, 2, 3, 4, 5), applied=True)
    there = [] if tune is None else [domain(1, tune)]
    first = looked(host, record, *there, at=1000.0)
    assert (first.returned, first.since) == ((), {guest(1): 1000.0})
    assert first.guests[guest(1)] == record
    assert looked(host, record, *there, at=1599.0, since=first.since).returned == ()
    (returned,) = looked(host, record, *there, at=1600.0, since=first.since).returned
    assert returned.kind is kind
    held = None if returned.after is None else str(returned.after.pins.held)
    assert held == left


def test_domain_returning_in_time_starts_a_new_grace(host: Host) -> None:
    record = replace(scheduled(host, 2, 3, 4, 5), applied=True)
    gone = looked(host, record, at=1000.0)
    back = looked(host, record, domain(1, pins(2, 3, 4, 5)), at=1500.0, since=gone.since)
    assert looked(host, record, at=1700.0, since=back.since).returned == ()


def test_guest_awaiting_its_domain_has_the_longer_grace(host: Host) -> None:
    record = scheduled(host, 2, 3, 4, 5)
    assert looked(host, record, at=3599.0, since={guest(1): 0.0}).returned == ()
    (returned,) = looked(host, record, at=3600.0, since={guest(1): 0.0}).returned
    assert returned.kind is LedgerChangeKind.GONE


def test_domain_without_pins_waits_for_its_chosen_cpus(host: Host) -> None:
    followed = looked(host, scheduled(host, 2, 3, 4, 5), domain(1), at=1e6, since={guest(1): 0.0})
    assert (followed.unapplied, followed.returned, followed.entered) == ((guest(1),), (), ())


def test_guest_being_claimed_or_written_stays_unchanged(host: Host) -> None:
    record = replace(scheduled(host, 2, 3, 4, 5), applied=True)
    claiming = replace(record, state=GuestState.CLAIMING)
    assert looked(host, claiming, at=1e6, since={guest(1): 0.0}).returned == ()
    half = domain(1, pins(2, 9, 9, 9))
    assert looked(host, record, half, busy=[guest(1)]).entered == ()


def test_guest_floating_over_one_shared_cpu_owns_none(host: Host) -> None:
    record = replace(scheduled(host), cells=(), cpu_policy=CPUPolicy.SHARED)
    followed = looked(host, record, domain(1, pins(0, 0, 0, 0, emulator="0")))
    assert (followed.entered, followed.unapplied) == ((), ())


@pytest.mark.parametrize(
    ("settings", "tune", "owned"),
    [
        (OWNED, pins(0), ""),
        (OWNED, pins(2, 2), "2"),
        (LEGACY, pins(5, 5), ""),
        (LEGACY, pins(5, 5, emulator="5"), ""),
        (LEGACY, pins(5, 6), "5-6"),
        (dataclasses.replace(OWNED, dedicated=CPUSet(), pinnable=CPUSet()), pins(0), "0"),
    ],
)
def test_adopted_guests_own_no_cpus_they_share(
    host: Host, settings: HostSettings, tune: str, owned: str
) -> None:
    seen = domain(1, tune, vcpus=tune.count("vcpupin"))
    guests = follow({}, [seen], host, settings).guests
    assert str(guests[guest(1)].pins.held) == owned
    assert guests[guest(1)].hosted(guest(1)).policy is (CPUPolicy.DEDICATED if owned else CPUPolicy.SHARED)
    again = follow(guests, [seen], host, settings)
    assert (again.entered, again.returned, again.since) == ((), (), {})


def test_two_domains_on_one_cpu_are_a_conflict(host: Host) -> None:
    followed = looked(host, scheduled(host, 2, 3, 4, 5), domain(1, pins(2, 3, 4, 5)), domain(2, pins(5, 6)))
    (conflict,) = conflicts_of(followed.guests)
    assert (conflict.owner, str(conflict.cpus), conflict.holder) == (guest(2), "5", guest(1))
