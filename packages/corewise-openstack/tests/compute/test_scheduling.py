"""Guests get hosts and CPUs on the real Placement, or the counts say why there is none."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from compute.compute_world import IMPATIENT, World, guest, request, wanted
from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.errors import GuestExists, GuestUnknown, LedgerDamaged
from corewise_openstack.compute.ledger import GuestState
from corewise_openstack.compute.offers import LocalOffers
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.scheduling import GuestScheduler, settle
from corewise_openstack.compute.verdicts import NoValidHost, Placed
from corewise_openstack.tracking import Compat, GuestRequest, Membership
from corewise_openstack.vocabulary.placement import HYPER_THREADING_TRAIT, PCPU, VCPU, Inventory

Examples = Mapping[str, Mapping[str, str]]
SMT, NO_SMT = "smt", "no-smt"

DEDICATED = {"hw:cpu_policy": "dedicated"}
EXAMPLE_1: Examples = {"new": {"resources:VCPU": "2"}, "legacy": {}}
EXAMPLE_2: Examples = {"new": {"resources:PCPU": "8"}, "legacy": {"hw:cpu_policy": "dedicated"}}
EXAMPLE_3: Examples = {
    "new": {"resources:PCPU": "8", f"trait:{HYPER_THREADING_TRAIT}": "forbidden"},
    "legacy": {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
}


def two_hosts(world: World) -> None:
    """The document's host with hyperthreads, and one without."""
    world.host(SMT)
    world.host(NO_SMT, {"cpu_dedicated_set": "2-17", "cpu_shared_set": "18-23"}, threads=1, nodes=1)


def placed(world: World, number: int, asked: GuestRequest) -> Placed:
    outcome = world.scheduler().schedule(*wanted(number, asked))
    assert isinstance(outcome, Placed), outcome
    return outcome


def refused(world: World, number: int, asked: GuestRequest) -> NoValidHost:
    outcome = world.scheduler().schedule(*wanted(number, asked))
    assert isinstance(outcome, NoValidHost), outcome
    return outcome


def test_documented_host_offers_16_pcpu_and_240_vcpu(world: World) -> None:
    world.host(SMT)
    provider = world.client.provider(world.providers[SMT])
    assert provider.inventories[PCPU].capacity == 16
    assert (provider.inventories[VCPU].total, provider.inventories[VCPU].capacity) == (30, 240)
    assert str(provider.inventories[VCPU].allocation_ratio) == "8.0"
    assert provider.traits == {HYPER_THREADING_TRAIT}


@pytest.mark.parametrize("form", ["new", "legacy"])
def test_example_1_shares_cpus_anywhere(world: World, form: str) -> None:
    two_hosts(world)
    first = placed(world, 1, request(2, EXAMPLE_1[form]))
    assert {each.host for each in first.weighed} == {SMT, NO_SMT}
    assert world.held(first.host) == {VCPU: 2, "MEMORY_MB": 1024}
    assert not first.record.pins.held


@pytest.mark.parametrize("form", ["new", "legacy"])
def test_example_2_owns_dedicated_cpus_of_either_host(world: World, form: str) -> None:
    two_hosts(world)
    hosts = [placed(world, number, request(8, EXAMPLE_2[form])) for number in range(1, 5)]
    assert sorted(each.host for each in hosts) == [NO_SMT, NO_SMT, SMT, SMT]
    for host in (SMT, NO_SMT):
        guests = world.hosts.known[host].guests().values()
        pinned = [cpu for record in guests for cpu in record.pins.cpus]
        assert sorted(pinned) == list(range(2, 18))
        assert world.held(host)[PCPU] == 16
    fifth = refused(world, 5, request(8, EXAMPLE_2[form]))
    assert fifth.message == "none of 2 hosts can take the guest: 2 eliminated by PCPU"


@pytest.mark.parametrize("form", ["new", "legacy"])
def test_example_3_never_lands_on_hyper_threaded_hosts(world: World, form: str) -> None:
    two_hosts(world)
    hosts = {placed(world, number, request(8, EXAMPLE_3[form])).host for number in (1, 2)}
    assert hosts == {NO_SMT}
    third = refused(world, 3, request(8, EXAMPLE_3[form]))
    assert third.message == (
        "none of 2 hosts can take the guest: 1 eliminated by PCPU, 1 by trait !HW_CPU_HYPERTHREADING"
    )
    assert world.held(SMT) == {}


def test_require_takes_whole_cores_on_hyper_threaded_hosts(world: World) -> None:
    two_hosts(world)
    outcome = placed(world, 1, request(8, {**DEDICATED, "hw:cpu_thread_policy": "require"}))
    assert [each.host for each in outcome.weighed] == [SMT]
    assert outcome.record.pins.cpus == CPUSet.parse("2-9")


def test_a_deleted_guest_gives_everything_back(world: World) -> None:
    world.host(SMT)
    placed(world, 1, request(16, DEDICATED))
    assert isinstance(
        world.scheduler().schedule(*wanted(2, request(1, {"resources:PCPU": "1"}))), NoValidHost
    )
    assert world.scheduler().delete(guest(1)) == SMT
    assert world.held(SMT) == {}
    assert world.hosts.known[SMT].guests() == {}
    placed(world, 2, request(16, DEDICATED))
    with pytest.raises(GuestUnknown):
        world.scheduler().delete(guest(1))


def test_a_guest_is_placed_once(world: World) -> None:
    world.host(SMT)
    placed(world, 1, request(2))
    with pytest.raises(GuestExists, match=f"is on host {SMT} already"):
        world.scheduler().schedule(*wanted(1, request(2)))
    assert world.held(SMT)[VCPU] == 2
    with world.hosts.known[SMT].ledger.changing() as change:
        change.write({})
    with pytest.raises(GuestExists, match="is in Placement, and in no ledger that can be read here, already"):
        world.scheduler().schedule(*wanted(1, request(2)))


def child(world: World, name: str, **amounts: int) -> str:
    """Give a host a child provider."""
    made = world.client.transport.send(
        "POST",
        "/resource_providers",
        json.dumps({"name": f"{name}_child", "parent_provider_uuid": world.providers[name]}).encode(),
    )
    uuid = str(json.loads(made)["uuid"])
    inventories = {each: Inventory(total=amount, max_unit=amount) for each, amount in amounts.items()}
    world.client.put_inventories(uuid, 0, inventories)
    return uuid


def in_aggregate(world: World, uuid: str, traits: frozenset[str] = frozenset(), **amounts: int) -> None:
    """Put a provider into the aggregate, with more traits and amounts."""
    provider = world.client.provider(uuid)
    inventories = {each: Inventory(total=amount, max_unit=amount) for each, amount in amounts.items()}
    generation = world.client.put_inventories(
        uuid, provider.generation, {**provider.inventories, **inventories}
    )
    generation = world.client.put_traits(uuid, generation, provider.traits | traits)
    body = {"aggregates": [AGGREGATE], "resource_provider_generation": generation}
    world.client.transport.send("PUT", f"/resource_providers/{uuid}/aggregates", json.dumps(body).encode())


AGGREGATE = guest(500)


def test_only_hosts_are_counted_as_hosts(world: World) -> None:
    world.host(SMT)
    child(world, SMT, VGPU=4)
    shared = world.client.create_provider("shared-disk").uuid
    in_aggregate(world, shared, frozenset({"MISC_SHARES_VIA_AGGREGATE"}), DISK_GB=100)
    in_aggregate(world, world.providers[SMT])
    offers = PlacementOffers(world.client, patience=IMPATIENT)
    gpu = request(2, {**DEDICATED, "resources:VGPU": "1", "resources:DISK_GB": "5"})
    hosts, stages = offers.stages(gpu.query)
    assert (hosts, [each.left for each in stages]) == (1, [1, 1, 1])
    assert refused(world, 1, request(10, {**DEDICATED, "hw:numa_nodes": "1"}, ram=40000)).message == (
        "the only host cannot take the guest: 1 eliminated by memory of a NUMA node (NUMAMemoryInsufficient)"
    )


GROUPED = {"resources1:PCPU": "2"}
IN_AGGREGATE = (Membership("aggregate rack", (AGGREGATE,)),)


@pytest.mark.parametrize(
    ("specs", "members", "counted"),
    [
        ({**GROUPED, "trait:HW_CPU_X86_AVX2": "required"}, (), "1 eliminated by trait HW_CPU_X86_AVX2"),
        (GROUPED, IN_AGGREGATE, "1 eliminated by aggregate rack"),
        ({"resources1:PCPU": "2", "resources:VGPU": "1"}, IN_AGGREGATE, "1 eliminated by VGPU"),
    ],
)
def test_counts_include_queries_with_cpus_in_a_group(
    world: World, specs: dict[str, str], members: tuple[Membership, ...], counted: str
) -> None:
    world.host(SMT)
    asked = request(2, specs).within(members)
    assert isinstance(asked, GuestRequest)
    assert counted in refused(world, 1, asked).message


def test_aggregates_need_a_resource_beside_the_groups() -> None:
    refusal = request(2, GROUPED, ram=0).within(IN_AGGREGATE)
    assert isinstance(refusal, Finding)
    assert refusal.reason is Reason.GROUP_WITHOUT_RESOURCES
    assert "the unnamed group has aggregate rack and no resources" in refusal.message


def test_the_counts_say_at_which_demand_hosts_fell(world: World) -> None:
    world.host("two-nodes", {"cpu_dedicated_set": "2-9,26-33"})
    world.host("small", gib=1)
    world.host("shared", {"cpu_shared_set": "0-47"})
    outcome = refused(world, 1, request(16, DEDICATED, ram=2048))
    assert outcome.message == (
        "none of 3 hosts can take the guest: 1 eliminated by PCPU, 1 by MEMORY_MB, "
        "1 by NUMA fit (NUMANodesUnfit)"
    )
    assert outcome.details[0].startswith("host two-nodes: ")


def test_host_of_unknown_cpus_is_counted_but_unused(world: World) -> None:
    world.host(SMT)
    world.client.put_inventories(
        world.client.create_provider("stranger").uuid, 0, world.hosts.known[SMT].offer.inventories
    )
    asked = request(8, DEDICATED, ram=0)
    assert {placed(world, number, asked).host for number in (1, 2)} == {SMT}
    third = refused(world, 3, asked)
    assert (1, Reason.HOST_UNKNOWN) in {(each.hosts, each.reason) for each in third.eliminated}


def test_interference_scores_decide_between_equal_hosts(world: World) -> None:
    for name in ("a", "b", "c"):
        world.host(name)
    world.scores = {"b": 90, "c": 40}
    outcome = placed(world, 1, request(8, DEDICATED))
    assert [(each.host, each.score) for each in outcome.weighed] == [
        ("b", "190.0"),
        ("c", "140.0"),
        ("a", "100.0"),
    ]


def test_guests_spread_over_hosts_and_pack_fills_them(world: World) -> None:
    for name in ("a", "b"):
        world.host(name)
    placed(world, 1, request(8, DEDICATED))
    spread = placed(world, 2, request(2, DEDICATED))
    packed = world.scheduler().schedule(*wanted(3, request(2, DEDICATED), pack=True))
    assert spread.host == "b"
    assert isinstance(packed, Placed)
    assert packed.host == "a"


def test_legacy_host_takes_pinned_guests_as_fallback_vcpu(world: World) -> None:
    world.host("legacy", {})
    outcome = placed(world, 1, request(8, {**DEDICATED, "hw:cpu_thread_policy": "isolate"}))
    assert outcome.by_fallback
    assert world.held("legacy") == {VCPU: 8, "MEMORY_MB": 1024}
    assert len(outcome.record.pins.withheld) == 8


def test_upgraded_host_found_only_by_fallback_rejects_guest(world: World) -> None:
    world.host(SMT)
    outcome = refused(world, 1, request(8, {**DEDICATED, "hw:cpu_thread_policy": "isolate"}))
    assert (
        outcome.message == "the only host cannot take the guest: 1 eliminated by trait !HW_CPU_HYPERTHREADING"
    )
    assert world.held(SMT) == {}


def test_fallback_needs_an_empty_result_except_beside_nova(world: World) -> None:
    two_hosts(world)
    world.host("legacy", {})
    two_left = {SMT, NO_SMT}
    spec = placed(world, 1, request(8, DEDICATED))
    assert {each.host for each in spec.weighed} == two_left
    world.compat = Compat.NOVA
    nova = placed(world, 2, request(8, DEDICATED, compat=Compat.NOVA))
    assert {each.host: each.free for each in nova.weighed} == {NO_SMT: 8, SMT: 16, "legacy": 48}


def test_fallback_is_asked_if_no_found_host_fits(world: World) -> None:
    world.host("split", {"cpu_dedicated_set": "0-3,24-27"})
    world.host("legacy", {})
    outcome = placed(world, 1, request(8, DEDICATED))
    assert (outcome.host, outcome.by_fallback) == ("legacy", True)


def test_floating_guests_spread_over_numa_nodes_within_ratio(world: World) -> None:
    world.host("one", {"cpu_shared_set": "2-15", "cpu_allocation_ratio": "4.0"}, cores=16, threads=1, nodes=2)
    asked = request(4, {"hw:numa_nodes": "1"})
    nodes = [placed(world, number, asked).record.cells[0].node for number in range(1, 15)]
    assert nodes[:4] == [0, 1, 0, 1]
    assert (nodes.count(0), nodes.count(1)) == (6, 8)  # of 4 CPUs each: 6 x 4.0 and 8 x 4.0
    assert "VCPU" in refused(world, 15, asked).message


def test_full_numa_node_refuses_what_placement_would_allow(world: World) -> None:
    world.host("one", {"cpu_shared_set": "2-15", "cpu_allocation_ratio": "4.0"}, cores=16, threads=1, nodes=2)
    asked = request(8, {"hw:numa_nodes": "1"})  # node 0 has 6 shared CPUs
    assert [placed(world, number, asked).record.cells[0].node for number in range(1, 5)] == [1, 1, 1, 1]
    assert refused(world, 5, asked).details == (
        (
            "host one: the guest needs 8 shared CPUs on one NUMA node, and no node has more than 6 left: "
            "other guests use the rest, at an allocation ratio of 4.0"
        ),
    )


def test_nova_disabled_host_visibly_takes_no_guest(world: World) -> None:
    world.host(SMT)
    provider = world.client.provider(world.providers[SMT])
    world.client.put_traits(provider.uuid, provider.generation, provider.traits | {"COMPUTE_STATUS_DISABLED"})
    outcome = refused(world, 1, request(2, DEDICATED))
    assert "1 eliminated by being disabled in Nova (HostDisabled)" in outcome.message
    assert world.held(SMT) == {}


def test_host_with_silent_agent_visibly_takes_no_guest(world: World) -> None:
    world.host(SMT)
    reported = world.folder / SMT / "reported"
    reported.touch()
    os.utime(reported, (1000, 1000))
    offers = PlacementOffers(world.client)
    asked = wanted(1, request(2, DEDICATED))
    outcome = GuestScheduler(offers, world.hosts, now=lambda: 1301).schedule(*asked)
    assert isinstance(outcome, NoValidHost)
    assert "1 eliminated by an agent that is silent (HostSilent)" in outcome.message
    assert outcome.details == ("the agent of host smt has not reported for 301 s",)
    assert isinstance(GuestScheduler(offers, world.hosts, now=lambda: 1299).schedule(*asked), Placed)


def test_two_guest_nodes_lie_on_two_host_nodes(world: World) -> None:
    world.host(SMT, {"cpu_dedicated_set": "2-9,26-33"})
    outcome = placed(world, 1, request(8, {**DEDICATED, "hw:numa_nodes": "2"}))
    assert [cell.node for cell in outcome.record.cells] == [0, 1]
    assert outcome.record.pins.cpus == CPUSet.parse("2-5,26-29")


def test_a_mixed_guest_holds_both_classes(world: World) -> None:
    world.host(SMT, {"cpu_dedicated_set": "0-7", "cpu_shared_set": "8-23"}, cores=12, nodes=1)
    outcome = placed(world, 1, request(4, {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "2-3"}))
    assert world.held(SMT) == {PCPU: 2, VCPU: 2, "MEMORY_MB": 1024}
    assert dict(outcome.record.cells[0].pins) == {2: 0, 3: 1}


def test_scheduler_killed_before_its_claim_leaves_nothing_behind(world: World) -> None:
    world.host(SMT)
    died = replace(placed(world, 1, request(16, DEDICATED)).record, state=GuestState.CLAIMING)
    world.client.delete_consumer(guest(1))
    with world.hosts.known[SMT].ledger.changing() as change:
        change.write({guest(1): died})
    assert placed(world, 2, request(16, DEDICATED)).host == SMT
    assert list(world.hosts.known[SMT].guests()) == [guest(2)]


def test_scheduler_killed_after_claim_has_placed_its_guest(world: World) -> None:
    world.host(SMT)
    died = replace(placed(world, 1, request(8, DEDICATED)).record, state=GuestState.CLAIMING)
    with world.hosts.known[SMT].ledger.changing() as change:
        change.write({guest(1): died})
    with pytest.raises(GuestExists):
        world.scheduler().schedule(*wanted(1, request(8, DEDICATED)))
    assert world.hosts.known[SMT].guests()[guest(1)].state is GuestState.HELD


def test_scheduler_without_placement_keeps_claims_made_there(world: World) -> None:
    world.host(SMT)
    died = replace(placed(world, 1, request(8, DEDICATED)).record, state=GuestState.CLAIMING)
    with world.hosts.known[SMT].ledger.changing() as change:
        change.write({guest(1): died})
    offline = GuestScheduler(LocalOffers(world.hosts), world.hosts)
    assert isinstance(offline.schedule(*wanted(2, request(8, DEDICATED))), Placed)
    assert isinstance(offline.schedule(*wanted(3, request(1, DEDICATED))), NoValidHost)
    assert world.hosts.known[SMT].guests()[guest(1)] == died


def test_another_placement_settles_no_claim(world: World) -> None:
    world.host(SMT)
    died = replace(placed(world, 1, request(8, DEDICATED)).record, state=GuestState.CLAIMING)
    elsewhere = {guest(1): replace(died, provider=guest(500))}
    with world.hosts.known[SMT].ledger.changing() as change:
        change.write(elsewhere)
        settle(change, PlacementOffers(world.client))
    assert world.hosts.known[SMT].guests() == elsewhere


def test_host_with_a_doubly_owned_cpu_takes_nothing(world: World) -> None:
    world.host(SMT)
    record = placed(world, 1, request(2, DEDICATED)).record
    with world.hosts.known[SMT].ledger.changing() as change:
        change.write({**change.host.guests, guest(2): record})
    outcome = refused(world, 3, request(2, DEDICATED))
    assert [each.reason for each in outcome.eliminated] == [Reason.CPUS_PROMISED_TWICE]
    assert guest(2) in outcome.details[0]


def test_damaged_ledger_excludes_its_host_and_no_other(world: World) -> None:
    world.host("a")
    world.host("b")
    (world.folder / "a" / "ledger.json").write_text('{"version": 1')
    assert {placed(world, number, request(8, DEDICATED)).host for number in (1, 2)} == {"b"}
    third = refused(world, 3, request(8, DEDICATED))
    assert (1, Reason.LEDGER_DAMAGED) in {(each.hosts, each.reason) for each in third.eliminated}
    with pytest.raises(LedgerDamaged):
        world.scheduler().delete(guest(9))
