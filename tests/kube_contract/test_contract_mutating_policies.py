"""Mutating admission policies: which writes they change, how, and when they refuse one.

Kubernetes serves the kind by default from 1.36 on; on older servers these tests are skipped. A server takes
a moment to notice a policy: each test first waits until a dry run shows its effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_contract.api import JSON_PATCH, Api, Object, Reply
from kube_contract.conftest import REGISTRATIONS, TEST_LABEL, Make, Register, eventually, rule
from service.webhook_server import WebhookServer, patch

POLICIES = f"{REGISTRATIONS}/mutatingadmissionpolicies"
BINDINGS = f"{REGISTRATIONS}/mutatingadmissionpolicybindings"

Put = Callable[..., Awaitable[None]]


@pytest.fixture(autouse=True)
async def _served(api: Api) -> None:
    served = {each["name"] for each in (await api.get(REGISTRATIONS))["resources"]}
    if "mutatingadmissionpolicies" not in served:
        pytest.skip("this server does not serve mutatingadmissionpolicies in admissionregistration.k8s.io/v1")


@pytest.fixture
def config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def json_patch(*operations: str) -> Object:
    """A mutation of JSON patches, each the body of a JSONPatch literal."""
    text = ", ".join(f"JSONPatch{{{each}}}" for each in operations)
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{text}]"}}


def set_data(key: str, value: str) -> Object:
    return json_patch(f"op: 'add', path: '/data/{key}', value: {value}")


@pytest.fixture
def put(make: Make, unique: str) -> Put:
    """Create a policy about objects of this test, and its binding."""

    async def create(
        *mutations: Object, name: str = "", rules: list[Object] | None = None, **spec: Any
    ) -> None:
        name = name or unique
        selector = {"matchLabels": {TEST_LABEL: unique}}
        constraints = {"objectSelector": selector, "resourceRules": rules or [rule(["configmaps"])]}
        body = {"matchConstraints": constraints, "mutations": list(mutations), "reinvocationPolicy": "Never"}
        await make(POLICIES, {"metadata": {"name": name}, "spec": {**body, **spec}})
        await make(BINDINGS, {"metadata": {"name": f"{name}-bound"}, "spec": {"policyName": name}})

    return create


def a_map(unique: str, name: str = "one", **data: str) -> Object:
    return {"metadata": {"name": name, "labels": {TEST_LABEL: unique}}, "data": data}


async def once(ready: Callable[[Reply], bool], api: Api, path: str, body: Object) -> Reply:
    """The reply to a creation once the server has noticed the policy; nothing is created."""
    last: list[Reply] = []

    async def is_ready() -> bool:
        last[:] = [await api.request("POST", path, body, dryRun="All")]
        return ready(last[0])

    await eventually(is_ready)
    return last[0]


async def changed(api: Api, config_maps: str, body: Object) -> Object:
    """The data of a ConfigMap as it would be created, once that is not what was sent."""
    reply = await once(lambda reply: reply.ok()["data"] != body["data"], api, config_maps, body)
    return dict(reply.body["data"])


async def test_patch_is_built_from_variables_and_both_objects(
    api: Api, config_maps: str, put: Put, unique: str
) -> None:
    variables = [
        {"name": "amount", "expression": "quantity(object.data.a)"},
        {"name": "milli", "expression": "int(variables.amount.asApproximateFloat() * 1000.0 + 0.5)"},
        {"name": "unused", "expression": "object.data.absent"},
    ]
    before = "oldObject == null ? 'none' : oldObject.data.a"
    await put(
        set_data("milli", "string(variables.milli)"),
        set_data("before", before),
        json_patch(
            "op: 'add', path: '/metadata/annotations', value: {'example.com/a': 'first'}",
            "op: 'replace', path: '/metadata/annotations/' + jsonpatch.escapeKey('example.com/a'), "
            "value: object.data.before",
        ),
        variables=variables,
    )
    assert await changed(api, config_maps, a_map(unique, a="2.53")) == {
        "a": "2.53",
        "milli": "2530",
        "before": "none",
    }
    await api.create(config_maps, a_map(unique, a="2.53"))
    stored = await api.replace(f"{config_maps}/one", a_map(unique, a="4"))
    assert stored["data"] == {"a": "4", "milli": "4000", "before": "2.53"}
    assert stored["metadata"]["annotations"] == {"example.com/a": "2.53"}
    assert await api.get(f"{config_maps}/one") == stored


async def test_patch_operations_match_those_of_json_patch(
    api: Api, config_maps: str, put: Put, unique: str
) -> None:
    await put(
        json_patch(
            "op: 'test', path: '/data/a', value: '1'",
            "op: 'copy', from: '/data/a', path: '/data/b'",
            "op: 'move', from: '/data/a', path: '/data/c'",
            "op: 'replace', path: '/data/b', value: '2'",
            "op: 'remove', path: '/data/d'",
        )
    )
    assert await changed(api, config_maps, a_map(unique, a="1", d="4")) == {"b": "2", "c": "1"}


async def test_failed_patch_test_keeps_object_and_refuses_nothing(
    api: Api, config_maps: str, put: Put, unique: str
) -> None:
    await put(
        json_patch("op: 'add', path: '/data/half', value: 'done'", "op: 'test', path: '/data/a', value: '2'"),
        json_patch("op: 'test', path: '/data/absent', value: 'x'", "op: 'remove', path: '/data/a'"),
        set_data("last", "'yes'"),
    )
    assert await changed(api, config_maps, a_map(unique, a="1")) == {"a": "1", "last": "yes"}


async def test_mutation_sees_the_result_of_the_previous_one(
    api: Api, config_maps: str, put: Put, unique: str
) -> None:
    await put(
        set_data("b", "object.data.a + '+'"),
        set_data("c", "variables.b + '+'"),
        variables=[{"name": "b", "expression": "has(object.data.b) ? object.data.b : 'none'"}],
    )
    assert await changed(api, config_maps, a_map(unique, a="1")) == {"a": "1", "b": "1+", "c": "1++"}


async def test_match_conditions_exempt_a_write(api: Api, config_maps: str, put: Put, unique: str) -> None:
    conditions = [
        {"name": "fails", "expression": "object.data.absent == 'x'"},
        {"name": "decides", "expression": "object.metadata.name == 'canary'"},
    ]
    await put(set_data("b", "'2'"), matchConditions=conditions)
    assert "b" in await changed(api, config_maps, a_map(unique, "canary", absent="x"))
    assert (await api.create(config_maps, a_map(unique, a="1")))["data"] == {"a": "1"}


async def test_policy_acts_only_while_a_binding_exists(
    api: Api, config_maps: str, put: Put, unique: str
) -> None:
    await put(set_data("b", "'2'"))
    await changed(api, config_maps, a_map(unique, a="1"))
    await api.delete(f"{BINDINGS}/{unique}-bound")
    await once(lambda reply: reply.ok()["data"] == {"a": "1"}, api, config_maps, a_map(unique, a="1"))


@pytest.mark.parametrize(
    "failing",
    [
        set_data("b", "object.data.absent"),
        json_patch("op: 'remove', path: '/data/absent'"),
        json_patch("op: 'add', path: '/absent/b', value: '1'"),
        set_data("b", "quantity(object.data.a)"),
    ],
)
async def test_failure_policy_refuses_or_skips_a_failing_mutation(
    api: Api, config_maps: str, put: Put, unique: str, failing: Object
) -> None:
    await put(failing, set_data("c", "'3'"), name=f"{unique}-a", failurePolicy="Ignore")
    assert await changed(api, config_maps, a_map(unique, a="1")) == {"a": "1", "c": "3"}
    await put(failing, name=f"{unique}-b", failurePolicy="Fail")
    reply = await once(lambda reply: reply.code != 201, api, config_maps, a_map(unique, a="1"))
    status = reply.refused(403)
    assert f"{unique}-b" in status["message"]
    assert "denied request" in status["message"]


async def test_undecodable_result_is_refused_under_any_failure_policy(
    api: Api, config_maps: str, put: Put, unique: str
) -> None:
    await put(set_data("b", "dyn(2)"), failurePolicy="Ignore")
    reply = await once(lambda reply: reply.code != 201, api, config_maps, a_map(unique, a="1"))
    reply.refused(500, "InternalError")


async def test_policies_are_invoked_before_webhooks(
    api: Api, config_maps: str, put: Put, unique: str, webhook: WebhookServer, register: Register
) -> None:
    await put(set_data("policy", "'1'"), name=f"z-{unique}")
    await changed(api, config_maps, a_map(unique, a="1"))
    webhook.answers["/first"] = patch({"op": "add", "path": "/data/webhook", "value": "2"})
    await register("Mutating", ["configmaps"], path="/first", name=f"a-{unique}")
    stored = await api.create(config_maps, a_map(unique, a="1"))
    assert stored["data"] == {"a": "1", "policy": "1", "webhook": "2"}
    assert webhook.asked("/first")[-1]["object"]["data"] == {"a": "1", "policy": "1"}


@pytest.mark.parametrize(("reinvocation", "seen"), [("Never", "absent"), ("IfNeeded", "2")])
async def test_policy_is_invoked_after_webhook_if_it_asks(
    api: Api, config_maps: str, put: Put, unique: str, webhook: WebhookServer, register: Register,
    reinvocation: str, seen: str,
) -> None:  # fmt: skip
    value = "has(object.data.webhook) ? object.data.webhook : 'absent'"
    await put(set_data("seen", value), reinvocationPolicy=reinvocation)
    await changed(api, config_maps, a_map(unique, a="1"))
    webhook.answers["/late"] = patch({"op": "add", "path": "/data/webhook", "value": "2"})
    await register("Mutating", ["configmaps"], path="/late")
    stored = await api.create(config_maps, a_map(unique, a="1"))
    assert stored["data"] == {"a": "1", "webhook": "2", "seen": seen}


NODE_STATUS = [rule(["nodes/status"], ["UPDATE"])]
DOUBLED = [
    {"name": "raw", "expression": "quantity(object.status.allocatable.cpu)"},
    {"name": "milli", "expression": "int(variables.raw.asApproximateFloat() * 1000.0 + 0.5)"},
    {
        "name": "applied",
        "expression": "has(object.metadata.annotations) ? "
        "object.metadata.annotations[?'example.com/applied'].orValue('') : ''",
    },
]
DOUBLE = [
    json_patch(
        "op: 'add', path: '/status/allocatable/cpu', value: string(2 * variables.milli) + 'm'",
        "op: 'add', path: '/metadata/annotations/example.com~1applied', "
        "value: string(2 * variables.milli) + 'm'",
    )
]
NOT_APPLIED = [
    {
        "name": "not-applied",
        "expression": "!has(object.metadata.annotations) || "
        "!('example.com/applied' in object.metadata.annotations) || "
        "quantity(object.metadata.annotations['example.com/applied'])"
        ".compareTo(quantity(object.status.allocatable.cpu)) != 0",
    }
]


async def status_patch(api: Api, path: str, cpu: str, **query: str) -> Any:
    return await api.patch(f"{path}/status", {"status": {"allocatable": {"cpu": cpu}}}, **query)


async def test_node_status_policy_sets_annotations_without_quiet_writes(
    api: Api, put: Put, node: str
) -> None:
    path = f"/api/v1/nodes/{node}"
    await put(*DOUBLE, rules=NODE_STATUS, variables=DOUBLED, matchConditions=NOT_APPLIED)

    async def doubles() -> bool:
        return bool((await status_patch(api, path, "4", dryRun="All"))["status"]["allocatable"]["cpu"] == "8")

    await eventually(doubles)
    stored = await status_patch(api, path, "4")
    assert stored["status"]["allocatable"]["cpu"] == "8"
    assert stored["metadata"]["annotations"]["example.com/applied"] == "8000m"
    assert stored["metadata"]["annotations"]["example.com/kept"] == "yes"
    again = await status_patch(api, path, "4")
    assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    labeled = await api.patch(path, {"metadata": {"labels": {"example.com/x": "y"}}})
    assert labeled["status"]["allocatable"]["cpu"] == "8"
    empty = await api.patch(f"{path}/status", {"status": {}})
    assert empty["metadata"]["resourceVersion"] == labeled["metadata"]["resourceVersion"]
    raised = await api.patch(
        f"{path}/status",
        [{"op": "replace", "path": "/status/allocatable/cpu", "value": "2530m"}],
        content_type=JSON_PATCH,
    )
    assert raised["status"]["allocatable"]["cpu"] == "5060m"
    assert await api.get(path) == raised


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"mutations": []}, "spec.mutations"),
        ({"mutations": [json_patch("op: 1")]}, "spec.mutations[0].jsonPatch.expression"),
        (
            {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "object.patches"}}]},
            "spec.mutations[0].jsonPatch.expression",
        ),
        ({"mutations": [{"patchType": "Merge"}]}, "spec.mutations[0].patchType"),
        ({"mutations": [{"patchType": "JSONPatch"}]}, "spec.mutations[0].jsonPatch"),
        ({"reinvocationPolicy": "Always"}, "spec.reinvocationPolicy"),
        ({"variables": [{"name": "a-b", "expression": "1"}]}, "spec.variables[0].name"),
        ({"variables": [{"name": "a", "expression": "[1, 'a']"}]}, "spec.variables[0].expression"),
        (
            {"variables": [{"name": "a", "expression": "jsonpatch.escapeKey('a')"}]},
            "spec.variables[0].expression",
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "variables.b"}],
             "variables": [{"name": "b", "expression": "true"}]},
            "spec.matchConditions[0].expression",
        ),
        ({"matchConditions": [{"name": "a", "expression": "request.foo == ''"}]},
         "spec.matchConditions[0].expression"),
    ],
)  # fmt: skip
async def test_a_policy_that_cannot_work_is_refused(api: Api, unique: str, spec: Object, field: str) -> None:
    constraints = {"resourceRules": [rule(["configmaps"])]}
    body = {
        "matchConstraints": constraints,
        "mutations": [set_data("b", "'2'")],
        "reinvocationPolicy": "Never",
    }
    policy = {"metadata": {"name": unique}, "spec": {**body, **spec}}
    status = (await api.request("POST", POLICIES, policy)).refused(422, "Invalid")
    assert field in {cause["field"] for cause in status["details"]["causes"]}


async def test_defaults_of_a_policy_and_its_binding(api: Api, put: Put, unique: str) -> None:
    await put(set_data("b", "'2'"))
    stored = await api.get(f"{POLICIES}/{unique}")
    assert stored["spec"]["failurePolicy"] == "Fail"
    assert stored["spec"]["matchConstraints"]["matchPolicy"] == "Equivalent"
    assert stored["metadata"]["generation"] == 1
    assert "status" not in stored
    reply = await api.request("POST", BINDINGS, {"metadata": {"name": f"{unique}-none"}, "spec": {}})
    assert {"spec.policyName"} <= {each["field"] for each in reply.refused(422)["details"]["causes"]}
