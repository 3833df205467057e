"""Who requests corewise.io/owned-cpus: the policy, evaluated, and the webhook of older servers, say the same.

class            namespace          the pod gets
LSR              any                its request of cpu, in CPUs, in requests and limits of its first container
LSE              any                the same: where it is not allowed, the extender refuses the pod
LS, BE, none     any                nothing: neither policy nor webhook is asked
LSR, stated      any                what it states
LSR, bound       any                nothing

normalize-cpuset: the annotation of the pod, else true by the namespace's label, else by the scheduler's file.

pod            label    file     the pod's annotation
absent         absent   absent   absent
absent         true     absent   true
absent         false    absent   absent
absent         other    absent   absent
absent         absent   true     true
absent         false    true     absent
absent         other    true     true
true, false    any      any      stays
of class LS    any      any      stays
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from admission_world import ADMIN, Objects, named, write
from corewise.cli import corewise
from corewise.scheduler.policy import (
    added,
    mutating_policy,
    normalized,
    policy_binding,
    webhook_configuration,
)
from corewise.vocabulary.names import (
    NORMALIZE_CPUSET,
    OWNED_CPUS_RESOURCE,
    QOS_CLASS,
    RESTRICTED_QOS_NAMESPACES,
)
from corewise.vocabulary.qos import ANY_NAMESPACE, DEFAULT_RULES, QoSRules
from corewise.workload.pods import Pod
from kubedouble.admission import Admission
from kubedouble.mutating_policies import BINDINGS, POLICIES
from kubedouble.patching import json_patch


def stored(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "resourceVersion": "1", "uid": "u"}}


def labeled(name: str, value: str | None) -> dict[str, Any]:
    """Return a namespace with the label that normalizes CPUs, or without."""
    return {"metadata": {"name": name, "labels": {} if value is None else {NORMALIZE_CPUSET: value}}}


LABELS = {"labeled-true": "true", "labeled-false": "false", "labeled-yes": "yes"}
NAMESPACES = [named("default"), named("kube-system"), *(labeled(*each) for each in LABELS.items())]
WORLDS = {
    normalize: Objects(
        **{
            POLICIES: [stored(mutating_policy(normalize=normalize))],
            BINDINGS: [stored(policy_binding(DEFAULT_RULES))],
        },
        namespaces=NAMESPACES,
    )
    for normalize in (False, True)
}


async def by_policy(
    pod: dict[str, Any], namespace: str = "default", *, normalize: bool = False
) -> dict[str, Any]:
    admission = Admission(WORLDS[normalize])
    attributes = write(ADMIN, "CREATE", "pods", "p", namespace=namespace)
    try:
        changed, _ = await admission.mutate(attributes, deepcopy(pod), None)
    finally:
        await admission.close()
    assert changed is not None
    return changed


def by_webhook(pod: dict[str, Any], namespace: str = "default", *, normalize: bool = False) -> dict[str, Any]:
    """Return the pod as the API server makes it by the webhooks' answers, where it asks them at all."""
    if pod["metadata"].get("labels", {}).get(QOS_CLASS) not in {"LSR", "LSE"}:
        return pod
    first, _ = webhook_configuration(lambda path: {"url": path}, DEFAULT_RULES, normalize=normalize)[
        "webhooks"
    ]
    (selected,) = first["namespaceSelector"]["matchExpressions"]
    among = LABELS.get(namespace) in selected["values"]
    reviews = [normalized] if among is (selected["operator"] == "In") else []
    for review in (*reviews, added):
        text = msgspec.json.encode(pod)
        operations = review(msgspec.json.decode(text, type=Pod), msgspec.Raw(text))
        pod = json_patch(pod, msgspec.to_builtins(operations))
    return pod


def choice(pod: dict[str, Any]) -> str | None:
    text: str | None = pod["metadata"].get("annotations", {}).get(NORMALIZE_CPUSET)
    return text


@pytest.mark.parametrize(
    ("namespace", "normalize", "wanted"),
    [
        ("default", False, None),
        ("labeled-true", False, "true"),
        ("labeled-false", False, None),
        ("labeled-yes", False, None),
        ("default", True, "true"),
        ("labeled-true", True, "true"),
        ("labeled-false", True, None),
        ("labeled-yes", True, "true"),
    ],
)
@pytest.mark.parametrize("annotations", [None, {}, {"a": "b"}])
async def test_a_pod_gets_the_choice_of_its_namespace(
    namespace: str, annotations: dict[str, str] | None, wanted: str | None, *, normalize: bool
) -> None:
    pod = a_pod(container("a", "4"))
    if annotations is not None:
        pod["metadata"]["annotations"] = annotations
    changed = await by_policy(pod, namespace, normalize=normalize)
    assert by_webhook(pod, namespace, normalize=normalize) == changed
    assert (choice(changed), stated(changed)) == (wanted, ["4", "4"])
    assert await by_policy(changed, namespace, normalize=normalize) == changed


@pytest.mark.parametrize("value", ["true", "false", "yes", ""])
@pytest.mark.parametrize("namespace", ["default", *LABELS])
@pytest.mark.parametrize("normalize", [False, True])
async def test_a_pods_own_choice_stays(value: str, namespace: str, *, normalize: bool) -> None:
    pod = a_pod(container("a", "4"))
    pod["metadata"]["annotations"] = {NORMALIZE_CPUSET: value}
    changed = await by_policy(pod, namespace, normalize=normalize)
    assert by_webhook(pod, namespace, normalize=normalize) == changed
    assert choice(changed) == value


async def test_pods_that_are_not_marked_get_no_choice() -> None:
    own = a_pod(container("a", "4"))
    own["spec"]["containers"][0]["resources"]["requests"][OWNED_CPUS_RESOURCE] = "4"
    for pod in (
        a_pod(container("a", "4"), qos="LS"),
        a_pod(container("a", "4"), nodeName="n1"),
        a_pod(container("a")),
        own,
    ):
        for changed in (
            await by_policy(pod, "labeled-true", normalize=True),
            by_webhook(pod, "labeled-true", normalize=True),
        ):
            assert changed == pod


def container(name: str, cpu: str | None = None, **rest: Any) -> dict[str, Any]:
    resources = {} if cpu is None else {"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}
    return {"name": name, "image": "i", **resources, **rest}


def a_pod(*containers: dict[str, Any], qos: str = "LSR", **spec: Any) -> dict[str, Any]:
    labels = {QOS_CLASS: qos} if qos else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "labels": labels},
        "spec": {"containers": list(containers), **spec},
    }


def stated(pod: dict[str, Any]) -> list[str | None]:
    """Return the first container's request and limit of the resource; the others state nothing."""
    every: list[dict[str, Any]] = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
    assert OWNED_CPUS_RESOURCE not in json.dumps(every[1:])
    resources = every[0].get("resources", {})
    return [resources.get(each, {}).get(OWNED_CPUS_RESOURCE) for each in ("requests", "limits")]


STEP = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("pod", "cpus"),
    [
        (a_pod(container("a", "4")), "4"),
        (a_pod(container("a", "2"), container("b", "1500m"), container("c", "500m")), "4"),
        (a_pod(container("a", "2500m")), "3"),
        (a_pod(container("a"), container("b", "2")), "2"),
        (a_pod(container("a", "2"), overhead={"cpu": "1", "memory": "1Gi"}), "3"),
        (a_pod(container("a", "2"), initContainers=[container("i", "8")]), "8"),
        (a_pod(container("a", "2"), initContainers=[container("s", "3", **STEP)]), "5"),
        (a_pod(container("a", "2"), initContainers=[container("s", "3", **STEP), container("i", "8")]), "11"),
        (a_pod(container("a", "2"), initContainers=[container("i", "8"), container("s", "3", **STEP)]), "8"),
        (a_pod(container("a", "2"), resources={"requests": {"cpu": "6"}}), "6"),
        (a_pod(container("a", "2"), resources={"requests": {"cpu": "6"}}, overhead={"cpu": "1"}), "7"),
        (a_pod(container("a")), None),
        (a_pod(container("a", "4"), nodeName="n1"), None),
        (a_pod(container("a", "4"), qos="LS"), None),
        (a_pod(container("a", "4"), qos=""), None),
    ],
)
async def test_a_pod_gets_its_request_in_cpus(pod: dict[str, Any], cpus: str | None) -> None:
    for changed in (await by_policy(pod), by_webhook(pod)):
        assert stated(changed) == [cpus, cpus]
    if cpus is None:
        assert await by_policy(pod) == pod


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
async def test_lse_reaches_the_extender_from_any_namespace(namespace: str) -> None:
    pod = a_pod(container("a", "4"), qos="LSE")
    assert stated(await by_policy(pod, namespace)) == stated(by_webhook(pod)) == ["4", "4"]


@pytest.mark.parametrize("place", ["containers", "initContainers"])
@pytest.mark.parametrize("kind", ["requests", "limits"])
async def test_what_a_container_states_stays(place: str, kind: str) -> None:
    pod = a_pod(container("a", "4"), container("b", "4"), initContainers=[container("i", "1")])
    pod["spec"][place][-1]["resources"][kind][OWNED_CPUS_RESOURCE] = "2"
    assert await by_policy(pod) == by_webhook(pod) == pod


async def test_what_one_has_added_the_other_leaves_alone() -> None:
    pod = a_pod(container("a", "4"), container("b", "4"))
    once = await by_policy(pod)
    assert by_webhook(once) == once
    assert await by_policy(by_webhook(pod)) == once


async def test_other_requests_and_limits_of_the_container_stay() -> None:
    pod = a_pod(container("a", "4"))
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = "1Gi"
    changed = (await by_policy(pod))["spec"]["containers"][0]["resources"]
    assert changed == {
        "requests": {"cpu": "4", OWNED_CPUS_RESOURCE: "4"},
        "limits": {"cpu": "4", "memory": "1Gi", OWNED_CPUS_RESOURCE: "4"},
    }


CPU = st.sampled_from(["0", "1m", "250m", "999m", "1", "1001m", "1.5", "2", "4", "64"]) | st.none()
CONTAINERS = st.lists(CPU, min_size=1, max_size=3)
INITS = st.lists(st.tuples(CPU, st.booleans()), max_size=4)


@given(CONTAINERS, INITS, CPU, CPU, st.sampled_from(["LSR", "LSE", "LS", ""]), st.booleans())
async def test_policy_and_webhook_say_the_same(
    cpus: list[str | None],
    inits: list[tuple[str | None, bool]],
    level: str | None,
    overhead: str | None,
    qos: str,
    bound: bool,
) -> None:
    spec: dict[str, Any] = {}
    if inits:
        spec["initContainers"] = [
            container(f"i{number}", cpu, **(STEP if always else {}))
            for number, (cpu, always) in enumerate(inits)
        ]
    if level is not None:
        spec["resources"] = {"requests": {"cpu": level}}
    if overhead is not None:
        spec["overhead"] = {"cpu": overhead}
    if bound:
        spec["nodeName"] = "n"
    pod = a_pod(*(container(f"c{number}", cpu) for number, cpu in enumerate(cpus)), qos=qos, **spec)
    assert await by_policy(pod) == by_webhook(pod)


def test_webhook_covers_only_these_pods_and_fails_closed() -> None:
    both = webhook_configuration(lambda path: {"url": f"https://h{path}"}, DEFAULT_RULES)["webhooks"]
    policy = mutating_policy()["spec"]
    for hook in both:
        assert hook["failurePolicy"] == policy["failurePolicy"] == "Fail"
        assert hook["objectSelector"] == policy["matchConstraints"]["objectSelector"]
        assert hook["rules"] == policy["matchConstraints"]["resourceRules"]
        assert hook["rules"][0]["operations"] == ["CREATE"]
    conditions = policy["matchConditions"]
    assert [hook["matchConditions"][: len(conditions)] for hook in both] == [conditions, conditions]
    assert [each["name"] for each in both[0]["matchConditions"][len(conditions) :]] == ["does-not-state-it"]


def test_the_command_prints_policy_and_binding() -> None:
    answer = CliRunner().invoke(corewise, ["scheduler", "policy"])
    assert answer.exit_code == 0
    assert list(yaml.safe_load_all(answer.stdout)) == [mutating_policy(), policy_binding(DEFAULT_RULES)]
    assert "expression: |-" in answer.stdout
    other = CliRunner().invoke(corewise, ["scheduler", "policy", "--restricted-qos-namespace", "batch"])
    binding = list(yaml.safe_load_all(other.stdout))[1]
    assert binding["metadata"]["annotations"] == {RESTRICTED_QOS_NAMESPACES: '["batch"]'}


@pytest.mark.parametrize(
    ("annotations", "rules"),
    [
        *((each.annotations, each) for each in (DEFAULT_RULES, ANY_NAMESPACE, QoSRules(frozenset({"a,b"})))),
        ({}, None),
        *(({RESTRICTED_QOS_NAMESPACES: text}, None) for text in ("", "kube-system", "[1]", "{}", "[" * 99)),
    ],
)
def test_published_rules_are_read_back(annotations: dict[str, str], rules: QoSRules | None) -> None:
    assert QoSRules.published(annotations) == rules
