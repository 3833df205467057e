"""NodeConstraints: node name, cordon, taints, node selector and required node affinity.

They depend on what nodes are, not on what their pods take: equal constraints are decided once, and again only
when a node, a label, a taint or a cordon changes. Of taints each distinct set is looked at once. Preferences
refuse nothing (:mod:`corewise.engine.node_preferences`).

Source: plugins nodename, nodeunschedulable, tainttoleration and nodeaffinity of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from corewise.amplification import Flags
from corewise.engine.framework import Cause, Verdicts, verdicts
from corewise.engine.labels import Selection
from corewise.engine.nodes import Taint
from corewise.engine.pods import Constraints, PodFacts, Toleration
from corewise.engine.snapshot import ClusterSnapshot
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
