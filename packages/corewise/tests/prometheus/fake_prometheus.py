"""A server that answers as Prometheus' HTTP API does, for what a real one does not do on demand."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Answers = Callable[[str], "web.StreamResponse | list[tuple[Mapping[str, str], float]]"]


def vector(samples: list[tuple[Mapping[str, str], float]], **more: Any) -> web.Response:
    now = time.time()
    result = [{"metric": dict(labels), "value": [now, str(value)]} for labels, value in samples]
    body = {"status": "success", "data": {"resultType": "vector", "result": result}, **more}
    return web.json_response(body)


@dataclass
class FakePrometheus:
    """``answer`` says what a query returns; ``asked`` are the queries that came."""

    answer: Answers
    url: str = ""
    asked: list[str] = field(default_factory=list)

    async def query(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        self.asked.append(str(form["query"]))
        found = self.answer(str(form["query"]))
        return vector(found) if isinstance(found, list) else found

    async def query_range(self, request: web.Request) -> web.StreamResponse:
        """Answer with each value once, at the end of the range."""
        form = await request.post()
        self.asked.append(str(form["query"]))
        found = self.answer(str(form["query"]))
        if not isinstance(found, list):
            return found
        at = float(str(form["end"]))
        result = [{"metric": dict(labels), "values": [[at, str(value)]]} for labels, value in found]
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": result}})


@asynccontextmanager
async def fake_prometheus(answer: Answers) -> AsyncIterator[FakePrometheus]:
    """Serve on loopback until the block ends."""
    fake = FakePrometheus(answer)
    application = web.Application()
    application.router.add_post("/api/v1/query", fake.query)
    application.router.add_post("/api/v1/query_range", fake.query_range)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        yield fake
    finally:
        await runner.cleanup()


def said(status: int, kind: str, message: str) -> web.Response:
    body = {"status": "error", "errorType": kind, "error": message}
    return web.Response(status=status, text=json.dumps(body), content_type="application/json")
