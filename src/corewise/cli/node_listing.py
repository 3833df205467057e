"""The cluster read once, for commands: the same views and context that the manager's caches give."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from corewise.assessment.cluster import (
    ClusterContext,
    ConfigurationReading,
    interfering_webhook,
    read_configuration,
)
from corewise.assessment.decision import NodeAssessment, assess
from corewise.assessment.nodes import (
    DEMANDING_PODS,
    MANAGED_NODES,
    RUNNING_ON_A_NODE,
    DemandingPod,
    ManagedNode,
    running_on,
    view_of,
)
from corewise.kube.client import Client
from corewise.kube.errors import APIError, Forbidden, NotFound
from corewise.kube.objects import ConfigMap, PartialObject
from corewise.kube.resources import CONFIG_MAPS, MUTATING_WEBHOOKS, NODE_RESOURCE_TOPOLOGIES, Resource
from corewise.vocabulary.names import CONFIG_NAME

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListedNode:
    """A node as the API has it, and its assessment."""

    node: ManagedNode
    assessment: NodeAssessment


@dataclass(frozen=True, slots=True)
class ListedCluster:
    """Nodes in the order of their names, the configuration, and what could not be read, in words."""

    nodes: tuple[ListedNode, ...]
    reading: ConfigurationReading
    pods_known: bool
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Which:
    """Which nodes to read: one by name, or those a label selector selects."""

    name: str = ""
    label_selector: str = ""


async def list_cluster(client: Client, which: Which, config_namespace: str) -> ListedCluster:
    """Read the cluster. What the user may not read, nodes apart, is missing and said so.

    Raises:
        KubeError: if the nodes cannot be read.
    """
    missing: list[str] = []
    nodes, topologies, pods, config_map, webhooks = await asyncio.gather(
        _nodes(client, which),
        _optional(client, NODE_RESOURCE_TOPOLOGIES.typed(PartialObject), missing),
        _optional(client, DEMANDING_PODS, missing, field_selector=_pods_of(which)),
        _config_map(client, config_namespace, missing),
        _optional(client, MUTATING_WEBHOOKS, missing),
    )
    reading = read_configuration(config_map)
    context = ClusterContext(reading.configuration, interfering_webhook(webhooks or ()))
    facts = {each.metadata.name: each.metadata.annotations for each in topologies or ()}
    bound = _by_node(pods or ())
    listed = (
        ListedNode(
            node, assess(view_of(node, facts.get(node.metadata.name), bound(node.metadata.name)), context)
        )
        for node in sorted(nodes, key=lambda node: node.metadata.name)
    )
    return ListedCluster(tuple(listed), reading, pods is not None, tuple(missing))


async def _nodes(client: Client, which: Which) -> Iterable[ManagedNode]:
    if which.name:
        return [await client.get(MANAGED_NODES, which.name)]
    return await client.list(MANAGED_NODES, label_selector=which.label_selector)


async def _optional(
    client: Client, resource: Resource[T], missing: list[str], *, field_selector: str = ""
) -> Iterable[T] | None:
    try:
        return await client.list(resource, field_selector=field_selector)
    except (Forbidden, NotFound) as error:
        missing.append(_said(resource.plural, error))
        return None


async def _config_map(client: Client, namespace: str, missing: list[str]) -> ConfigMap | None:
    try:
        return await client.get(CONFIG_MAPS, CONFIG_NAME, namespace)
    except (Forbidden, NotFound) as error:
        missing.append(_said(f"ConfigMap {namespace}/{CONFIG_NAME}", error))
        return None


def _said(what: str, error: APIError) -> str:
    return f"{what}: {'there is none' if isinstance(error, NotFound) else 'you may not read it'}"


def _pods_of(which: Which) -> str:
    return running_on(which.name) if which.name else RUNNING_ON_A_NODE


def _by_node(pods: Iterable[DemandingPod]) -> Callable[[str], Callable[[], Iterable[DemandingPod]]]:
    by_node: dict[str, list[DemandingPod]] = defaultdict(list)
    for pod in pods:
        by_node[pod.spec.node_name].append(pod)
    return lambda name: lambda: by_node.get(name, [])
