"""Placing many pods one after the other: totals that were computed for a pod serve the next one of its shape.

Pods come in few shapes, and placing one writes one row. So the totals of a shape are kept, and when the next
pod of that shape comes, the rows written since then are judged again, by the same plugins:

    totals[rows written] = engine.totals(pod, snapshot of these rows)
    chosen               = the first row with the best total, as in a decision about all nodes

That needs plugins whose answer about a node depends on that node alone (``by_node``); scores in proportion to
other nodes do not. With an engine that has others, and whenever no remembered node takes the pod, the
decision is made in full, so that it says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from corewise.amplification.numa import IntColumn
from corewise.engine.cluster import Cluster
from corewise.engine.columns import ClusterSnapshot
from corewise.engine.facts import Constraints, Placement, PodFacts
from corewise.engine.framework import GATHERING, NOWHERE, ChosenNode, Engine, Unschedulable, best, place
from corewise.vocabulary.cpu_annotations import CPUBinding, NumaPolicy

_MOST_BYTES = 64 << 20
"""Of all totals together."""


class PodShape(NamedTuple):
    """All of a pod that plugins with ``by_node`` look at."""

    requests: tuple[tuple[str, int], ...]
    owned_by_class: int
    owned_if_static: int
    normalizes: bool
    kept: int
    binding: CPUBinding
    numa_policy: NumaPolicy | None
    constraints: Constraints


@dataclass(slots=True)
class _Totals:
    """The totals of a shape; ``seen``: how many of the rows written they show."""

    column: IntColumn
    seen: int


class Placer:
    """Places pods where ``place`` would. ``gathering``: in nodes, what it costs to look at some of them."""

    def __init__(self, engine: Engine, cluster: Cluster, gathering: int = GATHERING) -> None:
        self._engine = engine
        self._cluster = cluster
        self._gathering = gathering
        self._remembers = engine.by_node
        self._known: dict[PodShape, _Totals] = {}
        self._made_of: ClusterSnapshot | None = None

    def place(self, pod: PodFacts) -> Placement | Unschedulable:
        """Choose a node, and what the pod gets there."""
        if self._remembers and pod.problem is None:
            snapshot = self._cluster.snapshot()
            row = best(self._totals(pod, snapshot))
            if row != NOWHERE:
                node = ChosenNode.of(self._cluster, snapshot, row)
                answer = self._engine.reserve(pod, node)
                if isinstance(answer, Placement):
                    return answer
        return place(self._engine, self._cluster, pod)

    def _totals(self, pod: PodFacts, snapshot: ClusterSnapshot) -> IntColumn:
        if snapshot is not self._made_of:
            self._made_of, self._known = snapshot, {}
        shape = PodShape(
            tuple(pod.requests.items()),
            pod.owned_by_class,
            pod.owned_if_static,
            pod.normalizes,
            pod.kept,
            pod.binding,
            pod.numa_policy,
            pod.constraints,
        )
        known = self._known.pop(shape, None)
        written = snapshot.written
        if known is None:
            known = _Totals(self._engine.totals(pod, snapshot), len(written))
            if (len(self._known) + 1) * known.column.nbytes > _MOST_BYTES:
                del self._known[next(iter(self._known))]
        elif known.seen < len(written):
            rows = np.array(written[known.seen :], dtype=np.intp)
            if len(rows) + self._gathering < snapshot.size:
                known.column[rows] = self._engine.totals(pod, snapshot.some(rows))
            else:
                known.column = self._engine.totals(pod, snapshot)
            known.seen = len(written)
        self._known[shape] = known
        return known.column
