"""The last decisions, for people: what was asked, what every plugin said of every node, how old the data was.

A decision keeps the columns it was made from, unmoved by later changes, and is turned into words only when
somebody asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from corewise.engine import Decision, decision_record, node_records
from corewise.kube.clock import Clock, rfc3339


class Asked(StrEnum):
    """Who asked for the decision."""

    FILTER = "filter"
    GATE = "gate"


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
    """The last ones, the newest first."""

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
