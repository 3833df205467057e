"""Read, decide, write on the real Placement while others write too: repeated, bounded, all or nothing."""

from __future__ import annotations

import random
import threading
from uuid import uuid4

import pytest

from corewise.vocabulary.reasons import Reason
from corewise_openstack.actions import WriteInventories, WriteTraits
from corewise_openstack.openstack.errors import ConflictStorm, PlacementConflict, UnknownTraits
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_writes import (
    ATTEMPTS,
    Patience,
    ProviderWrite,
    claim,
    ensure_provider,
    keep_provider,
)
from corewise_openstack.vocabulary.placement import HYPER_THREADING_TRAIT, PCPU, Inventory, Provider
from placement_world import client_of_placement, guest, host, offering, pinned_guest

WHY = Reason.RATIOS_WRITTEN
"""Any reason: what it says is the decider's business."""


class Waits(list[float]):
    """Waits, and remembers how long."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def impatient() -> tuple[Waits, Patience]:
    waits = Waits()
    return waits, Patience(sleep=waits, rng=random.Random(7))  # noqa: S311


class Wants:
    """Decides as tracking does: what differs is written. ``meddling`` happens after each reading."""

    def __init__(self, inventories: dict[str, Inventory], traits: frozenset[str] = frozenset()) -> None:
        self.inventories = inventories
        self.traits = traits
        self.read: list[Provider] = []
        self.meddlers: list[PlacementClient] = []

    def __call__(self, provider: Provider) -> ProviderWrite | None:
        self.read.append(provider)
        if self.meddlers:
            meddle(self.meddlers.pop(), provider)
        if provider.inventories != self.inventories:
            return WriteInventories(provider.uuid, provider.generation, self.inventories, WHY, "they differ")
        if provider.traits != self.traits:
            return WriteTraits(provider.uuid, provider.generation, self.traits, WHY, "they differ")
        return None


def meddle(client: PlacementClient, provider: Provider) -> None:
    """Somebody else writes the provider."""
    there = client.provider(provider.uuid)
    client.put_traits(there.uuid, there.generation, there.traits ^ {"HW_CPU_X86_AVX"})


def test_host_reaches_wanted_state_and_then_stays_untouched(
    placement: PlacementClient,
) -> None:
    provider = ensure_provider(placement, "n1")
    decide = Wants({PCPU: offering(16)}, frozenset({HYPER_THREADING_TRAIT}))
    written = keep_provider(placement, provider.uuid, decide)
    assert [type(each) for each in written] == [WriteInventories, WriteTraits]
    there = placement.provider(provider.uuid)
    assert (there.inventories, there.traits) == (decide.inventories, decide.traits)
    sent = placement.transport.sent
    assert keep_provider(placement, provider.uuid, decide) == ()
    assert placement.transport.sent - sent == 3
    assert placement.provider(provider.uuid).generation == there.generation


def test_a_provider_is_created_once_whoever_asks(placement: PlacementClient) -> None:
    first = ensure_provider(placement, "n1", str(uuid4()))
    assert ensure_provider(placement, "n1", str(uuid4())) == first
    assert len(placement.providers()) == 1


def test_conflicting_write_is_reread_and_decided_again(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=4)
    decide = Wants({PCPU: offering(8)})
    decide.meddlers = [client_of_placement(), client_of_placement()]
    waits, patience = impatient()
    keep_provider(placement, provider.uuid, decide, patience)
    assert len(decide.read) == 4
    assert [read.generation for read in decide.read] == sorted({read.generation for read in decide.read})
    assert placement.provider(provider.uuid).inventories == decide.inventories
    assert len(waits) == 2


def test_endless_conflicts_raise_and_keep_what_others_wrote(
    placement: PlacementClient,
) -> None:
    provider = host(placement, PCPU=4)
    decide = Wants({PCPU: offering(8)})
    decide.meddlers = [client_of_placement() for _ in range(ATTEMPTS)]
    waits, patience = impatient()
    with pytest.raises(ConflictStorm, match=f"{ATTEMPTS} times") as caught:
        keep_provider(placement, provider.uuid, decide, patience)
    assert caught.value.retryable
    assert placement.provider(provider.uuid).inventories == provider.inventories
    assert len(waits) == ATTEMPTS - 1
    assert all(0.005 <= wait <= 1.0 for wait in waits)
    assert 10 < sum(waits) < 24


def test_refusal_other_than_a_conflict_stops_at_once(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=4)
    decide = Wants({PCPU: offering(4)}, frozenset({"CUSTOM_NOBODY_KNOWS"}))
    with pytest.raises(UnknownTraits):
        keep_provider(placement, provider.uuid, decide)
    assert len(decide.read) == 1


def test_writes_that_never_converge_are_a_bug(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=4)

    def restless(read: Provider) -> ProviderWrite:
        return WriteTraits(read.uuid, read.generation, frozenset(), WHY, "always")

    with pytest.raises(RuntimeError, match="writes did not converge"):
        keep_provider(placement, provider.uuid, restless)


def test_claim_repeated_after_a_lost_answer_is_idempotent(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=4)
    wanted = pinned_guest(provider, 3)
    assert claim(placement, wanted) is None
    assert claim(placement, wanted) is None
    assert placement.usages(provider.uuid) == {PCPU: 3}


def test_claim_of_guest_with_another_allocation_conflicts(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=4)
    wanted = pinned_guest(provider, 3)
    claim(placement, wanted)
    waits, patience = impatient()
    with pytest.raises(PlacementConflict, match="something else"):
        claim(placement, guest({provider.uuid: {PCPU: 2}}, wanted.uuid), patience)
    assert waits == []
    assert placement.usages(provider.uuid) == {PCPU: 3}


def test_claim_that_does_not_fit_is_a_verdict(placement: PlacementClient) -> None:
    provider = host(placement, PCPU=4)
    outcome = claim(placement, pinned_guest(provider, 5))
    assert outcome is not None
    assert "PCPU" in outcome


def test_eight_concurrent_claims_lose_or_double_allocate_nothing(placement: PlacementClient) -> None:
    hosts = [host(placement, PCPU=10) for _ in range(4)]
    held: list[str] = []
    refused: list[str] = []

    def work(worker: int) -> None:
        client = client_of_placement()
        for turn in range(9):
            wanted = pinned_guest(hosts[(worker + turn) % len(hosts)], 1)
            outcome = claim(client, wanted, Patience(attempts=200))
            (held if outcome is None else refused).append(wanted.uuid)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    there = [consumer.uuid for each in hosts for consumer in placement.use(each.uuid).consumers]
    assert sorted(there) == sorted(held)
    assert len(held) + len(refused) == 72
    assert [placement.usages(each.uuid) for each in hosts] == [{PCPU: 10}] * 4
    for uuid in held:
        placement.delete_consumer(uuid)
    assert [placement.usages(each.uuid) for each in hosts] == [{PCPU: 0}] * 4
