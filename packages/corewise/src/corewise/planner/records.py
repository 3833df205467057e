"""Plans as records: what ``corewise plan -o json`` prints and the web page shows of a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corewise.planner.inputs import PlanInput
from corewise.planner.planner import Comparison, PlanOutcome

_HUNDRED = 100


@dataclass(frozen=True, slots=True)
class Planned:
    """An outcome, what its configuration is called, and how long it took."""

    name: str
    outcome: PlanOutcome
    seconds: float

    @property
    def pods_a_second(self) -> int:
        pods = len(self.outcome.placed) + len(self.outcome.unplaced)
        return round(pods / self.seconds) if self.seconds > 0 else 0


def percent_of(part: int, whole: int) -> int:
    """Return a part in hundredths of the whole, rounded down; 0 if there is no whole."""
    return part * _HUNDRED // whole if whole else 0


def record_of(given: PlanInput, planned: Sequence[Planned], difference: Comparison | None) -> dict[str, Any]:
    """Return plans, and what differs between two of them, for programs."""
    record: dict[str, Any] = {
        "source": given.source,
        "nodes": len(given.nodes),
        "pods": len(given.pods),
        "plans": [plan_record(each) for each in planned],
        "notes": list(given.notes),
    }
    if difference is not None:
        record["difference"] = {
            "differs": difference.differs,
            "nodesWithAnotherRatio": difference.ratios_changed,
            "podsMoved": difference.moved,
            "podsGained": list(difference.gained),
            "podsLost": list(difference.lost),
        }
    return record


def plan_record(planned: Planned) -> dict[str, Any]:
    """Return one plan for programs."""
    each = planned.outcome
    return {
        "configuration": planned.name,
        "scheduled": len(each.placed),
        "unscheduled": len(each.unplaced),
        "unscheduledByReason": dict(each.by_reason),
        "nodesUsed": each.nodes_used,
        "rawMilliCPU": each.raw,
        "schedulableMilliCPU": each.schedulable,
        "requestedMilliCPU": each.requested,
        "requestedPercentOfNodesUsed": percent_of(each.requested, each.schedulable_used),
        "ownedMilliCPU": each.owned,
        "rawOvercommitPercent": percent_of(each.promised, each.raw),
        "nodesOvercommitted": each.overcommitted,
        "largestOvercommitPercent": each.worst[1] if each.worst else 0,
        "podsPerSecond": planned.pods_a_second,
        "placements": dict(sorted(each.placed.items())),
        "unplaced": {
            pod: {"reason": str(why.reason), "summary": why.message}
            for pod, why in sorted(each.unplaced.items())
        },
    }
