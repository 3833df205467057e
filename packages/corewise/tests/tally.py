"""What tests with drawn inputs did in this process: steps of histories taken, and faults injected by kind.

``make explore`` reports the figures (:mod:`tools.exploration`). Steps of hypothesis' own state machines are
counted there; a history that is a list of operations counts its own.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

STEPS: Final = "steps"
counts: Counter[str] = Counter()
"""``steps``, and the faults, each by its kind."""


def step(fault_kind: str | None = None) -> None:
    """Count a step of a history, and the fault that it injects, if it injects one."""
    counts[STEPS] += 1
    if fault_kind is not None:
        fault(fault_kind)


def fault(kind: str) -> None:
    """Count an injected fault."""
    counts[kind] += 1
