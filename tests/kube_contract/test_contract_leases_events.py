"""Leases as leader election uses them, and Events as recorders write them."""

from __future__ import annotations

import pytest

from kube_contract.api import MERGE_PATCH, STRATEGIC_PATCH, Api, Object
from kube_contract.conftest import Make


@pytest.fixture
def leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def a_lease(holder: str) -> Object:
    return {
        "metadata": {"name": "leader"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T03:04:05.000006Z",
            "renewTime": "2026-01-02T03:04:05.678901Z",
            "leaseTransitions": 0,
        },
    }


async def test_a_lease_keeps_microseconds(api: Api, leases: str) -> None:
    await api.create(leases, a_lease("a"))
    spec = (await api.get(f"{leases}/leader"))["spec"]
    assert spec["renewTime"] == "2026-01-02T03:04:05.678901Z"
    assert spec["leaseTransitions"] == 0


async def test_of_two_candidates_one_creates_the_lease(api: Api, leases: str) -> None:
    await api.create(leases, a_lease("a"))
    (await api.request("POST", leases, a_lease("b"))).refused(409, "AlreadyExists")


async def test_of_two_takeovers_of_one_version_one_wins(api: Api, leases: str) -> None:
    created = await api.create(leases, a_lease("a"))
    for holder, code in (("b", 200), ("c", 409)):
        body = {**created, "spec": {**created["spec"], "holderIdentity": holder}}
        assert (await api.request("PUT", f"{leases}/leader", body)).code == code
    assert (await api.get(f"{leases}/leader"))["spec"]["holderIdentity"] == "b"


async def test_a_lease_cannot_be_replaced_blindly(api: Api, leases: str) -> None:
    await api.create(leases, a_lease("a"))
    (await api.request("PUT", f"{leases}/leader", a_lease("b"))).refused(422, "Invalid")


async def test_one_of_two_concurrent_patches_takes_the_lease(api: Api, leases: str) -> None:
    created = await api.create(leases, a_lease("a"))
    version = {"resourceVersion": created["metadata"]["resourceVersion"]}
    for holder, code in (("b", 200), ("c", 409)):
        body = {"metadata": version, "spec": {"holderIdentity": holder}}
        reply = await api.request("PATCH", f"{leases}/leader", body, content_type=MERGE_PATCH)
        assert reply.code == code
    assert (await api.get(f"{leases}/leader"))["spec"]["holderIdentity"] == "b"


async def test_a_lease_may_be_given_back_to_nobody(api: Api, leases: str) -> None:
    await api.create(leases, a_lease("a"))
    released = await api.patch(
        f"{leases}/leader", {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
    )
    assert not released["spec"].get("holderIdentity")
    assert released["spec"]["leaseTransitions"] == 0


async def test_a_lease_of_no_duration_is_refused(api: Api, leases: str) -> None:
    body = a_lease("a")
    body["spec"]["leaseDurationSeconds"] = 0
    status = (await api.request("POST", leases, body)).refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "spec.leaseDurationSeconds"


def an_event(node: str, namespace: str) -> Object:
    return {
        "metadata": {"name": f"{node}.17f0", "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node},
        "reason": "UnknownCPUModel",
        "message": "no ratio",
        "type": "Warning",
        "count": 1,
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "source": {"component": "corewise-test"},
        "reportingComponent": "corewise-test",
        "reportingInstance": "one",
    }


EVENTS = "/api/v1/namespaces/default/events"


async def test_events_of_nodes_live_in_the_default_namespace(api: Api, make: Make, unique: str) -> None:
    event = await make(EVENTS, an_event(unique, "default"))
    assert event["involvedObject"]["name"] == unique
    assert event["type"] == "Warning"


async def test_events_of_nodes_are_refused_elsewhere(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/events"
    (await api.request("POST", path, an_event("n1", namespace))).refused(422, "Invalid")


@pytest.mark.parametrize("patch_type", [MERGE_PATCH, STRATEGIC_PATCH])
async def test_a_repeated_event_is_patched(api: Api, make: Make, unique: str, patch_type: str) -> None:
    event = await make(EVENTS, an_event(unique, "default"))
    change = {"count": 2, "lastTimestamp": "2026-01-02T03:19:05Z"}
    patched = await api.patch(f"{EVENTS}/{event['metadata']['name']}", change, patch_type)
    assert (patched["count"], patched["firstTimestamp"]) == (2, "2026-01-02T03:04:05Z")


async def test_events_are_selected_by_what_they_are_about(api: Api, make: Make, unique: str) -> None:
    await make(EVENTS, an_event(unique, "default"))
    selector = f"involvedObject.kind=Node,involvedObject.name={unique},type=Warning"
    (found,) = (await api.get(EVENTS, fieldSelector=selector))["items"]
    assert found["reason"] == "UnknownCPUModel"


async def test_an_event_is_readable_in_both_groups(api: Api, make: Make, unique: str) -> None:
    event = await make(EVENTS, an_event(unique, "default"))
    path = f"/apis/events.k8s.io/v1/namespaces/default/events/{event['metadata']['name']}"
    other = await api.get(path)
    assert other["regarding"]["name"] == unique
    assert other["note"] == "no ratio"
    assert other["deprecatedCount"] == 1
