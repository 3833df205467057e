"""The agent against libvirt's own test driver and the real Placement: what domains give back is free again.

A libvirt that cannot be reached gives nothing back; what a guest holds is released in Placement before its
CPUs are free in the ledger, and never beside Nova.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from compute.agent_scene import HOST, Scene, run_for
from compute.compute_world import DOCUMENT, IMPATIENT, configured, guest, hosts_in, request, wanted
from compute.driver_domains import URI, Domains, dies_after
from compute.faults import down, on_writes
from corewise.vocabulary import metrics
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute import executor
from corewise_openstack.compute.errors import LedgerBusy
from corewise_openstack.compute.hosts import OptionsUnusable
from corewise_openstack.compute.ledger import GuestRecord, LedgerFile
from corewise_openstack.compute.moving import GuestMover, WantedMove
from corewise_openstack.compute.options import ComputeOptions
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.program import HostAgent
from corewise_openstack.compute.scheduling import GuestScheduler
from corewise_openstack.compute.verdicts import Placed
from corewise_openstack.openstack.errors import LibvirtError, PlacementDown
from corewise_openstack.openstack.libvirt import Libvirt, connected
from corewise_openstack.openstack.libvirt_xml import Domain
from corewise_openstack.vocabulary.placement import PCPU, VCPU, Consumer

GRACE = 600.0


class Owner:
    """The agent of a host whose domains are all corewise's; the tests say what time it is."""

    def __init__(self, scene: Scene, **options: Any) -> None:
        self.scene = scene
        self.options: ComputeOptions = replace(scene.options, libvirt=URI, standalone=True, **options)
        self.agent = HostAgent(self.options, scene.transport.client(), patience=IMPATIENT)

    def look(self, at: float) -> list[str]:
        """Run a pass; return what changed in the ledger."""
        return [each.kind for each in self.agent.once(at).state.changes]

    def place(self, number: int = 1) -> Mapping[int, int]:
        """Schedule a guest with 4 dedicated CPUs; return its pins."""
        scheduler = GuestScheduler(PlacementOffers(self.scene.client), hosts_in(self.scene.hosts))
        placed = scheduler.schedule(*wanted(number, request(4, {"hw:cpu_policy": "dedicated"})))
        assert isinstance(placed, Placed), placed
        return placed.record.cells[0].pins

    @property
    def ledger(self) -> Mapping[str, GuestRecord]:
        return hosts_in(self.scene.hosts).known[HOST].guests()

    def held(self, number: int = 1) -> Mapping[str, int]:
        consumer = self.scene.client.consumer(guest(number))
        return MappingProxyType({}) if consumer is None else consumer.allocations.get(self.scene.uuid, {})


def test_wrong_options_leave_the_ledger_unchanged(scene: Scene, domains: Domains) -> None:
    owner = Owner(scene)
    owner.look(0.0)
    for number in (1, 2):
        domains.define(number, owner.place(number), tune="<emulatorpin cpuset='18'/>")
    scene.configure({**DOCUMENT, "cpu_shared_set": "18"})
    owner.look(60.0)
    before = owner.ledger
    scene.configure({**DOCUMENT, "cpu_shared_set": "18,99"})
    domains.undefine(1)
    with pytest.raises(OptionsUnusable, match="99"):
        owner.look(120.0)
    assert owner.ledger == before
    scene.configure({**DOCUMENT, "cpu_shared_set": "18"})
    state = owner.agent.once(60.0 + GRACE).state
    assert (state.changes, state.conflicts) == ((), ())
    assert owner.look(60.0 + 2 * GRACE) == ["gone"]
    assert owner.held(2)[PCPU] == 4


def test_guest_without_domain_returns_its_cpus_and_allocations(scene: Scene, domains: Domains) -> None:
    owner = Owner(scene)
    owner.look(0.0)
    domains.define(1, owner.place())
    assert owner.look(60.0) == []
    domains.undefine(1)
    assert owner.look(120.0) == []
    assert owner.look(120.0 + GRACE - 1) == []
    assert owner.held()[PCPU] == 4
    assert owner.look(120.0 + GRACE) == ["gone"]
    assert (owner.ledger, owner.held()) == ({}, {})
    assert owner.look(180.0 + GRACE) == []


def test_ledger_is_locked_only_while_libvirt_is_read(
    scene: Scene, domains: Domains, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(scene)
    owner.look(0.0)
    ledger = LedgerFile(scene.state / "ledger.json", HOST, longest_wait=0.0)
    seen: list[str] = []

    def look(what: str) -> None:
        with suppress(LedgerBusy), ledger.changing():
            what += ", free"
        seen.append(what)

    @contextmanager
    def watched(uri: str) -> Iterator[Libvirt]:
        look("connecting")
        with connected(uri) as libvirt:
            yield libvirt

    read = Libvirt.domains

    def read_watched(libvirt: Libvirt) -> tuple[Domain, ...]:
        look("reading")
        return read(libvirt)

    monkeypatch.setattr(executor, "connected", watched)
    monkeypatch.setattr(Libvirt, "domains", read_watched)
    owner.look(60.0)
    assert seen == ["connecting, free", "reading"]


def test_ledger_keeps_cpus_until_placement_releases_the_claim(scene: Scene, domains: Domains) -> None:
    owner = Owner(scene)
    owner.look(0.0)
    domains.define(1, owner.place())
    owner.look(60.0)
    domains.undefine(1)
    owner.look(120.0)
    scene.transport.fault = on_writes(down)
    with pytest.raises(PlacementDown):
        owner.look(120.0 + GRACE)
    assert list(owner.ledger) == [guest(1)]
    scene.transport.fault = None
    assert owner.look(180.0 + GRACE) == ["gone"]


def test_restarted_agent_finishes_release_between_placement_and_ledger(
    scene: Scene, domains: Domains
) -> None:
    owner = Owner(scene)
    owner.look(0.0)
    domains.define(1, owner.place())
    owner.look(60.0)
    domains.undefine(1)
    scene.client.delete_consumer(guest(1))
    again = Owner(scene)
    assert again.look(0.0) == []
    assert again.look(GRACE) == ["gone"]
    assert owner.ledger == {}


def test_beside_nova_allocations_are_never_touched(scene: Scene, domains: Domains) -> None:
    owner = Owner(scene)
    owner.look(0.0)
    domains.define(1, owner.place())
    provider = scene.client.provider(scene.uuid)
    scene.client.put_traits(provider.uuid, provider.generation, provider.traits | {"COMPUTE_NODE"})
    beside = Owner(scene, config=(), beside_nova=(scene.conf,))
    beside.look(0.0)
    domains.undefine(1)
    beside.look(60.0)
    assert beside.look(60.0 + GRACE) == ["gone"]
    assert (owner.ledger, owner.held()[PCPU]) == ({}, 4)


def test_nova_guest_enters_ledger_only_on_agent_cpus(scene: Scene, domains: Domains) -> None:
    own = scene.root.parent / "own.conf"
    own.write_text(configured({"cpu_dedicated_set": "0-1"}))  # Nova has CPUs 2 to 47
    owner = Owner(scene, config=(own,), beside_nova=(scene.conf,))
    owner.options = replace(owner.options, standalone=False)
    metadata = "<metadata><n:instance xmlns:n='http://openstack.org/xmlns/libvirt/nova/1.1'/></metadata>"
    domains.define(1, {}, more=metadata)  # it floats: it would not suit a host that has dedicated CPUs only
    domains.define(2, {0: 2, 1: 3}, vcpus=2, more=metadata)
    assert owner.look(0.0) == []
    domains.define(2, {0: 1, 1: 3}, vcpus=2, more=metadata)
    assert owner.look(60.0) == ["adopted"]
    assert list(owner.ledger) == [guest(2)]


def test_guest_moved_to_another_host_keeps_holdings_there(scene: Scene, domains: Domains) -> None:
    owner = Owner(scene)
    owner.look(0.0)
    domains.define(1, owner.place())
    owner.look(60.0)
    other = scene.client.create_provider("n2")
    inventories = scene.client.provider(scene.uuid).inventories
    scene.client.put_inventories(other.uuid, other.generation, inventories)
    there = scene.client.consumer(guest(1))
    assert there is not None
    both = {**there.allocations, other.uuid: {PCPU: 4}}
    scene.client.put_consumer(
        Consumer(guest(1), there.generation, there.project, there.user, both, there.type)
    )
    domains.undefine(1)
    owner.look(120.0)
    owner.look(120.0 + GRACE)
    after = scene.client.consumer(guest(1))
    assert after is not None
    assert after.allocations == {other.uuid: {PCPU: 4}}


def test_unpinned_guest_holds_vcpu_from_then_on(scene: Scene, domains: Domains) -> None:
    owner = Owner(scene)
    owner.look(0.0)
    domains.define(1, owner.place())
    owner.look(60.0)
    domains.define(1, {})
    owner.look(120.0)
    assert owner.look(120.0 + GRACE) == ["unpinned"]
    assert not owner.ledger[guest(1)].pins.held
    assert {name: owner.held().get(name, 0) for name in (PCPU, VCPU)} == {PCPU: 0, VCPU: 4}


def test_guest_unable_to_hold_vcpu_visibly_keeps_cpus(scene: Scene, domains: Domains) -> None:
    scene.configure({"cpu_dedicated_set": DOCUMENT["cpu_dedicated_set"]})
    owner = Owner(scene)
    owner.look(0.0)
    domains.define(1, owner.place())
    owner.look(60.0)
    domains.define(1, {})
    owner.look(120.0)
    state = owner.agent.once(120.0 + GRACE).state
    assert any(line.startswith(Reason.GUEST_KEEPS_PCPU) for line in state.warning_lines)
    assert (len(owner.ledger[guest(1)].pins.held), owner.held()[PCPU]) == (4, 4)


def test_unreachable_libvirt_returns_nothing_and_restarts_the_grace(
    scene: Scene, domains: Domains, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(scene)
    owner.look(0.0)
    domains.define(1, owner.place())
    owner.look(60.0)
    domains.undefine(1)
    owner.look(120.0)
    with monkeypatch.context() as away:
        away.setattr(executor, "connected", lambda _uri: connected("qemu+unix:///x?socket=/none"))
        with pytest.raises(LibvirtError):
            owner.look(120.0 + GRACE)
    assert owner.look(180.0 + GRACE) == []
    assert list(owner.ledger) == [guest(1)]
    assert owner.look(180.0 + 2 * GRACE) == ["gone"]


SMALL = {"cpu_dedicated_set": "2-7", "cpu_shared_set": "0-1"}
"""All CPUs that the test driver can pin a running domain to."""


def test_applying_agent_pins_a_domain_once_it_exists(scene: Scene, domains: Domains) -> None:
    scene.configure(SMALL)
    owner = Owner(scene, apply=True)
    owner.look(0.0)
    pins = owner.place()
    assert owner.look(60.0) == []
    domains.define(1, {})
    domains.start(1)
    assert owner.look(120.0) == ["applied"]
    assert owner.look(180.0) == []
    with connected(URI) as libvirt:
        (there,) = libvirt.domains()
    assert there.pins == pins


def test_applying_agent_leaves_pins_set_by_hand_later(scene: Scene, domains: Domains) -> None:
    scene.configure(SMALL)
    owner = Owner(scene, apply=True)
    owner.look(0.0)
    owner.place()
    domains.define(1, {})
    domains.start(1)
    owner.look(60.0)
    domains.pin_by_hand(1, 0, 7)
    assert owner.look(120.0) == ["repinned"]
    assert 7 in owner.ledger[guest(1)].pins.cpus
    domains.define(2, {0: 6})
    assert owner.look(180.0) == ["adopted"]
    assert "cpuset='6'" in domains.xml(2, stored=True)


def test_applying_agent_leaves_unfinished_resizes_alone(scene: Scene, domains: Domains) -> None:
    owner = Owner(scene, apply=True)
    owner.look(0.0)
    pins = owner.place()
    domains.define(1, {})
    owner.look(60.0)
    mover = GuestMover(PlacementOffers(scene.client, patience=IMPATIENT), hosts_in(scene.hosts))
    asked = request(4, {"hw:cpu_policy": "dedicated"}, ram=2048)
    assert not isinstance(mover.begin(WantedMove(guest(1), HOST, guest(77), asked, "larger")), Finding)
    assert owner.look(120.0) == []
    with connected(URI) as libvirt:
        assert libvirt.domains()[0].pins == pins
    mover.revert(guest(1))
    domains.define(1, {vcpu: cpu + 4 for vcpu, cpu in pins.items()})
    assert owner.look(180.0) == ["applied"]
    with connected(URI) as libvirt:
        assert libvirt.domains()[0].pins == pins


def test_without_apply_the_agent_reports_unpinned_domains(scene: Scene, domains: Domains) -> None:
    scene.configure(SMALL)
    owner = Owner(scene)
    owner.look(0.0)
    owner.place()
    domains.define(1, {})
    state = owner.agent.once(1e6).state
    assert f"GuestUnapplied: the domain of guest {guest(1)} is not pinned" in "".join(state.warning_lines)
    assert len(owner.ledger[guest(1)].pins.held) == 4


@pytest.mark.parametrize("calls", range(4))
def test_restarted_agent_finishes_writing_a_domain(
    scene: Scene, domains: Domains, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    scene.configure(SMALL)
    owner = Owner(scene, apply=True)
    owner.look(0.0)
    pins = owner.place()
    domains.define(1, {})
    domains.start(1)
    alive = dies_after(monkeypatch, calls)
    with pytest.raises(KeyboardInterrupt):
        owner.look(60.0)
    alive()
    watching = Owner(scene)
    assert watching.look(0.0) == []
    assert watching.agent.once(1e6).state.ledger.unfinished == (guest(1),)
    assert Owner(scene, apply=True).look(0.0) == ["applied"]
    with connected(URI) as libvirt:
        assert libvirt.domains()[0].pins == pins
    assert watching.agent.once(2e6).state.ledger.unfinished == ()


def test_half_written_domain_that_is_gone_ends(
    scene: Scene, domains: Domains, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.configure(SMALL)
    owner = Owner(scene, apply=True)
    owner.look(0.0)
    owner.place()
    domains.define(1, {})
    domains.start(1)
    alive = dies_after(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        owner.look(60.0)
    alive()
    domains.stop(1)
    domains.undefine(1)
    owner.look(120.0)
    state = owner.agent.once(1e6).state
    assert ([each.kind for each in state.changes], state.ledger.unfinished) == (["gone"], ())
    assert (owner.ledger, owner.held()) == ({}, {})
    assert guest(1) not in (scene.state / "applied.json").read_text()


def test_unpinnable_domain_keeps_no_other_from_being_pinned(scene: Scene, domains: Domains) -> None:
    scene.configure({"cpu_dedicated_set": "2-9", "cpu_shared_set": "0-1"})
    owner = Owner(scene, apply=True)
    owner.look(0.0)
    for number in (1, 2):
        owner.place(number)
        domains.define(number, {})
    domains.start(2)  # the driver does not keep pins of a running domain above its CPU 7
    state = owner.agent.once(60.0).state
    assert [(each.kind, each.guest) for each in state.changes] == [("applied", guest(1))]
    assert list(state.ledger.refused) == [guest(2)]
    assert f"GuestUnapplied: the domain of guest {guest(2)} cannot be written" in "".join(state.warning_lines)


def test_guest_on_missing_numa_node_stops_no_pass(scene: Scene, domains: Domains) -> None:
    scene.configure(SMALL)
    owner = Owner(scene, apply=True)
    owner.look(0.0)
    owner.place()
    domains.define(1, {})
    with LedgerFile(scene.state / "ledger.json", HOST).changing() as change:
        record = change.host.guests[guest(1)]
        cells = tuple(msgspec.structs.replace(cell, node=7) for cell in record.cells)
        change.write({guest(1): msgspec.structs.replace(record, cells=cells)})
    state = owner.agent.once(60.0).state
    why = f"the domain of guest {guest(1)} cannot be written: host {HOST} has no NUMA node 7"
    assert why in "".join(state.warning_lines)


def test_running_agent_logs_returned_cpus_and_sharers(
    scene: Scene, domains: Domains, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    domains.define(1, {0: 2, 1: 3, 2: 4, 3: 5})
    domains.define(2, {0: 5, 1: 6, 2: 7, 3: 8})
    options = replace(scene.options, libvirt=URI)
    agent = run_for(scene, 150.0, options=options)
    assert agent.metrics.value(metrics.COMPUTE_CPUS_TWICE) == 1
    assert agent.metrics.value(metrics.COMPUTE_LEDGER_CHANGES, "adopted") == 2
    agent = run_for(scene, 1000.0, (90.0, lambda: domains.undefine(2)), options=options)
    assert agent.metrics.value(metrics.COMPUTE_CPUS_TWICE) == 0
    assert agent.metrics.value(metrics.COMPUTE_LEDGER_CHANGES, "gone") == 1
    told = [record.message for record in caplog.records]
    assert told.count("its domain is gone: it gave back CPUs 5-8") == 1
    assert told.count(f"CPUsPromisedTwice: {guest(2)} claims CPUs 5, which {guest(1)} holds") == 2
