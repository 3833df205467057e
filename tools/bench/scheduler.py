"""The scheduler's program, asked as kube-scheduler asks it, each its own process.

A pod is one call of /filter and then one of /prioritize, about the nodes that filter has let through, over
one TLS connection. Names come in another order each time, as kube-scheduler sends them; all 5,000 are sent
with percentageOfNodesToScore 100, else it samples 500 of as many. The caller shares the machine with the
program, and its own time is part of a round trip; the CPU time of the program is not stretched by that.

Bind: pods that own 4 CPUs are bound by /bind to ten nodes in turn, one after the other and 16 at once: the
pod is read, CPUs are chosen, the ledger is swapped, the Binding is posted. The local API server, which does
most of that, is part of the round trip.
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

from corewise.kube.client import Client, PatchType
from corewise.kube.config import load_config
from corewise.kube.errors import NotFound
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, PODS, SECRETS
from corewise.scheduler.installation import BIND, CLIENT_SECRET_NAME, FILTER, PRIORITIZE
from corewise.topology import Thread, Topology
from corewise.vocabulary.cpu_annotations import print_cpu_topology
from corewise.vocabulary.names import CONFIG_NAMESPACE, CPU_TOPOLOGY, QOS_CLASS
from tools.bench import fleet, processes
from tools.bench.ratio_change import populate
from tools.bench.table import Row, quantile

_CALLS = 500
_WARM_UP = 20
_NAMES = (500, 5_000)
_BINDINGS = 80
_AT_ONCE = (1, 16)
_BIND_NODES = 10
_CPUS = 64
_CERTIFICATE_WITHIN = 30.0
_PATIENCE = 60.0
_JSON = {"Content-Type": "application/json"}
_PLAIN_PODS = PODS.typed(dict[str, Any])


async def measure(counts: tuple[int, ...]) -> list[Row]:
    """Measure round trips of filter, prioritize and bind at numbers of nodes."""
    return [row for count in counts for row in await _measure(count)]


async def _measure(count: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            processes.api_server(folder) as (_, kubeconfig),
            Client(load_config(str(kubeconfig), None)) as client,
        ):
            await populate(client, count)
            await _state_topologies(client)
            pod = await _pod(client, "asked")
            async with processes.scheduler(folder, kubeconfig) as (process, url):
                trust = await _certificate(client, folder)
                rows = []
                for asked in sorted({min(each, count) for each in _NAMES}):
                    rows += await asyncio.to_thread(_extender, (url, trust), process, pod, (asked, count))
                rows += [await _binds(client, f"{url}/{BIND}", trust, each, count) for each in _AT_ONCE]
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
    """The cost of the calls of one verb: seconds by the clock, and the scheduler's CPU nanoseconds."""

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


async def _binds(client: Client, url: str, trust: ssl.SSLContext, at_once: int, count: int) -> Row:
    """Bind pods that own CPUs, and delete them."""
    pods = [await _pod(client, f"owner-{at_once}-{index}", owned=4) for index in range(_BINDINGS)]
    waiting = iter(enumerate(pods))
    times: list[float] = []

    async def work(session: aiohttp.ClientSession) -> None:
        for index, pod in waiting:
            meta = pod["metadata"]
            names = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"]}
            body = {**names, "Node": fleet.node_name(index % _BIND_NODES)}
            times.append(await _post(session, url, msgspec.json.encode(body)))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=at_once)) as session:
        await asyncio.gather(*(work(session) for _ in range(at_once)))
    for pod in pods:
        await client.delete(_PLAIN_PODS, pod["metadata"]["name"], "default", grace_period=0)
    what = "/bind round trip of an owned pod (choose, swap, bind) p50, p99"
    return Row(what, f"{at_once} at once, {count} nodes", _quantiles(times))


def _quantiles(seconds: list[float]) -> str:
    return ", ".join(f"{quantile(seconds, share) * 1000:.2f} ms" for share in (0.5, 0.99))


async def _post(session: aiohttp.ClientSession, url: str, body: bytes) -> float:
    start = time.perf_counter()
    async with session.post(url, data=body, headers=_JSON) as answer:
        text = await answer.read()
        if answer.status != 200 or msgspec.json.decode(text)["Error"]:
            raise SystemExit(f"{url} answered {answer.status}: {text[:300]!r}")
    return time.perf_counter() - start


async def _pod(client: Client, name: str, *, owned: int = 0) -> dict[str, Any]:
    amounts = {"cpu": str(owned) if owned else "500m", "memory": "64Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    metadata = {"name": name, "labels": {QOS_CLASS: "LSR"} if owned else {}}
    body = {"metadata": metadata, "spec": {"containers": [container]}}
    return await client.create(_PLAIN_PODS, body, "default")


async def _state_topologies(client: Client) -> None:
    """State the CPUs of the nodes that pods with CPUs of their own are bound to."""
    threads = tuple(Thread(cpu, cpu % (_CPUS // 2), 0, 0, 0) for cpu in range(_CPUS))
    metadata = {"annotations": {CPU_TOPOLOGY: print_cpu_topology(Topology(threads))}}
    for index in range(_BIND_NODES):
        await client.patch(
            NODE_RESOURCE_TOPOLOGIES, fleet.node_name(index), {"metadata": metadata}, type=PatchType.MERGE
        )


async def _certificate(client: Client, folder: Path) -> ssl.SSLContext:
    """Return the TLS context of kube-scheduler, once the scheduler has made its certificate."""
    async with asyncio.timeout(_CERTIFICATE_WITHIN):
        while True:
            try:
                data = (await client.get(SECRETS, CLIENT_SECRET_NAME, CONFIG_NAMESPACE)).data
            except NotFound:
                await asyncio.sleep(0.1)
                continue
            shown = folder / "client.pem"
            shown.write_bytes(data["tls.crt"] + data["tls.key"])
            context = ssl.create_default_context(cadata=data["ca.crt"].decode())
            context.load_cert_chain(shown)
            return context
