"""Nova's own fit of guests, measured by whichever Python has Nova; see tools/bench/tracking.py.

    python tools/bench/nova_fit.py    prints microseconds a fit as JSON, by name; exits 3 without Nova

The host and the guests are those of tools/bench/tracking.py. Guests are made before the clock runs, since a
fit writes its result into them.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

ROUNDS, FITS = 20, 50
NUMA_NODES, CORES = 2, 24
MEMORY_MB = 65_536

try:
    from nova import objects
    from nova.virt import hardware
except ImportError:
    sys.exit(3)


def host(numa_nodes: int, cores: int) -> Any:
    """Return a host whose cores have two threads, first threads first as Linux numbers them."""
    cells = []
    for number in range(numa_nodes):
        siblings = [{number * cores + core, (numa_nodes + number) * cores + core} for core in range(cores)]
        cells.append(
            objects.NUMACell(
                id=number,
                cpuset=set(),
                pcpuset=set().union(*siblings),
                memory=MEMORY_MB,
                cpu_usage=0,
                memory_usage=0,
                mempages=[],
                pinned_cpus=set(),
                siblings=siblings,
                network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
            )
        )
    return objects.NUMATopology(cells=cells)


def guest(*counts: int) -> Any:
    """Return a guest with these dedicated CPUs on each of its NUMA nodes."""
    cells, first = [], 0
    for number, count in enumerate(counts):
        own = set(range(first, first + count))
        first += count
        cells.append(
            objects.InstanceNUMACell(
                id=number, cpuset=set(), pcpuset=own, memory=1024, cpu_policy="dedicated", pagesize=None
            )
        )
    return objects.InstanceNUMATopology(cells=cells)


def microseconds(machine: Any, *counts: int) -> float:
    """Return the time of one fit: the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        guests = [guest(*counts) for _ in range(FITS)]
        began = time.process_time()
        for each in guests:
            hardware.numa_fit_instance_to_host(machine, each, None)
        best = min(best, time.process_time() - began)
    return best / FITS * 1e6


def main() -> None:
    """Run the measurement of Nova's own fit."""
    objects.register_all()
    machine = host(NUMA_NODES, CORES)
    answer = hardware.numa_fit_instance_to_host(machine, guest(8), None)
    if answer is None or len(answer.cells[0].cpu_pinning) != 8:
        sys.exit("Nova's fit found nothing: the measurement is wrong")
    print(json.dumps({"one": microseconds(machine, 8), "two": microseconds(machine, 4, 4)}))


if __name__ == "__main__":
    main()
