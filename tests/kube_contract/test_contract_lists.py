"""Lists: paging, selectors, tables."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from kube_contract.api import Api, Object
from kube_contract.conftest import TEST_LABEL, Make

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
async def config_maps(api: Api, namespace: str) -> str:
    """Seven ConfigMaps, of which the server adds none with this label."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for number in range(7):
        labels = {"numbered": "yes", "parity": "even" if number % 2 == 0 else "odd"}
        await api.create(path, {"metadata": {"name": f"m{number}", "labels": labels}})
    return path


def names(listing: Object) -> list[str]:
    return [item["metadata"]["name"] for item in listing["items"]]


async def test_list_has_a_version_and_sorts_by_name(api: Api, config_maps: str) -> None:
    listing = await api.get(config_maps, labelSelector="numbered=yes")
    assert listing["kind"] == "ConfigMapList"
    assert listing["metadata"]["resourceVersion"].isdigit()
    assert names(listing) == [f"m{number}" for number in range(7)]


async def test_pages_join_up_to_the_whole_list(api: Api, config_maps: str) -> None:
    found: list[str] = []
    query = {"limit": "3", "labelSelector": "numbered=yes"}
    pages = 0
    while True:
        page = await api.get(config_maps, **query)
        pages += 1
        found += names(page)
        if not page["metadata"].get("continue"):
            break
        query["continue"] = page["metadata"]["continue"]
    assert pages == 3
    assert found == [f"m{number}" for number in range(7)]


async def test_all_pages_are_of_one_resource_version(api: Api, config_maps: str) -> None:
    first = await api.get(config_maps, limit="3")
    await api.create(config_maps, {"metadata": {"name": "m3-later", "labels": {"numbered": "late"}}})
    rest = await api.get(config_maps, **{"limit": "50", "continue": first["metadata"]["continue"]})
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "m3-later" not in names(rest)


async def test_a_page_says_how_many_items_remain(api: Api, config_maps: str) -> None:
    first = await api.get(config_maps, limit="3")
    assert first["metadata"]["remainingItemCount"] >= 7 - 3


async def test_expired_continue_token_comes_with_a_current_one(api: Api, config_maps: str) -> None:
    first = await api.get(config_maps, limit="3", labelSelector="numbered=yes")
    expired = aged(first["metadata"]["continue"])
    reply = await api.request("GET", config_maps, **{"limit": "3", "continue": expired})
    if reply.code == 200:
        pytest.skip("the server remembers version 1")
    status = reply.refused(410, "Expired")
    assert "The provided continue parameter is too old" in status["message"]
    rest = await api.get(config_maps, **{"limit": "50", "continue": status["metadata"]["continue"]})
    assert [name for name in names(rest) if name.startswith("m")] == ["m3", "m4", "m5", "m6"]


def aged(token: str) -> str:
    """The same token, for the first version the server ever had."""
    content = json.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert content["rv"] > 1
    return urlsafe_b64encode(json.dumps({**content, "rv": 1}).encode()).decode().rstrip("=")


async def test_a_broken_continue_token_is_refused(api: Api, config_maps: str) -> None:
    """As 400; servers that answer pages from their cache (1.34 and later) may call it their own error."""
    reply = await api.request("GET", config_maps, **{"limit": "3", "continue": "bm90IGEgdG9rZW4"})
    assert reply.code in {400, 500}


@pytest.mark.parametrize("watch", ["false", "true"])
async def test_a_malformed_resource_version_is_refused(api: Api, config_maps: str, watch: str) -> None:
    """With a code that depends on the server's version, and on whether its cache or its storage answers."""
    reply = await api.request("GET", config_maps, resourceVersion="abc", watch=watch, timeoutSeconds="1")
    assert reply.code in {400, 422, 500}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("numbered=yes,parity=even", ["m0", "m2", "m4", "m6"]),
        ("numbered=yes,parity!=even", ["m1", "m3", "m5"]),
        ("numbered,parity in (odd)", ["m1", "m3", "m5"]),
        ("numbered,parity notin (odd)", ["m0", "m2", "m4", "m6"]),
        ("numbered,!parity", []),
        ("parity==odd", ["m1", "m3", "m5"]),
    ],
)
async def test_label_selectors_select(api: Api, config_maps: str, selector: str, expected: list[str]) -> None:
    assert names(await api.get(config_maps, labelSelector=selector)) == expected


async def test_a_malformed_label_selector_is_refused(api: Api, config_maps: str) -> None:
    (await api.request("GET", config_maps, labelSelector="a=b=c")).refused(400, "BadRequest")


async def test_the_field_selector_metadata_name_selects_one(api: Api, config_maps: str) -> None:
    assert names(await api.get(config_maps, fieldSelector="metadata.name=m4")) == ["m4"]


async def test_an_unknown_field_selector_is_refused(api: Api, config_maps: str) -> None:
    (await api.request("GET", config_maps, fieldSelector="data.key=x")).refused(400, "BadRequest")


async def test_pods_are_selected_by_node_across_all_namespaces(
    api: Api, namespace: str, make: Make, pod_body: Object, node: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    await make(path, pod_body)
    assigned = {**pod_body, "metadata": {"name": "assigned"}, "spec": {**pod_body["spec"], "nodeName": node}}
    await make(path, assigned)
    here = await api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")
    assert names(here) == ["assigned"]
    unassigned = await api.get(path, fieldSelector="spec.nodeName=")
    assert names(unassigned) == [pod_body["metadata"]["name"]]


async def test_the_field_selectors_may_be_combined(
    api: Api, namespace: str, make: Make, pod_body: Object
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    await make(path, pod_body)
    selector = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName="
    assert len(names(await api.get(path, fieldSelector=selector))) == 1


async def test_list_across_namespaces_names_each_items_namespace(
    api: Api, config_maps: str, namespace: str
) -> None:
    listing = await api.get("/api/v1/configmaps", labelSelector="numbered=yes,parity=odd")
    found = [item for item in listing["items"] if item["metadata"]["namespace"] == namespace]
    assert [item["metadata"]["name"] for item in found] == ["m1", "m3", "m5"]


async def test_a_table_has_columns_and_partial_objects(api: Api, config_maps: str) -> None:
    reply = await api.request("GET", config_maps, accept=TABLE, labelSelector="numbered=yes")
    table = reply.ok()
    assert table["kind"] == "Table"
    assert table["apiVersion"] == "meta.k8s.io/v1"
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][0] for row in table["rows"]] == [f"m{number}" for number in range(7)]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_node_table_has_the_columns_kubectl_shows(api: Api, node: str) -> None:
    reply = await api.request("GET", f"/api/v1/nodes/{node}", accept=TABLE)
    table = reply.ok()
    columns = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert columns == ["Name", "Status", "Roles", "Age", "Version"]
    assert table["rows"][0]["cells"][0] == node


async def test_nodes_are_listed_by_label(api: Api, node: str, unique: str) -> None:
    assert names(await api.get("/api/v1/nodes", labelSelector=f"{TEST_LABEL}={unique}")) == [node]


async def test_a_list_at_version_zero_is_served(api: Api, config_maps: str) -> None:
    listing = await api.get(config_maps, resourceVersion="0", labelSelector="numbered=yes")
    assert len(listing["items"]) <= 7
