"""The server of the web page: how soon it shows a large cluster, what a change costs, and its memory.

``corewise web`` is a process of its own, against the local API server, another one. Nodes and pods are of the
size of real ones. Memory is resident memory: of a process that has only the caches which the server follows,
and of the server once pages have been served.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import tempfile
import time
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path

import aiohttp

from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import NAMESPACES, NODES, PODS
from corewise.views.page.followed import FollowedCluster
from corewise.vocabulary.names import CONFIG_NAMESPACE, NORMALIZATION_RATIO
from corewise_lab.control_plane import reserve_port
from tools.bench import fleet, processes, ratio_change, watching
from tools.bench.table import Row, quantile

_PODS_A_NODE = 10
_AT_ONCE = 16
_NAMESPACES = 20
_GETS = 10
_UPDATES = 20
_TABLES = ("nodes", "pods")
_OPEN: tuple[tuple[str, ...], ...] = ((), ("nodes",), ("nodes", "pods", "problems"))
_WITHIN = 300.0
_SETTLED = 5.0


async def measure(counts: tuple[int, ...]) -> list[Row]:
    """Measure the cost of the page's server at each number of nodes, with ten pods on each."""
    rows = []
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            async with processes.api_server(folder) as (_, kubeconfig):
                await fill(kubeconfig, count)
                rows += await measure_server(folder, kubeconfig, count)
    return rows


async def fill(kubeconfig: Path, count: int) -> None:
    """Create nodes, their topologies, and their pods."""
    async with Client(load_config(str(kubeconfig))) as client:
        await ratio_change.populate(client, count)
        await ratio_change.set_ratio(client, "1.50")
        namespaces = {watching.pod(index)["metadata"]["namespace"] for index in range(_NAMESPACES)}
        for name in namespaces:
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        numbers = iter(range(count * _PODS_A_NODE))

        async def create() -> None:
            for index in numbers:
                pod = watching.pod(index)
                meta = {key: pod["metadata"][key] for key in ("name", "labels", "annotations")}
                spec = pod["spec"] | {"nodeName": fleet.node_name(index % count)}
                await client.create(PODS, {"metadata": meta, "spec": spec}, pod["metadata"]["namespace"])

        await asyncio.gather(*(create() for _ in range(_AT_ONCE)))


async def measure_server(folder: Path, kubeconfig: Path, count: int) -> list[Row]:
    """Start the server and be its browser."""
    size = f"{count:,} nodes, {count * _PODS_A_NODE:,} pods"
    rows = [Row("memory of a process with the same caches alone", size, await _caches(folder, kubeconfig))]
    port = reserve_port()
    url = f"http://127.0.0.1:{port}"
    command = ("corewise", "web", "--kubeconfig", str(kubeconfig), "--listen", f"127.0.0.1:{port}")
    async with (
        processes.child(*command, log=folder / "web.log") as process,
        aiohttp.ClientSession(read_bufsize=1 << 20) as session,
    ):
        async with asyncio.timeout(_WITHIN):
            while not await _is_shown(session, f"{url}/api/tables/nodes"):
                await asyncio.sleep(0.05)
        took = f"{processes.cpu_seconds(process):.1f} s"
        rows.append(Row("CPU of the server from its start to its first answer", size, took))
        rows += [await _gets(session, f"{url}/api/tables/{name}", size) for name in _TABLES]
        await asyncio.sleep(_SETTLED)
        async with Client(load_config(str(kubeconfig))) as client:
            rows += await _updates(client, session, process, (url, size))
        rows += await _what_if(session, url, size)
        peak = f"{_rss_mib(process.pid):.0f} MiB, at most {processes.peak_rss_mib(process):.0f} MiB"
    return [*rows, Row("memory of the server, pages open", size, peak)]


async def _is_shown(session: aiohttp.ClientSession, url: str) -> bool:
    with suppress(aiohttp.ClientConnectionError):
        async with session.get(url) as answer:
            return answer.status == 200
    return False


async def _gets(session: aiohttp.ClientSession, url: str, size: str) -> Row:
    times, text = [], b""
    for _ in range(_GETS):
        start = time.perf_counter()
        async with session.get(url) as answer:
            text = await answer.read()
        times.append(time.perf_counter() - start)
    shown = ", ".join(f"{quantile(times, share) * 1000:.0f} ms" for share in (0.5, 1.0))
    rows = len(json.loads(text)["rows"])
    what = f"GET /api/tables/{url.rpartition('/')[2]} p50, maximum"
    return Row(what, f"{size} ({rows:,} rows, {len(text) / 2**20:.1f} MiB)", shown)


async def _updates(
    client: Client, session: aiohttp.ClientSession, process: Process, served: tuple[str, str]
) -> list[Row]:
    """Change one node a second: the delay until an open page has it, and the server's CPU for it."""
    url, size = served
    rows, changes = [], itertools.count(1)
    for tables in _OPEN:
        told = asyncio.Queue[float]()
        streams = [f"{url}/api/stream/tables/{each}" for each in tables]
        pages = [asyncio.create_task(_page(session, each, told)) for each in streams]
        await asyncio.sleep(_SETTLED)
        took, before, began = [], processes.cpu_nanoseconds(process), time.perf_counter()
        for index in range(_UPDATES):
            start = time.perf_counter()
            annotations = {NORMALIZATION_RATIO: f"{1 + next(changes) / 100:.2f}"}
            await client.patch(NODES, fleet.node_name(index), {"metadata": {"annotations": annotations}})
            if tables:
                async with asyncio.timeout(_WITHIN):
                    took.append(await told.get() - start)
            await asyncio.sleep(max(0.0, began + index + 1 - time.perf_counter()))
        seconds = (processes.cpu_nanoseconds(process) - before) / 1e9
        spent = f"{seconds / (time.perf_counter() - began):.1%} of a core"
        for page in pages:
            page.cancel()
        what = f"CPU of the server while a node changes each second, open: {', '.join(tables) or 'nothing'}"
        rows.append(Row(what, size, spent))
        if tables == ("nodes",):
            shown = ", ".join(f"{quantile(took, share):.2f} s" for share in (0.5, 1.0))
            rows.append(Row("change of a node to its event p50, maximum", size, shown))
    return rows


async def _what_if(session: aiohttp.ClientSession, url: str, size: str) -> list[Row]:
    """Try another ratio of every node's model, and measure the wait of an open page."""
    field = "hyperThreadTurboEnabledRatio"
    change = {"change": "model", "model": fleet.MODEL, "field": field, "ratio": "1.20"}
    start, waited = time.perf_counter(), []
    trial = asyncio.create_task(_tried(session, f"{url}/api/what-if", change))
    while not trial.done():
        asked = time.perf_counter()
        await _is_shown(session, f"{url}/api/tables/nodes")
        waited.append(time.perf_counter() - asked)
        await asyncio.sleep(0.5)
    await trial
    return [
        Row("what-if of the ratio of every node", size, f"{time.perf_counter() - start:.1f} s"),
        Row(
            "GET /api/tables/nodes while it runs p50, maximum",
            size,
            ", ".join(f"{quantile(waited, share) * 1000:.0f} ms" for share in (0.5, 1.0)),
        ),
    ]


async def _tried(session: aiohttp.ClientSession, url: str, change: dict[str, str]) -> None:
    async with session.post(url, json=change) as answer:
        if answer.status != 200:
            raise SystemExit(f"{url} answered {answer.status}: {await answer.text()}")


async def _page(session: aiohttp.ClientSession, url: str, told: asyncio.Queue[float]) -> None:
    async with session.get(url) as answer:
        async for chunk in answer.content.iter_any():
            if b"event: change" in chunk and url.endswith("nodes"):
                told.put_nowait(time.perf_counter())


async def _caches(folder: Path, kubeconfig: Path) -> str:
    async with processes.child("tools.bench.web", str(kubeconfig), log=folder / "caches.log") as process:
        await asyncio.wait_for(process.wait(), _WITHIN)
    return (folder / "caches.log").read_text().strip().splitlines()[-1]


def _rss_mib(pid: int | str) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


async def _follow(kubeconfig: str) -> None:
    """Follow the same objects as the server, make nothing of them, and print this process's memory."""
    config = load_config(kubeconfig)
    async with asyncio.TaskGroup() as group, Client(config) as client:
        print(f"{_rss_mib('self'):.0f} MiB", flush=True)
        cluster = FollowedCluster(config, client, config_namespace=CONFIG_NAMESPACE)
        cluster.follow(group)
        await cluster.listed()
        print(f"{_rss_mib('self'):.0f} MiB")
        cluster.stop()


if __name__ == "__main__":
    asyncio.run(_follow(sys.argv[1]))
