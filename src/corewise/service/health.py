"""/livez, /readyz and /metrics, on plain HTTP.

/livez: no loop has been silent for longer than it may. It does not depend on the API server: restarting
the program does not bring that back. /readyz: the program has what it needs for its work. Both answer with
the reasons, one a line, and 503 if there are any.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from aiohttp import web

from corewise.prometheus.exposition import CONTENT_TYPE
from corewise.service.listening import started
from corewise.service.options import Address

log = logging.getLogger(__name__)

Check = Callable[[], Iterable[str]]
"""Returns what is wrong, in words."""


class HealthServer:
    """Serves the three paths."""

    def __init__(self, listen: Address, *, alive: Check, ready: Check, metrics: Callable[[], bytes]) -> None:
        self._listen = listen
        self._alive = alive
        self._ready = ready
        self._metrics = metrics
        self.listening = asyncio.Event()
        self.address = listen

    async def run(self) -> None:
        """Serve until cancelled."""
        runner = web.AppRunner(self.application(), access_log=None, logger=log, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await started(web.TCPSite(runner, self._listen.host or None, self._listen.port), self._listen)
            self.address = Address(self._listen.host, runner.addresses[0][1])
            self.listening.set()
            log.info("health and metrics listen on %s", self.address)
            await asyncio.Event().wait()
        finally:
            self.listening.clear()
            await runner.cleanup()

    def application(self) -> web.Application:
        """Return the routes."""
        application = web.Application()
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._text)
        return application

    async def _livez(self, _request: web.Request) -> web.Response:
        return _answer(self._alive())

    async def _readyz(self, _request: web.Request) -> web.Response:
        return _answer(self._ready())

    async def _text(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": CONTENT_TYPE})


def _answer(problems: Iterable[str]) -> web.Response:
    problems = list(problems)
    return web.Response(status=503 if problems else 200, text="\n".join(problems or ["ok"]) + "\n")
