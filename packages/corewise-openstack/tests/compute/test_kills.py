"""A claim, a delete and an upgrade, killed in every step of a file and of Placement.

A step is what ``put`` does with a file, or a request that changes Placement. The one in which the program is
killed is not carried out, or is half done: half of a new file is written. Afterwards no CPU has two guests,
and the ledger can be read and locked; the next command or pass brings ledger and Placement to one state.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from compute.compute_world import IMPATIENT, World, configured, guest, request, wanted
from compute.faults import Faulty
from compute.test_moves import Killed
from compute.test_upgrade import DEDICATED, FLOATING, HELD_AFTER, HOST, ISOLATED, PINNED, Upgrade
from corewise_openstack.compute.errors import GuestExists, GuestUnknown
from corewise_openstack.compute.ledger import GuestState
from corewise_openstack.compute.options import ComputeOptions
from corewise_openstack.compute.program import run_pass
from corewise_openstack.openstack.errors import PlacementError
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.vocabulary.placement import PCPU
from placement_world import SavedPlacement, client_of_placement, emptied

UPGRADED = {"cpu_dedicated_set": "0-11", "cpu_shared_set": "12-23"}
Command = Callable[[World, PlacementClient], object]


class Killer:
    """Kills in the step of this number; from then on no step is carried out."""

    def __init__(self, steps: int) -> None:
        self._left = steps
        self._sync = os.fsync

    def step(self, half: Callable[[], object] = lambda: None) -> None:
        """Return if the step is carried out; killed in it, do ``half`` of it."""
        self._left -= 1
        if self._left == 0:
            half()
        if self._left <= 0:
            raise Killed

    def fault(self, method: str, _path: str) -> PlacementError | None:
        if method != "GET":
            self.step()
        return None

    def fsync(self, descriptor: int) -> None:
        file = Path(f"/proc/self/fd/{descriptor}")
        size = os.fstat(descriptor).st_size
        self.step(lambda: os.truncate(file, size // 2) if file.is_file() else None)
        self._sync(descriptor)

    def stepping(self, carry_out: Callable[..., Any]) -> Callable[..., Any]:
        def carried_out(*given: Any, **more: Any) -> Any:
            self.step()
            return carry_out(*given, **more)

        return carried_out


@contextmanager
def killed_in(steps: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlacementClient]:
    """Kill in the step of this number; the client is the one whose requests count."""
    killer = Killer(steps)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", killer.fsync)
        for name in ("replace", "hardlink_to", "unlink"):
            patch.setattr(Path, name, killer.stepping(getattr(Path, name)))
        yield Faulty(killer.fault).client()


def claim(world: World, client: PlacementClient) -> None:
    with suppress(GuestExists):
        world.scheduler(client).schedule(*wanted(4, request(2, DEDICATED)))


def delete(world: World, client: PlacementClient) -> None:
    with suppress(GuestUnknown):
        world.scheduler(client).delete(guest(PINNED))


def upgrade(world: World, client: PlacementClient) -> None:
    """A pass of the agent, after ``cpu_dedicated_set`` was set."""
    machine, conf = world.folder.parent / "machine.json", world.folder.parent / "conf"
    if not machine.exists():
        shutil.copy(world.folder / HOST / "topology.json", machine)
        conf.write_text(configured(UPGRADED))
    options = ComputeOptions(HOST, (conf,), topology=machine, state_dir=world.folder / HOST)
    run_pass(options, client, patience=IMPATIENT)


def kept_promises(world: World) -> None:
    """Check what holds at every moment."""
    world.forget()
    held = [cpu for record in world.hosts.known[HOST].guests().values() for cpu in record.pins.held]
    assert len(held) == len(set(held))
    with world.hosts.known[HOST].ledger.changing():
        pass


def agreed(world: World) -> dict[str, dict[str, int]]:
    """Check that ledger and Placement have the same guests with the same amounts; return these."""
    guests = world.hosts.known[HOST].guests()
    assert {each.state for each in guests.values()} == {GuestState.HELD}
    own = world.providers[HOST]
    there = {each.uuid: dict(each.allocations[own]) for each in world.client.use(own).consumers}
    assert there == {uuid: dict(each.resources) for uuid, each in guests.items()}
    return there


GUESTS = {PINNED, ISOLATED, FLOATING}
ENDS: dict[str, tuple[Command, set[int]]] = {
    "claim": (claim, GUESTS | {4}),
    "delete": (delete, GUESTS - {PINNED}),
    "upgrade": (upgrade, GUESTS),
}


def hosts_below(folder: Path) -> Path:
    hosts = folder / "hosts"
    hosts.mkdir(parents=True)
    return hosts


@pytest.mark.parametrize("what", ENDS)
def test_whatever_is_killed_is_finished_by_repeating_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    command, left = ENDS[what]
    before = World(hosts_below(tmp_path / "before"), emptied(client_of_placement()))
    Upgrade(before)
    placement = SavedPlacement()
    steps, killed = 0, True
    while killed:
        steps += 1
        placement.restore()
        world = before.copied(hosts_below(tmp_path / str(steps)))
        killed = False
        with killed_in(steps, monkeypatch) as client:
            try:
                command(world, client)
            except Killed:
                killed = True
        kept_promises(world)
        command(world, world.client)
        kept_promises(world)
        found = agreed(world)
        assert found.keys() == {guest(number) for number in left}
        if what == "upgrade":
            assert {uuid: held.get(PCPU, 0) for uuid, held in found.items()} == {
                uuid: held.get(PCPU, 0) for uuid, held in HELD_AFTER.items()
            }
    assert steps > 6
