"""Each node's latency curve, learned from one refresh after another (``latencyModel: curve``)."""

from __future__ import annotations

import numpy as np

from corewise.engine.table import Measures
from corewise.interference import LatencyHistory, Pressure

Curves = tuple[Measures, Measures]


class CurveKeeper:
    """The history of the nodes that there are; nodes that are gone are forgotten."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._history = LatencyHistory.empty(0)

    def observed(self, names: tuple[str, ...], pressure: Pressure) -> Curves:
        """Learn from a cleaned pressure of these nodes; return idle latency and slope of each."""
        if names != self._names:
            places = {name: place for place, name in enumerate(self._names)}
            self._history = self._history.rows(
                np.array([places.get(name, -1) for name in names], dtype=np.intp)
            )
            self._names = names
        self._history = self._history.observed(pressure)
        return self._history.curves()
