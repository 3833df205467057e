"""The cluster read once, for commands: nodes as the manager's caches have them, with assessment and state."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from corewise.actions import PatchNode
from corewise.amplification import StatusState
from corewise.amplification.policy import NAME as POLICY_NAME
from corewise.config.configuration import LARGEST_AMPLIFICATION_RATIO
from corewise.kube.client import Client
from corewise.kube.errors import APIError, Forbidden, NotFound
from corewise.kube.objects import ConfigMap, ObjectMeta, PartialObject
from corewise.kube.resources import (
    CONFIG_MAPS,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    NODE_RESOURCE_TOPOLOGIES,
    Resource,
    WebhookConfiguration,
)
from corewise.manager.options import MUTATING_NAME
from corewise.quantities import Ratio
from corewise.ratios.cluster import (
    UNKNOWN,
    ClusterContext,
    ConfigurationReading,
    interfering_webhook,
    published_largest,
    read_configuration,
)
from corewise.ratios.decision import NodeAssessment, assess
from corewise.ratios.nodes import RUNNING_ON_A_NODE, Annotations, running_on, view_of
from corewise.service.installation import Path
from corewise.views.offline_reports import SUPPRESSING, NodeReport, offer_problem, suppression_state
from corewise.vocabulary.names import CONFIG_NAME
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import WORKLOAD_NODES, Node
from corewise.workload.pods import WORKLOAD_PODS, Pod

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListedNode:
    """A node as the API has it, and its assessment."""

    node: Node
    assessment: NodeAssessment


@dataclass(frozen=True, slots=True)
class ListedCluster:
    """Nodes in the order of their names, the configuration, and the unreadable objects, in words."""

    nodes: tuple[ListedNode, ...]
    reading: ConfigurationReading
    pods_known: bool
    missing: tuple[str, ...]
    amplified_by: frozenset[Path] | None = None
    """What is installed to amplify nodes; None if the user may not read that."""
    topologies: Mapping[str, Annotations] = field(default_factory=dict)
    """The annotations of all NodeResourceTopologies."""
    config_map: ConfigMap | None = None
    koordinator: str = ""
    """Koordinator's webhook that amplifies nodes; empty if there is none."""
    koordinator_in: ObjectMeta | None = None
    """The metadata of the object that has this webhook."""
    largest: Ratio = LARGEST_AMPLIFICATION_RATIO
    """The manager's largest amplification ratio."""

    def stated_of(self, node: str) -> Annotations:
        """Return the annotations of a node's NodeResourceTopology; none if there is none."""
        return self.topologies.get(node, {})


async def list_cluster(
    client: Client, config_namespace: str, *, name: str = "", label_selector: str = ""
) -> ListedCluster:
    """Read the cluster, of its nodes the one of that name or those that the selector selects.

    What the user may not read, nodes apart, is named in ``missing``.

    Raises:
        KubeError: if the nodes cannot be read.
    """
    missing: list[str] = []

    async def optional(
        resource: Resource[T], field_selector: str = "", without: str = ""
    ) -> Iterable[T] | None:
        try:
            return await client.list(resource, field_selector=field_selector)
        except (Forbidden, NotFound) as error:
            missing.append(unread(resource.plural, error) + without)
            return None

    async def configured() -> tuple[ConfigMap | None, bool]:
        try:
            return await client.get(CONFIG_MAPS, CONFIG_NAME, config_namespace), False
        except (Forbidden, NotFound) as error:
            missing.append(unread(f"ConfigMap {config_namespace}/{CONFIG_NAME}", error))
            return None, isinstance(error, Forbidden)

    async def selected() -> Iterable[Node]:
        if name:
            return [await client.get(WORKLOAD_NODES, name)]
        return await client.list(WORKLOAD_NODES, label_selector=label_selector)

    nodes, topologies, pods, (config_map, forbidden), webhooks = await asyncio.gather(
        selected(),
        optional(NODE_RESOURCE_TOPOLOGIES.typed(PartialObject)),
        optional(
            WORKLOAD_PODS,
            running_on(name) if name else RUNNING_ON_A_NODE,
            "; what is requested is not known",
        ),
        configured(),
        optional(MUTATING_WEBHOOKS),
    )
    paths = await installed_paths(client, webhooks, missing)
    koordinator = interfering_webhook(webhooks or ())
    largest = published_largest(webhooks or ())
    reading = ConfigurationReading(UNKNOWN) if forbidden else read_configuration(config_map, largest=largest)
    context = ClusterContext(reading.configuration, koordinator, largest)
    facts = {each.metadata.name: each.metadata.annotations for each in topologies or ()}
    pods_of: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods or ():
        pods_of[pod.spec.node_name].append(pod)

    def listed(node: Node) -> ListedNode:
        view = view_of(node, facts.get(node.metadata.name), lambda: pods_of[node.metadata.name])
        return ListedNode(node, assess(view, context))

    in_order = sorted(nodes, key=lambda node: node.metadata.name)
    rows = tuple(map(listed, in_order))
    hook = koordinator.partition("/")[0]
    koordinator_in = next((each.metadata for each in webhooks or () if each.metadata.name == hook), None)
    return ListedCluster(
        nodes=rows,
        reading=reading,
        pods_known=pods is not None,
        missing=tuple(missing),
        amplified_by=paths,
        topologies=facts,
        config_map=config_map,
        koordinator=koordinator,
        koordinator_in=koordinator_in,
        largest=largest,
    )


async def installed_paths(
    client: Client, webhooks: Iterable[WebhookConfiguration] | None, missing: list[str]
) -> frozenset[Path] | None:
    """Return the installed ways of amplifying nodes; None if the user may not read that."""
    try:
        bindings: Iterable[PartialObject] = await client.list(MUTATING_POLICY_BINDINGS)
    except NotFound:  # before Kubernetes 1.36
        bindings = ()
    except Forbidden as error:
        missing.append(unread(MUTATING_POLICY_BINDINGS.plural, error))
        return None
    if webhooks is None:
        return None
    found = set()
    if MUTATING_NAME in {each.metadata.name for each in webhooks}:
        found.add(Path.WEBHOOK)
    if POLICY_NAME in {each.metadata.name for each in bindings}:
        found.add(Path.POLICY)
    return frozenset(found)


def amplified_by(paths: frozenset[Path]) -> str:
    """Name the policy or webhook that amplifies nodes."""
    return {
        frozenset({Path.POLICY}): f"the policy {POLICY_NAME} in the API server",
        frozenset({Path.WEBHOOK}): f"the manager's webhook {MUTATING_NAME}",
        frozenset({Path.POLICY, Path.WEBHOOK}): "policy and webhook, while the manager switches over",
    }.get(
        paths,
        "nothing that the API shows: no policy and no webhook is installed "
        "(corewise manager --manage-webhooks), unless a policy is in a file of the API server",
    )


def unread(what: str, error: APIError) -> str:
    """Return a remark that something could not be read, with the error."""
    return f"{what}: {'there is none' if isinstance(error, NotFound) else 'you may not read it'}"


@dataclass(frozen=True, slots=True)
class NodeState:
    """``text`` for the STATE column; ``problem`` is the reason code of the first warning verdict, if any."""

    text: str
    problem: str = ""


def state_of(assessment: NodeAssessment) -> NodeState:
    """Return the state: a problem first, then what is under way; empty when all is as it should be."""
    if assessment.held_back:
        return NodeState("held back", Reason.UNSAFE_DECREASE_HELD_BACK)
    if assessment.problems:
        reason = assessment.problems[0].reason
        return NodeState(reason, reason)
    if any(isinstance(action, PatchNode) for action in assessment.actions):
        return NodeState("ratio due")
    if assessment.status.state is not StatusState.SETTLED:
        return NodeState(assessment.status.state.value)
    return NodeState("")


def offline_state_of(node: NodeReport) -> NodeState:
    """Return the state of a node's offline pods: what is wrong with the offer first, then suppression."""
    report = node.report
    if report is None:
        return NodeState("")
    problem = offer_problem(report)
    if problem:
        return NodeState(problem, problem)
    if node.stale:
        return NodeState("offline data old")
    return NodeState(SUPPRESSING if suppression_state(report) == SUPPRESSING else "")
