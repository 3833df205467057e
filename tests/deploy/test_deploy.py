"""The manifests under deploy/: they load, say what the manager says, and grant what it needs and no more."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from corewise.kube.client import Client, PatchType
from corewise.kube.config import load_config
from corewise.kube.resources import (
    COLOCATION_PROFILES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    Resource,
)
from corewise.manager.options import AmplifyBy, OfflinePods
from corewise.manager.program import Manager
from corewise.manager.webhooks import mutating_configuration, validating_configuration
from corewise.service.certificates import Lifetimes
from corewise.service.installation import GRACE, client_config
from corewise.service.options import ServiceAddress
from corewise.vocabulary.metrics import AMPLIFICATION_PATH
from corewise.vocabulary.names import (
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    BATCH_CPU,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    NORMALIZATION_KEY,
    QOS_CLASS,
)
from identities import account
from kubectl import KUBECTLS, Kubectl
from kubedouble import LocalAPIServer
from kubedouble.authentication import User
from kubedouble.errors import StatusError
from kubedouble.rbac import Access, Rule
from manager.world import (
    PLAIN_NODES,
    PODS_NAMESPACE,
    World,
    amplification,
    eventually,
    normalization,
    until,
)

DEPLOY = Path(__file__).parents[2] / "deploy"
PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "NodeResourceTopology": "noderesourcetopologies",
}


def documents(directory: Path) -> Iterator[dict[str, Any]]:
    """The objects of a kustomization's own files, in its order."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    for name in kustomization["resources"]:
        if (directory / name).is_file():
            yield from yaml.safe_load_all((directory / name).read_text())


MANIFESTS = [*documents(DEPLOY / "prerequisites"), *documents(DEPLOY / "manager")]
POLICIES = list(documents(DEPLOY / "policies"))
WEBHOOKS = list(yaml.safe_load_all((DEPLOY / "cert-manager" / "webhooks.yaml").read_text()))


def resource_of(manifest: dict[str, Any]) -> Resource[dict[str, Any]]:
    group, _, version = manifest["apiVersion"].rpartition("/")
    kind = manifest["kind"]
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    namespaced = "namespace" in manifest["metadata"]
    return Resource(group, version, plural, kind, namespaced=namespaced, type=dict[str, Any])


async def apply(client: Client, manifest: dict[str, Any]) -> dict[str, Any]:
    metadata = manifest["metadata"]
    return await client.patch(
        resource_of(manifest),
        metadata["name"],
        manifest,
        namespace=metadata.get("namespace", ""),
        type=PatchType.APPLY,
        field_manager="installer",
    )


@pytest.fixture
async def administrator(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[Client]:
    api_server.write_kubeconfig(tmp_path / "admin")
    async with Client(load_config(str(tmp_path / "admin"))) as client:
        yield client


@pytest.fixture
async def installed(administrator: Client) -> Client:
    for manifest in MANIFESTS:
        await apply(administrator, manifest)
    return administrator


@pytest.mark.parametrize(
    "manifest", MANIFESTS + POLICIES + WEBHOOKS, ids=lambda m: f"{m['kind']}-{m['metadata']['name']}"
)
async def test_every_manifest_is_taken_without_a_warning(installed: Client, manifest: dict[str, Any]) -> None:
    stored = await apply(installed, manifest)
    again = await apply(installed, manifest)
    assert stored["metadata"]["name"] == manifest["metadata"]["name"]
    assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


def test_cert_manager_webhooks_match_those_the_manager_installs() -> None:
    config = client_config(ServiceAddress("corewise-system", "corewise-webhook"), "")
    expected = [mutating_configuration(config), validating_configuration(config, "corewise-system")]
    for manifest, built in zip(WEBHOOKS, expected, strict=True):
        assert manifest["webhooks"] == built["webhooks"]
        assert manifest["metadata"]["name"] == built["metadata"]["name"]


def manifest_of(kind: str, name: str) -> dict[str, Any]:
    (found,) = (m for m in MANIFESTS if m["kind"] == kind and m["metadata"]["name"] == name)
    return found


def test_deployment_meets_the_restricted_pod_security_standard() -> None:
    pod = manifest_of("Deployment", "corewise-manager")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["serviceAccountName"] == manifest_of("ServiceAccount", "corewise-manager")["metadata"]["name"]


def test_service_and_disruption_budget_select_the_deployments_pods() -> None:
    deployment = manifest_of("Deployment", "corewise-manager")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels
    assert manifest_of("Service", "corewise-webhook")["spec"]["selector"] == labels
    assert manifest_of("PodDisruptionBudget", "corewise-manager")["spec"]["selector"]["matchLabels"] == labels
    assert (
        deployment["replicas"]
        > manifest_of("PodDisruptionBudget", "corewise-manager")["spec"]["minAvailable"]
    )


@pytest.mark.parametrize("program", ["agent", "manager", "scheduler"])
def test_network_policies_open_only_the_ports_pods_use(program: str) -> None:
    """Metrics are for the monitoring namespace alone; the API server's address is unknown to a manifest."""
    manifests = list(documents(DEPLOY / program))
    (workload,) = (each for each in manifests if each["kind"] in {"DaemonSet", "Deployment"})
    (policy,) = (each for each in manifests if each["kind"] == "NetworkPolicy")
    assert policy["metadata"]["namespace"] == workload["metadata"]["namespace"]
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"] == labels
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    sources = {port["port"]: rule.get("from") for rule in policy["spec"]["ingress"] for port in rule["ports"]}
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    assert set(sources) == {port["name"] for port in container["ports"]}
    monitoring = {"kubernetes.io/metadata.name": "monitoring"}
    assert sources.pop("metrics") == [{"namespaceSelector": {"matchLabels": monitoring}}]
    assert set(sources.values()) <= {None}


@dataclass(frozen=True)
class Grant:
    """One verb on one resource that a manifest grants, in a namespace or everywhere."""

    rule: Rule
    namespace: str
    text: str = field(compare=False)

    def covers(self, access: Access) -> bool:
        return self.namespace in {"", access.namespace} and self.rule.allows(access)


def grants() -> Iterator[Grant]:
    """Yield the grants of the roles, one by one."""
    for manifest in MANIFESTS:
        if manifest["kind"] in {"Role", "ClusterRole"}:
            namespace = manifest["metadata"].get("namespace", "")
            for rule in manifest["rules"]:
                yield from _grants_of(rule, namespace)


def _grants_of(rule: dict[str, Any], namespace: str) -> Iterator[Grant]:
    for verb in rule["verbs"]:
        for resource in rule["resources"]:
            one = {**rule, "verbs": [verb], "resources": [resource]}
            where = f" in {namespace}" if namespace else ""
            yield Grant(Rule.of(one), namespace, f"{verb} {resource} {rule.get('resourceNames', '')}{where}")


@dataclass
class Recorder:
    """Stands before the authorizer, and keeps what one user wants to do."""

    server: LocalAPIServer
    user: str = account("manager").name
    wanted: list[Access] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._require = self.server.cluster.authorizer.require

    def require(self, user: User, access: Access) -> None:
        if user.name != self.user:
            self._require(user, access)
            return
        self.wanted.append(access)
        try:
            self._require(user, access)
        except StatusError as refusal:
            self.refused.append(refusal.message)
            raise


@pytest.fixture
def recorder(api_server: LocalAPIServer, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder(api_server)
    monkeypatch.setattr(api_server.cluster.authorizer, "require", recorder.require)
    return recorder


@pytest.fixture
def world(installed: Client, recorder: Recorder, tmp_path: Path) -> World:
    """The installed cluster, in which the manager has the identity of its manifest."""
    return World(recorder.server, installed, tmp_path / "admin")


async def prepare(world: World) -> None:
    """Make a node with CPU facts, and what webhooks prevent: bad configuration, an offline pod with cpu.

    The pod has a namespace of its own: Events about it need the permission there.
    """
    await world.add_node("n1", cpu="8")
    await world.configure(normalization="not JSON")
    offer = {"status": {"allocatable": {BATCH_CPU: "4000"}}}
    await world.client.patch(PLAIN_NODES, "n1", offer, subresource="status")
    await world.client.create(NAMESPACES, {"metadata": {"name": PODS_NAMESPACE}})
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {
        "metadata": {"name": "online", "labels": {QOS_CLASS: "BE"}},
        "spec": {"nodeName": "n1", "containers": [container]},
    }
    await world.client.create(PODS, pod, PODS_NAMESPACE)
    profile = {
        "metadata": {"name": "batch"},
        "spec": {
            "selector": {"matchLabels": {"app": "batch"}},
            "labels": {"applied": "yes"},
            "labelSuffixes": {"app": "-x"},
        },
    }
    await world.client.create(COLOCATION_PROFILES.typed(dict), profile)


async def live(world: World) -> None:
    """A short life of a cluster in which the manager has to do all it can do."""
    await world.told("ConfigInvalid", "ConfigMap")
    await world.told("OfflinePodOnline", "Pod")
    await world.installed()
    await world.configure(normalization=normalization(), amplification=amplification(cpu=1.5))
    await world.kubelet_gets("n1", "24")
    await world.annotate("n1", {AMPLIFICATION_ORIGINAL: '{"cpu":1.6}', AMPLIFICATION_RATIO: '{"cpu":4}'})
    for api_version, kind in OWNERS:
        await make_pod_of(world, api_version, kind)
    await world.client.delete(COLOCATION_PROFILES, "batch")
    await world.report("n1", model="Unheard of")
    await world.told("UnknownCPUModel")


OWNERS = [
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
]


async def make_pod_of(world: World, api_version: str, kind: str) -> None:
    """Create pods of a controller until the profile is applied to one: the manager reads the controller."""
    owner = {"apiVersion": api_version, "kind": kind, "name": "o", "uid": kind, "controller": True}
    container = {"name": "c", "image": "i"}

    async def is_applied() -> bool:
        pod = {
            "metadata": {
                "generateName": "owned-",
                "labels": {"app": "batch"},
                "ownerReferences": [owner],
            },
            "spec": {"containers": [container]},
        }
        made = await world.client.create(PODS.typed(dict), pod, PODS_NAMESPACE)
        return "applied" in made["metadata"]["labels"]

    await eventually(is_applied)


async def switch_over(world: World) -> None:
    """Have the manager put the policy in the webhook's place, and the webhook in the policy's."""
    for amplify_by, gone in (
        (AmplifyBy.POLICY, MUTATING_WEBHOOKS),
        (AmplifyBy.WEBHOOK, MUTATING_POLICY_BINDINGS),
    ):
        async with world.manager(
            leader_elect=True, amplify_by=amplify_by, offline_pods=OfflinePods.LEAVE
        ) as manager:
            await until(partial(amplifies, manager, amplify_by))
            world.clock.skip(GRACE)
            await eventually(partial(is_empty, world, gone))


def amplifies(manager: Manager, path: AmplifyBy) -> bool:
    return manager.metrics.value(AMPLIFICATION_PATH, path) == 1


async def is_empty(world: World, resource: Resource[Any]) -> bool:
    return not await world.client.list(resource)


async def tell_again(world: World) -> None:
    """Give reason to say once more what was said before, so that Events are counted up."""
    await world.annotate("n1", {"example.com/again": "yes"})
    stored = world.server.store.get("configmaps", CONFIG_NAMESPACE, CONFIG_NAME)
    assert stored
    data = {**stored.object["data"], NORMALIZATION_KEY: "not JSON"}
    world.server.store.put("configmaps", stored.key, {**stored.object, "data": data})


OF_THE_SWITCH = (
    "delete mutatingwebhookconfigurations",
    *(f"{verb} mutatingadmissionpolic" for verb in ("create", "patch", "delete")),
)
"""Beginnings of the grants that a manager needs only to put the policy in the webhook's place, or back."""


async def test_manager_uses_exactly_what_its_manifest_grants(world: World, recorder: Recorder) -> None:
    lifetimes = Lifetimes(serving=timedelta(days=1))
    unused = set(grants())

    async def only_for_the_switch() -> bool:
        unused.difference_update(g for g in list(unused) if any(g.covers(a) for a in recorder.wanted))
        return all(grant.text.startswith(OF_THE_SWITCH) for grant in unused)

    await prepare(world)
    async with world.manager(leader_elect=True, lifetimes=lifetimes):
        await live(world)
        world.clock.skip(timedelta(hours=20).total_seconds())
        await tell_again(world)
        with suppress(AssertionError):
            await eventually(only_for_the_switch, within=15.0)
    await switch_over(world)
    await only_for_the_switch()
    assert recorder.refused == []
    assert sorted(grant.text for grant in unused) == []


@pytest.mark.skipif(not KUBECTLS, reason="kubectl is not on PATH")
@pytest.mark.parametrize("exists", [True, False])
async def test_check_of_webhook_callers_gets_the_named_answer(
    world: World, tmp_path: Path, *, exists: bool
) -> None:
    page = (DEPLOY.parent / "docs/operate/webhook-callers.md").read_text()
    (command,) = re.findall(r"kubectl (create configmap slo-controller-config .*?)\n\n", page, re.DOTALL)
    (answer,) = re.findall(r"`(admission webhook .*?)`", page)
    if exists:
        await world.configure(normalization=normalization())
    kubectl = Kubectl(KUBECTLS[0], world.administrator, tmp_path)
    arguments = shlex.split(command.replace("\\\n", ""))
    async with world.manager():
        await world.installed()
        assert answer in await asyncio.to_thread(kubectl.refused, *arguments)


def test_roles_are_bound_to_the_managers_account_only() -> None:
    account = {"kind": "ServiceAccount", "name": "corewise-manager", "namespace": CONFIG_NAMESPACE}
    bindings = [m for m in MANIFESTS if m["kind"].endswith("Binding")]
    roles = [m for m in MANIFESTS if m["kind"].endswith("Role")]
    assert all(binding["subjects"] == [account] for binding in bindings)
    assert len(bindings) == len(roles)
