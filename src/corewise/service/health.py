"""/livez, /readyz and /metrics, on plain HTTP.

/livez: no loop has been silent for longer than it may. It does not depend on the API server: restarting
the program does not bring that back. /readyz: the program has what it needs for its work, and its view of the
cluster is current. Both answer with the reasons, one a line, and 503 if there are any. Probes carry no token:
both are open to every caller; /metrics takes a token where ``access`` is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiohttp import web

from corewise.prometheus.exposition import CONTENT_TYPE, Exposition
from corewise.service.access import TokenAccess
from corewise.service.doors import HEALTH, Listener, Route, anyone
from corewise.service.options import Address

_METRICS = "/metrics"
Check = Callable[[], Iterable[str]]
"""Returns what is wrong, in words."""


class HealthServer(Listener):
    """Serves the three paths. ``text`` returns the metrics; ``access`` reviews who reads them."""

    def __init__(
        self,
        listen: Address,
        *,
        alive: Check,
        ready: Check,
        text: Callable[[], bytes],
        metrics: Exposition,
        access: TokenAccess | None = None,
    ) -> None:
        async def livez(_request: web.BaseRequest) -> web.Response:
            return _answer(alive())

        async def readyz(_request: web.BaseRequest) -> web.Response:
            return _answer(ready())

        async def measured(_request: web.BaseRequest) -> web.Response:
            return web.Response(body=text(), headers={"Content-Type": CONTENT_TYPE})

        routes = [
            Route("GET", "/livez", livez),
            Route("GET", "/readyz", readyz),
            Route("GET", _METRICS, measured, access.guard(_METRICS) if access else anyone),
        ]
        super().__init__(HEALTH, listen, routes, metrics)


def _answer(problems: Iterable[str]) -> web.Response:
    problems = list(problems)
    return web.Response(status=503 if problems else 200, text="\n".join(problems or ["ok"]) + "\n")
