"""The scheduler extender: which nodes have the CPUs that a pod needs, and how good they are.

kube-scheduler checks everything else itself; here only AmplifiedCPU and Interference
refuse. A node that is not known (yet)
suits no pod. Why a node is refused is said by the cause alone, without its numbers: kube-scheduler counts
equal texts ("3 Insufficient amplified cpu"); the numbers are in ``/explain``.

What a pod has reserved itself is not in its own way: when it is scheduled again, its last binding failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat

import numpy as np

from corewise.amplification import Column, Flags
from corewise.engine import ClusterSnapshot, Decision, Engine, PodFacts, explain_pod
from corewise.engine.framework import BEST_SCORE
from corewise.engine.objects import PlacedPod
from corewise.engine.reading import pod_facts
from corewise.scheduler.decisions import Asked, Decisions
from corewise.scheduler.state import ClusterState
from corewise.scheduler.wire import LARGEST_SCORE, Arguments, Filtered

UNKNOWN = "corewise does not know this node yet"
_NOWHERE = -1
"""The row of a node that is not known; columns have one place more for it, at their end."""


@dataclass(slots=True)
class LetThrough:
    """The nodes that filter has let through last, and their rows.

    prioritize is asked about the same ones next, in the same order: then no name is looked up once more.
    """

    names: Sequence[str] = ()
    rows: Column = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    version: int = -1

    def keep(self, names: Sequence[str], rows: Column, snapshot: ClusterSnapshot) -> None:
        """Keep names and rows, which hold until a node comes or goes."""
        self.names, self.rows, self.version = names, rows, snapshot.static_version

    def rows_of(self, names: Sequence[str], snapshot: ClusterSnapshot) -> Column:
        """Return the rows of nodes by their names."""
        if self.version == snapshot.static_version and self.names == names:
            return self.rows
        found = map(snapshot.index.get, names, repeat(_NOWHERE))
        return np.fromiter(found, dtype=np.int64, count=len(names))


@dataclass(frozen=True, slots=True)
class Extender:
    """Answers the two calls. ``tell`` is told of a pod that none of the nodes suits, and why."""

    state: ClusterState
    engine: Callable[[], Engine]
    decisions: Decisions
    tell: Callable[[PlacedPod, str], None]
    let_through: LetThrough = field(default_factory=LetThrough)

    def filter(self, arguments: Arguments) -> Filtered:
        """Say which nodes suit the pod."""
        decision, rows = self._decide(arguments)
        suits: Flags = np.append(decision.feasible, np.False_)[rows]
        left = list(compress(arguments.names, suits))
        self.let_through.keep(left, rows[suits], self.state.cluster.snapshot())
        failed, hopeless = _refusals(decision, rows, arguments.names, suits)
        outcome = f"{int(suits.sum())} of {len(rows)} nodes suit it"
        if not suits.any():
            outcome = _nothing_fits(decision, rows)
            self.tell(arguments.pod, outcome)
        self.decisions.remember(Asked.FILTER, decision, self.state.ages, outcome)
        return Filtered(suits.tolist(), left, failed, hopeless)

    def prioritize(self, arguments: Arguments) -> Sequence[int]:
        """Return a score of 0 to 10 for each node; 0 for those that do not suit the pod.

        It is the decision that ``filter`` has made and remembered, made again for fewer nodes.
        """
        decision, rows = self._decide(arguments)
        most = BEST_SCORE * sum(each.weight for each in self.engine().scores)
        scores = (decision.total * LARGEST_SCORE + most // 2) // max(1, most)
        found: Column = np.append(np.where(decision.feasible, scores, 0), 0)[rows]
        clipped: list[int] = np.clip(found, 0, LARGEST_SCORE).tolist()
        return clipped

    def _decide(self, arguments: Arguments) -> tuple[Decision, Column]:
        """Decide among the nodes in question; the rows are those of the nodes as they were sent."""
        facts: PodFacts = pod_facts(arguments.pod, self.state.rules)
        with self.state.reservations.without(arguments.pod.metadata.uid):
            snapshot = self.state.cluster.snapshot()
            rows = self.let_through.rows_of(arguments.names, snapshot)
            asked: Flags = np.zeros(snapshot.size + 1, dtype=np.bool_)
            asked[rows] = True
            return self.engine().decide(facts, snapshot, asked[:_NOWHERE]), rows


def _refusals(
    decision: Decision, rows: Column, names: Sequence[str], suits: Flags
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts of nodes that eviction could free, and of those where it could not."""
    failed: dict[str, str] = {}
    hopeless = {names[place]: UNKNOWN for place in np.flatnonzero(rows == _NOWHERE).tolist()}
    left = ~suits & (rows != _NOWHERE)
    for verdicts in decision.verdicts.values():
        codes = np.where(left, np.append(verdicts.codes, np.uint8(0))[rows], 0)
        for number, cause in enumerate(verdicts.causes, start=1):
            places: Iterable[int] = np.flatnonzero(codes == number).tolist()
            target = hopeless if cause.hopeless else failed
            target.update((names[place], cause.summary) for place in places)
        left &= codes == 0
    return failed, hopeless


def _nothing_fits(decision: Decision, rows: Column) -> str:
    unknown = int((rows == _NOWHERE).sum())
    causes = [f"{each.nodes} {each.summary}" for each in explain_pod(decision).refusals]
    causes += [f"{unknown} unknown to corewise"] if unknown else []
    return f"0/{len(rows)} nodes are available: {', '.join(causes)}"
