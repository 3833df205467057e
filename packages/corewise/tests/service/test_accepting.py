"""A server without a file descriptor left waits, says so once, and goes on when it has one again."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from corewise.service.options import Address, OptionsError
from corewise.service.sockets import bind, connections
from kubedouble import serve


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Let this process open no more files than it has open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_it_pauses_between_attempts_and_logs_the_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    enough = asyncio.Event()
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            enough.set()
        await sleep(0)

    arrived: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()

    async def accept(listening: socket.socket) -> None:
        async for each in connections(listening, "health"):
            arrived.set_result(each)

    monkeypatch.setattr("corewise.service.sockets.asyncio.sleep", pause)
    with (
        caplog.at_level(logging.WARNING),
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
    ):
        listening.setblocking(False)
        task = asyncio.create_task(accept(listening))
        with no_descriptor_left():
            await enough.wait()
        (await arrived).close()
        task.cancel()
        await asyncio.wait([task])
    assert set(pauses) == {1.0}
    assert [record.message for record in caplog.records] == [
        "health: cannot accept connections: [Errno 24] Too many open files"
    ]


def test_host_without_ipv6_is_served_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    create, addresses = socket.create_server, ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"))

    def without_ipv6(address: Any, *, family: int, **options: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "")
        return create(address, family=family, **options)

    found = [(family, 0, 0, "", (host, 0)) for family, host in addresses]
    monkeypatch.setattr(socket, "create_server", without_ipv6)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: found)
    (bound,) = bind(Address("localhost", 0))
    with bound:
        assert bound.getsockname()[0] == "127.0.0.1"
    del found[1]
    with pytest.raises(OptionsError, match="cannot listen on localhost:0: cannot assign requested address"):
        bind(Address("localhost", 0))


async def test_local_server_avoids_log_floods_and_busy_loops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve() as server:
        port = int(server.url.rpartition(":")[2])
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        with caplog.at_level(logging.WARNING), no_descriptor_left():
            await asyncio.sleep(2.5)
        for client in clients:
            client.close()
    assert [record.message for record in caplog.records if "Too many open files" in record.getMessage()] == [
        "the API server: cannot accept connections: [Errno 24] Too many open files"
    ]
    assert not [record for record in caplog.records if record.name == "asyncio"]
