"""Binding, eviction and deletion of pods."""

from __future__ import annotations

from typing import Any

import pytest

from kube_contract.api import STRATEGIC_PATCH, Api, Object, Reply
from kube_contract.conftest import Make, eventually


@pytest.fixture
async def pod(make: Make, namespace: str, pod_body: Object) -> str:
    """The path of a pod that waits to be scheduled."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    return f"{pods}/{(await make(pods, pod_body))['metadata']['name']}"


def binding(pod: str, node: str, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.rpartition("/")[2], **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


async def test_a_new_pod_is_pending_without_a_node(api: Api, pod: str) -> None:
    stored = await api.get(pod)
    assert stored["status"]["phase"] == "Pending"
    assert "nodeName" not in stored["spec"]
    assert stored["status"]["qosClass"] == "Burstable"


async def test_binding_sets_the_node_and_the_scheduled_condition(api: Api, pod: str, node: str) -> None:
    reply = await api.request("POST", f"{pod}/binding", binding(pod, node))
    assert reply.code == 201
    assert reply.body["status"] == "Success"
    bound = await api.get(pod)
    assert bound["spec"]["nodeName"] == node
    conditions = {entry["type"]: entry["status"] for entry in bound["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


async def test_binding_annotations_are_copied_to_the_pod(api: Api, pod: str, node: str) -> None:
    await api.create(f"{pod}/binding", binding(pod, node, annotations={"example.com/cpuset": "0-3"}))
    assert (await api.get(pod))["metadata"]["annotations"]["example.com/cpuset"] == "0-3"


@pytest.mark.parametrize("named", [("uid",), ("resourceVersion",), ("uid", "resourceVersion")])
async def test_binding_uid_and_version_are_pod_preconditions(
    api: Api, pod: str, node: str, named: tuple[str, ...]
) -> None:
    first = (await api.get(pod))["metadata"]
    stale = {"uid": "00000000-0000-0000-0000-000000000000", "resourceVersion": first["resourceVersion"]}
    changed = await api.patch(pod, {"metadata": {"annotations": {"example.com/fence": "1"}}})
    wrong = binding(pod, node, **{name: stale[name] for name in named})
    (await api.request("POST", f"{pod}/binding", wrong)).refused(409, "Conflict")
    unbound = await api.get(pod)
    assert unbound == changed
    right = binding(pod, node, **{name: changed["metadata"][name] for name in named})
    await api.create(
        f"{pod}/binding", {**right, "metadata": {**right["metadata"], "annotations": {"a": "b"}}}
    )
    bound = await api.get(pod)
    assert bound["spec"]["nodeName"] == node
    assert bound["metadata"]["annotations"] == {"example.com/fence": "1", "a": "b"}
    assert bound["metadata"]["uid"] == first["uid"]


async def test_a_binding_that_is_refused_leaves_no_annotation(api: Api, pod: str, node: str) -> None:
    wrong = binding(pod, node, annotations={"example.com/cpuset": "0-3"}, resourceVersion="1")
    (await api.request("POST", f"{pod}/binding", wrong)).refused(409, "Conflict")
    assert "annotations" not in (await api.get(pod))["metadata"]


async def test_pod_waiting_for_a_gate_cannot_be_bound(
    api: Api, make: Make, namespace: str, pod_body: Object, node: str
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    gated = {**pod_body, "spec": {**pod_body["spec"], "schedulingGates": [{"name": "example.com/wait"}]}}
    path = f"{pods}/{(await make(pods, gated))['metadata']['name']}"
    reply = await api.request("POST", f"{path}/binding", binding(path, node))
    assert "schedulingGates" in reply.refused(409, "Conflict")["message"]


async def test_binding_twice_conflicts(api: Api, pod: str, node: str) -> None:
    await api.create(f"{pod}/binding", binding(pod, node))
    status = (await api.request("POST", f"{pod}/binding", binding(pod, node))).refused(409, "Conflict")
    assert "is already assigned to node" in status["message"]


async def test_binding_in_dry_run_binds_nothing(api: Api, pod: str, node: str) -> None:
    await api.create(f"{pod}/binding", binding(pod, node), dryRun="All")
    assert "nodeName" not in (await api.get(pod))["spec"]


async def test_the_node_of_a_pod_cannot_be_patched(api: Api, pod: str, node: str) -> None:
    reply = await api.request(
        "PATCH", pod, {"spec": {"nodeName": node}}, content_type="application/merge-patch+json"
    )
    reply.refused(422, "Invalid")


async def test_annotations_of_a_running_pod_may_change(api: Api, pod: str, node: str) -> None:
    await api.create(f"{pod}/binding", binding(pod, node))
    patched = await api.patch(pod, {"metadata": {"annotations": {"example.com/a": "1"}}})
    assert patched["metadata"]["annotations"]["example.com/a"] == "1"


async def test_evicting_a_pod_deletes_it(api: Api, pod: str) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.rpartition("/")[2]},
        "deleteOptions": {"gracePeriodSeconds": 0},
    }
    reply = await api.request("POST", f"{pod}/eviction", body)
    assert reply.code == 201
    (await api.request("GET", pod)).refused(404)


async def test_evicting_what_is_not_there_is_not_found(api: Api, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "absent"}}
    path = f"{pod.rpartition('/')[0]}/absent/eviction"
    (await api.request("POST", path, body)).refused(404)


async def test_evicting_in_dry_run_deletes_nothing(api: Api, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.rpartition("/")[2]}}
    await api.create(f"{pod}/eviction", body, dryRun="All")
    assert "deletionTimestamp" not in (await api.get(pod))["metadata"]


async def test_an_unbound_pod_is_deleted_at_once(api: Api, pod: str) -> None:
    await api.delete(pod)
    (await api.request("GET", pod)).refused(404)


async def test_bound_pod_awaits_its_kubelet_unless_force_deleted(
    api: Api, namespace: str, make: Make, pod_body: Object, node: str
) -> None:
    pod_body["spec"]["terminationGracePeriodSeconds"] = 30
    pods = f"/api/v1/namespaces/{namespace}/pods"
    path = f"{pods}/{(await make(pods, pod_body))['metadata']['name']}"
    await api.create(f"{path}/binding", binding(path, node))
    await api.delete(path)
    waiting = await api.get(path)
    assert waiting["metadata"]["deletionTimestamp"]
    assert waiting["metadata"]["deletionGracePeriodSeconds"] == 30
    await api.delete(path, gracePeriodSeconds="0")
    (await api.request("GET", path)).refused(404)


async def test_status_and_deletion_for_another_uid_are_refused(api: Api, pod: str, node: str) -> None:
    """Kubelets name the uid in what they write to a pod's status and in its last deletion."""
    await api.create(f"{pod}/binding", binding(pod, node))
    uid = (await api.get(pod))["metadata"]["uid"]
    other = "11111111-2222-3333-4444-555555555555"
    for named, codes in ((other, {409, 422}), (uid, {200})):
        body = {"metadata": {"uid": named}, "status": {"phase": "Running"}}
        reply = await api.request("PATCH", f"{pod}/status", body, content_type=STRATEGIC_PATCH)
        assert reply.code in codes, reply.text
    for named, code in ((other, 409), (uid, 200)):
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": named}}
        reply = await api.request("DELETE", pod, {**options, "gracePeriodSeconds": 0})
        assert reply.code == code, reply.text
    (await api.request("GET", pod)).refused(404)


REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.mark.parametrize(
    ("wants", "evicted", "needs"),
    [
        ({"minAvailable": 1}, 1, "needs 1 healthy pods and has 1 currently"),
        ({"minAvailable": 2}, 0, "needs 2 healthy pods and has 2 currently"),
        ({"maxUnavailable": 1}, 0, "does not allow evicting pods currently"),
        ({"minAvailable": "50%"}, 0, "does not allow evicting pods currently"),
    ],
    ids=["one-may-go", "both-must-stay", "no-controller-says-how-many", "nor-how-many-are-half"],
)
async def test_eviction_that_violates_a_disruption_budget_is_refused(
    api: Api, namespace: str, make: Make, pod_body: Object, wants: Object, evicted: int, needs: str
) -> None:
    pods, labels = f"/api/v1/namespaces/{namespace}/pods", {"app": "guarded"}
    for name in ("a", "b"):
        await make(pods, {**pod_body, "metadata": {"name": name, "labels": labels}})
        await api.patch(f"{pods}/{name}/status", READY)
    budget = {"metadata": {"name": "keep"}, "spec": {"selector": {"matchLabels": labels}, **wants}}
    await make(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", budget)
    replies = [await evict(api, f"{pods}/{name}") for name in ("a", "b")]
    assert [each.code for each in replies] == [201] * evicted + [429] * (2 - evicted)
    status = replies[-1].refused(429)
    assert status["message"] == REFUSED
    assert status["details"]["causes"][0]["message"] == f"The disruption budget keep {needs}"


async def evict(api: Api, pod: str) -> Reply:
    """Evict a pod, once the disruption controller has seen the budget."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.rpartition("/")[2]}}
    last: list[Reply] = []

    async def is_decided() -> bool:
        last[:] = [await api.request("POST", f"{pod}/eviction", body)]
        return "still being processed" not in last[0].text

    await eventually(is_decided)
    return last[0]
