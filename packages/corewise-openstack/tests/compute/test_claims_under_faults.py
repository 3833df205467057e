"""Whatever Placement answers, a guest is placed whole or not at all, and nothing is promised twice."""

from __future__ import annotations

import threading

import pytest

from compute.compute_world import World, guest, request, wanted
from compute.faults import Fault, Faulty, down, forbidden, on_writes, storm, unauthorized
from corewise_openstack.compute.errors import GuestExists
from corewise_openstack.compute.ledger import GuestState
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.scheduling import GuestScheduler
from corewise_openstack.compute.verdicts import NoValidHost, Placed
from corewise_openstack.openstack.errors import (
    ConflictStorm,
    PlacementDown,
    PlacementError,
    PlacementForbidden,
    PlacementUnauthorized,
)
from corewise_openstack.openstack.placement_writes import Patience
from corewise_openstack.vocabulary.placement import PCPU
from placement_world import client_of_placement
from placement_world import guest as consumer

DEDICATED = {"hw:cpu_policy": "dedicated"}
HOST = "n1"


def through(world: World, transport: Faulty) -> GuestScheduler:
    return world.scheduler(transport.client())


@pytest.mark.parametrize(
    ("fault", "error"),
    [(unauthorized, PlacementUnauthorized), (forbidden, PlacementForbidden), (storm, ConflictStorm)],
)
def test_refused_claim_leaves_ledger_and_placement_unchanged(
    world: World, fault: Fault, error: type[PlacementError]
) -> None:
    world.host(HOST)
    with pytest.raises(error):
        through(world, Faulty(on_writes(fault))).schedule(*wanted(1, request(8, DEDICATED)))
    assert world.hosts.known[HOST].guests() == {}
    assert world.held(HOST) == {}


@pytest.mark.parametrize("fault", [down, unauthorized, forbidden])
def test_a_placement_that_answers_nothing_costs_nothing(world: World, fault: Fault) -> None:
    world.host(HOST)
    with pytest.raises(PlacementError):
        through(world, Faulty(fault)).schedule(*wanted(1, request(8, DEDICATED)))
    assert world.hosts.known[HOST].guests() == {}


@pytest.mark.parametrize("was_made", [False, True])
def test_unanswered_claim_is_settled_when_placement_is_back(world: World, was_made: bool) -> None:
    world.host(HOST)
    transport = Faulty(on_writes(down))
    if was_made:
        transport.fault = None

        def lose_the_answer(method: str, _path: str) -> None:
            if method == "PUT":
                raise PlacementDown("PUT: the connection was cut")

        transport.after = lose_the_answer
    with pytest.raises(PlacementDown):
        through(world, transport).schedule(*wanted(1, request(8, DEDICATED)))
    (left,) = world.hosts.known[HOST].guests().values()
    assert left.state is GuestState.CLAIMING
    if was_made:
        with pytest.raises(GuestExists):
            world.scheduler().schedule(*wanted(1, request(8, DEDICATED)))
    else:
        assert isinstance(world.scheduler().schedule(*wanted(1, request(8, DEDICATED))), Placed)
    (settled,) = world.hosts.known[HOST].guests().values()
    assert settled.state is GuestState.HELD
    assert world.held(HOST)[PCPU] == 8


def test_cpus_another_tool_claims_first_are_not_retaken(world: World) -> None:
    for name in ("a", "b"):
        world.host(name)
    transport = Faulty()
    other = world.client

    def take_all_of_a(method: str, path: str) -> None:
        if "allocation_candidates" in path:
            transport.after = lambda _method, _path: None
            other.put_consumer(consumer({world.providers["a"]: {PCPU: 16}}))

    transport.after = take_all_of_a
    outcome = through(world, transport).schedule(*wanted(1, request(8, DEDICATED)))
    assert isinstance(outcome, Placed)
    assert outcome.host == "b"
    assert list(outcome.lost) == ["a"]
    assert world.hosts.known["a"].guests() == {}


def test_interrupted_delete_is_finished_by_repeating_it(world: World) -> None:
    world.host(HOST)
    world.scheduler().schedule(*wanted(1, request(8, DEDICATED)))
    with pytest.raises(PlacementDown):
        through(world, Faulty(on_writes(down))).delete(guest(1))
    assert guest(1) in world.hosts.known[HOST].guests()
    world.client.delete_consumer(guest(1))
    assert world.scheduler().delete(guest(1)) == HOST
    assert world.hosts.known[HOST].guests() == {}


def test_eight_concurrent_schedulers_lose_nothing_nor_share_cpus(world: World) -> None:
    for name in ("a", "b"):
        world.host(name)
    asked = request(2, DEDICATED)
    hosts = world.hosts
    outcomes: list[Placed | NoValidHost] = []

    def place_three(first: int) -> None:
        patient = Patience(attempts=50, sleep=lambda _seconds: None)
        offers = PlacementOffers(client_of_placement(), patience=patient)
        scheduler = GuestScheduler(offers, hosts)
        outcomes.extend(scheduler.schedule(*wanted(number, asked)) for number in range(first, first + 3))

    threads = [threading.Thread(target=place_three, args=(1 + 3 * index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    placed = [each for each in outcomes if isinstance(each, Placed)]
    assert (len(placed), len(outcomes)) == (16, 24)
    for name in ("a", "b"):
        guests = hosts.known[name].guests()
        held = [cpu for record in guests.values() for cpu in record.pins.held]
        assert len(held) == len(set(held)) == 16
        assert world.held(name)[PCPU] == 16
        assert {record.state for record in guests.values()} == {GuestState.HELD}


def test_two_schedulers_of_one_guest_place_it_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.host(HOST)
    world.scheduler().schedule(*wanted(1, request(8, DEDICATED)))
    before = world.hosts.known[HOST].guests()
    late = world.scheduler()
    monkeypatch.setattr(late, "_place_of", lambda _guest: "")
    with pytest.raises(GuestExists):
        late.schedule(*wanted(1, request(8, DEDICATED)))
    assert world.hosts.known[HOST].guests() == before
    assert world.held(HOST)[PCPU] == 8
