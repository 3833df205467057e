"""What the writer did, for metrics, logs and the next decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from corewise.kernel.errors import KernelError
from corewise.quantities import Microseconds


@dataclass(frozen=True, slots=True)
class Written:
    """One write that the kernel took."""

    cgroup: str
    file: str
    old: str
    new: str


@dataclass(slots=True)
class Report:
    """The outcome of one call of the writer.

    ``drifted`` are cgroups that somebody else had changed and that were put right. ``gone`` are those that no
    longer exist (or not yet). ``failed`` are left as they are until the next call. For ``foreign_periods``,
    quotas were scaled to the period found; whoever bounds them computes them exactly and calls again.
    """

    written: list[Written] = field(default_factory=list)
    drifted: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    failed: dict[str, KernelError] = field(default_factory=dict)
    foreign_periods: dict[str, Microseconds] = field(default_factory=dict)
    examined: int = 0
    refused: int = 0


class Counts:
    """Totals since the start, by what happened."""

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter()

    def add(self, report: Report) -> None:
        self._totals.update(
            written=len(report.written),
            drifted=len(report.drifted),
            gone=len(report.gone),
            failed=len(report.failed),
            refused=report.refused,
        )

    @property
    def totals(self) -> Mapping[str, int]:
        """By ``written``, ``drifted``, ``gone``, ``failed`` and ``refused`` (EINVAL, put right or not)."""
        return self._totals
