"""Asking and claiming at the real Placement, as hosts become more, and how much of the time is not its own.

Placement runs in this process on a SQLite file, called without a socket. Its own time is what passes within
its WSGI application; everything else (translating the flavor, keystoneauth, requests, encoding and decoding,
choosing a candidate) is ours. A third of the hosts has hyperthreads. Claims of eight clients go to hosts with
room, one CPU each. A move is begun and confirmed between two hosts with ledgers on disk; nothing is migrated.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from uuid import UUID, uuid4, uuid5

from corewise_openstack.compute.hosts import Hosts
from corewise_openstack.compute.ledger import GuestClaim
from corewise_openstack.compute.moving import GuestMover, WantedMove
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.scheduling import GuestScheduler
from corewise_openstack.openstack.embedded import (
    EmbeddedPlacement,
    Environment,
    StartResponse,
    in_process_client,
    start,
)
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_writes import Patience, claim
from corewise_openstack.tracking.flavor import Flavor
from corewise_openstack.tracking.request import GuestRequest, translate
from corewise_openstack.vocabulary.placement import (
    DISK_GB,
    HYPER_THREADING_TRAIT,
    MEMORY_MB,
    PCPU,
    VCPU,
    Candidates,
    Consumer,
    Inventory,
)
from tools.bench.guests import FLAVOR, hosts_in
from tools.bench.table import Row, quantile

_NAMES = UUID("6f0b6f0e-7e0c-4f7e-9a43-4d6a7c1f2b11")
_CLIENTS = 8
_CLAIMS = 25
_GUESTS = 15
_MOVES = 50
_OVERCOMMIT = Decimal("8.0")
_PATIENCE = Patience(attempts=100)
_FLAVOR = Flavor(
    name="example-3",
    vcpus=8,
    ram=1024,
    disk=10,
    extra_specs={"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
)


class _Timed:
    """Placement's application, and the seconds spent within it."""

    def __init__(self, placement: EmbeddedPlacement) -> None:
        self.seconds = 0.0
        self._placement = placement

    def __call__(self, environ: Environment, start_response: StartResponse) -> Iterable[bytes]:
        begun = time.perf_counter()
        try:
            return self._placement(environ, start_response)
        finally:
            self.seconds += time.perf_counter() - begun


async def measure(counts: tuple[int, ...]) -> list[Row]:
    """Scheduling one guest after the other at each number of hosts, and claims a second at the last."""
    return await asyncio.to_thread(_measure, counts)


def _measure(counts: tuple[int, ...]) -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        placement = start(Path(directory, "placement.db"))
        timed = _Timed(placement)
        client = in_process_client(timed)
        rows, there = [], 0
        for count in counts:
            for number in range(there, count):
                _add_host(client, number)
            there = count
            rows += _scheduling(client, timed, count)
        return [*rows, _claiming(placement, there)]


async def measure_moves() -> list[Row]:
    """One guest, back and forth between two hosts: CPUs chosen, both claims, and the end of the old one."""
    return await asyncio.to_thread(_moves)


def _moves() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        timed = _Timed(start(Path(directory, "placement.db")))
        client = in_process_client(timed)
        for number in range(2):
            _add_host(client, number)
        return _moving(client, timed, hosts_in(Path(directory), 2))


def _moving(client: PlacementClient, timed: _Timed, hosts: Hosts) -> list[Row]:
    offers = PlacementOffers(client)
    mover, request = GuestMover(offers, hosts), translate(FLAVOR)
    if not isinstance(request, GuestRequest):
        raise SystemExit(f"the flavor is refused: {request}")
    guest = str(uuid4())
    GuestScheduler(offers, hosts).schedule(request, GuestClaim(guest, request.cpus, {}))
    at = next(name for name, host in hosts.known.items() if guest in host.guests())
    totals, own = [], []
    for _ in range(1 + _MOVES):
        at = next(name for name in hosts.known if name != at)
        before, begun = timed.seconds, time.perf_counter()
        mover.begin(WantedMove(guest, at, str(uuid4())))
        mover.confirm(guest)
        totals.append(time.perf_counter() - begun)
        own.append(timed.seconds - before)
    share, size = 1 - sum(own[1:]) / sum(totals[1:]), "2 hosts"
    spent = {
        "Placement's own time in it": own[1:],
        "move of a guest, begun and confirmed": totals[1:],
    }
    return [
        *(Row(f"{what}, p50, p90", size, _printed(seconds)) for what, seconds in spent.items()),
        Row("our share, with seven writes of ledgers synced to disk", size, f"{share * 100:.1f} %"),
    ]


def _printed(seconds: list[float]) -> str:
    return ", ".join(f"{quantile(seconds, part) * 1000:.1f} ms" for part in (0.5, 0.9))


def _provider(number: int) -> str:
    return str(uuid5(_NAMES, str(number)))


def _add_host(client: PlacementClient, number: int) -> None:
    created = client.create_provider(f"host-{number:05d}", _provider(number))
    amounts = {PCPU: 64, VCPU: 32, MEMORY_MB: 262_144, DISK_GB: 4_000}
    inventories = {
        name: Inventory(total, total, allocation_ratio=_OVERCOMMIT if name == VCPU else Decimal(1))
        for name, total in amounts.items()
    }
    generation = client.put_inventories(created.uuid, created.generation, inventories)
    if number % 3 == 0:
        client.put_traits(created.uuid, generation, frozenset({HYPER_THREADING_TRAIT}))


def _scheduling(client: PlacementClient, timed: _Timed, count: int) -> list[Row]:
    _schedule(client)
    totals, own = [], []
    for _ in range(_GUESTS):
        before = timed.seconds
        begun = time.perf_counter()
        _schedule(client)
        totals.append(time.perf_counter() - begun)
        own.append(timed.seconds - before)
    share = 1 - sum(own) / sum(totals)
    size = f"{count} hosts"
    return [
        Row("Placement's own time in it, p50", size, f"{quantile(own, 0.5) * 1000:.1f} ms"),
        Row(
            "translate, query and claim, p50, p90",
            size,
            _printed(totals),
        ),
        Row("our share", size, f"{share * 100:.1f} %"),
    ]


def _schedule(client: PlacementClient) -> None:
    """From the flavor to the claim of one guest, on the candidate with the most free CPUs."""
    request = translate(_FLAVOR)
    if not isinstance(request, GuestRequest):
        raise SystemExit(f"the flavor is refused: {request}")
    found = client.candidates(str(request.query))
    best = max(found.candidates, key=lambda each: _free(found, next(iter(each))))
    _claim(client, best)


def _free(found: Candidates, provider: str) -> int:
    offered = found.providers[provider].resources[PCPU]
    return offered.capacity - offered.used


def _claim(client: PlacementClient, allocations: Mapping[str, Mapping[str, int]]) -> None:
    refused = claim(client, Consumer(str(uuid4()), None, "bench", "bench", allocations), _PATIENCE)
    if refused is not None:
        raise SystemExit(f"a claim was refused: {refused}")


def _claiming(placement: EmbeddedPlacement, count: int) -> Row:
    """Eight clients at once, each on hosts of its own choice."""

    def work(first: int) -> None:
        client = in_process_client(placement)
        for turn in range(_CLAIMS):
            _claim(client, {_provider((first * 7 + turn * 11) % count): {PCPU: 1}})

    begun = time.perf_counter()
    with ThreadPoolExecutor(_CLIENTS) as pool:
        list(pool.map(work, range(_CLIENTS)))
    rate = _CLIENTS * _CLAIMS / (time.perf_counter() - begun)
    return Row(f"claims a second, {_CLIENTS} clients at once", f"{count} hosts", f"{rate:.0f}/s")
