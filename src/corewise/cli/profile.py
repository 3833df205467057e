"""``corewise profile``: what types of workload use and what slows them down, from a history.

Printed as tables, as a document, or as the YAML section that the scheduler reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import FILE
from corewise.cli.interference_inputs import read_interference
from corewise.cli.options import seconds
from corewise.cli.output import (
    CellSeverity,
    Column,
    Form,
    Listing,
    colour_wanted,
    count,
    document_text,
    option,
    render,
    say,
)
from corewise.cli.profile_history import HistoryOptions, ask, read_history, write_history
from corewise.config.interference.model import DEFAULT, InterferenceConfiguration
from corewise.interference.analysis import (
    AMOUNTS,
    BANDWIDTH,
    AffinityEstimate,
    Confidence,
    Pace,
    TypeFinding,
    TypeUse,
    analyse,
)
from corewise.interference.history import Slicing
from corewise.prometheus.client import PrometheusError
from corewise.vocabulary.selectors import label_value_fault

_SLICING = Slicing()
_GIGA, _MEBI, _KIBI, _MILLI = 10**9, 1 << 20, 1 << 10, 1000
_SEVERITY = {Confidence.LOW: CellSeverity.WARNING}


@click.command()
@click.option("--prometheus", "url", metavar="URL", help="Query this Prometheus server.")
@click.option("--history", type=FILE, help="Read a history from this file instead.")
@click.option(
    "--config", type=FILE, help="The scheduler's configuration: type label, metrics, default profile."
)
@click.option(
    "--range",
    "span",
    metavar="TIME",
    default="7d",
    show_default=True,
    callback=seconds,
    help="How far to look back.",
)
@click.option(
    "--step",
    metavar="TIME",
    default="5m",
    show_default=True,
    callback=seconds,
    help="Time between two values.",
)
@click.option(
    "--warm-up",
    metavar="TIME",
    default=f"{_SLICING.warm_up / 60:g}m",
    show_default=True,
    callback=seconds,
    help="Time at the start of a pod that is left out.",
)
@click.option(
    "--episode",
    metavar="TIME",
    default=f"{_SLICING.episode / 60:g}m",
    show_default=True,
    callback=seconds,
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

    -o yaml prints the profiles and affinities as the scheduler's configuration has them. A type of which too
    little was seen is refused with the reason, and falls under the default profile.

    Exit codes: 0 at least one type has a profile, 1 every type was refused, 2 wrong call, 3 no answer from
    Prometheus, 5 a bad file.
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
            raise Failure(error.message, hint=error.hint, exit_code=ExitCode.CONNECTION) from error
    if save_history:
        write_history(save_history, seen)
    default = {str(metric): value for metric, value in settings.default.affinity.items()}
    findings = analyse(seen, default, Slicing(warm_up, episode, settings.window))
    if not findings:
        hint = "check that the pods are labelled and kube-state-metrics exports the label: docs/profile.md"
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
    used = render(_use_listing(findings), Form.TABLE)
    found = [each for each in findings if each.refusal is None]
    weighs = render(_affinity_listing(found), Form.TABLE, colour=colour_wanted()) if found else ""
    return "\n".join(filter(None, (used, weighs)))


def remarks(findings: Sequence[TypeFinding]) -> Iterator[str]:
    """Yield what has to be said of the findings."""
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
    """Say why a profile cannot have the name of a type; nothing if it can."""
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


def _use_listing(findings: Sequence[TypeFinding]) -> Listing[TypeFinding]:
    columns: list[Column[TypeFinding]] = [
        Column("TYPE", lambda each: each.type),
        Column("PODS", lambda each: str(each.pods), right=True),
        Column("RUNS", lambda each: str(each.runs), right=True),
        Column("NODES", lambda each: str(each.nodes), right=True),
        Column("BY", lambda each: str(each.pace or "-")),
        *(_use_column(what) for what in AMOUNTS),
    ]
    return Listing(columns, findings, (), name=lambda each: each.type)


def _use_column(what: str) -> Column[TypeFinding]:
    title = {"memoryBandwidth": "BANDWIDTH"}.get(what, what.upper())
    return Column(f"{title} MEAN (P95)", lambda each: _shown_use(what, each.use.get(what)), right=True)


def _shown_use(what: str, use: TypeUse | None) -> str:
    if use is None:
        return "-"
    return f"{_amount(what, use.mean)} ({'estimated' if use.estimated else _amount(what, use.p95)})"


def _affinity_listing(findings: Sequence[TypeFinding]) -> Listing[tuple[TypeFinding, str]]:
    rows = [(each, metric) for each in findings for metric in each.affinity]
    columns: tuple[Column[tuple[TypeFinding, str]], ...] = (
        Column("TYPE", lambda row: row[0].type),
        Column("METRIC", lambda row: row[1]),
        Column("AFFINITY", lambda row: str(_of(row).value), right=True),
        Column("SPREAD", lambda row: _measured(row, f"±{_of(row).spread:.0f}"), right=True),
        Column("EFFECT", lambda row: _measured(row, f"{_of(row).effect:+.0%}"), right=True),
        Column("RANK CORRELATION", lambda row: _measured(row, f"{_of(row).correlation:.2f}"), right=True),
        Column("RANGE SEEN", lambda row: f"{_of(row).seen:.0%}", right=True),
        Column("CONFIDENCE", _confidence, severity=lambda row: _SEVERITY.get(row[0].confidence(row[1]))),
    )
    return Listing(columns, rows, (), name=lambda row: f"{row[0].type}/{row[1]}")


def _of(row: tuple[TypeFinding, str]) -> AffinityEstimate:
    return row[0].affinity[row[1]]


def _measured(row: tuple[TypeFinding, str], text: str) -> str:
    return "-" if _of(row).why_default else text


def _confidence(row: tuple[TypeFinding, str]) -> str:
    return "none (default)" if _of(row).why_default else str(row[0].confidence(row[1]))


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
