"""Admission, apart from the server: what the contract cannot ask of a real one, or only here.

The rest of it is tests/kube_contract.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission_objects import ADMIN, Objects, named, write
from kubedouble import expressions
from kubedouble.admission import Admission
from kubedouble.admission_matching import Attributes
from kubedouble.authentication import User
from kubedouble.errors import StatusError
from kubedouble.webhooks import Encoded, InvalidAnswerError, decode_answer, encode_review
from webhook_server import WebhookServer, annotate, deny, patch, webhook_server

KUBELET = User("system:node:n1", ("system:nodes", "system:authenticated"))
CONFIGURATIONS = "mutatingwebhookconfigurations"


async def refusal(attributes: Attributes, obj: Any, old: Any, objects: Objects) -> str:
    """The message of the 403 with which built-in admission refuses, or "" if it does not."""
    admission = Admission(objects)
    outcome = await asyncio.gather(admission.mutate(attributes, obj, old), return_exceptions=True)
    await admission.close()
    if isinstance(outcome[0], StatusError):
        assert outcome[0].code == 403
        return outcome[0].message
    assert not isinstance(outcome[0], BaseException)
    return ""


NODE = named("n1", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
NODES = Objects(
    nodes=[NODE],
    namespaces=[named("ns"), named("kube-node-lease")],
    pods=[
        {"metadata": {"name": "mine", "namespace": "ns"}, "spec": {"nodeName": "n1"}},
        {"metadata": {"name": "other", "namespace": "ns"}, "spec": {"nodeName": "n2"}},
    ],
)


def relabeled(**labels: str) -> dict[str, Any]:
    keys = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return {**NODE, "metadata": {**NODE["metadata"], "labels": keys}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (NODE, ""),
        ({**NODE, "status": {"capacity": {"cpu": "8"}}}, ""),
        (relabeled(disk="ssd"), ""),
        (relabeled(node_kubernetes_io__anything="x"), ""),
        (relabeled(kubernetes_io__hostname="x"), ""),
        (relabeled(kubernetes_io__role="x"), "is not allowed to modify labels: kubernetes.io/role"),
        (relabeled(other_k8s_io__a="x"), "is not allowed to modify labels: other.k8s.io/a"),
        ({**NODE, "spec": {}}, 'node "n1" is not allowed to modify taints'),
    ],
)
@pytest.mark.parametrize("resource", ["nodes", "nodes/status"])
async def test_kubelet_may_change_only_its_own_node_fields(
    resource: str, obj: dict[str, Any], expected: str
) -> None:
    message = await refusal(write(KUBELET, "UPDATE", resource, "n1"), obj, NODE, NODES)
    assert message == (f'nodes "n1" is forbidden: {expected}' if expected else "")


async def test_restricted_labels_are_not_a_kubelets_to_set() -> None:
    label = {"node-restriction.kubernetes.io/zone": "a"}
    node = {**NODE, "metadata": {**NODE["metadata"], "labels": label}}
    assert await refusal(write(KUBELET, "UPDATE", "nodes", "n1"), node, NODE, NODES)
    assert await refusal(write(KUBELET, "CREATE", "nodes", "n1"), node, None, NODES)
    assert await refusal(write(ADMIN, "UPDATE", "nodes", "n1"), node, NODE, NODES) == ""


async def test_a_kubelet_leaves_other_nodes_alone() -> None:
    message = await refusal(write(KUBELET, "UPDATE", "nodes/status", "n2"), named("n2"), named("n2"), NODES)
    assert message == 'nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"'


@pytest.mark.parametrize(
    ("resource", "operation", "name", "allowed"),
    [
        ("pods/status", "UPDATE", "mine", True),
        ("pods/status", "UPDATE", "other", False),
        ("pods", "DELETE", "mine", True),
        ("pods", "DELETE", "other", False),
        ("pods/eviction", "CREATE", "mine", True),
        ("pods/eviction", "CREATE", "other", False),
        ("pods", "UPDATE", "mine", False),
        ("pods/binding", "CREATE", "mine", False),
    ],
)
async def test_a_kubelet_writes_its_own_pods(resource: str, operation: str, name: str, allowed: bool) -> None:
    stored = NODES.get("", "pods", "ns", name)
    obj = None if operation == "DELETE" else stored
    old = None if operation == "CREATE" else stored
    message = await refusal(write(KUBELET, operation, resource, name, namespace="ns"), obj, old, NODES)
    assert (message == "") is allowed


def mirror_pod(**changes: Any) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-n1", "controller": True}
    metadata = {
        "name": "static-n1",
        "namespace": "ns",
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [owner],
    }
    spec = {"nodeName": "n1", "containers": [{"name": "c"}]}
    return {"metadata": metadata | changes.pop("metadata", {}), "spec": spec | changes.pop("spec", {})}


@pytest.mark.parametrize(
    ("pod", "allowed"),
    [
        (mirror_pod(), True),
        (mirror_pod(metadata={"annotations": {}}), False),
        (mirror_pod(metadata={"ownerReferences": []}), False),
        (mirror_pod(spec={"nodeName": "n2"}), False),
        (mirror_pod(spec={"serviceAccountName": "a"}), False),
        (mirror_pod(spec={"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}), False),
        (mirror_pod(spec={"containers": [{"name": "c", "envFrom": [{"configMapRef": {}}]}]}), False),
    ],
)
async def test_a_kubelet_creates_mirror_pods_only(pod: dict[str, Any], allowed: bool) -> None:
    message = await refusal(write(KUBELET, "CREATE", "pods", "static-n1", namespace="ns"), pod, None, NODES)
    assert (message == "") is allowed


@pytest.mark.parametrize(("name", "allowed"), [("n1", True), ("n2", False)])
async def test_a_kubelet_creates_its_own_lease(name: str, allowed: bool) -> None:
    attributes = write(
        KUBELET, "CREATE", "leases", name, group="coordination.k8s.io", namespace="kube-node-lease"
    )
    assert (await refusal(attributes, named(name), None, NODES) == "") is allowed


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_namespaces_of_the_system_stay(name: str) -> None:
    attributes = write(ADMIN, "DELETE", "namespaces", name, namespace=name)
    assert "this namespace may not be deleted" in await refusal(attributes, None, named(name), NODES)


async def test_nothing_is_created_in_a_terminating_namespace() -> None:
    going = named("going")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    attributes = write(ADMIN, "CREATE", "configmaps", "a", namespace="going")
    message = await refusal(attributes, named("a"), None, Objects(namespaces=[going]))
    assert message.endswith("unable to create new content in namespace going because it is being terminated")


@pytest.fixture
async def webhook() -> AsyncIterator[WebhookServer]:
    async with webhook_server() as server:
        yield server


def configuration(webhook: WebhookServer, path: str = "/", **fields: Any) -> dict[str, Any]:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    hook = {
        "name": f"{path.strip('/') or 'hook'}.example.com",
        "clientConfig": webhook.client_config(path),
        "rules": [rule],
        "sideEffects": "None",
        **fields,
    }
    return named(f"configuration{path.replace('/', '-')}", webhooks=[hook])


AN_OBJECT = {"metadata": {"name": "a", "annotations": {}}}
UPDATE = write(ADMIN, "UPDATE", "nodes", "a")


async def test_service_webhook_is_called_at_its_mapped_address(webhook: WebhookServer) -> None:
    service = {"namespace": "ns", "name": "hook", "path": "/mutate"}
    config = {**webhook.client_config("/"), "service": service}
    objects = Objects(**{CONFIGURATIONS: [configuration(webhook, clientConfig=config)]})
    admission = Admission(objects, services={"ns/hook": webhook.url})
    with pytest.raises(StatusError) as refused:
        await admission.mutate(UPDATE, AN_OBJECT, AN_OBJECT)
    await admission.close()
    assert "certificate is not valid for" in refused.value.message or "hook.ns.svc" in refused.value.message
    assert webhook.requests == []


@pytest.mark.parametrize("problem", ["object.absent == 1", "1 +"])
async def test_match_conditions_without_a_value_follow_failure_policy(
    webhook: WebhookServer, problem: str
) -> None:
    conditions = [{"name": "yes", "expression": "true"}, {"name": "none", "expression": problem}]
    objects = Objects(**{CONFIGURATIONS: [configuration(webhook, matchConditions=conditions)]})
    assert "is forbidden: " in await refusal(UPDATE, AN_OBJECT, AN_OBJECT, objects)
    hook = configuration(webhook, matchConditions=conditions, failurePolicy="Ignore")
    admission = Admission(Objects(**{CONFIGURATIONS: [hook]}))
    result, warnings = await admission.mutate(UPDATE, AN_OBJECT, AN_OBJECT)
    await admission.close()
    assert (result, warnings, webhook.requests) == (AN_OBJECT, [], [])


async def test_without_the_library_match_conditions_are_ignored(
    webhook: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expressions, "cel", None)
    conditions = [{"name": "no", "expression": "false"}]
    admission = Admission(Objects(**{CONFIGURATIONS: [configuration(webhook, matchConditions=conditions)]}))
    await admission.mutate(UPDATE, AN_OBJECT, AN_OBJECT)
    await admission.close()
    assert len(webhook.requests) == 1


async def test_a_webhook_with_side_effects_refuses_dry_runs(webhook: WebhookServer) -> None:
    hook = configuration(webhook, sideEffects="Some", failurePolicy="Ignore")
    admission = Admission(Objects(**{CONFIGURATIONS: [hook]}))
    with pytest.raises(StatusError) as refused:
        await admission.mutate(write(ADMIN, "UPDATE", "nodes", "a", dry_run=True), AN_OBJECT, AN_OBJECT)
    await admission.close()
    assert refused.value.code == 400
    assert refused.value.message == 'admission webhook "hook.example.com" does not support dry run'
    assert webhook.requests == []


async def test_the_object_given_is_never_changed(webhook: WebhookServer) -> None:
    webhook.answers["/"] = annotate("a", "b")
    admission = Admission(Objects(**{CONFIGURATIONS: [configuration(webhook)]}))
    before = json.dumps(AN_OBJECT)
    result, _ = await admission.mutate(UPDATE, AN_OBJECT, AN_OBJECT)
    await admission.close()
    assert result == {"metadata": {"name": "a", "annotations": {"a": "b"}}}
    assert json.dumps(AN_OBJECT) == before


async def test_patch_without_effect_returns_the_very_same_object(webhook: WebhookServer) -> None:
    webhook.answers["/"] = patch({"op": "replace", "path": "/metadata/name", "value": "a"})
    admission = Admission(Objects(**{CONFIGURATIONS: [configuration(webhook)]}))
    result, _ = await admission.mutate(UPDATE, AN_OBJECT, AN_OBJECT)
    await admission.close()
    assert result is AN_OBJECT


async def test_connections_are_kept_between_calls(webhook: WebhookServer) -> None:
    admission = Admission(Objects(**{CONFIGURATIONS: [configuration(webhook)]}))
    for _ in range(5):
        await admission.mutate(UPDATE, AN_OBJECT, AN_OBJECT)
    await admission.close()
    assert len(webhook.connections) == 1


async def test_a_reinvoked_webhook_is_called_twice_at_most(webhook: WebhookServer) -> None:
    """Each changes the object each time: without a bound they would never end."""
    count = [0]

    def change(request: dict[str, Any]) -> dict[str, Any]:
        count[0] += 1
        return annotate("count", str(count[0]))(request)

    webhook.answers = {"/a": change, "/b": change}
    hooks = [configuration(webhook, path, reinvocationPolicy="IfNeeded") for path in ("/a", "/b")]
    admission = Admission(Objects(**{CONFIGURATIONS: hooks}))
    await admission.mutate(UPDATE, AN_OBJECT, AN_OBJECT)
    await admission.close()
    assert [path for path, _ in webhook.requests] == ["/a", "/b", "/a"]


async def test_of_several_denials_the_first_counts(webhook: WebhookServer) -> None:
    webhook.answers = {"/a": deny(code=409), "/b": deny(code=422)}
    hooks = [configuration(webhook, "/a"), configuration(webhook, "/b")]
    admission = Admission(Objects(validatingwebhookconfigurations=hooks))
    with pytest.raises(StatusError) as refused:
        await admission.validate(UPDATE, AN_OBJECT, AN_OBJECT)
    await admission.close()
    assert refused.value.code == 409
    assert len(webhook.requests) == 2


def test_a_review_has_what_the_api_defines() -> None:
    attributes = write(KUBELET, "UPDATE", "nodes/status", "n1", options={"kind": "UpdateOptions"})
    body = json.loads(encode_review(attributes, "7", Encoded({"a": 1}), Encoded(None)))
    assert (body["apiVersion"], body["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    request = body["request"]
    assert request["uid"] == "7"
    assert (request["subResource"], request["requestSubResource"]) == ("status", "status")
    assert request["userInfo"] == {"username": "system:node:n1", "groups": list(KUBELET.groups)}
    assert (request["object"], request["oldObject"], request["dryRun"]) == ({"a": 1}, None, False)


def answer(**response: Any) -> bytes:
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return json.dumps(body).encode()


def test_an_answer_is_read() -> None:
    operations = b64encode(b"[]").decode()
    read = decode_answer(
        answer(uid="7", allowed=True, patch=operations, patchType="JSONPatch", warnings=["w"]),
        "7",
        mutating=True,
    )
    assert (read.allowed, read.patch, read.warnings) == (True, b"[]", ("w",))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (answer(uid="8", allowed=True), 'expected response.uid="7", got "8"'),
        (answer(uid="7", allowed=True, patch="e30="), "response.patch but not response.patchType"),
        (answer(uid="7", allowed=True, patchType="JSONPatch"), "response.patchType but not response.patch"),
        (answer(uid="7", allowed=True, patch="e30=", patchType="Merge"), 'unsupported patch type "Merge"'),
        (answer(uid="7", allowed=True, patch="%", patchType="JSONPatch"), "is not base64"),
        (answer(uid="7", allowed="yes"), "couldn't decode"),
        (b"\xff", "couldn't decode"),
    ],
)
def test_an_improper_answer_is_refused(body: bytes, expected: str) -> None:
    with pytest.raises(InvalidAnswerError, match=r".") as problem:
        decode_answer(body, "7", mutating=True)
    assert expected in str(problem.value)


@given(
    st.binary()
    | st.recursive(st.none() | st.booleans() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_no_answer_does_more_than_fail(body: bytes) -> None:
    with pytest.raises(InvalidAnswerError):
        decode_answer(body, "7", mutating=True)
