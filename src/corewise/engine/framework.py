"""What a plugin of the scheduler is, and what it says: verdicts and scores for all nodes at once.

- Filter: a verdict for every node, as a column of codes: 0 passes, another names a cause.
- PreScore: what a Score wants to know of all nodes that passed, before it is asked.
- Score: a number for every node, 0 to 100; the engine weighs them and adds them up.
- Reserve: its part of the placement on the chosen node, or a refusal; Unreserve undoes what it did.

A cause has a summary, the same for all nodes, by which kube-scheduler counts ("3 nodes: ..."), and a message
with one node's numbers, which is put together only for those that ask.

The engine: a pod and a snapshot in, a decision out.

    feasible = nodes that every Filter passes
    score    = sum of weight x Score, over the feasible nodes
    chosen   = the feasible node of the best score; of equal ones the first

Nothing is changed by a decision. Whoever carries it out puts the pod on its node in the cluster, so that the
next snapshot shows it; ``reserve`` says first what exactly the pod gets there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corewise.amplification import Column, Flags
from corewise.engine.columns import ClusterSnapshot
from corewise.engine.facts import NodeFacts, Placement, PodFacts
from corewise.engine.table import Measures
from corewise.pinning import Ledger
from corewise.vocabulary.reasons import Reason

Codes: TypeAlias = NDArray[np.uint16]
Inputs: TypeAlias = Mapping[str, int]
"""The numbers that a verdict about one node was made from, by name, without those that are unknown."""

BEST_SCORE = 100


def _no_columns() -> Mapping[str, Column | Measures | int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a node is refused. ``hopeless``: evicting pods from it would not help."""

    reason: Reason
    summary: str
    hopeless: bool = False
    message: Callable[[Inputs], str] | None = field(default=None, compare=False)

    def told(self, inputs: Inputs) -> str:
        """Return the message about one node."""
        return self.message(inputs) if self.message else self.summary


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What one plugin says of every node, and the columns it was made from."""

    codes: Codes
    causes: tuple[Cause, ...]
    inputs: Mapping[str, Column | Measures | int] = field(default_factory=_no_columns)

    @property
    def passes(self) -> Flags:
        passing: Flags = self.codes == 0
        return passing

    def cause(self, row: int) -> Cause | None:
        """Return why a node is refused; None if it passes."""
        code = int(self.codes[row])
        return self.causes[code - 1] if code else None

    def numbers(self, row: int) -> dict[str, int]:
        """Return the inputs of one node."""
        here = {
            name: value[row] if isinstance(value, np.ndarray) else value
            for name, value in self.inputs.items()
        }
        return {name: int(value) for name, value in here.items() if not np.isnan(value)}

    def detached(self) -> Verdicts:
        """Return the same verdicts, unmoved by later changes of the cluster."""
        inputs = {
            name: value.copy() if isinstance(value, np.ndarray) and value.flags.writeable else value
            for name, value in self.inputs.items()
        }
        return Verdicts(self.codes, self.causes, inputs)


def verdicts(
    size: int,
    refusals: list[tuple[Flags, Cause]],
    inputs: Mapping[str, Column | Measures | int] | None = None,
) -> Verdicts | None:
    """Put refusals together, the first that applies to a node counts; None if no node is refused."""
    applying = [(number, refused) for number, (refused, _) in enumerate(refusals, start=1) if refused.any()]
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
class Refused:
    """What kept a chosen node from taking the pod after all."""

    plugin: str
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class ChosenNode:
    """The node that Reserve is about."""

    facts: NodeFacts
    row: int
    ledger: Ledger | None
    snapshot: ClusterSnapshot


class Plugin(Protocol):
    """Every plugin has a name, by which verdicts are told."""

    @property
    def name(self) -> str: ...


class Filter(Plugin, Protocol):
    """Says which nodes a pod cannot go to."""

    def filter(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Verdicts | None:
        """Return a verdict for every node; None if all pass."""


class PreScore(Plugin, Protocol):
    """Looks at all nodes that passed before its Score is asked."""

    def pre_score(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: Flags) -> object:
        """Return what the plugin's ``score`` is to be given."""


class Score(Plugin, Protocol):
    """Says how well each node suits a pod."""

    def score(self, pod: PodFacts, snapshot: ClusterSnapshot, prepared: object) -> Column:
        """Return 0 to 100 for every node; what it says of nodes that did not pass is ignored.

        ``prepared``: what ``pre_score`` returned; None for a plugin that has none.
        """


class Account(Protocol):
    """What a plugin has to tell of a decision beyond verdicts and scores; made up when asked."""

    def of(self, row: int) -> dict[str, Any]:
        """Return it about one node, for programs."""

    def lines(self, row: int) -> Iterator[tuple[str, str]]:
        """Yield it about one node, for people: headings and texts."""

    def detached(self) -> Account:
        """Return the same, unmoved by later changes of the cluster."""


class Accounts(Plugin, Protocol):
    """Has something to tell of decisions."""

    def account(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: Flags) -> Account | None:
        """Return what there is to tell; it costs nothing until somebody asks."""


class Reserve(Plugin, Protocol):
    """Takes its part of the chosen node."""

    def reserve(self, pod: PodFacts, node: ChosenNode, placement: Placement) -> Placement | Refused:
        """Return the placement with this plugin's part, or why the node will not do."""

    def unreserve(self, pod: PodFacts, placement: Placement) -> None:
        """Undo what ``reserve`` did outside the placement; it may be asked twice."""


NOWHERE = -1
POD_ITSELF = "PodItself"
"""Who refuses all nodes to a pod that states something that cannot be followed."""

_WORST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Weighted:
    """A Score and how much it counts; ``prepares`` is the same plugin if it is a PreScore too."""

    plugin: Score
    weight: int = 1
    prepares: PreScore | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a pod may go and where it goes best, with every verdict and score that led there.

    ``row`` is that of the chosen node, NOWHERE if none is feasible; ``total`` means something on feasible
    nodes only. ``verdicts`` has the plugins that refused any node, ``asked`` the nodes that were in question,
    ``accounts`` what plugins have to tell beside.
    """

    pod: PodFacts
    names: Sequence[str]
    asked: Flags
    verdicts: Mapping[str, Verdicts]
    feasible: Flags
    scores: Mapping[str, Column]
    total: Column
    row: int
    accounts: Mapping[str, Account] = field(default_factory=dict)

    @property
    def node(self) -> str | None:
        """The name of the chosen node."""
        return None if self.row == NOWHERE else self.names[self.row]

    def refusal(self, row: int) -> tuple[str, Cause] | None:
        """Return the first plugin that refuses a node, and why; None if it is feasible."""
        for plugin, verdicts in self.verdicts.items():
            cause = verdicts.cause(row)
            if cause is not None:
                return plugin, cause
        return None

    def counts(self) -> Mapping[Cause, int]:
        """Return how many of the nodes in question are refused for which cause, each by its first plugin."""
        left = self.asked.copy()
        found: dict[Cause, int] = {}
        for verdicts in self.verdicts.values():
            numbers = np.bincount(verdicts.codes[left], minlength=len(verdicts.causes) + 1)
            for cause, number in zip(verdicts.causes, numbers[1:].tolist(), strict=True):
                if number:
                    found[cause] = found.get(cause, 0) + number
            left &= verdicts.passes
        return found

    def detached(self) -> Decision:
        """Return the same decision, unmoved by later changes of the cluster, for the record."""
        verdicts = {name: each.detached() for name, each in self.verdicts.items()}
        accounts = {name: each.detached() for name, each in self.accounts.items()}
        return replace(
            self, names=tuple(self.names), asked=self.asked.copy(), verdicts=verdicts, accounts=accounts
        )


@dataclass(frozen=True, slots=True)
class Engine:
    """Plugins in the order in which they are asked."""

    filters: tuple[Filter, ...] = ()
    scores: tuple[Weighted, ...] = ()
    reserves: tuple[Reserve, ...] = ()
    tells: tuple[Accounts, ...] = ()

    def decide(self, pod: PodFacts, snapshot: ClusterSnapshot, among: Flags | None = None) -> Decision:
        """Decide where a pod goes. ``among``: the nodes in question, all if None."""
        asked = snapshot.present if among is None else snapshot.present & among
        verdicts = dict(self._verdicts(pod, snapshot))
        feasible = asked.copy()
        for each in verdicts.values():
            feasible &= each.passes
        scores, total, row = self._scored(pod, snapshot, feasible)
        told = ((each.name, each.account(pod, snapshot, feasible)) for each in self.tells)
        accounts = {name: account for name, account in told if account is not None}
        return Decision(pod, snapshot.names, asked, verdicts, feasible, scores, total, row, accounts)

    def _verdicts(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Iterator[tuple[str, Verdicts]]:
        if pod.problem is not None:
            cause = Cause(pod.problem.reason, pod.problem.message, hopeless=True)
            yield POD_ITSELF, everywhere(snapshot.size, cause)
        for plugin in self.filters:
            said = plugin.filter(pod, snapshot)
            if said is not None:
                yield plugin.name, said

    def _scored(
        self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: Flags
    ) -> tuple[dict[str, Column], Column, int]:
        total = snapshot.nowhere()
        if not feasible.any():
            return {}, total, NOWHERE
        scores: dict[str, Column] = {}
        for weighted in self.scores:
            plugin = weighted.plugin
            before = weighted.prepares
            prepared = None if before is None else before.pre_score(pod, snapshot, feasible)
            scores[plugin.name] = score = plugin.score(pod, snapshot, prepared)
            total += score if weighted.weight == 1 else weighted.weight * score
        best = int(np.where(feasible, total, _WORST).argmax())
        return scores, total, best

    def reserve(self, pod: PodFacts, node: ChosenNode) -> Placement | Refused:
        """Return what the pod gets on a node; what plugins did is undone if one of them refuses."""
        placement = Placement(node.facts.name)
        done: list[Reserve] = []
        for plugin in self.reserves:
            answer = plugin.reserve(pod, node, placement)
            if isinstance(answer, Refused):
                self._undo(pod, placement, done)
                return answer
            placement = answer
            done.append(plugin)
        return placement

    def unreserve(self, pod: PodFacts, placement: Placement) -> None:
        """Undo what ``reserve`` did outside the placement."""
        self._undo(pod, placement, list(self.reserves))

    @staticmethod
    def _undo(pod: PodFacts, placement: Placement, plugins: list[Reserve]) -> None:
        for plugin in reversed(plugins):
            plugin.unreserve(pod, placement)
