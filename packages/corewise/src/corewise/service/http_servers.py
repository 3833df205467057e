"""Every HTTP server of the programs: its limits, its timeouts, and who may call it.

``HTTP_SERVERS`` is the table (``docs/reference/http-servers.md`` prints it), ``Listener`` runs one of them:

- A connection over the cap is closed as it is accepted, before TLS allocates its buffers (over 64 KiB). One
  address gets three quarters of the connections at most, so that it cannot shut out all others.
- TLS handshake, headers, body and answer have a deadline each, and an idle connection has one too, so a
  client that sends or reads a byte at a time gives its connection back.
- A request with a Content-Encoding is refused with 415: nothing is ever decompressed.
- A body counts as it arrives, against the limit of one body and against that of all bodies held at a time.
- The caller is authenticated before its body is read.

A refusal is counted in ``corewise_http_refused_total`` by server and cause, and answered in a sentence.
Callers that are not authenticated are logged too, at most one a minute.

Of ``aiohttp.web`` only the modules of its low-level server are imported: the rest is 1.3 MiB of each agent.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from aiohttp.web_protocol import PayloadAccessError, RequestHandler, RequestPayloadError
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse
from aiohttp.web_server import Server

from corewise.prometheus.exposition import Exposition
from corewise.service.options import Address
from corewise.service.sockets import bind, connections
from corewise.vocabulary.metrics import HTTP_CONNECTIONS, HTTP_REFUSED

log = logging.getLogger(__name__)

MIB = 1024 * 1024
_M_MMAP_THRESHOLD = -3
_LINE_EVERY = 60.0
_NOT_CERTIFIED = frozenset({"CERTIFICATE_VERIFY_FAILED", "PEER_DID_NOT_RETURN_A_CERTIFICATE"})
_LINGER = 1.0
"""Seconds during which the rest of a refused body is read and dropped, so that the client sees the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """The limits of one HTTP server. Sizes are in bytes, timeouts in seconds.

    ``all_bodies`` limits what the bodies of all requests in progress hold together. ``idle_timeout`` is
    longer than that of Go's clients (90 s): the client closes first, no request meets a closed connection.
    """

    name: str
    programs: str
    option: str
    serves: str
    authentication: str
    max_body: int = 0
    all_bodies: int = 0
    connections: int
    handshake_timeout: float | None = None
    header_timeout: float = 10.0
    body_timeout: float = 10.0
    answer_timeout: float = 30.0
    idle_timeout: float = 120.0

    @property
    def of_one_address(self) -> int:
        """The most connections that one address gets."""
        return self.connections - self.connections // 4

    def with_body(self, limit: int) -> HttpServer:
        """Return the server with another limit of one body; eight of them fit at a time."""
        return replace(self, max_body=limit, all_bodies=8 * limit)


WEBHOOKS = HttpServer(
    name="webhooks",
    programs="manager",
    option="`--webhook-listen`, HTTPS",
    serves="admission reviews",
    authentication="with `--client-ca`, a client certificate",
    connections=256,
    handshake_timeout=10.0,
).with_body(8 * MIB)
EXTENDER = HttpServer(
    name="extender",
    programs="scheduler",
    option="`--listen`, HTTPS",
    serves="`/filter`, `/prioritize`, `/preempt`, `/bind`, `/explain`; before Kubernetes 1.36, reviews of "
    "pods",
    authentication="a client certificate; `/explain`: a token, reviewed; reviews: a client certificate with "
    "`--client-ca`",
    connections=256,
    handshake_timeout=10.0,
).with_body(8 * MIB)
LEDGER = HttpServer(
    name="ledger",
    programs="compute",
    option="`--listen`, HTTPS",
    serves="`/v1/host`, `/v1/claims`, `/v1/guests/`, `/v1/lock`: the host's ledger, for schedulers",
    authentication="a client certificate of `--client-ca`",
    connections=256,
    handshake_timeout=10.0,
).with_body(1 * MIB)
WEB = HttpServer(
    name="web",
    programs="web",
    option="`--listen`, HTTP or HTTPS",
    serves="the web page, `/api/`",
    authentication="with `--auth token`, `/api/`: a token, reviewed",
    connections=256,
    handshake_timeout=10.0,
).with_body(1 * MIB)
HEALTH = HttpServer(
    name="health",
    programs="manager, scheduler, agent, compute, web",
    option="`--metrics-listen`, HTTP",
    serves="`/livez`, `/readyz`, `/metrics`",
    authentication="none; with `--metrics-auth token`, `/metrics`: a token, reviewed",
    connections=64,
)
HTTP_SERVERS: tuple[HttpServer, ...] = (WEBHOOKS, EXTENDER, LEDGER, WEB, HEALTH)


class RefusalCause(StrEnum):
    """The cause of a refused connection or request, as the metric labels it."""

    CONNECTIONS = "connections"
    HANDSHAKE = "handshake"
    HEADERS = "headers"
    ENCODING = "encoding"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    UNAVAILABLE = "unavailable"
    BODY_SIZE = "body-size"
    ALL_BODIES = "all-bodies"
    BODY = "body"
    ANSWER = "answer"


class RefusedError(Exception):
    """A request that is not answered; the message tells the caller why."""

    def __init__(self, status: int, cause: RefusalCause, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.cause = cause


Handler = Callable[[BaseRequest], Awaitable[StreamResponse]]
Guard = Callable[[BaseRequest], Awaitable[None]]
"""Raises ``RefusedError`` unless the caller may send this request. It runs before the body is read."""


async def anyone(_request: BaseRequest) -> None:
    """Let every caller in."""


@dataclass(frozen=True, slots=True)
class Certified:
    """Lets callers in that showed a client certificate; TLS has verified it.

    ``refusal`` tells the others what to do. ``on_expiry`` is called with the Unix time at which the caller's
    certificate expires.
    """

    refusal: str = "show a client certificate signed by an authority of --client-ca"
    on_expiry: Callable[[float], None] = lambda _: None

    async def __call__(self, request: BaseRequest) -> None:
        """Check the caller.

        Raises:
            RefusedError: if it showed no certificate, or one that has expired since it connected.
        """
        transport = request.transport
        shown = transport.get_extra_info("peercert") if transport else None
        if not shown:
            raise RefusedError(401, RefusalCause.UNAUTHENTICATED, self.refusal)
        expires = ssl.cert_time_to_seconds(shown["notAfter"])
        self.on_expiry(expires)
        if expires <= time.time():
            why = f"the client certificate expired at {shown['notAfter']}: renew it, and connect again"
            raise RefusedError(401, RefusalCause.UNAUTHENTICATED, why)


certified = Certified()


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path, what answers them, and who may call.

    ``/a/`` is also the path of ``/a/b``, and an empty path is every one that no other route has.
    """

    method: str
    path: str
    handler: Handler
    guard: Guard = anyone


async def read_body(request: BaseRequest) -> bytes:
    """Return the whole body of a request that a ``Listener`` serves.

    Raises:
        RefusedError: if the body is too large, comes too slowly, or breaks off.
    """
    return await _connection_of(request).body(request)


def when_lost(request: BaseRequest, callback: Callable[[], object]) -> None:
    """Call back once the connection of a request that a ``Listener`` serves is closed, however that comes."""
    _connection_of(request).lost.add_done_callback(lambda _: callback())


class Listener:
    """Serves the routes of one HTTP server.

    ``tls`` is called for every connection, so that a new certificate holds from the next handshake on.
    ``grace``: seconds that requests in flight have when the program ends. ``headers`` are those of every
    answer that does not have its own.
    """

    def __init__(
        self,
        server: HttpServer,
        address: Address,
        routes: Iterable[Route],
        metrics: Exposition,
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        grace: float = 1.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._headers = headers or {}
        self.server = server
        self.address = address
        self.listening = asyncio.Event()
        self.held = 0
        self._routes: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._routes.setdefault(route.path, {})[route.method] = route
        self._listen = address
        self._metrics = metrics
        self._tls = tls
        self._grace = grace
        self._tasks: set[asyncio.Task[None]] = set()
        self._peers: Counter[str] = Counter()
        self._factory: Server | None = None
        self._strangers = 0
        self._next_line = 0.0

    async def run(self) -> None:
        """Serve until canceled.

        Raises:
            OptionsError: if the address cannot be listened on.
        """
        _keep_large_blocks_apart()
        sockets = await asyncio.to_thread(bind, self._listen)
        self._factory = factory = Server(self._serve)
        try:
            async with asyncio.TaskGroup() as group:
                for each in sockets:
                    group.create_task(self._accept(each, factory))
                self.address = Address(self._listen.host, sockets[0].getsockname()[1])
                self.listening.set()
                log.info("%s: listens on %s", self.server.name, self.address)
        finally:
            self.listening.clear()
            for each in sockets:
                each.close()
            factory.pre_shutdown()
            await factory.shutdown(self._grace)
            for task in self._tasks:
                task.cancel()

    def refuse(self, cause: RefusalCause) -> None:
        self._metrics.count(HTTP_REFUSED, self.server.name, cause)

    def _log_stranger(self, peer: object, why: object) -> None:
        """Log a caller that is not authenticated, unless another one was logged within the last minute."""
        now = asyncio.get_running_loop().time()
        self._strangers += 1
        if now < self._next_line:
            return
        others = self._strangers - 1
        more = f" ({others} more since the last such line)" if others else ""
        log.warning("%s: refused %s: %s%s", self.server.name, peer, why, more)
        self._strangers, self._next_line = 0, now + _LINE_EVERY

    async def _accept(self, listening: socket.socket, factory: Server) -> None:
        loop = asyncio.get_running_loop()
        async for accepted in connections(listening, self.server.name):
            peer, server = _peer(accepted), self.server
            if len(self._tasks) >= server.connections or self._peers[peer] >= server.of_one_address:
                accepted.close()
                self.refuse(RefusalCause.CONNECTIONS)
                continue
            task = loop.create_task(self._serve_connection(accepted, peer, factory))
            self._tasks.add(task)
            self._peers[peer] += 1
            task.add_done_callback(partial(self._on_closed, peer))
            self._metrics.set(HTTP_CONNECTIONS, len(self._tasks), self.server.name)

    def _on_closed(self, peer: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._peers -= Counter((peer,))
        self._metrics.set(HTTP_CONNECTIONS, len(self._tasks), self.server.name)

    async def _serve_connection(self, accepted: socket.socket, peer: str, factory: Server) -> None:
        """Serve one connection until it is closed."""
        loop = asyncio.get_running_loop()
        connection = _Connection(self, factory)
        try:
            if self._tls is None:
                await loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                await loop.connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=self._tls(),
                    ssl_handshake_timeout=self.server.handshake_timeout,
                    ssl_shutdown_timeout=_LINGER,
                )
        except OSError as error:
            self.refuse(RefusalCause.HANDSHAKE)
            if isinstance(error, ssl.SSLError) and error.reason in _NOT_CERTIFIED:
                self._log_stranger(
                    peer, f"client certificate: {getattr(error, 'verify_message', error.reason)}"
                )
            return
        await connection.lost

    async def _serve(self, request: BaseRequest) -> StreamResponse:
        connection = _connection_of(request)
        connection.busy()
        try:
            response = await self._answer(request)
            for name, value in self._headers.items():
                response.headers.setdefault(name, value)
            try:
                async with asyncio.timeout(self.server.answer_timeout):
                    await response.prepare(request)
                    await response.write_eof()
            except TimeoutError:
                self.refuse(RefusalCause.ANSWER)
                connection.abort()
            except ConnectionError:
                connection.abort()
            return response
        finally:
            connection.idle()

    async def _answer(self, request: BaseRequest) -> StreamResponse:
        try:
            return await self._handle(request)
        except RefusedError as refused:
            self.refuse(refused.cause)
            if refused.cause is RefusalCause.UNAUTHENTICATED:
                self._log_stranger(request.remote, f"{request.method} {request.path}: {refused}")
            response = Response(status=refused.status, text=f"{refused}\n")
            if refused.status == 401:
                response.headers["WWW-Authenticate"] = "Bearer"
            response.force_close()
            return response

    async def _handle(self, request: BaseRequest) -> StreamResponse:
        encodings = request.headers.getall("Content-Encoding", [])
        if any(each.strip().lower() != "identity" for each in encodings):
            raise RefusedError(415, RefusalCause.ENCODING, "send the body as it is, without Content-Encoding")
        path = request.path
        methods = self._routes.get(path) or self._routes.get(path.rpartition("/")[0] + "/")
        methods = methods or self._routes.get("")
        if methods is None:
            return Response(status=404, text="404: Not Found\n")
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            return Response(
                status=405, text="405: Method Not Allowed\n", headers={"Allow": ", ".join(methods)}
            )
        await route.guard(request)
        return await route.handler(request)


def _peer(accepted: socket.socket) -> str:
    """Return the address of who has connected; "" if it is gone already."""
    try:
        return str(accepted.getpeername()[0])
    except OSError:
        return ""


def _connection_of(request: BaseRequest) -> _Connection:
    if not isinstance(request.protocol, _Connection):
        raise TypeError("the request was not served by a Listener")
    return request.protocol


class _Connection(RequestHandler):
    """One connection, with the deadline of what it waits for: headers, or the next request."""

    def __init__(self, listener: Listener, factory: Server) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            factory,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # aiohttp's own default runner passes it too
            logger=log,
            lingering_time=_LINGER,
            auto_decompress=False,
        )
        self.lost: asyncio.Future[None] = loop.create_future()
        self._listener = listener
        self._timer: asyncio.TimerHandle | None = None
        self._is_idle = False
        self._held = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wait(self._listener.server.header_timeout)

    def data_received(self, data: bytes) -> None:
        if self._is_idle and data:
            self._is_idle = False
            self._wait(self._listener.server.header_timeout)
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)
        if not self.lost.done():
            self.lost.set_result(None)

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> StreamResponse:
        """Answer and count what is not HTTP; aiohttp would log a traceback of it, however many come."""
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        self._listener.refuse(RefusalCause.HEADERS)
        response = Response(status=status, text="the request is not HTTP, or its headers are too large\n")
        response.force_close()
        return response

    def busy(self) -> None:
        """Expect no more bytes: the headers of a request have arrived."""
        self._is_idle = False
        self._stop_waiting()

    def idle(self) -> None:
        """Release the body, and wait for the next request."""
        self._listener.held -= self._held
        self._held = 0
        if not self.lost.done():
            self._is_idle = True
            self._wait(self._listener.server.idle_timeout)

    def abort(self) -> None:
        """Close the connection at once, whatever is still to be sent."""
        if self.transport is not None:
            self.transport.abort()

    async def body(self, request: BaseRequest) -> bytes:
        server = self._listener.server
        too_large = RefusedError(
            413, RefusalCause.BODY_SIZE, f"the body is larger than {server.max_body} bytes"
        )
        if (request.content_length or 0) > server.max_body:
            raise too_large
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        body = bytearray()
        try:
            async with asyncio.timeout(server.body_timeout):
                while chunk := await request.content.readany():
                    self._hold(len(chunk))
                    if len(body) + len(chunk) > server.max_body:
                        raise too_large
                    body += chunk
        except TimeoutError as error:
            why = f"the body did not arrive within {server.body_timeout:g} s"
            raise RefusedError(408, RefusalCause.BODY, why) from error
        except (ConnectionError, RequestPayloadError, PayloadAccessError) as error:
            raise RefusedError(400, RefusalCause.BODY, "the body is cut off") from error
        return bytes(body)

    def _hold(self, size: int) -> None:
        listener = self._listener
        if listener.held + size > listener.server.all_bodies:
            raise RefusedError(503, RefusalCause.ALL_BODIES, "too many large requests at once: try again")
        listener.held += size
        self._held += size

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if not self._is_idle:
            self._listener.refuse(RefusalCause.HEADERS)
        self.abort()


def _keep_large_blocks_apart() -> None:
    """Have every block of 128 KiB and more mapped by itself, so that freeing it returns its memory.

    glibc raises that limit to the size of a large block that is freed: after a body of 8 MiB, all later
    bodies would lie in the heap, and stay resident behind what lives longer.
    Source: mallopt(3), M_MMAP_THRESHOLD.
    """
    with suppress(AttributeError):  # another C library has no mallopt
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 * 1024)
