"""The policy that marks pods with a stake in interference, on a server that evaluates it.

Kubernetes serves mutating admission policies by default from 1.36 on; on older servers the tests are skipped.
Which pods are marked is the table of packages/corewise/tests/scheduler/test_interference_marking.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import parse_interference
from corewise.scheduler.marking import mutating_policy, policy_binding
from corewise.vocabulary.names import INTERFERENCE_RESOURCE, QOS_CLASS
from kube_contract.api import Api, Object, Reply
from kube_contract.conftest import REGISTRATIONS, Make, eventually

POLICIES = f"{REGISTRATIONS}/mutatingadmissionpolicies"
BINDINGS = f"{REGISTRATIONS}/mutatingadmissionpolicybindings"
NONE = "{memorybandwidth: 0, memorylatency: 0, llc_occupancy: 0, llc_mpki: 0, cpu: 0}"
SLOWED = "{memorybandwidth: 0, memorylatency: 1, llc_occupancy: 0, llc_mpki: 0, cpu: 0}"
TEXT = f"""\
interference:
  typeLabel: app
  profiles:
    slowed: {{affinity: {SLOWED}}}
    quiet: {{profile: {{memoryBandwidth: 1GB/s}}, affinity: {NONE}}}
    tiered:
      affinity: {SLOWED}
      selector:
        matchExpressions:
        - {{key: tier, operator: In, values: [batch, ""]}}
        - {{key: team, operator: NotIn, values: [web]}}
        - {{key: example.com/heavy, operator: Exists}}
        - {{key: light, operator: DoesNotExist}}
"""
TYPES, SELECTORS = 500, 50

Install = Callable[[str], Awaitable[None]]


@pytest.fixture(autouse=True)
async def _served(api: Api) -> None:
    served = {each["name"] for each in (await api.get(REGISTRATIONS))["resources"]}
    if "mutatingadmissionpolicies" not in served:
        pytest.skip("this server does not serve mutatingadmissionpolicies in admissionregistration.k8s.io/v1")


def many_profiles() -> str:
    """Return a configuration of many types at stake, some of them by a selector with every operator."""
    named = "".join(f"    type-{number}: {{affinity: {SLOWED}}}\n" for number in range(TYPES))
    selected = "".join(
        f"""\
    selected-{number}:
      affinity: {SLOWED}
      selector:
        matchExpressions:
        - {{key: example.com/tier-{number}, operator: In, values: [batch, stream]}}
        - {{key: example.com/team-{number}, operator: NotIn, values: [web, front]}}
        - {{key: example.com/heavy-{number}, operator: Exists}}
        - {{key: example.com/light-{number}, operator: DoesNotExist}}
"""
        for number in range(SELECTORS)
    )
    return f"interference:\n  typeLabel: app\n  profiles:\n{named}{selected}"


def configured(text: str) -> InterferenceConfiguration:
    parsed = parse_interference(text)
    assert parsed.value, parsed.errors
    return parsed.value


def policy_and_binding(text: str, unique: str) -> tuple[Object, Object]:
    """Both, under names of the test's own."""
    policy, binding = mutating_policy(configured(text)), policy_binding()
    policy["metadata"]["name"] = binding["metadata"]["name"] = binding["spec"]["policyName"] = unique
    return policy, binding


@pytest.fixture
def install(api: Api, make: Make, unique: str, namespace: str, pod_body: Object) -> Install:
    """Install a configuration's policy for this test's namespace, and wait until the server evaluates it."""

    async def done(text: str) -> None:
        policy, binding = policy_and_binding(text, unique)
        here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        binding["spec"]["matchResources"] = {"namespaceSelector": here}
        await make(POLICIES, policy)
        await make(BINDINGS, binding)
        probe = labeled(pod_body, app=configured(text).at_stake[0].name)

        async def is_evaluated() -> bool:
            return marks(await created(api, namespace, probe)) == ["0", "0"]

        await eventually(is_evaluated)

    return done


def labeled(body: Object, **labels: str) -> Object:
    return {**body, "metadata": {**body["metadata"], "labels": {**body["metadata"]["labels"], **labels}}}


async def created(api: Api, namespace: str, body: Object) -> Reply:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    return await api.request("POST", pods, body, dryRun="All", fieldValidation="Strict")


def marks(reply: Reply) -> list[str | None]:
    """Return the first container's request of the resource, and its limit."""
    resources = reply.ok()["spec"]["containers"][0]["resources"]
    return [resources.get(each, {}).get(INTERFERENCE_RESOURCE) for each in ("requests", "limits")]


@pytest.mark.parametrize("text", [TEXT, many_profiles()], ids=["few", "many"])
async def test_it_is_taken_without_a_warning(api: Api, unique: str, text: str) -> None:
    for path, body in zip((POLICIES, BINDINGS), policy_and_binding(text, unique), strict=True):
        reply = await api.request("POST", path, body, dryRun="All", fieldValidation="Strict")
        reply.ok()
        assert reply.warnings == ()


TIERED = {"app": "other", "tier": "batch", "team": "x", "example.com/heavy": "no"}
WITHOUT_TEAM = {key: TIERED[key] for key in TIERED if key != "team"}


@pytest.mark.parametrize(
    ("labels", "is_marked"),
    [
        ({"app": "slowed"}, True),
        ({"app": "slowed", QOS_CLASS: "BE"}, True),
        ({"app": "slowed", QOS_CLASS: "LSR"}, False),
        ({"app": "slowed", QOS_CLASS: "LSE"}, False),
        ({"app": "quiet"}, False),
        ({"app": "other"}, False),
        ({}, False),
        (TIERED, True),
        ({**TIERED, "tier": ""}, True),
        (WITHOUT_TEAM, True),
        ({**TIERED, "tier": "front"}, False),
        ({**TIERED, "team": "web"}, False),
        ({**TIERED, "light": ""}, False),
        ({"tier": "batch", "team": "x"}, False),
    ],
)
async def test_pods_with_a_stake_are_marked(
    api: Api, namespace: str, pod_body: Object, install: Install, labels: dict[str, str], is_marked: bool
) -> None:
    await install(TEXT)
    wanted = ["0", "0"] if is_marked else [None, None]
    assert marks(await created(api, namespace, labeled(pod_body, **labels))) == wanted


async def test_pod_without_labels_is_no_error(
    api: Api, namespace: str, pod_body: Object, install: Install
) -> None:
    await install(TEXT)
    bare = {**pod_body, "metadata": {"name": pod_body["metadata"]["name"]}}
    assert marks(await created(api, namespace, bare)) == [None, None]


@pytest.mark.parametrize(("kind", "is_marked"), [("DaemonSet", False), ("ReplicaSet", True)])
async def test_pods_of_daemon_sets_are_not_marked(
    api: Api, namespace: str, pod_body: Object, install: Install, kind: str, is_marked: bool
) -> None:
    await install(TEXT)
    body = labeled(pod_body, app="slowed")
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
    body["metadata"]["ownerReferences"] = [owner]
    wanted = ["0", "0"] if is_marked else [None, None]
    assert marks(await created(api, namespace, body)) == wanted


def naming(name: str) -> Object:
    amounts = {INTERFERENCE_RESOURCE: "0"}
    resources = {"requests": amounts, "limits": amounts}
    return {"name": name, "image": "registry.invalid/none", "resources": resources}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "nowhere"},
        {"containers": [{"name": "a", "image": "i"}, naming("b")]},
        {"containers": [{"name": "a", "image": "i"}], "initContainers": [naming("b")]},
    ],
    ids=["bound", "named by a container", "named by an init container"],
)
async def test_bound_and_named_ones_are_left_alone(
    api: Api, namespace: str, pod_body: Object, install: Install, spec: dict[str, Any]
) -> None:
    await install(TEXT)
    body = labeled({**pod_body, "spec": {**pod_body["spec"], **spec}}, app="slowed")
    assert marks(await created(api, namespace, body)) == [None, None]


async def test_many_profiles_are_evaluated_within_cost_limits(
    api: Api, namespace: str, pod_body: Object, install: Install
) -> None:
    await install(many_profiles())
    last = SELECTORS - 1
    selected = {f"example.com/{each}-{last}": "batch" for each in ("tier", "heavy")}
    for labels, wanted in (
        ({"app": f"type-{TYPES - 1}"}, "0"),
        (selected, "0"),
        ({**selected, f"example.com/light-{last}": ""}, None),
        ({"app": "other"}, None),
    ):
        assert marks(await created(api, namespace, labeled(pod_body, **labels))) == [wanted, wanted], labels
