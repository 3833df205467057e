"""The scheduler of guests on top of Placement: filter, weigh, choose, record; at numbers of hosts.

Placement is replaced by one that answers at once with as many candidates as its limit allows: what is left is
ours. Hosts have 2 NUMA nodes x 24 threads, and a ledger each on disk. The time is the processor's; what
fsync(2) waits for is the disk's.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from corewise.topology import Host, Thread, Topology
from corewise.vocabulary.findings import Finding
from corewise_openstack.compute.hosts import ComputeHost, Hosts, settings_of
from corewise_openstack.compute.ledger import GuestClaim, LedgerFile
from corewise_openstack.compute.offers import Candidate, LocalOffers
from corewise_openstack.compute.scheduling import GuestScheduler
from corewise_openstack.compute.verdicts import NoValidHost
from corewise_openstack.tracking import Compat, Flavor, HostOptions, PlacementQuery, translate
from corewise_openstack.vocabulary.placement import PCPU
from tools.bench.table import Row, quantile

_CORES, _NODES, _GUESTS = 24, 2, 15
_SAMPLED_HOSTS = 1_000
_OPTIONS = HostOptions(cpu_dedicated_set="2-17", cpu_shared_set="18-47")
FLAVOR = Flavor("example-2", 8, 1024, extra_specs={"hw:cpu_policy": "dedicated"})


class _AtOnce(LocalOffers):
    """Offers every host, up to the query's limit, and grants every claim."""

    def __init__(self, hosts: Hosts) -> None:
        super().__init__(hosts)
        self._all = [Candidate(name, {name: {PCPU: 8}}, name, {PCPU: 16}) for name in hosts.known]

    def candidates(self, query: PlacementQuery) -> Sequence[Candidate]:
        return self._all[: query.limit]

    def holds(self, guest: str, provider: str) -> bool:
        return True


async def measure(counts: tuple[int, ...]) -> list[Row]:
    """One guest after the other at each number of hosts."""
    return await asyncio.to_thread(lambda: [_measure(count) for count in counts])


async def sample() -> dict[str, float]:
    """Return the p50 of the CPU time of scheduling a guest on 1,000 hosts, in microseconds."""
    return {"guest": quantile(_seconds(_SAMPLED_HOSTS), 0.5) * 1e6}


def _seconds(count: int) -> list[float]:
    """Return the CPU time of each guest's scheduling."""
    with tempfile.TemporaryDirectory() as directory:
        hosts = hosts_in(Path(directory), count)
        scheduler = GuestScheduler(_AtOnce(hosts), hosts)
        return [_schedule(scheduler, number) for number in range(1 + _GUESTS)][1:]


def _measure(count: int) -> Row:
    seconds = _seconds(count)
    result = ", ".join(f"{quantile(seconds, part) * 1000:.1f} ms" for part in (0.5, 0.9))
    return Row("filter, weigh, choose, record, p50, p90", f"{count} hosts", result)


def _schedule(scheduler: GuestScheduler, number: int) -> float:
    request = translate(FLAVOR)
    if isinstance(request, Finding):
        raise SystemExit(f"the flavor is refused: {request.message}")
    wanted = GuestClaim(str(UUID(int=number)), request.cpus, {})
    begun = time.process_time()
    outcome = scheduler.schedule(request, wanted)
    if isinstance(outcome, NoValidHost):
        raise SystemExit(outcome.message)
    return time.process_time() - begun


def hosts_in(folder: Path, count: int) -> Hosts:
    """Return hosts, each with an empty ledger in a directory."""
    machine = _machine()
    settings = settings_of("host", _OPTIONS, machine, Compat.SPEC)
    first = ComputeHost("host", machine, settings, LedgerFile(folder / "ledger", "host"))
    names = [f"host-{number:05d}" for number in range(count)]
    known = {
        name: replace(first, name=name, ledger=LedgerFile(folder / f"{name}.json", name)) for name in names
    }
    return Hosts(MappingProxyType(known), MappingProxyType({}))


def _machine() -> Host:
    nodes = [core * _NODES // _CORES for core in range(_CORES)]
    threads = (Thread(cpu, cpu // 2, nodes[cpu // 2], nodes[cpu // 2], 0) for cpu in range(2 * _CORES))
    return Host(Topology(tuple(threads)))
