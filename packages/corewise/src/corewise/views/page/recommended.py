"""The recommendations for the cluster that the page follows, computed at most every 15 s."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from corewise.amplification.annotations import LARGEST_RECORDED, read_ratios
from corewise.config.workload_ratios import quota_ratio
from corewise.kube.resources import PODS
from corewise.quantities import ONE, Quantity, QuantityError, Ratio, RatioError, amplify
from corewise.scheduler.listing import decide_about
from corewise.views.node_table import NodeRow
from corewise.views.page.followed import FollowedCluster
from corewise.views.page.node_pods import cpu_amount
from corewise.views.pod_table import OFFLINE, PodRow
from corewise.views.recommendations import (
    DEFAULT_SCHEDULER,
    SCALABLE,
    WATCHED_SECONDS,
    NodeUse,
    PodUse,
    WaitingPod,
    Workload,
    recommend,
)
from corewise.vocabulary.names import AMPLIFICATION_ORIGINAL, BATCH_CPU, BATCH_MEMORY
from corewise.workload.pods import Pod

EVERY = 15.0
"""Seconds for which recommendations hold: what they rest on is read no more often."""
_MOST_WAITING = _MOST_WORKLOADS = 20
"""Waiting pods and workloads for which nodes are looked for: each takes a millisecond or more."""
_RUNNING = "Running"
_TEMPLATE_HASH = "pod-template-hash"


class RecommendedTable:
    """The rows of all recommendations; a row that is as before is the same object."""

    def __init__(self, cluster: FollowedCluster) -> None:
        self._cluster = cluster
        self._rows: dict[str, dict[str, Any]] = {}
        self._shown: list[dict[str, Any]] = []
        self._made: float | None = None

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows: at most 15 s old, the same list as long as they are not made again."""
        now = self._cluster.clock.monotonic()
        if self._made is None or now - self._made >= EVERY:
            self._made, before = now, self._rows
            pods = tuple(self._pods())
            found = recommend(self._nodes(), pods, self._waiting(), self._suits(pods))
            made = [each.record for each in found]
            self._rows = {
                row["name"]: old if (old := before.get(row["name"])) == row else row for row in made
            }
            self._shown = list(self._rows.values())
        return self._shown

    def remarks(self) -> list[str]:
        """Return the reasons why something may be missing."""
        usages = self._cluster.usages
        if usages.remark:
            return [usages.remark]
        watched = max((each.seconds for each in usages.most.values()), default=0)
        if watched < WATCHED_SECONDS:
            left = -(-(WATCHED_SECONDS - watched) // 60)
            return [
                (
                    f"What pods never use is known after {WATCHED_SECONDS // 60} minutes of measuring: "
                    f"look again in {left} min. A page must be open meanwhile."
                )
            ]
        return []

    def _nodes(self) -> Iterator[NodeUse]:
        cluster = self._cluster
        rows: list[NodeRow] = cluster.data.tables["nodes"].rows(cluster.clock.now())
        for row in rows:
            node, amounts, facts = cluster.known.nodes.get(row.name), row.amounts, row.facts
            if node is None or amounts.raw is None or amounts.schedulable is None:
                continue
            allocatable = node.status.allocatable
            yield NodeUse(
                name=row.name,
                raw=amounts.raw,
                schedulable=amounts.schedulable,
                requested=amounts.requested or 0,
                normalization=_ratio(facts.normalization_ratio),
                amplification=_ratio(facts.amplification_ratio),
                used=amounts.used,
                offered=_units(allocatable, BATCH_CPU),
                offered_memory=_units(allocatable, BATCH_MEMORY),
                originals=_originals(node.metadata.annotations),
                pods_left=_units(allocatable, PODS.plural) - len([*cluster.known.pods_on(row.name)]),
            )

    def _pods(self) -> Iterator[PodUse]:
        cluster = self._cluster
        for row in cluster.data.tables["pods"].rows(cluster.clock.now()):
            pod = self._pod(row)
            if pod is None:
                continue
            most, node = cluster.usages.most.get(row.name), cluster.known.nodes.get(row.node)
            annotations = node.metadata.annotations if node is not None else {}
            yield PodUse(
                name=row.name,
                node=row.node,
                workload=workload_of(pod),
                containers=[each.name for each in pod.spec.containers],
                requested=request_of_containers(pod),
                used=None if most is None else _normalized(most.milli, pod, annotations),
                seconds=0 if most is None else most.seconds,
                runs=bool(row.node) and row.phase == _RUNNING,
                owns=bool(row.cpus),
                batch=row.amounts.batch_cpu,
                memory=row.amounts.batch_memory,
            )

    def _waiting(self) -> Iterator[WaitingPod]:
        looked = 0
        for row in self._cluster.data.tables["pods"].rows(self._cluster.clock.now()):
            pod = self._pod(row) if row.qos == OFFLINE and not row.node else None
            if pod is None or pod.spec.scheduling_gates:
                continue
            looked += 1
            if looked > _MOST_WAITING:
                return
            suits = self._suitable(pod)
            yield WaitingPod(
                row.name, row.amounts.batch_cpu, suits, pod.spec.scheduler_name or DEFAULT_SCHEDULER
            )

    def _suits(self, pods: Iterable[PodUse]) -> Mapping[Workload, Sequence[str]]:
        """Return the nodes that one more pod of each offline workload fits on, if all its pods run."""
        rows = self._cluster.data.tables["pods"].rows(self._cluster.clock.now())
        others = (self._pod(row) for row in rows if row.phase != _RUNNING)
        waits = {workload_of(pod) for pod in others if pod is not None}
        one_of = {each.workload: each for each in pods if each.batch and each.workload.kind in SCALABLE}
        found = {}
        for workload in sorted(one_of.keys() - waits)[:_MOST_WORKLOADS]:
            pod = self._cluster.state.pod(one_of[workload].name)
            if pod is not None:
                found[workload] = self._suitable(_one_more(pod))
        return found

    def _suitable(self, pod: Pod) -> Sequence[str]:
        """Return the nodes that a pod without a node fits on now, the best first."""
        state = self._cluster.state
        try:
            decision = decide_about(pod, state.counted.cluster, state.counted.rules).decision
        finally:
            state.count(pod)
        rows = sorted(
            np.flatnonzero(decision.feasible).tolist(),
            key=lambda each: (-int(decision.total[each]), decision.names[each]),
        )
        return [decision.names[each] for each in rows]

    def _pod(self, row: PodRow) -> Pod | None:
        namespace, _, name = row.name.partition("/")
        return self._cluster.state.pods.get(name, namespace)


def _one_more(pod: Pod) -> Pod:
    """Return a pod like this one that has no node yet; no other can have its name."""
    meta, spec = pod.metadata, pod.spec
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(meta, name=f"{meta.name}+", uid=""),
        spec=msgspec.structs.replace(spec, node_name=""),
    )


def workload_of(pod: Pod) -> Workload:
    """Return the creator of a pod: a Deployment is known by the ReplicaSet named after its template."""
    meta = pod.metadata
    owner = next((each for each in meta.owner_references if each.controller), None)
    if owner is None:
        return Workload("", meta.namespace, meta.name)
    ending = f"-{meta.labels.get(_TEMPLATE_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(ending) > 1 and owner.name.endswith(ending):
        return Workload("Deployment", meta.namespace, owner.name.removesuffix(ending))
    return Workload(owner.kind, meta.namespace, owner.name)


def request_of_containers(pod: Pod) -> int:
    """Return the milli-CPU that regular containers request; 0 if the pod states its request as a whole.

    Only this is lowered with a container's request: sidecars, and the overhead, keep theirs.
    """
    if cpu_amount(pod.spec.resources.requests) is not None:
        return 0
    return sum(cpu_amount(each.resources.requests) or 0 for each in pod.spec.containers)


def _normalized(milli: int, pod: Pod, annotations: Mapping[str, str]) -> int:
    """Return raw milli-CPU that a pod uses in the unit of its request; ``annotations`` are the Node's."""
    return amplify(milli, quota_ratio(pod.metadata.labels, annotations).ratio)


def _originals(annotations: Mapping[str, str]) -> Mapping[str, str]:
    stated = read_ratios(
        annotations.get(AMPLIFICATION_ORIGINAL), annotation=AMPLIFICATION_ORIGINAL, maximum=LARGEST_RECORDED
    )
    return {str(resource): str(ratio) for resource, ratio in stated.ratios.items()} if stated.readable else {}


def _units(amounts: Mapping[str, str], resource: str) -> int:
    try:
        return Quantity.parse(amounts[resource]).units
    except (KeyError, QuantityError):
        return 0


def _ratio(text: str | None) -> Ratio:
    try:
        return max(ONE, Ratio.parse(text or ""))
    except RatioError:
        return ONE
