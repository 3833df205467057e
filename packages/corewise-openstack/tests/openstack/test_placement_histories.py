"""Histories of claims, releases, new totals and reshapes on the real Placement leave what a model says."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from corewise.vocabulary.reasons import Reason
from corewise_openstack.actions import Reshape, WriteInventories
from corewise_openstack.openstack.placement_writes import claim, keep_provider, reshape
from corewise_openstack.vocabulary.placement import PCPU, VCPU, Consumer, Provider, ProviderUse
from placement_world import client_of_placement, emptied, host, offering, pinned_guest

AMOUNTS = st.integers(1, 6)


class Histories(RuleBasedStateMachine):
    """Two hosts; the model is who holds how much of which class where."""

    guests: Bundle[str] = Bundle("guests")

    @initialize(totals=st.lists(st.integers(2, 12), min_size=2, max_size=2))
    def begin(self, totals: list[int]) -> None:
        self.client = emptied(client_of_placement())
        self.hosts = [host(self.client, PCPU=total, VCPU=4).uuid for total in totals]
        self.totals = dict(zip(self.hosts, totals, strict=True))
        self.held: dict[str, tuple[str, str, int]] = {}

    @rule(target=guests, number=st.integers(0, 1), amount=AMOUNTS)
    def claims(self, number: int, amount: int) -> MultipleResults[str] | str:
        uuid = self.hosts[number]
        wanted = pinned_guest(Provider(uuid, "", 0), amount)
        fits = amount <= self.totals[uuid] - self._used(uuid, PCPU)
        assert (claim(self.client, wanted) is None) == fits
        if not fits:
            return multiple()
        self.held[wanted.uuid] = (uuid, PCPU, amount)
        return wanted.uuid

    @rule(guest=consumes(guests))
    def releases(self, guest: str) -> None:
        assert self.client.delete_consumer(guest)
        del self.held[guest]

    @rule(number=st.integers(0, 1), total=st.integers(1, 12))
    def changes_a_total(self, number: int, total: int) -> None:
        uuid = self.hosts[number]

        def decide(provider: Provider) -> WriteInventories | None:
            wanted = {**provider.inventories, PCPU: offering(total)}
            if wanted == provider.inventories:
                return None
            return WriteInventories(uuid, provider.generation, wanted, Reason.INVENTORY_REPORTED, "")

        keep_provider(self.client, uuid, decide)
        self.totals[uuid] = total

    @rule(number=st.integers(0, 1))
    def moves_all_that_fits_from_one_class_to_the_other(self, number: int) -> None:
        uuid = self.hosts[number]
        amount = self._used(uuid, PCPU)

        def plan(use: ProviderUse) -> Reshape:
            wanted = {**use.provider.inventories, VCPU: offering(max(4, amount + self._used(uuid, VCPU)))}
            moved = tuple(_moved(each, uuid) for each in use.consumers)
            return Reshape((replace(use.provider, inventories=wanted),), moved, Reason.GUESTS_RESHAPED, "")

        reshape(self.client, uuid, plan)
        for guest, (where, _, held) in self.held.items():
            if where == uuid:
                self.held[guest] = (where, VCPU, held)

    @invariant()
    def as_much_is_held_as_the_model_says(self) -> None:
        for uuid in getattr(self, "hosts", []):
            assert self.client.usages(uuid) == {name: self._used(uuid, name) for name in (PCPU, VCPU)}

    def teardown(self) -> None:
        for uuid in getattr(self, "hosts", []):
            use = self.client.use(uuid)
            held = {each.uuid: dict(each.allocations[uuid]) for each in use.consumers}
            model = {guest: {name: n} for guest, (where, name, n) in self.held.items() if where == uuid}
            assert held == model
            assert use.provider.inventories[PCPU].total == self.totals[uuid]

    def _used(self, uuid: str, name: str) -> int:
        return sum(n for where, held, n in self.held.values() if (where, held) == (uuid, name))


def _moved(consumer: Consumer, uuid: str) -> Consumer:
    return replace(consumer, allocations={uuid: {VCPU: sum(consumer.allocations[uuid].values())}})


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=5, stateful_step_count=12, deadline=None)
