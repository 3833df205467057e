"""JSON patch, merge patch and strategic merge patch."""

from __future__ import annotations

import pytest

from kube_contract.api import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Api, Object
from kube_contract.conftest import Make

NODES = "/api/v1/nodes"
HEARTBEAT = "2020-01-01T00:00:00Z"


def condition(kind: str, status: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": "Test",
        "message": "",
        "lastHeartbeatTime": HEARTBEAT,
        "lastTransitionTime": HEARTBEAT,
    }


@pytest.fixture
def path(node: str) -> str:
    return f"{NODES}/{node}"


async def test_a_merge_patch_sets_and_null_removes_annotations(api: Api, path: str) -> None:
    await api.patch(path, {"metadata": {"annotations": {"example.com/a": "1", "example.com/b": "2"}}})
    patched = await api.patch(path, {"metadata": {"annotations": {"example.com/a": None}}})
    annotations = patched["metadata"]["annotations"]
    assert "example.com/a" not in annotations
    assert annotations["example.com/b"] == "2"
    assert annotations["example.com/kept"] == "yes"


async def test_removing_an_absent_annotation_by_null_changes_nothing(api: Api, path: str) -> None:
    before = await api.get(path)
    patched = await api.patch(path, {"metadata": {"annotations": {"example.com/absent": None}}})
    assert patched["metadata"]["annotations"] == before["metadata"]["annotations"]


async def test_a_merge_patch_replaces_lists(api: Api, path: str) -> None:
    for kind in ("First", "Second"):
        patched = await api.patch(
            f"{path}/status", {"status": {"conditions": [condition(kind, "True")]}}, MERGE_PATCH
        )
    assert "First" not in {entry["type"] for entry in patched["status"]["conditions"]}


async def test_a_strategic_patch_merges_conditions_by_type(api: Api, path: str) -> None:
    for kind, status in (("First", "True"), ("Second", "True"), ("First", "False")):
        patched = await api.patch(
            f"{path}/status", {"status": {"conditions": [condition(kind, status)]}}, STRATEGIC_PATCH
        )
    conditions = {entry["type"]: entry["status"] for entry in patched["status"]["conditions"]}
    assert conditions["First"] == "False"
    assert conditions["Second"] == "True"


async def test_a_strategic_patch_merges_addresses_by_type(api: Api, path: str) -> None:
    for kind, address in (("InternalIP", "10.1.2.3"), ("Hostname", "here"), ("InternalIP", "10.1.2.4")):
        patched = await api.patch(
            f"{path}/status", {"status": {"addresses": [{"type": kind, "address": address}]}}, STRATEGIC_PATCH
        )
    found = {entry["type"]: entry["address"] for entry in patched["status"]["addresses"]}
    assert found == {"InternalIP": "10.1.2.4", "Hostname": "here"}


async def test_a_strategic_patch_removes_a_condition_by_directive(api: Api, path: str) -> None:
    await api.patch(
        f"{path}/status", {"status": {"conditions": [condition("First", "True")]}}, STRATEGIC_PATCH
    )
    removal = {"status": {"conditions": [{"$patch": "delete", "type": "First"}]}}
    patched = await api.patch(f"{path}/status", removal, STRATEGIC_PATCH)
    assert "First" not in {entry["type"] for entry in patched["status"].get("conditions") or ()}


async def test_strategic_patch_may_replace_a_mergeable_list(api: Api, path: str) -> None:
    """As kubelets write their addresses, of which two may have one type."""
    old, new = ("10.1.2.3", "10.1.2.4"), ("10.1.2.5", "fd00::5")
    for addresses in (old, new):
        entries: list[Object] = [{"type": "InternalIP", "address": address} for address in addresses]
        body = {"status": {"addresses": [*entries, {"$patch": "replace"}]}}
        patched = await api.patch(f"{path}/status", body, STRATEGIC_PATCH)
    assert patched["status"]["addresses"] == entries


async def test_a_strategic_patch_may_order_a_list(api: Api, path: str) -> None:
    """As kubelets write conditions: all in their order, and of each only what has changed."""
    both = [condition("First", "True"), condition("Second", "True")]
    await api.patch(f"{path}/status", {"status": {"conditions": both}}, STRATEGIC_PATCH)
    status = {
        "$setElementOrder/conditions": [{"type": "Second"}, {"type": "First"}],
        "conditions": [{"type": "First", "lastHeartbeatTime": "2020-01-01T00:00:10Z"}],
    }
    patched = await api.patch(f"{path}/status", {"status": status}, STRATEGIC_PATCH)
    seen = [(e["type"], e["status"], e["lastHeartbeatTime"]) for e in patched["status"]["conditions"]]
    ours = [entry for entry in seen if entry[0] in {"First", "Second"}]
    assert ours == [("Second", "True", HEARTBEAT), ("First", "True", "2020-01-01T00:00:10Z")]


@pytest.mark.parametrize("patch_type", [MERGE_PATCH, STRATEGIC_PATCH])
async def test_null_removes_an_amount_and_leaves_the_others(api: Api, path: str, patch_type: str) -> None:
    body = {"status": {"capacity": {"memory": None, "hugepages-2Mi": "0"}}}
    patched = await api.patch(f"{path}/status", body, patch_type)
    assert patched["status"]["capacity"] == {"cpu": "8", "pods": "110", "hugepages-2Mi": "0"}


async def test_a_strategic_patch_replaces_taints(api: Api, path: str) -> None:
    for key in ("example.com/one", "example.com/two"):
        patched = await api.patch(
            path, {"spec": {"taints": [{"key": key, "effect": "PreferNoSchedule"}]}}, STRATEGIC_PATCH
        )
    keys = {taint["key"] for taint in patched["spec"]["taints"]}
    assert "example.com/two" in keys
    assert "example.com/one" not in keys


async def test_a_strategic_patch_changes_one_container_by_name(
    api: Api, namespace: str, make: Make, pod_body: Object
) -> None:
    pod_body["spec"]["containers"].append({"name": "second", "image": "registry.invalid/second"})
    pods = f"/api/v1/namespaces/{namespace}/pods"
    name = (await make(pods, pod_body))["metadata"]["name"]
    change = {"spec": {"containers": [{"name": "second", "image": "registry.invalid/changed"}]}}
    patched = await api.patch(f"{pods}/{name}", change, STRATEGIC_PATCH)
    images = {entry["name"]: entry["image"] for entry in patched["spec"]["containers"]}
    assert images == {"main": "registry.invalid/none", "second": "registry.invalid/changed"}


async def test_a_json_patch_adds_tests_and_removes(api: Api, path: str) -> None:
    operations = [
        {"op": "test", "path": "/metadata/annotations/example.com~1kept", "value": "yes"},
        {"op": "add", "path": "/metadata/annotations/example.com~1new", "value": "1"},
        {"op": "remove", "path": "/metadata/annotations/example.com~1kept"},
    ]
    patched = await api.patch(path, operations, JSON_PATCH)
    assert patched["metadata"]["annotations"]["example.com/new"] == "1"
    assert "example.com/kept" not in patched["metadata"]["annotations"]


async def test_json_patch_with_a_failing_test_changes_nothing(api: Api, path: str) -> None:
    operations = [
        {"op": "add", "path": "/metadata/annotations/example.com~1new", "value": "1"},
        {"op": "test", "path": "/metadata/annotations/example.com~1kept", "value": "no"},
    ]
    (await api.request("PATCH", path, operations, content_type=JSON_PATCH)).refused(422, "Invalid")
    assert "example.com/new" not in (await api.get(path))["metadata"]["annotations"]


async def test_json_patch_removing_a_missing_value_is_refused(api: Api, path: str) -> None:
    operations = [{"op": "remove", "path": "/metadata/annotations/example.com~1absent"}]
    (await api.request("PATCH", path, operations, content_type=JSON_PATCH)).refused(422, "Invalid")


async def test_json_patch_other_than_a_list_is_refused(api: Api, path: str) -> None:
    (await api.request("PATCH", path, {"op": "add"}, content_type=JSON_PATCH)).refused(400, "BadRequest")


async def test_a_patch_of_an_unknown_type_is_refused(api: Api, path: str) -> None:
    (await api.request("PATCH", path, {}, content_type="application/json")).refused(
        415, "UnsupportedMediaType"
    )


async def test_patch_of_a_missing_object_is_not_found(api: Api, unique: str) -> None:
    reply = await api.request("PATCH", f"{NODES}/{unique}-absent", {}, content_type=MERGE_PATCH)
    reply.refused(404, "NotFound")


async def test_every_patch_type_sets_and_removes_labels(api: Api, path: str) -> None:
    await api.patch(path, {"metadata": {"labels": {"a": "1"}}}, MERGE_PATCH)
    await api.patch(path, {"metadata": {"labels": {"b": "2", "a": None}}}, STRATEGIC_PATCH)
    patched = await api.patch(path, [{"op": "add", "path": "/metadata/labels/c", "value": "3"}], JSON_PATCH)
    labels = patched["metadata"]["labels"]
    assert (labels.get("a"), labels["b"], labels["c"]) == (None, "2", "3")


async def test_a_name_cannot_be_patched(api: Api, path: str) -> None:
    reply = await api.request("PATCH", path, {"metadata": {"name": "other"}}, content_type=MERGE_PATCH)
    assert reply.code in {400, 422}
