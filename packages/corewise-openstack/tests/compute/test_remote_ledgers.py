"""Ledgers over HTTPS, with real sockets and the real Placement: claims are decided by the host's agent.

========================================= =============================================================
what happens                              then
========================================= =============================================================
two schedulers want the last CPUs         one gets them, the other goes to the next host
a claim is sent twice                     the same CPUs, claimed once
the answer to a claim is lost             it is asked for again
the agent dies before it claims           nothing is claimed, and the CPUs are free again
the agent dies after it has claimed       the guest is on the host
the agent is down                         the host is left out, and the explanation says so
========================================= =============================================================
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from compute.compute_world import IMPATIENT, World, guest, hosts_in, request, wanted
from compute.ledger_agents import Certificates, Running, agent_options, running
from corewise.vocabulary.metrics import COMPUTE_CLAIMS
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.hosts import Hosts
from corewise_openstack.compute.offers import LocalOffers
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.scheduling import GuestScheduler
from corewise_openstack.compute.verdicts import NoValidHost, Placed
from corewise_openstack.vocabulary.placement import PCPU, VCPU
from placement_world import client_of_placement

DEDICATED = {"hw:cpu_policy": "dedicated"}


@pytest.fixture
def certificates(tmp_path: Path, world: World) -> Certificates:
    """Certificates, in front of a Placement without providers."""
    return Certificates(tmp_path)


@pytest.fixture
def a(certificates: Certificates) -> Iterator[Running]:
    with running(certificates, agent_options(certificates, "a")) as agent:
        yield agent


@pytest.fixture
def b(certificates: Certificates) -> Iterator[Running]:
    with running(certificates, agent_options(certificates, "b")) as agent:
        yield agent


def scheduler(hosts: Hosts) -> GuestScheduler:
    return GuestScheduler(PlacementOffers(client_of_placement(), patience=IMPATIENT), hosts)


def held(world: World, name: str) -> int:
    """The dedicated CPUs that guests hold of a host in Placement."""
    provider = world.client.find_provider(name)
    assert provider is not None
    return world.client.usages(provider.uuid).get(PCPU, 0)


def test_guest_is_placed_and_released_by_its_agent(
    world: World, certificates: Certificates, a: Running
) -> None:
    hosts = certificates.hosts(a)
    placed = scheduler(hosts).schedule(*wanted(1, request(4, DEDICATED)))
    assert isinstance(placed, Placed)
    ledger = hosts_in(certificates.folder / "hosts").known["a"].guests()
    assert ledger == {guest(1): placed.record} == hosts.known["a"].guests()
    assert held(world, "a") == 4
    assert scheduler(certificates.hosts(a)).delete(guest(1)) == "a"
    assert (hosts.known["a"].guests(), held(world, "a")) == ({}, 0)
    assert [a.counted(COMPUTE_CLAIMS, each) for each in ("claimed", "released")] == [1, 1]


def test_last_cpus_go_to_one_scheduler_other_continues(
    world: World, certificates: Certificates, a: Running, b: Running
) -> None:
    first = certificates.hosts(a, b)
    seen = [certificates.hosts(a, b) for _ in range(2)]
    assert isinstance(scheduler(first).schedule(*wanted(9, request(14, DEDICATED))), Placed)
    outcomes: dict[int, Placed | NoValidHost] = {}
    meet = threading.Barrier(2)

    def race(number: int) -> None:
        offers = LocalOffers(seen[number])  # no Placement of its own: it has what it read before
        racing = GuestScheduler(offers, seen[number])
        meet.wait(10)
        outcomes[number] = racing.schedule(*wanted(number, request(14, DEDICATED)))

    threads = [threading.Thread(target=race, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    placed = [each for each in outcomes.values() if isinstance(each, Placed)]
    assert len(placed) == 1
    (lost,) = [each for each in outcomes.values() if isinstance(each, NoValidHost)]
    assert "none of 2 hosts" in lost.message
    assert (held(world, "a"), held(world, "b")) == (14, 14)


def test_repeated_claim_gets_the_same_cpus_once(
    world: World, certificates: Certificates, a: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = certificates.hosts(a)
    late = scheduler(certificates.hosts(a))
    first = scheduler(hosts).schedule(*wanted(1, request(4, DEDICATED)))
    monkeypatch.setattr(late, "_place_of", lambda _guest: "")
    again = late.schedule(*wanted(1, request(4, DEDICATED)))
    assert isinstance(first, Placed)
    assert isinstance(again, Placed)
    assert first.record == again.record
    assert (held(world, "a"), a.counted(COMPUTE_CLAIMS, "repeated")) == (4, 1)


@pytest.mark.parametrize(
    ("trait", "reason"),
    [("COMPUTE_STATUS_DISABLED", Reason.HOST_DISABLED), ("COMPUTE_NODE", Reason.PROVIDER_OF_NOVA)],
)
def test_agent_refuses_what_its_provider_forbids(
    world: World, certificates: Certificates, a: Running, trait: str, reason: Reason
) -> None:
    hosts = certificates.hosts(a)
    provider = world.client.find_provider("a")
    assert provider is not None
    traits = provider.traits | {trait}
    world.client.put_traits(provider.uuid, provider.generation, traits)
    none = GuestScheduler(LocalOffers(hosts), hosts).schedule(*wanted(1, request(4, DEDICATED)))
    assert isinstance(none, NoValidHost)
    assert [each.reason for each in none.eliminated] == [reason]
    assert held(world, "a") == 0


def test_legacy_agent_takes_isolated_emulator_threads(certificates: Certificates) -> None:
    isolated = request(4, DEDICATED | {"hw:emulator_threads_policy": "isolate"})
    with running(certificates, agent_options(certificates, "old", {})) as old:
        hosts = certificates.hosts(old)
        placed = GuestScheduler(LocalOffers(hosts), hosts).schedule(*wanted(1, isolated))
        assert isinstance(placed, Placed)
        assert placed.record.resources[VCPU] == 4
        assert len(placed.record.pins.held) == 5


def test_serving_agent_that_stops_reporting_gets_no_guest(
    world: World, certificates: Certificates, a: Running
) -> None:
    hosts = certificates.hosts(a)
    os.utime(certificates.folder / "hosts" / "a" / "reported", (1000, 1000))
    none = scheduler(hosts).schedule(*wanted(1, request(4, DEDICATED)))
    assert isinstance(none, NoValidHost)
    assert [each.reason for each in none.eliminated] == [Reason.HOST_SILENT]


def test_host_with_a_down_agent_is_visibly_excluded(
    world: World, certificates: Certificates, a: Running
) -> None:
    with running(certificates, agent_options(certificates, "b")) as b:
        hosts = certificates.hosts(a, b)
        url = b.url
    placed = scheduler(hosts).schedule(*wanted(1, request(16, DEDICATED)))
    assert isinstance(placed, Placed)
    assert placed.host == "a"
    down = certificates.of([("", a.url), ("b", url)])
    assert list(down.unusable) == ["b"]
    none = scheduler(down).schedule(*wanted(2, request(16, DEDICATED)))
    assert isinstance(none, NoValidHost)
    assert Reason.AGENT_UNREACHABLE in {each.reason for each in none.eliminated}
    assert any("cannot connect: Connection refused" in each for each in none.details)
