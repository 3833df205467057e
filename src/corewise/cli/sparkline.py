"""A row of figures as one line of small bars (pure)."""

from __future__ import annotations

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*%#"
"""For terminals whose encoding has no bars."""


def ramp(encoding: str | None) -> str:
    """Return the characters that a stream of this encoding can show."""
    try:
        BARS.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return PLAIN
    return BARS


def sparkline(values: Sequence[int], full: int, width: int, bars: str = BARS) -> str:
    """Return the last ``width`` values as bars, oldest first; ``full`` is the height of the highest one.

    Values beyond the ends are shown as the ends are. Without a positive ``full`` there is nothing to show.
    """
    if full <= 0:
        return ""
    steps = len(bars)
    heights = (min(max(value, 0), full) * steps // full for value in values[-width:] if width > 0)
    return "".join(bars[min(height, steps - 1)] for height in heights)
