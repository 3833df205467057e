"""The scheduler's program, asked as kube-scheduler and the API server ask it, each its own process.

One call after the other over one TLS connection with the names of all nodes, as kube-scheduler sends them
with percentageOfNodesToScore 100. And reviews of bindings, 200 at once over open connections, each of
another pod; the last of them waits for all others. The generator shares the machine with the program, and its
own time is part of the figures.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import NotFound
from corewise.kube.resources import MUTATING_WEBHOOKS, PODS
from corewise.scheduler.installation import CONFIGURATION_NAME, FILTER, GATE_PATH, PRIORITIZE
from tools.bench import fleet, processes
from tools.bench.ratio_change import populate
from tools.bench.table import Row, quantile

_CALLS = 500
_WARM_UP = 20
_BINDINGS = 200
_ROUNDS = 3
"""Of the gate; the last one counts."""
_INSTALLED_WITHIN = 30.0
_PLAIN_PODS = PODS.typed(dict[str, Any])


async def measure(counts: tuple[int, ...]) -> list[Row]:
    """Round trips of filter, prioritize and gate at each number of nodes."""
    return [row for count in counts for row in await _measure(count)]


async def _measure(count: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            processes.api_server(folder) as (_, kubeconfig),
            Client(load_config(str(kubeconfig), None)) as client,
        ):
            await populate(client, count)
            pods = [await _pod(client, f"pod-{index}") for index in range(_BINDINGS)]
            async with processes.scheduler(folder, kubeconfig) as (process, url):
                trust = await _trust(client)
                connector = aiohttp.TCPConnector(ssl=trust, limit=_BINDINGS)
                async with aiohttp.ClientSession(connector=connector) as session:
                    rows = await _asked(session, url, pods, count)
                memory = processes.peak_rss_mib(process)
    return [*rows, Row("peak memory of the scheduler", f"{count} nodes", f"{memory:.0f} MiB")]


async def _asked(
    session: aiohttp.ClientSession, url: str, pods: list[dict[str, Any]], count: int
) -> list[Row]:
    names = [fleet.node_name(index) for index in range(count)]
    arguments = msgspec.json.encode({"Pod": pods[0], "Nodes": None, "NodeNames": names})
    rows = []
    for verb in (FILTER, PRIORITIZE):
        times = [await _post(session, f"{url}/{verb}", arguments) for _ in range(_WARM_UP + _CALLS)]
        rows.append(_row(f"/{verb} round trip p50, p99", f"{count} node names", times[_WARM_UP:]))
    reviews = [_review(pod, names[index % 10]) for index, pod in enumerate(pods)]
    for _ in range(_ROUNDS):
        times = await asyncio.gather(*(_post(session, url + GATE_PATH, review) for review in reviews))
    return [*rows, _row("binding gate p50, p99", f"{_BINDINGS} at once, {count} nodes", times)]


def _row(what: str, size: str, times: list[float]) -> Row:
    p50, p99 = (f"{quantile(times, share) * 1000:.2f} ms" for share in (0.5, 0.99))
    return Row(what, size, f"{p50}, {p99}")


async def _post(session: aiohttp.ClientSession, url: str, body: bytes) -> float:
    start = time.perf_counter()
    async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
        text = await answer.read()
        if answer.status != 200 or b'"allowed":false' in text:
            raise SystemExit(f"{url} answered {answer.status}: {text[:300]!r}")
    return time.perf_counter() - start


async def _pod(client: Client, name: str) -> dict[str, Any]:
    requests = {"cpu": "500m", "memory": "64Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    return await client.create(_PLAIN_PODS, body, "default")


async def _trust(client: Client) -> ssl.SSLContext:
    """Return what the API server would trust, once the gate is installed."""
    async with asyncio.timeout(_INSTALLED_WITHIN):
        while True:
            try:
                found = await client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
            except NotFound:
                await asyncio.sleep(0.1)
                continue
            return ssl.create_default_context(cadata=found.webhooks[0].client_config.ca_bundle.decode())


def _review(pod: dict[str, Any], node: str) -> bytes:
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"kind": "Node", "name": node},
    }
    request = {
        "uid": metadata["uid"],
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "binding",
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "operation": "CREATE",
        "object": binding,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return msgspec.json.encode(review)
