"""NodeConstraints: node name, cordon, taints, node selector and required node affinity.

They depend on what nodes are, not on what their pods take: equal constraints are decided once, and again only
when a node, a label, a taint or a cordon changes. Of taints each distinct set is looked at once. Preferences
refuse nothing (:mod:`corewise.engine.kube_plugins`).

Source: plugins nodename, nodeunschedulable, tainttoleration and nodeaffinity of kube-scheduler.

ResourceFit: what a pod requests is at most what is left of the node's allocatable, for every resource.

The plain arithmetic of kube-scheduler: requests as they are, pods counted among them. A pod that requests
nothing of a resource fits whatever is left of it. Source: plugins/noderesources/fit.go of kube-scheduler.

NodePreferences: preferred node affinity, and taints that only prefer that a pod stays away.

    affinity = 100 x weights of the preferred terms that match / the largest sum of any feasible node
    taints   = 100 - 100 x taints PreferNoSchedule that are not tolerated / the largest number of any
    score    = (2 x affinity + 3 x taints) / 5, rounded down: as kube-scheduler weighs the two by default

Source: plugins nodeaffinity and tainttoleration of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from corewise.amplification import Column, Flags
from corewise.engine.columns import ClusterSnapshot
from corewise.engine.facts import CPU, MEMORY, PODS, Constraints, PodFacts, Taint, Toleration
from corewise.engine.framework import BEST_SCORE, Cause, Inputs, Verdicts, verdicts
from corewise.engine.table import Selection
from corewise.quantities import Quantity
from corewise.quantities.quantity import NANO, Format
from corewise.vocabulary.reasons import Reason

CORDON = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
_MOST_REMEMBERED = 1024
_MOST_TAINTS = 200
_OTHER_NAME = Cause(Reason.NODE_NAME_MISMATCH, "the pod names another node", hopeless=True)
_CORDONED = Cause(Reason.NODE_UNSCHEDULABLE, "node is unschedulable", hopeless=True)
_NOT_SELECTED = Cause(
    Reason.NODE_AFFINITY_MISMATCH, "node does not match the pod's node selector or affinity", hopeless=True
)
_OTHER_TAINT = Cause(Reason.TAINT_NOT_TOLERATED, "node has a taint that is not tolerated", hopeless=True)


class NodeConstraints:
    """The filter. It remembers verdicts; what it says depends on its arguments alone."""

    name = "NodeConstraints"

    def __init__(self) -> None:
        self._version: tuple[int, int] = (-1, -1)
        self._known: dict[Constraints, Verdicts | None] = {}

    def filter(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Verdicts | None:
        """Refuse nodes that are not for the pod."""
        version = id(snapshot.names), snapshot.static_version
        if version != self._version or len(self._known) >= _MOST_REMEMBERED:
            self._version, self._known = version, {}
        if pod.constraints not in self._known:
            self._known[pod.constraints] = _decide(pod.constraints, snapshot)
        return self._known[pod.constraints]


def _decide(constraints: Constraints, snapshot: ClusterSnapshot) -> Verdicts | None:
    refusals: list[tuple[Flags, Cause]] = []
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


def _tainted(tolerations: tuple[Toleration, ...], snapshot: ClusterSnapshot) -> list[tuple[Flags, Cause]]:
    """Return for each taint the nodes where it is the first one that is not tolerated."""
    sets: dict[Taint, list[int]] = {}
    for number, taints in enumerate(snapshot.taint_sets):
        repelling = (taint for taint in taints if taint.repels)
        first = next((taint for taint in repelling if not _tolerated(taint, tolerations)), None)
        if first is not None:
            sets.setdefault(first, []).append(number)
    told = list(sets.items())[:_MOST_TAINTS]
    rest = [number for _, numbers in list(sets.items())[_MOST_TAINTS:] for number in numbers]
    refusals = [(np.isin(snapshot.taint_set, numbers), _taint_cause(taint)) for taint, numbers in told]
    return [*refusals, *([(np.isin(snapshot.taint_set, rest), _OTHER_TAINT)] if rest else [])]


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(each.tolerates(taint.key, taint.value, taint.effect) for each in tolerations)


def _taint_cause(taint: Taint) -> Cause:
    text = f"node has the untolerated taint {{{taint.key}: {taint.value}}}"
    return Cause(Reason.TAINT_NOT_TOLERATED, text, hopeless=True)


_TOO_MANY_PODS = Cause(Reason.RESOURCE_INSUFFICIENT, "Too many pods")


@dataclass(frozen=True, slots=True)
class ResourceFit:
    """The filter."""

    name: str = "ResourceFit"

    def filter(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Verdicts | None:
        """Refuse nodes that have too little left of any resource, or too many pods."""
        refusals = [(snapshot.free[PODS] < 1, _TOO_MANY_PODS)]
        inputs: dict[str, Column | int] = {PODS: snapshot.free[PODS]}
        for resource, request in pod.requests.items():
            short, free = _short(resource, request, snapshot)
            inputs[resource] = free
            refusals.append((short, _cause(resource, request)))
        return verdicts(snapshot.size, refusals, inputs)


def _short(resource: str, request: int, snapshot: ClusterSnapshot) -> tuple[Flags, Column]:
    free = snapshot.free.get(resource)
    if free is None:
        return np.ones(snapshot.size, dtype=np.bool_), snapshot.nowhere()
    return free < request, free


def _told(resource: str, amount: int) -> str:
    """Return an amount as users write it."""
    if resource == CPU:
        return str(Quantity.of_milli(amount))
    return str(Quantity(amount * NANO, Format.BINARY_SI if resource == MEMORY else Format.DECIMAL_SI))


def _cause(resource: str, request: int) -> Cause:
    def message(numbers: Inputs) -> str:
        wanted, left = (_told(resource, amount) for amount in (request, numbers[resource]))
        return f"requests {wanted} of {resource}, {left} is left"

    return Cause(Reason.RESOURCE_INSUFFICIENT, f"Insufficient {resource}", message=message)


PREFERS_NOT = "PreferNoSchedule"
_AFFINITY, _TAINTS = 2, 3
WEIGHT = _AFFINITY + _TAINTS


@dataclass(frozen=True, slots=True)
class NodePreferences:
    """The Score plugin, and what prepares it: both parts are in proportion to the feasible nodes."""

    name: str = "NodePreferences"

    def pre_score(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: Flags) -> Column:
        """Return the score of every node."""
        affinity, taints = _matching(pod, snapshot), _untolerated(pod, snapshot)
        most, worst = (int(column[feasible].max(initial=0)) for column in (affinity, taints))
        liked = affinity * BEST_SCORE // max(1, most)
        left = BEST_SCORE - taints * BEST_SCORE // max(1, worst)
        score: Column = np.clip((_AFFINITY * liked + _TAINTS * left) // WEIGHT, 0, BEST_SCORE)
        return score

    def score(self, pod: PodFacts, snapshot: ClusterSnapshot, prepared: object) -> Column:
        """Return what was prepared."""
        return prepared if isinstance(prepared, np.ndarray) else snapshot.nowhere()


def _matching(pod: PodFacts, snapshot: ClusterSnapshot) -> Column:
    """Return the weights of the preferred terms that match each node."""
    sums = snapshot.nowhere()
    nodes = Selection(snapshot.labels, snapshot.index, snapshot.size)
    for weight, term in pod.constraints.preferred:
        if term:
            sums += weight * nodes.all_of(term)
    return sums


def _untolerated(pod: PodFacts, snapshot: ClusterSnapshot) -> Column:
    """Return how many taints of each node would rather not have the pod."""
    tolerations = pod.constraints.tolerations
    counts = [
        sum(
            taint.effect == PREFERS_NOT
            and not any(each.tolerates(taint.key, taint.value, taint.effect) for each in tolerations)
            for taint in taints
        )
        for taints in snapshot.taint_sets
    ]
    return np.array(counts, dtype=np.int64)[snapshot.taint_set]
