"""A server of the page whose data a test changes, stops and starts; and rows as the commands print them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from playwright.sync_api import Page

from corewise.views.machine_kinds import short_model
from page_account import page_command
from tools.web import ASSETS

T = TypeVar("T")
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)


def aside(work: Callable[[], T]) -> T:
    """Run what needs an event loop of its own: Playwright has one in this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def errors_of(page: Page) -> list[str]:
    """Return a list that gets what goes wrong in a page from now on; violations of its policy too."""
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return errors


@contextlib.contextmanager
def page_of(kubeconfig: Path) -> Iterator[str]:
    """Serve the page of a cluster by ``corewise web`` as a program; yields its address."""
    started = aside(lambda: asyncio.run(page_command(kubeconfig, "--listen", "127.0.0.1:0")))
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as served:
        try:
            assert served.stderr is not None
            yield next(line.split()[-1] for line in served.stderr if "the page is at" in line)
        finally:
            served.terminate()


def node_row(name: str, requested: int = 12_345, **other: Any) -> dict[str, Any]:
    """Return a node's row of ``corewise nodes -o json``, and what the page adds."""
    model = other.get("cpuModel", "AMD EPYC 9654 96-Core Processor")
    return {
        "name": name,
        "cpuModel": model,
        "shortModel": model and short_model(model),
        "hyperThreading": True,
        "turbo": False,
        "normalizationRatio": "1.50",
        "amplificationRatio": "1.65",
        "rawCapacityCPUMilli": 48_000,
        "capacityCPUMilli": 79_200,
        "rawAllocatableCPUMilli": 47_500,
        "normalizedCPUMilli": 71_250,
        "schedulableCPUMilli": 78_375,
        "requestedCPUMilli": requested,
        "freeCPUMilli": 78_375 - requested,
        "rawAllocatableMemoryBytes": 2**37,
        "schedulableMemoryBytes": 2**37,
        "requestedMemoryBytes": 2**35 + 12_345_678,
        "offlineOfferedCPUMilli": 9_999,
        "nativeBestEffortPods": 0,
        "state": "",
        "problem": None,
        "labels": {"topology.kubernetes.io/zone": "a"},
        "problems": [],
        "usedCPUMilli": 30_000,
        "onlineCPUMilli": None,
        "worthCPU": "0.91",
        **other,
    }


def pod_row(name: str, **other: Any) -> dict[str, Any]:
    """Return a pod's row of ``corewise top pods -o json``."""
    return {
        "name": name,
        "node": "n1",
        "qosClass": "LS",
        "phase": "Running",
        "cpus": "",
        "requestedCPUMilli": 1500,
        "requestedMemoryBytes": 2**30,
        "ownedCPUs": 0,
        "batchCPUNormalizedMilli": 0,
        "batchMemoryBytes": 0,
        "problem": None,
        **other,
    }


class PageWorld:
    """Tables and documents by their path below /api, served in a thread."""

    def __init__(self, data: dict[str, dict[str, Any]]) -> None:
        self.data = data
        self.token = ""
        self.lost = ""
        """Why the cluster cannot be followed, as the server would say it; nothing is sent then."""
        self.forbidden: set[str] = set()
        self.messages: dict[str, str] = {}
        """What the server says of paths that it does not have."""
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        self._do(self._start())

    def stop(self) -> None:
        self._do(self._stop())

    def end(self) -> None:
        self.stop()
        self._do(self._rest())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        """Stop serving. A page that is hidden reads nothing: what is still written to it is dropped."""
        server = self._runner.server
        open_ones = [each.transport for each in server.connections] if server is not None else []
        await self._runner.cleanup()
        for each in open_ones:
            if each is not None:
                each.abort()
        await asyncio.sleep(0)

    async def _rest(self) -> None:
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _do(self, what: Any) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_static("/assets", ASSETS)
        app.router.add_get("/api/stream/{path:.*}", self._stream)
        app.router.add_get("/api/{path:.*}", self._get)
        app.router.add_post("/api/{path:.*}", self._get)
        app.router.add_get("/{path:.*}", self._page)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def _page(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(ASSETS / "index.html", headers={"Content-Security-Policy": CSP})

    def _refusal(self, request: web.Request, path: str) -> web.Response | None:
        if (
            self.token
            and request.headers.get("Authorization") != f"Bearer {self.token}"
            and path != "session"
        ):
            return web.json_response({"message": "send a bearer token"}, status=401)
        if path in self.forbidden:
            return web.json_response({"message": f"you may not see {path}"}, status=403)
        if path not in self.data:
            said = self.messages.get(path, f"there is no {path}")
            return web.json_response({"message": said}, status=404)
        return None

    async def _get(self, request: web.Request) -> web.Response:
        path = ("POST " if request.method == "POST" else "") + request.match_info["path"]
        return self._refusal(request, path) or web.json_response(self.data[path])

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"] + (f"?{request.query_string}" if request.query_string else "")
        if (refusal := self._refusal(request, path)) is not None:
            return refusal
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        before: dict[str, Any] = {}
        with contextlib.suppress(ConnectionError):
            lost = ""
            while True:
                now = self.data[path]
                if lost != self.lost:
                    lost, before = self.lost, {}
                    said = json.dumps({"message": lost, "seconds": 1})
                    await response.write(f"event: lost\ndata: {said}\n\n".encode() if lost else b"")
                if not lost and now is not before:
                    name, sent = ("change", _delta(before, now)) if before and "rows" in now else ("all", now)
                    await response.write(f"event: {name}\ndata: {json.dumps(sent)}\n\n".encode())
                    before = now
                await asyncio.sleep(0.05)
        return response


def _delta(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    old, new = ({row["name"]: row for row in table["rows"]} for table in (before, now))
    changed = [row for name, row in new.items() if old.get(name) != row]
    return {**now, "rows": changed, "gone": [name for name in old if name not in new]}
