"""The cost and speed of the agent on a node with 110 and with 250 pods of two containers each.

The agent is a process of its own at its default intervals, with the environment of its DaemonSet, with the
NRI plugin loaded and no runtime to connect to. CPU time is what the kernel accounts to it; a cycle is timed
by the agent's own metric; system calls are counted by strace, over whole cycles, and only where strace may
attach. Anonymous memory is what no file backs: the part that the kernel cannot take back. With the kernel's
own memory for the agent it is what counts for the container's limit, whatever the node does with files.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from corewise.agent.objects import QUOTA_PODS, QuotaPod
from corewise.kube.client import Client, PatchType
from corewise.kube.config import load_config
from corewise.kube.resources import NODES, PODS
from corewise.vocabulary.names import AMPLIFICATION_RATIO, NORMALIZATION_RATIO
from corewise_lab.control_plane import reserve_port
from tools.bench import processes
from tools.bench.agent_machine import BenchMachine, bench_machine
from tools.bench.table import Row, exponent, quantile

NODE = "n1"
COUNTS = (110, 250)
"""kubelet's default of the most pods on a node, and as many as managed clusters allow."""
ENVIRONMENT = {"SSL_CERT_FILE": "/dev/null", "PYTHONNODEBUGRANGES": "1"}
"""As in the DaemonSet."""
CYCLE = 10.0
REST = 60.0
_CALM = 45.0
"""Seconds until the agent has seen for half a minute that nothing on the node waits for a CPU."""
TRACED = 3 * CYCLE
_RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
_CYCLES = [
    f'corewise_agent_loop_duration_seconds_{part}{{loop="quotas",node="{NODE}"}}' for part in ("sum", "count")
]
_MEMORY = {"RSS": "VmRSS", "peak RSS": "VmHWM", "PSS": "Pss", "anonymous": "Anonymous"}
_COUNTED = "anonymous and the kernel's, in its cgroup"
_CYCLES_SAMPLED = 11
_SETTLED = 2.5
"""Seconds until the agent has nothing to do but its cycles, half a cycle off them."""
_Running = tuple[Client, BenchMachine, list[QuotaPod], Process, int]
"""What runs: the API server's client, the machine, its pods, the agent, and the port of its metrics."""
_DIVIDED = {"1.50": {66_667, 33_334}, "2.00": {50_000, 25_000}}


async def measure() -> list[Row]:
    """Measure nodes with different numbers of pods, and the growth of figures from the first to the last."""
    rows, figures = [], []
    for count in COUNTS:
        more, measured = await _measure(count)
        rows += more
        figures.append(measured)
    few, many = COUNTS[0], COUNTS[-1]
    grown = {name: exponent((few, figures[0][name]), (many, figures[-1][name])) for name in figures[0]}
    shown = ", ".join(f"{name} {each:.2f}" for name, each in grown.items() if each is not None)
    return [*rows, Row("exponents of growth (1.00: linear)", f"{few} to {many} pods", shown)]


async def sample() -> dict[str, float]:
    """Return the p50 of the agent's CPU time in a second with one cycle, and its memory.

    In microseconds and MiB. The probe of memory latency is off: not every tree has its compiled helper.
    """
    options = ("--interval", "1s", "--no-latency-probe")
    async with _running(COUNTS[0], *options) as (client, machine, pods, agent, port):
        await _change(client, machine, pods, port, "1.50")
        await asyncio.sleep(_SETTLED)
        used = []
        for _ in range(_CYCLES_SAMPLED):
            before = processes.cpu_nanoseconds(agent)
            await asyncio.sleep(1.0)
            used.append((processes.cpu_nanoseconds(agent) - before) / 1e3)
        return {"agent-cycle": quantile(used, 0.5), "agent-memory": _memory(agent, machine)["anonymous"]}


async def _measure(count: int) -> tuple[list[Row], dict[str, float]]:
    """Run the agent on a full node; change the ratio; let it rest."""
    async with _running(count) as running:
        return await _rows(*running)


@asynccontextmanager
async def _running(count: int, *options: str) -> AsyncIterator[_Running]:
    """Run the agent on a full node beside the block."""
    with tempfile.TemporaryDirectory() as name, bench_machine() as machine:
        folder = Path(name)
        async with (
            processes.api_server(folder) as (_, kubeconfig),
            Client(load_config(str(kubeconfig), None)) as client,
        ):
            pods = await _populate(client, count)
            machine.start(pods)
            port = reserve_port()
            arguments = [*_arguments(folder, kubeconfig, machine, port), *options]
            async with processes.child(
                *arguments, log=folder / "agent.log", environment=ENVIRONMENT, cgroup=machine.agents
            ) as agent:
                await processes.until_ready(agent, port, folder / "agent.log")
                yield client, machine, pods, agent, port


def _arguments(folder: Path, kubeconfig: Path, machine: BenchMachine, port: int) -> list[str]:
    return [
        *("corewise", "agent", "--kubeconfig", str(kubeconfig), "--node-name", NODE),
        *("--root", str(machine.root), "--cgroup-root", machine.cgroup_root),
        *("--state-dir", str(folder / "state"), "--nri-socket", str(folder / "nri.sock")),
        *("--metrics-listen", f"127.0.0.1:{port}"),
    ]


async def _rows(
    client: Client, machine: BenchMachine, pods: list[QuotaPod], agent: Process, port: int
) -> tuple[list[Row], dict[str, float]]:
    size = f"{len(pods)} pods x 2 containers, {machine.kind}"
    first = await _change(client, machine, pods, port, "1.50")
    second = await _change(client, machine, pods, port, "2.00")
    cpu, cycle, writes = await _at_rest(agent, port)
    memory = _memory(agent, machine)
    calls = await _system_calls(agent)
    rows = [
        Row("ratio annotated to all quotas written: first time", size, _changed(first)),
        Row("ratio annotated to all quotas written: 1.50 to 2.00", size, _changed(second)),
        Row(f"CPU at rest, over {REST:.0f} s", size, f"{cpu / REST:.2%} of a core"),
        Row(f"a cycle at rest: seconds on the clock, mean over {REST:.0f} s", size, f"{cycle:.3f} s"),
        Row(f"quota writes at rest, over {REST:.0f} s", size, f"{writes:.0f}"),
        Row("memory", size, ", ".join(f"{name} {amount:.1f} MiB" for name, amount in memory.items())),
        Row("system calls a cycle", size, calls),
    ]
    return rows, {"CPU at rest": cpu, **memory}


def _changed(change: tuple[float, float]) -> str:
    return f"{change[0] * 1000:.0f} ms, {change[1]:.0f} writes"


async def _populate(client: Client, count: int) -> list[QuotaPod]:
    """Create the node, and its pods as they run."""
    await client.create(NODES.typed(dict), {"metadata": {"name": NODE}})
    gate = asyncio.Semaphore(16)

    async def one(index: int) -> QuotaPod:
        async with gate:
            name = f"pod-{index}"
            await client.create(PODS.typed(dict), _pod(name), "default")
            statuses = [running_container(name, container) for container in ("main", "side")]
            body = {"status": {"phase": "Running", "containerStatuses": statuses}}
            return await client.patch(
                QUOTA_PODS, name, body, namespace="default", subresource="status", type=PatchType.MERGE
            )

    return await asyncio.gather(*(one(index) for index in range(count)))


def _pod(name: str) -> dict[str, Any]:
    containers = [
        {"name": each, "image": "i", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": limit}}}
        for each, limit in (("main", "1"), ("side", "500m"))
    ]
    return {"metadata": {"name": name}, "spec": {"nodeName": NODE, "containers": containers}}


def running_container(pod: str, container: str) -> dict[str, Any]:
    """Return the status of a container that runs."""
    number = f"{pod}{container}".encode().hex()
    state = {"name": container, "containerID": f"containerd://{number}", "state": _RUNNING}
    return {**state, "image": "i", "imageID": "i", "ready": True, "restartCount": 0}


async def _change(
    client: Client, machine: BenchMachine, pods: list[QuotaPod], port: int, ratio: str
) -> tuple[float, float]:
    """Annotate a ratio; return the seconds until the last quota was there, and the number of writes."""
    before = await _metric(port, "corewise_quota_writes_total")
    annotations = {NORMALIZATION_RATIO: ratio, AMPLIFICATION_RATIO: f'{{"cpu":{ratio}}}'}
    began = time.monotonic()
    await client.patch(NODES, NODE, {"metadata": {"annotations": annotations}})
    async with asyncio.timeout(CYCLE):
        while not set(machine.quotas(pods)) <= _DIVIDED[ratio]:
            await asyncio.sleep(0.001)
    took = time.monotonic() - began
    await asyncio.sleep(1.0)
    return took, await _metric(port, "corewise_quota_writes_total") - before


async def _at_rest(agent: Process, port: int) -> tuple[float, float, float]:
    """Return CPU seconds used, seconds of a cycle, and quotas written, while nothing changes or waits."""
    await asyncio.sleep(_CALM)
    names = (*_CYCLES, "corewise_quota_writes_total")
    before, cpu = [await _metric(port, name) for name in names], processes.cpu_nanoseconds(agent)
    await asyncio.sleep(REST)
    used = (processes.cpu_nanoseconds(agent) - cpu) / 1e9
    seconds, cycles, writes = [
        await _metric(port, name) - old for name, old in zip(names, before, strict=True)
    ]
    return used, seconds / cycles, writes


async def _system_calls(agent: Process) -> str:
    """Count system calls over a few cycles."""
    strace = shutil.which("strace")
    if strace is None:
        return "not counted: no strace here"
    counting = await asyncio.create_subprocess_exec(
        strace, "-f", "-c", "-p", str(agent.pid), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    await asyncio.sleep(TRACED)
    counting.terminate()
    _, table = await counting.communicate()
    counts: dict[str, int] = {}
    for line in table.decode().splitlines():
        match = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", line)
        if match:
            counts[match[2]] = int(match[1])
    counts.pop("total", None)
    cycles = TRACED / CYCLE
    most = sorted(counts, key=lambda name: -counts[name])[:4]
    shown = ", ".join(f"{name} {counts[name] / cycles:.0f}" for name in most)
    return f"{sum(counts.values()) / cycles:.0f} ({shown})"


async def _metric(port: int, name: str) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    match = re.search(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
    if match is None:
        raise RuntimeError(f"the agent does not export {name}")
    return float(match[1])


def _memory(process: Process, machine: BenchMachine) -> dict[str, float]:
    """Return the memory of the agent by kind, in MiB."""
    place = Path(f"/proc/{process.pid}")
    text = (place / "status").read_text() + (place / "smaps_rollup").read_text()
    amounts = {
        name: int(amount) / 1024 for name, amount in re.findall(r"^(\w+):\s*(\d+) kB", text, re.MULTILINE)
    }
    found = {shown: amounts[name] for shown, name in _MEMORY.items()}
    if machine.agents is None:
        return found
    anonymous = re.search(r"^rss (\d+)$", (machine.agents / "memory.stat").read_text(), re.MULTILINE)
    own = int((machine.agents / "memory.kmem.usage_in_bytes").read_text())
    return found if anonymous is None else found | {_COUNTED: (int(anonymous[1]) + own) / (1 << 20)}
