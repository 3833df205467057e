"""From a change of the ConfigMap to the last node patched, against bare PATCHes of the same objects.

The manager does more than the bare side: it decides, and writes annotations through each node's status. The
bare side sends one such PATCH a node with the same client and the same number of writes under way, to the
same server: once before there is a manager, and once when policy and webhooks are installed, which look at
each of these writes too. So the ratio says what a decision costs, not how fast the server is.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from corewise.amplification.annotations import read_node
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.decoding import WatchEvent
from corewise.kube.resources import CONFIG_MAPS, NODE_RESOURCE_TOPOLOGIES
from corewise.vocabulary.names import (
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
)
from corewise.workload.nodes import WORKLOAD_NODES, Node
from tools.bench import fleet, processes
from tools.bench.table import Row

CONCURRENCY = 16
_DEADLINE = 600.0


async def measure(count: int) -> list[Row]:
    """Time one change of ratio on ``count`` nodes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            processes.api_server(folder) as (server, kubeconfig),
            Client(load_config(str(kubeconfig), None)) as client,
        ):
            await populate(client, count)
            bare = await _bare_patches(client, count, "before")
            async with processes.manager(folder, kubeconfig) as (manager, _, _):
                await set_ratio(client, "1.50")
                await until_all(client, count, "1.50")
                changed = await _timed_change(client, count, "1.60")
                memory = processes.peak_rss_mib(manager), processes.peak_rss_mib(server)
                reviewed = await _bare_patches(client, count, "after")
    size = f"{count} nodes"
    return [
        Row("ConfigMap change to last node annotated", size, f"{changed[0]:.2f} s"),
        Row("ConfigMap change to last node's status amplified", size, f"{changed[1]:.2f} s"),
        Row("bare PATCHes of the same nodes' status, no policy or webhook", size, f"{bare:.2f} s"),
        Row(
            "bare PATCHes of the same nodes' status, policy and webhooks installed", size, f"{reviewed:.2f} s"
        ),
        Row("ratio, amplified to bare without policy", size, f"{changed[1] / bare:.2f}"),
        Row("ratio, amplified to bare with policy", size, f"{changed[1] / reviewed:.2f}"),
        Row("peak memory: manager, local API server", size, f"{memory[0]:.0f} MiB, {memory[1]:.0f} MiB"),
    ]


async def populate(client: Client, count: int) -> None:
    """Create nodes, their topologies, and an empty ConfigMap."""
    config = {"metadata": {"name": CONFIG_NAME}, "data": {}}
    await client.create(CONFIG_MAPS, config, CONFIG_NAMESPACE)
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(index: int) -> None:
        async with gate:
            await client.create(WORKLOAD_NODES, fleet.node(index))
            await client.create(NODE_RESOURCE_TOPOLOGIES, fleet.topology(index))

    await asyncio.gather(*(one(index) for index in range(count)))


async def set_ratio(client: Client, ratio: str) -> None:
    """Configure a normalization ratio for every node."""
    body = {"data": {NORMALIZATION_KEY: fleet.normalization_config(ratio)}}
    await client.patch(CONFIG_MAPS, CONFIG_NAME, body, namespace=CONFIG_NAMESPACE)


async def until_all(client: Client, count: int, ratio: str) -> tuple[float, float]:
    """Watch until every node has the annotation, and until every status is amplified by it; both moments."""
    listing = await client.list(WORKLOAD_NODES)
    annotated = {node.metadata.name for node in listing.items if _annotated(node, ratio)}
    amplified = {node.metadata.name for node in listing.items if _amplified(node, ratio)}
    moments = [time.monotonic()] * 2
    async with asyncio.timeout(_DEADLINE):
        version = listing.resource_version
        async for event in client.watch(WORKLOAD_NODES, version, timeout_seconds=int(_DEADLINE)):
            if isinstance(event, WatchEvent):
                name = event.object.metadata.name
                _note(annotated, name, moments, 0, count, holds=_annotated(event.object, ratio))
                _note(amplified, name, moments, 1, count, holds=_amplified(event.object, ratio))
            if len(annotated) == len(amplified) == count:
                break
    return moments[0], moments[1]


def _note(seen: set[str], name: str, moments: list[float], which: int, count: int, *, holds: bool) -> None:
    if holds and name not in seen:
        seen.add(name)
        if len(seen) == count:
            moments[which] = time.monotonic()


def _annotated(node: Node, ratio: str) -> bool:
    return node.metadata.annotations.get(NORMALIZATION_RATIO) == ratio


def _amplified(node: Node, ratio: str) -> bool:
    return str(read_node(node.metadata.annotations).recorded_ratio("cpu")) == ratio


async def _timed_change(client: Client, count: int, ratio: str) -> tuple[float, float]:
    waiting = asyncio.create_task(until_all(client, count, ratio))
    await asyncio.sleep(1)  # the watch is up before the clock starts
    begin = time.monotonic()
    await set_ratio(client, ratio)
    annotated, amplified = await waiting
    return annotated - begin, amplified - begin


async def _bare_patches(client: Client, count: int, value: str) -> float:
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(index: int) -> None:
        async with gate:
            body = {"metadata": {"annotations": {"bench.corewise.io/bare": value}}}
            await client.patch(WORKLOAD_NODES, fleet.node_name(index), body, subresource="status")

    begin = time.monotonic()
    await asyncio.gather(*(one(index) for index in range(count)))
    return time.monotonic() - begin
