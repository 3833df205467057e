"""Hosts and guests of the compute tests: on disk as their agents keep them, and in the real Placement."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from uuid import UUID

from corewise.vocabulary.findings import Finding
from corewise_openstack.compute.hosts import ComputeHost, Hosts, read_hosts
from corewise_openstack.compute.ledger import GuestClaim
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.scheduling import GuestScheduler
from corewise_openstack.compute.verdicts import HostScores
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_writes import Patience
from corewise_openstack.tracking import Compat, Flavor, GuestRequest, Image, translate
from corewise_openstack.vocabulary.placement import MEMORY_MB, Inventory

DOCUMENT = {"cpu_dedicated_set": "2-17", "cpu_shared_set": "18-47", "cpu_allocation_ratio": "8.0"}
"""The options of the document's example."""

_GROUPS = {"cpu_dedicated_set": "compute", "cpu_shared_set": "compute"}
IMPATIENT = Patience(attempts=3, sleep=lambda _seconds: None)


def machine(*, cores: int = 24, threads: int = 2, nodes: int = 2, gib: int = 64) -> dict[str, Any]:
    """A machine as ``corewise topology -o json`` prints it; core 0 has CPUs 0 and 1."""
    cpus = [
        {"cpu": cpu, "core": cpu // threads, "cache": node, "numaNode": node, "socket": node}
        for cpu in range(cores * threads)
        for node in [cpu // threads * nodes // cores]
    ]
    memory = [
        {"numaNode": node, "memoryBytes": gib * 2**30 // nodes, "hugepagesBytes": 0} for node in range(nodes)
    ]
    return {"memoryBytes": gib * 2**30, "numaNodes": memory, "threads": cpus}


def configured(options: Mapping[str, str]) -> str:
    """Options as nova.conf has them."""
    groups: dict[str, list[str]] = {}
    for name, value in options.items():
        groups.setdefault(_GROUPS.get(name, "DEFAULT"), []).append(f"{name} = {value}")
    return "".join(f"[{group}]\n" + "\n".join(lines) + "\n" for group, lines in groups.items())


def put_host(folder: Path, name: str, options: Mapping[str, str] = DOCUMENT, **shape: int) -> Path:
    """Write a host's files."""
    own = folder / name
    own.mkdir()
    (own / "topology.json").write_text(json.dumps(machine(**shape)))
    (own / "nova.conf").write_text(configured(options))
    return own


def hosts_in(folder: Path, compat: Compat = Compat.SPEC) -> Hosts:
    return read_hosts(folder, compat)


def report(client: PlacementClient, host: ComputeHost) -> str:
    """Put what a host offers into Placement, with its memory; returns its provider."""
    provider = client.create_provider(host.name)
    memory = (host.machine.memory_total or 0) >> 20
    inventories = {**host.offer.inventories, MEMORY_MB: Inventory(total=memory, max_unit=memory)}
    generation = client.put_inventories(provider.uuid, provider.generation, inventories)
    client.put_traits(provider.uuid, generation, host.offer.traits)
    return provider.uuid


class World:
    """Hosts in a directory, and in Placement."""

    def __init__(self, folder: Path, client: PlacementClient) -> None:
        self.folder = folder
        self.client = client
        self.providers: dict[str, str] = {}
        self.compat = Compat.SPEC
        self.scores: HostScores | None = None
        self._read: tuple[tuple[int, Compat], Hosts] | None = None

    def host(self, name: str, options: Mapping[str, str] = DOCUMENT, **shape: int) -> None:
        put_host(self.folder, name, options, **shape)
        self.providers[name] = report(self.client, self.hosts.known[name])

    @property
    def hosts(self) -> Hosts:
        """All hosts; their files are read once, their ledgers whenever somebody looks."""
        now = sum(1 for _ in self.folder.iterdir()), self.compat
        if self._read is None or self._read[0] != now:
            self._read = now, hosts_in(self.folder, self.compat)
        return self._read[1]

    def copied(self, folder: Path) -> Self:
        """Return another world with the same hosts, whose files are copies of these."""
        made = type(self)(folder, self.client)
        shutil.copytree(self.folder, made.folder, dirs_exist_ok=True)
        made.providers = dict(self.providers)
        return made

    def on_kill(self) -> None:
        """Do as the kernel does with a process that is killed."""

    def end(self) -> None:
        """End what was started for it."""

    def forget(self) -> None:
        """Have the files read again."""
        self._read = None

    def scheduler(self, client: PlacementClient | None = None) -> GuestScheduler:
        offers = PlacementOffers(client or self.client, patience=IMPATIENT)
        return GuestScheduler(offers, self.hosts, scores=self.scores)

    def held(self, name: str) -> Mapping[str, int]:
        """Return the amounts that all guests hold of a host, as Placement has it; without amounts of 0."""
        usages = self.client.usages(self.providers[name])
        return MappingProxyType({each: amount for each, amount in usages.items() if amount})


def request(
    vcpus: int = 8,
    extra_specs: Mapping[str, str] = MappingProxyType({}),
    *,
    ram: int = 1024,
    image: Mapping[str, str] = MappingProxyType({}),
    compat: Compat = Compat.SPEC,
) -> GuestRequest:
    made = translate(Flavor("f", vcpus, ram, extra_specs=extra_specs), Image(image), compat=compat)
    assert not isinstance(made, Finding), made
    return made


def wanted(number: int, asked: GuestRequest, *, pack: bool = False) -> tuple[GuestRequest, GuestClaim]:
    return asked, GuestClaim(guest(number), asked.cpus, {}, flavor="f", pack=pack)


def guest(number: int) -> str:
    """The UUID of a guest of the tests."""
    return str(UUID(int=number))
