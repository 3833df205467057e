"""What the API server makes of the webhooks for offline pods: whom it asks, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from corewise.config.colocation_profile import ColocationProfile
from corewise.manager.options import OfflinePods
from corewise.manager.pod_webhooks import OFFLINE_PATH, PROFILE_PATH, pods_configuration
from corewise.vocabulary.names import BATCH_CPU, PRIORITY_CLASS, QOS_CLASS, QOS_LEVEL
from corewise.vocabulary.selectors import LabelSelector
from kube_contract.api import Api, Object
from kube_contract.conftest import REGISTRATIONS, TEST_LABEL, Make, eventually
from service.webhook_server import WebhookServer, patch

ONLINE = {"requests": {"cpu": "100m"}}


@pytest.fixture
async def pods(api: Api, webhook: WebhookServer, make: Make, namespace: str, unique: str) -> str:
    """The test's pods, with the manager's webhooks: profiles "a" and "b", and the one for offline pods."""
    selectors = {name: LabelSelector.of_labels({TEST_LABEL: unique, "profile": name}) for name in "ab"}
    here = LabelSelector.of_labels({"kubernetes.io/metadata.name": namespace})
    body = pods_configuration(
        webhook.client_config,
        [ColocationProfile(f"{name}.{unique}", here, pods) for name, pods in selectors.items()],
        offline=OfflinePods.TRANSLATE,
        namespace="corewise-system",
        failure_policy="Ignore",
    )
    body["metadata"]["name"] = unique
    for each in body["webhooks"]:
        each.setdefault("objectSelector", {"matchLabels": {TEST_LABEL: unique}})
    await make(f"{REGISTRATIONS}/mutatingwebhookconfigurations", body)
    path = f"/api/v1/namespaces/{namespace}/pods"
    marked = pod(unique, "probe", {QOS_CLASS: "BE"})

    async def called() -> bool:
        await api.create(path, marked, dryRun="All")
        return bool(webhook.asked(OFFLINE_PATH))

    await eventually(called)
    webhook.requests.clear()
    return path


def pod(unique: str, name: str, labels: dict[str, str], resources: Any = ONLINE, **metadata: Any) -> Object:
    container = {"name": "main", "image": "registry.invalid/none", "resources": resources}
    spec = {
        "schedulerName": "corewise-contract",
        "containers": [container],
        "automountServiceAccountToken": False,
    }
    return {"metadata": {"name": name, "labels": {TEST_LABEL: unique, **labels}, **metadata}, "spec": spec}


async def test_each_profile_webhook_sees_only_its_own_pods(
    api: Api, webhook: WebhookServer, pods: str, unique: str
) -> None:
    for name in ("a", "b", "c"):
        await api.create(pods, pod(unique, f"of-{name}", {"profile": name}))
    asked = [(path, each["object"]["metadata"]["name"]) for path, each in webhook.requests]
    assert asked == [(f"{PROFILE_PATH}{name}.{unique}", f"of-{name}") for name in "ab"]


async def test_profile_selects_by_what_earlier_profiles_left(
    api: Api, webhook: WebhookServer, pods: str, unique: str
) -> None:
    path = f"{PROFILE_PATH}a.{unique}"
    webhook.answers[path] = patch({"op": "replace", "path": "/metadata/labels/profile", "value": "b"})
    await api.create(pods, pod(unique, "chained", {"profile": "a"}))
    assert [each for each, _ in webhook.requests] == [path, f"{PROFILE_PATH}b.{unique}"]


@pytest.mark.parametrize(
    ("labels", "more", "offline"),
    [
        ({QOS_CLASS: "BE"}, {}, True),
        ({QOS_CLASS: "LS"}, {}, False),
        ({PRIORITY_CLASS: "koord-batch"}, {}, True),
        ({}, {"annotations": {QOS_LEVEL: "-1"}}, True),
        ({}, {"annotations": {QOS_LEVEL: "1"}}, False),
        ({}, {"resources": {"requests": {"cpu": "1", BATCH_CPU: "1"}}}, True),
        ({QOS_CLASS: "BE"}, {"resources": {"requests": {BATCH_CPU: "1"}}}, False),
    ],
)
async def test_offline_webhook_sees_marked_pods_that_request_cpu(
    api: Api,
    webhook: WebhookServer,
    pods: str,
    unique: str,
    labels: dict[str, str],
    more: dict[str, Any],
    offline: bool,
) -> None:
    await api.create(pods, pod(unique, "one", labels, **more))
    assert bool(webhook.asked(OFFLINE_PATH)) is offline


async def test_batch_only_pod_is_besteffort_with_larger_limit(api: Api, pods: str, unique: str) -> None:
    resources = {"requests": {BATCH_CPU: "1500"}, "limits": {BATCH_CPU: "2000"}}
    created = await api.create(pods, pod(unique, "batch", {QOS_CLASS: "BE"}, resources))
    assert created["status"]["qosClass"] == "BestEffort"
