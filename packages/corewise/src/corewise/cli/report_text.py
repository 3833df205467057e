"""The report on a cluster as Markdown: sentences, tables, and pictures made of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corewise.cli.report_pictures import MOST_BARS, amount_bars, as_text, offline_bars, worth_bars
from corewise.views.cluster_findings import DENOMINATORS, key_figures, left_out, worth
from corewise.views.cluster_report import ClusterReport, MachineKind, ProblemGroup
from corewise.views.text import count, cpus, some

TITLE = "What corewise does for this cluster"
KIND_HEADS = (
    "kind of machine",
    "nodes",
    "raw CPUs",
    "normalized",
    "schedulable",
    "requested",
    "worth without",
    "worth with corewise",
)
PROBLEM_HEADS = ("reason", "objects", "what is wrong", "what to do")
_SHOWN_OBJECTS = 5


def kind_cells(kind: MachineKind) -> tuple[str, ...]:
    """Return the cells of a kind of machine, one for each of KIND_HEADS."""
    sums = kind.amounts
    amounts = (sums.raw, sums.normalized, sums.schedulable, sums.requested)
    return (
        kind.name,
        str(kind.nodes),
        *map(cpus, amounts),
        worth(kind.worth.without),
        worth(kind.worth.now),
    )


def notes_on_worth(report: ClusterReport) -> Iterator[str]:
    """Yield sentences on where the worths come from, and what is left out."""
    if report.measured:
        yield "The worths were measured in a run of the local cluster, first without corewise, then with it."
    else:
        yield (
            "The worths follow from the ratios of the configuration and from those on the nodes. To check a "
            "ratio, measure both machines: corewise calibrate."
        )
    if len(report.kinds) > MOST_BARS:
        yield f"The picture shows the {MOST_BARS} slowest of {count(len(report.kinds), 'kind')} of machines."
    if report.unknown:
        yield f"{count(report.unknown, 'node')} without CPU facts: in the sums, in no kind of machine."
    if report.without_raw:
        yield left_out(report)


def notes_on_savings(report: ClusterReport) -> Iterator[str]:
    """Yield sentences on how machines saved are counted."""
    if report.savings is None:
        yield "Machines saved are not known: the pods could not be read."
        return
    yield (
        "Machines saved: all online pods are placed from scratch, each on the fullest node that fits; once "
        "with the ratios of the configuration, once with raw CPUs and as many copies of nodes as they need."
    )


def notes_on_offline(report: ClusterReport) -> Iterator[str]:
    """Yield sentences on what the figures of offline pods are."""
    if not report.offline:
        return
    yield "Raw CPUs in the last sample of each node's agent; online + offline + idle is what is allocatable."
    if len(report.offline) > MOST_BARS:
        yield f"The picture shows the {MOST_BARS} largest of {count(len(report.offline), 'node')}."
    stale = [row.name for row in report.offline if row.details.stale]
    if stale:
        yield f"{count(len(stale), 'node')} with old data: {some(stale)}."


def objects_of(group: ProblemGroup) -> str:
    """Return the kind and the names of the objects with a problem."""
    return f"{group.kind} {some(group.objects, _SHOWN_OBJECTS)}"


def markdown(report: ClusterReport) -> str:
    """Return the report as Markdown."""
    lines = [f"# {TITLE}", "", f"{report.source}, {count(report.nodes, 'node')}, {report.time}", ""]
    lines += [f"- **{each.figure}** {each.label}. {each.sentence}" for each in key_figures(report)]
    lines += ["", "## What CPUs are worth", ""]
    lines += [*_fenced(as_text(worth_bars(report)))]
    if report.kinds:
        lines += [*_table(KIND_HEADS, [kind_cells(each) for each in report.kinds], numbers=7), ""]
    lines += [" ".join(notes_on_worth(report)), ""]
    lines += ["## What amplification yields", "", *_fenced(as_text(amount_bars(report)))]
    lines += [" ".join(notes_on_savings(report)), "", "## What offline work uses", ""]
    bars = as_text(offline_bars(report.offline))
    lines += [*(_fenced([*bars, "", "█ online  ▓ offline  ░ idle"]) if bars else [])]
    lines += [" ".join(notes_on_offline(report)) or "No node reports offline pods.", "", "## Problems", ""]
    rows = [(each.reason, objects_of(each), each.message, _to_do(each)) for each in report.problems]
    lines += [*(_table(PROBLEM_HEADS, rows) if rows else ["No problem is known."]), ""]
    lines += [
        *_unread(report),
        "## Words",
        "",
        *(f"- **{word}**: {meaning}." for word, meaning in DENOMINATORS),
    ]
    return "\n".join(lines) + "\n"


def _unread(report: ClusterReport) -> list[str]:
    if not report.missing:
        return []
    return ["Not read, so problems may be missing:", "", *(f"- {each}" for each in report.missing), ""]


def _to_do(group: ProblemGroup) -> str:
    command = f"`{group.command}`" if group.command else ""
    return " ".join(filter(None, (group.fix, command)))


def _fenced(lines: Sequence[str]) -> list[str]:
    return ["```text", *lines, "```", ""] if lines else []


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> list[str]:
    """Return a table; the last ``numbers`` columns are aligned to the right."""
    marks = ["---"] * (len(heads) - numbers) + ["---:"] * numbers
    return [_row(heads), _row(marks), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(each) for each in cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
