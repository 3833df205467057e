"""Interference in the engine, and what is asked of Prometheus: a decision, a refresh, and memory.

Nodes are measured in every series, no two alike; 20 types of workloads, some with a selector, arrive in turn,
and every pod placed counts as a counterweight for the rest of the run. Decisions are in CPU time, one after
the other, with the plugin alone and with the extender's whole engine. A refresh asks a server in the same
process, so its own time is part of the figure; each answer has one series a node. The collector leaves the
cluster alone meanwhile, as in the program. Memory is what is kept, by tracemalloc.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from aiohttp import web

from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import parse_interference
from corewise.engine import Cluster, Engine, Interference, Measured, PodFacts, assemble
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.prometheus.client import PrometheusClient
from corewise.scheduler.decisions import Asked, Decisions
from corewise.scheduler.observing.readings import NodeIdentity, NodeNames, observe
from corewise.scheduler.observing.sources import sources
from corewise.service.program import freeze_gc
from tools.bench import engine as engine_bench
from tools.bench.table import Row, quantile

_TYPES = 20
_DECISIONS = 2_000
_SAMPLED_NODES = 5_000
_REFRESHES = 10
_REMEMBERED = 50
_RANGES = {
    "memorybandwidth_capacity": (80e9, 200e9),
    "memorybandwidth_used": (5e9, 70e9),
    "memory_available": (16e9, 256e9),
    "memorylatency": (80e-9, 200e-9),
    "llc_occupancy": (1e6, 80e6),
    "llc_capacity": (32e6, 400e6),
    "llc_mpki": (0.1, 30.0),
    "cpu": (0.0, 0.9),
    "cpu_cores": (16.0, 128.0),
}


async def measure(counts: tuple[int, ...]) -> list[Row]:
    """Decisions, refreshes and memory at each number of nodes."""
    return [row for count in counts for row in [*_decisions(count), *await _refreshes(count)]]


async def sample() -> dict[str, float]:
    """Return the p50 of a decision on 5,000 nodes by the extender's engine, in microseconds."""
    plugin = Interference(configuration(), time.time)
    cluster = _cluster(_SAMPLED_NODES)
    cluster.estimate(plugin.estimates())
    cluster.measure(_measured(tuple(cluster.nodes)))
    times = _placed(cluster, assemble(interference=plugin), 0)
    return {"interference": quantile(times, 0.5) * 1e6}


def configuration_text() -> str:
    """Return a scheduler's file with twenty types; every fourth is found by a selector beside its name."""
    profiles = {
        f"type-{index}": {
            "profile": {
                "memoryBandwidth": f"{1 + index % 5}GB/s",
                "memory": f"{1 + index % 3}GB",
                "cpu": 1,
                "llc": "4MiB",
            },
            "affinity": {
                "memorybandwidth": 10 + index,
                "memorylatency": 60,
                "llc_occupancy": index % 7 * 10,
                "llc_mpki": index % 5 * 10,
                "cpu": 50,
            },
            **({"selector": {"matchLabels": {"tier": f"t{index}"}}} if index % 4 == 0 else {}),
        }
        for index in range(_TYPES)
    }
    return msgspec.json.encode({"interference": {"profiles": profiles}}).decode()


def configuration() -> InterferenceConfiguration:
    """Return the configuration in that file."""
    parsed = parse_interference(configuration_text())
    if parsed.value is None:
        raise SystemExit("; ".join(map(str, parsed.errors)))
    return parsed.value


def _pod(index: int) -> PodFacts:
    plain = engine_bench.pod(index if index % 10 else index + 1)
    return replace(plain, key=f"ns/pod-{index}", labels={"app": f"type-{index % _TYPES}"})


def _decisions(count: int) -> list[Row]:
    settings, at = configuration(), f"{count} nodes, {_TYPES} profiles"
    plugin = Interference(settings, time.time)
    cluster = _cluster(count)
    cluster.estimate(plugin.estimates())
    measured = _measured(tuple(cluster.nodes))
    columns = engine_bench.heap_of(lambda: cluster.measure(measured)) / count
    whole = assemble(interference=plugin)
    alone = Engine.of(plugin)
    rows = [
        Row(what, at, _told(_placed(cluster, chooser, offset)))
        for what, chooser, offset in (
            ("filter + score with interference alone p50, p99", alone, 0),
            ("filter + score of the extender's engine with interference p50, p99", whole, _DECISIONS),
        )
    ]
    weighing = cluster.expire(time.time())
    kept = _remembered(cluster, whole) / _REMEMBERED / count
    return [
        *rows,
        Row("counterweights at the end", at, f"{weighing}"),
        Row("memory a node: measurements, each remembered decision", at, f"{columns:.0f} B, {kept:.0f} B"),
    ]


def _told(times: list[float]) -> str:
    return ", ".join(f"{quantile(times, share) * 1000:.3f} ms" for share in (0.5, 0.99))


def _cluster(count: int) -> Cluster:
    cluster = Cluster()
    engine_bench.put_nodes(cluster, count)
    return cluster


def _measured(names: tuple[str, ...]) -> Measured:
    random, at = np.random.default_rng(7), np.full(len(names), time.time())
    columns = {name: (random.uniform(low, high, len(names)), at) for name, (low, high) in _RANGES.items()}
    return Measured(names, columns)


def _placed(cluster: Cluster, chooser: Engine, offset: int) -> list[float]:
    """Place pods; return how long each decision took."""
    times = []
    for index in range(offset, offset + _DECISIONS):
        pod, start = _pod(index), time.process_time()
        decision = chooser.decide(pod, cluster.snapshot())
        times.append(time.process_time() - start)
        engine_bench.bind(cluster, chooser, decision)
    return times


def _remembered(cluster: Cluster, chooser: Engine) -> int:
    """Return the memory of remembered decisions, made while pods are placed in between."""
    decisions = Decisions(_REMEMBERED, SYSTEM_CLOCK)

    def remember() -> None:
        for index in range(_REMEMBERED):
            decision = chooser.decide(_pod(index), cluster.snapshot())
            decisions.remember(Asked.FILTER, decision, {}, "")
            engine_bench.bind(cluster, chooser, replace(decision, pod=_pod(10**6 + index)))

    return engine_bench.heap_of(remember)


async def _refreshes(count: int) -> list[Row]:
    names = tuple(f"node-{index:05d}" for index in range(count))
    nodes, asked = NodeNames(map(NodeIdentity, names)), sources(configuration())
    at = f"{count} nodes, {len(asked)} series"
    times, longest, forced = [], [], []
    cluster = _cluster(count)
    freeze_gc()
    async with metrics_server(names) as url, PrometheusClient(url) as client:
        for _ in range(_REFRESHES):
            stall = asyncio.create_task(_longest_stall())
            start = time.perf_counter()
            observation = await observe(client, asked, nodes, time.time)
            times.append(time.perf_counter() - start)
            stall.cancel()
            longest.append(await stall)
            start = time.perf_counter()
            cluster.measure(observation.measured())
            forced.append(time.perf_counter() - start)
    return [
        Row("refresh from Prometheus p50", at, f"{quantile(times, 0.5) * 1000:.0f} ms"),
        Row("longest that a refresh keeps the event loop p50", at, f"{quantile(longest, 0.5) * 1000:.1f} ms"),
        Row("metrics snapshot applied p50", at, f"{quantile(forced, 0.5) * 1000:.2f} ms"),
    ]


async def _longest_stall() -> float:
    """Return the longest time in which the event loop did nothing else, until canceled."""
    longest, before = 0.0, time.perf_counter()
    try:
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest, before = max(longest, now - before), now
    except asyncio.CancelledError:
        return longest


@asynccontextmanager
async def metrics_server(names: tuple[str, ...]) -> AsyncIterator[str]:
    """Answer every query with a value of each node."""
    body = _answer(names)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    application = web.Application()
    application.router.add_post("/api/v1/query", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


def _answer(names: tuple[str, ...]) -> bytes:
    now = time.time()
    result: list[Mapping[str, Any]] = [
        {"metric": {"node": name}, "value": [now, str(0.1 + index % 80 / 100)]}
        for index, name in enumerate(names)
    ]
    return msgspec.json.encode({"status": "success", "data": {"resultType": "vector", "result": result}})
