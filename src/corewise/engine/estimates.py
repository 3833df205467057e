"""What is known without measuring: what a pod just placed is going to use, what a node's memory can move."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from corewise.config.interference import CounterweightSettings, Profile
from corewise.engine.nodes import NodeFacts
from corewise.engine.pods import PodFacts
from corewise.interference import Weights

_NOT_COUNTED = CounterweightSettings(expiry=0)


@dataclass(frozen=True, slots=True)
class Estimates:
    """Profiles of pods, how long they count once placed, and what nodes can move by their labels.

    ``now`` is Unix time. A node's own statement wins over that by its labels.
    """

    profile_of: Callable[[PodFacts], Profile | None] = lambda _: None
    counterweight: CounterweightSettings = _NOT_COUNTED
    now: Callable[[], float] = lambda: math.inf
    bandwidth_by_labels: Callable[[Mapping[str, str]], int | None] = lambda _: None

    def recent(self, pod: PodFacts, since: float) -> Profile | None:
        """Return the profile of a pod that was placed at ``since``, if that still counts."""
        if since + self.counterweight.expiry <= self.now():
            return None
        return self.profile_of(pod)

    def bandwidth_of(self, node: NodeFacts) -> int | None:
        """Return what is stated of a node's memory, in bytes/s."""
        if node.memory_bandwidth is not None:
            return node.memory_bandwidth
        return self.bandwidth_by_labels(node.labels)


NO_ESTIMATES = Estimates()


class Weighing(Protocol):
    """The counterweights of nodes, by their rows."""

    version: int

    def at(self, now: float, size: int) -> Weights: ...


@dataclass(slots=True)
class OneNode:
    """The counterweights of one node, whose row is 0."""

    every: Weighing
    row: int
    version: int

    def at(self, now: float, size: int) -> Weights:
        all_of_them = self.every.at(now, self.row + 1)
        here = slice(self.row, self.row + 1)
        return Weights(
            all_of_them.memory_bandwidth[here],
            all_of_them.memory[here],
            all_of_them.cpu[here],
            all_of_them.llc[here],
        )
