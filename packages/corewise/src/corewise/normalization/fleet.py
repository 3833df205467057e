"""The scores that agents measured on a cluster's nodes, and which of them count. Pure.

A score is that of one CPU on a nearly idle node (:mod:`corewise.vocabulary.evaluation_report`). ``corewise
calibrate`` measures all CPUs at once: the two are never mixed.

**Which scores count.** The median of at least :data:`LEAST_RUNS` runs, the newest of them of the last 7 days,
of a known CPU model, whose model and settings the node still has. Only scores of one mix, one version of
Python and one of zlib are compared: those that most nodes have (of two as frequent, the newer). The others
are left out and named, since another version shifts scores by itself. Architectures may differ: that is part
of what is compared.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias

from corewise.config.configuration import RatioField
from corewise.config.facts import CPUFacts
from corewise.normalization.calibration import UNKNOWN_MODEL, ModelSetting
from corewise.vocabulary.evaluation_report import EvaluationReport, decode
from corewise.vocabulary.findings import Finding

LEAST_RUNS = 5
"""Runs behind a score that counts, as many as ``corewise calibrate`` makes."""
LIMIT = Fraction(5, 100)
"""Difference from which a ratio is off, or a node is slow."""
_RECENT = timedelta(days=7)
_AHEAD = timedelta(hours=1)
"""The most that a node's clock is ahead where its scores count: later ones are told apart by their times."""

Toolchain: TypeAlias = tuple[int, str, str]
"""What scores must share to be compared: the mix, the version of Python, that of zlib."""


class LeftOut(StrEnum):
    """Why the score of a node does not count; the value follows the number of nodes."""

    NO_REPORT = "without a score: their agents do not measure yet (corewise agent --evaluate)"
    UNREADABLE = "with a report that cannot be read"
    NOT_MEASURED = "which cannot be measured"
    FEW_RUNS = f"with fewer than {LEAST_RUNS} runs so far"
    UNKNOWN_MODEL = "whose CPU model is unknown"
    OTHER_SETTINGS = "measured with another CPU model, hyper-threading or turbo than they have"
    OLD = f"without a run in the last {_RECENT.days} days"
    OTHER_TOOLCHAIN = "measured with another mix, Python or zlib than most"


@dataclass(frozen=True, slots=True)
class ScoredNode:
    """A node with a score that counts."""

    name: str
    report: EvaluationReport

    @property
    def setting(self) -> ModelSetting:
        report = self.report
        field = RatioField.of(hyper_threading=report.hyper_thread_enabled, turbo=report.turbo_enabled)
        return report.cpu_model, field

    @property
    def toolchain(self) -> Toolchain:
        return self.report.mix, self.report.python, self.report.zlib

    @property
    def measured(self) -> datetime | None:
        """The time of the newest run; None if it cannot be read."""
        return moment(self.report.measured or self.report.time)

    def is_recent(self, now: datetime) -> bool:
        """Whether the newest run is of the last days."""
        measured = self.measured
        return measured is not None and -_AHEAD < now - measured < _RECENT


def _version(toolchain: Toolchain) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the mix and versions of a toolchain as numbers: 3.11 is newer than 3.9."""
    mix, python, zlib = toolchain
    return mix, _numbers(python), _numbers(zlib)


def _numbers(version: str) -> tuple[int, ...]:
    # The annotation may have any text, and int() refuses thousands of digits.
    return tuple(int(each) for each in _NUMBER.findall(version))


_NUMBER = re.compile(r"[0-9]{1,9}")


def moment(text: str) -> datetime | None:
    """Read an RFC 3339 time; None if it is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def scored_node(name: str, text: str | None, facts: CPUFacts | Finding | None = None) -> ScoredNode | LeftOut:
    """Read the annotation with a node's score; ``facts`` are those that the node reports."""
    if text is None:
        return LeftOut.NO_REPORT
    report = decode(text)
    if report is None:
        return LeftOut.UNREADABLE
    return _why_not(report, facts) or ScoredNode(name, report)


def _why_not(report: EvaluationReport, facts: CPUFacts | Finding | None) -> LeftOut | None:
    """Return the reason for leaving a report out; None if it counts."""
    if report.score <= 0:
        return LeftOut.NOT_MEASURED
    if report.runs < LEAST_RUNS:
        return LeftOut.FEW_RUNS
    if report.cpu_model.strip() in {"", UNKNOWN_MODEL}:
        return LeftOut.UNKNOWN_MODEL
    measured = report.cpu_model, report.hyper_thread_enabled, report.turbo_enabled
    if isinstance(facts, CPUFacts) and measured != (facts.model, facts.hyper_threading, facts.turbo):
        return LeftOut.OTHER_SETTINGS
    return None


def newest_score(read: Iterable[tuple[str, ScoredNode | LeftOut]], now: datetime) -> datetime:
    """Return the time of the newest score, ``now`` at the latest.

    With it as its time, the scores of a fleet that measures no more still count.
    """
    times = [each.measured for _, each in read if isinstance(each, ScoredNode)]
    return min(now, max((each for each in times if each is not None), default=now))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes whose scores are compared, and the names of all others by the reason."""

    nodes: tuple[ScoredNode, ...]
    left_out: Mapping[LeftOut, tuple[str, ...]]

    @classmethod
    def of(cls, read: Iterable[tuple[str, ScoredNode | LeftOut]], now: datetime) -> Fleet:
        """Return the fleet of nodes that were read one by one."""
        left_out: dict[LeftOut, list[str]] = defaultdict(list)
        scored = []
        for name, each in read:
            if isinstance(each, LeftOut):
                left_out[each].append(name)
            elif not each.is_recent(now):
                left_out[LeftOut.OLD].append(name)
            else:
                scored.append(each)
        counts = Counter(each.toolchain for each in scored)
        used = max(counts, key=lambda each: (counts[each], _version(each), each), default=None)
        others = [each.name for each in scored if each.toolchain != used]
        if others:
            left_out[LeftOut.OTHER_TOOLCHAIN] = others
        return cls(
            tuple(each for each in scored if each.toolchain == used),
            {why: tuple(sorted(left_out[why])) for why in LeftOut if why in left_out},
        )
