"""The admission policies under deploy/policies, evaluated: every way to write what only corewise may write.

=====================================  ==========================================================
who may write resource-status          corewise's scheduler, which binds; no one else, in no way
who may resize a pod that owns CPUs    no one, but for memory
where SYSTEM and LSE pods may be       kube-system, as agents and scheduler have it
what an agent may write                Node and NodeResourceTopology of the node its token names,
                                       but not the ledger of owned CPUs on that Node
=====================================  ==========================================================
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission_world import Objects, named, write
from corewise.vocabulary.names import (
    OFFLINE_REPORT,
    OWNED_CPUS,
    OWNED_MILLI_CPU,
    OWNED_REQUESTS,
    QOS_CLASS,
    RESOURCE_STATUS,
)
from corewise.vocabulary.qos import DEFAULT_NAMESPACES
from kubedouble.admission import Admission
from kubedouble.admission_matching import Attributes
from kubedouble.authentication import User, service_account
from kubedouble.errors import StatusError
from kubedouble.validating_policies import BINDINGS, POLICIES

DEPLOY = Path(__file__).parents[2] / "deploy"
FOLDER = DEPLOY / "policies"
CLAIM = '{"cpuset":"0-6"}'

TENANT = User("tenant", ("system:authenticated",))
ADMIN = User("admin", ("system:masters", "system:authenticated"))
KUBELET = User("system:node:n1", ("system:nodes", "system:authenticated"))
CONTROLLER = service_account("kube-system", "replicaset-controller")
KUBE_SCHEDULER = User("system:kube-scheduler", ("system:authenticated",))
SCHEDULER = service_account("corewise-system", "corewise-scheduler")
AGENT = service_account("corewise-system", "corewise-agent")
NODE_CLAIM = "authentication.kubernetes.io/node-name"


def manifests() -> list[dict[str, Any]]:
    (kustomization,) = yaml.safe_load_all((FOLDER / "kustomization.yaml").read_text())
    names = kustomization["resources"]
    return [each for name in names for each in yaml.safe_load_all((FOLDER / name).read_text())]


def stored(kind: str) -> list[dict[str, Any]]:
    found = [each for each in manifests() if each["kind"] == kind]
    return [{**each, "metadata": {**each["metadata"], "resourceVersion": "1"}} for each in found]


WORLD = Objects(
    **{POLICIES: stored("ValidatingAdmissionPolicy"), BINDINGS: stored("ValidatingAdmissionPolicyBinding")},
    namespaces=[named(name) for name in ("team", "kube-system", "corewise-system")],
)


async def refusal(attributes: Any, obj: Any, old: Any = None) -> StatusError | None:
    admission = Admission(WORLD)
    try:
        await admission.validate(attributes, obj, old)
    except StatusError as error:
        return error
    finally:
        await admission.close()
    return None


def pod(claim: str | None = None, qos: str | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "web", "namespace": "team"}
    if claim is not None:
        metadata["annotations"] = {RESOURCE_STATUS: claim}
    if qos is not None:
        metadata["labels"] = {QOS_CLASS: qos}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [], **spec}}


def binding(**stated: str) -> dict[str, Any]:
    return {**pod(**stated), "kind": "Binding", "target": {"kind": "Node", "name": "n1"}, "spec": None}


def test_kustomization_names_every_policy_and_each_has_bindings() -> None:
    (kustomization,) = yaml.safe_load_all((FOLDER / "kustomization.yaml").read_text())
    assert set(kustomization["resources"]) == {path.name for path in FOLDER.glob("*.yaml")} - {
        "kustomization.yaml"
    }
    names = {each["metadata"]["name"] for each in stored("ValidatingAdmissionPolicy")}
    assert {each["spec"]["policyName"] for each in stored("ValidatingAdmissionPolicyBinding")} == names
    assert all(each["spec"]["failurePolicy"] == "Fail" for each in stored("ValidatingAdmissionPolicy"))
    assert all(
        each["spec"]["validationActions"] == ["Deny"] for each in stored("ValidatingAdmissionPolicyBinding")
    )


def test_policy_users_are_accounts_of_the_manifests() -> None:
    accounts = {
        f"system:serviceaccount:{each['metadata']['namespace']}:{each['metadata']['name']}"
        for program in ("agent", "manager", "scheduler")
        for each in yaml.safe_load_all((DEPLOY / program / "rbac.yaml").read_text())
        if each["kind"] == "ServiceAccount"
    }
    text = "".join(path.read_text() for path in FOLDER.glob("*.yaml"))
    named_users = {word.strip("'\",[]") for word in text.split() if "system:serviceaccount:" in word}
    assert named_users == {SCHEDULER.name, AGENT.name}
    assert named_users <= accounts


@pytest.mark.parametrize(
    "user", [TENANT, ADMIN, KUBELET, CONTROLLER, AGENT, KUBE_SCHEDULER], ids=lambda user: user.name
)
@pytest.mark.parametrize(
    ("operation", "resource", "obj", "old"),
    [
        ("CREATE", "pods", pod(CLAIM), None),
        ("CREATE", "pods", pod(CLAIM, nodeName="n1"), None),
        ("UPDATE", "pods", pod(CLAIM), pod()),
        ("UPDATE", "pods", pod(CLAIM, nodeName="n1"), pod(nodeName="n1")),
        ("UPDATE", "pods", pod(CLAIM, nodeName="n1"), pod('{"cpuset":"0"}', nodeName="n1")),
        ("UPDATE", "pods", pod(nodeName="n1"), pod(CLAIM, nodeName="n1")),
        ("UPDATE", "pods", pod("", nodeName="n1"), pod(CLAIM, nodeName="n1")),
        ("UPDATE", "pods/status", pod(CLAIM, nodeName="n1"), pod(nodeName="n1")),
        ("UPDATE", "pods/resize", pod(CLAIM, nodeName="n1"), pod(nodeName="n1")),
        ("UPDATE", "pods/ephemeralcontainers", pod(CLAIM, nodeName="n1"), pod(nodeName="n1")),
        ("CREATE", "pods/binding", binding(claim=CLAIM), None),
        ("CREATE", "bindings", binding(claim=CLAIM), None),
    ],
    ids=[
        "create",
        "create bound",
        "update before binding",
        "update after binding",
        "change",
        "remove",
        "empty",
        "status",
        "resize",
        "ephemeral",
        "binding",
        "older binding",
    ],
)
async def test_nobody_but_corewise_writes_resource_status(
    user: User, operation: str, resource: str, obj: dict[str, Any], old: dict[str, Any] | None
) -> None:
    refused = await refusal(write(user, operation, resource, "web", namespace="team"), obj, old)
    assert refused is not None
    assert (refused.code, refused.reason) == (403, "Forbidden")
    start = f'{resource.partition("/")[0]} "web" is forbidden: ValidatingAdmissionPolicy '
    assert refused.message.startswith(
        f"{start}'corewise-resource-status' with binding 'corewise-resource-status' denied request: "
        "the annotation scheduling.koordinator.sh/resource-status is written by corewise only, and "
        f"{user.name} is none of its users"
    )


@pytest.mark.parametrize("resource", ["pods/binding", "bindings"])
async def test_scheduler_annotates_bindings_and_kube_scheduler_binds_without(
    resource: str,
) -> None:
    def bind(user: User) -> Attributes:
        return write(user, "CREATE", resource, "web", namespace="team")

    assert await refusal(bind(SCHEDULER), binding(claim=CLAIM)) is None
    assert await refusal(bind(KUBE_SCHEDULER), binding()) is None


async def test_scheduler_annotates_pods_bound_by_another() -> None:
    attributes = write(SCHEDULER, "UPDATE", "pods", "web", namespace="team")
    assert await refusal(attributes, pod(CLAIM, nodeName="n1"), pod(nodeName="n1")) is None


@pytest.mark.parametrize("user", [TENANT, KUBELET, CONTROLLER], ids=lambda user: user.name)
@pytest.mark.parametrize(
    ("operation", "resource", "obj", "old"),
    [
        ("CREATE", "pods", pod(), None),
        ("CREATE", "pods", pod("", qos="LSR"), None),
        ("CREATE", "pods/binding", binding(), None),
        ("UPDATE", "pods", pod(CLAIM, qos="LSR"), pod(CLAIM)),
        ("UPDATE", "pods/status", pod(CLAIM, nodeName="n1"), pod(CLAIM, nodeName="n1")),
        ("DELETE", "pods", None, pod(CLAIM, qos="SYSTEM")),
        ("CREATE", "pods/eviction", pod(), None),
        ("CREATE", "configmaps", pod(CLAIM, qos="SYSTEM"), None),
    ],
)
async def test_writes_that_leave_the_annotation_unchanged_are_allowed(
    user: User, operation: str, resource: str, obj: Any, old: Any
) -> None:
    attributes = write(user, operation, resource, "web", namespace="team")
    assert await refusal(attributes, obj, old) is None


def sized(cpu: str, claim: str = CLAIM, *, where: str = "containers", memory: str = "1Gi") -> dict[str, Any]:
    """A pod with a request in one place."""
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    stated: Any = resources if where == "resources" else [{"name": "main", "resources": resources}]
    made = pod(claim, nodeName="n1")
    made["spec"][where] = stated
    return made


@pytest.mark.parametrize(
    ("obj", "old", "is_refused"),
    [
        (sized("2"), sized("3"), True),
        (sized("4"), sized("3"), True),
        (sized("2", where="initContainers"), sized("3", where="initContainers"), True),
        (sized("2", where="resources"), sized("3", where="resources"), True),
        (sized("3", memory="2Gi"), sized("3"), False),
        (sized("2", ""), sized("3", ""), False),
        (sized("2", '{"numaNodeResources":[]}'), sized("3", '{"numaNodeResources":[]}'), False),
    ],
    ids=["smaller", "larger", "sidecar", "pod level", "memory", "shared pod", "placed on a NUMA node"],
)
async def test_a_pod_that_owns_cpus_is_not_resized(obj: Any, old: Any, *, is_refused: bool) -> None:
    refused = await refusal(write(TENANT, "UPDATE", "pods/resize", "web", namespace="team"), obj, old)
    assert (refused is not None) == is_refused
    if refused is not None:
        assert "this pod owns CPUs, so its CPU request cannot change while it runs" in refused.message


@pytest.mark.parametrize("qos", ["SYSTEM", "LSE"])
@pytest.mark.parametrize(
    ("operation", "resource", "old"),
    [
        ("CREATE", "pods", None),
        ("UPDATE", "pods", pod()),
        ("UPDATE", "pods", pod(qos="LSR")),
        ("UPDATE", "pods/status", pod(qos="BE")),
        ("CREATE", "pods/binding", None),
        ("CREATE", "bindings", None),
    ],
)
async def test_system_and_lse_pods_need_a_listed_namespace(
    qos: str, operation: str, resource: str, old: dict[str, Any] | None
) -> None:
    refused = await refusal(write(ADMIN, operation, resource, "web", namespace="team"), pod(qos=qos), old)
    assert refused is not None
    assert refused.code == 403
    assert (
        f"the label koordinator.sh/qosClass: {qos} is not allowed in namespace team: use" in refused.message
    )
    for allowed in DEFAULT_NAMESPACES:
        attributes = write(TENANT, operation, resource, "web", namespace=allowed)
        assert await refusal(attributes, pod(qos=qos), old) is None
    policy = (FOLDER / "qos-class.yaml").read_text()
    assert f"expression: '{json.dumps(list(DEFAULT_NAMESPACES))}'" in policy


@pytest.mark.parametrize("qos", ["LSR", "LS", "BE", ""])
async def test_other_classes_are_allowed_and_pods_keep_theirs(qos: str) -> None:
    attributes = write(TENANT, "CREATE", "pods", "web", namespace="team")
    assert await refusal(attributes, pod(qos=qos)) is None
    attributes = write(KUBELET, "UPDATE", "pods/status", "web", namespace="team")
    assert await refusal(attributes, pod(qos="SYSTEM"), pod(qos="SYSTEM")) is None
    assert await refusal(attributes, pod(qos="LSE"), pod(qos="SYSTEM")) is not None


def of_node(name: str | None) -> User:
    extra = {} if name is None else {NODE_CLAIM: (name,)}
    return User(AGENT.name, AGENT.groups, extra=extra)


TOPOLOGY = {"group": "topology.node.k8s.io"}


@pytest.mark.parametrize(
    ("operation", "resource", "more"),
    [
        ("UPDATE", "nodes/status", {}),
        ("UPDATE", "nodes", {}),
        ("CREATE", "nodes", {}),
        ("DELETE", "nodes", {}),
        ("CREATE", "noderesourcetopologies", TOPOLOGY),
        ("UPDATE", "noderesourcetopologies", TOPOLOGY),
        ("DELETE", "noderesourcetopologies", TOPOLOGY),
    ],
)
async def test_agent_writes_only_objects_of_its_own_node(
    operation: str, resource: str, more: dict[str, str]
) -> None:
    async def outcome(user: User, name: str) -> StatusError | None:
        obj = None if operation == "DELETE" else named(name)
        old = None if operation == "CREATE" else named(name)
        return await refusal(write(user, operation, resource, name, **more), obj, old)

    assert await outcome(of_node("n1"), "n1") is None
    foreign = await outcome(of_node("n1"), "n2")
    assert foreign is not None
    assert foreign.code == 403
    assert "the agent of node n1 may not write the object of node n2" in foreign.message
    for nameless in (of_node(None), of_node("")):
        refused = await outcome(nameless, "n1")
        assert refused is not None
        assert "the token of the agent names no node" in refused.message
    for other in (ADMIN, KUBELET, service_account("corewise-system", "corewise-manager")):
        assert await outcome(other, "n2") is None


@pytest.mark.parametrize("annotation", [OWNED_CPUS, OWNED_MILLI_CPU, OWNED_REQUESTS])
@pytest.mark.parametrize("resource", ["nodes", "nodes/status"])
@pytest.mark.parametrize(
    ("stated", "before"),
    [("x", None), ("x", "y"), ("", "y"), (None, "y")],
    ids=["add", "change", "empty", "remove"],
)
async def test_agent_leaves_its_nodes_ledger_unchanged(
    annotation: str, resource: str, stated: str | None, before: str | None
) -> None:
    def noted(text: str | None, **more: str) -> dict[str, Any]:
        stated = {} if text is None else {annotation: text}
        return {"metadata": {"name": "n1", "annotations": {**stated, **more}}}

    old = noted(before)
    attributes = write(of_node("n1"), "UPDATE", resource, "n1")
    refused = await refusal(attributes, noted(stated), old)
    assert refused is not None
    assert refused.code == 403
    assert "the ledger of owned CPUs is written by the scheduler only" in refused.message
    assert await refusal(attributes, noted(before, **{OFFLINE_REPORT: "{}"}), old) is None
    assert await refusal(attributes, named("n1"), noted(None, **{OFFLINE_REPORT: "{}"})) is None
    for other in (SCHEDULER, KUBELET, ADMIN):
        assert await refusal(write(other, "UPDATE", resource, "n1"), noted(stated), old) is None


async def test_an_agent_creates_no_node_with_a_ledger() -> None:
    node = {"metadata": {"name": "n1", "annotations": {OWNED_CPUS: "{}"}}}
    assert await refusal(write(of_node("n1"), "CREATE", "nodes", "n1"), node) is not None


async def test_a_generated_name_is_no_way_around() -> None:
    attributes = write(of_node("n1"), "CREATE", "noderesourcetopologies", "", **TOPOLOGY)
    refused = await refusal(attributes, {"metadata": {"generateName": "n"}})
    assert refused is not None
