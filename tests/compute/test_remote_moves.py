"""Moves between hosts whose agents have the ledgers: as with ledgers in a directory, whatever is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute.compute_world import (
    DOCUMENT,
    IMPATIENT,
    World,
    guest,
    hosts_in,
    put_host,
    report,
    request,
    wanted,
)
from compute.ledger_agents import Certificates, Running, agent_options, running
from compute.test_moves import (
    GUEST,
    MOVE,
    Command,
    Stage,
    confirm,
    ended,
    every_kill,
    larger,
    moved,
    revert,
    to_b,
)
from corewise.compute.errors import AgentFailed, AgentUnreachable, GuestNotMoving
from corewise.compute.hosts import Hosts
from corewise.compute.moving import GuestMover, WantedMove
from corewise.compute.placement import PlacementOffers
from corewise.compute.remote import RemoteAgent
from corewise.openstack.placement_client import PlacementClient
from corewise.vocabulary.metrics import COMPUTE_CLAIMS
from corewise.vocabulary.reasons import Reason

DEDICATED = {"hw:cpu_policy": "dedicated"}


class FarWorld(World):
    """Hosts with agents, which schedulers know by their addresses alone."""

    def __init__(self, folder: Path, client: PlacementClient) -> None:
        super().__init__(folder / "hosts", client)
        self.folder.mkdir()
        self.certificates = Certificates(folder)
        self.agents: dict[str, Running] = {}
        self._ends = ExitStack()
        self._known: Hosts | None = None

    def host(self, name: str, options: Mapping[str, str] = DOCUMENT, **shape: int) -> None:
        put_host(self.folder, name, options, **shape)
        self.providers[name] = report(self.client, hosts_in(self.folder).known[name])
        own = agent_options(self.certificates, name, options, **shape)
        self.agents[name] = self._ends.enter_context(running(self.certificates, own))
        self._known = None

    @property
    def hosts(self) -> Hosts:
        if self._known is None:
            self._known = self.certificates.hosts(*self.agents.values())
        return self._known

    def on_kill(self) -> None:
        for each in self.certificates.callers:
            each.close()

    def end(self) -> None:
        self._ends.close()

    def agent(self, name: str) -> RemoteAgent:
        found = self.hosts.known[name].agent
        assert isinstance(found, RemoteAgent)
        return found


@contextmanager
def far(tmp_path: Path, client: PlacementClient) -> Iterator[Stage]:
    world = FarWorld(tmp_path, client)
    try:
        yield Stage(world)
    finally:
        world.end()


@pytest.fixture
def stage(world: World, tmp_path: Path) -> Iterator[Stage]:
    with far(tmp_path, world.client) as made:
        yield made


def far_world(stage: Stage) -> FarWorld:
    assert isinstance(stage.world, FarWorld)
    return stage.world


@pytest.mark.parametrize("begin", [to_b, larger])
@pytest.mark.parametrize("ending", [confirm, revert])
def test_a_move_ends_confirmed_or_as_it_was(stage: Stage, begin: Command, ending: Command) -> None:
    begin(stage)
    moved(stage, begin)
    ending(stage)
    ended(stage, begin, at="after" if ending is confirm else "before")
    assert far_world(stage).agents["a"].counted(COMPUTE_CLAIMS, "step") >= 2


@pytest.mark.parametrize("then", ["again", "revert"])
def test_a_move_that_is_killed_between_any_two_steps_is_finished_or_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    for stage in every_kill(tmp_path, monkeypatch, to_b, kind=FarWorld):
        if then == "again":
            to_b(stage)
            moved(stage, to_b)
            continue
        with suppress(GuestNotMoving):  # it was killed before it was claimed
            revert(stage)
        ended(stage, to_b, at="before")


def test_an_ending_that_is_killed_between_any_two_steps_is_finished_by_repeating_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stage in every_kill(tmp_path, monkeypatch, confirm, prepare=to_b, kind=FarWorld):
        with suppress(GuestNotMoving):  # it was killed after its last step
            confirm(stage)
        ended(stage, to_b, at="after")


def test_a_guest_is_evacuated_by_the_directory_of_a_host_whose_agent_is_down(stage: Stage) -> None:
    world = far_world(stage)
    dead = hosts_in(world.folder).known["a"]
    mixed = Hosts({"a": dead, "b": world.hosts.known["b"]}, {})
    offers = PlacementOffers(world.client, patience=IMPATIENT)
    os.utime(world.folder / "a" / "reported", (1000, 1000))
    mover = GuestMover(offers, mixed)
    mover.begin(WantedMove(GUEST, "b", MOVE, evacuate=True))
    moved(stage, to_b)
    mover.confirm(GUEST)
    ended(stage, to_b, at="after")


def test_an_agent_records_no_step_that_concerns_other_guests_or_takes_their_cpus(stage: Stage) -> None:
    for number in (2, 3):
        stage.world.scheduler().schedule(wanted(number, request(4, DEDICATED)))
    larger(stage)
    host = far_world(stage).hosts.known["a"]
    with host.ledger.changing() as locked:
        before = locked.host.guests
        assert before.keys() == {GUEST, MOVE, guest(3)}
        taken = replace(before[GUEST], cells=before[guest(3)].cells)
        for after, words in (
            ({GUEST: before[GUEST], MOVE: before[MOVE]}, "not a step of the move of one guest"),
            ({}, "not a step of the move of one guest"),
            ({**before, GUEST: taken}, f"are held by {guest(3)}"),
        ):
            with pytest.raises(AgentFailed, match=words) as refused:
                locked.write(after)
            assert refused.value.reason is Reason.MOVE_REFUSED
    assert host.guests() == before


def test_who_has_no_lock_records_nothing_and_who_loses_it_is_told(stage: Stage) -> None:
    agent = far_world(stage).agent("a")
    with pytest.raises(AgentFailed, match="this connection has not locked the ledger of host a"):
        agent._send("PATCH", "/v1/lock", b'{"guests": {}}', wait=10)
    with agent.changing() as change:
        agent.close()
        with pytest.raises(AgentUnreachable, match="the lock of its ledger, is lost"):
            change.write({})
    with agent.changing() as change:  # the agent has released it
        assert list(change.host.guests) == [GUEST]
