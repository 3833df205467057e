"""Instant and range queries to a Prometheus server, over its HTTP API.

- A query is sent as a form (POST), so its length is not limited by that of a URL.
- An answer is at most ``LARGEST_ANSWER`` bytes and takes at most ``timeout`` seconds, connecting included.
- Answers are decoded in a thread, one after the other: those of thousands of series must not block the loop.
- Redirects are not followed, and no proxy of the environment is used.
- Samples that are histograms are left out: they are not numbers.
- A server returns at most 11,000 values a series, so a long range is asked for piece by piece.

Times are the server's: ``QueryResult.at`` is when it evaluated the query, by its own clock. What can go
wrong, so that aiohttp never leaks::

    PrometheusError          message, hint, retryable
    ├── ServerURLError       the URL cannot be used
    ├── UnreachableError     no answer: refused, cut, timed out                    (retryable)
    ├── QueryError           400, 422: the server says what is wrong with the query
    ├── DeniedError          401, 403
    ├── OverloadedError      429, 5xx: it may answer later                          (retryable)
    └── NotPrometheusError   an answer that is not what the API promises

Source: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import ParamSpec, Self, TypeVar
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec

import corewise
from corewise.vocabulary.errors import UNREADABLE, OperationalError
from corewise.vocabulary.exit_codes import ExitCode


class PrometheusError(OperationalError):
    """Base of all errors of the client."""


class ServerURLError(PrometheusError):
    """The URL cannot be used."""

    exit_code = ExitCode.USAGE
    default_hint = "write it as http://HOST:9090, with the path that Prometheus is served under, if any"


class UnreachableError(PrometheusError):
    """No answer arrived, or only a part of one."""

    retryable = True
    default_hint = "check that Prometheus is up and its address right: try its page /-/ready"


class QueryError(PrometheusError):
    """The server does not take the query, or cannot carry it out."""

    exit_code = ExitCode.REFUSED
    default_hint = "correct the PromQL; promtool and the server's page /graph show where it is wrong"


class DeniedError(PrometheusError):
    """The server, or a proxy before it, wants credentials."""

    exit_code = ExitCode.UNAUTHORIZED
    default_hint = "use an address within the cluster at which queries need no credentials"


class OverloadedError(PrometheusError):
    """The server answers that it cannot now."""

    retryable = True


class NotPrometheusError(PrometheusError):
    """The server that answered is neither Prometheus nor a proxy of it."""

    default_hint = "check that the URL leads to Prometheus itself, with the right path"


LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes: 5,000 nodes with a few labels are about 1 MB."""
TIMEOUT = 15.0
_LONGEST_TEXT = 300
_DENIED_CODES = frozenset({401, 403})
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of an answer: its labels, and its value, which may be NaN or infinite."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a query. ``at``: Unix seconds of the server; ``warnings``: those of the server."""

    at: float
    samples: tuple[Sample, ...]
    warnings: tuple[str, ...] = ()


class _Element(msgspec.Struct, frozen=True):
    metric: dict[str, str] = msgspec.field(default_factory=dict)
    value: tuple[float, str] | None = None


class _Vector(msgspec.Struct, frozen=True, tag_field="resultType", tag="vector"):
    result: list[_Element]


class _Scalar(msgspec.Struct, frozen=True, tag_field="resultType", tag="scalar"):
    result: tuple[float, str]


class RangeElement(msgspec.Struct, frozen=True):
    """One series of a range query as it comes: times, and values as text."""

    metric: dict[str, str] = msgspec.field(default_factory=dict)
    values: list[tuple[float, str]] = msgspec.field(default_factory=list)


class Matrix(msgspec.Struct, frozen=True, tag_field="resultType", tag="matrix"):
    """The data of a range query."""

    result: list[RangeElement]


class _Text(msgspec.Struct, frozen=True, tag_field="resultType", tag="string"):
    pass


class Body(msgspec.Struct, frozen=True, rename="camel"):
    """The common form of the API's answers."""

    status: str
    data: _Vector | _Scalar | Matrix | _Text | None = None
    error_type: str = ""
    error: str = ""
    warnings: tuple[str, ...] = ()


_BODY = msgspec.json.Decoder(Body)


class PrometheusClient:
    """A connection to one server; an asynchronous context manager."""

    def __init__(self, url: str, *, timeout: float = TIMEOUT) -> None:
        """``url``: where the server is, with the path that it is served under.

        Raises:
            ServerURLError: if no query can be sent there.
        """
        self._url = checked_url(url)
        self.label = without_secrets(self._url)
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def query(self, promql: str) -> QueryResult:
        """Evaluate an expression now; a scalar comes as one series without labels.

        Raises:
            PrometheusError: if there is no answer, or none that is a number for each series.
        """
        return await self.aside(_answer, await self.ask("api/v1/query", {"query": promql}))

    async def ask(self, path: str, form: Mapping[str, str]) -> Body:
        """Send a form to a path of the API, and return its answer, which says that it succeeded.

        Raises:
            PrometheusError: if there is none.
        """
        status, body = await self._post(path, form)
        answer = await self.aside(_decoded, self.label, status, body)
        if answer.status != "success":
            raise _failed(self.label, status, answer)
        return answer

    async def aside(self, work: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
        """Do what takes long in a thread, one thing at a time: the event loop waits for each that runs."""
        async with self._one_at_a_time:
            return await asyncio.to_thread(work, *arguments, **options)

    async def _post(self, path: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        try:
            async with self._opened().post(
                self._url + path, data=dict(form), allow_redirects=False
            ) as response:
                return response.status, await _limited(response)
        except TimeoutError as error:
            raise UnreachableError(f"{self.label}: no answer within {self._timeout.total:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise UnreachableError(f"{self.label}: {_words(error)}") from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            agent = {"User-Agent": f"corewise/{corewise.__version__}"}
            self._session = aiohttp.ClientSession(timeout=self._timeout, headers=agent)
        return self._session


def checked_url(url: str) -> str:
    """Return a server's URL, ending in a slash.

    Raises:
        ServerURLError: if it is none.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError as error:
        raise ServerURLError(f"the URL cannot be read: {error}") from error
    if not usable or parts.query or parts.fragment:
        raise ServerURLError(f"{without_secrets(url)!r} is not the address of a Prometheus server")
    return url if url.endswith("/") else url + "/"


def without_secrets(url: str) -> str:
    """Return a URL without the user and password in it, to be shown."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _words(error: Exception) -> str:
    """Return the error in words; aiohttp mentions ssl for a refused connection even where none is used."""
    certificate = isinstance(error, aiohttp.ClientConnectorCertificateError)
    if isinstance(error, aiohttp.ClientConnectorError) and not certificate:
        return f"cannot connect: {error.os_error.strerror or error.os_error}"
    return str(error) or type(error).__name__


async def _limited(response: aiohttp.ClientResponse) -> bytes:
    """Read a body up to the limit."""
    chunks, size = [], 0
    async for chunk in response.content.iter_chunked(1 << 18):
        size += len(chunk)
        if size > LARGEST_ANSWER:
            hint = "aggregate the query to one series a node"
            raise NotPrometheusError(f"the answer is longer than {LARGEST_ANSWER >> 20} MiB", hint=hint)
        chunks.append(chunk)
    return b"".join(chunks)


def _decoded(url: str, status: int, body: bytes) -> Body:
    try:
        return _BODY.decode(body)
    except UNREADABLE as error:
        raise _refused(url, status, body) from error


def _refused(url: str, status: int, body: bytes) -> PrometheusError:
    """Return the error for an answer that is not the API's."""
    text = " ".join(body[:_LONGEST_TEXT].decode("utf-8", "replace").split())
    message = f"{url}: HTTP {status}" + (f": {text}" if text else "")
    if status in _DENIED_CODES:
        return DeniedError(message)
    if status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR:
        return OverloadedError(message)
    return NotPrometheusError(f"{message}: this is not an answer from Prometheus")


def _failed(url: str, status: int, answer: Body) -> PrometheusError:
    """Return the error that the API states. A query that timed out or was canceled may succeed later."""
    message = f"{answer.error_type or 'error'}: {answer.error[:_LONGEST_TEXT]}"
    if answer.error_type in {"timeout", "canceled", "unavailable", "internal"}:
        return OverloadedError(f"{url}: {message}")
    if status in _DENIED_CODES:
        return DeniedError(f"{url}: {message}")
    return QueryError(message)


def _answer(body: Body) -> QueryResult:
    match body.data:
        case _Vector():
            found = [(each.metric, *each.value) for each in body.data.result if each.value is not None]
        case _Scalar():
            found = [({}, *body.data.result)]
        case Matrix():
            hint = "a range [5m] needs a function around it: rate(), avg_over_time()"
            raise QueryError("the query returns ranges of samples, not one number a series", hint=hint)
        case _:
            raise QueryError("the query returns no series")
    try:
        samples = tuple(Sample(labels, float(text)) for labels, _, text in found)
    except ValueError as error:
        raise NotPrometheusError(f"a value is not a number: {error}") from error
    return QueryResult(max((at for _, at, _ in found), default=0.0), samples, body.warnings)


PIECE = 500
"""Steps asked for at once: answers stay small where there are thousands of series."""


@dataclass(frozen=True, slots=True)
class RangeSeries:
    """One series: its labels, and times (Unix seconds) with values, which may be NaN or infinite."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


async def query_range(
    client: PrometheusClient, promql: str, *, start: float, end: float, step: float
) -> tuple[RangeSeries, ...]:
    """Evaluate an expression at ``start``, ``start + step`` and so on up to ``end``.

    Raises:
        PrometheusError: if there is no answer, or none of numbers.
    """
    found: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    count = int((end - start) // step) + 1
    for first in range(0, count, PIECE):
        last = min(first + PIECE, count) - 1
        form = {
            "query": promql,
            "start": f"{start + first * step:.3f}",
            "end": f"{start + last * step:.3f}",
            "step": f"{step:g}",
        }
        for series in await _piece(client, form):
            found.setdefault(tuple(sorted(series.labels.items())), []).extend(series.points)
    return tuple(RangeSeries(dict(labels), tuple(points)) for labels, points in found.items())


async def _piece(client: PrometheusClient, form: Mapping[str, str]) -> list[RangeSeries]:
    body = await client.ask("api/v1/query_range", form)
    if not isinstance(body.data, Matrix):
        raise NotPrometheusError("the answer to a range query has no ranges")
    try:
        return [
            RangeSeries(each.metric, tuple((at, float(text)) for at, text in each.values))
            for each in body.data.result
        ]
    except ValueError as error:
        raise NotPrometheusError(f"a value is not a number: {error}") from error
