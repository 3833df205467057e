"""``corewise up --scenario openstack``: a small cloud on the real Placement, with simulated hosts.

Each host's agent reads the files of its simulated machine and its nova.conf, and reports. Guests are
scheduled, claimed in Placement and pinned by the same code as on a real host; only the machines are made up.
Then the legacy host is upgraded: dedicated CPUs are named, and its agent moves the guests that are pinned
there.

The hosts: ``combined`` has 16 dedicated CPUs and 30 shared ones, overcommitted eight times; ``no-smt`` has
both, without hyperthreads; ``shared`` shares all its CPUs; of the legacy one nothing says which CPUs are
dedicated. Linux numbers the first threads of all cores before the second ones, so core 1 of 24 has CPUs 1 and
25. Each of the three example flavors comes as resources, and as the policies of old. Where libvirt is
installed, a last host has domains (:mod:`owner`).

An agent runs only as long as one pass takes, so no host has the file ``reported``: without an agent, silence
says nothing about a host, and guests can be scheduled on a kept cloud after any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from corewise.quantities import Bytes
from corewise.vocabulary.findings import Finding
from corewise_lab.machine_files import MachineFiles
from corewise_lab.machines import Machine
from corewise_lab.owned_host import FLAVOR, NUMBER, OwnerReport, own
from corewise_openstack.compute.hosts import OPTIONS, REPORTED, ComputeHost, Hosts, read_hosts
from corewise_openstack.compute.ledger import GuestClaim
from corewise_openstack.compute.options import ComputeOptions
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.program import Passed, run_pass
from corewise_openstack.compute.scheduling import GuestScheduler
from corewise_openstack.compute.verdicts import NoValidHost, Placed
from corewise_openstack.openstack.errors import ExtraMissing
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.tracking import Compat, Flavor, translate
from corewise_openstack.vocabulary.placement import HYPER_THREADING_TRAIT, PCPU, VCPU, Inventory

_GIB = 1 << 30
_RAM_MB = 2048
OLD = "old"
HOSTS, MACHINES, FLAVOR_FILE = "hosts", "machines", "flavor.json"
"""Below the folder of a cloud: a directory for each host, the machines' files, and a flavor to try."""


@dataclass(frozen=True)
class SceneHost:
    """A host: its machine, and its nova.conf as text."""

    machine: Machine
    nova_conf: str

    @property
    def name(self) -> str:
        """Its name, in Placement too."""
        return self.machine.name


@dataclass(frozen=True)
class SceneGuest:
    """A guest that is to be placed; ``form`` says in which words its flavor asks."""

    number: int
    flavor: Flavor
    form: str
    extra_specs: Mapping[str, str] = field(default_factory=dict)


def _host(name: str, cores: int, options: str, *, hyper_threading: bool = True) -> SceneHost:
    machine = Machine(
        name,
        None,
        cpus=cores * (2 if hyper_threading else 1),
        memory=Bytes(64 * _GIB),
        hyper_threading=hyper_threading,
        sockets=2,
    )
    return SceneHost(machine, options)


OLD_HOST = _host(OLD, 16, "")
NEW_HOSTS = (
    _host(
        "combined",
        24,
        "[DEFAULT]\ncpu_allocation_ratio = 8.0\n"
        "[compute]\ncpu_dedicated_set = 1-8,25-32\ncpu_shared_set = 9-23,33-47\n",
    ),
    _host(
        "no-smt",
        24,
        "[compute]\ncpu_dedicated_set = 2-9,12-19\ncpu_shared_set = 10-11,20-23\n",
        hyper_threading=False,
    ),
    _host("shared", 12, "[compute]\ncpu_shared_set = 1-11,13-23\n"),
)

_NEW, _LEGACY = "resources", "hw:cpu_policy"
_EXAMPLES: Mapping[tuple[int, str], tuple[int, Mapping[str, str]]] = MappingProxyType(
    {
        (1, _NEW): (2, {"resources:VCPU": "2"}),
        (1, _LEGACY): (2, {}),
        (2, _NEW): (8, {"resources:PCPU": "8"}),
        (2, _LEGACY): (8, {"hw:cpu_policy": "dedicated"}),
        (3, _NEW): (8, {"resources:PCPU": "8", f"trait:{HYPER_THREADING_TRAIT}": "forbidden"}),
        (3, _LEGACY): (8, {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"}),
    }
)


def _guest(number: int, example: int, form: str) -> SceneGuest:
    vcpus, specs = _EXAMPLES[example, form]
    flavor = Flavor(f"example-{example}", vcpus, _RAM_MB, extra_specs=specs)
    return SceneGuest(number, flavor, form)


EARLY_GUESTS = (_guest(1, 1, _LEGACY), _guest(2, 2, _LEGACY), _guest(3, 3, _LEGACY))
"""Guests that come while the old host is the only one."""

LATER_GUESTS = (
    _guest(4, 1, _NEW),
    _guest(5, 1, _LEGACY),
    _guest(6, 3, _NEW),
    _guest(7, 3, _LEGACY),
    _guest(8, 2, _NEW),
    _guest(9, 2, _LEGACY),
    _guest(10, 2, _NEW),
)
"""The last of them finds no host."""


@dataclass(frozen=True)
class HostReport:
    """A host's offer, and whether one of its cores has several threads."""

    name: str
    inventories: dict[str, Inventory]
    hyper_threading: bool


@dataclass(frozen=True)
class GuestReport:
    """The outcome for a guest."""

    guest: SceneGuest
    query: str
    outcome: Placed | NoValidHost


@dataclass(frozen=True)
class UpgradeReport:
    """The total and the used VCPU and PCPU of the old host, before and after."""

    nova_conf: str
    before: dict[str, tuple[int, int]]
    after: dict[str, tuple[int, int]]
    moved: int
    writes_of_second_pass: int


class Cloud:
    """Hosts below a folder, and their Placement."""

    def __init__(self, folder: Path, client: PlacementClient) -> None:
        self.folder = folder / HOSTS
        self._machines = MachineFiles(folder / MACHINES)
        self._client = client

    @property
    def hosts(self) -> Hosts:
        """All hosts as they stand on disk."""
        return read_hosts(self.folder, Compat.SPEC)

    def join(self, host: SceneHost) -> HostReport:
        """Make a host, and have its agent report it."""
        (self.folder / host.name).mkdir(parents=True, exist_ok=True)
        self._machines.make(host.machine)
        self.report(host.name, host.nova_conf)
        return _offered(self.hosts.known[host.name], self._client)

    def report(self, name: str, nova_conf: str) -> Passed:
        """Run one pass of a host's agent, which ends then and is not missed."""
        folder = self.folder / name
        config = folder / OPTIONS
        config.write_text(nova_conf, encoding="utf-8")
        options = ComputeOptions(
            name, (config,), self._machines.root(name), state_dir=folder, standalone=True
        )
        passed = run_pass(options, self._client)
        (folder / REPORTED).unlink()
        return passed

    def place(self, guests: Sequence[SceneGuest], hosts: Hosts | None = None) -> list[GuestReport]:
        """Schedule guests, one after the other; on other hosts than its own if they are given."""
        scheduler = GuestScheduler(PlacementOffers(self._client), hosts or self.hosts)
        placed = []
        for guest in guests:
            request = translate(guest.flavor)
            if isinstance(request, Finding):
                raise TypeError(f"a flavor of the scene makes no request: {request.message}")
            wanted = GuestClaim(str(UUID(int=guest.number)), request.cpus, {}, flavor=guest.flavor.name)
            placed.append(GuestReport(guest, str(request.query), scheduler.schedule(request, wanted)))
        return placed

    def upgrade(self) -> UpgradeReport:
        """Name the dedicated CPUs of the old host: those that its guests hold. The rest is shared."""
        host = self.hosts.known[OLD]
        before = self._held(OLD)
        held = host.machine.topology.cpus - host.ledger_with(host.guests()).free
        shared = host.machine.topology.cpus - held
        nova_conf = f"[compute]\ncpu_dedicated_set = {held}\ncpu_shared_set = {shared}\n"
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


@dataclass(frozen=True)
class CloudReport:
    """All that happened. A kept cloud only goes on: it has no ``guests`` to place, and no ``upgrade``."""

    hosts: tuple[HostReport, ...]
    guests: tuple[GuestReport, ...]
    before: tuple[ComputeHost, ...]
    upgrade: UpgradeReport | None
    folder: Path
    owner: OwnerReport | None = None


def run(folder: Path, client: PlacementClient) -> CloudReport:
    """Build the cloud, place its guests, and upgrade its oldest host.

    Where libvirt is installed, a host with domains joins too, and a guest comes and goes.
    """
    cloud = Cloud(folder, client)
    hosts = [cloud.join(OLD_HOST)]
    guests = cloud.place(EARLY_GUESTS)
    hosts += [cloud.join(host) for host in NEW_HOSTS]
    guests += cloud.place(LATER_GUESTS)
    upgrade = cloud.upgrade()
    before = tuple(cloud.hosts.known.values())
    guest = SceneGuest(NUMBER, FLAVOR, _LEGACY)
    owner = None
    with suppress(ExtraMissing):
        owner = own(folder / "libvirt", client, lambda hosts: cloud.place([guest], hosts)[0].outcome)
    (folder / FLAVOR_FILE).write_text('{"name": "example", "vcpus": 2, "ram": 512, "disk": 0}\n')
    return CloudReport(tuple(hosts), tuple(guests), before, upgrade, cloud.folder, owner)


def is_complete(folder: Path) -> bool:
    """Whether an earlier run built all of the cloud in a folder: its last step writes the flavor."""
    return (folder / FLAVOR_FILE).exists()


def kept(folder: Path, client: PlacementClient) -> CloudReport:
    """Return the cloud of an earlier run, as its files and its Placement have it now.

    Raises:
        ComputeError: if the files of a host cannot be used.
    """
    hosts = read_hosts(folder / HOSTS, Compat.SPEC)
    hosts.raise_unusable()
    before = tuple(hosts.known.values())
    offered = tuple(_offered(host, client) for host in before)
    return CloudReport(offered, (), before, None, folder / HOSTS)


def _offered(host: ComputeHost, client: PlacementClient) -> HostReport:
    """Return a host's offer according to Placement."""
    found = client.find_provider(host.name)
    inventories = dict(found.inventories) if found is not None else {}
    return HostReport(host.name, inventories, host.machine.topology.hyper_threading)
