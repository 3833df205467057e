"""What the report on a cluster says first: one figure and one sentence for each question that it answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from corewise.planner.savings import Savings
from corewise.views.cluster_report import ClusterReport, worth_range
from corewise.views.offline_table import TopRow
from corewise.views.text import count, cpus, measured, percent, some

_SHOWN_REASONS = 3


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A figure, what it is, and the sentence that says what it means."""

    figure: str
    label: str
    sentence: str


DENOMINATORS = (
    (
        "raw CPU",
        "a CPU as the kernel counts it. All amounts here are of allocatable CPU: what a node leaves for pods",
    ),
    ("normalized CPU", "raw CPU x normalization ratio: how many baseline CPUs do the same work"),
    ("schedulable CPU", "raw CPU x amplification ratio: what the scheduler gives to pods"),
    (
        "baseline CPU",
        "one CPU of the slowest kind of machine. A worth is that of a CPU of a container with a limit",
    ),
)


def worth(hundredths: int | None) -> str:
    """Return hundredths as a number with two decimals; None is "-"."""
    return "-" if hundredths is None else f"{hundredths // 100}.{hundredths % 100:02d}"


def key_figures(report: ClusterReport) -> Iterator[KeyFigure]:
    """Yield the key figures, in the order of the report's parts."""
    yield _worth(report)
    yield _gained(report)
    if report.savings is not None:
        yield _saved(report.savings)
    yield _offline(report.offline_total, len(report.offline), report.nodes)
    objects = sum(len(each.objects) for each in report.problems)
    reasons = some([each.reason for each in report.problems], _SHOWN_REASONS)
    what = f"{count(objects, 'object')} with a problem: {reasons}." if objects else "No problem is known."
    label = "object with a problem" if objects == 1 else "objects with a problem"
    yield KeyFigure(str(objects), label, what)


def _range(values: tuple[int, int]) -> str:
    low, high = map(worth, values)
    return low if low == high else f"{low} to {high}"


def _worth(report: ClusterReport) -> KeyFigure:
    without, now = (worth_range(report.kinds, now=now) for now in (False, True))
    if without is None and now is None:
        sentence = (
            "How fast one CPU is on each kind of machine is not known: the configuration has no ratios for "
            "them, or may not be read (corewise config starter --cluster prints some to start with)."
        )
        return KeyFigure("-", "worth of one requested CPU", sentence)
    by = "As measured" if report.measured else "By the ratios of the configuration"
    before = f"{_range(without)} baseline CPUs without corewise" if without else ""
    after = f"{_range(now)} with it" if now else ""
    sentence = f"{by}, one CPU in a request is worth {', and '.join(filter(None, (before, after)))}."
    return KeyFigure(_range(now) if now else "-", "baseline CPUs for one requested CPU", sentence)


def _gained(report: ClusterReport) -> KeyFigure:
    if report.total.raw is None:
        sentence = "How many CPUs the ratios add is not known: no node states its raw CPUs (RAW CPU below)."
        return KeyFigure("-", "CPUs gained", sentence)
    raw, schedulable = report.total.raw, report.total.schedulable or 0
    sentence = (
        f"Nodes offer {cpus(schedulable)} schedulable CPUs from {cpus(raw)} raw CPUs: "
        f"{cpus(report.gained)} more{percent(report.gained, raw)}."
    )
    overcommitted = report.gained - report.gained_by_speed
    if overcommitted:
        sentence += (
            f" {cpus(report.gained_by_speed)} of that is the speed of fast CPUs, the rest is overcommitted."
        )
    elif report.gained:
        sentence += " All of that is the speed of fast CPUs."
    if report.without_raw:
        sentence += f" {left_out(report)}"
    return KeyFigure(f"+{cpus(report.gained)}", "CPUs gained", sentence)


def left_out(report: ClusterReport) -> str:
    """Return the sentence on nodes that the sums leave out."""
    return f"{count(report.without_raw, 'node')} whose raw CPUs are not known: in no sum."


def _saved(found: Savings) -> KeyFigure:
    sentence = (
        f"The {count(found.pods, 'online pod')} fit on {count(found.nodes, 'node')} with these ratios, and "
        f"on {found.nodes_without} without any, when they are packed as tightly as they fit."
    )
    if found.left_over:
        sentence += f" {count(found.left_over, 'more pod')} fit on a node with ratios only."
    return KeyFigure(str(found.saved), "machines saved", sentence)


def _offline(total: TopRow | None, reporting: int, nodes: int) -> KeyFigure:
    if total is None:
        return KeyFigure("-", "CPUs used by offline pods", "No node reports offline pods.")
    sums = total.sums
    idle = max(0, sums.allocatable - sums.online)
    sentence = (
        f"Offline pods use {measured(sums.offline)} of the {measured(idle)} raw CPUs that online pods leave "
        f"idle, on {reporting} of {count(nodes, 'node')}."
    )
    return KeyFigure(measured(sums.offline), "raw CPUs used by offline pods", sentence)
