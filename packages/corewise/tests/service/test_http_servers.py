"""What a network neighbor can do to an HTTP server of the programs: each attack is refused, and counted.

| attack | refused by |
|---|---|
| a large body, announced or not; many of them at a time | the limit of one body, and of all bodies |
| a gzip bomb | 415: nothing is decompressed |
| what is not HTTP, headers that are too long | 400, counted and not logged |
| headers or a body, a byte at a time; an answer no one reads | a deadline each |
| a connection that says nothing, or does no TLS handshake | a deadline each |
| many connections | closed as they are accepted |
"""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp import web

from corewise.prometheus.exposition import Exposition
from corewise.service.http_servers import (
    HTTP_SERVERS,
    Certified,
    HttpServer,
    Listener,
    RefusalCause,
    RefusedError,
    Route,
)
from corewise.service.options import Address, OptionsError
from corewise.vocabulary.metrics import HTTP_CONNECTIONS, HTTP_REFUSED, METRICS
from service.http_servers_world import (
    LIMIT,
    PATIENCE,
    SMALL,
    Caller,
    calling,
    opened,
    refused,
    serving,
    size,
    trusting,
    until,
)

SLOW = 3600.0


@pytest.fixture
def metrics() -> Exposition:
    return Exposition(METRICS)


async def test_requests_share_one_connection_up_to_body_limit() -> None:
    async with opened() as listener, calling(listener) as caller:
        for length in (0, 1, LIMIT):
            await caller.post(bytes(length))
            assert await caller.answer() == (200, str(length))
        assert listener.held == 0


async def test_a_body_in_chunks_counts_as_it_arrives(metrics: Exposition) -> None:
    async with opened(metrics=metrics) as listener, calling(listener) as caller:
        await caller.say("POST /size HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(LIMIT // 4096 + 1):
            await caller.say(b"1000\r\n" + bytes(4096) + b"\r\n")
        assert await caller.answer() == (413, f"the body is larger than {LIMIT} bytes\n")
        await refused(metrics, SMALL, RefusalCause.BODY_SIZE)
        await caller.closed()
        assert listener.held == 0


async def test_body_announced_too_large_is_refused_before_reading(metrics: Exposition) -> None:
    async with opened(metrics=metrics) as listener, calling(listener) as caller:
        await caller.post(b"", length=1 << 40)
        assert (await caller.answer())[0] == 413
        await refused(metrics, SMALL, RefusalCause.BODY_SIZE)


@pytest.mark.parametrize(
    "encoding", ["gzip", "deflate", "br", "GZIP", "x-unknown", "identity\r\nContent-Encoding: gzip"]
)
async def test_a_body_with_a_content_encoding_is_refused(metrics: Exposition, encoding: str) -> None:
    bomb = gzip.compress(bytes(4 * 1024 * 1024))
    async with opened(metrics=metrics) as listener, calling(listener) as caller:
        await caller.post(bomb, headers=f"Content-Encoding: {encoding}\r\n")
        assert await caller.answer() == (415, "send the body as it is, without Content-Encoding\n")
        await refused(metrics, SMALL, RefusalCause.ENCODING)


async def test_all_bodies_together_have_a_limit_too(metrics: Exposition) -> None:
    server = replace(SMALL, all_bodies=LIMIT, body_timeout=SLOW)
    async with (
        opened(server, metrics=metrics) as listener,
        calling(listener) as first,
        calling(listener) as second,
    ):
        await first.post(bytes(LIMIT - 10), length=LIMIT)
        await until(lambda: listener.held == LIMIT - 10)
        await second.post(bytes(100))
        assert (await second.answer())[0] == 503
        await refused(metrics, server, RefusalCause.ALL_BODIES)
        await first.say(bytes(10))
        assert await first.answer() == (200, str(LIMIT))
        assert listener.held == 0


async def test_a_body_that_trickles_gives_its_connection_back(metrics: Exposition) -> None:
    async with opened(metrics=metrics) as listener, calling(listener) as caller:
        await caller.post(b"", length=1000)
        trickle = asyncio.create_task(dripping(caller.say))
        assert await caller.answer() == (408, "the body did not arrive within 0.4 s\n")
        await caller.closed()
        await trickle
        await refused(metrics, SMALL, RefusalCause.BODY)
        assert listener.held == 0


async def test_headers_that_trickle_give_their_connection_back(metrics: Exposition) -> None:
    async with opened(metrics=metrics) as listener, calling(listener) as caller:
        await caller.say("POST /size HTTP/1.1\r\nX-A: ")
        trickle = asyncio.create_task(dripping(caller.say))
        await caller.closed()
        await trickle
        await refused(metrics, SMALL, RefusalCause.HEADERS)


@pytest.mark.parametrize("sent", ["no HTTP\r\n\r\n", f"GET / HTTP/1.1\r\nX-A: {'a' * 10_000}\r\n\r\n"])
async def test_non_http_input_is_refused_without_flooding_log(
    metrics: Exposition, caplog: pytest.LogCaptureFixture, sent: str
) -> None:
    async with opened(metrics=metrics) as listener, calling(listener) as caller:
        await caller.say(sent)
        assert (await caller.answer())[0] == 400
        await caller.closed()
        await refused(metrics, SMALL, RefusalCause.HEADERS)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_second_requests_headers_have_the_same_deadline(metrics: Exposition) -> None:
    server = replace(SMALL, idle_timeout=SLOW)
    async with opened(server, metrics=metrics) as listener, calling(listener) as caller:
        await caller.post(b"x")
        assert (await caller.answer())[0] == 200
        await caller.say("POST /size HTTP/1.1\r\nX-A: ")
        trickle = asyncio.create_task(dripping(caller.say))
        await caller.closed()
        await trickle
        await refused(metrics, server, RefusalCause.HEADERS)


async def test_a_connection_that_says_nothing_is_closed(metrics: Exposition) -> None:
    async with opened(metrics=metrics) as listener, calling(listener) as caller:
        await caller.closed()
        await refused(metrics, SMALL, RefusalCause.HEADERS)


@pytest.mark.parametrize("secure", [False, True])
async def test_idle_connection_is_closed_without_counting_as_refused(
    metrics: Exposition, secure: bool
) -> None:
    tls = serving().context
    async with opened(metrics=metrics, tls=(lambda: tls) if secure else None) as listener:
        options = {"ssl": trusting()} if secure else {}
        async with calling(listener, **options) as caller:
            await caller.post(b"x")
            assert (await caller.answer())[0] == 200
            await caller.closed()
            assert not any(metrics.value(HTTP_REFUSED, SMALL.name, cause) for cause in RefusalCause)


async def test_an_answer_that_nobody_reads_is_given_up(metrics: Exposition) -> None:
    async with opened(metrics=metrics) as listener, calling(listener, limit=1024) as caller:
        await caller.say("GET /huge HTTP/1.1\r\nHost: h\r\n\r\n")
        await refused(metrics, SMALL, RefusalCause.ANSWER)
        await gone(metrics)


async def test_missing_handshake_is_abandoned(metrics: Exposition) -> None:
    tls = serving().context
    async with opened(metrics=metrics, tls=lambda: tls) as listener, calling(listener) as caller:
        await caller.closed()
        await refused(metrics, SMALL, RefusalCause.HANDSHAKE)
        await gone(metrics)


@pytest.mark.parametrize("is_old", [False, True])
async def test_certificates_that_expire_while_connected_are_refused(is_old: bool) -> None:
    shown = {"notAfter": f"Jan  1 00:00:00 {2020 if is_old else 2120} GMT"}
    connection = SimpleNamespace(get_extra_info=lambda _name: shown)
    request = cast("web.BaseRequest", SimpleNamespace(transport=connection))
    told: list[float] = []
    expired = pytest.raises(RefusedError, match="renew it, and connect again") if is_old else nullcontext()
    with expired:
        await Certified(on_expiry=told.append)(request)
    assert len(told) == 1


async def test_connections_over_the_cap_are_closed_on_accept(metrics: Exposition) -> None:
    """Before any TLS: a connection that does no handshake takes a place, and a fifth one gets none."""
    tls = serving().context
    server = replace(SMALL, handshake_timeout=SLOW)
    async with opened(server, metrics=metrics, tls=lambda: tls) as listener:
        async with AsyncExitStack() as stack:
            for number in range(server.connections):
                await stack.enter_async_context(calling(listener, local_addr=(f"127.0.0.{number + 1}", 0)))
            async with calling(listener, local_addr=("127.0.1.1", 0)) as surplus:
                await surplus.closed()
            await refused(metrics, server, RefusalCause.CONNECTIONS)
            assert metrics.value(HTTP_CONNECTIONS, server.name) == server.connections
        await gone(metrics)
        async with calling(listener, ssl=trusting()) as caller:
            await caller.post(b"abc")
            assert await caller.answer() == (200, "3")


async def test_one_address_leaves_connections_to_others(metrics: Exposition) -> None:
    async with opened(metrics=metrics) as listener:
        async with AsyncExitStack() as stack:
            for _ in range(SMALL.of_one_address):
                await stack.enter_async_context(calling(listener))
            async with calling(listener) as surplus:
                await surplus.closed()
            async with calling(listener, local_addr=("127.0.0.2", 0)) as other:
                await other.post(b"abc")
                assert await other.answer() == (200, "3")
        await gone(metrics)
        async with calling(listener) as caller:
            await caller.post(b"abc")
            assert await caller.answer() == (200, "3")


async def test_caller_leaving_within_its_body_leaves_nothing_behind(
    metrics: Exposition, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(replace(SMALL, body_timeout=SLOW), metrics=metrics) as listener:
        async with calling(listener) as caller:
            await caller.post(b"half", length=100)
            await until(lambda: listener.held > 0)
        await gone(metrics)
        assert listener.held == 0
        assert "Traceback" not in caplog.text


async def test_caller_is_checked_before_its_body_is_read(metrics: Exposition) -> None:
    async def nobody(_request: web.BaseRequest) -> None:
        raise RefusedError(401, RefusalCause.UNAUTHENTICATED, "no one may")

    async with (
        opened(SMALL, Route("POST", "/closed", never, nobody), metrics=metrics) as listener,
        calling(listener) as caller,
    ):
        await caller.say("POST /closed HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n")
        assert await caller.answer() == (401, "no one may\n")
        await refused(metrics, SMALL, RefusalCause.UNAUTHENTICATED)


async def test_handler_bug_returns_500_and_server_keeps_running(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(SMALL, Route("GET", "/bug", never)) as listener:
        async with calling(listener) as caller:
            await caller.say("GET /bug HTTP/1.1\r\nHost: h\r\n\r\n")
            assert (await caller.answer())[0] == 500
        async with calling(listener) as caller:
            await caller.post(b"abc")
            assert await caller.answer() == (200, "3")
    assert "ZeroDivisionError" in caplog.text


async def test_unknown_paths_and_methods_are_refused_without_reading() -> None:
    async with opened() as listener:
        for request, status in (("GET /nowhere", 404), ("GET /size", 405), ("PUT /size", 405)):
            async with calling(listener) as caller:
                await caller.say(f"{request} HTTP/1.1\r\nHost: h\r\nContent-Length: 999999999\r\n\r\n")
                assert (await caller.answer())[0] == status
                await caller.closed()


async def test_caller_that_expects_continue_is_told_to_continue() -> None:
    async with opened() as listener, calling(listener) as caller:
        await caller.post(b"", length=3, headers="Expect: 100-continue\r\n")
        assert await caller.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await caller.say(b"abc")
        assert await caller.answer() == (200, "3")


async def test_address_in_use_is_reported_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = Listener(SMALL, Address("127.0.0.1", taken.getsockname()[1]), [], Exposition(METRICS))
        with pytest.raises(OptionsError, match=r"cannot listen on 127\.0\.0\.1:\d+: address already in use"):
            await listener.run()


async def test_without_a_host_every_address_is_listened_on() -> None:
    listener = Listener(SMALL, Address("", 0), [Route("POST", "/size", size)], Exposition(METRICS))
    task = asyncio.create_task(listener.run())
    await asyncio.wait_for(listener.listening.wait(), PATIENCE)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.address.port)
    caller = Caller(reader, writer)
    await caller.post(b"abc")
    assert await caller.answer() == (200, "3")
    writer.transport.abort()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("server", HTTP_SERVERS, ids=lambda server: server.name)
def test_idle_connections_outlive_go_clients_and_limits_fit(server: HttpServer) -> None:
    assert server.idle_timeout > 90
    assert server.max_body <= 8 << 20
    assert server.connections * (282 << 10) + server.all_bodies <= 256 << 20


async def never(_request: web.BaseRequest) -> web.Response:
    raise ZeroDivisionError


async def dripping(say: Callable[[bytes], Awaitable[None]]) -> None:
    """Send a byte at a time, until the connection breaks."""
    with suppress(ConnectionError):
        while True:
            await say(b"x")
            await asyncio.sleep(0.05)


async def gone(metrics: Exposition) -> None:
    """Wait until no connection is open."""
    await until(lambda: metrics.value(HTTP_CONNECTIONS, SMALL.name) == 0)
