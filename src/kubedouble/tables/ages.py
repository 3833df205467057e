"""How long ago something was, as kubectl says it: ``8s``, ``4m31s``, ``7h``, ``2d3h``.

Source: k8s.io/apimachinery/pkg/util/duration/duration.go (HumanDuration).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from typing import Any

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
UNKNOWN = "<unknown>"


def human_duration(seconds: float) -> str:
    """Return a length of time in at most two units, as precise as its size makes sensible."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    return next(text(whole) for below, text in _STEPS if whole < below)


def _two(whole: int, unit: int, name: str, rest: int, rest_name: str) -> str:
    remainder = whole % unit // rest
    return f"{whole // unit}{name}" + (f"{remainder}{rest_name}" if remainder else "")


_STEPS: tuple[tuple[float, Callable[[int], str]], ...] = (
    (2 * _MINUTE, lambda whole: f"{max(whole, 0)}s"),
    (10 * _MINUTE, lambda whole: _two(whole, _MINUTE, "m", 1, "s")),
    (3 * _HOUR, lambda whole: f"{whole // _MINUTE}m"),
    (8 * _HOUR, lambda whole: _two(whole, _HOUR, "h", _MINUTE, "m")),
    (2 * _DAY, lambda whole: f"{whole // _HOUR}h"),
    (8 * _DAY, lambda whole: _two(whole, _DAY, "d", _HOUR, "h")),
    (2 * _YEAR, lambda whole: f"{whole // _DAY}d"),
    (8 * _YEAR, lambda whole: _two(whole, _YEAR, "y", _DAY, "d")),
    (inf, lambda whole: f"{whole // _YEAR}y"),
)


def since(timestamp: Any, now: datetime) -> str:
    """Return how long ago an API timestamp is; ``<unknown>`` if there is none."""
    at = instant(timestamp)
    return UNKNOWN if at is None else human_duration((now - at).total_seconds())


def instant(timestamp: Any) -> datetime | None:
    """Return an API timestamp as a time; None if it is none."""
    if not isinstance(timestamp, str):
        return None
    try:
        at = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
