"""The results of one run of the proof, and tables that compare runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.suppression_proof.closed_loop import Figures, Phase, Series, figures

OPTION_ONE, OPTION_TWO, NOBODY = "option 1", "option 2", "no suppression"
_NONE = "-"
COUNTING, COUNTING_AT_ONCE = "offline usage counted", "counted, set at once"


@dataclass(frozen=True, slots=True)
class Run:
    """A scenario run in one way. ``writes`` counts files written; None if they were not counted."""

    scenario: str
    way: str
    series: Series
    writes: int | None = None

    @property
    def figures(self) -> Figures:
        return figures(self.series)


def table(runs: Sequence[Run]) -> str:
    """Return a table of one scenario: a column for each way, which combines its rounds."""
    ways = list(dict.fromkeys(run.way for run in runs))
    by_way = {way: [run for run in runs if run.way == way] for way in ways}
    lines = ["| | " + " | ".join(ways) + " |", "|---|" + "---|" * len(ways)]
    for what, told in _ROWS.items():
        cells = [told(by_way[way]) for way in ways]
        if set(cells) != {_NONE}:
            lines.append(f"| {what} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(runs: Sequence[Run]) -> str:
    """Return in a sentence what option 1 came to after steps of load."""
    held = [run for run in runs if run.scenario == "step" and run.way == OPTION_ONE]
    return (
        f"after each jump the quota settled in {_settling(held)} with {_adjustments(held)} adjustments "
        f"({_in_time(held)} phases in time, overshoot {_overshoot(held)}, "
        f"{_reversals(held)} changes of direction); "
        f"offline pods used {_used(held)} of what online pods left"
    )


def _phases(runs: Sequence[Run]) -> list[Phase]:
    """Return the phases of runs with a quota; a ramp is none, since its target does not stay."""
    held = [run for run in runs if _is_held(run) and run.scenario != "ramp"]
    return [phase for run in held for phase in run.figures.phases]


def _is_held(run: Run) -> bool:
    return any(sample.quota is not None for sample in run.series.samples)


def _settling(runs: Sequence[Run]) -> str:
    phases = _phases(runs)
    times = [phase.settling for phase in phases if phase.settling is not None]
    if not phases:
        return _NONE
    never = len(phases) - len(times)
    shown = _span([round(time) for time in times], " s") if times else ""
    return ", ".join(part for part in (shown, f"{never} of {len(phases)} never" if never else "") if part)


def _adjustments(runs: Sequence[Run]) -> str:
    phases = _phases(runs)
    if not phases:
        return _NONE
    taken, due = ([getattr(phase, name) for phase in phases] for name in ("adjustments", "expected"))
    return f"{_span(taken)} of {_span(due)}"


def _in_time(runs: Sequence[Run]) -> str:
    phases = _phases(runs)
    return f"{sum(phase.settled_in_time for phase in phases)} of {len(phases)}" if phases else _NONE


def _overshoot(runs: Sequence[Run]) -> str:
    phases = _phases(runs)
    whole = runs[0].series.cpus * 1000
    return f"{max(phase.overshoot for phase in phases) / whole:.1%}" if phases else _NONE


def _reversals(runs: Sequence[Run]) -> str:
    phases = _phases(runs)
    return _span([phase.reversals for phase in phases]) if phases else _NONE


def _farthest(runs: Sequence[Run]) -> str:
    held = [run for run in runs if _is_held(run) and run.way != OPTION_TWO]
    whole = runs[0].series.cpus * 1000
    return f"{max(run.figures.farthest for run in held) / whole:.1%}" if held else _NONE


def _changes(runs: Sequence[Run]) -> str:
    return _span([run.figures.writes for run in runs])


def _writes(runs: Sequence[Run]) -> str:
    counted = [run.writes for run in runs if run.writes is not None]
    return _span(counted) if counted else _NONE


def _used(runs: Sequence[Run]) -> str:
    return f"{_mean(runs, lambda run: run.figures.idle_used):.0%}"


def _lost(runs: Sequence[Run]) -> str:
    return f"{_mean(runs, lambda run: run.figures.offline_lost):.1f}"


def _late(runs: Sequence[Run]) -> str:
    return f"{_mean(runs, lambda run: run.figures.offline_late):.1f}"


_ROWS: dict[str, Callable[[Sequence[Run]], str]] = {
    "settled after": _settling,
    "adjustments, of ceil(change / step)": _adjustments,
    "phases settled in time": _in_time,
    "overshoot, of the machine": _overshoot,
    "changes of direction per phase": _reversals,
    "largest distance from target, of the machine": _farthest,
    "quota changes": _changes,
    "files written": _writes,
    "used of what online pods left": _used,
    "idle CPU s wanted, not got": _lost,
    "of that, while the quota moved": _late,
}


def _mean(runs: Sequence[Run], of: Callable[[Run], float]) -> float:
    return sum(of(run) for run in runs) / len(runs)


def _span(numbers: Sequence[int], unit: str = "") -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}{unit}" if low == high else f"{low}-{high}{unit}"
