"""The scheduling framework: what a plugin is, and how plugins decide where a pod goes.

    feasible = nodes that every Filter passes
    score    = sum of weight x Score, over the feasible nodes
    chosen   = the feasible node with the best score; of equal ones the first

A plugin has a name and one or several methods of kube-scheduler's extension points. It sees all nodes at
once:

- ``filter`` returns a verdict for every node, as a column of codes: 0 passes, another names a cause;
- ``score`` returns 0 to 100 for every node. It sees which nodes are feasible, so PreScore is part of it;
- ``reserve`` returns its part of the placement on the chosen node, or refuses. A placement is a value, so
  there is nothing to undo, and no Unreserve;
- ``account`` returns what else there is to say about a decision, computed only if somebody asks.

A cause has a summary, the same for all nodes, by which kube-scheduler counts ("3 nodes: ..."), and a message
with one node's numbers, which is put together only for those that ask.

A filter or score with ``by_node = True`` says of a node what only its own row, and of the pod only its
requests, constraints and wishes (``PodShape``) lead to: its answers can be remembered (:mod:`remembered`). An
engine of such plugins alone, asked about some nodes of a large cluster, evaluates only these.

A decision changes nothing. Whoever carries it out puts the pod on its node in the cluster, so that the next
snapshot shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from corewise.amplification.numa import BoolColumn, IntColumn
from corewise.engine.cluster import Cluster
from corewise.engine.columns import ClusterSnapshot, Indices
from corewise.engine.facts import NodeFacts, Placement, PodFacts
from corewise.engine.table import Measures
from corewise.pinning.ledger import Ledger
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

Codes: TypeAlias = NDArray[np.uint16]
Rows: TypeAlias = slice | Indices
"""Some nodes, or all."""
Inputs: TypeAlias = Mapping[str, int]
"""The numbers that a verdict about one node was made from, by name, without those that are unknown."""

BEST_SCORE = 100
NOWHERE = -1
INFEASIBLE = int(np.iinfo(np.int64).min)
"""The total of a node to which a pod cannot go."""
GATHERING = 1500
"""To take rows out of the columns costs as much as to evaluate so many more nodes."""
_MOST_TRIED = 100
"""Nodes that are tried for one pod. One that passes the filters hardly ever refuses at the last moment."""


def _no_columns() -> Mapping[str, IntColumn | Measures | int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of a node's refusal. ``unresolvable``: evicting pods from it would not help."""

    reason: Reason
    summary: str
    unresolvable: bool = False
    message: Callable[[Inputs], str] | None = field(default=None, compare=False)

    def text(self, inputs: Inputs) -> str:
        """Return the message about one node."""
        return self.message(inputs) if self.message else self.summary


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One plugin's verdict on every node, and the columns it was made from."""

    codes: Codes
    causes: tuple[Cause, ...]
    inputs: Mapping[str, IntColumn | Measures | int] = field(default_factory=_no_columns)

    @property
    def passes(self) -> BoolColumn:
        passing: BoolColumn = self.codes == 0
        return passing

    def cause(self, row: int) -> Cause | None:
        """Return the cause of a node's refusal; None if it passes."""
        code = int(self.codes[row])
        return self.causes[code - 1] if code else None

    def numbers(self, row: int) -> dict[str, int]:
        """Return the inputs of one node."""
        here = {
            name: value[row] if isinstance(value, np.ndarray) else value
            for name, value in self.inputs.items()
        }
        return {name: int(value) for name, value in here.items() if not np.isnan(value)}

    def among(self, size: int, rows: Indices) -> Verdicts:
        """Return these verdicts in their rows among those of all nodes; the others pass."""
        inputs = {
            name: _among(value, size, rows) if isinstance(value, np.ndarray) else value
            for name, value in self.inputs.items()
        }
        return Verdicts(_among(self.codes, size, rows), self.causes, inputs)

    def of(self, rows: Rows) -> Verdicts:
        """Return the verdicts on some nodes, unmoved by later changes of the cluster."""
        inputs = {
            name: value[rows].copy() if isinstance(value, np.ndarray) else value
            for name, value in self.inputs.items()
        }
        return Verdicts(self.codes[rows], self.causes, inputs)


def _among(column: NDArray[Any], size: int, rows: Indices, rest: int = 0) -> NDArray[Any]:
    """Return a column of all nodes from one of some; ``rest`` is what the others have."""
    every = np.full(size, rest, dtype=column.dtype)
    every[rows] = column
    return every


def verdicts(
    size: int,
    refusals: Sequence[tuple[BoolColumn, Cause]],
    inputs: Mapping[str, IntColumn | Measures | int] | None = None,
) -> Verdicts | None:
    """Put refusals together: the first that applies to a node counts. None if no node is refused."""
    numbered = enumerate(refusals, start=1)
    applying = [(number, refused) for number, (refused, _) in numbered if np.count_nonzero(refused)]
    if not applying:
        return None
    codes = np.zeros(size, dtype=np.uint16)
    for number, refused in reversed(applying):
        np.copyto(codes, np.uint16(number), where=refused)
    return Verdicts(codes, tuple(cause for _, cause in refusals), inputs or _no_columns())


def everywhere(size: int, cause: Cause) -> Verdicts:
    """Refuse all nodes for one cause."""
    return Verdicts(np.ones(size, dtype=np.uint16), (cause,))


@dataclass(frozen=True, slots=True)
class ChosenNode:
    """The node that Reserve is about."""

    facts: NodeFacts
    row: int
    ledger: Ledger | None
    snapshot: ClusterSnapshot

    @classmethod
    def of(cls, cluster: Cluster, snapshot: ClusterSnapshot, row: int) -> ChosenNode:
        """Return the node in a row of the cluster's snapshot."""
        name = snapshot.names[row]
        return cls(cluster.nodes[name], row, cluster.ledger(name), snapshot)


class Plugin(Protocol):
    """Every plugin has a name, under which its verdicts are reported."""

    @property
    def name(self) -> str: ...


@runtime_checkable
class Filter(Plugin, Protocol):
    """Says which nodes a pod cannot go to."""

    def filter(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Verdicts | None:
        """Return a verdict for every node; None if all pass."""


@runtime_checkable
class Score(Plugin, Protocol):
    """Says how well each node suits a pod. ``weight``: how much that counts beside other scores."""

    @property
    def weight(self) -> int: ...

    def score(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: BoolColumn) -> IntColumn:
        """Return 0 to 100 for every node; values of nodes that are not feasible are ignored."""


@runtime_checkable
class Reserve(Plugin, Protocol):
    """Takes its part of the chosen node."""

    def reserve(self, pod: PodFacts, node: ChosenNode, placement: Placement) -> Placement | Finding:
        """Return the placement with this plugin's part, or why the node will not do."""


class Account(Protocol):
    """A plugin's account of a decision beyond verdicts and scores; computed when somebody asks."""

    def of(self, row: int) -> dict[str, Any]:
        """Return it about one node, for programs."""

    def lines(self, row: int) -> Iterator[tuple[str, str]]:
        """Yield it about one node, for people: headings and texts."""

    def detached(self) -> Account:
        """Return the same, unmoved by later changes of the cluster."""


@dataclass(frozen=True, slots=True)
class AccountOfSome:
    """An account of some of the nodes that there were."""

    every: Account
    rows: Indices

    def of(self, row: int) -> dict[str, Any]:
        return self.every.of(int(self.rows[row]))

    def lines(self, row: int) -> Iterator[tuple[str, str]]:
        return self.every.lines(int(self.rows[row]))

    def detached(self) -> AccountOfSome:
        return AccountOfSome(self.every.detached(), self.rows)


@runtime_checkable
class Accounts(Plugin, Protocol):
    """Has something to say about decisions."""

    def account(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: BoolColumn) -> Account | None:
        """Return an account of the decision; it costs nothing until somebody asks."""


class CountedCause(NamedTuple):
    """The number of nodes a plugin refuses for one cause; ``row`` is that of the first of them."""

    plugin: str
    cause: Cause
    nodes: int
    row: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a pod may go and where it goes best, with every verdict and score that led there.

    ``row`` is that of the chosen node, NOWHERE if none is feasible; ``total`` is INFEASIBLE on nodes that are
    not. ``verdicts`` has the plugins that refused any node; ``asked`` are the nodes in question.
    """

    pod: PodFacts
    names: Sequence[str]
    asked: BoolColumn
    verdicts: Mapping[str, Verdicts]
    feasible: BoolColumn
    scores: Mapping[str, IntColumn]
    total: IntColumn
    row: int
    accounts: Mapping[str, Account] = field(default_factory=dict)

    @property
    def node(self) -> str | None:
        """The name of the chosen node."""
        return None if self.row == NOWHERE else self.names[self.row]

    @property
    def headline(self) -> str:
        """One sentence as kube-scheduler writes them, the most frequent causes first."""
        asked, feasible = int(self.asked.sum()), int(self.feasible.sum())
        if self.node:
            return f"{self.pod.key} goes to {self.node}: {feasible} of {asked} nodes suit it"
        causes = ", ".join(f"{each.nodes} {each.cause.summary}" for each in self.causes())
        return f"0/{asked} nodes are available: {causes or 'there are no nodes'}"

    def refusals(self, row: int) -> Iterator[tuple[str, Finding]]:
        """Yield the plugins that refuse a node, in their order, each with its refusal."""
        for plugin, each in self.verdicts.items():
            cause = each.cause(row)
            if cause is not None:
                text = cause.text(each.numbers(row))
                yield plugin, Finding(cause.reason, text, unresolvable=cause.unresolvable)

    def causes(self) -> list[CountedCause]:
        """Count the refused nodes by cause, each by its first plugin; the most frequent cause first."""
        left, found = self.asked.copy(), []
        for plugin, each in self.verdicts.items():
            rows = np.flatnonzero(left)
            codes = each.codes[rows]
            counts = np.bincount(codes, minlength=1)
            counts[0] = 0
            for code in np.flatnonzero(counts).tolist():
                first = int(rows[(codes == code).argmax()])
                found.append(CountedCause(plugin, each.causes[code - 1], int(counts[code]), first))
            left &= each.passes
        return sorted(found, key=lambda each: -each.nodes)

    def detached(self) -> Decision:
        """Return the decision about the nodes asked about, unmoved by later changes, for the record."""
        rows: Rows = slice(None)
        names, row, accounts = tuple(self.names), self.row, self.accounts
        if np.count_nonzero(self.asked) < len(self.asked):
            rows = np.flatnonzero(self.asked)
            names = tuple([self.names[each] for each in rows.tolist()])
            row = NOWHERE if row == NOWHERE else int(rows.searchsorted(row))
            accounts = {name: AccountOfSome(each, rows) for name, each in accounts.items()}
        return Decision(
            self.pod,
            names,
            self.asked[rows].copy(),
            {name: each.of(rows) for name, each in self.verdicts.items()},
            self.feasible[rows],
            {name: each[rows] for name, each in self.scores.items()},
            self.total[rows],
            row,
            {name: each.detached() for name, each in accounts.items()},
        )


def best(totals: IntColumn) -> int:
    """Return the first row with the best total; NOWHERE if no node is feasible."""
    row = int(totals.argmax()) if len(totals) else NOWHERE
    return NOWHERE if row == NOWHERE or totals[row] == INFEASIBLE else row


@dataclass(frozen=True, slots=True)
class Engine:
    """Plugins by extension point, in the order in which they are asked."""

    filters: tuple[Filter, ...]
    scores: tuple[Score, ...]
    reserves: tuple[Reserve, ...]
    accounts: tuple[Accounts, ...]

    @classmethod
    def of(cls, *plugins: Plugin) -> Engine:
        """Return the engine of these plugins; each is asked wherever it has the method."""
        return cls(
            tuple(each for each in plugins if isinstance(each, Filter)),
            tuple(each for each in plugins if isinstance(each, Score)),
            tuple(each for each in plugins if isinstance(each, Reserve)),
            tuple(each for each in plugins if isinstance(each, Accounts)),
        )

    @property
    def by_node(self) -> bool:
        """Whether what is said of a node depends on that node alone."""
        return all(getattr(each, "by_node", False) for each in (*self.filters, *self.scores))

    def decide(
        self,
        pod: PodFacts,
        snapshot: ClusterSnapshot,
        among: BoolColumn | None = None,
        gathering: int = GATHERING,
    ) -> Decision:
        """Decide where a pod goes. ``among``: the nodes in question, all if None.

        ``gathering``: in nodes, what it costs to look at some of them.
        """
        asked = snapshot.present if among is None else snapshot.present & among
        if np.count_nonzero(asked) + gathering < snapshot.size and self.by_node:
            found, feasible, scores, total = self._judged_alone(pod, snapshot, np.flatnonzero(asked))
        else:
            found, feasible, scores, total = self._judged(pod, snapshot, asked)
        row = best(total)
        said = ((each.name, each.account(pod, snapshot, feasible)) for each in self.accounts)
        accounts = {name: account for name, account in said if account is not None}
        return Decision(pod, snapshot.names, asked, found, feasible, scores, total, row, accounts)

    def totals(self, pod: PodFacts, snapshot: ClusterSnapshot) -> IntColumn:
        """Return the total of every node, INFEASIBLE where the pod cannot go."""
        return self._judged(pod, snapshot, snapshot.present)[-1]

    def _judged_alone(
        self, pod: PodFacts, snapshot: ClusterSnapshot, rows: Indices
    ) -> tuple[dict[str, Verdicts], BoolColumn, dict[str, IntColumn], IntColumn]:
        """Return the same as ``_judged``, by evaluating some nodes only."""
        some, size = snapshot.some(rows), snapshot.size
        found, feasible, scores, total = self._judged(pod, some, some.present)
        return (
            {name: each.among(size, rows) for name, each in found.items()},
            _among(feasible, size, rows),
            {name: _among(score, size, rows) for name, score in scores.items()},
            _among(total, size, rows, INFEASIBLE),
        )

    def _judged(
        self, pod: PodFacts, snapshot: ClusterSnapshot, asked: BoolColumn
    ) -> tuple[dict[str, Verdicts], BoolColumn, dict[str, IntColumn], IntColumn]:
        """Return verdicts, the feasible nodes, scores and totals; no scores if no node is feasible."""
        found: dict[str, Verdicts] = {}
        for plugin in self.filters:
            answer = plugin.filter(pod, snapshot)
            if answer is not None:
                found[plugin.name] = answer
        feasible = asked.copy()
        for each in found.values():
            feasible &= each.passes
        scores: dict[str, IntColumn] = {}
        total = snapshot.nowhere()
        if np.count_nonzero(feasible):
            for scoring in self.scores:
                scores[scoring.name] = score = scoring.score(pod, snapshot, feasible)
                total += score if scoring.weight == 1 else scoring.weight * score
        np.copyto(total, INFEASIBLE, where=~feasible)
        return found, feasible, scores, total

    def reserve(self, pod: PodFacts, node: ChosenNode) -> Placement | Finding:
        """Return the pod's placement on a node, or the first refusal."""
        placement = Placement(node.facts.name)
        for plugin in self.reserves:
            answer = plugin.reserve(pod, node, placement)
            if isinstance(answer, Finding):
                return answer
            placement = answer
        return placement


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """The reason a pod goes nowhere: no node is feasible, or those that are refused at the last moment.

    ``decision`` is the first one; ``refused`` are the nodes that it and later ones chose, in their order.
    """

    decision: Decision
    refused: tuple[tuple[str, Finding], ...] = ()

    @property
    def message(self) -> str:
        """One sentence as kube-scheduler writes them."""
        if not self.refused:
            return self.decision.headline
        node, first = self.refused[0]
        asked, refused = int(self.decision.asked.sum()), len(self.refused)
        why = f"{refused} refused when the pod was placed ({node}: {first.message})"
        return f"0/{asked} nodes are available: {why}"


def place(engine: Engine, cluster: Cluster, pod: PodFacts) -> Placement | Unschedulable:
    """Choose a node, and what the pod gets there.

    A node that refuses at the last moment is left out, and the next best one is tried.
    """
    snapshot = cluster.snapshot()
    first = decision = engine.decide(pod, snapshot)
    refused: list[tuple[str, Finding]] = []
    among = snapshot.present
    while decision.node is not None and len(refused) < _MOST_TRIED:
        answer = engine.reserve(pod, ChosenNode.of(cluster, snapshot, decision.row))
        if isinstance(answer, Placement):
            return answer
        refused.append((decision.node, answer))
        among = among.copy()
        among[decision.row] = False
        decision = engine.decide(pod, snapshot, among)
    return Unschedulable(first, tuple(refused))
