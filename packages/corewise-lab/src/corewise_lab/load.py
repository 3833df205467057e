"""Load curves: what a workload is asked to do over time, as a multiple of what it requests. Pure.

=======  ===========================================================================================
shape    load at time t, from ``low`` to ``high``, with a period of p seconds
=======  ===========================================================================================
wave     middle - half x cos(2 pi t / p): a cosine, at its low point at 0
square   low in the first half of each period, high in the second
ramp     rises evenly from low at 0 to high at p, and stays there
step     low before p, high from then on
=======  ===========================================================================================

Waves may start at points of their own (``phase``), so that many of them are an even load. The other shapes
strike all who have them at once, as a change of traffic does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Shape(StrEnum):
    """The way a load goes from its low to its high end."""

    WAVE = "wave"
    SQUARE = "square"
    RAMP = "ramp"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class Load:
    """A demand curve, as a multiple of the request. ``period`` is in seconds, above 0."""

    low: float
    high: float
    period: float = 60.0
    shape: Shape = Shape.WAVE

    @property
    def is_constant(self) -> bool:
        return self.low == self.high

    def at(self, seconds: float, phase: float = 0.0) -> float:
        """Return the load at a time. ``phase`` (0 to 1) shifts a wave by that part of its period."""
        if self.shape is Shape.WAVE:
            middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
            return middle - half * math.cos(2 * math.pi * (seconds / self.period + phase))
        return self.low + (self.high - self.low) * self._part(seconds / self.period)

    def _part(self, periods: float) -> float:
        """Return the position between low end (0) and high end (1) after so many periods."""
        if self.shape is Shape.SQUARE:
            return 1.0 if periods % 1.0 >= 0.5 else 0.0
        if self.shape is Shape.RAMP:
            return min(1.0, max(0.0, periods))
        return 1.0 if periods >= 1.0 else 0.0
