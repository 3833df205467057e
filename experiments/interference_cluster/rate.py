"""How fast pods find nodes when one in ten has a profile: kube-scheduler alone, and with corewise beside it.

Many pods are created at once, and a run ends when all are bound. Runs of the two arms alternate. Alone,
kube-scheduler has no extender, pods have no type, and corewise does not run. In the other arm it does, and
the CPU time is counted that it uses beyond what it uses at rest.
"""

from __future__ import annotations

import asyncio
import os
import time
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec

from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.errors import NotFound
from corewise.kube.resources import MUTATING_POLICY_BINDINGS, PODS
from corewise.scheduler import marking
from corewise.workload.pods import WORKLOAD_PODS
from corewise_lab.control_plane import running
from corewise_lab.metrics_server import metrics_server
from experiments.interference_cluster.cells import (
    MARK,
    NAMESPACE,
    remove_pods,
    simulated_nodes,
    simulated_pod,
)
from experiments.interference_cluster.mixes import configuration, machines
from experiments.interference_cluster.nodes import Node
from experiments.interference_cluster.tables import difference
from experiments.markdown import table

ALONE, COREWISE = "alone", "corewise"
WINDOW = 300
_CELL, _KIND = "rate", "redis-memtier-small"
_STARTED, _AT_REST, _SETTLED = 15.0, 30.0, 5.0
_WITHIN = 600.0
_POLL = 0.1
_COLUMNS = (
    *("nodes, pods, of them profiled", "pairs", "pods/s alone", "with corewise", "difference"),
    *("kube-scheduler's CPU time a pod, alone", "with corewise", "corewise's CPU time a pod"),
)


class Rate(msgspec.Struct, frozen=True):
    """One run; milliseconds of CPU time: of kube-scheduler, and of corewise beyond its use at rest."""

    pair: int
    arm: str
    nodes: int
    pods: int
    profiled: int
    seconds: float
    scheduler_ms: float
    corewise_ms: float

    @property
    def size(self) -> tuple[int, int, int]:
        return self.nodes, self.pods, self.profiled

    @property
    def per_second(self) -> float:
        return self.pods / self.seconds


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: the schedulerName of its pods, its kube-scheduler's process, and the command of corewise."""

    name: str
    scheduler: str
    process: int
    corewise: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Rig:
    """The cluster with its simulated nodes, and the pods of a run, of which some have a type."""

    client: Client
    nodes: int
    pods: int
    profiled: int

    async def pair(self, number: int, arms: Sequence[Arm]) -> AsyncIterator[Rate]:
        """Yield a run of each arm."""
        for arm in arms:
            with suppress(NotFound):  # corewise installs it again
                await self.client.delete(MUTATING_POLICY_BINDINGS, marking.NAME)
            async with _corewise(arm.corewise) as process:
                rest = 0.0
                if process:
                    await asyncio.sleep(_STARTED)  # its start is not its use at rest
                    before = cpu_ms(process)
                    await asyncio.sleep(_AT_REST)
                    rest = (cpu_ms(process) - before) / _AT_REST
                scheduler, own = cpu_ms(arm.process), cpu_ms(process) if process else 0.0
                seconds = await self._bind(f"{arm.name}-{number}", arm)
                scheduler = cpu_ms(arm.process) - scheduler
                if process:
                    await asyncio.sleep(_SETTLED)  # it reads the last events later
                    own = cpu_ms(process) - own - rest * (seconds + _SETTLED)
            yield Rate(number, arm.name, self.nodes, self.pods, self.profiled, seconds, scheduler, own)
            await remove_pods(self.client)
            await asyncio.sleep(_SETTLED)

    async def _bind(self, name: str, arm: Arm) -> float:
        """Create the pods; return the seconds until all are bound."""
        cache = Cache(self.client, WORKLOAD_PODS, label_selector=MARK)
        typed = {"app": _KIND} if arm.corewise else {}
        every = self.pods // self.profiled if self.profiled else self.pods + 1
        async with running(cache.run), asyncio.timeout(_WITHIN):
            await cache.synced.wait()
            begin = time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                for each in range(self.pods):
                    labels = typed if (each + 1) % every == 0 else {}
                    pod = simulated_pod(f"{name}-{each}", _CELL, arm.scheduler, _KIND, **labels)
                    tasks.create_task(self.client.create(PODS, pod, NAMESPACE))
            while sum(bool(pod.spec.node_name) for pod in cache.items.values()) < self.pods:
                await asyncio.sleep(_POLL)
            return time.monotonic() - begin


@asynccontextmanager
async def rig(client: Client, nodes: int, pods: int, profiled: int, port: int) -> AsyncIterator[Rig]:
    """Have the nodes beside the block, and a stand-in of Prometheus that knows them."""
    found = machines(_CELL, -(-nodes // 3))[:nodes]
    states = {machine.name: Node(machine).state() for machine in found}
    serving = metrics_server(configuration(WINDOW), lambda: states, port=port)
    async with simulated_nodes(client, {_CELL: found}), serving:
        yield Rig(client, nodes, pods, profiled)


@asynccontextmanager
async def _corewise(command: Sequence[str]) -> AsyncIterator[int]:
    """Run corewise beside the block, once it is ready; yields its process, 0 if there is none."""
    if not command:
        yield 0
        return
    process = await asyncio.create_subprocess_exec(*command, start_new_session=True)
    try:
        address = command[command.index("--metrics-listen") + 1]
        async with asyncio.timeout(_WITHIN):
            while not await asyncio.to_thread(_is_ready, address):
                await asyncio.sleep(_POLL)
        yield process.pid
    finally:
        process.terminate()
        await process.wait()


def _is_ready(address: str) -> bool:
    try:
        return bool(urllib.request.urlopen(f"http://{address}/readyz", timeout=5).status == 200)
    except OSError:
        return False


def cpu_ms(process: int) -> float:
    """Return the CPU time that a process has used, user and system."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rates(runs: Sequence[Rate]) -> str:
    """Return the table of rates, a row for each size; means over the pairs."""
    rows = []
    for size in dict.fromkeys(each.size for each in runs):
        alone, corewise = (
            {each.pair: each for each in runs if (each.size, each.arm) == (size, arm)}
            for arm in (ALONE, COREWISE)
        )
        both = sorted(alone.keys() & corewise.keys())
        change = difference([100 * (corewise[n].per_second / alone[n].per_second - 1) for n in both])
        one, other = [alone[n] for n in both], [corewise[n] for n in both]
        rows.append(
            (
                ", ".join(map(str, size)),
                str(len(both)),
                *(f"{fmean(each.per_second for each in side):.0f}" for side in (one, other)),
                f"{change} %",
                *(f"{fmean(each.scheduler_ms / each.pods for each in side):.2f} ms" for side in (one, other)),
                f"{fmean(each.corewise_ms / each.pods for each in other):.3f} ms",
            )
        )
    return table(_COLUMNS, rows)
