"""A server with small limits, over real sockets, and callers that misbehave."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from corewise.kube.certificates import Authority
from corewise.prometheus.exposition import Exposition
from corewise.service.certificates import ServingContext
from corewise.service.http_servers import WEBHOOKS, HttpServer, Listener, RefusalCause, Route, read_body
from corewise.service.options import Address
from corewise.vocabulary.metrics import HTTP_REFUSED, METRICS

LIMIT = 64 * 1024
SMALL = replace(
    WEBHOOKS.with_body(LIMIT),
    connections=4,
    handshake_timeout=0.4,
    header_timeout=0.4,
    body_timeout=0.4,
    answer_timeout=0.4,
    idle_timeout=0.4,
)
PATIENCE = 30.0
"""Seconds a test waits for what must come; all timeouts of the server are far below."""
AUTHORITY = Authority.create("http-servers", now=datetime.now(UTC))


def serving(client_ca: str = "", *, demand: bool = True) -> ServingContext:
    context = ServingContext(demand=demand)
    context.load(AUTHORITY.issue_server(["127.0.0.1"], now=datetime.now(UTC)), client_ca)
    return context


def trusting() -> ssl.SSLContext:
    """Return the TLS context of a client of the server."""
    return ssl.create_default_context(cadata=AUTHORITY.certificate_pem)


async def size(request: web.BaseRequest) -> web.Response:
    return web.Response(text=f"{len(await read_body(request))}")


async def huge(_request: web.BaseRequest) -> web.Response:
    return web.Response(body=bytes(32 * 1024 * 1024))


@asynccontextmanager
async def opened(
    server: HttpServer = SMALL,
    *routes: Route,
    tls: Callable[[], ssl.SSLContext] | None = None,
    metrics: Exposition | None = None,
) -> AsyncIterator[Listener]:
    """Serve a server until the block ends."""
    known = [Route("POST", "/size", size), Route("GET", "/huge", huge), *routes]
    listener = Listener(server, Address("127.0.0.1", 0), known, metrics or Exposition(METRICS), tls=tls)
    task = asyncio.create_task(listener.run())
    try:
        await asyncio.wait_for(listener.listening.wait(), PATIENCE)
        yield listener
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Caller:
    """One connection to a server, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def end(self) -> None:
        """Close the connection at once."""
        self.writer.transport.abort()

    async def say(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)
        await self.writer.drain()

    async def post(self, body: bytes, *, length: int | None = None, headers: str = "") -> None:
        told = len(body) if length is None else length
        await self.say(
            f"POST /size HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: {told}\r\n\r\n".encode() + body
        )

    async def answer(self) -> tuple[int, str]:
        """Return the status and the text of the next answer."""
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE)).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        text = (await asyncio.wait_for(self.reader.readexactly(length), PATIENCE)).decode()
        return int(head.split(" ")[1]), text

    async def closed(self) -> None:
        """Wait until the server closes the connection."""
        with suppress(ConnectionError, ssl.SSLError):
            while await asyncio.wait_for(self.reader.read(65536), PATIENCE):
                pass


@asynccontextmanager
async def calling(listener: Listener, **options: Any) -> AsyncIterator[Caller]:
    """Connect to a server until the block ends."""
    address = listener.address
    reader, writer = await asyncio.open_connection(address.host, address.port, **options)
    try:
        yield Caller(reader, writer)
    finally:
        writer.transport.abort()


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "this does not come about"
        await asyncio.sleep(0.01)


async def refused(metrics: Exposition, server: HttpServer, cause: RefusalCause, times: int = 1) -> None:
    """Wait until that many refusals of one cause are counted."""
    await until(lambda: metrics.value(HTTP_REFUSED, server.name, cause) >= times)
