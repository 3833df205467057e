"""The engine: a pod and a snapshot in, a decision out.

    feasible = nodes that every Filter passes
    score    = sum of weight x Score, over the feasible nodes
    chosen   = the feasible node of the best score; of equal ones the first

Nothing is changed by a decision. Whoever carries it out puts the pod on its node in the cluster, so that the
next snapshot shows it; ``reserve`` says first what exactly the pod gets there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from corewise.amplification import Column, Flags
from corewise.engine.framework import (
    Account,
    Accounts,
    Cause,
    ChosenNode,
    Filter,
    PreScore,
    Refused,
    Reserve,
    Score,
    Verdicts,
    everywhere,
)
from corewise.engine.pods import Placement, PodFacts
from corewise.engine.snapshot import ClusterSnapshot

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
