"""The record of a decision: in sum for the pod, and for each node what each plugin said, with its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from corewise.engine.framework import Decision
from corewise.vocabulary.reasons import Reason

_BEST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Refusals:
    """How many nodes are refused for one cause, and one of them with its numbers."""

    plugin: str
    reason: Reason
    summary: str
    nodes: int
    example: str
    message: str


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """A decision in sum: how many nodes were asked and feasible, where it went, and why not elsewhere."""

    pod: str
    node: str | None
    asked: int
    feasible: int
    refusals: tuple[Refusals, ...]
    best: tuple[tuple[str, int], ...]

    @property
    def headline(self) -> str:
        """One sentence as kube-scheduler writes them, the most frequent causes first."""
        if self.node:
            return f"{self.pod} goes to {self.node}: {self.feasible} of {self.asked} nodes suit it"
        causes = ", ".join(f"{each.nodes} {each.summary}" for each in self.refusals)
        return f"0/{self.asked} nodes are available: {causes or 'there are no nodes'}"


@dataclass(frozen=True, slots=True)
class PluginVerdict:
    """What one plugin says of one node; ``reason`` is None if it passes."""

    plugin: str
    reason: Reason | None
    message: str
    inputs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """What every plugin that refused any node says of this one, and its scores if it is feasible."""

    node: str
    feasible: bool
    verdicts: tuple[PluginVerdict, ...]
    scores: Mapping[str, int]
    total: int | None
    accounts: Mapping[str, Mapping[str, Any]]


def explain_pod(decision: Decision) -> PodExplanation:
    """Sum up a decision."""
    rows = np.flatnonzero(decision.feasible)
    best = rows[np.argsort(-decision.total[rows], kind="stable")[:_BEST_SHOWN]]
    return PodExplanation(
        pod=decision.pod.key,
        node=decision.node,
        asked=int(decision.asked.sum()),
        feasible=len(rows),
        refusals=_refusals(decision),
        best=tuple((decision.names[row], int(decision.total[row])) for row in best.tolist()),
    )


def explain_node(decision: Decision, row: int) -> NodeExplanation:
    """Say what each plugin said of one node."""
    feasible = bool(decision.feasible[row])
    return NodeExplanation(
        node=decision.names[row],
        feasible=feasible,
        verdicts=tuple(_verdict(decision, plugin, row) for plugin in decision.verdicts),
        scores={name: int(column[row]) for name, column in decision.scores.items()} if feasible else {},
        total=int(decision.total[row]) if feasible else None,
        accounts={name: account.of(row) for name, account in decision.accounts.items()},
    )


def _verdict(decision: Decision, plugin: str, row: int) -> PluginVerdict:
    verdicts = decision.verdicts[plugin]
    cause, numbers = verdicts.cause(row), verdicts.numbers(row)
    if cause is None:
        return PluginVerdict(plugin, None, "", numbers)
    return PluginVerdict(plugin, cause.reason, cause.told(numbers), numbers)


def _refusals(decision: Decision) -> tuple[Refusals, ...]:
    """Return why nodes that were asked are refused, each by its first plugin, the most frequent first."""
    left, found = decision.asked.copy(), []
    for plugin, verdicts in decision.verdicts.items():
        for number, cause in enumerate(verdicts.causes, start=1):
            rows = np.flatnonzero(left & (verdicts.codes == number))
            if len(rows):
                first = int(rows[0])
                message = cause.told(verdicts.numbers(first))
                found.append(
                    Refusals(plugin, cause.reason, cause.summary, len(rows), decision.names[first], message)
                )
        left &= verdicts.passes
    return tuple(sorted(found, key=lambda each: -each.nodes))
