"""Validating admission policies, and the ones that corewise ships, against a server that evaluates them.

A server takes a moment to notice a policy: each test first waits until a write is refused that has to be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_contract.api import Api, Object, Reply
from kube_contract.conftest import REGISTRATIONS, TEST_LABEL, Grant, Make, eventually, rule

POLICIES = f"{REGISTRATIONS}/validatingadmissionpolicies"
BINDINGS = f"{REGISTRATIONS}/validatingadmissionpolicybindings"
SHIPPED = Path(__file__).parents[2] / "deploy" / "policies"
CLAIM = {"scheduling.koordinator.sh/resource-status": '{"cpuset":"0-6"}'}
AGENT = {"kind": "ServiceAccount", "namespace": "corewise-system", "name": "corewise-agent"}
SCHEDULER_USER = "system:serviceaccount:corewise-system:corewise-scheduler"
AGENT_USER = "system:serviceaccount:corewise-system:corewise-agent"

Put = Callable[..., Awaitable[None]]


@pytest.fixture
def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
def put(make: Make, unique: str) -> Put:
    """Create a policy about ConfigMaps of this test, and its binding."""

    async def create(actions: tuple[str, ...] = ("Deny",), **spec: Any) -> None:
        selector = {"matchLabels": {TEST_LABEL: unique}}
        constraints = {"objectSelector": selector, "resourceRules": [rule(["configmaps"])]}
        body = {"metadata": {"name": unique}, "spec": {"matchConstraints": constraints, **spec}}
        await make(POLICIES, body)
        bound = {"policyName": unique, "validationActions": list(actions)}
        await make(BINDINGS, {"metadata": {"name": f"{unique}-bound"}, "spec": bound})

    return create


def a_map(unique: str, name: str = "one", **data: str) -> Object:
    return {"metadata": {"name": name, "labels": {TEST_LABEL: unique}}, "data": data}


async def refused(api: Api, path: str, body: Object, code: int = 422) -> Object:
    """The Status of a creation that is refused as soon as the server has noticed the policy."""
    last: list[Reply] = []

    async def is_refused() -> bool:
        last[:] = [await api.request("POST", path, body, dryRun="All")]
        return last[0].code == code

    await eventually(is_refused)
    return dict(last[0].body)


async def test_a_refusal_names_policy_binding_and_message(
    api: Api, config_maps: str, put: Put, unique: str
) -> None:
    await put(validations=[{"expression": "object.data.size() < 2", "message": "one key is enough"}])
    status = await refused(api, config_maps, a_map(unique, a="1", b="2"))
    policy = f"ValidatingAdmissionPolicy '{unique}' with binding '{unique}-bound'"
    told = f"{policy} denied request: one key is enough"
    assert status["message"] == f'configmaps "one" is forbidden: {told}'
    assert status["reason"] == "Invalid"
    assert status["details"] == {"name": "one", "kind": "configmaps", "causes": [{"message": told}]}
    await api.create(config_maps, a_map(unique, a="1"))


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("RequestEntityTooLarge", 413)])
async def test_the_reason_decides_the_code(
    api: Api, config_maps: str, put: Put, unique: str, reason: str, code: int
) -> None:
    await put(validations=[{"expression": "false", "message": "no", "reason": reason}])
    assert (await refused(api, config_maps, a_map(unique), code))["reason"] == reason


@pytest.mark.parametrize(
    ("validation", "said"),
    [
        ({"expression": " false "}, "failed expression: false"),
        ({"expression": "false", "messageExpression": "'named ' + object.metadata.name"}, "named one"),
        (
            {"expression": "false", "messageExpression": "'x' + object.data.absent", "message": "plain"},
            "plain",
        ),
        ({"expression": "false", "messageExpression": "'  '", "message": "plain"}, "plain"),
        ({"expression": "false", "messageExpression": "'a\\nb'", "message": "plain"}, "plain"),
    ],
)
async def test_the_message_is_the_best_that_there_is(
    api: Api, config_maps: str, put: Put, unique: str, validation: Object, said: str
) -> None:
    await put(validations=[validation])
    status = await refused(api, config_maps, a_map(unique, a="1"))
    assert status["message"].endswith(f" denied request: {said}")


async def test_the_first_validation_that_is_not_true_refuses(
    api: Api, config_maps: str, put: Put, unique: str
) -> None:
    validations = [{"expression": text, "message": text} for text in ("true", "1 > 2", "false")]
    await put(validations=validations)
    assert (await refused(api, config_maps, a_map(unique)))["message"].endswith(": 1 > 2")


async def test_expressions_see_both_objects_request_and_namespace(
    api: Api, config_maps: str, put: Put, unique: str, namespace: str
) -> None:
    expressions = [
        "request.operation != 'UPDATE' || object.data.a >= oldObject.data.a",
        "request.operation != 'CREATE' || oldObject == null",
        f"request.namespace == '{namespace}' && namespaceObject.metadata.name == '{namespace}'",
        "request.resource.resource == 'configmaps' && request.kind.kind == 'ConfigMap'",
        "request.name == object.metadata.name && request.dryRun in [true, false]",
        "request.userInfo.groups.exists(group, group == 'system:authenticated')",
        "!has(request.subResource) || request.subResource == ''",
        "object.metadata.name != 'canary'",
    ]
    await put(validations=[{"expression": text} for text in expressions])
    await refused(api, config_maps, a_map(unique, "canary", a="5"))
    await api.create(config_maps, a_map(unique, a="5"))
    reply = await api.request("PUT", f"{config_maps}/one", a_map(unique, a="4"))
    assert f"failed expression: {expressions[0]}" in reply.refused(422, "Invalid")["message"]
    await api.replace(f"{config_maps}/one", a_map(unique, a="6"))


async def test_variables_build_on_each_other_despite_absent_fields(
    api: Api, config_maps: str, put: Put, unique: str
) -> None:
    variables = [
        {"name": "stated", "expression": "object.?data[?'a'].orValue('none')"},
        {"name": "allowed", "expression": "['none', '1']"},
        {"name": "good", "expression": "variables.stated in variables.allowed"},
        {"name": "unused", "expression": "object.data.absent"},
    ]
    await put(variables=variables, validations=[{"expression": "variables.good"}])
    await refused(api, config_maps, a_map(unique, a="2"))
    await api.create(config_maps, a_map(unique, a="1"))
    await api.create(config_maps, a_map(unique, "two"))


async def test_match_conditions_exempt_a_write(api: Api, config_maps: str, put: Put, unique: str) -> None:
    conditions = [
        {"name": "fails", "expression": "object.data.absent == 'x'"},
        {"name": "decides", "expression": "object.metadata.name == 'canary'"},
    ]
    await put(matchConditions=conditions, validations=[{"expression": "true"}])
    await refused(api, config_maps, a_map(unique, "canary", a="1"))
    await api.create(config_maps, a_map(unique, a="1"))


@pytest.mark.parametrize(("policy", "code"), [("Fail", 422), ("Ignore", 201)])
async def test_failure_policy_decides_when_expression_has_no_value(
    api: Api, config_maps: str, put: Put, unique: str, policy: str, code: int
) -> None:
    canary = {"expression": "object.metadata.name != 'canary'"}
    await put(failurePolicy=policy, validations=[canary, {"expression": "object.data.absent == 'x'"}])
    await refused(api, config_maps, a_map(unique, "canary", a="1", absent="x"))
    reply = await api.request("POST", config_maps, a_map(unique, a="1"))
    assert reply.code == code


async def test_a_binding_can_warn_instead(api: Api, config_maps: str, put: Put, unique: str) -> None:
    await put(("Warn",), validations=[{"expression": "false", "message": "think again"}])
    policy = f"ValidatingAdmissionPolicy '{unique}' with binding '{unique}-bound'"
    told = f"Validation failed for {policy}: think again"

    async def warned() -> bool:
        reply = await api.request("POST", config_maps, a_map(unique), dryRun="All")
        assert reply.code == 201
        return any(told in warning for warning in reply.warnings)

    await eventually(warned)


async def test_policy_acts_only_while_a_binding_exists(
    api: Api, config_maps: str, put: Put, unique: str
) -> None:
    await put(validations=[{"expression": "false"}])
    await refused(api, config_maps, a_map(unique))
    await api.delete(f"{BINDINGS}/{unique}-bound")

    async def passes() -> bool:
        return (await api.request("POST", config_maps, a_map(unique), dryRun="All")).code == 201

    await eventually(passes)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"validations": [{"expression": "1 +"}]}, "spec.validations[0].expression"),
        ({"validations": [{"expression": "nothing == 1"}]}, "spec.validations[0].expression"),
        ({"validations": []}, "spec.validations"),
        (
            {"validations": [{"expression": "true"}], "variables": [{"name": "a", "expression": "("}]},
            "spec.variables[0].expression",
        ),
        ({"validations": [{"expression": "true", "reason": "Mood"}]}, "spec.validations[0].reason"),
        ({"validations": [{"expression": "true", "reason": "Unauthorized"}]}, "spec.validations[0].reason"),
    ],
)
async def test_a_policy_that_cannot_work_is_refused(api: Api, unique: str, spec: Object, field: str) -> None:
    constraints = {"resourceRules": [rule(["configmaps"])]}
    body = {"metadata": {"name": unique}, "spec": {"matchConstraints": constraints, **spec}}
    status = (await api.request("POST", POLICIES, body)).refused(422, "Invalid")
    assert field in {cause["field"] for cause in status["details"]["causes"]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"policyName": "p", "validationActions": []}, "spec.validationActions"),
        ({"policyName": "p", "validationActions": ["Deny", "Warn"]}, "spec.validationActions"),
        ({"validationActions": ["Deny"]}, "spec.policyName"),
    ],
)
async def test_a_binding_that_cannot_work_is_refused(api: Api, unique: str, spec: Object, field: str) -> None:
    body = {"metadata": {"name": unique}, "spec": spec}
    status = (await api.request("POST", BINDINGS, body)).refused(422, "Invalid")
    assert field in {cause["field"] for cause in status["details"]["causes"]}


def shipped(name: str, unique: str) -> tuple[Object, Object]:
    """A shipped policy and its binding, under names of the test's own."""
    policy, binding = yaml.safe_load_all((SHIPPED / f"{name}.yaml").read_text())
    policy["metadata"]["name"] = binding["metadata"]["name"] = unique
    binding["spec"]["policyName"] = unique
    return policy, binding


@pytest.fixture
def ship(make: Make, unique: str, namespace: str) -> Put:
    """Install a shipped policy, bound to this test's namespace, or to its objects where they have none."""

    async def install(name: str) -> None:
        policy, binding = shipped(name, unique)
        here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        mine = {"matchLabels": {TEST_LABEL: unique}}
        bounds = {"objectSelector": mine} if name == "agent-node" else {"namespaceSelector": here}
        binding["spec"]["matchResources"] = bounds
        await make(POLICIES, policy)
        await make(BINDINGS, binding)

    return install


def claiming(body: Object, name: str = "") -> Object:
    meta = body["metadata"]
    return {**body, "metadata": {**meta, "name": name or meta["name"], "annotations": CLAIM}}


@pytest.mark.parametrize(
    "name", [path.stem for path in SHIPPED.glob("*.yaml") if path.stem != "kustomization"]
)
async def test_shipped_policies_are_taken_without_a_warning(api: Api, name: str, unique: str) -> None:
    policy, binding = shipped(name, unique)
    for path, body in ((POLICIES, policy), (BINDINGS, binding)):
        reply = await api.request("POST", path, body, dryRun="All", fieldValidation="Strict")
        reply.ok()
        assert reply.warnings == ()


async def test_only_the_scheduler_may_write_resource_status(
    api: Api, namespace: str, pod_body: Object, ship: Put, grant_in_namespace: Grant
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await ship("resource-status")
    group = f"{namespace}-schedulers"
    subject = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group}
    await grant_in_namespace(subject, {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]})
    status = await refused(api, pods, claiming(pod_body), 403)
    assert "is written by corewise only" in status["message"]
    bound = {**claiming(pod_body), "spec": {**pod_body["spec"], "nodeName": "nowhere"}}
    assert "is written by corewise only" in (await refused(api, pods, bound, 403))["message"]
    path = f"{pods}/{pod_body['metadata']['name']}"
    await api.create(pods, pod_body)
    for target in (path, f"{path}/status"):
        reply = await api.request("PATCH", target, {"metadata": {"annotations": CLAIM}},
                                  content_type="application/merge-patch+json")  # fmt: skip
        assert "is written by corewise only" in reply.refused(403, "Forbidden")["message"]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod_body["metadata"]["name"], "annotations": CLAIM},
        "target": {"kind": "Node", "name": "nowhere"},
    }
    reply = await api.request("POST", f"{path}/binding", binding)
    assert "is written by corewise only" in reply.refused(403, "Forbidden")["message"]
    kube_scheduler = api.acting_as("system:kube-scheduler", group)
    reply = await kube_scheduler.request("POST", f"{path}/binding", binding)
    assert "is written by corewise only" in reply.refused(403, "Forbidden")["message"]
    scheduler = api.acting_as(SCHEDULER_USER, group)
    (await scheduler.request("POST", f"{path}/binding", binding)).ok()
    found = await api.get(path)
    assert found["metadata"]["annotations"].items() >= CLAIM.items()
    body = {"metadata": {"annotations": dict.fromkeys(CLAIM)}}
    for changed in (body, {"metadata": {"annotations": dict.fromkeys(CLAIM, "{}")}}):
        reply = await api.request("PATCH", path, changed, content_type="application/merge-patch+json")
        reply.refused(403, "Forbidden")
    await api.patch(path, {"metadata": {"annotations": {"example.com/other": "free"}}})


async def test_system_and_lse_pods_need_a_listed_namespace(
    api: Api, namespace: str, pod_body: Object, ship: Put
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await ship("qos-class")

    def of_class(qos: str) -> Object:
        meta = pod_body["metadata"]
        return {
            **pod_body,
            "metadata": {**meta, "labels": {**meta["labels"], "koordinator.sh/qosClass": qos}},
        }

    for qos in ("SYSTEM", "LSE"):
        status = await refused(api, pods, of_class(qos), 403)
        assert f"koordinator.sh/qosClass: {qos} is not allowed in namespace {namespace}" in status["message"]
    await api.create(pods, of_class("LSR"))
    path = f"{pods}/{pod_body['metadata']['name']}"
    changed = {"metadata": {"labels": {"koordinator.sh/qosClass": "SYSTEM"}}}
    for target in (path, f"{path}/status"):
        reply = await api.request("PATCH", target, changed, content_type="application/merge-patch+json")
        reply.refused(403, "Forbidden")


async def test_an_agent_writes_its_own_node_only(
    api: Api, node: str, ship: Put, grant: Grant, make: Make, node_body: Object
) -> None:
    await ship("agent-node")
    await grant(AGENT, {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]})
    other = {**node_body, "metadata": {**node_body["metadata"], "name": f"{node}-other"}}
    await make("/api/v1/nodes", other)
    acting = api.acting_as(AGENT_USER, "system:authenticated")
    header = "Impersonate-Extra-authentication.kubernetes.io%2fnode-name"
    on_node = replace(acting, headers={**acting.headers, header: node})

    async def wrote(agent: Api, name: str) -> Reply:
        body = {"metadata": {"annotations": {"example.com/by": "agent"}}}
        path = f"/api/v1/nodes/{name}/status"
        return await agent.request("PATCH", path, body, content_type="application/merge-patch+json")

    async def is_refused(agent: Api, name: str) -> bool:
        return (await wrote(agent, name)).code == 403

    await eventually(partial(is_refused, on_node, f"{node}-other"))
    message = (await wrote(on_node, f"{node}-other")).refused(403, "Forbidden")["message"]
    assert f"the agent of node {node} may not write the object of node {node}-other" in message
    message = (await wrote(acting, node)).refused(403, "Forbidden")["message"]
    assert "the token of the agent names no node" in message
    (await wrote(on_node, node)).ok()
    (await wrote(api, f"{node}-other")).ok()
