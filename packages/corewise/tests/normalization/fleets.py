"""Scores of a fleet, for tests of what is made of them."""

from __future__ import annotations

from datetime import datetime

from corewise.normalization.fleet import ScoredNode, scored_node
from corewise.vocabulary.evaluation_report import EvaluationReport

FAST = "Intel(R) Xeon(R) Platinum 8369B CPU @ 2.70GHz"
SLOW = "Intel(R) Xeon(R) CPU E5-2682 v4 @ 2.50GHz"
TIME = "2026-11-01T03:00:00Z"
NOW = datetime.fromisoformat(TIME)


def report(score: int, model: str = FAST, **changes: object) -> EvaluationReport:
    """Return a report of 30 runs, all made at ``measured``, hyper-threading and turbo on."""
    fields: dict[str, object] = {
        "time": TIME,
        "cpu_model": model,
        "hyper_thread_enabled": True,
        "turbo_enabled": True,
        "score": score,
        "runs": 30,
        "mix": 1,
        "python": "3.12.7",
        "zlib": "1.3.1",
        "measured": TIME,
        "measured_since": changes.get("measured", TIME),
    }
    return EvaluationReport(**(fields | changes))  # type: ignore[arg-type]


def scored(name: str, score: int, model: str = FAST, **changes: object) -> ScoredNode:
    """Return a node with a score that counts."""
    node = scored_node(name, report(score, model, **changes).encode())
    assert isinstance(node, ScoredNode)
    return node


def named(prefix: str, scores: list[int], model: str, **changes: object) -> list[tuple[str, ScoredNode]]:
    """Return nodes with these scores, as :meth:`Fleet.of` takes them."""
    nodes = [scored(f"{prefix}{at}", score, model, **changes) for at, score in enumerate(scores)]
    return [(each.name, each) for each in nodes]
