"""The cluster read once, for commands: a decision about one pod as it would be made now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.workload_ratios import QuotaRatio, quota_ratio
from corewise.engine import (
    Allocation,
    Cluster,
    Decision,
    Engine,
    Interference,
    Measured,
    Placement,
    PodFacts,
    assemble,
)
from corewise.engine.amplified_cpu import normalized_owned
from corewise.engine.objects import DISRUPTION_BUDGETS, TOPOLOGIES, DisruptionBudget, ReportedTopology
from corewise.engine.preemption import Victim, cheapest_victims, with_budgets
from corewise.engine.reading import FINISHED, holds_resources, key_of, placement, pod_facts, read_node_facts
from corewise.kube.client import Client
from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.objects import PartialObject
from corewise.kube.resources import MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS
from corewise.prometheus.client import PrometheusClient
from corewise.scheduler.active_config import identities
from corewise.scheduler.configuration import DEFAULTS, SchedulerConfiguration
from corewise.scheduler.marking import has_stake
from corewise.scheduler.observing.readings import NodeNames, complaint, observe
from corewise.scheduler.observing.sources import sources
from corewise.scheduler.plugins import load_plugins
from corewise.scheduler.policy import NAME, published_rules, requests_it
from corewise.scheduler.preemption import lower_pods, published_amounts
from corewise.scheduler.state import UNFINISHED
from corewise.vocabulary.cpu_annotations import NumaPolicy
from corewise.vocabulary.names import INTERFERENCE_RESOURCE, NUMA_SPEC, QOS_CLASS
from corewise.vocabulary.qos import (
    DEFAULT_NAMESPACES,
    DEFAULT_RULES,
    EXEMPT_CLASSES,
    OWNERS_OF_CPUS,
    QoSRules,
)
from corewise.workload.nodes import WORKLOAD_NODES, Node
from corewise.workload.pods import WORKLOAD_PODS, Pod

_EVICTABLE = 100
"""How many nodes are looked at for pods to evict: each takes a millisecond or more."""


@dataclass(frozen=True, slots=True)
class ListedPod:
    """A pod, where it is if it is bound, and what would be decided about it if it was not.

    ``findings``: what is wrong with what it states, or with its claim to CPUs; ``missing``: what could not be
    read, in words. ``victims``: of a pod that waits and fits no node, the pods of lower priority whose
    eviction makes room for it, by node; of the first hundred nodes where that can help. ``owned``: the CPUs
    that a pod whose CPUs are normalized would own, by node. ``divided_by``: the ratio that divides its
    quotas where it is, None if it is not bound or none divides them. ``ignores_interference``: interference
    is configured, and kube-scheduler does not ask about it for this pod unless it asks about all pods.
    ``ignores_numa``: likewise the NUMA policy of the pod, or of nodes.
    """

    facts: PodFacts
    placement: Placement | None
    decision: Decision
    findings: tuple[str, ...]
    missing: tuple[str, ...]
    victims: Mapping[str, Sequence[Victim]] = field(default_factory=dict)
    owned: Mapping[str, int] = field(default_factory=dict)
    divided_by: QuotaRatio | None = None
    ignores_interference: bool = False
    ended: tuple[str, str] | None = None
    """The phase of a pod that has ended, and its node, "" if it was never bound."""
    gates: tuple[str, ...] = ()
    """The scheduling gates that the pod waits for."""
    ignores_numa: bool = False


@dataclass(frozen=True, slots=True)
class PublishedRules:
    """The scheduler's QoS rules as the cluster states them; the default ones if it does not: ``unknown``."""

    rules: QoSRules = DEFAULT_RULES
    unknown: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The reason the rules are unknown; empty if they are known."""
        assumed = ", ".join(DEFAULT_NAMESPACES)
        return (f"namespaces of LSE pods: {self.unknown}; assuming {assumed}",) if self.unknown else ()


async def read_rules(client: Client) -> PublishedRules:
    """Read in which namespaces pods may be LSE, from what the scheduler has installed."""
    hidden = []
    for resource in (MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS):
        try:
            rules = published_rules(await client.list(resource.typed(PartialObject)))
        except NotFound:  # policies before Kubernetes 1.36; in a dump, either
            continue
        except Forbidden:
            hidden.append(resource.plural)
            continue
        if rules is not None:
            return PublishedRules(rules)
    if hidden:
        return PublishedRules(unknown=f"you may not read {' and '.join(hidden)}")
    return PublishedRules(
        unknown=f"no {NAME} is installed that states them (corewise scheduler --manage-webhooks)"
    )


async def list_pod(
    client: Client,
    namespace: str,
    name: str,
    configuration: SchedulerConfiguration = DEFAULTS,
    prometheus: PrometheusClient | None = None,
) -> ListedPod:
    """Read a pod and the cluster, and decide; also by its profile if kube-scheduler asks about that.

    Raises:
        KubeError: if the pod, the nodes or the other pods cannot be read.
        PluginError: if an installed plugin cannot be used.
    """
    missing: list[str] = []
    pod, nodes, pods, topologies, published = await asyncio.gather(
        client.get(WORKLOAD_PODS, name, namespace),
        client.list(WORKLOAD_NODES),
        client.list(WORKLOAD_PODS, field_selector=UNFINISHED),
        _topologies(client, missing),
        read_rules(client),
    )
    if any(pod_facts(each, published.rules).refused_class for each in (pod, *pods)):
        missing += published.missing
    stated = {each.metadata.name: each for each in topologies}
    cluster = Cluster()
    for node in nodes:
        cluster.put_node(read_node_facts(node, stated.get(node.metadata.name)).facts)
    for each in pods:
        if holds_resources(each):
            cluster.put_pod(pod_facts(each, published.rules), placement(each, published.rules)[0])
    plugin, settings = None, configuration.interference
    is_asked = settings is not None and _asks_about(pod, settings, published.rules)
    if settings is not None and is_asked:
        plugin = Interference(settings, time.time)
        cluster.estimate(plugin.estimates())
        measured, unknown = await _measure(nodes, settings, prometheus)
        cluster.measure(_without_use(measured, pod, cluster, published.rules))
        missing += unknown
    engine = _engine(configuration.scoring, plugin)
    listed = decide_about(pod, cluster, published.rules, missing, engine=engine)
    listed = replace(listed, ignores_interference=settings is not None and not is_asked)
    if listed.placement is not None:
        annotated = {each.metadata.name: each.metadata.annotations for each in nodes}
        there = annotated.get(listed.placement.node, {})
        listed = replace(listed, divided_by=divided_by(pod, listed.placement, there, published.rules))
    if listed.placement is not None or listed.decision.feasible.any() or listed.facts.problem is not None:
        return listed
    by_key = {key_of(each): each for each in pods}
    budgets = await _budgets(client)
    victims: dict[str, Sequence[Victim]] = {}
    with cluster.without_entries(pod.metadata.uid):
        for node in _evictable(listed.decision, nodes)[:_EVICTABLE]:
            alone = _alone(cluster, node.metadata.name, listed)
            lower = lower_pods(node.metadata.name, alone, pod.spec.priority or 0, by_key.get, time.time())
            guarded = with_budgets(lower, budgets)
            chosen = cheapest_victims(engine, alone, listed.facts, guarded, published_amounts(node))
            if chosen:
                victims[node.metadata.name] = chosen
    return replace(listed, victims=victims)


def _alone(cluster: Cluster, name: str, listed: ListedPod) -> Cluster:
    """Return the cluster of one node, with a NUMA policy only if that counts for the pod."""
    alone = cluster.alone(name)
    if listed.ignores_numa:
        alone.put_node(replace(alone.nodes[name], numa_policy=NumaPolicy.NONE))
    return alone


def _evictable(decision: Decision, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that no cause refuses which stays when pods are evicted, by name."""
    rows = {name: row for row, name in enumerate(decision.names) if decision.asked[row]}
    found = []
    for node in sorted(nodes, key=lambda each: each.metadata.name):
        row = rows[node.metadata.name]
        causes = [each.cause(row) for each in decision.verdicts.values()]
        if not any(cause is not None and cause.unresolvable for cause in causes):
            found.append(node)
    return found


async def _budgets(client: Client) -> Sequence[DisruptionBudget]:
    """Read the PodDisruptionBudgets; none if the user may not, or the dump has none."""
    try:
        return list(await client.list(DISRUPTION_BUDGETS))
    except (Forbidden, NotFound):
        return ()


def _engine(scoring: Allocation = DEFAULTS.scoring, interference: Interference | None = None) -> Engine:
    return assemble(scoring, interference=interference, plugins=load_plugins(), kube_checks=True)


def _asks_about(pod: Pod, settings: InterferenceConfiguration, rules: QoSRules) -> bool:
    """Whether kube-scheduler asks about a pod's interference without ``--pods all``."""
    owns_cpus = pod_facts(pod, rules).owned_by_class > 0
    return owns_cpus or has_stake(pod, settings) or requests_it(pod, INTERFERENCE_RESOURCE)


def _without_use(measured: Measured, pod: Pod, cluster: Cluster, rules: QoSRules) -> Measured:
    """Return the measurements without a bound pod's own use of bandwidth and memory, by its profile."""
    if pod.spec.node_name not in measured.names or not holds_resources(pod):
        return measured
    use = cluster.lasting_use(pod_facts(pod, rules), placement(pod, rules)[0])
    return measured.without(pod.spec.node_name, [use])


def decide_about(
    pod: Pod,
    cluster: Cluster,
    rules: QoSRules,
    missing: Iterable[str] = (),
    *,
    engine: Engine | None = None,
) -> ListedPod:
    """Decide about a pod as if it was not bound; the cluster is without it afterwards.

    kube-scheduler asks corewise about NUMA policies only for pods of classes that own CPUs, so for other pods
    they do not count.
    """
    facts, ignores_numa = pod_facts(pod, rules), False
    if not _is_of_owning_class(pod):
        ignores_numa = NUMA_SPEC in pod.metadata.annotations
        facts = pod_facts(_without_numa_spec(pod), rules) if ignores_numa else facts
    where, findings = _bound(pod, facts, cluster, rules)
    cluster.remove_pod(key_of(pod))
    with cluster.without_entries(pod.metadata.uid):
        snapshot = cluster.snapshot()
        if not _is_of_owning_class(pod) and snapshot.numa_policy.any():
            snapshot = replace(snapshot, numa_policy=snapshot.nowhere())
            ignores_numa = True
        decision = (engine or _engine()).decide(facts, snapshot)
        owned = normalized_owned(facts, snapshot) if facts.normalizes else {}
    phase = pod.status.phase
    return ListedPod(
        facts,
        where,
        decision,
        findings,
        tuple(missing),
        owned=owned,
        ignores_numa=ignores_numa,
        ended=(phase, pod.spec.node_name) if phase in FINISHED else None,
        gates=tuple(each.name for each in pod.spec.scheduling_gates),
    )


def _is_of_owning_class(pod: Pod) -> bool:
    return pod.metadata.labels.get(QOS_CLASS) in OWNERS_OF_CPUS


def _without_numa_spec(pod: Pod) -> Pod:
    kept = {name: text for name, text in pod.metadata.annotations.items() if name != NUMA_SPEC}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=kept))


def divided_by(
    pod: Pod, where: Placement | None, annotations: Mapping[str, str], rules: QoSRules
) -> QuotaRatio | None:
    """Return the ratio that divides a pod's quotas on the Node with these annotations; None if none does."""
    labels = pod.metadata.labels
    if where is None or where.cpus or pod.has_claimed_cpu:
        return None
    if rules.class_of(labels, pod.metadata.namespace) in EXEMPT_CLASSES:
        return None
    return quota_ratio(labels, annotations)


async def _topologies(client: Client, missing: list[str]) -> Iterable[ReportedTopology]:
    try:
        return await client.list(TOPOLOGIES)
    except NotFound:
        missing.append(f"{TOPOLOGIES.plural}: there are none, so no node states its CPUs")
    except Forbidden:
        missing.append(f"{TOPOLOGIES.plural}: you may not read them, so no node's CPUs are known")
    return ()


async def _measure(
    nodes: Iterable[Node], interference: InterferenceConfiguration, prometheus: PrometheusClient | None
) -> tuple[Measured, list[str]]:
    """Return the measurements that Prometheus has, and its gaps in words."""
    if prometheus is None:
        return Measured(), ["interference: no Prometheus was named (--prometheus), so nothing is measured"]
    names = NodeNames(identities(nodes))
    observation = await observe(prometheus, sources(interference), names, time.time)
    failing: dict[str, list[str]] = {}
    for series, error in observation.failures.items():
        failing.setdefault(error.message, []).append(series)
    answered = [each for each in observation.sources if each.metric not in observation.failures]
    wrong = (complaint(each, observation.readings[each.metric]) for each in answered)
    failed = (f"{', '.join(series)}: {message}" for message, series in failing.items())
    return observation.measured(), [*failed, *filter(None, wrong)]


def _bound(
    pod: Pod, facts: PodFacts, cluster: Cluster, rules: QoSRules
) -> tuple[Placement | None, tuple[str, ...]]:
    """Return where a pod is, with the CPUs that are really its own, and what is wrong there."""
    findings = [facts.problem.message] if facts.problem else []
    if not holds_resources(pod):
        return None, tuple(findings)
    where, finding = placement(pod, rules)
    findings += [finding.message] if finding else []
    ledger = cluster.ledger(where.node)
    if ledger is None:
        return where, tuple(findings)
    key = key_of(pod)
    findings += [each.message for each in ledger.conflicts if each.owner == key]
    return replace(where, cpus=ledger.held_by(key)), tuple(findings)
