"""The CPU time of ``corewise scheduler`` for plain pods, which it only watches, with interference configured.

The scheduler, the local API server and this caller are processes of their own. Pods of about 5 KB are created
first, which the scheduler does not see, and then bound here. *Bound* is one event a pod. A *life* is five: a
pod is bound, its kubelet states twice how far it is, somebody deletes it, and it ends. Nothing is subtracted:
CPU time is all that the scheduler uses until it is at rest again, and what it uses at rest is told beside it.
"""

from __future__ import annotations

import asyncio
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corewise.kube.client import Client, PatchType
from corewise.kube.config import load_config
from corewise.kube.resources import PODS
from tools.bench import fleet, interference, processes, watching
from tools.bench.ratio_change import CONCURRENCY, populate
from tools.bench.table import Row

_NODES = 100
_PODS, _SAMPLED_PODS = 1_000, 500
_RATE = 50
"""Pods a second: about as many as kube-scheduler binds on two cores."""
_AT_ONCE = 10_000
_SETTLED = 1.0
_BUSY = 5_000_000
"""Nanoseconds of CPU time in a second after the last event: less, and the scheduler has seen everything."""
_AT_REST = 20.0
_STARTED, _RAN, _ENDED = 0.1, 1.0, 0.5
"""Seconds from a change of a pod to the next one."""
_PLAIN_PODS = PODS.typed(dict[str, Any])
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
_SINCE = "2026-01-01T00:00:00Z"


async def measure() -> list[Row]:
    """Measure pods bound one after the other, bound at once, and living; and the scheduler at rest."""
    async with _Rig.started() as rig:
        at = f"{_NODES} nodes, {_PODS} pods"
        rest = await rig.at_rest()
        paced = await rig.cost(_PODS, rig.bind, _RATE)
        at_once = await rig.cost(_PODS, rig.bind, _AT_ONCE)
        life = await rig.cost(_PODS, rig.live, _RATE)
    what = "CPU of the scheduler per plain pod"
    return [
        Row(f"{what} bound", f"{at}, {_RATE} a second", f"{paced:.3f} ms"),
        Row(f"{what} bound", f"{at}, as fast as they are bound", f"{at_once:.3f} ms"),
        Row(f"{what} bound, run and deleted", f"{at}, {_RATE} a second", f"{life:.3f} ms"),
        Row("CPU of the scheduler at rest", f"{_NODES} nodes", f"{rest:.1f} ms a second"),
    ]


async def sample() -> dict[str, float]:
    """Return microseconds of CPU time: of a pod bound, of one that lives, and of a second at rest."""
    async with _Rig.started() as rig:
        rest = await rig.at_rest()
        bound = await rig.cost(_SAMPLED_PODS, rig.bind, _RATE)
        at_once = await rig.cost(_SAMPLED_PODS, rig.bind, _AT_ONCE)
        life = await rig.cost(_SAMPLED_PODS, rig.live, _RATE)
    figures = {"bound": bound, "at-once": at_once, "life": life, "rest": rest}
    return {name: value * 1000 for name, value in figures.items()}


@dataclass(slots=True)
class _Rig:
    """A scheduler that watches a local API server with nodes."""

    client: Client
    process: Process
    made: int = 0

    @classmethod
    @asynccontextmanager
    async def started(cls) -> AsyncIterator[_Rig]:
        """Have all of it beside the block."""
        names = tuple(map(fleet.node_name, range(_NODES)))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            file = folder / "interference.yaml"
            file.write_text(interference.configuration_text())
            async with (
                processes.api_server(folder) as (_, kubeconfig),
                Client(load_config(str(kubeconfig), None)) as client,
                interference.metrics_server(names) as prometheus,
            ):
                await populate(client, _NODES)
                options = "--config", str(file), "--prometheus", prometheus
                async with processes.scheduler(folder, kubeconfig, *options) as (process, _):
                    yield cls(client, process)

    async def at_rest(self) -> float:
        """Return the milliseconds of CPU time in a second without changes, once the program has settled."""
        await asyncio.sleep(_AT_REST / 2)
        before = processes.cpu_nanoseconds(self.process)
        await asyncio.sleep(_AT_REST)
        return (processes.cpu_nanoseconds(self.process) - before) / 1e6 / _AT_REST

    async def cost(self, count: int, act: Callable[[str], Coroutine[Any, Any, None]], rate: int) -> float:
        """Return the milliseconds of CPU time per pod, of pods that begin at so many a second."""
        names = await self._create(count)
        await asyncio.sleep(_SETTLED)
        loop = asyncio.get_running_loop()
        before, begin = processes.cpu_nanoseconds(self.process), loop.time()
        async with asyncio.TaskGroup() as tasks:
            for number, name in enumerate(names):
                await asyncio.sleep(begin + number / rate - loop.time())
                tasks.create_task(act(name))
        last, used = 0, before
        while used - last > _BUSY:  # at first it is: events gather before the scheduler reads them
            await asyncio.sleep(_SETTLED)
            last, used = used, processes.cpu_nanoseconds(self.process)
        return (used - before) / 1e6 / count

    async def bind(self, name: str) -> None:
        """Bind a pod to a node."""
        node = fleet.node_name(int(name.rpartition("-")[2]) % _NODES)
        path = PODS.path(name, namespace="default", subresource="binding")
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        await self.client.request("POST", path, body=body)

    async def live(self, name: str) -> None:
        """Have a pod bound, started, run, deleted and ended."""
        await self.bind(name)
        await asyncio.sleep(_STARTED)
        await self._state(name, _status("Pending", {"waiting": {"reason": "ContainerCreating"}}, "False"))
        await asyncio.sleep(_RAN)
        await self._state(name, _status("Running", {"running": {"startedAt": _SINCE}}, "True"))
        await asyncio.sleep(_RAN)
        await self.client.delete(PODS, name, "default", grace_period=30)
        await asyncio.sleep(_ENDED)
        await self._state(name, _status("Succeeded", {"terminated": {"exitCode": 0}}, "False"))
        await self.client.delete(PODS, name, "default", grace_period=0)

    async def _create(self, count: int) -> list[str]:
        gate = asyncio.Semaphore(CONCURRENCY)

        async def create(number: int) -> str:
            body = watching.pod(number)
            meta = body["metadata"]
            name = f"plain-{number}"
            kept = {"name": name, "labels": meta["labels"], "annotations": meta["annotations"]}
            spec = {key: value for key, value in body["spec"].items() if key != "nodeName"}
            async with gate:
                await self.client.create(_PLAIN_PODS, {"metadata": kept, "spec": spec}, "default")
            return name

        first, self.made = self.made, self.made + count
        return await asyncio.gather(*map(create, range(first, self.made)))

    async def _state(self, name: str, status: dict[str, Any]) -> None:
        body = {"status": status}
        await self.client.patch(
            PODS, name, body, type=PatchType.STRATEGIC, namespace="default", subresource="status"
        )


def _status(phase: str, state: dict[str, Any], ready: str) -> dict[str, Any]:
    """Return a Pod's status as a kubelet states it, without its addresses."""
    container = {
        "image": "registry.example/team/service",
        "imageID": "registry.example/team/service@sha256:" + "0" * 64,
        "containerID": "containerd://" + "0" * 64,
        "ready": ready == "True",
        "restartCount": 0,
        "state": state,
        "allocatedResources": {"cpu": "500m", "memory": "1Gi"},
    }
    ready_by = dict.fromkeys(("Ready", "ContainersReady"), ready)
    conditions = [
        {"type": each, "status": ready_by.get(each, "True"), "lastTransitionTime": _SINCE}
        for each in _CONDITIONS
    ]
    return {
        "phase": phase,
        "conditions": conditions,
        "containerStatuses": [container | {"name": each} for each in ("app", "proxy")],
    }
