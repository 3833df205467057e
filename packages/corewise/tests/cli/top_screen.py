"""The application of ``corewise top`` in tests: its screen as text, and tables over caches filled by hand."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, cast

import msgspec
from rich.console import Console
from textual.message import Message
from textual.pilot import Pilot

from cli.offline_world import NOW
from corewise.cli.top_app import TopApp
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import SystemClock
from corewise.kube.config import ClusterConfig
from corewise.manager.snapshot import AnnotatedTopology
from corewise.views.offline_table import PLAIN
from corewise.views.top_data import TopData
from corewise.vocabulary.names import CPU_BASIC_INFO
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod


class StoppedClock(SystemClock):
    """The date stands still."""

    def now(self) -> datetime:
        return NOW


def text_of(app: TopApp) -> str:
    """Return the text on the screen; lines end where their text ends."""
    width, height = app.size
    console = Console(width=width, height=height, file=io.StringIO(), record=True, legacy_windows=False)
    console.print(app.screen._compositor.render_update(full=True, screen_stack=app._background_screens))
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def lines_of(app: TopApp) -> list[str]:
    return text_of(app).splitlines()


class PatientPilot(Pilot[None]):
    """Waits after each key, click and change of size until the application has nothing left to do.

    Textual's own pilot waits until the process uses little CPU: so it does where other processes use it.
    """

    dispatched = 0
    """The number of messages that the application has begun to process."""

    def note(self, _message: Message) -> None:
        self.dispatched += 1

    async def press(self, *keys: str) -> None:
        for key in keys:
            await super().press(key)
            await self.settle()

    async def pause(self, delay: float | None = None) -> None:
        await super().pause(delay)
        await self.settle()

    async def settle(self) -> None:
        """Send a marker through each queue, again and again, until none has met another message."""
        app = self.app
        while not app._exit:
            pumps = [
                app,
                *(each for screen in app.screen_stack for each in screen.walk_children(with_self=True)),
            ]
            before, passed = self.dispatched, asyncio.Semaphore(0)
            sent = sum(each.call_later(passed.release) for each in pumps)
            for _ in range(sent):
                await passed.acquire()
            if app._resize_timer is not None:
                app._check_resize()  # at once, as its timer does
            for screen in app.screen_stack[-1:]:
                screen._on_timer_update()
            quiet = self.dispatched == before + sent and all(each._message_queue.empty() for each in pumps)
            if quiet and all(worker.is_finished for worker in app.workers if worker.node is app):
                return


@asynccontextmanager
async def on_screen(app: TopApp, size: tuple[int, int]) -> AsyncIterator[PatientPilot]:
    """Run the application on a screen until the block ends."""
    pilot = PatientPilot(app)
    async with app.run_test(size=size, message_hook=pilot.note):
        await pilot.settle()
        yield pilot


def node(name: str, cpus: int = 8, **metadata: Any) -> dict[str, Any]:
    amounts = {"cpu": str(cpus), "memory": "16Gi"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"metadata": {"name": name, "resourceVersion": "1", **metadata}, "status": status}


def pod(name: str, on: str = "", cpu: str = "1") -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
    status = {"phase": "Running" if on else "Pending", "qosClass": "Burstable"}
    return {"metadata": meta, "spec": {"nodeName": on, "containers": [container]}, "status": status}


class HandmadeData(TopData):
    """Tables of caches that nothing follows."""

    def __init__(self, nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]] = ()) -> None:
        cluster = ClusterConfig(server="http://127.0.0.1:1")
        clock = StoppedClock()
        super().__init__(
            cluster, Client(cluster), selector="", config_namespace="here", bars=PLAIN, clock=clock
        )
        for table in self.tables.values():
            for cache in table.caches:
                cache.synced.set()
        self.put(*nodes)
        self.put_pods(*pods)

    def put(self, *nodes: Mapping[str, Any]) -> None:
        for each in nodes:
            self.snapshot.nodes._put(each["metadata"]["name"], msgspec.convert(each, Node))

    def put_pods(self, *pods: Mapping[str, Any]) -> None:
        for each in pods:
            key = each["metadata"]["namespace"], each["metadata"]["name"]
            self._pods._put(key, msgspec.convert(each, Pod))
            if each["spec"]["nodeName"]:
                self.snapshot.pods._put(key, msgspec.convert(each, Pod))

    def put_facts(self, name: str, model: str) -> None:
        info = json.dumps({"cpuModel": model, "hyperThreadEnabled": True, "turboEnabled": False})
        topology = {"metadata": {"name": name, "annotations": {CPU_BASIC_INFO: info}}}
        topologies = cast("Cache[AnnotatedTopology]", self.snapshot.topologies)
        topologies._put(name, msgspec.convert(topology, AnnotatedTopology))

    def remove(self, name: str) -> None:
        self.snapshot.nodes._remove(name, Node())

    @property
    def nodes(self) -> Cache[Node]:
        return self.snapshot.nodes

    def app(self, first: str = "nodes") -> TopApp:
        """Return the application; it takes changes when ``take`` is called."""
        return TopApp(self, first, 3600.0, lambda _: None, StoppedClock())
