"""Amounts and counts as text; the web page writes amounts alike (``web/src/format.ts``)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_MANY = 10


def wrapped(text: str, width: int | None, indent: str = "") -> str:
    """Return text with its lines broken between words to fit; ``indent`` begins the rest of a line."""
    if width is None:
        return text
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    lines = (line if len(line) <= width else wrapper.fill(line) for line in text.split("\n"))
    return "\n".join(lines)


def count(number: int, noun: str) -> str:
    """Return "1 node" or "2 nodes"."""
    return f"{number} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the noun for several: "nodes", "PriorityClasses"."""
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def some(names: Sequence[str], shown: int = 5) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def percent(part: int, whole: int) -> str:
    """Return " (73%)", rounded down as kubectl does, or nothing when there is no whole."""
    return f" ({part * 100 // whole}%)" if whole > 0 else ""


def cpus(milli: int | None) -> str:
    """Return milli-CPU as CPUs with as many decimals as are needed, at least one unless whole.

    ``48000`` is "48", ``79200`` is "79.2", ``250`` is "0.25". None is "-".
    """
    if milli is None:
        return "-"
    sign, whole, rest = "-" * (milli < 0), abs(milli) // 1000, abs(milli) % 1000
    return f"{sign}{whole}" + (f".{rest:03d}".rstrip("0") if rest else "")


def measured(milli: int | None) -> str:
    """Return measured milli-CPU as CPUs, rounded down: two decimals below ten, else one. None is "-"."""
    if milli is None:
        return "-"
    whole, rest = divmod(milli, 1000)
    return f"{whole}.{rest // 10:02d}" if whole < _MANY else f"{whole}.{rest // 100}"


def number(value: int | None) -> str:
    """Return a whole number; None is "-"."""
    return "-" if value is None else str(value)


def gibibytes(amount: int | None) -> str:
    """Return bytes as GiB with one decimal, rounded down. None is "-"."""
    if amount is None:
        return "-"
    tenths = amount * 10 // 2**30
    return f"{tenths // 10}.{tenths % 10}"
