"""Where a falling function crosses zero, by false position (Illinois). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_ROUNDS = 60


def crossing(excess: Callable[[float], tuple[float, T]], low: float, high: float, close: float) -> T:
    """Return what comes with the zero of a continuous falling function between two bounds.

    ``excess`` returns its value and what comes with it. A value within ``close`` of zero counts as zero. If
    there is no zero, what comes with the bound that is nearer to one is returned.
    """
    above, found = excess(low)
    if above < close:
        return found
    below, last = excess(high)
    if below >= 0:
        return last
    for _ in range(_ROUNDS):
        if high - low < close or above < close:
            break
        middle = low + (high - low) * above / (above - below)
        value, found = excess(middle)
        if abs(value) < close:
            break
        if value > 0:
            low, above, below = middle, value, below / 2
        else:
            high, below, above = middle, value, above / 2
    return found
