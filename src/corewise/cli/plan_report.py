"""What ``corewise plan`` prints: one column for each configuration, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from corewise.cli.output import Column, Form, Listing, count, cpus, document_text, percent, render, say
from corewise.simulation.planner import Comparison, Outcome
from corewise.simulation.planner_inputs import PlanInput

_SHOWN_PODS = 5
_HUNDRED = 100


@dataclass(frozen=True, slots=True)
class TimedOutcome:
    """An outcome, what its configuration is called, and how long it took."""

    name: str
    outcome: Outcome
    seconds: float

    @property
    def pods_a_second(self) -> int:
        pods = len(self.outcome.placed) + len(self.outcome.unplaced)
        return round(pods / self.seconds) if self.seconds > 0 else 0


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Everything there is to print."""

    given: PlanInput
    outcomes: tuple[TimedOutcome, ...]
    difference: Comparison | None


def print_plan(report: PlanReport, form: Form) -> None:
    """Print the report on stdout; how fast it was goes to stderr with tables."""
    if form is not Form.TABLE:
        print(document_text(_document(report), form), end="")
        return
    given = report.given
    print(f"{given.source}: {count(len(given.nodes), 'node')}, {count(len(given.pods), 'pod')}\n")
    print(render(_listing(report.outcomes), form), end="")
    for line in _difference(report):
        print(line)
    for each in report.outcomes:
        say(f"{each.name}: planned in {each.seconds:.2f} s, {each.pods_a_second:,} pods/s")


_Row = tuple[str, Sequence[str]]


def _listing(outcomes: Sequence[TimedOutcome]) -> Listing[_Row]:
    rows = list(_rows([each.outcome for each in outcomes]))
    columns: list[Column[_Row]] = [Column("", lambda row: row[0])]
    columns += [Column(each.name, _cell(place), right=True) for place, each in enumerate(outcomes)]
    return Listing(columns, rows, (), name=lambda row: row[0])


def _cell(place: int) -> Callable[[_Row], str]:
    return lambda row: row[1][place]


def _rows(outcomes: Sequence[Outcome]) -> Iterable[_Row]:
    facts: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
        ("pods scheduled", lambda each: str(len(each.placed))),
        ("pods unscheduled", lambda each: str(len(each.unplaced))),
    )
    yield from _cells(facts, outcomes)
    reasons = dict.fromkeys(reason for each in outcomes for reason in each.by_reason)
    for reason in reasons:
        yield f"  {reason}", [str(each.by_reason.get(reason, 0)) for each in outcomes]
    yield from _cells(_PACKING, outcomes)


_PACKING: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
    ("nodes used", lambda each: f"{each.nodes_used} of {each.nodes}"),
    ("raw CPUs", lambda each: cpus(each.raw)),
    ("schedulable CPUs", lambda each: cpus(each.schedulable)),
    (
        "requested, owned CPUs amplified",
        lambda each: cpus(each.requested) + percent(each.requested, each.schedulable),
    ),
    ("  of the nodes used", lambda each: f"{_percent(each.requested, each.schedulable_used)}%"),
    ("CPUs owned by CPUSet pods", lambda each: cpus(each.owned)),
    ("raw overcommit", lambda each: f"{_ratio(each.promised, each.raw)}"),
    ("  nodes above 1.00", lambda each: str(each.overcommitted)),
    ("  largest", lambda each: f"{each.worst[1] / _HUNDRED:.2f} ({each.worst[0]})" if each.worst else "-"),
)


def _cells(
    facts: Iterable[tuple[str, Callable[[Outcome], str]]], outcomes: Sequence[Outcome]
) -> Iterable[_Row]:
    return ((name, [text(each) for each in outcomes]) for name, text in facts)


def _percent(part: int, whole: int) -> int:
    return part * _HUNDRED // whole if whole else 0


def _ratio(part: int, whole: int) -> str:
    return f"{_percent(part, whole) / _HUNDRED:.2f}"


def _difference(report: PlanReport) -> Iterable[str]:
    difference = report.difference
    if difference is None:
        return
    yield ""
    if not difference.differs:
        yield "no difference"
        return
    yield f"nodes with another ratio: {difference.ratios_changed}"
    yield f"pods on another node: {difference.moved}"
    yield f"pods that gain a node: {_named(difference.gained)}"
    yield f"pods that lose theirs: {_named(difference.lost)}"


def _named(pods: Sequence[str]) -> str:
    if not pods:
        return "0"
    return f"{len(pods)} ({', '.join(pods[:_SHOWN_PODS])}{', …' if len(pods) > _SHOWN_PODS else ''})"


def _document(report: PlanReport) -> dict[str, Any]:
    document: dict[str, Any] = {
        "source": report.given.source,
        "nodes": len(report.given.nodes),
        "pods": len(report.given.pods),
        "plans": [_plan(each) for each in report.outcomes],
        "notes": list(report.given.notes),
    }
    if report.difference is not None:
        difference = report.difference
        document["difference"] = {
            "differs": difference.differs,
            "nodesWithAnotherRatio": difference.ratios_changed,
            "podsMoved": difference.moved,
            "podsGained": list(difference.gained),
            "podsLost": list(difference.lost),
        }
    return document


def _plan(timed: TimedOutcome) -> dict[str, Any]:
    each = timed.outcome
    return {
        "configuration": timed.name,
        "scheduled": len(each.placed),
        "unscheduled": len(each.unplaced),
        "unscheduledByReason": dict(each.by_reason),
        "nodesUsed": each.nodes_used,
        "rawMilliCPU": each.raw,
        "schedulableMilliCPU": each.schedulable,
        "requestedMilliCPU": each.requested,
        "requestedPercentOfNodesUsed": _percent(each.requested, each.schedulable_used),
        "ownedMilliCPU": each.owned,
        "rawOvercommitPercent": _percent(each.promised, each.raw),
        "nodesOvercommitted": each.overcommitted,
        "largestOvercommitPercent": each.worst[1] if each.worst else 0,
        "podsPerSecond": timed.pods_a_second,
        "placements": dict(sorted(each.placed.items())),
        "unplaced": {
            pod: {"reason": str(why.reason), "summary": why.summary}
            for pod, why in sorted(each.unplaced.items())
        },
    }
