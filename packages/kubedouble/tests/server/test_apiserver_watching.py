"""Watch streams: shared bytes, slow readers, bookmarks, ends. What every server does is in kube_contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from multidict import CIMultiDict

from kubedouble.authentication import User
from kubedouble.bootstrap import bootstrap
from kubedouble.cluster import Cluster
from kubedouble.errors import StatusError
from kubedouble.requests import Call, parse
from kubedouble.resources import Registry
from kubedouble.store import Store
from kubedouble.watching import Watch

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Response(web.StreamResponse):
    """Keeps what is written; while ``full`` it takes nothing, as a client that does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[bytes] = []
        self.room = asyncio.Event()
        self.room.set()
        self.written = asyncio.Event()

    async def write(self, data: bytes | bytearray | memoryview[int] | memoryview[bytes]) -> None:
        await self.room.wait()
        self.lines.extend(bytes(data).splitlines())
        self.written.set()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.lines]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(Store(), Registry())
    bootstrap(cluster)
    return cluster


def call(cluster: Cluster, path: str, *, accept: str = "", **query: str) -> Call:
    query = {"watch": "true", **query}
    info = parse("GET", path, query)
    resource = cluster.registry.find(info.group, info.version, info.plural)
    assert resource
    return Call(info, resource, User("test"), query, CIMultiDict(Accept=accept), cluster.clock())


def put(cluster: Cluster, name: str, **labels: str) -> None:
    cluster.store.put("nodes", ("", name), {"metadata": {"name": name, "labels": labels, "uid": name}})


@asynccontextmanager
async def watching(cluster: Cluster, *, seconds: float = 30, **query: str) -> AsyncIterator[Response]:
    """Watch nodes from now on while the block runs; the stream is closed and complete after it."""
    response = Response()
    query = {"resourceVersion": str(cluster.store.version), **query}
    watch = Watch(cluster, call(cluster, "/api/v1/nodes", **query))
    task = asyncio.create_task(watch.run(response, seconds))
    await turn()
    try:
        yield response
        await turn()
    finally:
        watch.close()
        response.room.set()
        await task


async def turn() -> None:
    """Let every task that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_store_encodes_a_change_exactly_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watching(cluster) as first, watching(cluster) as second:
        put(cluster, "a")
        await turn()
        monkeypatch.setattr("kubedouble.forms.encode", None)
        put(cluster, "b")
    assert first.lines == second.lines
    stored = cluster.store.get("nodes", "", "b")
    assert stored
    assert first.lines[1].endswith(stored.body[1:] + b"}")


async def test_object_starting_or_ceasing_to_match_is_reported(cluster: Cluster) -> None:
    put(cluster, "a", role="x")
    async with watching(cluster, labelSelector="role=x") as response:
        put(cluster, "a", role="y")
        put(cluster, "a", role="z")
        put(cluster, "a", role="x")
        version = str(cluster.store.version - 2)
    assert response.types == ["DELETED", "ADDED"]
    gone = response.events[0]["object"]
    assert gone["metadata"]["labels"] == {"role": "x"}
    assert gone["metadata"]["resourceVersion"] == version


async def test_watcher_that_does_not_read_is_disconnected(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubedouble.watching.QUEUE", 5)
    response = Response()
    watch = Watch(cluster, call(cluster, "/api/v1/nodes"))
    task = asyncio.create_task(watch.run(response, 3600))
    response.room.clear()
    await turn()
    for number in range(20):
        put(cluster, f"n{number}")
        await turn()
    response.room.set()
    await task
    assert 0 < len(response.lines) < 20


async def test_idle_watcher_receives_bookmarks_at_store_version(cluster: Cluster) -> None:
    cluster.bookmark_seconds = 0.001
    async with watching(cluster, allowWatchBookmarks="true") as response:
        cluster.store.put("configmaps", ("default", "a"), {"metadata": {"name": "a", "uid": "a"}})
        response.written.clear()  # a bookmark from before the change may have been sent
        await response.written.wait()
    bookmark = response.events[-1]["object"]
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("Node", "v1")
    assert bookmark["metadata"]["resourceVersion"] == str(cluster.store.version)


async def test_who_does_not_ask_for_bookmarks_gets_none(cluster: Cluster) -> None:
    cluster.bookmark_seconds = 0.001
    async with watching(cluster, seconds=0.02) as response:
        await asyncio.sleep(0.02)
    assert response.lines == []


async def test_a_watch_ends_with_its_time(cluster: Cluster) -> None:
    response = Response()
    await Watch(cluster, call(cluster, "/api/v1/nodes", resourceVersion="0")).run(response, 0.01)
    assert response.types == []


async def test_version_with_thousands_of_digits_is_bad_request(cluster: Cluster) -> None:
    with pytest.raises(StatusError) as refused:
        Watch(cluster, call(cluster, "/api/v1/nodes", resourceVersion="9" * 5000))
    assert refused.value.code == 400


async def test_an_expired_version_is_told_in_the_stream(cluster: Cluster) -> None:
    response = Response()
    await Watch(cluster, call(cluster, "/api/v1/nodes", resourceVersion="1")).run(response, 3600)
    (event,) = response.events
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_the_initial_state_ends_with_an_annotated_bookmark(cluster: Cluster) -> None:
    put(cluster, "a")
    async with watching(
        cluster,
        allowWatchBookmarks="true",
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        resourceVersion="",
    ) as response:
        pass
    assert response.types == ["ADDED", "BOOKMARK"]
    assert response.events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_only_first_rows_of_table_watch_bring_columns(cluster: Cluster) -> None:
    put(cluster, "a")
    async with watching(cluster, accept=TABLE, resourceVersion="0") as response:
        put(cluster, "b")
        put(cluster, "c")
    columns = [event["object"]["columnDefinitions"] for event in response.events]
    assert [bool(each) for each in columns] == [True, False, False]


async def test_a_finished_watch_leaves_no_subscription(cluster: Cluster) -> None:
    async with watching(cluster):
        assert cluster.store.table("nodes")._subscriptions
    assert not cluster.store.table("nodes")._subscriptions
