"""Checks and preferences of kube-scheduler itself, for the engines that work without it.

NodeConstraints: node name, cordon, taints, node selector and required node affinity. They depend on what
nodes are, not on what their pods take: equal constraints are decided once, and again only when a node, a
label, a taint or a cordon changes. Of taints each distinct set is looked at once. Source: plugins nodename,
nodeunschedulable, tainttoleration and nodeaffinity of kube-scheduler.

ResourceFit: a pod's request of each resource is at most what is left of the node's allocatable. A pod that
requests nothing of a resource fits whatever is left of it. Source: plugins/noderesources/fit.go.

NodePreferences: preferred node affinity, and taints that only prefer that a pod stays away.

    affinity = 100 x weights of the preferred terms that match / the largest sum of any feasible node
    taints   = 100 - 100 x taints PreferNoSchedule that are not tolerated / the largest number of any
    score    = (2 x affinity + 3 x taints) / 5, rounded down: as kube-scheduler weighs the two by default

NodeResourcesFit: ResourceFit, and the score of kube-scheduler's plugin of that name, with the strategy
LeastAllocated and the resources that ``corewise scheduler config`` prints for it:

    score = sum of weight x (100 x what would be left / allocatable) / sum of weights, each rounded down

A resource other than cpu and memory counts only for pods that request it, and only on nodes that have it. So
an offline pod, which requests neither cpu nor memory, goes mainly by the batch CPU that is left. Source:
plugins/noderesources/resource_allocation.go and least_allocated.go. kube-scheduler counts 100m of cpu and
200Mi of memory for a pod that requests none; here it counts as none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from corewise.amplification.numa import BoolColumn, IntColumn
from corewise.engine.columns import ClusterSnapshot, SomeNodes
from corewise.engine.facts import CPU, MEMORY, PODS, BlockingTaint, Constraints, PodFacts, Toleration
from corewise.engine.framework import BEST_SCORE, Cause, Inputs, Verdicts, verdicts
from corewise.engine.table import Selection
from corewise.quantities import Quantity
from corewise.quantities.quantity import NANO, Format
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY
from corewise.vocabulary.reasons import Reason

CORDON = BlockingTaint("node.kubernetes.io/unschedulable", "NoSchedule")
PREFERS_NOT = "PreferNoSchedule"
FIT_WEIGHTS: Mapping[str, int] = {CPU: 1, MEMORY: 1, BATCH_CPU: 10, BATCH_MEMORY: 1}
"""Of the resources in NodeResourcesFit's score. That of batch CPU outweighs the others together."""
_AFFINITY_WEIGHT, _TAINTS_WEIGHT = 2, 3
_MOST_REMEMBERED = 1024
_MOST_TAINTS = 200
"""Taints that are named in causes; the rest share one, so that codes stay small."""

_OTHER_NAME = Cause(Reason.NODE_NAME_MISMATCH, "the pod names another node", unresolvable=True)
_CORDONED = Cause(Reason.NODE_UNSCHEDULABLE, "node is unschedulable", unresolvable=True)
_NOT_SELECTED = Cause(
    Reason.NODE_AFFINITY_MISMATCH,
    "node does not match the pod's node selector or affinity",
    unresolvable=True,
)
_OTHER_TAINT = Cause(Reason.TAINT_NOT_TOLERATED, "node has a taint that is not tolerated", unresolvable=True)
_TOO_MANY_PODS = Cause(Reason.RESOURCE_INSUFFICIENT, "Too many pods")


class NodeConstraints:
    """The filter. It remembers verdicts; its answer depends on its arguments alone."""

    name = "NodeConstraints"
    by_node = True

    def __init__(self) -> None:
        self._version: tuple[int, int] = (-1, -1)
        self._known: dict[Constraints, Verdicts | None] = {}

    def filter(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Verdicts | None:
        """Refuse nodes that are not for the pod."""
        every = snapshot.every if isinstance(snapshot, SomeNodes) else snapshot
        version = id(every.names), every.static_version
        if version != self._version or len(self._known) >= _MOST_REMEMBERED:
            self._version, self._known = version, {}
        if pod.constraints not in self._known:
            self._known[pod.constraints] = _allowed(pod.constraints, every)
        known = self._known[pod.constraints]
        if known is None or not isinstance(snapshot, SomeNodes):
            return known
        return Verdicts(known.codes[snapshot.rows], known.causes)


def _allowed(constraints: Constraints, snapshot: ClusterSnapshot) -> Verdicts | None:
    refusals: list[tuple[BoolColumn, Cause]] = []
    if constraints.node_name:
        other = np.ones(snapshot.size, dtype=np.bool_)
        row = snapshot.index.get(constraints.node_name)
        if row is not None:
            other[row] = False
        refusals.append((other, _OTHER_NAME))
    if not _tolerated(CORDON, constraints.tolerations):
        refusals.append((snapshot.unschedulable, _CORDONED))
    refusals += _tainted(constraints.tolerations, snapshot)
    nodes = Selection(snapshot.labels, snapshot.index, snapshot.size)
    selected = nodes.all_of(constraints.selector)
    if constraints.affinity is not None:
        selected &= nodes.any_of(constraints.affinity)
    refusals.append((~selected, _NOT_SELECTED))
    return verdicts(snapshot.size, refusals)


def _tainted(
    tolerations: tuple[Toleration, ...], snapshot: ClusterSnapshot
) -> list[tuple[BoolColumn, Cause]]:
    """Return for each taint the nodes where it is the first one that is not tolerated."""
    sets: dict[BlockingTaint, list[int]] = {}
    for number, taints in enumerate(snapshot.taint_sets):
        repelling = (taint for taint in taints if taint.repels)
        first = next((taint for taint in repelling if not _tolerated(taint, tolerations)), None)
        if first is not None:
            sets.setdefault(first, []).append(number)
    refusals: list[tuple[BoolColumn, Cause]] = []
    rest: list[int] = []
    for taint, numbers in sets.items():
        if len(refusals) == _MOST_TAINTS:
            rest += numbers
            continue
        text = f"node has the untolerated taint {{{taint.key}: {taint.value}}}"
        cause = Cause(Reason.TAINT_NOT_TOLERATED, text, unresolvable=True)
        refusals.append((np.isin(snapshot.taint_set, numbers), cause))
    return [*refusals, (np.isin(snapshot.taint_set, rest), _OTHER_TAINT)] if rest else refusals


def _tolerated(taint: BlockingTaint, tolerations: Iterable[Toleration]) -> bool:
    return any(each.tolerates(taint.key, taint.value, taint.effect) for each in tolerations)


@dataclass(frozen=True, slots=True)
class ResourceFit:
    """The filter."""

    name: str = "ResourceFit"
    by_node: ClassVar[bool] = True

    def filter(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Verdicts | None:
        """Refuse nodes that have too little left of any resource, or too many pods."""
        return _fitting(pod, snapshot, snapshot.free)


def _fitting(pod: PodFacts, snapshot: ClusterSnapshot, free: Mapping[str, IntColumn]) -> Verdicts | None:
    refusals = [(free[PODS] < 1, _TOO_MANY_PODS)]
    inputs: dict[str, IntColumn | int] = {PODS: free[PODS]}
    for resource, request in pod.requests.items():
        left = free.get(resource)
        short = np.ones(snapshot.size, dtype=np.bool_) if left is None else left < request
        inputs[resource] = snapshot.nowhere() if left is None else left
        refusals.append((short, _short_of(resource, request)))
    return verdicts(snapshot.size, refusals, inputs)


@lru_cache(maxsize=_MOST_REMEMBERED)
def _short_of(resource: str, request: int) -> Cause:
    def message(numbers: Inputs) -> str:
        wanted, left = (_as_users_write(resource, amount) for amount in (request, numbers[resource]))
        return f"requests {wanted} of {resource}, {left} is left"

    return Cause(Reason.RESOURCE_INSUFFICIENT, f"Insufficient {resource}", message=message)


def _as_users_write(resource: str, amount: int) -> str:
    if resource == CPU:
        return str(Quantity.of_milli(amount))
    return str(Quantity(amount * NANO, Format.BINARY_SI if resource == MEMORY else Format.DECIMAL_SI))


@dataclass(frozen=True, slots=True)
class NodePreferences:
    """The Score plugin; both parts are in proportion to the feasible nodes."""

    name: str = "NodePreferences"
    weight: int = _AFFINITY_WEIGHT + _TAINTS_WEIGHT

    def score(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: BoolColumn) -> IntColumn:
        """Return 0 to 100 for every node."""
        affinity, taints = _matching(pod, snapshot), _untolerated(pod, snapshot)
        most, worst = (int(column[feasible].max(initial=0)) for column in (affinity, taints))
        liked = affinity * BEST_SCORE // max(1, most)
        left = BEST_SCORE - taints * BEST_SCORE // max(1, worst)
        score: IntColumn = np.clip(
            (_AFFINITY_WEIGHT * liked + _TAINTS_WEIGHT * left) // self.weight, 0, BEST_SCORE
        )
        return score


def _matching(pod: PodFacts, snapshot: ClusterSnapshot) -> IntColumn:
    """Return the weights of the preferred terms that match each node."""
    sums = snapshot.nowhere()
    nodes = Selection(snapshot.labels, snapshot.index, snapshot.size)
    for weight, term in pod.constraints.preferred:
        if term:
            sums += weight * nodes.all_of(term)
    return sums


def _untolerated(pod: PodFacts, snapshot: ClusterSnapshot) -> IntColumn:
    """Count the taints of each node that would rather not have the pod."""
    tolerations = pod.constraints.tolerations
    counts = [
        sum(each.effect == PREFERS_NOT and not _tolerated(each, tolerations) for each in taints)
        for taints in snapshot.taint_sets
    ]
    return np.array(counts, dtype=np.int64)[snapshot.taint_set]


@dataclass(frozen=True, slots=True)
class NodeResourcesFit:
    """The filter and the Score plugin of kube-scheduler itself.

    It knows of owned CPUs only that the node's allocatable is less by what they cost beyond the requests of
    their pods: what is left of it then is ``cpu_room``.
    """

    name: str = "NodeResourcesFit"
    weight: int = 1

    def filter(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Verdicts | None:
        """Refuse nodes that have too little left of any resource, or too many pods."""
        return _fitting(pod, snapshot, _free(snapshot))

    def score(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: BoolColumn) -> IntColumn:
        """Return 0 to 100 for every node."""
        free, total, weights = _free(snapshot), snapshot.nowhere(), snapshot.nowhere()
        for resource, weight in FIT_WEIGHTS.items():
            allocatable = snapshot.allocatable.get(resource)
            if allocatable is None or (resource not in {CPU, MEMORY} and resource not in pod.requests):
                continue
            left = np.maximum(free[resource] - pod.requests.get(resource, 0), 0)
            share = left * BEST_SCORE // np.maximum(allocatable, 1)
            total += weight * np.minimum(share, BEST_SCORE)
            weights += weight * (allocatable > 0)
        score: IntColumn = total // np.maximum(weights, 1)
        return score


def _free(snapshot: ClusterSnapshot) -> Mapping[str, IntColumn]:
    return {**snapshot.free, CPU: snapshot.cpu_room}
