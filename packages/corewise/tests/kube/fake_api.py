"""Fakes for the tests of the client: a server with scripted answers, and a transport without a network."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from corewise.kube.certificates import KeyPair
from corewise.kube.config import ClusterConfig
from corewise.kube.transport import Request

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
CONFIG = ClusterConfig("https://api.example", source="a test")


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    groups: tuple[str, ...]
    body: bytes
    user: str = ""
    """The common name of the client certificate."""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class FakeAPI:
    """Gives the scripted answers in order; the last one again and again."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.url = ""
        self._script: deque[Handler] = deque()

    def answers(self, *handlers: Handler) -> None:
        self._script = deque(handlers)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append(
            Seen(
                request.method,
                request.raw_path.partition("?")[0],
                dict(request.query),
                dict(request.headers),
                tuple(request.headers.getall("Impersonate-Group", ())),
                await request.read(),
                _common_name(request),
            )
        )
        handler = self._script.popleft() if len(self._script) > 1 else self._script[0]
        return await handler(request)

    @property
    def config(self) -> ClusterConfig:
        return ClusterConfig(self.url, source="a test")


def _common_name(request: web.BaseRequest) -> str:
    certificate = request.transport.get_extra_info("peercert") if request.transport else None
    subject = dict(pair for name in (certificate or {}).get("subject", ()) for pair in name)
    return str(subject.get("commonName", ""))


@asynccontextmanager
async def fake_api(context: ssl.SSLContext | None = None) -> AsyncIterator[FakeAPI]:
    api = FakeAPI()
    runner = web.ServerRunner(web.Server(api), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    api.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"
    try:
        yield api
    finally:
        await runner.cleanup()


def reply(body: object = None, status: int = 200, headers: Mapping[str, str] | None = None) -> Handler:
    content = body if isinstance(body, bytes) else msgspec.json.encode({} if body is None else body)

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=content, status=status, headers=headers, content_type="application/json")

    return handler


def refusal(
    code: int,
    reason: str = "",
    message: str = "no",
    headers: Mapping[str, str] | None = None,
    **details: object,
) -> Handler:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return reply(status | ({"details": details} if details else {}), code, headers)


async def drop(request: web.BaseRequest) -> web.StreamResponse:
    """Close the connection without an answer."""
    assert request.transport
    request.transport.close()
    await asyncio.sleep(0)
    return web.Response()


def stream(*chunks: bytes, cut: bool = False, hang: bool = False) -> Handler:
    """A watch of these chunks, which then ends in order, is cut, or stays open."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if hang:
            await asyncio.Event().wait()
        if cut and request.transport:
            request.transport.close()
        return response

    return handler


def event(kind: str, obj: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def node(name: str, version: int | str, **fields: object) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, **fields}


def listing(version: int | str, *items: Mapping[str, Any], token: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version), "continue": token}, "items": items}


def seeded(seed: int | str = 1) -> random.Random:
    """Chance that is the same every time."""
    return random.Random(seed)  # noqa: S311 - no secret depends on it


@dataclass
class InstantClock:
    """Sleeping takes no time and is written down."""

    slept: list[float] = field(default_factory=list)
    passed: float = 0.0

    def monotonic(self) -> float:
        return self.passed

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.passed)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.passed += seconds
        await asyncio.sleep(0)


Script = Callable[[Request], Awaitable[bytes]]
StreamScript = Callable[[Request], AsyncIterator[bytes]]


class MemoryTransport:
    """A ``Transport`` whose answers are computed by two functions; for tests in virtual time."""

    def __init__(self, send: Script, stream: StreamScript | None = None) -> None:
        self._send = send
        self._stream = stream
        self.requests: list[Request] = []

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def send(self, request: Request) -> bytes:
        self.requests.append(request)
        return await self._send(request)

    @asynccontextmanager
    async def stream(self, request: Request, *, longest: float) -> AsyncIterator[AsyncIterator[bytes]]:
        self.requests.append(request)
        assert self._stream
        yield self._stream(request)


def server_context(pair: KeyPair, path: Path, client_ca: str = "") -> ssl.SSLContext:
    """TLS of a server; with ``client_ca`` its clients must show a certificate too."""
    (path / "server.pem").write_text(pair.certificate_pem + pair.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=client_ca or None)
    context.load_cert_chain(path / "server.pem")
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
    return context
