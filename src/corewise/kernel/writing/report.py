"""What a writer did, for metrics, logs and the next decision."""

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
    """The outcome of one call of a writer.

    ``drifted`` is what somebody else had changed and what was put right. ``gone`` are cgroups that no longer
    exist (or not yet). ``failed`` is left as it is until the next call. Both go by cgroup for quotas, and by
    file ("/kubepods/…/cpu.weight") for settings, and in ``failed`` the journal by its path. For
    ``foreign_periods``, quotas were scaled to the period found; whoever bounds them computes them exactly and
    calls again.
    """

    written: list[Written] = field(default_factory=list)
    drifted: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    failed: dict[str, KernelError] = field(default_factory=dict)
    foreign_periods: dict[str, Microseconds] = field(default_factory=dict)
    examined: int = 0
    refused: int = 0

    def add(self, other: Report) -> None:
        """Take in what another call did."""
        self.written += other.written
        self.drifted += other.drifted
        self.gone += [cgroup for cgroup in other.gone if cgroup not in self.gone]
        self.failed |= other.failed
        self.foreign_periods |= other.foreign_periods
        self.examined += other.examined
        self.refused += other.refused


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
