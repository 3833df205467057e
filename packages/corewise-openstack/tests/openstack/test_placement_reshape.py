"""A reshape on the real Placement: one request, decided again after a conflict, and all or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from corewise.vocabulary.reasons import Reason
from corewise_openstack.actions import Reshape
from corewise_openstack.openstack.errors import ConcurrentUpdate, ConflictStorm, DoesNotFit, PlacementError
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_writes import Patience, reshape
from corewise_openstack.vocabulary.placement import (
    MEMORY_MB,
    PCPU,
    VCPU,
    Consumer,
    Inventory,
    Provider,
    ProviderUse,
)
from placement_world import client_of_placement, guest, host, offering

NOW = Patience(attempts=4, sleep=lambda _: None)


class Upgrade:
    """Moves the VCPU of some guests to PCPU, as tracking plans it; ``then`` happens after each reading."""

    def __init__(
        self,
        pinned: dict[str, int],
        inventories: dict[str, Inventory],
        *then: Callable[[ProviderUse], object],
    ) -> None:
        self.pinned = pinned
        self.inventories = inventories
        self.then = list(then)
        self.readings = 0

    def __call__(self, use: ProviderUse) -> Reshape | None:
        self.readings += 1
        if self.then:
            self.then.pop(0)(use)
        if PCPU in use.provider.inventories:
            return None
        wanted = {**use.provider.inventories, **self.inventories}
        moved = tuple(self._moved(use.provider, each) for each in use.consumers if each.uuid in self.pinned)
        return Reshape((replace(use.provider, inventories=wanted),), moved, Reason.RATIOS_WRITTEN, "upgrade")

    def _moved(self, provider: Provider, consumer: Consumer) -> Consumer:
        held = {each: amount for each, amount in consumer.allocations[provider.uuid].items() if each != VCPU}
        held[PCPU] = self.pinned[consumer.uuid]
        return replace(consumer, allocations={**consumer.allocations, provider.uuid: held})


class Scene:
    """A host of 8 CPUs before its upgrade: one guest pinned to 2, one that isolates 2, one that floats."""

    def __init__(self, client: PlacementClient) -> None:
        self.client = client
        self.host = host(client, VCPU=8, MEMORY_MB=4096)
        self.pinned, self.isolating, self.floating = (
            guest({self.host.uuid: {VCPU: cpus, MEMORY_MB: 256}}) for cpus in (2, 2, 3)
        )
        for each in (self.pinned, self.isolating, self.floating):
            client.put_consumer(each)

    def upgrade(self, dedicated: int, *then: Callable[[ProviderUse], object]) -> Upgrade:
        inventories = {PCPU: offering(dedicated), VCPU: offering(2, "8.0")}
        return Upgrade({self.pinned.uuid: 2, self.isolating.uuid: 4}, inventories, *then)

    def held(self) -> dict[str, dict[str, int]]:
        return {
            each.uuid: dict(each.allocations[self.host.uuid])
            for each in self.client.use(self.host.uuid).consumers
        }

    def change(self, use: ProviderUse) -> None:
        """Somebody else writes the host."""
        other = client_of_placement()
        now = other.provider(use.provider.uuid)
        more = offering(now.inventories[MEMORY_MB].total + 1)
        other.put_inventories(now.uuid, now.generation, {**now.inventories, MEMORY_MB: more})


@pytest.fixture
def scene(placement: PlacementClient) -> Scene:
    return Scene(placement)


def test_pinned_guests_move_and_floating_ones_stay(scene: Scene) -> None:
    client = scene.client
    use = client.use(scene.host.uuid)
    sent = client.transport.sent
    action = scene.upgrade(6)(use)
    assert action is not None
    client.reshape(action)
    assert client.transport.sent - sent == 1
    assert scene.held() == {
        scene.pinned.uuid: {PCPU: 2, MEMORY_MB: 256},
        scene.isolating.uuid: {PCPU: 4, MEMORY_MB: 256},
        scene.floating.uuid: {VCPU: 3, MEMORY_MB: 256},
    }
    assert client.usages(scene.host.uuid) == {PCPU: 6, VCPU: 3, MEMORY_MB: 768}


def test_a_repeated_run_changes_nothing(scene: Scene) -> None:
    assert reshape(scene.client, scene.host.uuid, scene.upgrade(6), NOW) is not None
    before = scene.client.use(scene.host.uuid)
    assert reshape(scene.client, scene.host.uuid, scene.upgrade(6), NOW) is None
    assert scene.client.use(scene.host.uuid) == before


def test_write_between_read_and_write_forces_a_reread(scene: Scene) -> None:
    upgrade = scene.upgrade(6, scene.change)
    assert reshape(scene.client, scene.host.uuid, upgrade, NOW) is not None
    assert upgrade.readings == 2
    assert scene.client.provider(scene.host.uuid).inventories[MEMORY_MB].total == 4097


def test_guest_added_between_read_and_write_is_kept(scene: Scene) -> None:
    late = guest({scene.host.uuid: {VCPU: 1}})
    upgrade = scene.upgrade(6, lambda _: client_of_placement().put_consumer(late))
    reshape(scene.client, scene.host.uuid, upgrade, NOW)
    assert upgrade.readings == 2
    assert scene.held()[late.uuid] == {VCPU: 1}


def test_guest_removed_between_read_and_write_stays_removed(scene: Scene) -> None:
    upgrade = scene.upgrade(6, lambda _: client_of_placement().delete_consumer(scene.pinned.uuid))
    reshape(scene.client, scene.host.uuid, upgrade, NOW)
    assert scene.pinned.uuid not in scene.held()


class ShortestWaits(Random):
    def uniform(self, a: float, b: float) -> float:
        return min(a, b)


def test_reshape_survives_ten_seconds_of_conflicting_writers(scene: Scene) -> None:
    passed = 0.0

    def sleep(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    def others_write(use: ProviderUse) -> None:
        if passed < 10:
            scene.change(use)

    patience = Patience(sleep=sleep, rng=ShortestWaits())
    upgrade = scene.upgrade(6, *[others_write] * patience.attempts)
    assert reshape(scene.client, scene.host.uuid, upgrade, patience) is not None
    assert passed >= 10
    assert scene.held()[scene.pinned.uuid] == {PCPU: 2, MEMORY_MB: 256}


def test_conflicting_writers_leave_the_host_unchanged(scene: Scene) -> None:
    held = scene.held()
    upgrade = scene.upgrade(6, *[scene.change] * NOW.attempts)
    with pytest.raises(ConflictStorm):
        reshape(scene.client, scene.host.uuid, upgrade, NOW)
    assert scene.held() == held
    assert PCPU not in scene.client.provider(scene.host.uuid).inventories


def test_a_refused_reshape_leaves_everything_as_it_was(scene: Scene) -> None:
    before = scene.client.use(scene.host.uuid)
    upgrade = scene.upgrade(4)
    with pytest.raises(DoesNotFit):
        reshape(scene.client, scene.host.uuid, upgrade, NOW)
    assert upgrade.readings == 1
    assert scene.client.use(scene.host.uuid) == before


def test_stale_consumer_generation_refuses_the_whole_reshape(scene: Scene) -> None:
    before = scene.client.use(scene.host.uuid)
    action = scene.upgrade(6)(before)
    assert action is not None
    stale = replace(action.consumers[0], generation=(action.consumers[0].generation or 0) + 1)
    with pytest.raises(ConcurrentUpdate):
        scene.client.reshape(replace(action, consumers=(stale, *action.consumers[1:])))
    assert scene.client.use(scene.host.uuid) == before


def test_reshape_with_unknown_class_changes_nothing(scene: Scene) -> None:
    before = scene.client.use(scene.host.uuid)
    action = scene.upgrade(6)(before)
    assert action is not None
    odd = replace(
        action.providers[0], inventories={**action.providers[0].inventories, "CUSTOM_ODD": offering(1)}
    )
    with pytest.raises(PlacementError, match="CUSTOM_ODD"):
        scene.client.reshape(replace(action, providers=(odd,)))
    assert scene.client.use(scene.host.uuid) == before
