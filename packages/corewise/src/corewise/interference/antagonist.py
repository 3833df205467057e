"""Draft."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

OUTSIDE = "processes outside pods"


@dataclass(frozen=True, slots=True)
class Wait:
    """CPU seconds per second that a pod waited for others, and that its quota kept it from running."""

    for_others: float
    throttled: float = 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """CPUs used by each pod of a node, and by :data:`OUTSIDE`, and each pod's wait."""

    seconds: float
    cpus: int
    used: Mapping[str, float]
    waits: Mapping[str, Wait]


def wait_for_others(
    tasks: Iterable[tuple[float, float]], own: float, others: float, throttled: float
) -> float:
    total = 0.0
    for ran, waited in tasks:
        beside = others + max(0.0, own - ran)
        if beside > 0:
            total += max(0.0, waited - throttled) * others / beside
    return total
