"""Results: rows with a name, a figure and how it came about; and the part of a page they fill."""

from __future__ import annotations

import math
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

PAGES = "docs/benchmarks/[bi]*.md"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: what was measured, at which size, and the value with its unit."""

    what: str
    size: str
    value: str


def machine() -> str:
    """The machine, as a reader needs to know it: cores, CPU model, memory, Python, system."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    kib = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    return (
        f"{os.cpu_count()} cores ({model[1] if model else platform.machine()}), "
        f"{int(kib[1]) // 1024**2 if kib else '?'} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def markdown(rows: list[Row]) -> str:
    """The rows as a table."""
    lines = ["| measured | at | result |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {row.what} | {row.size} | {row.value} |" for row in rows)])


def fill(section: str, text: str, pages: str = PAGES) -> None:
    """Replace the text between the section's two markers in the one of these pages that has them."""
    start, end = f"<!-- {section} -->", f"<!-- /{section} -->"
    (page,) = (path for path in Path().glob(pages) if start in path.read_text())
    before, rest = page.read_text().split(start)
    page.write_text(before + start + "\n" + text + "\n" + end + rest.split(end)[1])


def exponent(small: tuple[float, float], large: tuple[float, float]) -> float | None:
    """Return the slope between two points (size, value) of a curve, both axes logarithmic: 1 is linear."""
    (size, value), (more, then) = small, large
    return math.log(then / value) / math.log(more / size) if value > 0 and then > 0 else None


def quantile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
