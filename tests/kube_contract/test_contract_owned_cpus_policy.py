"""The policy that makes pods that own CPUs request corewise.io/owned-cpus, on a server that evaluates it.

Kubernetes serves mutating admission policies by default from 1.36 on; on older servers the tests are skipped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from corewise.scheduler.policy import mutating_policy, policy_binding
from corewise.vocabulary.qos import DEFAULT_RULES
from kube_contract.api import Api, Object, Reply
from kube_contract.conftest import REGISTRATIONS, Make, eventually

POLICIES = f"{REGISTRATIONS}/mutatingadmissionpolicies"
BINDINGS = f"{REGISTRATIONS}/mutatingadmissionpolicybindings"
RESOURCE = "corewise.io/owned-cpus"
QOS = "koordinator.sh/qosClass"
NORMALIZE = "node.corewise.io/normalize-cpuset"
STEP = {"restartPolicy": "Always"}

Install = Callable[[], Awaitable[None]]


@pytest.fixture(autouse=True)
async def _served(api: Api) -> None:
    served = {each["name"] for each in (await api.get(REGISTRATIONS))["resources"]}
    if "mutatingadmissionpolicies" not in served:
        pytest.skip("this server does not serve mutatingadmissionpolicies in admissionregistration.k8s.io/v1")


def policy_and_binding(unique: str) -> tuple[Object, Object]:
    """Both, under names of the test's own."""
    policy, binding = mutating_policy(), policy_binding(DEFAULT_RULES)
    policy["metadata"]["name"] = binding["metadata"]["name"] = binding["spec"]["policyName"] = unique
    return policy, binding


@pytest.fixture
def install(api: Api, make: Make, unique: str, namespace: str, pod_body: Object) -> Install:
    """Install the policy for this test's namespace, and wait until the server evaluates it."""

    async def done() -> None:
        policy, binding = policy_and_binding(unique)
        here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        binding["spec"]["matchResources"] = {"namespaceSelector": here}
        await make(POLICIES, policy)
        await make(BINDINGS, binding)
        pods = f"/api/v1/namespaces/{namespace}/pods"

        async def is_evaluated() -> bool:
            reply = await api.request("POST", pods, of_class(pod_body, "LSR"), dryRun="All")
            return stated(reply) == ["1", "1"]

        await eventually(is_evaluated)

    return done


def of_class(body: Object, qos: str) -> Object:
    meta = body["metadata"]
    return {**body, "metadata": {**meta, "labels": {**meta["labels"], QOS: qos}}}


def stated(reply: Reply) -> list[str | None]:
    """Return the first container's request of the resource, and its limit."""
    resources = reply.ok()["spec"]["containers"][0]["resources"]
    return [resources.get(each, {}).get(RESOURCE) for each in ("requests", "limits")]


def container(name: str, cpu: str, **rest: Any) -> Object:
    amounts = {"cpu": cpu}
    return {
        "name": name,
        "image": "registry.invalid/none",
        "resources": {"requests": amounts, "limits": amounts},
        **rest,
    }


async def test_it_is_taken_without_a_warning(api: Api, unique: str) -> None:
    for path, body in zip((POLICIES, BINDINGS), policy_and_binding(unique), strict=True):
        reply = await api.request("POST", path, body, dryRun="All", fieldValidation="Strict")
        reply.ok()
        assert reply.warnings == ()


@pytest.mark.parametrize(
    ("spec", "cpus"),
    [
        ({"containers": [container("a", "4")]}, "4"),
        ({"containers": [container("a", "1500m"), container("b", "500m")]}, "2"),
        ({"containers": [container("a", "2500m")]}, "3"),
        ({"containers": [container("a", "2")], "initContainers": [container("i", "8")]}, "8"),
        ({"containers": [container("a", "2")], "initContainers": [container("s", "3", **STEP)]}, "5"),
        (
            {
                "containers": [container("a", "2")],
                "initContainers": [container("s", "3", **STEP), container("i", "8")],
            },
            "11",
        ),
        (
            {
                "containers": [container("a", "2")],
                "initContainers": [container("i", "8"), container("s", "3", **STEP)],
            },
            "8",
        ),
        ({"containers": [{"name": "a", "image": "i"}]}, None),
        ({"containers": [container("a", "4")], "nodeName": "nowhere"}, None),
    ],
)
async def test_pod_requests_as_many_owned_cpus_as_cpu(
    api: Api, namespace: str, pod_body: Object, install: Install, spec: Object, cpus: str | None
) -> None:
    await install()
    body = of_class({**pod_body, "spec": {**pod_body["spec"], **spec}}, "LSR")
    reply = await api.request("POST", f"/api/v1/namespaces/{namespace}/pods", body, fieldValidation="Strict")
    assert stated(reply) == [cpus, cpus]


async def test_only_pods_of_the_two_classes_are_changed(
    api: Api, namespace: str, pod_body: Object, install: Install
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await install()
    for qos in ("LS", "BE"):
        reply = await api.request("POST", pods, of_class(pod_body, qos), dryRun="All")
        assert stated(reply) == [None, None], qos
    assert stated(await api.request("POST", pods, pod_body, dryRun="All")) == [None, None]


async def test_lse_reaches_the_extender_from_any_namespace(
    api: Api, namespace: str, pod_body: Object, install: Install
) -> None:
    await install()
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert stated(await api.request("POST", pods, of_class(pod_body, "LSE"), dryRun="All")) == ["1", "1"]


@pytest.mark.parametrize(("label", "own", "wanted"), [("true", None, "true"), ("true", "false", "false")])
async def test_a_namespaces_label_normalizes_its_new_pods(
    api: Api, namespace: str, pod_body: Object, install: Install, label: str, own: str | None, wanted: str
) -> None:
    await install()
    await api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {NORMALIZE: label}}})
    body = of_class(pod_body, "LSR")
    body["metadata"]["annotations"] = {} if own is None else {NORMALIZE: own}

    async def is_seen() -> bool:
        reply = await api.request("POST", f"/api/v1/namespaces/{namespace}/pods", body, dryRun="All")
        made: Object = reply.ok()["metadata"].get("annotations", {})
        return made.get(NORMALIZE) == wanted

    await eventually(is_seen)


async def test_what_a_pod_states_itself_stays(
    api: Api, namespace: str, pod_body: Object, install: Install
) -> None:
    await install()
    both = {"cpu": "4", RESOURCE: "2"}
    own = {**container("a", "4"), "resources": {"requests": both, "limits": both}}
    body = of_class({**pod_body, "spec": {**pod_body["spec"], "containers": [own]}}, "LSR")
    reply = await api.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    assert stated(reply) == ["2", "2"]


async def test_a_later_write_is_left_alone(
    api: Api, namespace: str, pod_body: Object, install: Install
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    path = f"{pods}/{pod_body['metadata']['name']}"
    await install()
    await api.create(pods, pod_body)
    changed = await api.patch(path, {"metadata": {"labels": {QOS: "LSR"}}})
    assert RESOURCE not in str(changed["spec"])
