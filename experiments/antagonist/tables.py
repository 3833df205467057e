"""Precision, recall and the time to the naming, with Wilson's 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from experiments.antagonist.node import Outcome
from experiments.antagonist.scenarios import ANTAGONISTS, KINDS, VICTIM

_Z = 1.959964


def wilson(hits: int, tries: int) -> str:
    """Return a part in percent with its interval, "97.5 % (92.9-99.1)"; "-" of no tries."""
    if not tries:
        return "-"
    part, square = hits / tries, _Z * _Z / tries
    middle, half = part + square / 2, _Z * math.sqrt(part * (1 - part) / tries + square / tries / 4)
    low, high = ((each / (1 + square)) * 100 for each in (middle - half, middle + half))
    return f"{part * 100:.1f} % ({max(0.0, low):.1f}-{min(100.0, high):.1f})"


def table(outcomes: Sequence[Outcome]) -> str:
    """Return one table for each source of waits."""
    sources = list(outcomes[0].seen) if outcomes else []
    return "\n\n".join(_table(source, outcomes) for source in sources)


def _table(source: str, outcomes: Sequence[Outcome]) -> str:
    lines = [
        f"| {source} | runs | right | wrong | none named | seconds to the naming: median, longest |",
        "|---|---|---|---|---|---|",
    ]
    for kind in (*KINDS, "all"):
        of_kind = [each for each in outcomes if kind in {each.scenario.kind, "all"}]
        right = [each for each in of_kind if _named(each, source) == each.scenario.antagonist]
        right = [each for each in right if _named(each, source)]
        silent = sum(not _named(each, source) for each in of_kind)
        wrong = len(of_kind) - silent - len(right)
        times = [each.seen[source].named[VICTIM].after for each in right]
        spent = f"{median(times):.0f}, {max(times):.0f}" if times else "-"
        lines.append(f"| {kind} | {len(of_kind)} | {len(right)} | {wrong} | {silent} | {spent} |")
    guilty = [each for each in outcomes if each.scenario.kind in ANTAGONISTS]
    hits = sum(_named(each, source) == each.scenario.antagonist for each in guilty)
    named = sum(bool(_named(each, source)) for each in outcomes)
    beside = list(_beside(source, outcomes))
    lines += [
        "",
        f"precision {wilson(hits, named)}, recall {wilson(hits, len(guilty))}",
        f"other pods: {sum(beside)} of {len(beside)} verdicts named the antagonist",
    ]
    return "\n".join(lines)


def _named(outcome: Outcome, source: str) -> str:
    found = outcome.seen[source].named.get(VICTIM)
    return found.name if found else ""


def _beside(source: str, outcomes: Iterable[Outcome]) -> Iterable[bool]:
    """Yield for each other pod for which somebody was named whether that was the antagonist."""
    for outcome in outcomes:
        for pod, each in outcome.seen[source].named.items():
            if pod != VICTIM:
                yield each.name == outcome.scenario.antagonist
