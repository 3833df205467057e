"""The status subresource of nodes and pods: what a write to it changes, and what it leaves alone."""

from __future__ import annotations

import asyncio

import pytest

from kube_contract.api import MERGE_PATCH, STRATEGIC_PATCH, Api, Object
from kube_contract.conftest import Make

NODES = "/api/v1/nodes"


async def test_a_plain_write_cannot_change_status(api: Api, node: str) -> None:
    changed = await api.patch(f"{NODES}/{node}", {"status": {"capacity": {"cpu": "99"}}})
    assert changed["status"]["capacity"]["cpu"] == "8"


async def test_a_plain_put_cannot_change_status(
    api: Api, namespace: str, make: Make, pod_body: Object
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod = await make(pods, pod_body)
    replaced = await api.replace(
        f"{pods}/{pod['metadata']['name']}", {**pod, "status": {"phase": "Succeeded"}}
    )
    assert replaced["status"]["phase"] == "Pending"


async def test_a_status_write_cannot_change_spec(api: Api, node: str) -> None:
    changed = await api.patch(
        f"{NODES}/{node}/status", {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "6"}}}
    )
    assert not changed["spec"].get("unschedulable")
    assert changed["status"]["capacity"]["cpu"] == "6"


async def test_a_status_write_may_change_annotations(api: Api, node: str) -> None:
    changed = await api.patch(
        f"{NODES}/{node}/status", {"metadata": {"annotations": {"example.com/by-status": "yes"}}}
    )
    assert changed["metadata"]["annotations"]["example.com/by-status"] == "yes"


async def test_status_patch_with_version_is_compare_and_swap(api: Api, node: str) -> None:
    """One of two writers that have read the same state wins; the other's annotations are not stored."""
    path = f"{NODES}/{node}"
    read = (await api.get(path))["metadata"]["resourceVersion"]

    def swap(owner: str, version: str) -> Object:
        return {"metadata": {"resourceVersion": version, "annotations": {"example.com/owner": owner}}}

    first = await api.patch(f"{path}/status", swap("a", read))
    assert first["metadata"]["annotations"]["example.com/owner"] == "a"
    reply = await api.request("PATCH", f"{path}/status", swap("b", read), content_type=MERGE_PATCH)
    reply.refused(409, "Conflict")
    assert await api.get(path) == first
    second = await api.patch(f"{path}/status", swap("b", first["metadata"]["resourceVersion"]))
    assert second["metadata"]["annotations"]["example.com/owner"] == "b"
    again = await api.patch(f"{path}/status", swap("b", second["metadata"]["resourceVersion"]))
    assert again["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_of_many_swaps_at_once_exactly_one_wins(api: Api, node: str) -> None:
    path = f"{NODES}/{node}"
    read = (await api.get(path))["metadata"]["resourceVersion"]
    bodies = [
        {"metadata": {"resourceVersion": read, "annotations": {"example.com/owner": str(at)}}}
        for at in range(8)
    ]
    replies = await asyncio.gather(
        *(api.request("PATCH", f"{path}/status", body, content_type=MERGE_PATCH) for body in bodies)
    )
    assert sorted(reply.code for reply in replies) == [200] + [409] * 7


async def test_status_is_read_through_the_subresource_too(api: Api, node: str) -> None:
    whole = await api.get(f"{NODES}/{node}/status")
    assert whole["kind"] == "Node"
    assert whole["metadata"]["name"] == node
    assert whole["status"]["capacity"]["cpu"] == "8"


async def test_a_put_to_status_replaces_it(api: Api, node: str) -> None:
    stored = await api.get(f"{NODES}/{node}")
    del stored["metadata"]["resourceVersion"]
    stored["status"]["allocatable"] = {"cpu": "7", "pods": "110"}
    replaced = await api.replace(f"{NODES}/{node}/status", stored)
    assert replaced["status"]["allocatable"] == {"cpu": "7", "pods": "110"}


@pytest.mark.parametrize(
    ("written", "stored"),
    [("0.5", "500m"), ("2000m", "2"), ("1.5", "1500m"), ("16", "16"), ("1e1", "10")],
)
async def test_cpu_is_stored_in_canonical_form(api: Api, node: str, written: str, stored: str) -> None:
    changed = await api.patch(f"{NODES}/{node}/status", {"status": {"capacity": {"cpu": written}}})
    assert changed["status"]["capacity"]["cpu"] == stored
    again = await api.get(f"{NODES}/{node}")
    assert again["status"]["capacity"]["cpu"] == changed["status"]["capacity"]["cpu"]


@pytest.mark.parametrize(("written", "stored"), [("1024Mi", "1Gi"), ("1536Mi", "1536Mi"), ("1000k", "1M")])
async def test_memory_is_stored_in_canonical_form(api: Api, node: str, written: str, stored: str) -> None:
    changed = await api.patch(f"{NODES}/{node}/status", {"status": {"capacity": {"memory": written}}})
    assert changed["status"]["capacity"]["memory"] == stored


async def test_writing_equal_quantity_in_another_form_stores_nothing(
    api: Api, namespace: str, make: Make, pod_body: Object
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    pod = await make(pods, pod_body)
    requests = {"name": "main", "resources": {"requests": {"cpu": "0.1"}}}
    same = await api.patch(
        f"{pods}/{pod['metadata']['name']}", {"spec": {"containers": [requests]}}, STRATEGIC_PATCH
    )
    assert same["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


async def test_a_quantity_that_is_none_is_refused(api: Api, node: str) -> None:
    for bad in ("lots", "1,2", "0x10", ""):
        body = {"status": {"capacity": {"cpu": bad}}}
        reply = await api.request(
            "PATCH", f"{NODES}/{node}/status", body, content_type="application/merge-patch+json"
        )
        assert reply.code in {400, 422}, (bad, reply.text)
    assert (await api.get(f"{NODES}/{node}"))["status"]["capacity"]["cpu"] == "8"


async def test_pod_status_is_written_through_its_subresource(
    api: Api, namespace: str, make: Make, pod_body: Object
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    name = (await make(pods, pod_body))["metadata"]["name"]
    ready = {"type": "Ready", "status": "True"}
    await api.patch(
        f"{pods}/{name}/status", {"status": {"phase": "Running", "conditions": [ready]}}, STRATEGIC_PATCH
    )
    status = (await api.get(f"{pods}/{name}"))["status"]
    assert status["phase"] == "Running"
    assert {entry["type"]: entry["status"] for entry in status["conditions"]}["Ready"] == "True"
