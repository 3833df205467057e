"""Watches: events, resuming, bookmarks, and how they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from kube_contract.api import Api, Object
from kube_contract.conftest import Make

PATIENCE = 60.0


@pytest.fixture
def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def take(events: AsyncIterator[Object], name: str, count: int) -> list[Object]:
    """The next ``count`` events about one object."""
    found: list[Object] = []
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            if event["object"].get("metadata", {}).get("name") == name:
                found.append(event)
            if len(found) == count:
                return found
    raise AssertionError(f"the watch ended with only {found}")


async def version_of(api: Api, collection: str) -> str:
    listing = await api.get(collection)
    return str(listing["metadata"]["resourceVersion"])


async def test_watch_from_a_list_shows_what_happens_next(api: Api, config_maps: str) -> None:
    version = await version_of(api, config_maps)
    async with api.watch(config_maps, resourceVersion=version) as events:
        await api.create(config_maps, {"metadata": {"name": "one"}})
        await api.patch(f"{config_maps}/one", {"data": {"key": "1"}})
        await api.delete(f"{config_maps}/one")
        seen = await take(events, "one", 3)
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert seen[1]["object"]["data"] == {"key": "1"}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))


async def test_a_watch_resumes_after_the_given_version(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, {"metadata": {"name": "one"}})
    await api.patch(f"{config_maps}/one", {"data": {"key": "1"}})
    await api.patch(f"{config_maps}/one", {"data": {"key": "2"}})
    async with api.watch(config_maps, resourceVersion=created["metadata"]["resourceVersion"]) as events:
        seen = await take(events, "one", 2)
    assert [event["object"]["data"]["key"] for event in seen] == ["1", "2"]
    assert {event["type"] for event in seen} == {"MODIFIED"}


async def test_watch_without_a_version_starts_with_existing_objects(api: Api, config_maps: str) -> None:
    await api.create(config_maps, {"metadata": {"name": "one"}})
    async with api.watch(config_maps) as events:
        (event,) = await take(events, "one", 1)
    assert event["type"] == "ADDED"


async def test_a_write_that_changes_nothing_is_not_seen(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, {"metadata": {"name": "one"}, "data": {"key": "1"}})
    async with api.watch(config_maps, resourceVersion=created["metadata"]["resourceVersion"]) as events:
        await api.patch(f"{config_maps}/one", {"data": {"key": "1"}})
        await api.patch(f"{config_maps}/one", {"data": {"key": "2"}})
        (event,) = await take(events, "one", 1)
    assert event["object"]["data"] == {"key": "2"}


async def test_label_selector_transitions_are_additions_and_deletions(api: Api, config_maps: str) -> None:
    version = await version_of(api, config_maps)
    async with api.watch(config_maps, resourceVersion=version, labelSelector="shown=yes") as events:
        await api.create(config_maps, {"metadata": {"name": "one"}})
        await api.patch(f"{config_maps}/one", {"metadata": {"labels": {"shown": "yes"}}})
        await api.patch(f"{config_maps}/one", {"data": {"key": "1"}})
        await api.patch(f"{config_maps}/one", {"metadata": {"labels": {"shown": "no"}}})
        seen = await take(events, "one", 3)
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_watch_of_one_name_shows_only_that(api: Api, config_maps: str) -> None:
    version = await version_of(api, config_maps)
    async with api.watch(config_maps, resourceVersion=version, fieldSelector="metadata.name=two") as events:
        await api.create(config_maps, {"metadata": {"name": "one"}})
        await api.create(config_maps, {"metadata": {"name": "two"}})
        async with asyncio.timeout(PATIENCE):
            first = await anext(events)
    assert first["object"]["metadata"]["name"] == "two"


async def test_pods_are_watched_by_node_name(api: Api, namespace: str, pod_body: Object, node: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    version = await version_of(api, pods)
    name = pod_body["metadata"]["name"]
    query = {"resourceVersion": version, "fieldSelector": f"spec.nodeName={node}"}
    async with api.watch("/api/v1/pods", **query) as events:
        await api.create(pods, pod_body)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        await api.create(f"{pods}/{name}/binding", {"metadata": {"name": name}, "target": target})
        await api.delete(f"{pods}/{name}", gracePeriodSeconds="0")
        seen = await take(events, name, 2)
    assert seen[0]["type"] == "ADDED"
    assert seen[0]["object"]["spec"]["nodeName"] == node


async def test_node_watch_shows_writes_to_status(api: Api, node: str) -> None:
    version = (await api.get(f"/api/v1/nodes/{node}"))["metadata"]["resourceVersion"]
    async with api.watch("/api/v1/nodes", resourceVersion=version) as events:
        changed = await api.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": {"cpu": "9"}}})
        (event,) = await take(events, node, 1)
    assert event["type"] == "MODIFIED"
    assert event["object"]["status"]["capacity"]["cpu"] == "9"
    assert event["object"]["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


async def test_finished_pod_leaves_a_watch_of_running_pods(
    api: Api, namespace: str, pod_body: Object, node: str, make: Make
) -> None:
    """As a deletion with the version of the write that ended it, from which the watch can be resumed."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    version = await version_of(api, pods)
    pod_body["spec"]["nodeName"] = node
    name = pod_body["metadata"]["name"]
    selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
    async with api.watch("/api/v1/pods", resourceVersion=version, fieldSelector=selector) as events:
        await make(pods, pod_body)
        ended = await api.patch(f"{pods}/{name}/status", {"status": {"phase": "Succeeded"}})
        seen = await take(events, name, 2)
    assert [event["type"] for event in seen] == ["ADDED", "DELETED"]
    assert seen[1]["object"]["metadata"]["resourceVersion"] == ended["metadata"]["resourceVersion"]


async def test_timeout_seconds_ends_a_watch_cleanly(api: Api, config_maps: str) -> None:
    version = await version_of(api, config_maps)
    async with asyncio.timeout(PATIENCE):
        async with api.watch(config_maps, resourceVersion=version, timeoutSeconds="1") as events:
            rest = [event async for event in events]
    assert all(event["type"] != "ERROR" for event in rest)


async def test_bookmarks_carry_a_version_and_nothing_else(api: Api, config_maps: str) -> None:
    """What the watch does not show moves its version too; without any write there may be no bookmark."""
    query = {
        "resourceVersion": await version_of(api, config_maps),
        "fieldSelector": "metadata.name=one",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "5",
    }
    async with api.watch(config_maps, **query) as events:
        other = await api.create(config_maps, {"metadata": {"name": "other"}})
        seen = [event async for event in events]
    assert {event["type"] for event in seen} == {"BOOKMARK"}
    bookmark = seen[-1]["object"]
    assert bookmark["kind"] == "ConfigMap"
    assert int(bookmark["metadata"]["resourceVersion"]) >= int(other["metadata"]["resourceVersion"])
    assert "name" not in bookmark["metadata"]


async def test_an_ancient_version_is_gone(api: Api, config_maps: str) -> None:
    """As an HTTP 410, or as an ERROR event with a Status of 410: clients must take either.

    A server so young that it still remembers its first version may show everything since.
    """
    await api.create(config_maps, {"metadata": {"name": "one"}})
    reply = await api.request("GET", config_maps, watch="true", resourceVersion="1", timeoutSeconds="5")
    if reply.code == 200:
        event = json.loads(reply.text.splitlines()[0])
        if event["type"] != "ERROR":
            pytest.skip("the server remembers version 1")
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    else:
        reply.refused(410)


async def test_watching_as_a_table_sends_rows(api: Api, config_maps: str) -> None:
    await api.create(config_maps, {"metadata": {"name": "one"}})
    reply = await api.request(
        "GET",
        config_maps,
        accept="application/json;as=Table;v=v1;g=meta.k8s.io",
        watch="true",
        timeoutSeconds="2",
        fieldSelector="metadata.name=one",
    )
    event = json.loads(reply.text.splitlines()[0])
    assert event["type"] == "ADDED"
    assert event["object"]["kind"] == "Table"
    assert event["object"]["rows"][0]["cells"][0] == "one"
