"""AdmissionReviews as the API server sends them, and webhooks to put them to, without a cluster."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from corewise.amplification.amounts import FIELDS
from corewise.config.colocation_profile import ColocationProfile
from corewise.config.configuration import NO_AMPLIFICATION, NO_NORMALIZATION
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.manager.node_status_webhook import NodeStatusWebhook
from corewise.manager.node_webhook import NodeWebhook
from corewise.manager.options import OfflinePods
from corewise.manager.pod_webhooks import PodWebhooks
from corewise.manager.profiles import Profiles
from corewise.manager.webhooks import (
    APPLY_PROFILE,
    CONFIG_MAP,
    NODE,
    NODE_STATUS,
    OFFLINE_PODS,
    PROFILE,
    ConfigMapWebhook,
)
from corewise.prometheus.exposition import Exposition
from corewise.ratios.cluster import ClusterConfiguration, ClusterContext
from corewise.ratios.nodes import NodeView, view_of
from corewise.service.webhooks import Review
from corewise.vocabulary.metrics import METRICS
from corewise.vocabulary.names import CONFIG_NAME, CONFIG_NAMESPACE
from corewise.vocabulary.selectors import LabelSelector
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod

RESOURCES = {
    NODE_STATUS: "nodes",
    NODE: "nodes",
    CONFIG_MAP: "configmaps",
    PROFILE: "clustercolocationprofiles",
    APPLY_PROFILE: "pods",
    OFFLINE_PODS: "pods",
}


def webhooks(
    metrics: Exposition | None = None, koordinator: str = "", pods: Sequence[Pod] = ()
) -> Mapping[str, Review]:
    """All webhooks, in a cluster of no configuration where every node has these pods."""
    context = ClusterContext(ClusterConfiguration(NO_NORMALIZATION, NO_AMPLIFICATION), koordinator)
    status = NodeStatusWebhook(
        context=lambda: context,
        kubelet_users=("system:node:",),
        quiet_heartbeats=True,
        metrics=metrics or Exposition(METRICS),
    )

    def view(node: Node) -> NodeView:
        return view_of(node, None, lambda: pods)

    async def usage(_node: str) -> int | None:
        return 7000

    node = NodeWebhook(lambda: context, view, lambda: True, usage)

    async def usages() -> Mapping[str, int]:
        return {"idle": 1000, **{f"busy-{number}": 7000 for number in range(5)}}

    def nodes() -> Iterable[NodeView]:
        names = ("idle", "unknown", *(f"busy-{number}" for number in range(5)))
        amounts = {"cpu": "10", "memory": "32Gi"}
        body = ({"metadata": {"name": name}, "status": dict.fromkeys(FIELDS, amounts)} for name in names)
        return map(view, (msgspec.convert(each, Node) for each in body))

    config_map = ConfigMapWebhook(CONFIG_NAMESPACE, CONFIG_NAME, lambda: context, nodes, usages)
    profiles = Profiles(cast("Client", None), lambda: None, SYSTEM_CLOCK)
    everything = LabelSelector()

    async def listed() -> None:
        """Everything is."""

    patch: dict[str, Any] = {"spec": {"volumes": []}}
    profiles.good[""] = ColocationProfile("", everything, everything, patch=patch)
    of_pods = PodWebhooks(profiles, listed, OfflinePods.TRANSLATE)
    return {
        NODE_STATUS: status.review,
        NODE: node.review,
        CONFIG_MAP: config_map.review,
        PROFILE: of_pods.validate_profile,
        APPLY_PROFILE: of_pods.apply_profile,
        OFFLINE_PODS: of_pods.require_batch_resources,
    }


def review(
    webhook: str,
    new: Any,
    old: Any,
    *,
    user: str = "system:node:n1",
    operation: str = "UPDATE",
    name: str = "n1",
) -> dict[str, Any]:
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Node"},
        "resource": {"group": "", "version": "v1", "resource": RESOURCES[webhook]},
        "name": name,
        "namespace": CONFIG_NAMESPACE if webhook == CONFIG_MAP else "",
        "operation": operation,
        "userInfo": {"username": user, "groups": ["system:nodes"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def body(document: Any) -> bytes:
    return json.dumps(document).encode()


def node(
    annotations: Mapping[str, str], *, cpu: str = "8", labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    conditions = [
        {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n1",
            "labels": dict(labels or {}),
            "annotations": dict(annotations),
            "managedFields": [],
        },
        "spec": {},
        "status": {"capacity": dict(amounts), "allocatable": dict(amounts), "conditions": conditions},
    }


def response_of(answer: bytes) -> dict[str, Any]:
    response: dict[str, Any] = json.loads(answer)["response"]
    return response


def patch_of(answer: bytes) -> list[dict[str, Any]]:
    patch = response_of(answer).get("patch", "")
    operations: list[dict[str, Any]] = json.loads(b64decode(patch)) if patch else []
    return operations
