"""A small OpenStack cloud: the real Placement in this process, hosts with real agents, guests, an upgrade.

Each host's agent reads the files of its simulated machine and its nova.conf, and reports. Guests are
scheduled, claimed in Placement and pinned by the same code as on a real host; only the machines are made up.
Then the host from before is upgraded: dedicated CPUs are named, and its agent moves the guests that are
pinned there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from corewise.compute.hosts import OPTIONS, ComputeHost, Hosts, read_hosts
from corewise.compute.options import ComputeOptions
from corewise.compute.placement import PlacementOffers
from corewise.compute.program import Passed, run_pass
from corewise.compute.scheduling import Scheduler, Wanted
from corewise.compute.verdicts import NoValidHost, Placed
from corewise.openstack.placement_client import PlacementClient
from corewise.simulation.machine_files import MachineFiles
from corewise.simulation.openstack_scene import (
    EARLY_GUESTS,
    LATER_GUESTS,
    NEW_HOSTS,
    OLD,
    OLD_HOST,
    SceneGuest,
    SceneHost,
)
from corewise.tracking import Compat, RequestRefusal, translate
from corewise.vocabulary.placement import PCPU, VCPU, Inventory


@dataclass(frozen=True)
class HostReport:
    """What a host offers, and whether one of its cores has several threads."""

    name: str
    inventories: dict[str, Inventory]
    hyper_threading: bool


@dataclass(frozen=True)
class GuestReport:
    """What became of a guest."""

    guest: SceneGuest
    query: str
    outcome: Placed | NoValidHost


@dataclass(frozen=True)
class UpgradeReport:
    """What holds VCPU and PCPU of the old host, before and after: total and held of each."""

    nova_conf: str
    before: dict[str, tuple[int, int]]
    after: dict[str, tuple[int, int]]
    moved: int
    writes_of_second_pass: int


class Cloud:
    """Hosts below a folder, and their Placement."""

    def __init__(self, folder: Path, client: PlacementClient) -> None:
        self.folder = folder / "hosts"
        self._machines = MachineFiles(folder / "machines")
        self._client = client

    @property
    def hosts(self) -> Hosts:
        """All hosts as they stand on disk."""
        return read_hosts(self.folder, Compat.SPEC)

    def join(self, host: SceneHost) -> HostReport:
        """Make a host, and have its agent report it."""
        (self.folder / host.name).mkdir(parents=True, exist_ok=True)
        self._machines.make(host.machine)
        offering = self.report(host.name, host.nova_conf).state.offering
        found = self._client.find_provider(host.name)
        inventories = dict(found.inventories) if found is not None else {}
        return HostReport(host.name, inventories, offering.machine.topology.hyper_threading)

    def report(self, name: str, nova_conf: str) -> Passed:
        """Run a pass of a host's agent."""
        folder = self.folder / name
        config = folder / OPTIONS
        config.write_text(nova_conf, encoding="utf-8")
        options = ComputeOptions(
            name, (config,), self._machines.root(name), state_dir=folder, standalone=True
        )
        return run_pass(options, self._client)

    def place(self, guests: Sequence[SceneGuest]) -> list[GuestReport]:
        """Schedule guests, one after the other."""
        scheduler = Scheduler(PlacementOffers(self._client), self.hosts)
        return [self._placed(scheduler, guest) for guest in guests]

    @staticmethod
    def _placed(scheduler: Scheduler, guest: SceneGuest) -> GuestReport:
        request = translate(guest.flavor)
        if isinstance(request, RequestRefusal):
            raise TypeError(f"a flavor of the scene makes no request: {request.message}")
        wanted = Wanted(str(UUID(int=guest.number)), request, guest.flavor.name)
        return GuestReport(guest, str(request.query), scheduler.schedule(wanted))

    def upgrade(self) -> UpgradeReport:
        """Name the dedicated CPUs of the old host: those that its guests hold. The rest is shared."""
        host = self.hosts.known[OLD]
        before = self._held(OLD)
        nova_conf = _upgraded(host)
        moved = self.report(OLD, nova_conf)
        again = self.report(OLD, nova_conf)
        guests = sum(len(write.consumers) for write in moved.writes if hasattr(write, "consumers"))
        return UpgradeReport(nova_conf, before, self._held(OLD), guests, len(again.writes))

    def _held(self, name: str) -> dict[str, tuple[int, int]]:
        provider = self._client.find_provider(name)
        if provider is None:
            return {}
        held = self._client.usages(provider.uuid)
        return {
            each: (provider.inventories[each].total, held.get(each, 0))
            for each in (VCPU, PCPU)
            if each in provider.inventories
        }


def _upgraded(host: ComputeHost) -> str:
    ledger = host.ledger_with(host.guests())
    held = host.machine.topology.cpus - ledger.free
    shared = host.machine.topology.cpus - held
    return f"[compute]\ncpu_dedicated_set = {held}\ncpu_shared_set = {shared}\n"


@dataclass(frozen=True)
class CloudReport:
    """All that happened."""

    hosts: tuple[HostReport, ...]
    guests: tuple[GuestReport, ...]
    before: tuple[ComputeHost, ...]
    upgrade: UpgradeReport
    folder: Path


def run(folder: Path, client: PlacementClient) -> CloudReport:
    """Build the cloud, place its guests, and upgrade its oldest host."""
    cloud = Cloud(folder, client)
    hosts = [cloud.join(OLD_HOST)]
    guests = cloud.place(EARLY_GUESTS)
    hosts += [cloud.join(host) for host in NEW_HOSTS]
    guests += cloud.place(LATER_GUESTS)
    upgrade = cloud.upgrade()
    return CloudReport(tuple(hosts), tuple(guests), tuple(cloud.hosts.known.values()), upgrade, cloud.folder)
