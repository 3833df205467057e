"""Admission webhooks: what they are asked, in which order, and what becomes of their answers."""

from __future__ import annotations

import pytest

from kube_contract.api import JSON_PATCH, Api, Object
from kube_contract.conftest import REGISTRATIONS, TEST_LABEL, Make, Register, eventually
from service.webhook_server import WebhookServer, allow, annotate, deny, patch


@pytest.fixture
def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def a_map(unique: str) -> Object:
    return {
        "metadata": {
            "name": "one",
            "labels": {TEST_LABEL: unique},
            "annotations": {"example.com/kept": "yes"},
        }
    }


async def test_a_review_of_a_creation_has_every_field(
    api: Api, config_maps: str, a_map: Object, namespace: str, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["configmaps"])
    await api.create(config_maps, a_map)
    request = webhook.asked()[-1]
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    assert request["uid"]
    assert (request["kind"], request["requestKind"]) == (kind, kind)
    assert (request["resource"], request["requestResource"]) == (resource, resource)
    assert (request["name"], request["namespace"], request["operation"]) == ("one", namespace, "CREATE")
    assert request["object"]["metadata"]["name"] == "one"
    assert request["object"]["kind"] == "ConfigMap"
    assert request["oldObject"] is None
    assert request["dryRun"] is False
    assert request["options"]["kind"] == "CreateOptions"
    assert request["userInfo"]["username"]
    assert webhook.queries[-1] == "timeout=5s"


async def test_a_path_is_called_without_its_last_slash(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["configmaps"], path="/some/path/")
    await api.create(config_maps, a_map)
    assert webhook.asked("/some/path")
    assert not webhook.asked("/some/path/")


async def test_put_and_patch_and_apply_are_all_updates(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    """A server that tried with a stale copy asks again, so that only the last review of a write counts."""
    created = await api.create(config_maps, a_map)
    await register("mutating", ["configmaps"])
    await api.replace(f"{config_maps}/one", {**created, "data": {"key": "1"}})
    put = webhook.asked()[-1]
    await api.patch(f"{config_maps}/one", {"data": {"key": "2"}})
    patched = webhook.asked()[-1]
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"other": "3"}}
    (await api.apply(f"{config_maps}/one", body, "contract")).ok()
    applied = webhook.asked()[-1]
    assert [each["operation"] for each in (put, patched, applied)] == ["UPDATE", "UPDATE", "UPDATE"]
    options = [each["options"]["kind"] for each in (put, patched, applied)]
    assert options == ["UpdateOptions", "UpdateOptions", "UpdateOptions"]
    assert patched["oldObject"]["data"] == {"key": "1"}
    assert patched["object"]["data"] == {"key": "2"}


async def test_an_applied_creation_is_a_create(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["configmaps"])
    (
        await api.apply(f"{config_maps}/one", {"apiVersion": "v1", "kind": "ConfigMap", **a_map}, "contract")
    ).ok()
    request = webhook.asked()[-1]
    assert (request["operation"], request["options"]["kind"]) == ("CREATE", "CreateOptions")


async def test_a_deletion_shows_the_old_object_only(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register, unique: str
) -> None:
    await api.create(config_maps, a_map)
    everything = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"]}
    await register("validating", [], rules=[everything])
    await api.delete(f"{config_maps}/one")
    request = webhook.asked()[-1]
    assert request["operation"] == "DELETE"
    assert request["object"] is None
    assert request["oldObject"]["metadata"]["labels"][TEST_LABEL] == unique
    assert request["options"]["kind"] == "DeleteOptions"


async def test_a_refused_deletion_deletes_nothing(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    await api.create(config_maps, a_map)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}
    await register("validating", [], rules=[rule])
    webhook.answers["/"] = deny("keep it")
    (await api.request("DELETE", f"{config_maps}/one")).refused(403)
    webhook.answers["/"] = allow
    await api.get(f"{config_maps}/one")


async def test_a_patch_is_applied_and_stored(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["configmaps"])
    webhook.answers["/"] = patch(
        {"op": "add", "path": "/data", "value": {"by": "webhook"}},
        {"op": "remove", "path": "/metadata/annotations/example.com~1kept"},
    )
    created = await api.create(config_maps, a_map)
    assert created["data"] == {"by": "webhook"}
    assert "example.com/kept" not in created["metadata"].get("annotations", {})
    assert (await api.get(f"{config_maps}/one"))["data"] == {"by": "webhook"}


async def test_webhooks_are_called_in_configuration_name_order(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register, unique: str
) -> None:
    await register("mutating", ["configmaps"], path="/second", name=f"{unique}-b")
    await register("mutating", ["configmaps"], path="/first", name=f"{unique}-a")
    webhook.answers["/first"] = annotate("example.com/by", "first")
    webhook.answers["/second"] = annotate("example.com/by", "second")
    created = await api.create(config_maps, a_map)
    assert created["metadata"]["annotations"]["example.com/by"] == "second"
    assert webhook.asked("/second")[-1]["object"]["metadata"]["annotations"]["example.com/by"] == "first"


async def test_webhook_is_called_again_after_a_later_change(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register, unique: str
) -> None:
    await register(
        "mutating", ["configmaps"], path="/early", name=f"{unique}-a", reinvocationPolicy="IfNeeded"
    )
    await register("mutating", ["configmaps"], path="/late", name=f"{unique}-b")
    webhook.answers["/late"] = annotate("example.com/by", "late")
    await api.create(config_maps, a_map)
    asked = [each for each in webhook.asked("/early") if each["name"] == "one"]
    assert len(asked) == 2
    assert asked[1]["object"]["metadata"]["annotations"]["example.com/by"] == "late"
    assert len([each for each in webhook.asked("/late") if each["name"] == "one"]) == 1


async def test_validating_webhooks_see_what_mutating_ones_made(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["configmaps"], path="/change")
    await register("validating", ["configmaps"], path="/check")
    webhook.answers["/change"] = annotate("example.com/by", "webhook")
    await api.create(config_maps, a_map)
    assert webhook.asked("/check")[-1]["object"]["metadata"]["annotations"]["example.com/by"] == "webhook"


async def test_a_denial_carries_its_code_reason_and_message(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    configuration = await register("validating", ["configmaps"])
    webhook.answers["/"] = deny("ratio 0.99 is below 1.00", 422, "Invalid")
    status = (await api.request("POST", config_maps, a_map)).refused(422, "Invalid")
    name = configuration["webhooks"][0]["name"]
    assert f'admission webhook "{name}" denied the request: ratio 0.99 is below 1.00' in status["message"]
    (await api.request("GET", f"{config_maps}/one")).refused(404)


async def test_denial_without_a_status_reads_without_explanation(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    configuration = await register("mutating", ["configmaps"])
    webhook.answers["/"] = lambda _: {"allowed": False}
    reply = await api.request("POST", config_maps, a_map)
    assert reply.code in {400, 403}
    name = configuration["webhooks"][0]["name"]
    assert f'admission webhook "{name}" denied the request without explanation' in reply.body["message"]


async def test_warnings_reach_the_client_allowed_or_not(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    await register("validating", ["configmaps"])
    webhook.answers["/"] = lambda _: {"allowed": True, "warnings": ["this node is busy", 'say "when"']}
    allowed = await api.request("POST", config_maps, a_map)
    assert '299 - "this node is busy"' in allowed.warnings
    assert '299 - "say \\"when\\""' in allowed.warnings
    webhook.answers["/"] = lambda _: {"allowed": False, "warnings": ["told you"], "status": {"code": 403}}
    a_map["metadata"]["name"] = "two"
    refused = await api.request("POST", config_maps, a_map)
    assert refused.code == 403
    assert '299 - "told you"' in refused.warnings


async def test_a_dry_run_is_marked_as_one(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    await register("mutating", ["configmaps"])
    await api.create(config_maps, a_map, dryRun="All")
    assert webhook.asked()[-1]["dryRun"] is True
    (await api.request("GET", f"{config_maps}/one")).refused(404)


async def test_a_webhook_with_side_effects_cannot_be_registered(api: Api, webhook: WebhookServer) -> None:
    entry = {
        "name": "hook.contract.corewise.io",
        "clientConfig": webhook.client_config(),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "Some",
    }
    path = f"{REGISTRATIONS}/mutatingwebhookconfigurations"
    body = {"metadata": {"generateName": "cw-refused-"}, "webhooks": [entry]}
    status = (await api.request("POST", path, body)).refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "webhooks[0].sideEffects"


async def test_object_selector_also_checks_the_old_object(
    api: Api, config_maps: str, a_map: Object, webhook: WebhookServer, register: Register
) -> None:
    await api.create(config_maps, a_map)
    await register("mutating", ["configmaps"])
    await api.patch(f"{config_maps}/one", {"metadata": {"labels": {TEST_LABEL: None}}})
    assert webhook.asked()[-1]["name"] == "one"

    async def left_alone() -> bool:
        asked = len(webhook.asked())
        await api.patch(f"{config_maps}/one", {"data": {"asked": str(asked)}})
        return len(webhook.asked()) == asked

    await eventually(left_alone)  # a server may try with a copy of the object that has the label still


async def test_the_namespace_selector_looks_at_the_namespaces_labels(
    api: Api, config_maps: str, a_map: Object, namespace: str, webhook: WebhookServer, register: Register
) -> None:
    wanted = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    await register("mutating", ["configmaps"], path="/here", namespaceSelector=wanted)
    unwanted = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [namespace]}
        ]
    }
    await register("validating", ["configmaps"], path="/elsewhere", namespaceSelector=unwanted)
    await api.create(config_maps, a_map)
    assert [each["name"] for each in webhook.asked("/here")] == ["one"]
    assert webhook.asked("/elsewhere") == []


async def test_the_namespace_selector_never_exempts_nodes(
    api: Api, node: str, webhook: WebhookServer, register: Register
) -> None:
    nothing = {"matchLabels": {"example.com/no-such-label": "x"}}
    await register("mutating", ["nodes"], namespaceSelector=nothing)
    await api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"example.com/a": "1"}}})
    assert webhook.asked()


@pytest.mark.parametrize(("scope", "called"), [("Cluster", True), ("Namespaced", False), ("*", True)])
async def test_the_scope_of_a_rule_is_obeyed(
    api: Api, node: str, webhook: WebhookServer, register: Register, scope: str, called: bool
) -> None:
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": ["nodes"],
        "scope": scope,
    }
    await register("mutating", [], rules=[rule])
    await api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"example.com/a": "1"}}})
    assert bool(webhook.asked()) is called


async def test_webhook_configurations_are_not_subject_to_webhooks(
    api: Api, webhook: WebhookServer, register: Register, unique: str
) -> None:
    configuration = await register("validating", ["*"], group="*")
    webhook.answers["/"] = deny("never")
    path = f"{REGISTRATIONS}/validatingwebhookconfigurations/{configuration['metadata']['name']}"
    await api.patch(path, {"metadata": {"labels": {TEST_LABEL: unique}}})
    await api.patch(path, {"metadata": {"annotations": {"example.com/a": "1"}}})
    webhook.answers["/"] = allow


async def test_ca_bundle_changes_with_a_plain_patch(
    api: Api, register: Register, webhook: WebhookServer
) -> None:
    configuration = await register("mutating", ["configmaps"])
    path = f"{REGISTRATIONS}/mutatingwebhookconfigurations/{configuration['metadata']['name']}"
    bundle = webhook.client_config()["caBundle"]
    operations = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
    patched = await api.patch(path, operations, JSON_PATCH)
    assert patched["webhooks"][0]["clientConfig"]["caBundle"] == bundle


async def test_defaults_of_a_webhook_are_filled_in(api: Api, make: Make, unique: str) -> None:
    entry = {
        "name": "hook.contract.corewise.io",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "objectSelector": {"matchLabels": {TEST_LABEL: unique}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ],
    }
    path = f"{REGISTRATIONS}/mutatingwebhookconfigurations"
    made = (await make(path, {"metadata": {"name": unique}, "webhooks": [entry]}))["webhooks"][0]
    assert made["failurePolicy"] == "Fail"
    assert made["matchPolicy"] == "Equivalent"
    assert made["timeoutSeconds"] == 10
    assert made["reinvocationPolicy"] == "Never"
    assert made["namespaceSelector"] == {}
    assert made["rules"][0]["scope"] == "*"


async def test_pod_binding_is_reviewed_as_a_binding(
    api: Api,
    namespace: str,
    make: Make,
    pod_body: Object,
    node: str,
    webhook: WebhookServer,
    register: Register,
    unique: str,
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    name = (await make(pods, pod_body))["metadata"]["name"]
    await register("validating", ["pods/binding"])
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"metadata": {"name": name, "labels": {TEST_LABEL: unique}}, "target": target}
    webhook.answers["/"] = deny("the node is full")
    (await api.request("POST", f"{pods}/{name}/binding", body)).refused(403)
    request = webhook.asked()[-1]
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
    assert (request["subResource"], request["operation"]) == ("binding", "CREATE")
    assert request["object"]["target"]["name"] == node
    assert "nodeName" not in (await api.get(f"{pods}/{name}"))["spec"]


async def test_annotations_a_webhook_adds_to_binding_reach_pod(
    api: Api,
    namespace: str,
    make: Make,
    pod_body: Object,
    node: str,
    webhook: WebhookServer,
    register: Register,
    unique: str,
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    name = (await make(pods, pod_body))["metadata"]["name"]
    await register("mutating", ["pods/binding"])
    webhook.answers["/"] = patch(
        {"op": "add", "path": "/metadata/annotations", "value": {"example.com/cpus": "0-1"}}
    )
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"metadata": {"name": name, "labels": {TEST_LABEL: unique}}, "target": target}
    await api.create(f"{pods}/{name}/binding", body)
    assert (await api.get(f"{pods}/{name}"))["metadata"]["annotations"]["example.com/cpus"] == "0-1"
