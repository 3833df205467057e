"""``corewise profile``: what types of workload use and what slows them down, from a history.

Printed as tables, as a document, or as the YAML section that the scheduler reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import FILE
from corewise.cli.interference_inputs import read_interference
from corewise.cli.options import duration, examples
from corewise.cli.output import Form, document_text, option, say, table
from corewise.cli.profile_history import HistoryOptions, ask, read_history, write_history
from corewise.config.interference.model import DEFAULT, InterferenceConfiguration
from corewise.interference.analysis import (
    AMOUNTS,
    BANDWIDTH,
    AffinityEstimate,
    Confidence,
    Pace,
    TypeFinding,
    analyze,
)
from corewise.interference.history import Slicing
from corewise.prometheus.client import PrometheusError
from corewise.views.tables import CellSeverity, Column
from corewise.views.text import count
from corewise.vocabulary.selectors import label_value_fault

_SLICING = Slicing()
_GIGA, _MEBI, _KIBI, _MILLI = 10**9, 1 << 20, 1 << 10, 1000
_SEVERITY = {Confidence.LOW: CellSeverity.WARNING}


@click.command(
    epilog=examples(
        "corewise profile --prometheus http://127.0.0.1:9090 --save-history h.json",
        "corewise profile --history h.json -o yaml",
    )
)
@click.option("--prometheus", "url", metavar="URL", help="Query this Prometheus server.")
@click.option("--history", type=FILE, help="Read a history from this file instead.")
@click.option(
    "--config", type=FILE, help="The scheduler's configuration: type label, metrics, default profile."
)
@duration(
    "--range",
    "span",
    default="7d",
    help="How far to look back.",
)
@duration(
    "--step",
    default="5m",
    help="Time between two values.",
)
@duration(
    "--warm-up",
    default=f"{_SLICING.warm_up / 60:g}m",
    help="Time at the start of a pod that is left out.",
)
@duration(
    "--episode",
    default=f"{_SLICING.episode / 60:g}m",
    help="Length of a sample of a pod whose cycles per instruction are counted.",
)
@click.option("--p95", is_flag=True, help="Write 95th percentiles of what pods used instead of means.")
@click.option("--save-history", type=FILE, help="Save what Prometheus answered to this file, for --history.")
@option((Form.TABLE, Form.YAML, Form.JSON))
def command(
    url: str | None,
    history: Path | None,
    config: Path | None,
    span: float,
    step: float,
    warm_up: float,
    episode: float,
    p95: bool,
    save_history: Path | None,
    form: Form,
) -> None:
    """Show what each type of workload uses, and how much longer its work takes under pressure.

    -o yaml prints the profiles and affinities in the form of the scheduler's configuration. A type with too
    little data is refused with the reason, and gets the default profile.

    Exit codes: 0 at least one type has a profile, 1 every type was refused, 2 wrong call, 3 no answer from
    Prometheus, 5 a bad file, 8 Prometheus does not allow the request.
    """
    if (url is None) == (history is None):
        raise click.UsageError("give either --prometheus URL or --history FILE")
    settings = read_interference(config) if config else InterferenceConfiguration()
    if history:
        seen = read_history(history)
    else:
        try:
            seen = asyncio.run(ask(url or "", settings, HistoryOptions(span, step)))
        except PrometheusError as error:
            raise Failure.of(error) from error
    if save_history:
        write_history(save_history, seen)
    default = {str(metric): value for metric, value in settings.default.affinity.items()}
    findings = analyze(seen, default, Slicing(warm_up, episode, settings.window))
    if not findings:
        hint = (
            "check that the pods are labeled and kube-state-metrics exports the label: docs/guides/profile.md"
        )
        raise Failure("the history has no pods of any type", hint=hint, exit_code=ExitCode.VERDICT)
    click.echo(profile_text(findings, form, source=str(history or url), p95=p95), nl=False)
    for remark in remarks(findings):
        say(remark)
    if all(each.refusal for each in findings):
        raise click.exceptions.Exit(ExitCode.VERDICT)


def profile_text(findings: Sequence[TypeFinding], form: Form, *, source: str, p95: bool) -> str:
    """Return all findings in one form. ``p95``: profiles are to be 95th percentiles, not means."""
    if form is Form.YAML:
        return yaml_text(findings, source=source, p95=p95)
    if form is Form.JSON:
        return document_text({"source": source, "types": [_record(each) for each in findings]}, form)
    found = [each for each in findings if each.refusal is None]
    rows = [
        (each.type, metric, affinity, each.confidence(metric))
        for each in found
        for metric, affinity in each.affinity.items()
    ]
    tables = [_use_table(findings)]
    tables += [table(_AFFINITY_COLUMNS, rows)] if found else []
    return "\n".join(tables)


def remarks(findings: Sequence[TypeFinding]) -> Iterator[str]:
    """Yield remarks on the findings."""
    for each in findings:
        if each.refusal is not None:
            refusal = each.refusal
            yield f"{each.type}: {refusal.reason}: {refusal.message}"
            yield f"  {refusal.reason.fix}"
        elif BANDWIDTH not in each.use:
            yield f"{each.type}: its bandwidth was not measured; without it nodes are not filtered"
        elif each.use[BANDWIDTH].estimated:
            use = each.use[BANDWIDTH]
            spread = _amount(BANDWIDTH, use.spread)
            yield f"{each.type}: its bandwidth is estimated from the use of its nodes, ±{spread}"
        if each.odd:
            yield f"{each.type}: {count(each.odd, 'run')} left out, more than 5 times as slow as the median"
        for metric, affinity in each.affinity.items():
            if affinity.why_default:
                yield f"{each.type}: {metric} is the default: {affinity.why_default}"
            elif affinity.inseparable_from:
                others = " and ".join(affinity.inseparable_from)
                yield f"{each.type}: {metric} moved together with {others}; they share their effect evenly"


def yaml_text(findings: Sequence[TypeFinding], *, source: str, p95: bool) -> str:
    """Return the section ``interference`` with a profile for each type that was not refused."""
    kind = "95th percentiles" if p95 else "means"
    lines = [f"# Written by corewise profile from {source}. Profiles are {kind}.", "interference:"]
    good = [each for each in findings if each.refusal is None and not _why_no_key(each.type)]
    lines += ["  profiles:"] if good else ["  profiles: {}"]
    for each in good:
        lines += _entry(each, p95=p95)
    for each in findings:
        if each.refusal is not None:
            lines.append(f"  # {_key(each.type)} refused: {each.refusal.reason}: {each.refusal.message}")
        elif _why_no_key(each.type):
            lines.append(f"  # the type {_key(each.type)}: {_why_no_key(each.type)}; rename it")
    return "\n".join(lines) + "\n"


def _entry(finding: TypeFinding, *, p95: bool) -> Iterator[str]:
    runs = count(finding.runs, "run" if finding.pace is Pace.DURATION else "episode")
    yield f"    {_key(finding.type)}:  # {runs} by {finding.pace} on {count(finding.nodes, 'node')}"
    amounts = {what: _amount(what, use.p95 if p95 else use.mean) for what, use in finding.use.items()}
    inside = ", ".join(f"{what}: {text}" for what, text in amounts.items())
    yield f"      profile: {{{inside}}}"
    yield "      affinity:"
    for metric, affinity in finding.affinity.items():
        yield f"        {metric}: {affinity.value}  # {_remark(affinity, finding.confidence(metric))}"


def _why_no_key(name: str) -> str:
    """Return the reason why a profile cannot have the name of a type; "" if it can."""
    if name == DEFAULT:
        return "this name stands for all types without a profile"
    return label_value_fault(name) or "" if name else "the name is empty"


def _key(name: str) -> str:
    """Return a type's name as a YAML key, on one line."""
    return yaml.safe_dump(name, width=10_000).splitlines()[0]


def _remark(affinity: AffinityEstimate, confidence: Confidence) -> str:
    if affinity.why_default:
        return f"the default: {affinity.why_default}"
    return f"±{affinity.spread:.0f}, confidence {confidence}"


def _amount(what: str, value: float) -> str:
    """Return an amount as the configuration has it: whole bytes, whole milli-CPU."""
    match what:
        case "memoryBandwidth":
            return f"{value / _GIGA:.3f}GB/s"
        case "memory":
            return f"{round(value / _MEBI)}MiB"
        case "cpu":
            return f"{round(value * _MILLI) / _MILLI:g}"
        case _:
            return f"{round(value / _KIBI)}KiB"


def _use_table(findings: Sequence[TypeFinding]) -> str:
    columns: list[Column[TypeFinding]] = [
        Column("TYPE", lambda each: each.type),
        Column("PODS", lambda each: str(each.pods), right=True, priority=4),
        Column("RUNS", lambda each: str(each.runs), right=True, priority=1),
        Column("NODES", lambda each: str(each.nodes), right=True, priority=2),
        Column("BY", lambda each: str(each.pace or "-"), priority=3),
        *(_use_column(what, 4 + place if place else 0) for place, what in enumerate(AMOUNTS)),
    ]
    return table(columns, findings)


def _use_column(what: str, priority: int) -> Column[TypeFinding]:
    def text(finding: TypeFinding) -> str:
        use = finding.use.get(what)
        if use is None:
            return "-"
        return f"{_amount(what, use.mean)} ({'estimated' if use.estimated else _amount(what, use.p95)})"

    title = f"{'BANDWIDTH' if what == BANDWIDTH else what.upper()} MEAN (P95)"
    return Column(title, text, right=True, priority=priority)


_Row = tuple[str, str, AffinityEstimate, Confidence]
"""A type's affinity for a metric."""


def _measured(text: Callable[[AffinityEstimate], str]) -> Callable[[_Row], str]:
    return lambda row: "-" if row[2].why_default else text(row[2])


_AFFINITY_COLUMNS: tuple[Column[_Row], ...] = (
    Column("TYPE", lambda row: row[0]),
    Column("METRIC", lambda row: row[1]),
    Column("AFFINITY", lambda row: str(row[2].value), right=True),
    Column("SPREAD", _measured(lambda of: f"±{of.spread:.0f}"), right=True, priority=2),
    Column("EFFECT", _measured(lambda of: f"{of.effect:+.0%}"), right=True),
    Column("RANK CORRELATION", _measured(lambda of: f"{of.correlation:.2f}"), right=True, priority=1),
    Column("RANGE SEEN", lambda row: f"{row[2].seen:.0%}", right=True, priority=3),
    Column(
        "CONFIDENCE",
        lambda row: "none (default)" if row[2].why_default else str(row[3]),
        severity=lambda row: _SEVERITY.get(row[3]),
    ),
)


def _record(finding: TypeFinding) -> Mapping[str, Any]:
    refusal = finding.refusal
    return {
        "type": finding.type,
        "pods": finding.pods,
        "runs": finding.runs,
        "oddRunsLeftOut": finding.odd,
        "nodes": finding.nodes,
        "by": finding.pace,
        "use": {
            what: {
                "mean": use.mean,
                "p95": None if use.estimated else use.p95,
                "spread": use.spread,
                "pods": use.pods,
                "estimated": use.estimated,
            }
            for what, use in finding.use.items()
        },
        "affinity": {
            metric: {
                "value": each.value,
                "spread": round(each.spread, 1),
                "effect": round(each.effect, 4),
                "rankCorrelation": round(each.correlation, 4),
                "rangeSeen": round(each.seen, 4),
                "confidence": finding.confidence(metric),
                "movedTogetherWith": list(each.inseparable_from),
                "whyDefault": each.why_default or None,
            }
            for metric, each in finding.affinity.items()
        },
        "refused": {"reason": refusal.reason, "message": refusal.message} if refusal else None,
    }
