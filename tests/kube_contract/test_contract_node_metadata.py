"""Annotations sent through ``nodes/status``: the manager's one write of a ratio, which the webhook amplifies.

A status write takes metadata as well (nodeStatusStrategy resets the spec alone; kubelet itself keeps
annotations and labels this way). Other controllers may write to the node in between.
"""

from __future__ import annotations

import pytest

from kube_contract.api import MERGE_PATCH, STRATEGIC_PATCH, Api
from kube_contract.conftest import Register
from service.webhook_server import WebhookServer, deny, patch

NODES = "/api/v1/nodes"
RATIO = "example.com/ratio"
PATCHES = pytest.mark.parametrize("kind", [MERGE_PATCH, STRATEGIC_PATCH], ids=["merge", "strategic"])


@PATCHES
async def test_annotations_sent_through_status_persist_and_others_stay(
    api: Api, node: str, kind: str
) -> None:
    body = {"metadata": {"annotations": {RATIO: "2.00"}}}
    await api.patch(f"{NODES}/{node}/status", body, kind)
    annotations = (await api.get(f"{NODES}/{node}"))["metadata"]["annotations"]
    assert annotations[RATIO] == "2.00"
    assert annotations["example.com/kept"] == "yes"


@PATCHES
async def test_annotations_are_removed_through_status(api: Api, node: str, kind: str) -> None:
    body = {"metadata": {"annotations": {"example.com/kept": None}}}
    await api.patch(f"{NODES}/{node}/status", body, kind)
    assert "example.com/kept" not in (await api.get(f"{NODES}/{node}"))["metadata"].get("annotations", {})


@PATCHES
async def test_labels_sent_through_status_persist(api: Api, node: str, kind: str) -> None:
    await api.patch(f"{NODES}/{node}/status", {"metadata": {"labels": {"example.com/zone": "a"}}}, kind)
    assert (await api.get(f"{NODES}/{node}"))["metadata"]["labels"]["example.com/zone"] == "a"


@PATCHES
async def test_status_patch_drops_spec_and_keeps_annotations(api: Api, node: str, kind: str) -> None:
    body = {"metadata": {"annotations": {RATIO: "2.00"}}, "spec": {"unschedulable": True}}
    await api.patch(f"{NODES}/{node}/status", body, kind)
    stored = await api.get(f"{NODES}/{node}")
    assert stored["metadata"]["annotations"][RATIO] == "2.00"
    assert not stored["spec"].get("unschedulable")


@PATCHES
async def test_status_patch_decided_on_older_node_conflicts(api: Api, node: str, kind: str) -> None:
    older = (await api.get(f"{NODES}/{node}"))["metadata"]["resourceVersion"]
    await api.patch(f"{NODES}/{node}", {"metadata": {"annotations": {"example.com/since": "1"}}})
    body = {"metadata": {"resourceVersion": older, "annotations": {RATIO: "2.00"}}}
    reply = await api.request("PATCH", f"{NODES}/{node}/status", body, content_type=kind)
    reply.refused(409, "Conflict")
    assert RATIO not in (await api.get(f"{NODES}/{node}"))["metadata"]["annotations"]


@PATCHES
async def test_webhook_sees_annotations_and_amplifies_in_same_write(
    api: Api, node: str, webhook: WebhookServer, register: Register, kind: str
) -> None:
    await register("mutating", ["nodes/status"])
    webhook.answers["/"] = patch(
        {"op": "replace", "path": "/status/capacity/cpu", "value": "16"},
        {"op": "add", "path": "/metadata/annotations/example.com~1record", "value": "16"},
    )
    body = {"metadata": {"annotations": {RATIO: "2.00"}}}
    answered = await api.patch(f"{NODES}/{node}/status", body, kind)
    review = next(each for each in webhook.asked() if RATIO in each["object"]["metadata"]["annotations"])
    assert (review["operation"], review["subResource"]) == ("UPDATE", "status")
    assert RATIO not in review["oldObject"]["metadata"]["annotations"]
    assert review["object"]["status"] == review["oldObject"]["status"]
    assert answered["status"]["capacity"]["cpu"] == "16"
    assert answered["metadata"]["annotations"].items() >= {RATIO: "2.00", "example.com/record": "16"}.items()


@pytest.mark.parametrize("registration", ["mutating", "validating"])
async def test_plain_node_webhook_misses_annotations_sent_through_status(
    api: Api, node: str, webhook: WebhookServer, register: Register, registration: str
) -> None:
    await register(registration, ["nodes"])
    webhook.answers["/"] = deny("never asked")
    body = {"metadata": {"annotations": {RATIO: "2.00"}}}
    await api.patch(f"{NODES}/{node}/status", body)
    assert (await api.get(f"{NODES}/{node}"))["metadata"]["annotations"][RATIO] == "2.00"
