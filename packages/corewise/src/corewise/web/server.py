"""Serves the web page: its files, what it shows as JSON, and changes as server-sent events.

- ``/``, ``/nodes/NAME`` and every other path of a view: the page itself, which then asks for what it shows.
- ``/assets/FILE``: its script and style; names change with their content, so browsers keep them forever.
- ``/api/session``, ``/api/tables/NAME``, ``/api/KIND/NAME``: JSON, as the commands print it with ``-o json``.
  ``/api/tables/pods?namespace=NAME``: those of one namespace.
- ``/api/summary``: how many problems and recommendations there are, for the navigation.
- ``/api/stream/...``: the same, followed by what changes; see :mod:`corewise.web.streams`.
- ``POST /api/what-if``: a plan with a changed configuration. It writes nothing. One is tried at a time; it
  is given up when its caller leaves.

The page can change nothing, sets no cookie, and loads nothing from elsewhere: the Content-Security-Policy
lets in what this server serves, and no script or style within the HTML. The Host header must name this
server, so that a page of another site cannot have its own name resolve to this address and read along (DNS
rebinding). A request that carries a body must be JSON and come from this page.

With ``access``, ``/api`` takes the bearer token of a user who may list nodes and pods: a TokenReview names
the user, a SubjectAccessReview says what may be seen. Who may get one pod, and not list all, does not see for
which neighbors it waits. The page and its files are not secret.
"""

from __future__ import annotations

import asyncio
import gzip
import mimetypes
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

import msgspec
from aiohttp import web

from corewise.kube.clock import Clock
from corewise.kube.decoding import decode_document
from corewise.kube.errors import DecodeError
from corewise.service.health import Access, ResourceAccess, TokenAccess
from corewise.service.http_servers import RefusalCause, RefusedError, Route, read_body, when_lost
from corewise.vocabulary.errors import OperationalError
from corewise.web.streams import Feeds, Lost, Read

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_FOR_EVER = "public, max-age=31536000, immutable"
_JSON = "application/json"
_API, _ASSETS, _STREAM, _WHAT_IF, _SUMMARY = "/api/", "/assets/", "stream/", "what-if", "summary"
_OF_ONE_POD = (f"{_API}pods/", f"{_API}{_STREAM}pods/")
_INDEX, _NAMESPACE = "index.html", "namespace"
_WRITE_WITHIN = 30.0

_NODES, _PODS, _NAMESPACES = map(ResourceAccess, ("nodes", "pods", "namespaces"))


class Tables(Protocol):
    """The page's tables. Unknown names raise LookupError."""

    @property
    def names(self) -> Collection[str]: ...
    def table(self, name: str, namespace: str = "") -> Mapping[str, Any]: ...
    def summary(self) -> Mapping[str, Any]: ...


class Documents(Protocol):
    """What is known of single objects. Unknown names raise LookupError, a senseless change ValueError."""

    async def document(self, kind: str, name: str) -> Mapping[str, Any]: ...
    async def what_if(self, body: Mapping[str, Any]) -> Any: ...


class PageServer:
    """The routes of the page. ``hosts`` are names that the Host header may have; None: any.

    ``lost`` returns why the cluster cannot be followed at the moment, if it cannot.
    ``configuration``: namespace and name of the ConfigMap. What-if shows its texts to callers who may get it.
    """

    def __init__(
        self,
        tables: Tables,
        documents: Documents,
        lost: Callable[[], Lost | None],
        session: Mapping[str, Any],
        clock: Clock,
        *,
        hosts: Collection[str] | None,
        configuration: tuple[str, str],
        access: TokenAccess | None = None,
    ) -> None:
        self._tables, self._documents, self._session = tables, documents, session
        self._hosts, self._access = hosts, access
        self._configuration = ResourceAccess("configmaps", "get", *configuration)
        self.feeds = Feeds(clock, lost)
        self._files = _assets()
        self._trying = asyncio.Lock()

    @property
    def routes(self) -> Sequence[Route]:
        """Every path is one route: which view a path means is decided here."""
        return (Route("GET", "", self._get, self._guard), Route("POST", "", self._post, self._guard))

    async def _guard(self, request: web.BaseRequest) -> None:
        """Admit requests that mean this server, from callers who may see what they ask for."""
        host = _split(f"//{request.host}").hostname or ""
        if self._hosts is not None and host not in self._hosts:
            known = " or ".join(sorted(self._hosts))
            why = f"the Host header names {host or 'nothing'}: call this page {known}"
            raise RefusedError(421, RefusalCause.FORBIDDEN, f"{why}, or start it with --host {host}")
        if self._access is not None and request.path.startswith(_API):
            path = request.path.removeprefix(_API).removeprefix(_STREAM)
            for needed in self._needed(path, request.query.get(_NAMESPACE, "")):
                try:
                    await self._access.check(request, needed)
                except RefusedError as refused:
                    if refused.status != 403 or path != "tables/pods":
                        raise
                    why = f"{refused}; or ask for a namespace whose pods it may list: ?{_NAMESPACE}=NAME"
                    raise RefusedError(403, RefusalCause.FORBIDDEN, why) from None

    def _needed(self, path: str, namespace: str) -> Sequence[Access]:
        """Return the permissions that the caller needs for a path below /api."""
        kind, _, name = path.partition("/")
        match kind, name:
            case "session", "":
                return ()
            case "pods", _:
                return (ResourceAccess("pods", "get", name.partition("/")[0]),)
            case ("hosts" | "offline", _) | ("tables", "nodes" | "offline" | "hosts"):
                return (_NODES,)
            case "tables", "pods":
                return (replace(_PODS, namespace=namespace),)
            case "what-if", _:
                return (_NODES, _PODS, self._configuration)
            case _:
                return (_NODES, _PODS, _NAMESPACES) if path == "tables/problems" else (_NODES, _PODS)

    async def _get(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path.startswith(_ASSETS):
            return self._file(request, path.removeprefix(_ASSETS), _FOR_EVER)
        if not path.startswith(_API):
            return self._file(request, _INDEX, HEADERS["Cache-Control"])
        try:
            return await self._read(request, path.removeprefix(_API))
        except LookupError as error:
            return _json({"message": str(error)}, status=404)
        except OperationalError as error:  # of the API server, or of a compute host's ledger
            return _json({"message": str(error)}, status=502)

    async def _read(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path == _SUMMARY:
            return _json(self._tables.summary())
        if path == "session":
            return _json({**self._session, "views": [*self._tables.names]})
        if path.startswith(_STREAM) and request.method == "GET":
            return await self._stream(request, path.removeprefix(_STREAM))
        path, namespace = path.removeprefix(_STREAM), request.query.get(_NAMESPACE, "")
        return _json(await self._reader(path, namespace, neighbors=await self._shows_neighbors(request))())

    async def _shows_neighbors(self, request: web.BaseRequest) -> bool:
        """Whether the caller may know of the pods on other pods' nodes."""
        if self._access is None or not request.path.startswith(_OF_ONE_POD):
            return True
        try:
            await self._access.check(request, _PODS)
        except RefusedError as refused:
            if refused.status != 403:
                raise
            return False
        return True

    def _reader(self, path: str, namespace: str, *, neighbors: bool) -> Read:
        kind, _, name = path.partition("/")

        async def table() -> Mapping[str, Any]:
            return self._tables.table(name, namespace)

        async def document() -> Mapping[str, Any]:
            shown = await self._documents.document(kind, name)
            return shown if neighbors else {**shown, "waiting": None}

        return table if kind == "tables" else document

    async def _stream(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        namespace = request.query.get(_NAMESPACE, "")
        neighbors = await self._shows_neighbors(request)
        read, part = self._reader(path, namespace, neighbors=neighbors), "" if neighbors else "#"
        async with self.feeds.opened(f"{path}?{namespace}{part}", read) as events:
            response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
            await response.prepare(request)
            # The page was closed, reads nothing, or its token counts no more: it will ask again, if it can.
            with suppress(ConnectionError, TimeoutError, RefusedError):
                async for message in events:
                    await self._guard(request)
                    if neighbors and not await self._shows_neighbors(request):
                        break
                    async with asyncio.timeout(_WRITE_WITHIN):
                        await response.write(message)
        return response

    async def _post(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != f"{_API}{_WHAT_IF}":
            return _json({"message": "nothing can be written here"}, status=405)
        if request.content_type != _JSON:
            raise RefusedError(415, RefusalCause.FORBIDDEN, f"send Content-Type: {_JSON}")
        origin = request.headers.get("Origin")
        if origin is not None and _split(origin).netloc != request.host:
            raise RefusedError(403, RefusalCause.FORBIDDEN, f"{origin} is another site")
        body = await read_body(request)
        if self._trying.locked():
            why = "another change is being tried; try again when it is done"
            raise RefusedError(429, RefusalCause.UNAVAILABLE, why)
        async with self._trying:
            try:
                change = decode_document(body, "the change")
                trial = asyncio.ensure_future(self._documents.what_if(change))
                when_lost(request, trial.cancel)
                return _json(await trial)
            except (ValueError, DecodeError) as error:
                return _json({"message": str(error)}, status=400)
            except OperationalError as error:
                return _json({"message": str(error)}, status=503)

    def _file(self, request: web.BaseRequest, name: str, cache: str) -> web.Response:
        if name not in self._files:
            if name == _INDEX:
                text = "The page has not been built: run make web. The numbers are there: /api/tables/nodes\n"
                return web.Response(status=503, text=text)
            return web.Response(status=404, text="404: Not Found\n")
        content_type, plain, packed = self._files[name]
        headers = {"Content-Type": content_type, "Cache-Control": cache, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=packed, headers={**headers, "Content-Encoding": "gzip"})
        return web.Response(body=plain, headers=headers)


def _split(url: str) -> SplitResult:
    """Return the parts of a URL that a caller sent; none of one that cannot be read."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _json(value: Any, *, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value), content_type=_JSON)


def _assets() -> Mapping[str, tuple[str, bytes, bytes]]:
    """Return the files of the page by name: content type, content, and content compressed."""
    found = {}
    folder = files("corewise.web") / "assets"
    for file in folder.iterdir() if folder.is_dir() else ():
        content = file.read_bytes()
        content_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        if content_type.startswith("text/"):
            content_type += "; charset=utf-8"
        found[file.name] = content_type, content, gzip.compress(content, mtime=0)
    return found
