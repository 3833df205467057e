"""The scheduler's program, asked as kube-scheduler and the API server ask it, each its own process.

A pod is one call of /filter and then one of /prioritize, about the nodes that filter has let through, over
one TLS connection. Names come in another order each time, as kube-scheduler sends them; all 5,000 are sent
with percentageOfNodesToScore 100, else it samples 500 of as many. And reviews of bindings, 200 at once over
open connections, each of another pod; the last of them waits for all others. The caller shares the machine
with the program, and its own time is part of a round trip; the CPU time of the program is not stretched by
that.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
import tempfile
import time
from asyncio.subprocess import Process
from dataclasses import dataclass, field
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
_NAMES = (500, 5_000)
_BINDINGS = 200
_ROUNDS = 3
"""Of the gate; the last one counts."""
_INSTALLED_WITHIN = 30.0
_PATIENCE = 60.0
_JSON = {"Content-Type": "application/json"}
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
                rows = []
                for asked in sorted({min(each, count) for each in _NAMES}):
                    rows += await asyncio.to_thread(_extender, (url, trust), process, pods[0], (asked, count))
                rows.append(await _gate(url, trust, pods, count))
                memory = processes.peak_rss_mib(process)
    return [*rows, Row("peak memory of the scheduler", f"{count} nodes", f"{memory:.0f} MiB")]


def _extender(
    address: tuple[str, ssl.SSLContext], process: Process, pod: dict[str, Any], sizes: tuple[int, int]
) -> list[Row]:
    asked, count = sizes
    connection = _connection(*address)
    names = [fleet.node_name(index) for index in range(count)]
    filtering, prioritizing = _Calls(FILTER), _Calls(PRIORITIZE)
    for turn in range(_WARM_UP + _CALLS):
        if turn == _WARM_UP:
            filtering, prioritizing = _Calls(FILTER), _Calls(PRIORITIZE)
        sent = fleet.as_sent(names, asked, turn)
        answer = filtering.call(connection, process, {"Pod": pod, "Nodes": None, "NodeNames": sent})
        left = msgspec.json.decode(answer)["NodeNames"]
        prioritizing.call(connection, process, {"Pod": pod, "Nodes": None, "NodeNames": left})
    connection.close()
    return [each.row(f"{asked} names, {count} nodes") for each in (filtering, prioritizing)]


def _connection(url: str, trust: ssl.SSLContext) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection(url.partition("://")[2], context=trust, timeout=_PATIENCE)


@dataclass(slots=True)
class _Calls:
    """What calls of one verb took: seconds by the clock, and of the scheduler's CPU nanoseconds."""

    verb: str
    seconds: list[float] = field(default_factory=list)
    cpu: int = 0

    def call(
        self, connection: http.client.HTTPSConnection, process: Process, arguments: dict[str, Any]
    ) -> bytes:
        body, before = msgspec.json.encode(arguments), processes.cpu_nanoseconds(process)
        start = time.perf_counter()
        connection.request("POST", f"/{self.verb}", body, _JSON)
        answer = connection.getresponse()
        text = answer.read()
        self.seconds.append(time.perf_counter() - start)
        if answer.status != 200:
            raise SystemExit(f"/{self.verb} answered {answer.status}: {text[:300]!r}")
        self.cpu += processes.cpu_nanoseconds(process) - before
        return text

    def row(self, size: str) -> Row:
        cpu = self.cpu / len(self.seconds) / 1e6
        what = f"/{self.verb} round trip p50, p99; CPU of the scheduler"
        return Row(what, size, f"{_quantiles(self.seconds)}; {cpu:.2f} ms")


async def _gate(url: str, trust: ssl.SSLContext, pods: list[dict[str, Any]], count: int) -> Row:
    connector = aiohttp.TCPConnector(ssl=trust, limit=_BINDINGS)
    async with aiohttp.ClientSession(connector=connector) as session:
        reviews = [_review(pod, fleet.node_name(index % 10)) for index, pod in enumerate(pods)]
        for _ in range(_ROUNDS):
            times = await asyncio.gather(*(_post(session, url + GATE_PATH, review) for review in reviews))
    return Row("binding gate p50, p99", f"{_BINDINGS} at once, {count} nodes", _quantiles(times))


def _quantiles(seconds: list[float]) -> str:
    return ", ".join(f"{quantile(seconds, share) * 1000:.2f} ms" for share in (0.5, 0.99))


async def _post(session: aiohttp.ClientSession, url: str, body: bytes) -> float:
    start = time.perf_counter()
    async with session.post(url, data=body, headers=_JSON) as answer:
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
