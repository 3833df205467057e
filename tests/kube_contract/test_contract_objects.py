"""Create, read, update and delete, and what the server writes into metadata."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_contract.api import Api, Object
from kube_contract.conftest import Make

NODES = "/api/v1/nodes"


@pytest.fixture
def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def a_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_creating_fills_in_server_metadata(api: Api, config_maps: str, namespace: str) -> None:
    reply = await api.request("POST", config_maps, a_map("one", key="value"))
    assert reply.code == 201
    metadata = reply.body["metadata"]
    assert metadata["namespace"] == namespace
    assert metadata["uid"]
    assert metadata["resourceVersion"].isdigit()
    assert metadata["creationTimestamp"].endswith("Z")
    assert reply.body["kind"] == "ConfigMap"


async def test_creating_what_exists_conflicts(api: Api, config_maps: str) -> None:
    await api.create(config_maps, a_map("one"))
    status = (await api.request("POST", config_maps, a_map("one"))).refused(409, "AlreadyExists")
    assert status["message"] == 'configmaps "one" already exists'
    assert status["details"] == {"name": "one", "kind": "configmaps"}


async def test_reading_what_is_not_there_is_not_found(api: Api, config_maps: str) -> None:
    status = (await api.request("GET", f"{config_maps}/nothing")).refused(404, "NotFound")
    assert status["message"] == 'configmaps "nothing" not found'
    assert status["details"] == {"name": "nothing", "kind": "configmaps"}


async def test_creating_in_a_missing_namespace_is_not_found(api: Api, unique: str) -> None:
    path = f"/api/v1/namespaces/{unique}-absent/configmaps"
    status = (await api.request("POST", path, a_map("one"))).refused(404, "NotFound")
    assert status["message"] == f'namespaces "{unique}-absent" not found'


async def test_a_body_of_another_namespace_is_refused(api: Api, config_maps: str) -> None:
    body = a_map("one")
    body["metadata"]["namespace"] = "elsewhere"
    (await api.request("POST", config_maps, body)).refused(400, "BadRequest")


async def test_a_body_of_another_kind_is_refused(api: Api, config_maps: str) -> None:
    body = {**a_map("one"), "kind": "Secret"}
    (await api.request("POST", config_maps, body)).refused(400, "BadRequest")


async def test_a_body_that_is_no_json_is_refused(api: Api, config_maps: str) -> None:
    (await api.request("POST", config_maps, b"{not json")).refused(400, "BadRequest")


async def test_generate_name_appends_five_characters(api: Api, config_maps: str) -> None:
    body = {"metadata": {"generateName": "some-"}}
    first = await api.create(config_maps, body)
    second = await api.create(config_maps, body)
    for made in (first, second):
        assert made["metadata"]["name"].startswith("some-")
        assert len(made["metadata"]["name"]) == len("some-") + 5
    assert first["metadata"]["name"] != second["metadata"]["name"]


async def test_every_write_raises_the_resource_version(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, a_map("one", key="1"))
    created["data"]["key"] = "2"
    replaced = await api.replace(f"{config_maps}/one", created)
    assert int(replaced["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    assert replaced["metadata"]["uid"] == created["metadata"]["uid"]


async def test_replacing_a_stale_version_conflicts(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, a_map("one", key="1"))
    await api.patch(f"{config_maps}/one", {"data": {"key": "2"}})
    created["data"]["key"] = "3"
    status = (await api.request("PUT", f"{config_maps}/one", created)).refused(409, "Conflict")
    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "one": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert (await api.get(f"{config_maps}/one"))["data"] == {"key": "2"}


async def test_a_patch_with_a_stale_version_conflicts(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, a_map("one", key="1"))
    await api.patch(f"{config_maps}/one", {"data": {"key": "2"}})
    stale = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {"key": "3"}}
    reply = await api.request(
        "PATCH", f"{config_maps}/one", stale, content_type="application/merge-patch+json"
    )
    reply.refused(409, "Conflict")


async def test_a_patch_of_another_uid_is_refused(api: Api, config_maps: str) -> None:
    await api.create(config_maps, a_map("one"))
    other = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}}
    reply = await api.request(
        "PATCH", f"{config_maps}/one", other, content_type="application/merge-patch+json"
    )
    assert reply.code in {409, 422}


async def test_of_concurrent_updates_of_one_version_one_wins(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, a_map("one"))
    bodies = [{**created, "data": {"winner": str(number)}} for number in range(5)]
    replies = await asyncio.gather(*(api.request("PUT", f"{config_maps}/one", body) for body in bodies))
    assert sorted(reply.code for reply in replies) == [200, 409, 409, 409, 409]


async def test_concurrent_patches_without_a_version_all_succeed(api: Api, config_maps: str) -> None:
    await api.create(config_maps, a_map("one"))
    await asyncio.gather(
        *(api.patch(f"{config_maps}/one", {"data": {f"key-{number}": "x"}}) for number in range(5))
    )
    assert len((await api.get(f"{config_maps}/one"))["data"]) == 5


async def test_write_that_changes_nothing_keeps_resource_version(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, a_map("one", key="1"))
    patched = await api.patch(f"{config_maps}/one", {"data": {"key": "1"}})
    replaced = await api.replace(f"{config_maps}/one", patched)
    assert patched["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    assert replaced["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_delete_removes_and_returns_a_status_or_object(api: Api, config_maps: str) -> None:
    await api.create(config_maps, a_map("one"))
    answer = await api.delete(f"{config_maps}/one")
    assert answer["kind"] in {"Status", "ConfigMap"}
    (await api.request("GET", f"{config_maps}/one")).refused(404)


async def test_deleting_with_a_wrong_precondition_conflicts(api: Api, config_maps: str) -> None:
    await api.create(config_maps, a_map("one"))
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "another"}}
    (await api.request("DELETE", f"{config_maps}/one", options)).refused(409, "Conflict")
    await api.get(f"{config_maps}/one")


async def test_deleting_a_collection_obeys_the_selector(api: Api, config_maps: str) -> None:
    for name, color in (("one", "red"), ("two", "blue")):
        body = a_map(name)
        body["metadata"]["labels"] = {"color": color}
        await api.create(config_maps, body)
    await api.delete(config_maps, labelSelector="color=red")
    left = {item["metadata"]["name"] for item in (await api.get(config_maps))["items"]}
    assert "two" in left
    assert "one" not in left


async def test_finalizers_hold_a_deleted_object_until_removed(api: Api, config_maps: str) -> None:
    body = a_map("one")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(config_maps, body)
    await api.delete(f"{config_maps}/one")
    held = await api.get(f"{config_maps}/one")
    assert held["metadata"]["deletionTimestamp"]
    await api.patch(f"{config_maps}/one", {"metadata": {"finalizers": None}})
    (await api.request("GET", f"{config_maps}/one")).refused(404)


async def test_dry_run_shows_the_result_and_stores_nothing(api: Api, config_maps: str) -> None:
    shown = await api.create(config_maps, a_map("one", key="1"), dryRun="All")
    assert shown["data"] == {"key": "1"}
    assert shown["metadata"]["uid"]
    (await api.request("GET", f"{config_maps}/one")).refused(404)


async def test_dry_run_of_patch_and_delete_stores_nothing(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, a_map("one", key="1"))
    shown = await api.patch(f"{config_maps}/one", {"data": {"key": "2"}}, dryRun="All")
    assert shown["data"] == {"key": "2"}
    await api.delete(f"{config_maps}/one", dryRun="All")
    assert await api.get(f"{config_maps}/one") == created


async def test_metadata_that_the_server_owns_cannot_be_changed(api: Api, config_maps: str) -> None:
    """Whether such a change is refused or passed over, nothing of it is stored."""
    created = await api.create(config_maps, a_map("one"))
    change = {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}
    await api.request("PATCH", f"{config_maps}/one", change, content_type="application/merge-patch+json")
    stored = await api.get(f"{config_maps}/one")
    assert stored["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]


async def test_a_node_is_created_without_a_kubelet(make: Make, node_body: Object) -> None:
    node = await make(NODES, node_body)
    assert node["kind"] == "Node"
    assert node["status"]["capacity"] == {"cpu": "8", "memory": "16Gi", "pods": "110"}


async def test_status_given_at_node_creation_is_kept(api: Api, node: str) -> None:
    stored: dict[str, Any] = await api.get(f"{NODES}/{node}")
    assert stored["status"]["allocatable"]["cpu"] == "8"


async def test_secret_keeps_bytes_and_null_removes_a_key(api: Api, namespace: str) -> None:
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    data = {"tls.crt": "AP8=", "old": "eA=="}
    created = await api.create(secrets, {"metadata": {"name": "one"}, "data": data})
    assert (created["type"], created["data"]) == ("Opaque", data)
    changed = await api.patch(f"{secrets}/one", {"data": {"old": None}})
    assert changed["data"] == {"tls.crt": "AP8="}


async def test_secret_with_invalid_base64_is_refused(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "one"}, "data": {"key": "no base64!"}}
    (await api.request("POST", f"/api/v1/namespaces/{namespace}/secrets", body)).refused(400, "BadRequest")
