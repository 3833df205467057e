"""Moves against the real Placement: whatever dies between two steps, the same command finishes the move.

A step is a write of a ledger or a request that changes Placement. Each case is killed after its first step,
after its second, and so on, until it is not killed any more; after each kill the guest has a claim, no CPU
is given twice, and the next command brings ledgers and Placement to one end: moved, or as before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compute.compute_world import IMPATIENT, World, guest, request, wanted
from compute.faults import Faulty, down, on_writes
from corewise.quantities import Bytes
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.adoption import follow
from corewise_openstack.compute.errors import (
    GuestMoving,
    GuestNotMoving,
    GuestUnknown,
    PlacementNotNamed,
    SourceAlive,
)
from corewise_openstack.compute.ledger import GuestState, HostRecord, LedgerFile, MovePhase
from corewise_openstack.compute.moving import GuestMover, WantedMove
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.remote import RemoteAgent
from corewise_openstack.compute.verdicts import NoValidHost, Placed
from corewise_openstack.openstack.errors import PlacementDown
from corewise_openstack.openstack.libvirt_xml import Domain
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.vocabulary.placement import MEMORY_MB, MIGRATION, PCPU, VCPU
from placement_world import SavedPlacement, client_of_placement, emptied

DEDICATED = {"hw:cpu_policy": "dedicated"}
GUEST, MOVE = guest(1), guest(77)
SMALL, LARGE = {PCPU: 4, MEMORY_MB: 1024}, {PCPU: 6, MEMORY_MB: 1024}


class Killed(BaseException):
    """A kill -9: no handler of an error sees it."""


class Stage:
    """Two hosts, a guest of four CPUs on the first, and whoever moves it."""

    def __init__(self, world: World, first: Placed) -> None:
        self.world = world
        self.first = first

    @classmethod
    def on(cls, world: World) -> Stage:
        world.host("a")
        first = world.scheduler().schedule(*wanted(1, request(4, DEDICATED)))
        assert isinstance(first, Placed)
        world.host("b")
        return cls(world, first)

    def mover(self, client: PlacementClient | None = None, **more: Any) -> GuestMover:
        offers = PlacementOffers(client or self.world.client, patience=IMPATIENT)
        return GuestMover(offers, self.world.hosts, **more)

    def held(self, uuid: str) -> Mapping[str, Mapping[str, int]]:
        """Return a consumer's allocations: host -> class -> amount."""
        names = {provider: name for name, provider in self.world.providers.items()}
        consumer = self.world.client.consumer(uuid)
        return {} if consumer is None else {names[each]: held for each, held in consumer.allocations.items()}

    def entries(self) -> dict[str, list[str]]:
        return {name: sorted(host.guests()) for name, host in self.world.hosts.known.items()}

    def check(self) -> None:
        """Check the invariants of every moment."""
        assert self.held(GUEST), "the guest has no claim"
        for name, host in self.world.hosts.known.items():
            guests = host.guests()
            cpus = [cpu for record in guests.values() for cpu in record.pins.held]
            assert len(cpus) == len(set(cpus))
            in_placement = self.world.held(name).get(PCPU, 0)
            assert in_placement <= len(cpus), "Placement has given CPUs that no ledger holds"
            assert self.held(GUEST).keys() <= {name for name, each in self.entries().items() if each}

    def check_agreement(self) -> None:
        """Check the invariants at rest: each entry holds in Placement what its ledger says."""
        for name, host in self.world.hosts.known.items():
            for uuid, record in host.guests().items():
                assert record.state is GuestState.HELD
                assert self.held(uuid)[name] == record.resources
            assert self.world.held(name).get(PCPU, 0) == sum(
                record.resources[PCPU] for record in host.guests().values()
            )


@pytest.fixture
def stage(world: World) -> Stage:
    return Stage.on(world)


def to_b(stage: Stage, client: PlacementClient | None = None) -> object:
    return stage.mover(client).begin(WantedMove(GUEST, "b", MOVE))


def larger(stage: Stage, client: PlacementClient | None = None) -> object:
    return stage.mover(client).begin(WantedMove(GUEST, "a", MOVE, request(6, DEDICATED), "larger"))


def confirm(stage: Stage, client: PlacementClient | None = None) -> object:
    return stage.mover(client).confirm(GUEST)


def revert(stage: Stage, client: PlacementClient | None = None) -> object:
    return stage.mover(client).revert(GUEST)


Command = Callable[..., object]


@contextmanager
def killed_after(steps: int, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlacementClient]:
    """Kill after so many steps; the client is the one whose requests count."""
    left = [steps]

    def step() -> None:
        left[0] -= threading.current_thread() is threading.main_thread()  # and not in an agent
        if left[0] == 0:
            left[0] = -1
            world.on_kill()
            raise Killed

    write = LedgerFile._write

    def written(self: LedgerFile, serial: int, host: HostRecord) -> None:
        write(self, serial, host)
        step()

    send = RemoteAgent._send

    def sent(self: RemoteAgent, method: str, *more: Any, **options: Any) -> bytes:
        answer = send(self, method, *more, **options)
        if method == "PATCH":
            step()
        return answer

    transport = Faulty()
    transport.after = lambda method, _path: step() if method != "GET" else None
    with monkeypatch.context() as patch:
        patch.setattr(LedgerFile, "_write", written)
        patch.setattr(RemoteAgent, "_send", sent)
        yield transport.client()


def kills(stage: Stage, command: Command, monkeypatch: pytest.MonkeyPatch, steps: int) -> bool:
    """Whether a command was killed after so many steps; it must have come to its end otherwise."""
    with killed_after(steps, stage.world, monkeypatch) as client:
        try:
            command(stage, client)
        except Killed:
            return True
    return False


def moved(stage: Stage, begin: Command) -> None:
    """The guest has the new claim, and the migration the old one."""
    host, resources = ("b", SMALL) if begin is to_b else ("a", LARGE)
    assert (stage.held(GUEST), stage.held(MOVE)) == ({host: resources}, {"a": SMALL})
    expected = {"a": [MOVE], "b": [GUEST]} if begin is to_b else {"a": [GUEST, MOVE], "b": []}
    assert stage.entries() == expected
    stage.check_agreement()


def ended(stage: Stage, begin: Command, *, at: str) -> None:
    """The guest has one claim, where it is."""
    before = at == "before"
    host = "a" if before or begin is larger else "b"
    assert stage.held(GUEST) == {host: SMALL if before or begin is to_b else LARGE}
    assert stage.held(MOVE) == {}
    assert stage.entries() == {"a": [], "b": []} | {host: [GUEST]}
    record = stage.world.hosts.known[host].guests()[GUEST]
    assert record.move is None
    assert record.flavor == ("f" if before or begin is to_b else "larger")
    if before:
        assert record.pins == stage.first.record.pins
    stage.check_agreement()


BEGINS = pytest.mark.parametrize("begin", [to_b, larger])


@BEGINS
@pytest.mark.parametrize("ending", [confirm, revert])
def test_a_move_ends_confirmed_or_as_it_was(stage: Stage, begin: Command, ending: Command) -> None:
    begin(stage)
    moved(stage, begin)
    migration = stage.world.client.consumer(MOVE)
    assert migration is not None
    assert migration.type == MIGRATION
    ending(stage)
    ended(stage, begin, at="after" if ending is confirm else "before")
    with pytest.raises(GuestNotMoving):
        ending(stage)


def empty_folder(path: Path) -> Path:
    path.mkdir()
    return path


def every_kill(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
    prepare: Command | None = None,
    kind: type[World] = World,
) -> Iterator[Stage]:
    """Yield a new stage for each step after which the command can be killed; all begin the same."""
    before = Stage.on(kind(empty_folder(folder / "before"), emptied(client_of_placement())))
    if prepare is not None:
        prepare(before)
    before.world.end()
    placement = SavedPlacement()
    steps = 0
    killed = True
    while killed:
        steps += 1
        placement.restore()
        world = before.world.copied(empty_folder(folder / str(steps)))
        stage = Stage(world, before.first)
        killed = kills(stage, command, monkeypatch, steps)
        stage.check()
        if killed:
            yield stage
        world.end()
    assert steps > 3


@BEGINS
@pytest.mark.parametrize("then", ["again", "revert"])
def test_move_killed_at_any_step_finishes_or_reverts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: Command, then: str
) -> None:
    for stage in every_kill(tmp_path, monkeypatch, begin):
        if then == "again":
            begin(stage)
            moved(stage, begin)
            continue
        with suppress(GuestNotMoving):  # it was killed before it was claimed
            revert(stage)
        ended(stage, begin, at="before")


@BEGINS
@pytest.mark.parametrize(("ending", "other"), [(confirm, revert), (revert, confirm)])
def test_ending_killed_at_any_step_finishes_by_repetition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: Command, ending: Command, other: Command
) -> None:
    for stage in every_kill(tmp_path, monkeypatch, ending, prepare=begin):
        with pytest.raises((GuestMoving, GuestNotMoving)):
            other(stage)
        with suppress(GuestNotMoving):  # it was killed after its last step
            ending(stage)
        ended(stage, begin, at="after" if ending is confirm else "before")


@BEGINS
@pytest.mark.parametrize("was_made", [False, True])
def test_unanswered_claim_is_settled_by_the_next_command(
    stage: Stage, begin: Command, was_made: bool
) -> None:
    transport = Faulty(None if was_made else on_writes(down))

    def lose(method: str, _path: str) -> None:
        if method == "PUT":
            raise PlacementDown("PUT: the connection was cut")

    transport.after = lose
    with pytest.raises(PlacementDown):
        begin(stage, transport.client())
    begin(stage)
    moved(stage, begin)


def test_moving_guest_is_neither_deleted_nor_moved_elsewhere(stage: Stage) -> None:
    stage.world.host("c")
    to_b(stage)
    with pytest.raises(GuestMoving, match=r"from host a to host b \(moved\)"):
        stage.world.scheduler().delete(GUEST)
    with pytest.raises(GuestMoving):
        stage.mover().begin(WantedMove(GUEST, "c", guest(78)))
    before = stage.entries()
    to_b(stage)  # the same again is nothing new
    assert stage.entries() == before
    assert stage.held(GUEST) == {"b": SMALL}


OTHERS: Mapping[str, tuple[WantedMove, WantedMove]] = {
    "another flavor in place": (
        WantedMove(GUEST, "a", MOVE, request(6, DEDICATED), "larger"),
        WantedMove(GUEST, "a", guest(78), request(5, DEDICATED), "smaller"),
    ),
    "another name of the flavor": (
        WantedMove(GUEST, "a", MOVE, request(6, DEDICATED), "larger"),
        WantedMove(GUEST, "a", guest(78), request(6, DEDICATED), "other"),
    ),
    "other memory": (
        WantedMove(GUEST, "b", MOVE, request(6, DEDICATED), "larger"),
        WantedMove(GUEST, "b", guest(78), request(6, DEDICATED, ram=2048), "larger"),
    ),
    "another policy for its threads": (
        WantedMove(GUEST, "b", MOVE, request(6, DEDICATED), "larger"),
        WantedMove(
            GUEST, "b", guest(78), request(6, DEDICATED | {"hw:cpu_thread_policy": "require"}), "larger"
        ),
    ),
    "a resize after a move": (
        WantedMove(GUEST, "b", MOVE),
        WantedMove(GUEST, "b", guest(78), request(6, DEDICATED), "larger"),
    ),
    "a move after a resize": (
        WantedMove(GUEST, "b", MOVE, request(6, DEDICATED), "larger"),
        WantedMove(GUEST, "b", guest(78)),
    ),
    "a move after a resize in place": (
        WantedMove(GUEST, "a", MOVE, request(6, DEDICATED), "larger"),
        WantedMove(GUEST, "a", guest(78)),
    ),
}
"""The unfinished move, and another one of the same guest to the same host."""


@pytest.mark.parametrize("case", OTHERS)
def test_unfinished_move_refuses_another_size(stage: Stage, case: str) -> None:
    first, second = OTHERS[case]
    stage.mover().begin(first)
    before = stage.entries(), stage.held(GUEST), stage.held(MOVE)
    with pytest.raises(GuestMoving, match=r"is being moved from host a"):
        stage.mover().begin(second)
    assert (stage.entries(), stage.held(GUEST), stage.held(MOVE)) == before


@pytest.mark.parametrize("host", ["a", "b"])
def test_resize_without_a_flavor_name_is_continued(stage: Stage, host: str) -> None:
    unnamed = WantedMove(GUEST, host, MOVE, request(6, DEDICATED))
    assert stage.mover().begin(unnamed) == stage.mover().begin(unnamed)


@pytest.mark.parametrize("command", [confirm, revert, lambda stage: stage.world.scheduler().delete(GUEST)])
def test_another_placement_changes_no_claim(stage: Stage, command: Command) -> None:
    if command in {confirm, revert}:
        to_b(stage)
    for host in stage.world.hosts.known.values():
        with host.ledger.changing() as change:
            change.write(
                {each: replace(record, provider=guest(500)) for each, record in change.host.guests.items()}
            )
    before = stage.entries(), stage.held(GUEST), stage.held(MOVE)
    with pytest.raises(PlacementNotNamed, match="in another Placement"):
        command(stage)
    assert (stage.entries(), stage.held(GUEST), stage.held(MOVE)) == before


def test_a_destination_without_room_changes_nothing(stage: Stage) -> None:
    for number in range(2, 20):
        stage.world.scheduler().schedule(*wanted(number, request(4, DEDICATED)))
    before = stage.entries()
    refusal = to_b(stage)
    assert isinstance(refusal, Finding)
    assert refusal.reason is Reason.DEDICATED_CPUS_INSUFFICIENT
    assert (stage.entries(), stage.held(MOVE)) == (before, {})


def test_move_refuses_disabled_silent_and_nova_hosts(stage: Stage, tmp_path: Path) -> None:
    provider = stage.world.client.provider(stage.world.providers["b"])
    for trait, reason in (
        ("COMPUTE_STATUS_DISABLED", Reason.HOST_DISABLED),
        ("COMPUTE_NODE", Reason.PROVIDER_OF_NOVA),
    ):
        there = stage.world.client.provider(provider.uuid)
        stage.world.client.put_traits(provider.uuid, there.generation, provider.traits | {trait})
        refusal = to_b(stage)
        assert isinstance(refusal, Finding)
        assert refusal.reason is reason
    there = stage.world.client.provider(provider.uuid)
    stage.world.client.put_traits(provider.uuid, there.generation, provider.traits)
    (tmp_path / "b" / "reported").touch()
    os.utime(tmp_path / "b" / "reported", (1000, 1000))
    refusal = to_b(stage)
    assert isinstance(refusal, Finding)
    assert refusal.reason is Reason.HOST_SILENT


GOLD, OLD = "CUSTOM_GOLD", "CUSTOM_OLD"


@pytest.mark.parametrize(
    ("specs", "trait", "lacks"),
    [
        ({f"trait:{GOLD}": "required"}, GOLD, "lacks trait CUSTOM_GOLD, which the guest requires"),
        ({f"trait:{OLD}": "forbidden"}, OLD, "has trait CUSTOM_OLD, which the guest forbids"),
    ],
)
def test_moved_and_resized_guests_keep_their_traits(
    world: World, specs: dict[str, str], trait: str, lacks: str
) -> None:
    for name in (GOLD, OLD):
        world.client.transport.send("PUT", f"/traits/{name}")

    def give(host: str, *traits: str) -> None:
        provider = world.client.provider(world.providers[host])
        world.client.put_traits(provider.uuid, provider.generation, provider.traits - {trait} | set(traits))

    world.host("a")
    give("a", GOLD)
    placed = world.scheduler().schedule(*wanted(1, request(4, {**DEDICATED, **specs})))
    assert isinstance(placed, Placed)
    world.host("b")
    give("b", *{OLD} & {trait})
    stage = Stage(world, placed)
    plain = WantedMove(GUEST, "b", MOVE, request(4, DEDICATED), "f")
    for refusal in (
        to_b(stage),
        stage.mover().begin(WantedMove(GUEST, "b", MOVE, request(6, {**DEDICATED, **specs}), "larger")),
    ):
        assert refusal == Finding(Reason.HOST_LACKS_TRAIT, f"host b: its provider {lacks}")
    assert stage.entries() == {"a": [GUEST], "b": []}
    assert not isinstance(stage.mover().begin(plain), Finding)
    stage.mover().revert(GUEST)
    give("b", GOLD)
    to_b(stage)
    confirm(stage)
    give("a", *{OLD} & {trait})
    assert isinstance(stage.mover().begin(WantedMove(GUEST, "a", MOVE)), Finding)


def test_legacy_host_decides_thread_policy_without_trait(world: World) -> None:
    world.host("a", threads=1, nodes=1, cores=48)
    isolated = request(4, {**DEDICATED, "hw:cpu_thread_policy": "isolate"})
    placed = world.scheduler().schedule(*wanted(1, isolated))
    assert isinstance(placed, Placed)
    world.host("old", {})
    world.host("old too", {"vcpu_pin_set": "2-47"})
    world.host("b")
    mover = Stage(world, placed).mover()
    refusal = mover.begin(WantedMove(GUEST, "b", MOVE))
    assert isinstance(refusal, Finding)
    assert refusal.reason is Reason.HOST_LACKS_TRAIT
    for old in ("old", "old too"):
        moved = mover.begin(WantedMove(GUEST, old, MOVE))
        assert not isinstance(moved, Finding)
        assert len(moved[1].pins.withheld) == 4
        mover.revert(GUEST)


def test_guest_is_evacuated_only_from_a_down_host(stage: Stage, tmp_path: Path) -> None:
    evacuation = WantedMove(GUEST, "b", MOVE, evacuate=True)
    with pytest.raises(SourceAlive, match="never reported"):
        stage.mover().begin(evacuation)
    reported = tmp_path / "a" / "reported"
    reported.touch()
    os.utime(reported, (1000, 1000))
    with pytest.raises(SourceAlive, match="reported 20 s ago"):
        stage.mover(now=lambda: 1020.0).begin(evacuation)
    stage.mover(now=lambda: 2000.0).begin(evacuation)
    moved(stage, to_b)
    confirm(stage)
    ended(stage, to_b, at="after")


def test_legacy_host_counts_moved_cpus_as_vcpu(stage: Stage) -> None:
    stage.world.host("old", {})
    stage.mover().begin(WantedMove(GUEST, "old", MOVE))
    assert stage.held(GUEST) == {"old": {VCPU: 4, MEMORY_MB: 1024}}
    stage.mover().confirm(GUEST)
    stage.mover().begin(WantedMove(GUEST, "a", MOVE))
    assert stage.held(GUEST) == {"a": SMALL}
    stage.mover().revert(GUEST)
    assert stage.held(GUEST) == {"old": {VCPU: 4, MEMORY_MB: 1024}}


def test_domain_gets_its_cpus_back_after_revert(stage: Stage) -> None:
    ledger = stage.world.hosts.known["a"].ledger
    with ledger.changing() as change:
        change.write({GUEST: replace(change.host.guests[GUEST], applied=True)})
    larger(stage)
    revert(stage)
    assert not ledger.read().guests[GUEST].applied


def test_both_claims_count_until_the_move_is_confirmed(stage: Stage) -> None:
    larger(stage)  # 4 and 6 of 16 CPUs
    record = stage.world.hosts.known["a"].guests()[GUEST]
    assert record.move is not None
    assert record.move.phase is MovePhase.MOVED
    for number in (2, 3):
        stage.world.scheduler().schedule(*wanted(number, request(16, DEDICATED)))
    assert stage.world.hosts.having(guest(2)).name == "b"  # type: ignore[union-attr]
    assert isinstance(stage.world.scheduler().schedule(*wanted(4, request(8, DEDICATED))), NoValidHost)
    confirm(stage)
    assert isinstance(stage.world.scheduler().schedule(*wanted(4, request(8, DEDICATED))), Placed)


@BEGINS
def test_agents_of_both_hosts_leave_moving_guest_alone(stage: Stage, begin: Command) -> None:
    begin(stage)
    running = Domain(GUEST, "web", 4, Bytes(1 << 30), {}, None, (), "f", {}, {})
    for host in [each for each in stage.world.hosts.known.values() if each.guests()]:
        for domains in ((), (running,)):
            guests = host.guests()
            since = {GUEST: 0.0, MOVE: 0.0}
            found = follow(guests, domains, host.machine, host.settings, now=1e9, since=since)
            assert (found.guests, found.returned) == (guests, ())


def test_a_guest_that_nobody_knows_is_not_moved(stage: Stage) -> None:
    with pytest.raises(GuestUnknown):
        stage.mover().begin(WantedMove(guest(9), "b", MOVE))
    stage.world.client.delete_consumer(GUEST)
    with pytest.raises(GuestUnknown, match="Placement has no allocations"):
        to_b(stage)
