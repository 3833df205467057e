"""A proxy between one program and the API server that injects the faults of a link.

The program speaks HTTP to it, and it speaks HTTPS to the API server, with the administrator's certificate;
who the program is stands in its impersonation headers. A fault of one request is one of these:

slow             the answer to a GET comes 0.3 to 1.4 s late; so does each part of a watch
reordered        the request waits up to 2 s, so that later ones overtake it
lost             the request does not arrive, and the connection is cut
answer lost      the request arrives, and the connection is cut
late             the connection is cut, and the request arrives up to 8 s after that
twice            the request arrives twice, one after the other: not for one that creates
429, 500, 503    the API server's answer in its place
410              a watch is told that its version is too old: at its begin, or in its middle
watch cut, late  a watch is cut; what it shows comes up to 8 s late
refused          the connection is cut, and those that follow it
silent           nothing is answered until the spell is over, and then the connection is cut
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from experiments.fault_soak.links import SLOW, Fault, Link, Spell

REORDERED_BY: Final = (0.0, 2.0)
LATE_BY: Final = (0.5, 8.0)
"""Seconds after which a request arrives that its sender has given up, or a watch shows what happened."""
LONGEST_LATE: Final = LATE_BY[1] + 2.0
_LOSSES: Final = 0.4
_ERRORS: Final = 0.33
_EXPIRED: Final = 0.3
_LOOKED_EVERY: Final = 1.0
_LARGEST: Final = 64 << 20
_OWN_OF_A_CONNECTION: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "keep-alive", "date", "server"}
)
_REASONS: Final[Mapping[int, str]] = {
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


@dataclass(frozen=True, slots=True)
class Eviction:
    """An eviction that the API server accepted; when it was sent, in seconds of the event loop."""

    sent: float
    uid: str


class _Cut(Exception):  # noqa: N818 - what is to be done
    """The connection is to be cut."""


@dataclass
class APIProxy:
    """The proxy of one link. ``server`` and ``context``: the API server, and how to reach it."""

    link: Link
    server: str
    context: ssl.SSLContext
    url: str = ""
    evictions: list[Eviction] = field(default_factory=list)
    _late: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self.context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding", "User-Agent", "Content-Type"),
        )
        application = web.Application(client_max_size=_LARGEST)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application, handler_cancellation=True, access_log=None, shutdown_timeout=0.5
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._late:
            task.cancel()
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.link.passed += 1
        request["sent"] = asyncio.get_running_loop().time()
        body = await request.read()
        try:
            if request.query.get("watch") in {"true", "1"}:
                return await self._watch(request)
            return await self._answer(request, body)
        except (_Cut, aiohttp.ClientError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
            return web.Response()  # it goes nowhere

    async def _answer(self, request: web.Request, body: bytes) -> web.Response:
        link = self.link
        match link.fault:
            case Fault.REFUSED | Fault.SILENT as fault:
                await self._part(fault)
            case Fault.SLOW_READS if request.method == "GET":
                link.note("slow")
                await asyncio.sleep(link.draw.uniform(*SLOW))
            case Fault.REORDERED:
                link.note("reordered")
                await asyncio.sleep(link.draw.uniform(*REORDERED_BY))
            case Fault.ERRORS if link.strikes(_ERRORS):
                code = link.draw.choice((429, 500, 503))
                link.note(str(code))
                return _status(code)
            case Fault.LOSSES if link.strikes(_LOSSES):
                return await self._lose(request, body)
        return await self._forward(request, body)

    async def _part(self, fault: Fault) -> None:
        """Cut a connection that is refused now, or silent until the spell is over."""
        self.link.note("silent" if fault is Fault.SILENT else "refused")
        if fault is Fault.SILENT:
            await self.link.until_over()
        raise _Cut

    async def _lose(self, request: web.Request, body: bytes) -> web.Response:
        fates = ["lost", "answer lost", "late"]
        if request.method != "POST" or request.path.endswith("/binding"):
            fates.append("twice")
        fate = self.link.draw.choice(fates)
        self.link.note(fate)
        match fate:
            case "answer lost":
                await self._forward(request, body)
            case "twice":
                await self._forward(request, body)
                return await self._forward(request, body)
            case "late":
                task = asyncio.create_task(self._arrive_late(request, body))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
        raise _Cut

    async def _arrive_late(self, request: web.Request, body: bytes) -> None:
        await asyncio.sleep(self.link.draw.uniform(*LATE_BY))
        with suppress(aiohttp.ClientError):
            await self._forward(request, body)

    def _sent(self, request: web.Request) -> dict[str, Any]:
        """Return the arguments that send a request on to the API server, without its body."""
        return {
            "method": request.method,
            "url": URL(self.server + request.raw_path, encoded=True),
            "headers": _passed_on(request.headers),
            "allow_redirects": False,
        }

    async def _forward(self, request: web.Request, body: bytes) -> web.Response:
        async with self._session.request(**self._sent(request), data=body or None) as answer:
            if request.path.endswith("/eviction") and answer.ok:
                uid = json.loads(body)["deleteOptions"]["preconditions"]["uid"]
                self.evictions.append(Eviction(request["sent"], uid))
            headers = _passed_on(answer.headers)
            return web.Response(status=answer.status, body=await answer.read(), headers=headers)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        link = self.link
        fault = link.fault
        if fault in {Fault.REFUSED, Fault.SILENT}:
            await self._part(fault)
        if fault is Fault.WATCHES and "resourceVersion" in request.query and link.strikes(_EXPIRED):
            link.note("410")
            return _status(410)
        async with self._session.request(**self._sent(request)) as upstream:
            answer = web.StreamResponse(status=upstream.status, headers=_passed_on(upstream.headers))
            answer.enable_chunked_encoding()
            await answer.prepare(request)
            await self._pass_on(upstream.content, answer)
            await answer.write_eof()
            return answer

    async def _pass_on(self, source: aiohttp.StreamReader, answer: web.StreamResponse) -> None:
        """Pass on what a watch shows until it ends, or a fault ends it.

        Raises:
            _Cut: if a fault does.
        """
        reading = asyncio.ensure_future(source.readany())
        struck: tuple[Spell | None, str] = (None, "")
        whole = True
        try:
            while True:
                await asyncio.wait({reading}, timeout=_LOOKED_EVERY)
                spell = self.link.spell
                if spell and spell != struck[0]:
                    struck = spell, self._fate_of_watch(spell.fault)
                fate = struck[1] if spell else ""
                if fate == "410" and whole:
                    await answer.write(_event_of(410))
                    return
                await self._wait_out(fate, has_come=reading.done())
                if not reading.done():
                    continue
                chunk = reading.result()
                if not chunk:
                    return
                await answer.write(chunk)
                whole = chunk.endswith(b"\n")
                reading = asyncio.ensure_future(source.readany())
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError, aiohttp.ClientError):
                await reading

    def _fate_of_watch(self, fault: Fault) -> str:
        """Draw what a spell does to one watch."""
        match fault:
            case Fault.REFUSED:
                fate = "refused"
            case Fault.SILENT:
                fate = "silent"
            case Fault.SLOW_READS:
                fate = "slow"
            case Fault.WATCHES:
                fate = self.link.draw.choice(("watch cut", "watch late", "410", ""))
            case _:
                fate = ""
        if fate:
            self.link.note(fate)
        return fate

    async def _wait_out(self, fate: str, *, has_come: bool) -> None:
        match fate:
            case "refused" | "watch cut":
                raise _Cut
            case "silent":
                await self.link.until_over()
                raise _Cut
            case "watch late" if has_come:
                await asyncio.sleep(self.link.draw.uniform(*LATE_BY))
            case "slow" if has_come:
                await asyncio.sleep(self.link.draw.uniform(*SLOW))


def _passed_on(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Return the headers without those of one connection."""
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in _OWN_OF_A_CONNECTION
    )


def _failure(code: int) -> dict[str, Any]:
    message = "injected by the proxy between the programs"
    kind = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure"}
    return {**kind, "code": code, "reason": _REASONS[code], "message": message}


def _status(code: int) -> web.Response:
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.json_response(_failure(code), status=code, headers=headers)


def _event_of(code: int) -> bytes:
    return json.dumps({"type": "ERROR", "object": _failure(code)}).encode() + b"\n"
