"""Latency of the node-status webhook under an open load.

Requests start on schedule, whether earlier ones are done or not, and latency counts from the moment a request
was due, so that a stall shows in every request it delays. Each review is an amplified node's kubelet that
restates its raw amounts with fresh heartbeats: the steady state, the whole work, of a manager that follows
as many nodes as write so often. The generator shares the machine with it; its own scheduling delay is part
of the figures.
"""

from __future__ import annotations

import asyncio
import gc
import ssl
import tempfile
import time
from pathlib import Path

import aiohttp

from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import MUTATING_WEBHOOKS, WebhookConfiguration
from tools.bench import fleet, processes
from tools.bench.ratio_change import populate, set_ratio, until_all
from tools.bench.table import Row, quantile

_NODES = 5000
_SECONDS = 20
_WARM_UP = 200
_INSTALLED_WITHIN = 30.0


async def measure(rates: tuple[int, ...]) -> list[Row]:
    """p50 and p99 at each rate, from one manager."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            processes.api_server(folder) as (_, kubeconfig),
            Client(load_config(str(kubeconfig), None)) as client,
        ):
            await populate(client, _NODES)
            async with processes.manager(folder, kubeconfig, "--amplify-by", "webhook") as (manager, _, _):
                await set_ratio(client, "1.50")
                await until_all(client, _NODES, "1.50")
                url, trust = await _webhook(client)
                reviews = [fleet.kubelet_review(index, _now()) for index in range(_NODES)]
                async with aiohttp.ClientSession(connector=_connector(trust)) as session:
                    await asyncio.gather(*(_post(session, url, reviews[i], 0.0) for i in range(_WARM_UP)))
                    for rate in rates:
                        rows += _rows(rate, len(reviews[0]), await _load(session, url, reviews, rate))
                memory = processes.peak_rss_mib(manager)
    return [*rows, Row("peak memory of the manager", f"{_NODES} nodes", f"{memory:.0f} MiB")]


def _connector(trust: ssl.SSLContext) -> aiohttp.TCPConnector:
    """Idle connections live as long as those of kube-apiserver's client."""
    return aiohttp.TCPConnector(ssl=trust, limit=64, keepalive_timeout=90.0)


def _rows(rate: int, size: int, latencies: list[float]) -> list[Row]:
    at = f"{rate} requests/s, {size / 1024:.0f} KB a review"
    shares = (0.5, 0.99, 0.999)
    shown = ", ".join(f"{quantile(latencies, share) * 1000:.2f} ms" for share in shares)
    return [Row("node-status webhook p50, p99, p99.9", at, shown)]


async def _webhook(client: Client) -> tuple[str, ssl.SSLContext]:
    """Return the address that the API server sends node status writes to, and the certificates it trusts."""
    async with asyncio.timeout(_INSTALLED_WITHIN):
        while True:
            for configuration in await client.list(MUTATING_WEBHOOKS):
                found = _status_hook(configuration)
                if found:
                    return found
            await asyncio.sleep(0.1)


def _status_hook(configuration: WebhookConfiguration) -> tuple[str, ssl.SSLContext] | None:
    for hook in configuration.webhooks:
        if any("nodes/status" in rule.resources for rule in hook.rules):
            trust = ssl.create_default_context(cadata=hook.client_config.ca_bundle.decode())
            return hook.client_config.url or "", trust
    return None


async def _load(session: aiohttp.ClientSession, url: str, reviews: list[bytes], rate: int) -> list[float]:
    gc.disable()  # the generator keeps every request; collecting them would stall it, not the webhook
    begin = time.monotonic() + 0.1
    tasks = []
    for i in range(rate * _SECONDS):
        due = begin + i / rate
        delay = due - time.monotonic()
        if delay > 0:
            await asyncio.sleep(delay)
        tasks.append(asyncio.create_task(_post(session, url, reviews[i % len(reviews)], due)))
    latencies = await asyncio.gather(*tasks)
    gc.enable()
    return latencies


async def _post(session: aiohttp.ClientSession, url: str, review: bytes, due: float) -> float:
    async with session.post(url, data=review, headers={"Content-Type": "application/json"}) as answer:
        body = await answer.read()
        if answer.status != 200 or b'"allowed":true' not in body:
            raise SystemExit(f"the webhook answered {answer.status}: {body[:300]!r}")
    return time.monotonic() - due


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
