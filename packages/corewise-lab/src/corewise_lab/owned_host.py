"""A host that corewise alone owns, on libvirt's own test driver: from a request to a pinned domain and back.

The machine is the one that the driver makes up (two NUMA nodes of 8 CPUs). The operator's part, which is to
create the guest's domain and to remove it, is played here; the host's agent does the rest, by the same code
as on a real host. Its time is simulated, so that a domain that is gone need not be waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import msgspec

from corewise.config.machine_file import machine_document
from corewise_openstack.compute.adoption import LedgerChange
from corewise_openstack.compute.hosts import OPTIONS, TOPOLOGY, Hosts, read_hosts
from corewise_openstack.compute.options import GRACE, INTERVAL, ComputeOptions
from corewise_openstack.compute.program import HostAgent
from corewise_openstack.compute.verdicts import NoValidHost, Placed
from corewise_openstack.openstack.libvirt import connected
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.tracking import Compat, Flavor
from corewise_openstack.vocabulary.placement import PCPU

URI = "test:///default"
OWNED = "owned"
NUMBER = 11
FLAVOR = Flavor("example-owned", 4, 1024, extra_specs={"hw:cpu_policy": "dedicated"})
_GUEST = str(UUID(int=NUMBER))
_NOVA_CONF = "[compute]\ncpu_dedicated_set = 2-7\ncpu_shared_set = 0-1\n"
_DOMAIN = f"""
<domain type='test'>
  <name>guest-{NUMBER}</name>
  <uuid>{_GUEST}</uuid>
  <memory unit='MiB'>{FLAVOR.ram}</memory>
  <vcpu>{FLAVOR.vcpus}</vcpu>
  <os><type>hvm</type></os>
</domain>
"""


@dataclass(frozen=True)
class OwnerReport:
    """The events on the host.

    ``pins``: guest CPU -> host CPU, as libvirt has it while the domain runs. ``held`` and ``left``: PCPU in
    Placement, while the guest is there and after its domain is gone. ``changes``: what the agent did.
    """

    host: str
    guest: int
    chosen: Mapping[int, int]
    pins: Mapping[int, int]
    held: int
    left: int
    changes: tuple[LedgerChange, ...]


def own(
    folder: Path, client: PlacementClient, place: Callable[[Hosts], Placed | NoValidHost]
) -> OwnerReport | None:
    """Run the host in a folder of its own; None if ``place`` finds no host for the guest.

    Its domains end with this process, so the host leaves Placement at the end.

    Raises:
        ExtraMissing: if libvirt's Python package is not installed.
        LibvirtError: if libvirt refuses.
    """
    with connected(URI) as libvirt:
        (folder / OWNED).mkdir(parents=True)
        machine = folder / OWNED / TOPOLOGY
        machine.write_bytes(msgspec.json.encode(machine_document(libvirt.host())))
        (folder / OWNED / OPTIONS).write_text(_NOVA_CONF, encoding="utf-8")
        options = ComputeOptions(
            OWNED,
            (folder / OWNED / OPTIONS,),
            topology=machine,
            state_dir=folder / OWNED,
            libvirt=URI,
            apply=True,
            standalone=True,
        )
        agent = HostAgent(options, client)
        changes = list(agent.once().state.changes)
        placed = place(read_hosts(folder, Compat.SPEC))
        if isinstance(placed, NoValidHost):
            return None
        libvirt.start(_DOMAIN)
        changes += agent.once(INTERVAL).state.changes
        pins = next(each.pins for each in libvirt.domains() if each.uuid == _GUEST)
        held = _held(client)
        libvirt.remove(_GUEST)
        for now in (2 * INTERVAL, 2 * INTERVAL + GRACE.applied):
            changes += agent.once(now).state.changes
    chosen = {vcpu: cpu for cell in placed.record.cells for vcpu, cpu in cell.pins.items()}
    done = tuple(each for each in changes if each.guest == _GUEST)
    report = OwnerReport(OWNED, NUMBER, chosen, pins, held, _held(client), done)
    if (provider := client.find_provider(OWNED)) is not None:
        client.delete_provider(provider.uuid)
    return report


def _held(client: PlacementClient) -> int:
    provider = client.find_provider(OWNED)
    return 0 if provider is None else client.usages(provider.uuid).get(PCPU, 0)
