"""What a webhook on ``nodes/status`` may do: the facts that amplification stands on.

Measured on kube-apiserver 1.36 with a kubelet's identity. Other controllers may write to the node in between,
so that what must not be stored is tried a few times, and counts when nothing was stored once.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable

import pytest

from kube_contract.api import STRATEGIC_PATCH, Api, Object
from kube_contract.conftest import Grant, Register
from service.webhook_server import WebhookServer, patch

NODES = "/api/v1/nodes"
ATTEMPTS = 5
AMPLIFIED = [
    {"op": "replace", "path": "/status/capacity/cpu", "value": "12"},
    {"op": "replace", "path": "/status/allocatable/cpu", "value": "12"},
    {"op": "add", "path": "/metadata/annotations/example.com~1raw", "value": "8"},
]
RAW = {"status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}}}


@pytest.fixture
async def kubelet(api: Api, grant: Grant, node: str) -> Api:
    """The node's own kubelet; bound to a role as well, for servers without the node authorizer."""
    user = f"system:node:{node}"
    rule = {"apiGroups": [""], "resources": ["nodes/status", "nodes"], "verbs": ["patch", "get", "update"]}
    await grant({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}, rule)
    return api.acting_as(user, "system:nodes", "system:authenticated")


async def stores_nothing(api: Api, node: str, write: Callable[[], Awaitable[object]]) -> bool:
    """Whether a write, tried a few times, once left the stored version as it was."""
    for _ in range(ATTEMPTS):
        before = await api.get(f"{NODES}/{node}")
        await write()
        after = await api.get(f"{NODES}/{node}")
        if after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]:
            return True
    return False


async def test_status_and_annotations_of_a_status_patch_persist(
    api: Api, kubelet: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["nodes/status"])
    webhook.answers["/"] = patch(*AMPLIFIED)
    answered = await kubelet.patch(f"{NODES}/{node}/status", RAW, STRATEGIC_PATCH)
    stored = await api.get(f"{NODES}/{node}")
    for seen in (answered, stored):
        assert seen["status"]["capacity"]["cpu"] == "12"
        assert seen["status"]["allocatable"]["cpu"] == "12"
        assert seen["metadata"]["annotations"]["example.com/raw"] == "8"


async def test_status_and_annotations_of_a_status_put_persist(
    api: Api, kubelet: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["nodes/status"])
    body = await kubelet.get(f"{NODES}/{node}")
    del body["metadata"]["resourceVersion"]
    webhook.answers["/"] = patch(*AMPLIFIED)
    await kubelet.replace(f"{NODES}/{node}/status", body)
    stored = await api.get(f"{NODES}/{node}")
    assert stored["status"]["capacity"]["cpu"] == "12"
    assert stored["metadata"]["annotations"]["example.com/raw"] == "8"


async def test_plain_update_keeps_annotations_and_drops_status(
    api: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["nodes"])
    webhook.answers["/"] = patch(*AMPLIFIED)
    await api.patch(f"{NODES}/{node}", {"metadata": {"annotations": {"example.com/a": "1"}}})
    stored = await api.get(f"{NODES}/{node}")
    assert stored["metadata"]["annotations"]["example.com/raw"] == "8"
    assert stored["status"]["capacity"]["cpu"] == "8"


async def test_rule_for_nodes_is_not_called_for_status(
    kubelet: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["nodes"])
    await kubelet.patch(f"{NODES}/{node}/status", RAW, STRATEGIC_PATCH)
    assert not [request for request in webhook.asked() if request.get("subResource")]


async def test_rule_for_status_is_skipped_for_plain_updates(
    api: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["nodes/status"])
    await api.patch(f"{NODES}/{node}", {"metadata": {"annotations": {"example.com/a": "1"}}})
    assert all(request.get("subResource") == "status" for request in webhook.asked())


async def test_rule_with_a_star_is_called_for_both(
    api: Api, kubelet: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["nodes/*"])
    await api.patch(f"{NODES}/{node}", {"metadata": {"annotations": {"example.com/a": "1"}}})
    await kubelet.patch(f"{NODES}/{node}/status", RAW, STRATEGIC_PATCH)
    assert {request.get("subResource", "") for request in webhook.asked()} == {"", "status"}


async def test_review_carries_the_merged_object_old_and_writer(
    kubelet: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["nodes/status"])
    partial = {"status": {"capacity": {"memory": "20Gi"}}}
    await kubelet.patch(f"{NODES}/{node}/status", partial, STRATEGIC_PATCH)
    review = next(r for r in webhook.asked() if r["userInfo"]["username"] == f"system:node:{node}")
    assert (review["operation"], review["subResource"], review["name"]) == ("UPDATE", "status", node)
    assert review["object"]["status"]["capacity"] == {"cpu": "8", "memory": "20Gi", "pods": "110"}
    assert review["oldObject"]["status"]["capacity"]["memory"] == "16Gi"
    assert "system:nodes" in review["userInfo"]["groups"]
    assert review["options"]["kind"] == "UpdateOptions"


async def test_amount_omitted_from_a_patch_appears_as_stored(
    kubelet: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    """A kubelet with a stale cache leaves cpu out; what the webhook then sees is the amplified amount."""
    await register("mutating", ["nodes/status"])
    webhook.answers["/"] = patch(*AMPLIFIED)
    await kubelet.patch(f"{NODES}/{node}/status", RAW, STRATEGIC_PATCH)
    del webhook.answers["/"]
    await kubelet.patch(
        f"{NODES}/{node}/status", {"status": {"capacity": {"memory": "20Gi"}}}, STRATEGIC_PATCH
    )
    assert webhook.asked()[-1]["object"]["status"]["capacity"]["cpu"] == "12"


async def test_an_empty_status_patch_runs_the_webhook(
    api: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["nodes/status"])
    before = len(webhook.asked())
    webhook.answers["/"] = patch(*AMPLIFIED)
    changed = await api.patch(f"{NODES}/{node}/status", {})
    assert len(webhook.asked()) > before
    assert changed["status"]["capacity"]["cpu"] == "12"


async def test_webhook_restoring_the_stored_value_writes_nothing(
    api: Api, kubelet: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["nodes/status"])
    webhook.answers["/"] = patch(*AMPLIFIED)

    async def report_raw() -> None:
        await kubelet.patch(f"{NODES}/{node}/status", RAW, STRATEGIC_PATCH)

    await report_raw()
    assert await stores_nothing(api, node, report_raw)


async def test_when_the_webhook_restores_heartbeats_nothing_is_written(
    api: Api, kubelet: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["nodes/status"])
    beats = [0]

    async def beat() -> None:
        beats[0] += 1
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": f"2026-01-01T00:00:{beats[0]:02}Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        body = copy.deepcopy(RAW) | {"status": {**RAW["status"], "conditions": [condition]}}
        await kubelet.patch(f"{NODES}/{node}/status", body, STRATEGIC_PATCH)

    await beat()
    assert not await stores_nothing(api, node, beat)
    webhook.answers["/"] = restore_heartbeats
    assert await stores_nothing(api, node, beat)


def restore_heartbeats(request: Object) -> Object:
    """Give every condition the heartbeat time that is stored."""
    stored = {entry["type"]: entry for entry in request["oldObject"]["status"].get("conditions") or ()}
    operations: list[Object] = [
        {
            "op": "replace",
            "path": f"/status/conditions/{index}/lastHeartbeatTime",
            "value": stored[entry["type"]]["lastHeartbeatTime"],
        }
        for index, entry in enumerate(request["object"]["status"].get("conditions") or ())
        if entry["type"] in stored
    ]
    return patch(*operations)(request) if operations else {"allowed": True}


async def test_a_denied_status_write_changes_nothing(
    api: Api, kubelet: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["nodes/status"])
    webhook.answers["/"] = lambda _: {"allowed": False, "status": {"message": "not now", "code": 403}}
    reply = await kubelet.request("PATCH", f"{NODES}/{node}/status", RAW, content_type=STRATEGIC_PATCH)
    assert reply.code == 403
    assert (await api.get(f"{NODES}/{node}"))["status"]["capacity"]["cpu"] == "8"
