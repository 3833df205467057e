"""A legacy host with pinned, isolated and floating guests is upgraded on the real Placement."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from compute.compute_world import IMPATIENT, World, configured, guest, request, wanted
from compute.faults import Faulty, storm
from corewise.vocabulary.reasons import Reason
from corewise_openstack.actions import Reshape
from corewise_openstack.compute.hosts import ComputeHost
from corewise_openstack.compute.ledger import LedgerStore
from corewise_openstack.compute.offering import DryReporter, Offering, ReshapeImpossible
from corewise_openstack.compute.placement import Reporter
from corewise_openstack.compute.verdicts import Placed
from corewise_openstack.openstack.errors import ConflictStorm
from corewise_openstack.tracking import Compat
from corewise_openstack.vocabulary.placement import MEMORY_MB, PCPU, VCPU

HOST = "old"
DEDICATED = {"hw:cpu_policy": "dedicated"}
PINNED, ISOLATED, FLOATING = 1, 2, 3
HELD_BEFORE = {guest(PINNED): {VCPU: 4}, guest(ISOLATED): {VCPU: 2}, guest(FLOATING): {VCPU: 3}}
HELD_AFTER = {guest(PINNED): {PCPU: 4}, guest(ISOLATED): {PCPU: 4}, guest(FLOATING): {VCPU: 3}}


class Upgrade:
    """A host on which nothing is configured, with three guests; then ``cpu_dedicated_set`` is set."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.host(HOST, {}, cores=12, nodes=1)
        asked = {
            PINNED: request(4, DEDICATED),
            ISOLATED: request(2, {**DEDICATED, "hw:cpu_thread_policy": "isolate"}),
            FLOATING: request(3),
        }
        for number, each in asked.items():
            assert isinstance(world.scheduler().schedule(*wanted(number, each)), Placed)
        self.uuid = world.providers[HOST]
        self.transport = Faulty()

    def configure(self, dedicated: str, shared: str) -> ComputeHost:
        options = {"cpu_dedicated_set": dedicated, "cpu_shared_set": shared}
        (self.world.folder / HOST / "nova.conf").write_text(configured(options))
        self.world.forget()
        return self.world.hosts.known[HOST]

    def offering(self, dedicated: str = "0-11", shared: str = "12-23") -> Offering:
        host = self.configure(dedicated, shared)
        guests = tuple(record.hosted(uuid) for uuid, record in host.guests().items())
        return Offering(HOST, host.machine, host.settings, guests)

    def reporter(self, compat: Compat = Compat.SPEC, ledger: LedgerStore | None = None) -> Reporter:
        return Reporter(self.transport.client(), compat, ledger, patience=IMPATIENT)

    def held(self) -> Mapping[str, Mapping[str, int]]:
        use = self.world.client.use(self.uuid)
        return {
            each.uuid: {name: n for name, n in each.allocations[self.uuid].items() if name != MEMORY_MB}
            for each in use.consumers
        }

    def totals(self) -> Mapping[str, int]:
        inventories = self.world.client.provider(self.uuid).inventories
        return {name: inventories[name].total for name in (VCPU, PCPU) if name in inventories}


@pytest.fixture
def upgrade(world: World) -> Upgrade:
    return Upgrade(world)


def test_pinned_guests_become_pcpu_in_one_idempotent_request(upgrade: Upgrade) -> None:
    assert upgrade.held() == HELD_BEFORE
    assert upgrade.totals() == {VCPU: 24}
    written = upgrade.reporter().report(upgrade.offering())
    assert [type(each) for each in written] == [Reshape]
    assert upgrade.transport.writes == ["POST /reshaper"]
    assert upgrade.held() == HELD_AFTER
    assert upgrade.totals() == {VCPU: 12, PCPU: 12}
    upgrade.transport.asked.clear()
    assert upgrade.reporter().report(upgrade.offering()) == ()
    assert upgrade.transport.writes == []


def test_beside_nova_isolated_guest_counts_only_own_cpus(upgrade: Upgrade) -> None:
    upgrade.reporter(Compat.NOVA).report(upgrade.offering())
    assert upgrade.held()[guest(ISOLATED)] == {PCPU: 2}


def test_the_ledger_knows_what_moved_guests_hold(upgrade: Upgrade) -> None:
    offering = upgrade.offering()
    host = upgrade.world.hosts.known[HOST]
    with host.ledger.changing() as change:  # as if adopted
        change.write({uuid: replace(each, provider="") for uuid, each in change.host.guests.items()})
    upgrade.reporter(ledger=host.ledger).report(offering)
    assert {record.provider for record in host.guests().values()} == {upgrade.uuid}
    assert {uuid: record.resources.get(PCPU, 0) for uuid, record in host.guests().items()} == {
        guest(PINNED): 4,
        guest(ISOLATED): 4,
        guest(FLOATING): 0,
    }


def test_new_guests_land_beside_the_moved_ones(upgrade: Upgrade) -> None:
    upgrade.reporter().report(upgrade.offering())
    outcome = upgrade.world.scheduler().schedule(*wanted(4, request(4, DEDICATED)))
    assert isinstance(outcome, Placed)
    assert not outcome.by_fallback
    guests = upgrade.world.hosts.known[HOST].guests()
    held = [cpu for record in guests.values() for cpu in record.pins.held]
    assert len(held) == len(set(held)) == 12


def test_write_between_reading_and_reshaping_is_not_overwritten(upgrade: Upgrade) -> None:
    newcomer = request(5)

    def interfere(method: str, path: str) -> None:
        if path.endswith("/allocations"):
            upgrade.transport.after = lambda _method, _path: None
            upgrade.world.scheduler().schedule(*wanted(4, newcomer))

    offering = upgrade.offering("0-11", "12-23")
    upgrade.transport.after = interfere
    upgrade.reporter().report(offering)
    assert upgrade.held() == {**HELD_AFTER, guest(4): {VCPU: 5}}


def test_conflict_storm_leaves_everything_unchanged(upgrade: Upgrade) -> None:
    offering = upgrade.offering()
    upgrade.transport.fault = storm
    with pytest.raises(ConflictStorm):
        upgrade.reporter().report(offering)
    assert (upgrade.held(), upgrade.totals()) == (HELD_BEFORE, {VCPU: 24})


def test_guests_outside_the_new_set_are_not_moved(upgrade: Upgrade) -> None:
    with pytest.raises(ReshapeImpossible) as refused:
        upgrade.reporter().report(upgrade.offering("0-5", "6-23"))
    assert refused.value.reason is Reason.RESHAPE_EXCEEDS_INVENTORY
    assert upgrade.transport.writes == []
    assert (upgrade.held(), upgrade.totals()) == (HELD_BEFORE, {VCPU: 24})


def test_a_rehearsal_tells_the_reshape_and_writes_nothing(upgrade: Upgrade) -> None:
    written = DryReporter(upgrade.transport.client()).report(upgrade.offering())
    assert [type(each) for each in written] == [Reshape]
    assert upgrade.transport.writes == []
    assert upgrade.held() == HELD_BEFORE
