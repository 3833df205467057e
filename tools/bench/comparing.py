"""Two trees compared by figures that were measured in pairs: ratios, their intervals, and the verdict. Pure.

A pair has one sample of each tree, taken one after the other. A figure's ratio is the median of the pairs'
ratios. Its interval is exact whatever the distribution: a sample is below the true median with probability
1/2, so the number of samples below it is binomial, and two samples in order enclose it with 95 % or more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from statistics import median, quantiles

from tools.bench.headlines import HEADLINES

LIMIT = 1.10
"""A figure may become 10 % larger: below that, two builds of the same code differ on some machines."""
COVERAGE = 0.95

Samples = Mapping[str, Sequence[float]]
"""The samples of each figure, by its name, in the order of the pairs."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the bounds that belong to it."""

    value: float
    low: float
    high: float


def interval(samples: Sequence[float]) -> Spread:
    """Return the median and its 95 % interval; of fewer than six samples, their lowest and highest."""
    ordered, count = sorted(samples), len(samples)
    outside = 0
    for below in range((count + 1) // 2):
        missed = 2 * sum(math.comb(count, each) for each in range(below + 1)) / 2**count
        if 1 - missed >= COVERAGE:
            outside = below
    return Spread(median(ordered), ordered[outside], ordered[count - 1 - outside])


def quartiles(samples: Sequence[float]) -> Spread:
    """Return the median and the quartiles."""
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0])
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return Spread(middle, low, high)


def ratios(here: Samples, there: Samples) -> dict[str, Spread]:
    """Return the ratio of this tree to the other, of each figure that both have."""
    return {
        each.name: interval(
            [one / other for one, other in zip(here[each.name], there[each.name], strict=True)]
        )
        for each in HEADLINES
        if each.name in here and each.name in there
    }


def slower(found: Mapping[str, Spread]) -> list[str]:
    """Return the figures whose whole interval is above the limit."""
    return [name for name, ratio in found.items() if ratio.low > LIMIT]


def amount(value: float) -> str:
    """Return a figure with three digits, or with all before the point."""
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{digits}f}"


def table(here: Samples, there: Samples, revision: str) -> str:
    """Return the table of both trees, as kubectl prints tables."""
    found = ratios(here, there)
    rows: list[tuple[str, ...]] = [("FIGURE", "THIS TREE", revision, "UNIT", "RATIO", "INTERVAL")]
    for each in HEADLINES:
        if each.name in found:
            ratio = found[each.name]
            medians = (amount(median(side[each.name])) for side in (here, there))
            bounds = f"{ratio.low:.2f} to {ratio.high:.2f}"
            rows.append((each.name, *medians, each.unit, f"{ratio.value:.2f}", bounds))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def verdict(found: Mapping[str, Spread], revision: str) -> str:
    """Return the message about figures that became more than 10 % larger, and what to do next."""
    figures, limit = {each.name: each for each in HEADLINES}, f"{100 * (LIMIT - 1):.0f} %"
    lines = []
    for name in slower(found):
        more, low, high = (round(100 * (each - 1)) for each in astuple(found[name]))
        lines += [
            f"{name} costs {more} % more than at {revision} ({low} to {high} %): {figures[name].what}.",
            f"  See where the time goes: {figures[name].profile}",
        ]
    if lines:
        lines += [
            f"Find the commit: make bench COMPARE=COMMIT, with commits between {revision} and this tree.",
            "If the cost is intended, say so in the commit message and in CHANGELOG.md.",
        ]
    else:
        lines.append(f"No figure is shown to cost more than {limit} more than at {revision}.")
    unclear = [name for name, ratio in found.items() if ratio.low <= LIMIT < ratio.high]
    if unclear:
        names = ", ".join(unclear)
        lines.append(f"Too noisy to tell {limit}: {names}. Repeat it while nothing else runs here.")
    return "\n".join(lines)
