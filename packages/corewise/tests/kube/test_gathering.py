"""Changes of a watch that pile up in the kernel: when they are read, and that all are."""

from __future__ import annotations

import asyncio
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from corewise.kube.certificates import Authority
from corewise.kube.client import Client
from corewise.kube.decoding import WatchEvent
from corewise.kube.errors import TransportError
from corewise.kube.resources import NODES
from corewise.kube.transport import Chunks
from corewise.kube.watch import MANY, Gathering
from kube.fake_api import event, fake_api, node, server_context

NOW = datetime.now(UTC)
LONG = 60.0
"""Seconds that no test waits."""


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("test", now=NOW)


@dataclass
class Scene:
    """A watch: ``pieces`` are sent when they are put there; ``taken``: the names of nodes that were read."""

    gathering: Gathering
    pieces: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    taken: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    cut: asyncio.Event = field(default_factory=asyncio.Event)
    following: asyncio.Task[None] = field(init=False)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        sending = asyncio.create_task(self._send(response))
        await self.cut.wait()
        sending.cancel()
        assert request.transport is not None
        request.transport.abort()
        return response

    async def _send(self, response: web.StreamResponse) -> None:
        while True:
            await response.write(await self.pieces.get())

    async def follow(self, client: Client) -> None:
        async with aclosing(client.watch(NODES, "0", gathering=self.gathering)) as events:
            async for each in events:
                assert isinstance(each, WatchEvent)
                self.taken.put_nowait(each.object.metadata.name)

    def send(self, *pieces: bytes) -> None:
        self.pieces.put_nowait(b"".join(pieces))


@asynccontextmanager
async def scene(
    folder: Path, authority: Authority, seconds: float, *, secure: bool = True
) -> AsyncIterator[Scene]:
    pair, made = authority.issue_server(["127.0.0.1"], now=NOW), Scene(Gathering(seconds))
    async with asyncio.timeout(LONG / 2), fake_api(server_context(pair, folder) if secure else None) as api:
        api.answers(made.answer)
        trusting = replace(api.config, ca_pem=authority.certificate_pem.encode())
        async with Client(trusting if secure else api.config) as client:
            made.following = asyncio.create_task(made.follow(client))
            yield made
            made.following.cancel()


def changes(count: int, *, padding: int = 0) -> list[bytes]:
    images = {"status": {"images": ["x" * padding]}}
    return [event("ADDED", node(f"n{each}", each + 1, **images)) for each in range(count)]


@pytest.mark.parametrize("secure", [True, False])
async def test_gathered_changes_are_read_on_demand(
    tmp_path: Path, authority: Authority, secure: bool
) -> None:
    every = changes(1_500, padding=200)
    assert MANY / 2 < sum(map(len, every)) < MANY
    async with scene(tmp_path, authority, LONG, secure=secure) as watch:
        watch.send(every[0])
        assert await watch.taken.get() == "n0"
        for piece in every[1:10]:
            watch.send(piece)
        watch.send(*every[10:])
        await asyncio.sleep(0.5)
        assert watch.taken.empty()
        await watch.gathering.drain()
        assert watch.taken.qsize() == len(every) - 1


async def test_changes_that_gather_stay_unread(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read = list[int](), SSLProtocol.buffer_updated

    def counted(protocol: SSLProtocol, nbytes: int) -> None:
        reads.append(nbytes)
        read(protocol, nbytes)

    async with scene(tmp_path, authority, LONG) as watch:
        first, *others = changes(50)
        watch.send(first)
        await watch.taken.get()
        monkeypatch.setattr(SSLProtocol, "buffer_updated", counted)
        for each in others:
            watch.send(each)
            await asyncio.sleep(0.01)
        assert reads == []
        await watch.gathering.drain()
        assert watch.taken.qsize() == len(others)


async def test_many_bytes_are_read_at_once(tmp_path: Path, authority: Authority) -> None:
    every = changes(2 * MANY // 4000, padding=4000)
    async with scene(tmp_path, authority, LONG) as watch:
        watch.send(every[0])
        assert await watch.taken.get() == "n0"
        watch.send(*every[1:])
        for number in range(1, len(every)):
            assert await watch.taken.get() == f"n{number}"


async def test_gathered_changes_are_read_after_a_time(tmp_path: Path, authority: Authority) -> None:
    async with scene(tmp_path, authority, 0.25) as watch:
        for number, piece in enumerate(changes(10)):
            watch.send(piece)
            assert await watch.taken.get() == f"n{number}"


async def test_the_rest_of_a_change_does_not_gather(tmp_path: Path, authority: Authority) -> None:
    (change,) = changes(1, padding=5000)
    async with scene(tmp_path, authority, LONG) as watch:
        watch.send(change[:4096])
        await asyncio.sleep(0.2)
        watch.send(change[4096:])
        assert await watch.taken.get() == "n0"


async def test_the_end_of_a_connection_is_noticed(tmp_path: Path, authority: Authority) -> None:
    async with scene(tmp_path, authority, LONG) as watch:
        first, second = changes(2)
        watch.send(first)
        await watch.taken.get()
        watch.send(second)
        await asyncio.sleep(0.2)
        watch.cut.set()
        with pytest.raises(TransportError):
            await watch.following
        assert watch.taken.qsize() == 1


async def test_a_connection_is_used_again_after_gathering(tmp_path: Path, authority: Authority) -> None:
    """The next watch comes over the same connection, and its first answer is not many bytes."""
    peers = set[object]()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await asyncio.sleep(0.05)  # the watch has begun when the change and the end come
        await response.write(changes(1)[0])
        return response

    pair, watch = authority.issue_server(["127.0.0.1"], now=NOW), Scene(Gathering(LONG))
    async with asyncio.timeout(LONG / 2), fake_api(server_context(pair, tmp_path)) as api:
        api.answers(answer)
        async with Client(replace(api.config, ca_pem=authority.certificate_pem.encode())) as client:
            for _ in range(3):
                await watch.follow(client)
    assert watch.taken.qsize() == 3
    assert len(peers) == 1


class NotedChunks(Chunks):
    """Chunks that note what the kernel is asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def gather(self, size: int) -> bool:
        self.asked.append(size)
        return True


async def test_nothing_gathers_while_somebody_asks() -> None:
    gathering, chunks = Gathering(LONG), NotedChunks()
    gathering.begin(chunks)
    asking = asyncio.create_task(gathering.drain())
    await asyncio.sleep(0)
    assert chunks.asked == [MANY, 1]
    gathering.step()
    gathering.begin(chunks)
    assert chunks.asked == [MANY, 1], "whoever asks has everything read, not the first piece only"
    await asking
    gathering.begin(chunks)
    assert chunks.asked == [MANY, 1, MANY]
    gathering.end()
