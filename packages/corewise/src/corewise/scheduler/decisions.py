"""Decisions for people and programs: a decision as a record, and the last ones, remembered for ``/explain``.

A remembered decision keeps the columns it was made from, unmoved by later changes of the cluster, and is
turned into a record only when somebody asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
import numpy as np

from corewise.engine import Decision
from corewise.kube.clock import Clock, rfc3339

_BEST_SHOWN = 5
_MOMENT = 5.0
"""Seconds between a refusal and the call for victims that follows it, at most."""


class Asked(StrEnum):
    """The caller that asked for the decision."""

    FILTER = "filter"
    BIND = "bind"


@dataclass(frozen=True, slots=True)
class Remembered:
    """A decision; ``ages`` are seconds since the API server was last heard of about each resource.

    ``outcome``: what was answered, in one sentence.
    """

    at: datetime
    asked: Asked
    decision: Decision
    ages: Mapping[str, float]
    outcome: str


class Decisions:
    """The last decisions, the newest first."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._clock = clock
        self._kept: deque[Remembered] = deque(maxlen=most)

    def keep(self, most: int) -> None:
        """Keep so many from now on."""
        if most != self._kept.maxlen:
            self._kept = deque(list(self._kept)[:most], maxlen=most)

    def remember(self, asked: Asked, decision: Decision, ages: Mapping[str, float], outcome: str) -> None:
        """Keep a decision; the oldest one makes room."""
        if self._kept.maxlen:
            kept = Remembered(self._clock.now(), asked, decision.detached(), dict(ages), outcome)
            self._kept.appendleft(kept)

    def __iter__(self) -> Iterator[Remembered]:
        return iter(tuple(self._kept))

    def just_refused(self, pod: str, node: str) -> bool:
        """Return whether the last decision about a pod refused a node, a moment ago."""
        last = next((each for each in self._kept if each.decision.pod.key == pod), None)
        if last is None or (self._clock.now() - last.at).total_seconds() > _MOMENT:
            return False
        names = last.decision.names
        row = names.index(node) if node in names else None
        return row is not None and bool(last.decision.asked[row] and not last.decision.feasible[row])

    def summaries(self, pod: str = "") -> list[dict[str, Any]]:
        """Return them in short, those about one pod if it is named as NAMESPACE/NAME."""
        return [summary(each) for each in self if pod in {"", each.decision.pod.key}]

    def details(self, pod: str, node: str = "") -> list[dict[str, Any]]:
        """Return those about one pod, with what every plugin said of every node, or of one node."""
        return [
            {**summary(each), "nodes": list(node_records(each.decision, node))}
            for each in self
            if each.decision.pod.key == pod
        ]


def summary(kept: Remembered) -> dict[str, Any]:
    """Return a decision in short."""
    return {
        "time": rfc3339(kept.at),
        "asked": kept.asked.value,
        "outcome": kept.outcome,
        "secondsSinceHeard": dict(kept.ages),
        **decision_record(kept.decision),
    }


def encode(document: object) -> bytes:
    """Return a document as JSON that a person can read."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def decision_record(decision: Decision) -> dict[str, Any]:
    """Return the number of feasible nodes, the refusals of the others, and the best nodes."""
    rows = np.flatnonzero(decision.feasible)
    best = rows[np.argsort(-decision.total[rows], kind="stable")[:_BEST_SHOWN]].tolist()
    refusals = []
    for plugin, cause, nodes, row in decision.causes():
        message = cause.text(decision.verdicts[plugin].numbers(row))
        refusals.append(
            {
                "plugin": plugin,
                "reason": cause.reason.value,
                "summary": cause.summary,
                "nodes": nodes,
                "example": f"{decision.names[row]}: {message}",
            }
        )
    return {
        "pod": decision.pod.key,
        "nodesAsked": int(decision.asked.sum()),
        "nodesSuiting": len(rows),
        "refusals": refusals,
        "best": [{"node": decision.names[row], "score": int(decision.total[row])} for row in best],
    }


def node_records(decision: Decision, only: str = "") -> Iterator[dict[str, Any]]:
    """Yield each node, or one, with the verdicts of plugins that refused any; scores if it is feasible."""
    for row in np.flatnonzero(decision.asked).tolist():
        if only not in {"", decision.names[row]}:
            continue
        feasible = bool(decision.feasible[row])
        accounts = {name: account.of(row) for name, account in decision.accounts.items()}
        yield {
            "node": decision.names[row],
            "suits": feasible,
            "verdicts": [_verdict(decision, plugin, row) for plugin in decision.verdicts],
            "scores": {name: int(column[row]) for name, column in decision.scores.items()}
            if feasible
            else {},
            "total": int(decision.total[row]) if feasible else None,
            **({"accounts": accounts} if accounts else {}),
        }


def _verdict(decision: Decision, plugin: str, row: int) -> dict[str, Any]:
    verdicts = decision.verdicts[plugin]
    cause, numbers = verdicts.cause(row), verdicts.numbers(row)
    return {
        "plugin": plugin,
        "reason": cause.reason.value if cause else None,
        "message": cause.text(numbers) if cause else "",
        "inputs": numbers,
    }
