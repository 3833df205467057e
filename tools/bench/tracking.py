"""The choice of CPUs for guests: one choice, beside Nova's own fit, and the largest hosts.

Times are of the processor, the best of several rounds: what the code costs on a machine that does nothing
else. Nova is measured by the Python that ``COREWISE_NOVA_PYTHON`` names, in a process of its own:

    python3 -m venv /tmp/nova && /tmp/nova/bin/pip install nova
    COREWISE_NOVA_PYTHON=/tmp/nova/bin/python make bench
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise_openstack.guest_pinning.ledger import GuestLedger, GuestPins, HostCell
from corewise_openstack.guest_pinning.placement import place
from corewise_openstack.vocabulary.guests import CPUPolicy, GuestCPUs, GuestNode, ThreadPolicy
from tools.bench.table import Row

_ROUNDS, _TIMES = 30, 50
_MEMORY_MB = 65_536
_NOVA = Path(__file__).parent / "nova_fit.py"
_SIZE, _LARGE, _WIDE = "2 nodes x 48 threads", "16 nodes x 48 threads", "128 nodes x 128 threads"


async def measure() -> list[Row]:
    """A choice of CPUs in the shapes of Nova's fit, refusals, and 8 guest nodes on 16 host nodes."""
    return [*await _beside_nova(), *_others()]


def host(numa_nodes: int, cores: int) -> GuestLedger:
    """An empty host whose cores have two threads, first threads first as Linux numbers them."""
    cells = []
    for number in range(numa_nodes):
        siblings = [
            CPUSet.of((number * cores + core, (numa_nodes + number) * cores + core)) for core in range(cores)
        ]
        everything = CPUSet.of(cpu for core in siblings for cpu in core)
        cells.append(HostCell(number, tuple(siblings), everything, memory_mb=_MEMORY_MB))
    return GuestLedger(tuple(cells), hyper_threading=True)


def guest(*counts: int, policy: ThreadPolicy | None = None) -> GuestCPUs:
    """A guest with these dedicated CPUs on each of its NUMA nodes."""
    nodes, first = [], 0
    for count in counts:
        own = CPUSet.of(range(first, first + count))
        nodes.append(GuestNode(own, own, 1024))
        first += count
    return GuestCPUs(first, CPUPolicy.DEDICATED, policy, nodes=tuple(nodes))


async def _beside_nova() -> list[Row]:
    theirs = await _nova()
    rows = []
    for name, what, wanted in (
        ("one", "8 dedicated CPUs", guest(8)),
        ("two", "4 dedicated CPUs on each of 2 NUMA nodes", guest(4, 4)),
    ):
        ours = _choice(host(2, 24), wanted)
        nova = theirs.get(name)
        beside = f"Nova {nova:.0f} us, {nova / ours:.0f} x" if nova else "Nova: not installed"
        rows.append(Row(f"choice of {what}", _SIZE, f"{ours:.1f} us ({beside})"))
    return rows


async def _nova() -> dict[str, float]:
    """Return Nova's times, by name; none where it is not installed."""
    python = os.environ.get("COREWISE_NOVA_PYTHON", sys.executable)
    process = await asyncio.create_subprocess_exec(
        python, str(_NOVA), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    output, _ = await process.communicate()
    found: dict[str, float] = json.loads(output) if process.returncode == 0 else {}
    return found


def _fresh(ledger: GuestLedger) -> GuestLedger:
    """A ledger that has never been asked anything, as it is after every change, on cells that have."""
    return GuestLedger(ledger.cells, ledger.hyper_threading, ledger.legacy, ledger.guests)


def _others() -> list[Row]:
    plain, large = host(2, 24), host(16, 24)
    broken = plain.found("others", GuestPins(withheld=CPUSet.of(range(0, 48, 2))))
    half = large.found("others", GuestPins(withheld=CPUSet.of(range(192))))
    figures = {
        ("choice of 8 with thread policy require", _SIZE): _choice(
            plain, guest(8, policy=ThreadPolicy.REQUIRE)
        ),
        ("choice of 8, every second core broken", _SIZE): _choice(broken, guest(8)),
        ("choice of 8, pinned and unpinned", _SIZE): _microseconds(plain, _pinned_and_unpinned),
        ("refusal with its reason", _SIZE): _choice(plain, guest(60)),
        ("choice for 8 guest nodes", _LARGE): _choice(large, guest(*[4] * 8)),
        ("choice for 8 guest nodes, half the host taken", _LARGE): _choice(half, guest(*[4] * 8)),
        ("refusal of 8 guest nodes, the last too large", _LARGE): _choice(large, guest(*[4] * 7, 49)),
        ("choice for 16 guest nodes, each larger", _LARGE): _choice(large, guest(*range(4, 20))),
        ("choice for 128 guest nodes, each larger", _WIDE): _choice(host(128, 64), guest(*range(1, 129))),
    }
    return [Row(what, size, f"{figure:.1f} us") for (what, size), figure in figures.items()]


def _choice(ledger: GuestLedger, wanted: GuestCPUs) -> float:
    return _microseconds(ledger, lambda fresh: place(fresh, wanted))


def _pinned_and_unpinned(ledger: GuestLedger) -> None:
    pins = place(ledger, _GUEST)
    after = pins if isinstance(pins, Finding) else ledger.pin("guest", pins)
    if isinstance(after, Finding):
        raise SystemExit(f"the measurement is wrong: {after.message}")
    after.unpin("guest")


def _microseconds(ledger: GuestLedger, work: Callable[[GuestLedger], object]) -> float:
    """The time of one piece of work, each on a ledger that is fresh: the best of several rounds."""
    best = float("inf")
    for _ in range(_ROUNDS):
        ledgers = [_fresh(ledger) for _ in range(_TIMES)]
        began = time.process_time()
        for each in ledgers:
            work(each)
        best = min(best, time.process_time() - began)
    return best / _TIMES * 1e6


_GUEST = guest(8)
