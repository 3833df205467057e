"""Webhook configurations that a manager applies, while others add to them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kube_contract.api import JSON_PATCH, Api, Object
from kube_contract.conftest import REGISTRATIONS, TEST_LABEL
from service.webhook_server import WebhookServer

KIND = "MutatingWebhookConfiguration"
MANAGER = "contract"
NODE_STATUS = "node-status.contract.corewise.io"
NODE = "node.contract.corewise.io"


@pytest.fixture
async def path(api: Api, unique: str) -> AsyncIterator[str]:
    path = f"{REGISTRATIONS}/mutatingwebhookconfigurations/{unique}"
    yield path
    await api.request("DELETE", path)


def configuration(unique: str, *names: str, timeout: int = 5) -> Object:
    """Webhooks for what no test makes."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}
    entry = {
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{**rule, "scope": "Cluster"}],
        "objectSelector": {"matchLabels": {TEST_LABEL: f"{unique}-none"}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": timeout,
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": KIND,
        "metadata": {"name": unique},
        "webhooks": [{"name": name, **entry} for name in names],
    }


async def test_what_was_applied_stands_in_what_is_read(api: Api, path: str, unique: str) -> None:
    wanted = configuration(unique, NODE_STATUS)
    (await api.apply(path, wanted, MANAGER, force=True)).ok()
    (stored,) = (await api.get(path))["webhooks"]
    assert stored | wanted["webhooks"][0] == stored


async def test_applying_the_same_again_stores_nothing(api: Api, path: str, unique: str) -> None:
    first = (await api.apply(path, configuration(unique, NODE_STATUS), MANAGER, force=True)).ok()
    again = (await api.apply(path, configuration(unique, NODE_STATUS), MANAGER, force=True)).ok()
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_webhooks_are_applied_by_name(api: Api, path: str, unique: str) -> None:
    (await api.apply(path, configuration(unique, NODE_STATUS, NODE), MANAGER, force=True)).ok()
    changed = (await api.apply(path, configuration(unique, NODE, timeout=7), MANAGER, force=True)).ok()
    assert [(each["name"], each["timeoutSeconds"]) for each in changed["webhooks"]] == [(NODE, 7)]


async def test_fields_others_injected_survive_the_managers_next_apply(
    api: Api, path: str, unique: str, webhook: WebhookServer
) -> None:
    """So that cert-manager may inject the authority into a configuration that somebody else applies."""
    (await api.apply(path, configuration(unique, NODE_STATUS), MANAGER, force=True)).ok()
    bundle = webhook.client_config()["caBundle"]
    injected = [
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle},
        {"op": "add", "path": "/metadata/labels", "value": {"example.com/by": "somebody"}},
    ]
    await api.patch(path, injected, JSON_PATCH, fieldManager="injector")
    changed = (await api.apply(path, configuration(unique, NODE_STATUS, timeout=7), MANAGER, force=True)).ok()
    (entry,) = changed["webhooks"]
    assert (entry["clientConfig"]["caBundle"], entry["timeoutSeconds"]) == (bundle, 7)
    assert changed["metadata"]["labels"] == {"example.com/by": "somebody"}
