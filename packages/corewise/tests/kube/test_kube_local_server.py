"""The client against an API server over TLS: every call once, and its long-lived parts through a restart."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from corewise.kube.cache import Cache
from corewise.kube.client import Client, PatchType
from corewise.kube.config import load_config
from corewise.kube.decoding import EventType, WatchEvent
from corewise.kube.election import Elector
from corewise.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    TransportError,
)
from corewise.kube.events import EventRecorder
from corewise.kube.objects import ConfigMap, ObjectMeta, ObjectReference, Secret
from corewise.kube.resources import CONFIG_MAPS, EVENTS, LEASES, SECRETS
from corewise.workload.nodes import WORKLOAD_NODES, Node
from kube.fake_api import InstantClock
from kubedouble import LocalAPIServer, serve

SOON = 90.0


@pytest.fixture
async def client(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[Client]:
    api_server.write_kubeconfig(tmp_path / "kubeconfig")
    async with Client(load_config(str(tmp_path / "kubeconfig"))) as opened:
        yield opened


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not true():  # noqa: ASYNC110 - the state is the server's and the cache's, not ours
            await asyncio.sleep(0.01)


def named(name: str) -> Node:
    return Node(ObjectMeta(name=name))


async def test_an_object_lives_from_create_to_delete(client: Client) -> None:
    created = await client.create(WORKLOAD_NODES, named("n1"))
    assert created.metadata.uid
    with pytest.raises(AlreadyExists):
        await client.create(WORKLOAD_NODES, named("n1"))
    assert await client.get(WORKLOAD_NODES, "n1") == created
    await client.delete(WORKLOAD_NODES, "n1", uid=created.metadata.uid)
    with pytest.raises(NotFound):
        await client.get(WORKLOAD_NODES, "n1")


async def test_cut_connection_error_names_the_expired_client_certificate(
    api_server: LocalAPIServer, tmp_path: Path
) -> None:
    then = datetime.now(UTC) - timedelta(days=3)
    pair = api_server.authority.issue_client("admin", now=then, lifetime=timedelta(days=1))
    document = api_server.kubeconfig()
    document["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(pair.certificate_pem.encode()).decode(),
        "client-key-data": base64.b64encode(pair.key_pem.encode()).decode(),
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(document))
    async with Client(load_config(str(tmp_path / "kubeconfig")), attempts=1) as client:
        with pytest.raises(TransportError) as raised:
            await client.get(WORKLOAD_NODES, "n1")
    assert f"expired at {then + timedelta(days=1):%Y-%m-%d}" in raised.value.hint
    assert "--kubeconfig" in raised.value.hint


async def test_forbidden_cache_reports_the_missing_permission(
    api_server: LocalAPIServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api_server.write_kubeconfig(tmp_path / "kubeconfig", "nobody", ["system:authenticated"])
    with caplog.at_level(logging.WARNING, "corewise.kube.cache"):
        async with Client(load_config(str(tmp_path / "kubeconfig"))) as client:
            following = asyncio.create_task(Cache(client, WORKLOAD_NODES).run())
            await until(lambda: bool(caplog.messages))
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    assert 'User "nobody" cannot list resource "nodes"' in caplog.messages[0]
    assert "compare its Role or ClusterRole" in caplog.messages[0]


async def test_nothing_is_stored_in_a_dry_run(client: Client) -> None:
    await client.create(WORKLOAD_NODES, named("n1"), dry_run=True)
    assert len(await client.list(WORKLOAD_NODES)) == 0


async def test_every_kind_of_patch_is_taken(client: Client) -> None:
    await client.create(WORKLOAD_NODES, named("n1"))
    await client.patch(WORKLOAD_NODES, "n1", {"metadata": {"annotations": {"a/b": "1", "c": "2"}}})
    operation = {"op": "remove", "path": "/metadata/annotations/c"}
    await client.patch(WORKLOAD_NODES, "n1", [operation], type=PatchType.JSON)
    taints = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    await client.patch(WORKLOAD_NODES, "n1", taints, type=PatchType.STRATEGIC)
    applied = {"metadata": {"name": "n1", "labels": {"x": "y"}}}
    node = await client.patch(WORKLOAD_NODES, "n1", applied, type=PatchType.APPLY, field_manager="test")
    assert (node.metadata.annotations, node.metadata.labels) == ({"a/b": "1"}, {"x": "y"})
    assert [taint.key for taint in node.spec.taints] == ["k"]


async def test_an_owned_field_is_taken_by_force_only(client: Client) -> None:
    await client.create(WORKLOAD_NODES, named("n1"))
    for manager, value in (("one", "1"), ("two", "2")):
        body = {"metadata": {"name": "n1", "labels": {"x": value}}}
        if manager == "two":
            with pytest.raises(Conflict):
                await client.patch(WORKLOAD_NODES, "n1", body, type=PatchType.APPLY, field_manager=manager)
        node = await client.patch(
            WORKLOAD_NODES, "n1", body, type=PatchType.APPLY, field_manager=manager, force=manager == "two"
        )
    assert node.metadata.labels == {"x": "2"}


async def test_status_is_written_through_its_subresource(client: Client) -> None:
    await client.create(WORKLOAD_NODES, named("n1"))
    body = {"status": {"capacity": {"cpu": "4"}}}
    node = await client.patch(WORKLOAD_NODES, "n1", body, subresource="status")
    assert node.status.capacity == {"cpu": "4"}


async def test_a_version_that_was_overtaken_is_a_conflict(client: Client) -> None:
    created = await client.create(WORKLOAD_NODES, named("n1"))
    await client.patch(WORKLOAD_NODES, "n1", {"metadata": {"labels": {"a": "b"}}})
    stale = {"metadata": {"resourceVersion": created.metadata.resource_version, "labels": {"a": "c"}}}
    with pytest.raises(Conflict):
        await client.patch(WORKLOAD_NODES, "n1", stale)


async def test_secrets_and_config_maps_keep_their_values(client: Client) -> None:
    secret = Secret(ObjectMeta(name="s", namespace="default"), data={"key": b"\x00\xff"})
    assert (await client.create(SECRETS, secret, "default")).data == {"key": b"\x00\xff"}
    settings = ConfigMap(ObjectMeta(name="c"), data={"a": "b"})
    assert (await client.create(CONFIG_MAPS, settings, "default")).data == {"a": "b"}


async def test_lists_in_pages_hold_everything_once(client: Client) -> None:
    for number in range(7):
        await client.create(
            WORKLOAD_NODES, Node(ObjectMeta(name=f"n{number}", labels={"odd": str(number % 2)}))
        )
    assert [node.metadata.name for node in await client.list(WORKLOAD_NODES, page_size=2)] == [
        f"n{i}" for i in range(7)
    ]
    assert len(await client.list(WORKLOAD_NODES, label_selector="odd=1")) == 3
    assert len(await client.list(WORKLOAD_NODES, field_selector="metadata.name=n3")) == 1


async def test_changes_after_a_version_are_watched(client: Client) -> None:
    version = (await client.list(WORKLOAD_NODES)).resource_version
    await client.create(WORKLOAD_NODES, named("n1"))
    await client.delete(WORKLOAD_NODES, "n1")
    seen = []
    async with asyncio.timeout(SOON):
        async for change in client.watch(WORKLOAD_NODES, version):
            assert isinstance(change, WatchEvent)
            seen.append(change.type)
            if change.type is EventType.DELETED:
                break
    assert seen == [EventType.ADDED, EventType.DELETED]


async def test_another_user_needs_permissions_of_its_own(client: Client) -> None:
    with pytest.raises(Forbidden, match="bob"):
        await client.as_user("bob", ["system:authenticated"]).list(WORKLOAD_NODES)


async def test_one_of_two_candidates_leads_while_other_follows(client: Client) -> None:
    def candidate(name: str) -> Elector:
        return Elector(client, namespace="default", name="lock", identity=name)

    async def work() -> None:
        await asyncio.Event().wait()

    one, two = candidate("one"), candidate("two")
    first = asyncio.create_task(one.run(work))
    await until(one.is_leader.is_set)
    second = asyncio.create_task(two.run(work))
    await until(lambda: two.leader == "one")
    first.cancel()
    await until(two.is_leader.is_set)
    lease = await client.get(LEASES, "lock", "default")
    assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("two", 1)
    second.cancel()
    await asyncio.wait([first, second])
    assert (await client.get(LEASES, "lock", "default")).spec.holder_identity == ""


async def test_events_are_counted_on_the_server(client: Client) -> None:
    clock = InstantClock()
    recorder = EventRecorder(client, component="corewise-test", instance="t", clock=clock)
    writing = asyncio.create_task(recorder.run())
    for _ in range(3):
        recorder.emit(ObjectReference(kind="Node", name="n1"), "UnknownCPUModel", "no ratio", warning=True)
        await recorder.flush()
        clock.passed += 600
    (event,) = await client.list(EVENTS, "default")
    assert (event.reason, event.count, event.type) == ("UnknownCPUModel", 3, "Warning")
    writing.cancel()


async def test_cache_keeps_following_through_a_server_restart(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with AsyncExitStack() as stack:
        async with serve(state_dir=tmp_path / "state") as server:
            server.write_kubeconfig(kubeconfig)
            address = server.url.removeprefix("https://")
            client = await stack.enter_async_context(Client(load_config(str(kubeconfig))))
            cache = Cache(client, WORKLOAD_NODES)
            following = asyncio.create_task(cache.run())
            stack.callback(following.cancel)
            await client.create(WORKLOAD_NODES, named("n1"))
            await until(lambda: "n1" in cache.items)
        async with serve(listen=address, state_dir=tmp_path / "state"):
            await client.delete(WORKLOAD_NODES, "n1")
            await client.create(WORKLOAD_NODES, named("n2"))
            await until(lambda: set(cache.items) == {"n2"})
            assert cache.last_error is None


async def test_version_the_server_has_forgotten_is_gone(client: Client) -> None:
    with pytest.raises(Gone):
        async for _ in client.watch(WORKLOAD_NODES, "1"):
            pass
