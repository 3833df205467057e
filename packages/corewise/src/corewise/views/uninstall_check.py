"""The obstacles to an uninstall, read from the cluster: see ``corewise uninstall``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from corewise.amplification.amounts import Ratios
from corewise.amplification.demand import misfits
from corewise.amplification.policy import NAME as AMPLIFICATION_POLICY
from corewise.amplification.ratio import StatedBy
from corewise.config.colocation import parse_suppression
from corewise.kube.client import Client
from corewise.kube.config import ClusterConfig
from corewise.kube.errors import NotFound
from corewise.kube.objects import ObjectMeta, PartialObject
from corewise.kube.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    NODE_RESOURCE_TOPOLOGIES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from corewise.manager.options import MUTATING_NAME, PODS_NAME, VALIDATING_NAME
from corewise.normalization.decision import may_be_enabled_by_label
from corewise.quantities import ONE
from corewise.ratios.decision import NodeAssessment
from corewise.ratios.nodes import RUNNING_ON_A_NODE, NodeView
from corewise.scheduler.marking import NAME as INTERFERENCE
from corewise.scheduler.policy import NAME as OWNED_CPUS_POLICY
from corewise.views.node_listing import ListedNode, list_cluster
from corewise.vocabulary.cpu_annotations import stated_cpus
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    CPU_RATIO_APPLIED,
    NORMALIZATION_ENABLED,
    NORMALIZATION_KEY,
    OFFLINE_REPORT,
    OFFLINE_SHORTFALL,
    OVERSUBSCRIPTION,
    RESOURCE_STATUS,
    SLOW_CPU,
    SUPPRESSION_KEY,
    SYSTEM_NAMESPACE,
    WORKLOAD_RATIOS,
)
from corewise.workload.pods import WORKLOAD_PODS, Pod

_INSTALLED = (
    (MUTATING_WEBHOOKS.typed(PartialObject), (MUTATING_NAME, PODS_NAME, OWNED_CPUS_POLICY, INTERFERENCE)),
    (VALIDATING_WEBHOOKS.typed(PartialObject), (VALIDATING_NAME,)),
    (MUTATING_POLICY_BINDINGS, (AMPLIFICATION_POLICY, OWNED_CPUS_POLICY, INTERFERENCE)),
    (MUTATING_POLICIES, (AMPLIFICATION_POLICY, OWNED_CPUS_POLICY, INTERFERENCE)),
)
"""What manager and scheduler install. It goes with the ClusterRole that owns it, and stays if none does."""
_AMPLIFIERS = frozenset({MUTATING_NAME, AMPLIFICATION_POLICY})
_RELEASE = "meta.helm.sh/release-name"
_INJECTED = "cert-manager.io/inject-ca-from"
"""An annotation of the webhook configurations in deploy/cert-manager, which ``deploy`` does not contain."""
_OVERLAY = "kubectl delete -k deploy/cert-manager"

SCHEDULER_ROLE = "corewise-scheduler"
_ROLES = ("corewise-manager", SCHEDULER_ROLE, "corewise-agent")


@dataclass(frozen=True, slots=True)
class Hindrance:
    """An obstacle to an uninstall or a trace of it, and the command that removes it."""

    object: str
    why: str
    command: str

    @property
    def record(self) -> dict[str, Any]:
        return {"object": self.object, "why": self.why, "command": self.command}


@dataclass(frozen=True, slots=True)
class Removal:
    """The obstacles to undo first, the command that then uninstalls, and whether there is a scheduler.

    ``kept`` is on nodes after an uninstall too, without effect; while the manager runs, it writes it again.
    """

    hindrances: tuple[Hindrance, ...]
    command: str
    """By the way of the installation; "" if the programs are not installed."""
    has_scheduler: bool
    kept: tuple[Hindrance, ...] = ()


async def removal(cluster: ClusterConfig, config_namespace: str) -> Removal:
    """Read the steps of an uninstall.

    Raises:
        KubeError: if something cannot be read: then it is not known.
    """
    async with Client(cluster) as client:
        listed, pods, applied, data, unowned, roles = await asyncio.gather(
            list_cluster(client, config_namespace),
            client.list(WORKLOAD_PODS, field_selector=RUNNING_ON_A_NODE),
            _applied_ratios(client),
            _config(client, config_namespace),
            _unowned(client),
            client.list(CLUSTER_ROLES.typed(PartialObject)),
        )
    amplified = any(_ratios(each) for each in listed.nodes)
    divided = any(WORKLOAD_RATIOS in each.node.metadata.annotations for each in listed.nodes)
    ours = {each.metadata.name: each.metadata.annotations for each in roles if each.metadata.name in _ROLES}
    command = _uninstalling(ours, injected=any(_INJECTED in each.annotations for _, each in unowned))
    staying = [
        (kind, each.name)
        for kind, each in unowned
        if not (_OVERLAY in command and _INJECTED in each.annotations)
    ]
    found = (
        *_of_config(config_namespace, data, amplified=amplified, divided=divided),
        *(found for node in listed.nodes for found in _of_node(node, applied.get(node.node.metadata.name))),
        *_of_pods(pods),
        # what amplifies goes last: without it, nodes become raw
        *(_left(kind, name) for kind, name in staying if not (amplified and name in _AMPLIFIERS)),
    )
    kept = tuple(_condition(each.assessment.node.name) for each in listed.nodes if each.assessment.node.slow)
    return Removal(found, command, SCHEDULER_ROLE in ours, kept)


def _uninstalling(roles: Mapping[str, Mapping[str, str]], *, injected: bool) -> str:
    """Return the command for programs whose ClusterRoles have these annotations.

    ``injected``: webhook configurations of deploy/cert-manager are installed. That has no scheduler.
    """
    for role in roles.values():
        if release := role.get(_RELEASE):
            return f"helm uninstall {release} -n {role.get('meta.helm.sh/release-namespace')}"
    if not injected:
        return "kubectl delete -k deploy" if roles else ""
    scheduler = "kubectl delete -k deploy/scheduler && " if SCHEDULER_ROLE in roles else ""
    return scheduler + _OVERLAY


async def _applied_ratios(client: Client) -> dict[str, str]:
    """Return the ratio by which each node's agent divides quotas; none where agents have reported nothing."""
    try:
        topologies = await client.list(NODE_RESOURCE_TOPOLOGIES.typed(PartialObject))
    except NotFound:
        return {}
    stated = {each.metadata.name: each.metadata.annotations.get(CPU_RATIO_APPLIED) for each in topologies}
    return {name: ratio for name, ratio in stated.items() if ratio}


def _ratios(listed: ListedNode) -> Ratios:
    """Return the ratios that amplify a node, by its annotation or still in its status."""
    assessment = listed.assessment
    ratios = {**assessment.status.ratios, **assessment.effective}
    return {resource: ratio for resource, ratio in ratios.items() if ratio != ONE}


async def _config(client: Client, namespace: str) -> Mapping[str, str]:
    """Return the keys of the ConfigMap; none where there is no ConfigMap."""
    try:
        return (await client.get(CONFIG_MAPS, CONFIG_NAME, namespace)).data
    except NotFound:
        return {}


def _of_config(
    namespace: str, data: Mapping[str, str], *, amplified: bool, divided: bool
) -> Iterator[Hindrance]:
    """Yield the ConfigMap, which comes first: while it has these keys, what was undone comes back.

    ``divided``: some nodes have ratios of workloads.
    """
    blamed = {NORMALIZATION_KEY: amplified or divided, AMPLIFICATION_KEY: amplified}
    ratios = [key for key, is_blamed in blamed.items() if is_blamed and key in data]
    if ratios:
        yield _of_keys(namespace, ratios, f"sets the ratios of nodes ({', '.join(ratios)})")
    if _holds_back(data.get(SUPPRESSION_KEY)):
        why = f"holds offline pods back ({SUPPRESSION_KEY}): their quotas and cpu.idle would stay"
        yield _of_keys(namespace, [SUPPRESSION_KEY], why)


def _of_keys(namespace: str, keys: Collection[str], why: str) -> Hindrance:
    """Return the obstacle that goes with these keys of the ConfigMap."""
    patch = json.dumps({"data": dict.fromkeys(keys)})
    command = f"kubectl patch configmap {CONFIG_NAME} -n {namespace} --type=merge -p '{patch}'"
    return Hindrance(f"configmap/{CONFIG_NAME}", why, command)


def _holds_back(text: str | None) -> bool:
    """Whether agents may hold offline pods back by a text of ``cpu-suppression-config``; None: no such key.

    They do so on nodes without the label, too. A text with errors counts: agents keep the last good one.
    """
    if text is None:
        return False
    config = parse_suppression(text).value
    if config is None:
        return True
    return any(each.enabled for each in (config.cluster, *(entry.strategy for entry in config.node_configs)))


def _of_node(listed: ListedNode, applied: str | None) -> Iterator[Hindrance]:
    """Yield the obstacles on a node: it is not raw, or its agent still divides quotas or offers CPU."""
    assessment, ratios = listed.assessment, _ratios(listed)
    name = assessment.node.name
    if ratios:
        shown = ", ".join(f"{resource} by {ratio}" for resource, ratio in ratios.items())
        unfit = misfits(
            old=ratios,
            new={},
            raw_allocatable=assessment.status.raw.allocatable,
            demand=assessment.node.demand(),
        )
        if unfit:
            texts = "; ".join(each.message for each in unfit)
            command = f"kubectl drain {name} --ignore-daemonsets --delete-emptydir-data"
            yield Hindrance(f"node/{name}", f"amplified ({shown}), and its pods do not fit: {texts}", command)
        yield Hindrance(f"node/{name}", f"amplified ({shown})", _lowering(assessment, ratios))
    elif WORKLOAD_RATIOS in assessment.node.annotations:
        why = f"its agent divides the CPU quotas of some workloads ({WORKLOAD_RATIOS})"
        yield Hindrance(f"node/{name}", why, _denormalizing(assessment.node))
    elif applied not in {None, str(ONE)}:
        why = f"its agent has divided CPU quotas by {applied} and has not put them back; check that it runs"
        agents = f"-n {SYSTEM_NAMESPACE} -l app.kubernetes.io/component=agent"
        command = f"kubectl get pods {agents} --field-selector spec.nodeName={name}"
        yield Hindrance(f"node/{name}", why, command)
    if assessment.node.labels.get(OVERSUBSCRIPTION) == "true":
        why = "its agent offers CPU to offline pods and limits them"
        yield Hindrance(f"node/{name}", why, f"kubectl label node {name} {OVERSUBSCRIPTION}-")
    elif OFFLINE_REPORT in assessment.node.annotations or listed.node.status.condition(OFFLINE_SHORTFALL):
        # the condition stays as long as what is offered
        why = "its agent has not withdrawn what it offers to offline pods: those there must end first"
        yield Hindrance(f"node/{name}", why, f"corewise explain suppression {name}")


def _lowering(assessment: NodeAssessment, ratios: Ratios) -> str:
    """Return the command that removes a user's own ratio, or else the one that says where it comes from.

    Both annotations go at once: without -original, the ratio would count as the user's.
    """
    node, sources = assessment.node, assessment.amplification.sources
    has_own = any(
        source.stated_by is StatedBy.ANNOTATION and source.original != ONE
        for resource, source in sources.items()
        if resource in ratios
    )
    is_owned = AMPLIFICATION_ORIGINAL in node.annotations
    if has_own or (AMPLIFICATION_RATIO in node.annotations and not is_owned):
        return f"kubectl annotate node {node.name} {AMPLIFICATION_RATIO}- {AMPLIFICATION_ORIGINAL}-"
    return _denormalizing(node)


def _denormalizing(node: NodeView) -> str:
    """Return the command that removes the label that normalizes a node, or else explains the node."""
    if may_be_enabled_by_label(node.labels):
        return f"kubectl label node {node.name} {NORMALIZATION_ENABLED}-"
    return f"corewise explain node {node.name}"


def _condition(node: str) -> Hindrance:
    """Return the condition of a slow node, which its kubelet keeps."""
    patch = json.dumps({"status": {"conditions": [{"$patch": "delete", "type": SLOW_CPU}]}})
    command = f"kubectl patch node {node} --subresource=status -p '{patch}'"
    return Hindrance(f"node/{node}", f"has the condition {SLOW_CPU}", command)


def _of_pods(pods: Iterable[Pod]) -> Iterator[Hindrance]:
    """Yield the pods that own CPUs: their CPU sets, and those of their neighbors, stay without agents."""
    for pod in sorted(pods, key=lambda each: (each.metadata.namespace, each.metadata.name)):
        owned = stated_cpus(pod.metadata.annotations.get(RESOURCE_STATUS))
        if owned:
            namespace, name = pod.metadata.namespace, pod.metadata.name
            why = f"in namespace {namespace}, owns CPUs {owned} of node {pod.spec.node_name}"
            yield Hindrance(f"pod/{name}", why, f"kubectl delete pod {name} -n {namespace}")


async def _unowned(client: Client) -> list[tuple[str, ObjectMeta]]:
    """Return the kinds and metadata of installed objects that neither a ClusterRole owns nor Helm."""
    return [
        (resource.kind.lower(), found)
        for resource, names in _INSTALLED
        for name in names
        if (found := await _metadata(client, resource, name)) and not _is_owned(found)
    ]


def _left(kind: str, name: str) -> Hindrance:
    why = "no ClusterRole owns it, so it stays after an uninstall, and goes on working"
    return Hindrance(f"{kind}/{name}", why, f"kubectl delete {kind} {name}")


async def _metadata(client: Client, resource: Resource[PartialObject], name: str) -> ObjectMeta | None:
    try:
        return (await client.get(resource, name)).metadata
    except NotFound:
        return None


def _is_owned(found: ObjectMeta) -> bool:
    return _RELEASE in found.annotations or any(each.kind == "ClusterRole" for each in found.owner_references)
