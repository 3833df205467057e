"""The subject of ``corewise explain suppression``, read from the cluster: a node and its offline pods.

Everything is read from the cluster, or from a file that kubectl has made of it. The node's agent need not be
reachable: what it measured and decided stands on the Node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime

from corewise.colocation.offline import mark_of
from corewise.kube.client import Client
from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.resources import CONFIG_MAPS
from corewise.quantities import Quantity, QuantityError
from corewise.ratios.nodes import running_on
from corewise.suppression.batch_limits import BatchContainer
from corewise.views.errors import no_node
from corewise.views.explanation import Explanation
from corewise.views.node_listing import unread
from corewise.views.offline_reports import node_report
from corewise.views.suppression_explanation import Subject, explain_suppression
from corewise.views.suppression_settings import settings_for
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, CONFIG_NAME, OVERSUBSCRIPTION
from corewise.workload.nodes import WORKLOAD_NODES, Node
from corewise.workload.pods import WORKLOAD_PODS, Pod


async def read_suppression(
    client: Client, name: str, config_namespace: str, now: datetime
) -> tuple[Explanation, list[str]]:
    """Return the explanation of a node's offline pods as they are ``now``, and the unreadable objects."""
    async with client:
        try:
            node = await client.get(WORKLOAD_NODES, name)
        except NotFound as error:
            raise await no_node(client, name) from error
        missing: list[str] = []
        data, pods = await asyncio.gather(
            _config(client, config_namespace, missing), _pods(client, name, missing)
        )
    subject = subject_of(node, data, pods, now)
    return explain_suppression(subject, config_namespace), missing


async def _config(client: Client, namespace: str, missing: list[str]) -> Mapping[str, str] | None:
    try:
        return (await client.get(CONFIG_MAPS, CONFIG_NAME, namespace)).data
    except NotFound:
        return {}
    except Forbidden as error:
        missing.append(unread(f"ConfigMap {namespace}/{CONFIG_NAME}", error))
        return None


async def _pods(client: Client, node: str, missing: list[str]) -> Iterable[Pod] | None:
    try:
        return await client.list(WORKLOAD_PODS, field_selector=running_on(node))
    except (Forbidden, NotFound) as error:
        missing.append(unread("pods", error))
        return None


def subject_of(
    node: Node, data: Mapping[str, str] | None, pods: Iterable[Pod] | None, now: datetime
) -> Subject:
    """Return the known facts about a node; ``data`` and ``pods`` are None if they may not be read."""
    pods = None if pods is None else tuple(pods)
    meta, allocatable = node.metadata, node.status.allocatable
    return Subject(
        node=node_report(meta.name, meta.labels, meta.annotations, now),
        label=meta.labels.get(OVERSUBSCRIPTION),
        settings=settings_for(data, meta.labels),
        batch_cpu_milli=_whole(allocatable, BATCH_CPU),
        batch_memory=_whole(allocatable, BATCH_MEMORY),
        native=None if pods is None else sorted(map(_named, filter(_is_native, pods))),
        tiny=sorted(map(_named, filter(_is_tiny, pods or ()))),
    )


def _whole(amounts: Mapping[str, str], resource: str) -> int | None:
    try:
        return Quantity.parse(amounts[resource]).units
    except (KeyError, QuantityError):
        return None


def _is_native(pod: Pod) -> bool:
    """Whether a pod is BestEffort without being an offline pod."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    asking = [
        each.name
        for each in containers
        if BATCH_CPU in each.resources.requests or BATCH_CPU in each.resources.limits
    ]
    meta = pod.metadata
    is_marked = mark_of(meta.labels, meta.annotations, pod.spec.priority or 0, asking)
    return pod.status.qos_class == "BestEffort" and not is_marked


def _is_tiny(pod: Pod) -> bool:
    """Whether a pod asks for so little batch-cpu that CPUs were meant, not thousandths."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    asked = ((each.name, each.resources.requests, each.resources.limits) for each in containers)
    return any(
        BatchContainer(name, _whole(requests, BATCH_CPU), _whole(limits, BATCH_CPU)).is_tiny
        for name, requests, limits in asked
    )


def _named(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
