"""The cluster read once, for commands: a decision about one pod as it would be made now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from corewise.config.interference.model import InterferenceConfiguration
from corewise.engine import Cluster, Decision, Interference, Placement, PodFacts, assemble
from corewise.engine.objects import (
    PLACED_PODS,
    SCHEDULABLE_NODES,
    TOPOLOGIES,
    PlacedPod,
    ReportedTopology,
    SchedulableNode,
)
from corewise.engine.reading import holds_resources, key_of, placement, pod_facts, read_node_facts
from corewise.kube.client import Client
from corewise.kube.errors import Forbidden, NotFound
from corewise.prometheus.client import PrometheusClient
from corewise.scheduler.active_config import identities
from corewise.scheduler.observing.readings import NodeNames, complaint, observe
from corewise.scheduler.observing.sources import sources
from corewise.scheduler.plugins import load_plugins
from corewise.scheduler.state import UNFINISHED


@dataclass(frozen=True, slots=True)
class ListedPod:
    """A pod, where it is if it is bound, and what would be decided about it if it was not.

    ``findings``: what is wrong with what it states, or with its claim to CPUs; ``missing``: what could not be
    read, in words.
    """

    facts: PodFacts
    placement: Placement | None
    decision: Decision
    findings: tuple[str, ...]
    missing: tuple[str, ...]


async def list_pod(
    client: Client,
    namespace: str,
    name: str,
    interference: InterferenceConfiguration | None = None,
    prometheus: PrometheusClient | None = None,
) -> ListedPod:
    """Read a pod and the cluster, and decide; by its profile too if there are any, and what Prometheus knows.

    Raises:
        KubeError: if the pod, the nodes or the other pods cannot be read.
        PluginError: if an installed plugin cannot be used.
    """
    missing: list[str] = []
    pod, nodes, pods, topologies = await asyncio.gather(
        client.get(PLACED_PODS, name, namespace),
        client.list(SCHEDULABLE_NODES),
        client.list(PLACED_PODS, field_selector=UNFINISHED),
        _topologies(client, missing),
    )
    stated = {each.metadata.name: each for each in topologies}
    cluster = Cluster()
    for node in nodes:
        cluster.put_node(read_node_facts(node, stated.get(node.metadata.name)).facts)
    for each in pods:
        if holds_resources(each):
            cluster.put_pod(pod_facts(each), placement(each)[0])
    plugin = None
    if interference is not None:
        plugin = Interference(interference, time.time)
        cluster.estimate(plugin.estimates())
        missing += await _measure(cluster, nodes, interference, prometheus)
    return decide_about(pod, cluster, plugin, missing)


def decide_about(
    pod: PlacedPod, cluster: Cluster, plugin: Interference | None = None, missing: Iterable[str] = ()
) -> ListedPod:
    """Decide about a pod as if it was not bound; the cluster is without it afterwards."""
    where, findings = _bound(pod, cluster)
    cluster.remove_pod(key_of(pod))
    engine = assemble(interference=plugin, plugins=load_plugins(), kube_checks=True)
    decision = engine.decide(pod_facts(pod), cluster.snapshot())
    return ListedPod(pod_facts(pod), where, decision, findings, tuple(missing))


async def _topologies(client: Client, missing: list[str]) -> Iterable[ReportedTopology]:
    try:
        return await client.list(TOPOLOGIES)
    except NotFound:
        missing.append(f"{TOPOLOGIES.plural}: there are none, so no node states its CPUs")
    except Forbidden:
        missing.append(f"{TOPOLOGIES.plural}: you may not read them, so no node's CPUs are known")
    return ()


async def _measure(
    cluster: Cluster,
    nodes: Iterable[SchedulableNode],
    interference: InterferenceConfiguration,
    prometheus: PrometheusClient | None,
) -> list[str]:
    """Have the cluster know what Prometheus knows; return what it does not tell, in words."""
    if prometheus is None:
        return ["interference: no Prometheus was named (--prometheus), so nothing is measured"]
    names = NodeNames(identities(nodes))
    observation = await observe(prometheus, sources(interference), names, time.time)
    cluster.measure(observation.measured())
    failing: dict[str, list[str]] = {}
    for series, error in observation.failures.items():
        failing.setdefault(error.message, []).append(series)
    answered = [each for each in observation.sources if each.metric not in observation.failures]
    wrong = (complaint(each, observation.readings[each.metric]) for each in answered)
    return [*(f"{', '.join(series)}: {message}" for message, series in failing.items()), *filter(None, wrong)]


def _bound(pod: PlacedPod, cluster: Cluster) -> tuple[Placement | None, tuple[str, ...]]:
    """Return where a pod is, with the CPUs that are really its own, and what is wrong there."""
    problem = pod_facts(pod).problem
    findings = [problem.message] if problem else []
    if not holds_resources(pod):
        return None, tuple(findings)
    where, finding = placement(pod)
    findings += [finding.message] if finding else []
    ledger = cluster.ledger(where.node)
    if ledger is None:
        return where, tuple(findings)
    key = key_of(pod)
    findings += [each.message for each in ledger.conflicts if each.owner == key]
    return replace(where, cpus=ledger.held_by(key)), tuple(findings)
