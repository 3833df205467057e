"""What is finished after a delete: namespaces are emptied, dependents follow their owners."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubedouble.bootstrap import bootstrap
from kubedouble.cluster import Cluster
from kubedouble.deletion import FOREGROUND, ORPHAN, Options, delete_stored
from kubedouble.housekeeping import Housekeeper
from kubedouble.resources import Registry
from kubedouble.server import _supervise
from kubedouble.store import Store
from virtual_loop import run_virtual


class World:
    """A cluster, its housekeeper, and a short way to say what is in it."""

    def __init__(self) -> None:
        self.now = datetime(2024, 5, 1, tzinfo=UTC)
        self.cluster = Cluster(Store(), Registry(), lambda: self.now)
        bootstrap(self.cluster)
        self.housekeeper = Housekeeper(self.cluster)

    def put(self, name: str, *owners: str, storage: str = "configmaps", **more: Any) -> None:
        references = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": f"uid-{owner}"}
            for owner in owners
        ]
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **more.pop("metadata", {})}
        if references:
            metadata["ownerReferences"] = references
        self.cluster.store.put(storage, ("default", name), {"metadata": metadata, **more})

    def delete(
        self, name: str, policy: str = "", storage: str = "configmaps", namespace: str = "default"
    ) -> None:
        resource = self.cluster.registry.of_storage(storage)
        stored = self.cluster.store.get(storage, namespace, name)
        assert resource
        assert stored
        delete_stored(self.cluster, resource, stored, Options(policy=policy))

    def names(self, storage: str = "configmaps") -> list[str]:
        return [stored.key[1] for stored in self.cluster.store.table(storage).scan("default")]


@pytest.fixture
def world() -> World:
    return World()


async def test_dependents_follow_their_owner(world: World) -> None:
    world.put("owner")
    world.put("child", "owner")
    world.put("grandchild", "child")
    world.put("stranger")
    world.delete("owner")
    world.housekeeper.work()
    assert world.names() == ["stranger"]


async def test_dependent_stays_while_one_owner_remains(world: World) -> None:
    world.put("one")
    world.put("two")
    world.put("child", "one", "two")
    world.delete("one")
    world.housekeeper.work()
    assert world.names() == ["child", "two"]
    world.delete("two")
    world.housekeeper.work()
    assert world.names() == []


async def test_owner_with_same_name_is_not_the_owner(world: World) -> None:
    world.put("owner")
    world.put("child", "owner")
    world.delete("owner")
    world.put("owner", metadata={"uid": "another"})
    world.housekeeper.work()
    assert world.names() == ["owner"]


async def test_a_dependent_of_what_never_was_is_deleted(world: World) -> None:
    world.put("child", "owner")
    world.housekeeper.work()
    assert world.names() == []


async def test_with_foreground_the_owner_goes_last(world: World) -> None:
    world.put("owner")
    world.put("child", "owner", metadata={"finalizers": ["example.com/hold"]})
    world.delete("owner", "Foreground")
    world.housekeeper.work()
    owner = world.cluster.store.get("configmaps", "default", "owner")
    assert owner
    assert owner.object["metadata"]["finalizers"] == [FOREGROUND]
    world.put("child", "owner", metadata={"deletionTimestamp": "2024-05-01T00:00:00Z", "finalizers": []})
    world.cluster.store.remove("configmaps", ("default", "child"))
    world.housekeeper.work()
    assert world.names() == []


async def test_with_foreground_dependents_of_dependents_go_first(world: World) -> None:
    world.put("owner")
    world.put("child", "owner")
    world.put("grandchild", "child", metadata={"finalizers": ["example.com/hold"]})
    world.delete("owner", "Foreground")
    world.housekeeper.work()
    assert world.names() == ["child", "grandchild", "owner"]
    world.cluster.store.remove("configmaps", ("default", "grandchild"))
    world.housekeeper.work()
    world.housekeeper.work()
    assert world.names() == []


async def test_foreground_deletion_drops_the_reference_from_shared_dependents(world: World) -> None:
    world.put("one")
    world.put("two")
    world.put("child", "one", "two")
    world.delete("one", "Foreground")
    world.housekeeper.work()
    child = world.cluster.store.get("configmaps", "default", "child")
    assert world.names() == ["child", "two"]
    assert child
    assert [each["name"] for each in child.object["metadata"]["ownerReferences"]] == ["two"]


async def test_object_gaining_an_owner_already_deleted_is_deleted(world: World) -> None:
    world.put("child")
    world.put("child", "owner")
    world.housekeeper.work()
    assert world.names() == []


async def test_namespaced_owner_deletes_nothing_cluster_scoped(world: World) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "uid-gone"}
    body = {"metadata": {"name": "n", "uid": "uid-n", "ownerReferences": [owner]}}
    world.cluster.store.put("nodes", ("", "n"), body)
    world.housekeeper.work()
    assert world.cluster.store.get("nodes", "", "n")


async def test_orphaned_namespace_is_deleted_once(world: World) -> None:
    world.put("held", metadata={"finalizers": ["example.com/hold"]})
    namespace = world.cluster.store.get("namespaces", "", "default")
    assert namespace
    owner = {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "uid-gone"}
    metadata = {**namespace.object["metadata"], "ownerReferences": [owner]}
    world.cluster.store.put("namespaces", ("", "default"), {**namespace.object, "metadata": metadata})
    world.delete("default", storage="namespaces", namespace="")
    world.housekeeper.work()
    assert world.names() == ["held"]


async def test_with_orphan_the_dependents_stay_and_forget(world: World) -> None:
    world.put("owner")
    world.put("child", "owner")
    world.delete("owner", "Orphan")
    held = world.cluster.store.get("configmaps", "default", "owner")
    assert held
    assert held.object["metadata"]["finalizers"] == [ORPHAN]
    world.housekeeper.work()
    child = world.cluster.store.get("configmaps", "default", "child")
    assert world.names() == ["child"]
    assert child
    assert "ownerReferences" not in child.object["metadata"]


async def test_deleted_namespace_is_emptied_and_then_removed(world: World) -> None:
    world.put("a")
    world.put("b", metadata={"finalizers": ["example.com/hold"]})
    world.delete("default", storage="namespaces", namespace="")
    world.housekeeper.work()
    namespace = world.cluster.store.get("namespaces", "", "default")
    assert namespace
    assert namespace.object["status"]["phase"] == "Terminating"
    assert world.names() == ["b"]
    world.cluster.store.remove("configmaps", ("default", "b"))
    world.housekeeper.work()
    assert world.cluster.store.get("namespaces", "", "default") is None


async def test_a_housekeeper_goes_on_where_another_stopped(world: World) -> None:
    world.put("owner")
    world.put("child", "owner")
    world.delete("owner")
    Housekeeper(world.cluster).work()
    assert world.names() == []


async def test_events_expire_an_hour_after_their_last_write(world: World) -> None:
    world.put("old", storage="events")
    world.put("renewed", storage="events")
    world.now += timedelta(minutes=40)
    world.put("renewed", storage="events", count=2)
    world.put("gone", storage="events")
    world.delete("gone", storage="events")
    world.now += timedelta(minutes=30)
    world.housekeeper.work()
    assert world.names("events") == ["renewed"]


def test_failed_loop_starts_again(caplog: pytest.LogCaptureFixture) -> None:
    starts: list[float] = []

    async def loop() -> None:
        starts.append(asyncio.get_running_loop().time())
        raise KeyError

    async def main() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(_supervise(loop), 3.5)

    run_virtual(main())
    assert starts == [0, 1, 2, 3]
    assert caplog.text.count("failed and starts again in 1 s") == 4
