"""The client against the real Placement: what is written is read back, and every refusal has its error."""

from __future__ import annotations

from decimal import Decimal
from uuid import uuid4

import pytest

from corewise_openstack.openstack.errors import (
    ConcurrentUpdate,
    DoesNotFit,
    InventoryInUse,
    PlacementBadRequest,
    PlacementConflict,
    PlacementNotFound,
    UnknownTraits,
)
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_http import NEWEST
from corewise_openstack.vocabulary.placement import (
    HYPER_THREADING_TRAIT,
    MEMORY_MB,
    PCPU,
    VCPU,
    Consumer,
    Inventory,
    InventoryUse,
)
from placement_world import guest, host, offering, pinned_guest


def test_the_newest_microversion_that_both_know_is_used(placement: PlacementClient) -> None:
    placement.providers()
    assert placement.transport.version == NEWEST


def test_inventories_are_read_back_digit_by_digit(placement: PlacementClient) -> None:
    wanted = {
        PCPU: Inventory(total=16, max_unit=16),
        VCPU: Inventory(total=30, max_unit=30, reserved=2, allocation_ratio=Decimal("1.1")),
    }
    created = placement.create_provider("n1")
    generation = placement.put_inventories(created.uuid, created.generation, wanted)
    there = placement.provider(created.uuid)
    assert (there.inventories, there.generation) == (wanted, generation)
    assert there.inventories[VCPU].capacity == 30


def test_provider_is_found_only_by_its_own_name(placement: PlacementClient) -> None:
    created = host(placement, "n1", PCPU=4)
    host(placement, "n11", PCPU=4)
    assert placement.find_provider("n1") == created
    assert placement.find_provider("n") is None
    assert [named.name for named in placement.providers()] == ["n1", "n11"]


def test_traits_are_replaced_and_read_back(placement: PlacementClient) -> None:
    provider = host(placement, traits=("HW_CPU_X86_AVX",), PCPU=4)
    placement.put_traits(provider.uuid, provider.generation, frozenset({HYPER_THREADING_TRAIT}))
    assert placement.provider(provider.uuid).traits == {HYPER_THREADING_TRAIT}


def test_an_old_generation_is_a_concurrent_update(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=4)
    with pytest.raises(ConcurrentUpdate):
        placement.put_inventories(provider.uuid, provider.generation - 1, {PCPU: offering(8)})
    assert placement.provider(provider.uuid) == provider


def test_a_name_that_is_taken_is_a_conflict(placement: PlacementClient) -> None:
    placement.create_provider("n1")
    with pytest.raises(PlacementConflict, match="n1"):
        placement.create_provider("n1")


def test_inventory_in_use_cannot_be_removed(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=4, VCPU=4)
    placement.put_consumer(pinned_guest(provider, 2))
    now = placement.provider(provider.uuid)
    with pytest.raises(InventoryInUse) as caught:
        placement.put_inventories(provider.uuid, now.generation, {VCPU: offering(4)})
    assert "guests" in caught.value.hint


def test_what_is_not_there_is_not_found(placement: PlacementClient) -> None:
    with pytest.raises(PlacementNotFound):
        placement.provider(str(uuid4()))


def test_consumer_has_what_it_was_given_and_releases(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=8, MEMORY_MB=4096)
    wanted = guest({provider.uuid: {PCPU: 3, MEMORY_MB: 1024}})
    assert placement.consumer(wanted.uuid) is None
    placement.put_consumer(wanted)
    there = placement.consumer(wanted.uuid)
    assert there is not None
    assert (there.allocations, there.project, there.user, there.type) == (
        wanted.allocations,
        wanted.project,
        wanted.user,
        "INSTANCE",
    )
    assert placement.usages(provider.uuid) == {PCPU: 3, MEMORY_MB: 1024}
    assert placement.delete_consumer(wanted.uuid)
    assert not placement.delete_consumer(wanted.uuid)
    assert placement.usages(provider.uuid) == {PCPU: 0, MEMORY_MB: 0}


def test_excess_request_does_not_fit_and_changes_nothing(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=4)
    placement.put_consumer(pinned_guest(provider, 3))
    refused = pinned_guest(provider, 2)
    with pytest.raises(DoesNotFit, match="PCPU"):
        placement.put_consumer(refused)
    assert placement.consumer(refused.uuid) is None
    assert placement.usages(provider.uuid) == {PCPU: 3}


@pytest.mark.parametrize("amount", [0, -1, 2**31, 2**63, 2**70])
def test_nonsensical_amounts_are_refused_with_words(placement: PlacementClient, amount: int) -> None:
    provider = host(placement, PCPU=4)
    with pytest.raises((PlacementBadRequest, DoesNotFit)) as caught:
        placement.put_consumer(pinned_guest(provider, amount))
    assert caught.value.detail
    assert placement.usages(provider.uuid) == {PCPU: 0}


def test_candidates_are_those_that_can_give_it(placement: PlacementClient) -> None:
    fast = host(placement, "smt", traits=(HYPER_THREADING_TRAIT,), PCPU=8, VCPU=4)
    slow = host(placement, "no-smt", PCPU=8)
    host(placement, "small", PCPU=4)
    found = placement.candidates("limit=1000&resources=PCPU:8")
    assert sorted(each for given in found.candidates for each in given) == sorted([fast.uuid, slow.uuid])
    assert found.candidates[0][next(iter(found.candidates[0]))] == {PCPU: 8}
    assert found.providers[fast.uuid].resources[VCPU] == InventoryUse(capacity=32, used=0)
    assert found.providers[fast.uuid].traits == {HYPER_THREADING_TRAIT}
    without = placement.candidates("limit=1000&required=!HW_CPU_HYPERTHREADING&resources=PCPU:8")
    assert set(without.providers) == {slow.uuid}


def test_request_without_candidates_has_an_empty_answer(placement: PlacementClient) -> None:
    assert placement.candidates("limit=1000&resources=PCPU:1").candidates == ()


@pytest.mark.parametrize("required", ["CUSTOM_NOBODY_KNOWS", "!CUSTOM_NOBODY_KNOWS"])
def test_unknown_trait_is_an_error_that_names_it(placement: PlacementClient, required: str) -> None:
    with pytest.raises(UnknownTraits) as caught:
        placement.candidates(f"limit=1000&required={required}&resources=PCPU:1")
    assert caught.value.traits == ("CUSTOM_NOBODY_KNOWS",)
    assert "openstack trait create CUSTOM_NOBODY_KNOWS" in caught.value.hint


def test_all_unknown_traits_of_a_write_are_named(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=4)
    with pytest.raises(UnknownTraits) as caught:
        placement.put_traits(provider.uuid, provider.generation, frozenset({"CUSTOM_A", "CUSTOM_B"}))
    assert sorted(caught.value.traits) == ["CUSTOM_A", "CUSTOM_B"]


def test_nonsensical_query_is_a_bad_request(placement: PlacementClient) -> None:
    with pytest.raises(PlacementBadRequest, match="allocation_candidates"):
        placement.candidates("resources=PCPU:many")


def test_usage_reports_every_consumer_with_all_it_holds(placement: PlacementClient) -> None:
    first, second = host(placement, PCPU=8), host(placement, PCPU=8, VCPU=4)
    both = guest({first.uuid: {PCPU: 1}, second.uuid: {PCPU: 2}})
    one = guest({first.uuid: {PCPU: 3}})
    for each in (both, one):
        placement.put_consumer(each)
    held = {each.uuid: each.allocations for each in placement.use(first.uuid).consumers}
    assert held == {both.uuid: both.allocations, one.uuid: one.allocations}


def test_a_consumer_of_unknown_type_keeps_it_so(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=8)
    old = Consumer(str(uuid4()), None, "p", "u", {provider.uuid: {PCPU: 1}}, type=None)
    placement.put_consumer(old)
    there = placement.consumer(old.uuid)
    assert there is not None
    assert there.type is None
