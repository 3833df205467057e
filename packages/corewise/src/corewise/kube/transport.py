"""Connections, credentials and retries below the client; aiohttp's errors end here.

Invariants:
- Requests share a limited pool of connections; watches have a pool of their own without a limit, so that they
  never take the connections that requests need.
- A request takes at most ``timeout`` seconds between two bytes and four times that in all, waiting for a
  connection included.
- 401 renews the credentials and repeats the request once; what else is repeated:

  | what happened | sent again |
  |---|---|
  | the connection was refused: the request never left | always |
  | the connection broke, or timed out, after sending | if sending twice does no harm |
  | 429 of a PodDisruptionBudget: it lasts as long as the budget | never |
  | 429 else: refused before anything was done | always |
  | 503 with Retry-After | always |
  | 502, 503, 504, or any 5xx with Retry-After | if sending twice does no harm |
  | any other answer | never |

- Waits grow from 0.2 s by doubling to 10 s, each halved at most by chance, so that many clients do not come
  back together. A longer Retry-After is obeyed; beyond 30 s the caller gets the error and decides.
- A new client certificate means new connections; the old ones drain.
- Closing leaves no connection open, those of canceled requests included, and waits for no server.
- Redirects are not followed: credentials go to the configured server only.
- What the API server advises in ``Warning`` headers, such as that a field is deprecated, is logged once for
  each text: a controller repeats its requests for months.

Source: https://kubernetes.io/blog/2020/09/03/warnings/ and RFC 7234, section 5.5 (``299 - "text"``).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import re
import socket
import ssl
import sys
from asyncio.sslproto import SSLProtocol
from asyncio.trsock import TransportSocket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakSet

import aiohttp

import corewise
from corewise.kube.auth import Identity, client_context, credentials_for
from corewise.kube.clock import Clock
from corewise.kube.config import ClusterConfig
from corewise.kube.errors import (
    APIError,
    ConfigError,
    KubeError,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
    api_error,
)

CONNECT_TIMEOUT = 10.0
_TURNS = 20
"""Of the event loop, at most, until asyncio has closed connections that have ended; it needs up to four."""
READ_BUFFER = 1 << 18
"""Bytes that aiohttp collects before it asks the server to wait; its own 64 KiB are less than a few pods."""
SSLProtocol.max_size = 1 << 16
"""Bytes that asyncio keeps for each TLS connection; its own 256 KiB, sixteen TLS records, are no faster."""
LONGEST_WAIT = 30.0
_UNAVAILABLE = 503
_GATEWAY = frozenset({502, _UNAVAILABLE, 504})
_WARNING = re.compile(r'\b299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_REMEMBERED = 1000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double from ``first`` to ``longest``, each between a half and the whole of that."""

    first: float
    longest: float

    def delay(self, failures: int, rng: random.Random) -> float:
        """Seconds to wait after so many failures in a row (1 and up)."""
        doublings = min(failures - 1, 32)
        return float(min(self.longest, self.first * 2**doublings) * rng.uniform(0.5, 1.0))


REQUEST_BACKOFF = Backoff(first=0.2, longest=10.0)


def retry_delay(error: KubeError, *, repeatable: bool, failures: int, rng: random.Random) -> float | None:
    """Seconds after which to send again, or None for never."""
    match error:
        case TransportError():
            again = repeatable or not error.sent
        case TooManyRequests():
            again = not error.is_disruption_budget
        case ServerError():
            asked = error.retry_after is not None
            again = (asked and error.code == _UNAVAILABLE) or (
                repeatable and (asked or error.code in _GATEWAY)
            )
        case _:
            again = False
    wanted = error.retry_after or 0.0
    return max(wanted, REQUEST_BACKOFF.delay(failures, rng)) if again and wanted <= LONGEST_WAIT else None


def warnings_in(headers: Iterable[str]) -> Iterator[str]:
    """The texts in all ``Warning`` headers of an answer; each may hold several."""
    for header in headers:
        for quoted in _WARNING.findall(header):
            yield _ESCAPED.sub(r"\1", quoted)


class WarningLog:
    """Logs each text the first time; forgets them past a thousand texts."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, text: str) -> None:
        if text in self._seen:
            return
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen.add(text)
        _log.warning("the API server warns: %s", text)


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``repeatable`` says that sending it twice does no harm, ``once`` that it is never done."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    repeatable: bool = True
    timeout: float | None = None
    once: bool = False

    @property
    def label(self) -> str:
        return f"{self.method} {self.path}"


class Transport(Protocol):
    """The layer that a client needs below it; tests may give one without a network."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, request: Request) -> bytes:
        """The body of a good answer; anything else is raised as a ``KubeError``."""
        ...

    def stream(
        self, request: Request, *, longest: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The body in chunks as it comes, for at most ``longest`` seconds; errors as those of ``send``."""
        ...


class Chunks:
    """The body of an answer in chunks, as they come."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._chunks = response.content.iter_any()
        self._socket = _socket_of(response)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._chunks)

    def gather(self, size: int) -> bool:
        """Have the socket reported as readable only once ``size`` bytes, or the end, have arrived.

        Returns whether the system can: Linux also reports what is there when the size is lowered.
        """
        if self._socket is None or sys.platform != "linux":
            return False
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        except OSError:
            return False
        return True


class HTTPTransport:
    """One server, one set of credentials, shared connections."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        timeout: float,
        connections: int,
        attempts: int,
        on_warning: Callable[[str], None] | None,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._config = config
        self._timeout = timeout
        self._connections = connections
        self._attempts = attempts
        self._on_warning = on_warning or WarningLog()
        self._clock = clock
        self._rng = rng
        self._credentials = credentials_for(config, clock)
        self._shown: tuple[bytes, bytes] | None = None
        self._ssl: ssl.SSLContext | bool = True
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()

    async def open(self) -> None:
        """Get the credentials, so that bad ones fail here, and the pools of connections."""
        await self._current_identity()
        self._requests = self._session(self._connections)
        self._watches = self._session(0)

    def _session(self, limit: int) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=limit, socket_factory=self._socket)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"corewise/{corewise.__version__}"},
        )

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = socket.socket(*address[:3])
        self._sockets.add(made)
        return made

    async def close(self) -> None:
        """End all connections, also when canceled meanwhile."""
        sessions, self._requests, self._watches = (self._requests, self._watches), None, None
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self._end_forgotten)
            for session in sessions:
                if session is not None:
                    closing.push_async_callback(session.close)

    async def _end_forgotten(self) -> None:
        """End the connections of canceled requests: aiohttp forgets them while the server closes TLS, too."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS):
            if all(each.fileno() < 0 for each in self._sockets):
                break
            await asyncio.sleep(0)

    async def send(self, request: Request) -> bytes:
        """The body of the answer; repeated as ``retry`` says."""
        failures = 0
        while True:
            try:
                return await self._authenticated(request)
            except (TransportError, APIError) as error:
                failures += 1
                delay = retry_delay(error, repeatable=request.repeatable, failures=failures, rng=self._rng)
                if delay is None or request.once or failures >= self._attempts:
                    raise
            await self._clock.sleep(delay)

    async def _authenticated(self, request: Request) -> bytes:
        identity = await self._current_identity()
        try:
            return await self._once(request, identity)
        except Unauthorized:
            self._credentials.refused(identity)
            fresh = await self._current_identity()
            if fresh == identity:
                raise
        return await self._once(request, fresh)

    async def _once(self, request: Request, identity: Identity) -> bytes:
        wait = request.timeout or self._timeout
        limits = aiohttp.ClientTimeout(total=4 * wait, sock_connect=CONNECT_TIMEOUT, sock_read=wait)
        async with self._answer(self._requests, request, identity, limits) as response:
            return await response.read()

    @asynccontextmanager
    async def stream(self, request: Request, *, longest: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """As ``Transport.stream``; never repeated, but after a 401 the next one has fresh credentials."""
        limits = aiohttp.ClientTimeout(total=longest, sock_connect=CONNECT_TIMEOUT)
        identity = await self._current_identity()
        try:
            async with self._answer(self._watches, request, identity, limits) as response:
                _keep_alive(response)
                yield Chunks(response)
        except Unauthorized:
            self._credentials.refused(identity)
            raise

    @asynccontextmanager
    async def _answer(
        self,
        session: aiohttp.ClientSession | None,
        request: Request,
        identity: Identity,
        limits: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer while it is good; errors in it, and on the way, as this package's own."""
        if session is None:
            raise RuntimeError("the client is not open: async with Client(...)")
        try:
            async with session.request(
                request.method,
                self._config.server + request.path,
                params=request.params,
                data=request.body,
                headers=_headers(request, identity),
                ssl=self._ssl,
                server_hostname=self._config.tls_server_name or None,
                timeout=limits,
                allow_redirects=False,
                read_bufsize=READ_BUFFER,
            ) as response:
                for text in warnings_in(response.headers.getall("Warning", ())):
                    self._on_warning(text)
                if response.status >= 300:
                    raise api_error(
                        response.status,
                        await response.read(),
                        request=request.label,
                        retry_after=_retry_after(response.headers),
                    )
                yield response
        except (aiohttp.ClientError, OSError) as error:
            expired = _expiry_hint(identity, self._config, self._clock)
            raise _transport_error(error, request, self._config, expired) from error

    async def _current_identity(self) -> Identity:
        identity = await self._credentials.identity()
        shown = (identity.certificate, identity.key)
        if shown != self._shown and self._config.server.startswith("https:"):
            self._show(identity)
        return identity

    def _show(self, identity: Identity) -> None:
        """Use this identity's certificate from now on, unless it is bad and there is a good one."""
        try:
            self._ssl = client_context(self._config, identity)
        except ConfigError as error:
            if self._shown is None:
                raise
            # A certificate that is being replaced may be there before its key.
            _log.warning("%s; the last good certificate stays in use", error)
            self._credentials.refused(identity)
        else:
            self._shown = (identity.certificate, identity.key)


def _socket_of(response: aiohttp.ClientResponse) -> TransportSocket | None:
    transport = response.connection.transport if response.connection else None
    return transport.get_extra_info("socket") if transport else None


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """Let the kernel ask whether the peer of an idle watch is still there."""
    sock = _socket_of(response)
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _headers(request: Request, identity: Identity) -> list[tuple[str, str]]:
    headers = [("Accept", "application/json"), *request.headers]
    if request.body is not None:
        headers.append(("Content-Type", request.content_type))
    if identity.token:
        headers.append(("Authorization", f"Bearer {identity.token}"))
    return headers


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, as API servers state it; the form with a date is a proxy's, and not obeyed."""
    text = headers.get("Retry-After", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _expiry_hint(identity: Identity, config: ClusterConfig, clock: Clock) -> str:
    """Say if the client certificate has expired: servers cut such a connection without a word; "" if not."""
    if not identity.certificate:
        return ""
    from corewise.kube.certificates import not_after  # noqa: PLC0415 - heavy, and only after an error

    with suppress(ValueError):
        until = not_after(identity.certificate.decode("ascii"))
        if until < clock.now():
            return (
                f"the client certificate of {config.source} expired at {until:%Y-%m-%d %H:%M} UTC: "
                "servers cut such connections; renew it, or name another kubeconfig (--kubeconfig)"
            )
    return ""


def _transport_error(
    error: Exception, request: Request, config: ClusterConfig, expired: str
) -> TransportError:
    text = f"{request.label} at {config.server}: {_words(error)}"
    match error:
        case aiohttp.ClientConnectorCertificateError():
            hint = f"compare the certificate authority in {config.source} with the server's certificate"
            return TransportError(text, hint=hint, sent=False)
        case aiohttp.ClientConnectorSSLError():
            return TransportError(text, hint=expired, sent=False)
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return TransportError(text, sent=False)
        case _:
            return TransportError(text, hint=expired)


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {_reason(error.os_error)}"
    return " ".join(str(error).split()) or type(error).__name__


def _reason(error: OSError) -> str:
    """Return the system's own message; asyncio puts addresses in place of its words."""
    if error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    return error.strerror or str(error)
