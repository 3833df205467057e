"""The extender for pods with a stake in interference: /interference/filter, /prioritize and /preempt.

kube-scheduler chooses the node, and binds: corewise says which nodes have the bandwidth and memory, and how
much of the best possible score each has, by interference alone. The score is not stretched over the nodes
asked about: 36 of 100 is 4 of 10 wherever it occurs, so nodes that are about as good are told apart by
kube-scheduler's own scores.

From then on the pod counts as a counterweight on the best node, as a guess, until the watch shows where it
is: the pods of a burst come faster than that, and would all see the same node as free. The guess counts
nothing but the pod's profile, and is given up after :data:`GUESSED_FOR`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from corewise.amplification.numa import IntColumn
from corewise.engine.reading import pod_facts
from corewise.scheduler.extender import LARGEST_SCORE, Arguments, Extender, Filtered

GUESSED_FOR: Final = 5.0
"""Seconds. kube-scheduler binds within milliseconds, and within this time even if the API server is slow."""


@dataclass(frozen=True)
class ProfiledExtender(Extender):
    """Answers the calls about pods with a stake. ``engine`` decides about interference alone."""

    def filter(self, arguments: Arguments) -> Filtered:
        """Say which nodes have what the pod's profile needs; if it is one, the pod is guessed to go there."""
        filtered = super().filter(arguments)
        if len(filtered.names) == 1:  # prioritize is not called then
            self._guess(arguments, filtered.names[0])
        return filtered

    def prioritize(self, arguments: Arguments) -> IntColumn:
        """Return the tenths that each node has of the best possible score, rounded."""
        decision, rows = self.decide(arguments)
        if decision.node is not None:
            self._guess(arguments, decision.node)
        (score,) = decision.scores.values() or (np.zeros_like(decision.total),)
        return np.append((score + LARGEST_SCORE // 2) // LARGEST_SCORE, 0)[rows]

    def _guess(self, arguments: Arguments, node: str) -> None:
        facts = pod_facts(arguments.pod, self.state.counted.rules)
        self.state.assumed.guess(facts, node, GUESSED_FOR)
