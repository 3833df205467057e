"""The cost of watched objects: events a second through a real connection, heap per cached node and pod.

A bare HTTP server on the loopback address sends watch lines made beforehand, so that the client is what is
measured. Heap is what the cache holds on to after the list, by tracemalloc, divided by the objects in it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.config import ClusterConfig
from corewise.kube.decoding import WatchEvent
from corewise.kube.resources import NODES, PODS, Resource
from tools.bench import fleet
from tools.bench.table import Row

_EVENTS = 100_000
_OBJECTS = 5_000
_SAMPLED_EVENTS, _SAMPLED_OBJECTS = 20_000, 2_000


async def measure() -> list[Row]:
    """Events a second for pods and nodes beside json.loads of the same lines, and heap per cached object."""
    rows: list[Row] = []
    for resource, make in ((PODS, pod), (NODES, fleet.node)):
        lines = [_line(make(index), index) for index in range(1000)]
        ours = 1 / await _seconds_an_event(resource, lines, _EVENTS)
        theirs = 1 / _seconds_of_json_loads(lines)
        at = f"{len(lines[0]) / 1024:.1f} KB a {resource.kind.lower()}"
        shown = f"{ours:,.0f} ({ours / theirs:.1f} x json.loads)"
        rows.append(Row("watch events decoded per second of CPU time", at, shown))
        heap = await _heap_per_object(resource, [make(index) for index in range(_OBJECTS)])
        rows.append(Row(f"heap per cached {resource.kind.lower()}", at, f"{heap / 1024:.1f} KiB"))
    return rows


async def sample() -> dict[str, float]:
    """Return microseconds of CPU time for an event of a Pod, and for json.loads of it; bytes of a Pod."""
    lines = [_line(pod(index), index) for index in range(1000)]
    seconds = await _seconds_an_event(PODS, lines, _SAMPLED_EVENTS)
    heap = await _heap_per_object(PODS, [pod(index) for index in range(_SAMPLED_OBJECTS)])
    parsed = _seconds_of_json_loads(lines)
    return {"event": seconds * 1e6, "pod-memory": heap, "json-loads": parsed * 1e6}


def pod(index: int) -> dict[str, Any]:
    """A Pod of about 10 KB, as big as real ones: environment, probes, volumes, managedFields."""
    name = f"service-{index % 50}-7d4b9c6f5d-{index:05d}"
    container = {
        "image": "registry.example/team/service@sha256:" + "0" * 64,
        "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "limits": {"cpu": "2", "memory": "2Gi"},
        },
        "env": [{"name": f"SETTING_{i}", "value": f"value-of-setting-{i}"} for i in range(25)],
        "volumeMounts": [{"name": f"volume-{i}", "mountPath": f"/var/data/{i}"} for i in range(6)],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
    }
    fields: dict[str, Any] = {f"f:field-{i}": {"f:inner": {}, "f:other": {".": {}}} for i in range(60)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": f"team-{index % 20}",
            "uid": f"00000000-0000-0000-0000-{index:012d}",
            "resourceVersion": str(index + 1),
            "labels": {"app": f"service-{index % 50}", "pod-template-hash": "7d4b9c6f5d"},
            "annotations": {"checksum/config": "0" * 64},
            "managedFields": [
                {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "nodeName": fleet.node_name(index % 500),
            "containers": [container | {"name": "app"}, container | {"name": "proxy"}],
            "volumes": [{"name": f"volume-{i}", "emptyDir": {}} for i in range(6)],
        },
        "status": {"phase": "Running", "qosClass": "Burstable", "podIP": "10.0.0.1"},
    }


def _line(thing: dict[str, Any], version: int) -> bytes:
    thing["metadata"]["resourceVersion"] = str(version + 1)
    return msgspec.json.encode({"type": "MODIFIED", "object": thing}) + b"\n"


@asynccontextmanager
async def _served(listing: bytes, lines: list[bytes], count: int) -> AsyncIterator[ClusterConfig]:
    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.Response(body=listing, content_type="application/json")
        stream = web.StreamResponse()
        await stream.prepare(request)
        for i in range(0, count, 20):
            await stream.write(b"".join(lines[j % len(lines)] for j in range(i, i + 20)))
        return stream

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield ClusterConfig(server=f"http://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


async def _seconds_an_event(resource: Resource[Any], lines: list[bytes], count: int) -> float:
    """Return CPU time. Server and client share the process: the server's writing is part of it."""
    async with _served(b"{}", lines, count) as config, Client(config) as client:
        seen = 0
        begin = time.process_time()
        async for event in client.watch(resource, "1"):
            seen += isinstance(event, WatchEvent)
        return (time.process_time() - begin) / seen


def _seconds_of_json_loads(lines: list[bytes]) -> float:
    """Return the CPU time of reading one line."""
    rounds = 5
    begin = time.process_time()
    for _ in range(rounds):
        for line in lines:
            json.loads(line)
    return (time.process_time() - begin) / (rounds * len(lines))


async def _heap_per_object(resource: Resource[Any], things: list[dict[str, Any]]) -> float:
    header = {"apiVersion": resource.api_version, "kind": f"{resource.kind}List"}
    listing = msgspec.json.encode(header | {"metadata": {"resourceVersion": "1"}, "items": things})
    async with _served(listing, [], 0) as config, Client(config) as client:
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        cache = Cache(client, resource)
        running = asyncio.create_task(cache.run())
        await cache.synced.wait()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        held = len(cache.items)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return (after - before) / held
