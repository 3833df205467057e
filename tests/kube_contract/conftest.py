"""Fixtures of the contract: a server, a namespace, nodes and webhooks that are gone after each test.

By default the server is the local one, in a process of its own; COREWISE_TEST_KUBECONFIG names another.
Every name is unique to its test, so that the contract can run beside whatever else a cluster does.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from api_process import local_api_server
from kube_contract.api import Api, Object, connect
from service.webhook_server import WebhookServer, webhook_server

TEST_LABEL = "contract.corewise.io/test"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
SETTLED_WITHIN = 60.0
WRITTEN_BY_CONTROLLERS = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
"""Exists where a kube-controller-manager runs."""


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if named := os.environ.get("COREWISE_TEST_KUBECONFIG"):
        yield Path(named)
        return
    with local_api_server(tmp_path_factory.mktemp("apiserver")) as path:
        yield path


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[Api]:
    async with connect(kubeconfig) as connection:
        yield connection


@pytest.fixture
def unique() -> str:
    """A name, unique to this test, that any kind accepts."""
    return f"cw-{secrets.token_hex(5)}"


@pytest.fixture
async def namespace(api: Api, unique: str) -> AsyncIterator[str]:
    """A namespace of the test's own, with the service account that pods ask for."""
    await api.create("/api/v1/namespaces", {"metadata": {"name": unique}})
    account = {"metadata": {"name": "default"}}
    await api.request("POST", f"/api/v1/namespaces/{unique}/serviceaccounts", account)
    yield unique
    await api.request("DELETE", f"/api/v1/namespaces/{unique}")


Make = Callable[..., Awaitable[Any]]


@pytest.fixture
async def make(api: Api) -> AsyncIterator[Make]:
    """Create an object that is deleted when the test ends.

    A webhook that is gone already may still be called for a moment, and fail the deletion.
    """
    made: list[str] = []

    async def create(collection: str, body: Object) -> Any:
        obj = await api.create(collection, body)
        made.append(f"{collection}/{obj['metadata']['name']}")
        return obj

    yield create
    for path in reversed(made):
        await eventually(partial(_deleted, api, path))


async def _deleted(api: Api, path: str) -> bool:
    return (await api.request("DELETE", path, gracePeriodSeconds="0")).code < 500


RBAC = "rbac.authorization.k8s.io"
Grant = Callable[..., Awaitable[None]]


@pytest.fixture
async def grant(api: Api, make: Make, unique: str) -> Grant:
    """Bind a ClusterRole of some rules to a subject, and wait until the server has noticed."""

    async def bind(subject: Object, *rules: Object) -> None:
        path = f"/apis/{RBAC}/v1"
        await make(f"{path}/clusterroles", {"metadata": {"name": unique}, "rules": list(rules)})
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": unique}
        body = {"metadata": {"name": unique}, "roleRef": reference, "subjects": [subject]}
        await make(f"{path}/clusterrolebindings", body)
        await eventually(lambda: _may(api, subject, rules[0]))

    return bind


async def _may(api: Api, subject: Object, rule: Object, namespace: str = "") -> bool:
    """Whether the server knows that a subject has what a rule grants."""
    resource, _, subresource = rule["resources"][0].partition("/")
    attributes = {
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "name": rule.get("resourceNames", [""])[0],
        "namespace": namespace,
    }
    name = subject["name"]
    if subject["kind"] == "ServiceAccount":
        name = f"system:serviceaccount:{subject['namespace']}:{name}"
    who = {"groups": [name]} if subject["kind"] == "Group" else {"user": name}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {**who, "resourceAttributes": attributes},
    }
    review = await api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(review["status"]["allowed"])


@pytest.fixture
async def grant_in_namespace(api: Api, make: Make, namespace: str) -> Grant:
    """Bind a Role of the test's namespace to a subject, and wait until the server has noticed."""

    async def bind(subject: Object, *rules: Object) -> None:
        path = f"/apis/{RBAC}/v1/namespaces/{namespace}"
        await make(f"{path}/roles", {"metadata": {"name": "granted"}, "rules": list(rules)})
        reference = {"apiGroup": RBAC, "kind": "Role", "name": "granted"}
        body = {"metadata": {"name": "granted"}, "roleRef": reference, "subjects": [subject]}
        await make(f"{path}/rolebindings", body)
        await eventually(lambda: _may(api, subject, rules[0], namespace))

    return bind


@pytest.fixture
def node_body(unique: str) -> Object:
    """A node as a kubelet registers it."""
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    return {
        "metadata": {
            "name": unique,
            "labels": {TEST_LABEL: unique},
            "annotations": {"example.com/kept": "yes"},
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


@pytest.fixture
async def node(api: Api, make: Make, node_body: Object) -> str:
    """The name of a node of the test's own, which a kube-controller-manager has finished with."""
    name: str = (await make("/api/v1/nodes", node_body))["metadata"]["name"]
    if (await api.request("GET", WRITTEN_BY_CONTROLLERS)).code == 200:
        await eventually(partial(_is_adopted, api, f"/api/v1/nodes/{name}"))
    return name


async def _is_adopted(api: Api, path: str) -> bool:
    """Whether the TTL and the node lifecycle controllers have written to a node, and no more for a second."""
    before = await api.get(path)
    await asyncio.sleep(1.0)
    after = await api.get(path)
    return "node.alpha.kubernetes.io/ttl" in before["metadata"]["annotations"] and before == after


@pytest.fixture
def pod_body(unique: str) -> Object:
    """A pod that no scheduler takes up."""
    container = {"name": "main", "image": "registry.invalid/none", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "metadata": {"name": unique, "labels": {TEST_LABEL: unique}},
        "spec": {
            "schedulerName": "corewise-contract",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


@pytest.fixture
async def webhook() -> AsyncIterator[WebhookServer]:
    async with webhook_server() as server:
        yield server


Register = Callable[..., Awaitable[Any]]


def rule(resources: list[str], operations: list[str] | None = None, group: str = "") -> Object:
    """A webhook rule on version v1 of a group."""
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": operations or ["CREATE", "UPDATE"],
        "resources": resources,
    }


@pytest.fixture
async def register(api: Api, webhook: WebhookServer, unique: str, make: Make) -> Register:
    """Register a webhook for objects labeled as this test's, and wait until the server calls it."""

    async def create(
        kind: str, resources: list[str], *, path: str = "/", name: str = "", group: str = "", **fields: Any
    ) -> Object:
        entry = {
            "name": f"{path.strip('/').replace('/', '-') or 'hook'}.{unique}.corewise.io",
            "clientConfig": webhook.client_config(path),
            "rules": [rule(resources, group=group)],
            "objectSelector": {"matchLabels": {TEST_LABEL: unique}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 5,
            **fields,
        }
        probe_path = f"/probe{path}".rstrip("/")  # the server calls a path without its last slash
        probe = _probe(entry, webhook.client_config(probe_path))
        body = {"metadata": {"name": name or f"{unique}-{kind.lower()}"}, "webhooks": [entry, probe]}
        configuration = await make(f"{REGISTRATIONS}/{kind.lower()}webhookconfigurations", body)
        await _until_called(api, webhook, unique, probe_path)
        return dict(configuration)

    return create


def _probe(entry: Object, config: Object) -> Object:
    """A second webhook, for Secrets: once it is called, the server knows of both."""
    return {
        "name": f"probe-{entry['name']}",
        "clientConfig": config,
        "objectSelector": entry["objectSelector"],
        "admissionReviewVersions": ["v1"],
        "rules": [rule(["secrets"])],
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": 5,
    }


async def _until_called(api: Api, webhook: WebhookServer, unique: str, probe_path: str) -> None:
    probe = {"metadata": {"generateName": f"{unique}-probe-", "labels": {TEST_LABEL: unique}}}

    async def called() -> bool:
        await api.create("/api/v1/namespaces/default/secrets", probe, dryRun="All")
        return bool(webhook.asked(probe_path))

    await eventually(called)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds that the server sees to by itself."""
    async with asyncio.timeout(SETTLED_WITHIN):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.05)
