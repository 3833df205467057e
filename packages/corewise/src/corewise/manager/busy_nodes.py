"""Nodes whose cpu ratio rises while they are busy: webhooks and ``corewise config check`` warn of them.

What a node really uses is known by the resource metrics API (metrics.k8s.io). Where that API is absent,
nothing is said. Its v1, served since Kubernetes 1.37 beside v1beta1, has the same fields.
Source: https://kubernetes.io/docs/tasks/debug/debug-cluster/resource-metrics-pipeline/ and KEP-5207.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TypeVar
from urllib.parse import quote

import msgspec

from corewise.amplification import Ratios, busy_raise
from corewise.amplification.amounts import CPU, ratio_of
from corewise.amplification.annotations import effective_ratios, raw_amounts
from corewise.kube.client import Client
from corewise.kube.errors import KubeError, NotFound
from corewise.quantities import Quantity, QuantityError
from corewise.ratios.cluster import ClusterContext
from corewise.ratios.decision import normalization_of, wanted_ratio
from corewise.ratios.nodes import NodeView
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.findings import Finding

T = TypeVar("T")
ReadUsage = Callable[[str], Awaitable[int | None]]
ReadUsages = Callable[[], Awaitable[Mapping[str, int]]]
"""Milli-CPU really used, by node; those are absent of which it is not known."""

log = logging.getLogger(__name__)

_PATH = "/apis/metrics.k8s.io/{}/{}"
_VERSIONS = "v1beta1", "v1"
"""In the order in which they are tried: metrics-server serves the first on every version of Kubernetes."""
_TIMEOUT = 1.0
_SHOWN_NODES = 3
_AT_A_TIME = 50
"""Nodes whose ratios are worked out in one step of the event loop: 0.1 to 0.4 ms each."""


class _NodeName(msgspec.Struct):
    name: str = ""


class _NodeMetrics(msgspec.Struct):
    usage: dict[str, str]
    metadata: _NodeName = msgspec.field(default_factory=_NodeName)


class _NodeMetricsList(msgspec.Struct):
    items: list[_NodeMetrics] = msgspec.field(default_factory=list)


def wanted_ratios(node: NodeView, context: ClusterContext) -> Ratios:
    """Return the ratios that the manager will write on a node."""
    return wanted_ratio(node, normalization_of(node, context.configuration), context).ratios


def busy_node_raise(node: NodeView, before: Ratios, after: Ratios, used: int | None) -> Finding | None:
    """Warn if the cpu ratio of a node rises while the node is busy; ``used`` is in milli-CPU."""
    raw = raw_amounts(node.amounts, node.annotations).capacity.get(CPU)
    percent = used * 100 // raw.milli if used is not None and raw and raw.milli else None
    return busy_raise(old=before, new=after, cpu_usage_percent=percent)


async def raised_on_busy_nodes(
    nodes: Iterable[NodeView], context: ClusterContext, usages: ReadUsages
) -> list[str]:
    """Warn about busy nodes whose cpu ratio the manager will raise by a new configuration."""
    raised: list[tuple[NodeView, Ratios, Ratios]] = []
    async for node in _in_steps(nodes):
        before = effective_ratios(node.annotations, maximum=context.largest)
        after = wanted_ratios(node, context)
        if ratio_of(after, CPU) > ratio_of(before, CPU):
            raised.append((node, before, after))
    if not raised:
        return []
    used = await usages()
    findings: list[tuple[str, Finding]] = []
    async for node, before, after in _in_steps(raised):
        if finding := busy_node_raise(node, before, after, used.get(node.name)):
            findings.append((node.name, finding))
    warnings = [
        f"node {name}: {finding.message} ({finding.reason})" for name, finding in findings[:_SHOWN_NODES]
    ]
    more = len(findings) - len(warnings)
    return warnings + ([f"{more} more busy nodes get a higher cpu ratio, too"] if more > 0 else [])


async def _in_steps(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield each; leases and probes wait for a few of thousands at most."""
    for number, each in enumerate(items):
        if number % _AT_A_TIME == 0:
            await asyncio.sleep(0)
        yield each


async def cpu_usage_milli(client: Client, node: str) -> int | None:
    """Return the milli-CPU a node really uses, by the resource metrics API; None if that is not known."""
    try:
        body = await read_metrics(client, f"nodes/{quote(node, safe='')}")
        return Quantity.parse(msgspec.json.decode(body, type=_NodeMetrics).usage["cpu"]).milli
    except (KubeError, *UNREADABLE, QuantityError, KeyError) as error:
        log.debug("usage of node %s is unknown: %s", node, error)
        return None


async def cpu_usages(client: Client) -> Mapping[str, int]:
    """Return the milli-CPU that every node really uses; nothing if that is not known."""
    try:
        body = await read_metrics(client, "nodes")
        listed = msgspec.json.decode(body, type=_NodeMetricsList).items
        return {each.metadata.name: Quantity.parse(each.usage["cpu"]).milli for each in listed}
    except (KubeError, *UNREADABLE, QuantityError, KeyError) as error:
        log.debug("usage of nodes is unknown: %s", error)
        return {}


async def read_metrics(client: Client, what: str, within: float = _TIMEOUT) -> bytes:
    """Return the response of the first version of metrics.k8s.io that is served; ``within``: seconds.

    Raises:
        KubeError: among them NotFound, if none is.
    """
    beta, stable = (_PATH.format(version, what) for version in _VERSIONS)
    try:
        return await client.request("GET", beta, timeout=within, repeatable=False)
    except NotFound:
        return await client.request("GET", stable, timeout=within, repeatable=False)
