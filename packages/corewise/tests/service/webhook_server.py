"""Admission webhooks of the tests' own: an HTTPS server on 127.0.0.1 that answers as a test tells it."""

from __future__ import annotations

import asyncio
import json
import ssl
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from corewise.kube.certificates import Authority

Object = dict[str, Any]
Answer = Callable[[Object], Object]
"""From the review's ``request`` to the ``response`` (the uid is added)."""


def allow(request: Object) -> Object:
    return {"allowed": True}


def deny(message: str = "no", code: int = 403, reason: str = "Forbidden") -> Answer:
    return lambda _: {"allowed": False, "status": {"message": message, "code": code, "reason": reason}}


def patch(*operations: Object) -> Answer:
    """An answer that changes the object by JSON patch operations."""
    encoded = b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def annotate(key: str, value: str) -> Answer:
    """An answer that sets an annotation on an object that has some already."""
    pointer = key.replace("~", "~0").replace("/", "~1")
    return patch({"op": "add", "path": f"/metadata/annotations/{pointer}", "value": value})


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class WebhookServer:
    """Answers at any path; ``answers`` says what, by path, and ``requests`` keeps what was asked."""

    url: str
    authority_pem: str
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, Object]] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    connections: set[asyncio.Transport] = field(default_factory=set)
    """Those that a request came by."""
    raw: Callable[[web.Request, Object], web.Response] | None = None
    answering: asyncio.Event = field(default_factory=_set_event)
    """While this is cleared, no one gets an answer."""

    def client_config(self, path: str = "/") -> Object:
        return {"url": f"{self.url}{path}", "caBundle": b64encode(self.authority_pem.encode()).decode()}

    def asked(self, path: str = "/") -> list[Object]:
        """The requests that came to a path, in order."""
        return [request for at, request in self.requests if at == path]

    async def handle(self, http: web.Request) -> web.Response:
        review = await http.json()
        self.requests.append((http.path, review["request"]))
        self.queries.append(http.query_string)
        if http.transport:
            self.connections.add(http.transport)
        await self.answering.wait()
        if self.raw is not None:
            return self.raw(http, review)
        response = self.answers.get(http.path, allow)(review["request"])
        return web.json_response(
            {**review, "request": None, "response": {"uid": review["request"]["uid"], **response}}
        )


@asynccontextmanager
async def webhook_server() -> AsyncIterator[WebhookServer]:
    now = datetime.now(UTC)
    authority = Authority.create("corewise contract tests", now=now)
    pair = authority.issue_server(["127.0.0.1"], now=now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(f"{pair.certificate_pem}\n{pair.key_pem}")
        file.flush()
        context.load_cert_chain(file.name)
    server = WebhookServer("", authority.certificate_pem)
    application = web.Application()
    application.router.add_post("/{path:.*}", server.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        host, port = runner.addresses[0][:2]
        server.url = f"https://{host}:{port}"
        yield server
    finally:
        for connection in runner.server.connections if runner.server else ():
            # Else TLS would wait for the other side's goodbye after the test's end; a real API server also
            # opens connections that it never uses. In Python 3.11.2 a connection that is gone has lost its
            # protocol too.
            with suppress(AttributeError):
                if connection.transport:
                    connection.transport.abort()
        await runner.cleanup()
