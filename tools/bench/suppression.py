"""The agent's response to a jump of online load, and the cost of limiting offline pods at two intervals.

The agent is a process of its own, as a user starts it, on this machine's real cgroups, with 100 online pods
of two containers each and 10 offline ones. In online pods, busy processes follow a curve that jumps between
20 % and 70 % of the machine at known times; in offline pods they always want more. The reaction counts from
the jump to when the best-effort cgroup's quota has moved half a step toward its new target: it has to wait
for the next look, and what that sees is the mean over an interval.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corewise.agent.objects import QUOTA_PODS, QuotaPod
from corewise.kernel.cgroups.layout import Version
from corewise.kube.client import Client, PatchType
from corewise.kube.config import load_config
from corewise.kube.resources import CONFIG_MAPS, NODES, PODS
from corewise.vocabulary.names import (
    BATCH_CPU,
    BATCH_MEMORY,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    OVERSUBSCRIPTION,
    OVERSUBSCRIPTION_KEY,
    SUPPRESSION_KEY,
)
from corewise_lab.control_plane import reserve_port
from kernel.cgroup_writes import layout_here
from real_load.agents import Agent
from real_load.crew import Crew, Curve
from real_load.kubelet_tree import KubeletTree
from real_load.machine_load import MachineLoad
from real_load.runs import cpus_here
from real_load.spinner import SLOT
from tools.bench import processes
from tools.bench.agent import NODE, running_container
from tools.bench.table import Row, quantile

ONLINE_PODS, OFFLINE_PODS = 100, 10
SIZE = "110 pods"
REST = 20.0
ROUNDS = 2
INTERVALS = (10, 1)
JUMPS = 24
LOW, HIGH = 0.2, 0.7
BETWEEN = 5.0
TICKS = 400
_ALWAYS: Curve = ((0.0, 1.0),)
_LOOK = 0.004


async def measure() -> list[Row]:
    """Measure on this machine's cgroups; nothing where there are none to be written."""
    layout = layout_here(Version.V1, Version.V2)
    if layout is None:
        return [Row("reaction and cost of suppression", SIZE, "not measured: needs root and cgroups")]
    with tempfile.TemporaryDirectory() as name, KubeletTree(layout, heavy=True) as tree:
        folder = Path(name)
        async with (
            processes.api_server(folder) as (_, kubeconfig),
            Client(load_config(str(kubeconfig), None)) as client,
        ):
            pods = await _populate(client)
            for pod in pods:
                tree.start(pod)
            tree.enter()
            port = reserve_port()
            arguments = _arguments(folder, kubeconfig, tree, port)
            async with processes.child(*arguments, log=folder / "agent.log") as agent:
                tree.enter(agent.pid)
                await processes.until_ready(agent, port, folder / "agent.log")
                rows = await _cost(client, agent)
                rows += await _reaction(client, tree, pods)
            return [*rows, *_ticks(tree, pods, folder)]


def _arguments(folder: Path, kubeconfig: Path, tree: KubeletTree, port: int) -> list[str]:
    return [
        *("corewise", "agent", "--kubeconfig", str(kubeconfig), "--node-name", NODE, "--no-nri"),
        *("--cgroup-root", tree.root, "--state-dir", str(folder / "state")),
        *("--metrics-listen", f"127.0.0.1:{port}"),
    ]


async def _populate(client: Client) -> list[QuotaPod]:
    """Create the node as this machine is, and its pods as they run."""
    await client.create(NODES.typed(dict), {"metadata": {"name": NODE}})
    amounts = {"cpu": str(len(cpus_here())), "memory": "8Gi", "pods": "110"}
    body = {"status": {"capacity": amounts, "allocatable": amounts}}
    await client.patch(NODES, NODE, body, subresource="status", type=PatchType.MERGE)
    gate = asyncio.Semaphore(16)

    async def one(name: str, containers: Sequence[str], resources: dict[str, Any]) -> QuotaPod:
        async with gate:
            stated = [{"name": each, "image": "i", "resources": resources} for each in containers]
            spec = {"nodeName": NODE, "containers": stated}
            await client.create(PODS.typed(dict), {"metadata": {"name": name}, "spec": spec}, "default")
            status = {"containerStatuses": [running_container(name, each) for each in containers]}
            body = {"status": {"phase": "Running", **status}}
            return await client.patch(
                QUOTA_PODS, name, body, namespace="default", subresource="status", type=PatchType.MERGE
            )

    batch = {BATCH_CPU: "1000", BATCH_MEMORY: "100Mi"}
    online = (one(f"web-{i}", ("main", "side"), {"requests": {"cpu": "10m"}}) for i in range(ONLINE_PODS))
    offline = (
        one(f"batch-{i}", ("main",), {"requests": batch, "limits": batch}) for i in range(OFFLINE_PODS)
    )
    return await asyncio.gather(*online, *offline)


async def _set(client: Client, *, on: bool, interval: int) -> None:
    """Label the node and set the interval, and let the agent come to know it."""
    data = {OVERSUBSCRIPTION_KEY: json.dumps({"intervalSeconds": interval}), SUPPRESSION_KEY: "{}"}
    metadata = {"name": CONFIG_NAME, "namespace": CONFIG_NAMESPACE}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    await client.patch(
        CONFIG_MAPS,
        CONFIG_NAME,
        body,
        namespace=CONFIG_NAMESPACE,
        type=PatchType.APPLY,
        field_manager="bench",
    )
    label = {OVERSUBSCRIPTION: "true" if on else "false"}
    await client.patch(NODES, NODE, {"metadata": {"labels": label}})
    await asyncio.sleep(2 * interval if on else 2)


async def _cost(client: Client, agent: Process) -> list[Row]:
    """Compare the agent's CPU without oversubscription and at each interval, in turns."""
    used: dict[int, float] = dict.fromkeys((0, *INTERVALS), 0.0)
    for _ in range(ROUNDS):
        for interval in used:
            await _set(client, on=interval > 0, interval=interval or INTERVALS[0])
            before = processes.cpu_seconds(agent)
            await asyncio.sleep(REST)
            used[interval] += processes.cpu_seconds(agent) - before
    shares = {interval: seconds / (ROUNDS * REST) for interval, seconds in used.items()}
    rows = [Row("agent's CPU, oversubscription off", SIZE, f"{shares[0]:.2%} of a core")]
    for interval in INTERVALS:
        more = shares[interval] / shares[0]
        value = f"{shares[interval]:.2%} of a core ({more:.1f} x off)"
        rows.append(Row(f"agent's CPU, interval {interval} s", SIZE, value))
    return rows


@dataclass(frozen=True, slots=True)
class _Jump:
    """When the load jumped, and whether up; seconds on the monotonic clock."""

    at: float
    up: bool


async def _reaction(client: Client, tree: KubeletTree, pods: Sequence[QuotaPod]) -> list[Row]:
    """Have the load jump at odd times, and watch the quota."""
    interval = INTERVALS[-1]
    await _set(client, on=True, interval=interval)
    cpus = cpus_here()
    began = time.monotonic() + 2 * BETWEEN
    jumps = list(_jumps(began))
    curve = tuple(_curve(jumps, began))
    with Crew() as crew:
        for index, cpu in enumerate(cpus):
            online, offline = (tree.process_directories(tree.container(pods[i])) for i in (index, -1 - index))
            crew.start(online, curve, began + SLOT * index / len(cpus), cpu)
            crew.start(offline, _ALWAYS, began)
        seen = await _watch(tree, jumps[-1].at + BETWEEN)
    half = len(cpus) * 50
    at = f"{len(jumps)} jumps between 20 % and 70 %, interval {interval} s, {SIZE}"
    rows = []
    for up, moved in ((True, "load rises: quota half a step down"), (False, "load falls: half a step up")):
        answers = [_answered(jump, seen, half) for jump in jumps if jump.up is up]
        times = [answer for answer in answers if answer is not None]
        shown = "not seen: does other work use the machine?"
        if times:
            p50, p99 = (quantile(times, share) for share in (0.5, 0.99))
            shown = f"{p50:.2f} s, {p99:.2f} s; {len(times)} of {len(answers)}"
        rows.append(Row(f"{moved}, p50, p99; jumps answered", at, shown))
    return rows


def _jumps(began: float) -> Iterator[_Jump]:
    chance = random.Random(4)  # noqa: S311 - phases against the agent's interval, nothing secret
    at = began + BETWEEN
    for number in range(JUMPS):
        yield _Jump(at, up=number % 2 == 0)
        at += BETWEEN + chance.random()


def _curve(jumps: Sequence[_Jump], began: float) -> Iterator[tuple[float, float]]:
    yield 0.0, LOW
    for jump in jumps:
        before, after = (LOW, HIGH) if jump.up else (HIGH, LOW)
        yield jump.at - began, before
        yield jump.at - began, after


async def _watch(tree: KubeletTree, until: float) -> list[tuple[float, int]]:
    """Return the quotas of the best-effort cgroup, in milli-CPU, with the time each was first seen."""
    seen: list[tuple[float, int]] = []
    while time.monotonic() < until:
        milli = tree.milli(tree.best_effort)
        if milli is None:
            milli = len(cpus_here()) * 1000
        if not seen or seen[-1][1] != milli:
            seen.append((time.monotonic(), milli))
        await asyncio.sleep(_LOOK)
    return seen


def _answered(jump: _Jump, seen: Sequence[tuple[float, int]], least: int) -> float | None:
    """Return the seconds after a jump until the quota had moved by so much in the right direction."""
    before = next((milli for at, milli in reversed(seen) if at <= jump.at), seen[0][1])
    for at, milli in seen:
        moved = before - milli if jump.up else milli - before
        if jump.at < at < jump.at + BETWEEN and moved >= least:
            return at - jump.at
    return None


def _ticks(tree: KubeletTree, pods: Sequence[QuotaPod], folder: Path) -> list[Row]:
    """Time the agent's code alone: from before the counters are read to when the quota is written."""
    cpus = len(cpus_here())
    load = MachineLoad(folder / "machine", cpus)
    times = []
    with Agent(tree, pods, cpus * 1000, folder / "journal", root=load.root) as agent:
        for number in range(TICKS):
            load.use(cpus * (200 if number // 10 % 2 else 700))
            began = time.perf_counter()
            agent.tick(float(number))
            times.append(time.perf_counter() - began)
    shown = ", ".join(f"{quantile(times, share) * 1000:.1f} ms" for share in (0.5, 0.99))
    return [Row("counters read to quota written, p50, p99", f"{TICKS} looks, {SIZE}", shown)]
