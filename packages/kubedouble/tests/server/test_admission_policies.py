"""Admission policies, apart from the server: what the contract cannot ask of a real one, or only here."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from admission_objects import ADMIN, Objects, named, write
from kubedouble import LocalAPIServer, expressions, serve
from kubedouble.admission import Admission
from kubedouble.admission_policies import Policies
from kubedouble.errors import StatusError
from kubedouble.schema.kinds import builtin_schema
from kubedouble.schema.validation import problems
from kubedouble.server import NEW_IN_1_36
from kubedouble.validating_policies import BINDINGS, POLICIES, ValidatingPolicies

GROUP = "admissionregistration.k8s.io"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}


@asynccontextmanager
async def connected(server: LocalAPIServer, folder: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """Log in as an administrator."""
    pair = server.authority.issue_client("admin", ADMIN.groups, now=server.cluster.clock())
    file = folder / "admin.pem"
    file.write_text(pair.certificate_pem + pair.key_pem)
    context = ssl.create_default_context(cadata=server.ca_pem)
    context.load_cert_chain(file)
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(server.url, connector=connector) as session:
        yield session


def refusing(name: str = "no", **spec: Any) -> dict[str, Any]:
    """A policy that refuses every write of a pod."""
    body = {
        "matchConstraints": {"resourceRules": [PODS]},
        "validations": [{"expression": "false", "message": "no pods"}],
        "failurePolicy": "Fail",
        **spec,
    }
    return named(name, spec=body)


def bound(policy: str = "no", **spec: Any) -> dict[str, Any]:
    return named(f"{policy}-bound", spec={"policyName": policy, "validationActions": ["Deny"], **spec})


def world(*policies: dict[str, Any], bindings: list[dict[str, Any]]) -> Objects:
    namespace = {"metadata": {"name": "team", "labels": {"tier": "gold"}, "resourceVersion": "1"}}
    return Objects(**{POLICIES: list(policies), BINDINGS: bindings}, namespaces=[namespace])


def outcome(objects: Objects, name: str = "web", obj: Any = None, **more: Any) -> str:
    """Return the message that refuses the creation of a pod, or nothing."""
    attributes = write(ADMIN, more.pop("operation", "CREATE"), "pods", name, namespace="team")
    try:
        ValidatingPolicies(objects).validate(attributes, obj or named(name), None)
    except StatusError as refusal:
        return refusal.message.rpartition("denied request: ")[2]
    return ""


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "cel", None)


@pytest.mark.parametrize(
    ("matching", "name", "refused"),
    [
        ({}, "web", True),
        ({"namespaceSelector": {"matchLabels": {"tier": "gold"}}}, "web", True),
        ({"namespaceSelector": {"matchLabels": {"tier": "iron"}}}, "web", False),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, "web", False),
        ({"resourceRules": [PODS]}, "web", True),
        ({"resourceRules": [{**PODS, "operations": ["DELETE"]}]}, "web", False),
        ({"resourceRules": [{**PODS, "resourceNames": ["web"]}]}, "web", True),
        ({"resourceRules": [{**PODS, "resourceNames": ["web"]}]}, "other", False),
        ({"excludeResourceRules": [{**PODS, "resourceNames": ["web"]}]}, "web", False),
        ({"excludeResourceRules": [{**PODS, "resourceNames": ["web"]}]}, "other", True),
    ],
)
def test_a_binding_narrows_what_its_policy_concerns(
    matching: dict[str, Any], name: str, refused: bool
) -> None:
    objects = world(refusing(), bindings=[bound(matchResources=matching)])
    assert outcome(objects, name) == ("no pods" if refused else "")


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_policy_without_the_library_follows_its_failure_policy(no_library: None, policy: str) -> None:
    said = outcome(world(refusing(failurePolicy=policy), bindings=[bound()]))
    wanted = f"failed to configure policy: {expressions.MISSING_LIBRARY}"
    assert said == (wanted if policy == "Fail" else "")


def test_without_the_library_a_policy_can_be_stored(no_library: None) -> None:
    schema = builtin_schema(GROUP, "v1", "ValidatingAdmissionPolicy")
    assert schema
    assert problems(refusing(), None, schema) == []


def test_policy_with_parameters_fails_as_unsupported() -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    said = outcome(world(refusing(paramKind=kind), bindings=[bound()]))
    assert "evaluates no policies with parameters" in said


def test_bound_policies_decide_in_name_order() -> None:
    others = [refusing(name, validations=[{"expression": "false", "message": name}]) for name in "cab"]
    objects = world(*others, bindings=[bound("c"), bound("b")])
    assert outcome(objects) == "b"


def test_changed_policy_or_binding_counts_from_next_write() -> None:
    objects = world(refusing(), bindings=[])
    policies = ValidatingPolicies(objects)
    attributes = write(ADMIN, "CREATE", "pods", "web", namespace="team")
    assert policies.validate(attributes, named("web"), None) == []
    objects.objects[BINDINGS] = [bound()]
    with pytest.raises(StatusError, match="no pods"):
        policies.validate(attributes, named("web"), None)
    objects.objects[BINDINGS] = [{**bound(validationActions=["Audit"])}]
    objects.objects[BINDINGS][0]["metadata"]["resourceVersion"] = "2"
    assert policies.validate(attributes, named("web"), None) == []


def test_policy_without_a_binding_is_not_compiled() -> None:
    compiled: list[str] = []
    first, second = refusing("a"), refusing("b", failurePolicy="Ignore")
    objects = world(first, second, bindings=[bound("a")])
    policies = Policies(objects, POLICIES, BINDINGS, lambda spec: compiled.append(spec["failurePolicy"]))
    attributes = write(ADMIN, "CREATE", "pods", "web", namespace="team")
    assert [policy.name for policy, _ in policies.concerned(attributes, named("web"), None)] == ["a"]
    assert compiled == ["Fail"]


def test_no_policy_keeps_anyone_from_removing_a_policy() -> None:
    everything = {**PODS, "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    objects = world(refusing(matchConstraints={"resourceRules": [everything]}), bindings=[bound()])
    policies = ValidatingPolicies(objects)
    for resource in (POLICIES, BINDINGS, "validatingwebhookconfigurations"):
        attributes = write(ADMIN, "DELETE", resource, "no", group=GROUP)
        assert policies.validate(attributes, None, named("no")) == []
    with pytest.raises(StatusError):
        policies.validate(write(ADMIN, "DELETE", "pods", "web", namespace="team"), None, named("web"))


@pytest.mark.parametrize(
    "text",
    ["object.a.b.c == 1", "object.metadata.labels['x'] == 'y'", "[1][2] == 1", "1 / object.zero == 1"],
)
def test_expression_without_a_value_refuses_and_is_named(text: str) -> None:
    said = outcome(
        world(refusing(validations=[{"expression": text}]), bindings=[bound()]),
        obj={**named("web"), "zero": 0},
    )
    assert said.startswith(f"expression '{text}' resulted in error: ")


def test_deep_objects_and_large_texts_are_evaluated_normally() -> None:
    deep: Any = "x" * 1_000_000
    for _ in range(50):
        deep = {"a": deep}
    rule = [{"expression": "size(object.deep.a.a.a) == 1", "message": "shallow"}]
    objects = world(refusing(validations=rule), bindings=[bound()])
    assert outcome(objects, obj={**named("web"), "deep": deep}) == ""


MUTATING = {
    "matchConstraints": {"resourceRules": [PODS]},
    "failurePolicy": "Fail",
    "reinvocationPolicy": "Never",
}
APPLY = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}


def labels(text: str) -> dict[str, Any]:
    """A mutation that sets the labels."""
    patch = f"[JSONPatch{{op: 'add', path: '/metadata/labels', value: {text}}}]"
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}


async def mutated(*policies: dict[str, Any], bindings: list[dict[str, Any]]) -> Any:
    """Return a new pod as admission changes it."""
    objects = Objects(
        mutatingadmissionpolicies=list(policies),
        mutatingadmissionpolicybindings=bindings,
        namespaces=[named("team")],
    )
    attributes = write(ADMIN, "CREATE", "pods", "web", namespace="team")
    admission = Admission(objects)
    try:
        return (await admission.mutate(attributes, named("web"), None))[0]
    finally:
        await admission.close()


async def test_mutating_policies_run_by_name_once_per_binding() -> None:
    one = labels("{'by': (has(object.metadata.labels) ? object.metadata.labels.by : '') + 'a'}")
    two = labels("{'by': object.metadata.labels.by + 'b'}")
    policies = [
        named("b", spec={**MUTATING, "mutations": [two]}),
        named("a", spec={**MUTATING, "mutations": [one]}),
    ]
    bindings = [
        named("1", spec={"policyName": "a"}),
        named("2", spec={"policyName": "b"}),
        named("3", spec={"policyName": "a"}),
    ]
    assert (await mutated(*policies, bindings=bindings))["metadata"]["labels"] == {"by": "aab"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"mutations": [APPLY]}, "evaluates no mutations of patchType ApplyConfiguration"),
        (
            {"mutations": [labels("{}")], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}},
            "evaluates no policies with parameters",
        ),
        ({"mutations": [labels("{'a': ")]}, "compilation failed"),
    ],
)
async def test_unsupported_mutating_policy_follows_its_failure_policy(
    spec: dict[str, Any], said: str
) -> None:
    bindings = [named("1", spec={"policyName": "a"})]
    with pytest.raises(StatusError, match=said) as refused:
        await mutated(named("a", spec={**MUTATING, **spec}), bindings=bindings)
    assert refused.value.code == 403
    ignoring = named("a", spec={**MUTATING, **spec, "failurePolicy": "Ignore"})
    assert await mutated(ignoring, bindings=bindings) == named("web")


@pytest.mark.usefixtures("no_library")
async def test_without_the_library_mutating_policies_are_not_served(tmp_path: Path) -> None:
    async with serve() as server, connected(server, tmp_path) as session:
        found = await (await session.get("/apis/admissionregistration.k8s.io/v1")).json()
    served = {each["name"] for each in found["resources"]}
    assert served & {*NEW_IN_1_36} == set()
    assert "validatingadmissionpolicies" in served


async def test_stored_mutating_policies_are_inert_where_not_served(tmp_path: Path) -> None:
    spec = {**MUTATING, "matchConstraints": {"resourceRules": [{**PODS, "resources": ["configmaps"]}]}}
    policy = {"metadata": {"name": "a"}, "spec": {**spec, "mutations": [labels("{'by': 'a'}")]}}
    binding = {"metadata": {"name": "a"}, "spec": {"policyName": "a"}}
    group, maps = "/apis/admissionregistration.k8s.io/v1", "/api/v1/namespaces/default/configmaps"
    for without, found in (((), {"by": "a"}), (NEW_IN_1_36, None)):
        serving = serve(state_dir=tmp_path / "state", without=without)
        async with serving as server, connected(server, tmp_path) as session:
            for kind, body in (("policies", policy), ("policybindings", binding)):
                answer = await session.post(f"{group}/mutatingadmission{kind}", json=body)
                assert answer.status == (404 if without else 201)
            made = await (await session.post(maps, json={"metadata": {"generateName": "m-"}})).json()
            assert made["metadata"].get("labels") == found
            version = await (await session.get("/version")).json()
            assert version["minor"] == ("35" if without else "36")
