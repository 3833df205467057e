"""Moves between hosts whose agents have the ledgers: as with ledgers in a directory, whatever is killed."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import msgspec
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
from compute.ledger_agents import PATIENCE, Certificates, Running, agent_options, running
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
from corewise.vocabulary.metrics import COMPUTE_CLAIMS
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.errors import AgentFailed, AgentUnreachable, GuestNotMoving
from corewise_openstack.compute.hosts import Hosts
from corewise_openstack.compute.ledger import GuestClaim
from corewise_openstack.compute.ledger_api import LedgerPatch
from corewise_openstack.compute.moving import GuestMover, WantedMove
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.remote import RemoteAgent
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.vocabulary.guests import GuestCPUs

DEDICATED = {"hw:cpu_policy": "dedicated"}


class FarWorld(World):
    """Hosts with agents, which schedulers know by their addresses alone."""

    def __init__(self, folder: Path, client: PlacementClient) -> None:
        super().__init__(folder / "hosts", client)
        self.folder.mkdir()
        self._shapes: dict[str, tuple[Mapping[str, str], Mapping[str, int]]] = {}
        self.certificates = Certificates(folder)
        self.agents: dict[str, Running] = {}
        self._ends = ExitStack()
        self._known: Hosts | None = None

    def host(self, name: str, options: Mapping[str, str] = DOCUMENT, **shape: int) -> None:
        put_host(self.folder, name, options, **shape)
        self.providers[name] = report(self.client, hosts_in(self.folder).known[name])
        self._run(name, options, shape)

    def _run(self, name: str, options: Mapping[str, str], shape: Mapping[str, int]) -> None:
        self._shapes[name] = options, shape
        own = agent_options(self.certificates, name, options, **shape)
        self.agents[name] = self._ends.enter_context(running(self.certificates, own))
        self._known = None

    def copied(self, folder: Path) -> Self:
        made = super().copied(folder)
        for name, (options, shape) in self._shapes.items():
            made._run(name, options, shape)
        return made

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
        yield Stage.on(world)
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
def test_move_killed_at_any_step_finishes_or_reverts(
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


def test_ending_killed_at_any_step_finishes_by_repetition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stage in every_kill(tmp_path, monkeypatch, confirm, prepare=to_b, kind=FarWorld):
        with suppress(GuestNotMoving):  # it was killed after its last step
            confirm(stage)
        ended(stage, to_b, at="after")


def test_guest_is_evacuated_through_its_dead_hosts_directory(stage: Stage) -> None:
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


def test_agent_refuses_steps_that_affect_other_guests(stage: Stage) -> None:
    for number in (2, 3):
        stage.world.scheduler().schedule(*wanted(number, request(4, DEDICATED)))
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


def test_writes_need_the_lock_and_losing_it_shows(stage: Stage) -> None:
    agent = far_world(stage).agent("a")
    with pytest.raises(AgentFailed, match="this connection has not locked the ledger of host a"):
        agent._send("PATCH", "/v1/lock", b'{"guests": {}}', wait=10)
    with agent.changing() as change:
        agent.close()
        with pytest.raises(AgentUnreachable, match="the lock of its ledger, is lost"):
            change.write({})
    with agent.changing() as change:  # the agent has released it
        assert list(change.host.guests) == [GUEST]


IMPOSSIBLE: list[tuple[tuple[str | int, ...], object, str]] = [
    (("cells", 0, "pins", "0"), 10**9, "CPU 1000000000 is not between 0 and 8191"),
    (("cells", 0, "pins", "0"), 8192, "CPU 8192 is not between 0 and 8191"),
    (("cells", 0, "pins", "0"), -1, "CPU -1 is not between 0 and 8191"),
    (("cells", 0, "pins", "0"), 2**63, f"CPU {2**63} is not between 0 and 8191"),
    (("cells", 0, "pins", "8192"), 0, "guest CPU 8192 is not between 0 and 8191"),
    (("cells", 0, "floating"), [-1], "guest CPU -1 is not between 0 and 8191"),
    (("cells", 0, "node"), -1, "NUMA node -1 is not between 0 and 8191"),
    (("cells", 0, "memory_mb"), 2**31, f"memory_mb {2**31} is not between 0 and {2**31 - 1}"),
    (("emulator",), 10**9, "CPU of its emulator threads 1000000000 is not between 0 and 8191"),
    (("withheld",), [8192], "withheld CPU 8192 is not between 0 and 8191"),
    (("realtime",), [2**63], f"realtime guest CPU {2**63} is not between 0 and 8191"),
    (("vcpus",), 10**9, "vcpus 1000000000 is not between 1 and 8192"),
    (("resources", "PCPU"), 2**70, f"amount {2**70} is not between 0 and {2**31 - 1}"),
    (("move", "after", "p"), {"PCPU": -1}, f"amount -1 is not between 0 and {2**31 - 1}"),
]


def test_impossible_number_is_refused_by_its_name(stage: Stage) -> None:
    larger(stage)
    host, agent = far_world(stage).hosts.known["a"], far_world(stage).agent("a")
    before = host.guests()
    for place, number, words in IMPOSSIBLE:
        body = json.loads(msgspec.json.encode(LedgerPatch({GUEST: before[GUEST]})))
        inner = body["guests"][GUEST]
        for part in place[:-1]:
            inner = inner[part]
        inner[place[-1]] = number
        with (
            host.ledger.changing(),
            pytest.raises(AgentFailed, match=f"answers 400: .*{GUEST}'?: {words}"),
        ):
            agent._send("PATCH", "/v1/lock", json.dumps(body).encode(), wait=10)
    assert host.guests() == before


def test_claim_beyond_any_machines_cpus_is_refused(stage: Stage) -> None:
    claim = GuestClaim(guest(9), GuestCPUs(10**9), {"": {"VCPU": 1}})
    with pytest.raises(AgentFailed, match="vcpus 1000000000 is not between 1 and 8192"):
        far_world(stage).agent("a").take(claim)


def test_lock_waiters_leave_reads_answered_and_excess_refused(stage: Stage) -> None:
    world = far_world(stage)
    server = world.agents["a"].server
    answers: list[str] = []

    def lock(agent: RemoteAgent) -> None:
        try:
            with agent.changing():
                answers.append("locked")
        except AgentFailed as error:
            answers.append(str(error))

    callers = [RemoteAgent(world.agents["a"].url, world.certificates.caller(), name="a") for _ in range(12)]
    waiting = [threading.Thread(target=lock, args=(each,)) for each in callers[:8]]
    with hosts_in(world.folder).known["a"].ledger.changing():
        for thread in waiting:
            thread.start()
        deadline = time.monotonic() + PATIENCE
        while len(server._waiting) < len(waiting):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for each in callers[8:]:
            with (
                pytest.raises(AgentFailed, match="8 requests wait already to lock the ledger") as refused,
                each.changing(),
            ):
                pass
            assert refused.value.reason is Reason.LEDGER_BUSY
            assert each.host().name == "a"
    for thread in waiting:
        thread.join(PATIENCE)
    assert answers == ["locked"] * len(waiting)
    assert not server._waiting
    for each in callers:
        each.close()
