"""Server-side apply: ownership, conflicts, force, removal."""

from __future__ import annotations

from kube_contract.api import Api, Object
from kube_contract.conftest import Make


def a_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def test_apply_creates_what_is_not_there(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    reply = await api.apply(path, a_map("one", key="1"), "first")
    assert reply.code == 201
    entries = reply.body["metadata"]["managedFields"]
    assert [(entry["manager"], entry["operation"]) for entry in entries] == [("first", "Apply")]
    assert entries[0]["fieldsV1"]["f:data"] == {"f:key": {}}


async def test_apply_needs_a_field_manager(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    reply = await api.request("PATCH", path, a_map("one"), content_type="application/apply-patch+yaml")
    reply.refused(422, "Invalid")


async def test_applying_another_managers_field_with_another_value_conflicts(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    (await api.apply(path, a_map("one", key="1"), "first")).ok()
    status = (await api.apply(path, a_map("one", key="2"), "second")).refused(409, "Conflict")
    assert 'conflict with "first": .data.key' in status["message"]
    (cause,) = status["details"]["causes"]
    assert cause["reason"] == "FieldManagerConflict"
    assert cause["field"] == ".data.key"


async def test_applying_the_same_value_shares_another_managers_field(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    (await api.apply(path, a_map("one", key="1"), "first")).ok()
    shared = (await api.apply(path, a_map("one", key="1"), "second")).ok()
    owners = [entry["manager"] for entry in shared["metadata"]["managedFields"]]
    assert sorted(owners) == ["first", "second"]


async def test_force_takes_the_field_over(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    (await api.apply(path, a_map("one", key="1", other="x"), "first")).ok()
    taken = (await api.apply(path, a_map("one", key="2"), "second", force=True)).ok()
    assert taken["data"] == {"key": "2", "other": "x"}
    fields = {entry["manager"]: entry["fieldsV1"]["f:data"] for entry in taken["metadata"]["managedFields"]}
    assert fields == {"first": {"f:other": {}}, "second": {"f:key": {}}}


async def test_what_a_manager_no_longer_applies_is_removed(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    (await api.apply(path, a_map("one", key="1", gone="x"), "first")).ok()
    reduced = (await api.apply(path, a_map("one", key="1"), "first")).ok()
    assert reduced["data"] == {"key": "1"}


async def test_field_of_another_manager_survives_when_one_releases(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    (await api.apply(path, a_map("one", shared="x", own="1"), "first")).ok()
    (await api.apply(path, a_map("one", shared="x"), "second")).ok()
    left = (await api.apply(path, a_map("one", own="1"), "first")).ok()
    assert left["data"] == {"shared": "x", "own": "1"}


async def test_patching_an_applied_field_makes_next_apply_conflict(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    (await api.apply(path, a_map("one", key="1"), "first")).ok()
    await api.patch(path, {"data": {"key": "2"}}, fieldManager="patcher")
    (await api.apply(path, a_map("one", key="1"), "first")).refused(409, "Conflict")


async def test_applying_the_same_again_keeps_the_resource_version(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    first = (await api.apply(path, a_map("one", key="1"), "first")).ok()
    again = (await api.apply(path, a_map("one", key="1"), "first")).ok()
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_node_annotations_are_applied_individually(api: Api, node: str) -> None:
    def with_annotations(**annotations: str) -> Object:
        named = {f"example.com/{key}": value for key, value in annotations.items()}
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "annotations": named}}

    path = f"/api/v1/nodes/{node}"
    (await api.apply(path, with_annotations(a="1", b="2"), "corewise-test")).ok()
    applied = (await api.apply(path, with_annotations(a="1"), "corewise-test")).ok()
    assert applied["metadata"]["annotations"]["example.com/a"] == "1"
    assert applied["metadata"]["annotations"]["example.com/kept"] == "yes"
    assert "example.com/b" not in applied["metadata"]["annotations"]


async def test_list_items_are_owned_by_key(api: Api, namespace: str, make: Make, pod_body: Object) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    name = (await make(pods, pod_body))["metadata"]["name"]
    containers = [{"name": "main", "image": "registry.invalid/other"}]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}
    applied = (await api.apply(f"{pods}/{name}", body, "image-owner", force=True)).ok()
    assert applied["spec"]["containers"][0]["image"] == "registry.invalid/other"
    owned = next(e for e in applied["metadata"]["managedFields"] if e["manager"] == "image-owner")
    assert 'k:{"name":"main"}' in owned["fieldsV1"]["f:spec"]["f:containers"]


async def test_the_applied_object_must_not_carry_managed_fields(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/one"
    body = a_map("one", key="1")
    body["metadata"]["managedFields"] = [{"manager": "x", "operation": "Apply", "apiVersion": "v1"}]
    (await api.apply(path, body, "first")).refused(400, "BadRequest")


async def test_updates_and_status_writes_are_separate_owners(api: Api, node: str) -> None:
    await api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"a": "1"}}}, fieldManager="writer")
    status = {"status": {"capacity": {"cpu": "4"}}}
    patched = await api.patch(f"/api/v1/nodes/{node}/status", status, fieldManager="writer")
    entries = {
        (entry["manager"], entry.get("subresource", "")) for entry in patched["metadata"]["managedFields"]
    }
    assert {("writer", ""), ("writer", "status")} <= entries


async def test_applied_status_accepts_annotations_and_owner_stays_first(api: Api, node: str) -> None:
    path = f"/api/v1/nodes/{node}/status"
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node, "annotations": {"example.com/offer": "1"}},
        "status": {"capacity": {"example.com/card": "4"}},
    }
    await api.patch(path, {"status": {"capacity": {"cpu": "4"}}}, fieldManager="a-writer")
    applied = (await api.apply(path, body, "z-offers", force=True)).ok()
    assert applied["metadata"]["annotations"]["example.com/offer"] == "1"
    assert applied["status"]["capacity"]["example.com/card"] == "4"
    first = applied["metadata"]["managedFields"][0]
    assert (first["manager"], first["subresource"]) == ("z-offers", "status")
    del body["status"]
    fewer = (await api.apply(path, body, "z-offers", force=True)).ok()
    assert "example.com/card" not in fewer["status"]["capacity"]
    assert fewer["status"]["capacity"]["cpu"] == "4"
