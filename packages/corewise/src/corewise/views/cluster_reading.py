"""The cluster read once for its report, or a dump of it: nodes, pods, configuration, and what they yield."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypeVar

from corewise.engine.objects import TOPOLOGIES
from corewise.kube.client import Client
from corewise.kube.clock import rfc3339
from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.resources import NAMESPACES, Resource
from corewise.manager.busy_nodes import cpu_usages
from corewise.planner.inputs import plan_from_objects
from corewise.planner.savings import Savings, savings
from corewise.scheduler.listing import read_rules
from corewise.scheduler.plugins import load_plugins
from corewise.scheduler.state import UNFINISHED
from corewise.views import node_table, offline_table, pod_table
from corewise.views.cluster_report import ClusterReport, grouped, machine_kinds, sums_of
from corewise.views.node_listing import ListedCluster, list_cluster
from corewise.views.offline_reports import node_report
from corewise.views.page.problems import (
    KnownProblem,
    of_configuration,
    of_namespaces,
    of_nodes,
    of_pods,
    of_report,
    of_scores,
)
from corewise.views.suppression_subject import subject_of
from corewise.vocabulary.qos import QoSRules
from corewise.workload.pods import WORKLOAD_PODS, Pod

T = TypeVar("T")


async def read_report(client: Client, config_namespace: str, source: str, now: datetime) -> ClusterReport:
    """Return the report on a cluster as it is ``now``.

    Raises:
        KubeError: if the nodes cannot be read.
    """

    async def optional(resource: Resource[T], field_selector: str = "") -> tuple[T, ...] | None:
        try:
            return tuple(await client.list(resource, field_selector=field_selector))
        except (Forbidden, NotFound):
            return None  # list_cluster names it

    listed, pods, topologies, rules, usages = await asyncio.gather(
        list_cluster(client, config_namespace),
        optional(WORKLOAD_PODS, UNFINISHED),
        optional(TOPOLOGIES),
        read_rules(client),
        cpu_usages(client),
    )
    config = listed.config_map.data if listed.config_map else {}
    metas = [each.node.metadata for each in listed.nodes]
    reports = [node_report(meta.name, meta.labels, meta.annotations, now) for meta in metas]
    namespaces = await optional(NAMESPACES)
    rows = [
        node_table.row_of(each, now, pods_known=listed.pods_known, usage=[used] if used is not None else [])
        for each in listed.nodes
        for used in [usages.get(each.node.metadata.name)]
    ]
    saved: Savings | None = None
    if pods is not None:
        known = None if rules.unknown else rules.rules
        given = plan_from_objects(
            source,
            [each.node for each in listed.nodes],
            topologies or (),
            pods,
            config,
            rules=known,
            largest=listed.largest,
        )
        plugins = load_plugins()
        saved = await asyncio.to_thread(savings, given, listed.reading.configuration, plugins)
    offline = tuple(row for each in reports if (row := offline_table.row_of(each)) is not None)
    problems = [
        *of_configuration(
            listed.reading,
            listed.config_map,
            [(meta.name, meta.labels) for meta in metas],
            listed.koordinator,
            listed.koordinator_in,
        ),
        *of_scores(
            (each.node for each in listed.nodes),
            listed.stated_of,
            listed.reading,
            listed.config_map,
            now,
        ),
        *of_nodes(rows),
        *_of_pods(listed, pods or (), config, rules.rules, now),
        *of_namespaces(namespaces or ()),
    ]
    kinds = machine_kinds(listed.nodes, rows)
    return ClusterReport(
        source=source,
        time=rfc3339(now),
        kinds=kinds,
        unknown=sum(row.facts.cpu_model is None for row in rows),
        total=sums_of(rows),
        without_raw=sum(row.amounts.raw is None for row in rows),
        nodes=len(rows),
        savings=saved,
        offline=offline,
        offline_total=offline_table.total_of(offline) if offline else None,
        problems=grouped(problems),
        missing=listed.missing,
    )


def _of_pods(
    listed: ListedCluster, pods: Iterable[Pod], config: Mapping[str, str], rules: QoSRules, now: datetime
) -> Iterator[KnownProblem]:
    """Yield the problems of pods, and what agents report about the offline ones."""
    by_key = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}
    yield from of_pods([pod_table.row_of(pod, rules) for pod in by_key.values()], by_key, rules)
    on_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in by_key.values():
        on_node[pod.spec.node_name].append(pod)
    for each in listed.nodes:
        subject = subject_of(each.node, config, on_node[each.node.metadata.name], now)
        if subject.node.labeled or subject.node.report is not None or subject.node.unreadable:
            yield from of_report(subject)
