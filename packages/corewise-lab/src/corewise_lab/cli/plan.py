"""``corewise plan``: place all pods of a dump or a trace offline, under one configuration or two."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from corewise.cli.choice import one_of
from corewise.cli.completers import file_names, of_names
from corewise.cli.config_file import AppliedPolicy, applied_policy, read_policy, read_present_policy
from corewise.cli.errors import ExitCode
from corewise.cli.files import FILE, TEXT_FILE
from corewise.cli.interference_inputs import read_interference
from corewise.cli.options import examples
from corewise.cli.output import Form, document_text, option, say, table, tell
from corewise.engine import Allocation
from corewise.planner.inputs import PlanInput
from corewise.planner.planner import Comparison, PlanOutcome, compare, held_decreases, kept_ratios, plan
from corewise.planner.records import Planned, percent_of, record_of
from corewise.quantities import Ratio
from corewise.ratios.cluster import NOTHING_CONFIGURED, ClusterConfiguration
from corewise.scheduler.plugins import load_plugins
from corewise.views.tables import Column
from corewise.views.text import count, cpus, percent, some
from corewise_lab.plan_inputs import plan_from_dump, plan_from_openb

_NONE = "none"
_SHOWN_PODS = 5
_HUNDRED = 100


def _file_or_none(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    return of_names([_NONE] if incomplete else [], incomplete) or file_names(context, parameter, incomplete)


@click.command(
    epilog=examples(
        "kubectl get nodes,pods,noderesourcetopologies,configmaps -A -o json > dump.json",
        "corewise plan --from dump.json --policy new.yaml --against none",
    )
)
@click.option(
    "--from", "dump", type=FILE, help="Nodes and pods of a real cluster: kubectl get nodes,pods -A -o json."
)
@click.option(
    "--from-openb",
    "openb",
    type=(FILE, FILE),
    shell_complete=file_names,
    help="Nodes and pods of the Alibaba openb trace (CSV).",
)
@click.option(
    "--policy",
    type=TEXT_FILE,
    metavar="FILE",
    help="Configuration to plan with: a ConfigMap, as in config check.  [default: the dump's own or none]",
)
@click.option(
    "--against",
    type=TEXT_FILE,
    shell_complete=_file_or_none,
    metavar="FILE|none",
    help="A second configuration to compare with; none means an empty one.",
)
@click.option(
    "--score",
    **one_of(Allocation.LEAST),
    help="Prefer nodes with much left, or with little.",
)
@click.option(
    "--interference",
    type=FILE,
    help="The scheduler's file: pods count by its profiles of memory bandwidth and cache.",
)
@option((Form.TABLE, Form.JSON, Form.YAML))
def command(
    dump: Path | None,
    openb: tuple[Path, Path] | None,
    policy: str | None,
    against: str | None,
    score: str,
    interference: Path | None,
    form: Form,
) -> None:
    """Place all pods offline, on the scheduler's engine, and show what fits and what does not.

    Changes nothing. With --against, both configurations are planned and compared: --against is the present
    one, --policy the new one. Where the present one has errors, what the manager applies of it is planned.

    An amplification ratio may be as large as the manager's --largest-amplification. A dump says how large
    that is if kubectl gets mutatingwebhookconfigurations too; else it is 10.00.

    Exit codes: 0 no difference (or nothing to compare), 1 a difference, 2 wrong call, 5 a bad file.
    """
    given = _input(dump, openb)
    profiles = None if interference is None else read_interference(interference)
    plugins = load_plugins()
    policies = [] if against is None else [_present(against, given.largest)]
    policies.append(_wanted(given, dump, policy))
    remarks = [remark for _, applied in policies for remark in applied.remarks]
    remarks += [note for name, applied in policies for note in _notes(name, given, applied.configuration)]
    given = replace(given, notes=(*given.notes, *remarks))
    planned: list[Planned] = []
    for name, applied in policies:
        start = time.perf_counter()
        outcome = plan(given, applied.configuration, Allocation(score), profiles, plugins)
        planned.append(Planned(name, outcome, time.perf_counter() - start))
    difference = compare(planned[0].outcome, planned[1].outcome) if len(planned) > 1 else None

    if form is Form.TABLE:
        _print_tables(given, planned, difference)
    else:
        click.echo(document_text(record_of(given, planned, difference), form), nl=False)
    for note in given.notes:
        say(f"note: {note}")
    if difference is not None and difference.differs:
        raise click.exceptions.Exit(ExitCode.VERDICT)


def _input(dump: Path | None, openb: tuple[Path, Path] | None) -> PlanInput:
    if (dump is None) == (openb is None):
        raise click.UsageError("name what to plan: either --from DUMP or --from-openb NODES PODS")
    if dump is not None:
        return plan_from_dump(dump)
    assert openb is not None  # noqa: S101 - the check above says so
    return plan_from_openb(*openb)


def _present(file: str, largest: Ratio) -> tuple[str, AppliedPolicy]:
    """Return the configuration to compare with, and its name."""
    return _nothing() if file == _NONE else (file, read_present_policy(file, largest))


def _wanted(given: PlanInput, dump: Path | None, file: str | None) -> tuple[str, AppliedPolicy]:
    """Return the configuration of ``file``, or that of the dump, and its name."""
    if file is not None and file != _NONE:
        return file, AppliedPolicy(read_policy(file, given.largest))
    if file is None and given.config:
        return "the dump's own", applied_policy(given.config, str(dump), given.largest)
    return _nothing()


def _nothing() -> tuple[str, AppliedPolicy]:
    return "no configuration", AppliedPolicy(NOTHING_CONFIGURED)


def _notes(name: str, given: PlanInput, configuration: ClusterConfiguration) -> Iterable[str]:
    """Yield notes on nodes that do not get the ratios that a configuration states for them, or not yet."""
    if held := held_decreases(given, configuration):
        yield (
            f"{name}: nodes planned with a lower ratio, which the manager holds back while their present "
            f"pods would not fit: {len(held)} ({some(held)})"
        )
    if kept := kept_ratios(given, configuration):
        reasons = ", ".join(f"{reason} {nodes}" for reason, nodes in kept.most_common())
        yield (
            f"{name}: nodes that keep the cpu ratio they have, because no normalization ratio can be decided "
            f"for them: {kept.total()} ({reasons})"
        )


def _print_tables(given: PlanInput, planned: Sequence[Planned], difference: Comparison | None) -> None:
    """Print the results on stdout, one column for each configuration; how fast it was goes to stderr."""
    tell(f"{given.source}: {count(len(given.nodes), 'node')}, {count(len(given.pods), 'pod')}")
    print()
    columns: list[Column[_Row]] = [Column("", lambda row: row[0], shrink=32)]
    columns += [Column(each.name, _cell(place), right=True, shrink=20) for place, each in enumerate(planned)]
    rows = list(_rows([each.outcome for each in planned]))
    print(table(columns, rows), end="")
    if difference is not None and not difference.differs:
        print("\nno difference")
    elif difference is not None:
        print(f"\nnodes with another ratio: {difference.ratios_changed}")
        print(f"pods on another node: {difference.moved}")
        tell(f"pods that gain a node: {_some(difference.gained)}")
        tell(f"pods that lose theirs: {_some(difference.lost)}")
    print()
    for each in planned:
        tell(_headline(each, len(given.pods)))
    for each in planned:
        say(f"{each.name}: planned in {each.seconds:.2f} s, {each.pods_a_second:,} pods/s")


def _headline(planned: Planned, pods: int) -> str:
    outcome = planned.outcome
    return (
        f"{planned.name}: {len(outcome.placed)} of {count(pods, 'pod')} scheduled, "
        f"{cpus(outcome.schedulable)} CPUs schedulable"
    )


_Row = tuple[str, Sequence[str]]
_PACKING: tuple[tuple[str, Callable[[PlanOutcome], str]], ...] = (
    ("nodes used", lambda each: f"{each.nodes_used} of {each.nodes}"),
    ("raw CPUs", lambda each: cpus(each.raw)),
    ("schedulable CPUs", lambda each: cpus(each.schedulable)),
    (
        "requested, owned CPUs amplified",
        lambda each: cpus(each.requested) + percent(each.requested, each.schedulable),
    ),
    ("  of the nodes used", lambda each: f"{percent_of(each.requested, each.schedulable_used)}%"),
    ("CPUs owned by CPUSet pods", lambda each: cpus(each.owned)),
    ("raw overcommit", lambda each: f"{_ratio(each.promised, each.raw)}"),
    ("  nodes above 1.00", lambda each: str(each.overcommitted)),
    ("  largest", lambda each: f"{each.worst[1] / _HUNDRED:.2f} ({each.worst[0]})" if each.worst else "-"),
)


def _cell(place: int) -> Callable[[_Row], str]:
    return lambda row: row[1][place]


def _rows(outcomes: Sequence[PlanOutcome]) -> Iterable[_Row]:
    yield "pods scheduled", [str(len(each.placed)) for each in outcomes]
    yield "pods unscheduled", [str(len(each.unplaced)) for each in outcomes]
    for reason in dict.fromkeys(reason for each in outcomes for reason in each.by_reason):
        yield f"  {reason}", [str(each.by_reason.get(reason, 0)) for each in outcomes]
    for name, text in _PACKING:
        yield name, [text(each) for each in outcomes]


def _ratio(part: int, whole: int) -> str:
    return f"{percent_of(part, whole) / _HUNDRED:.2f}"


def _some(pods: Sequence[str]) -> str:
    if not pods:
        return "0"
    return f"{len(pods)} ({', '.join(pods[:_SHOWN_PODS])}{', …' if len(pods) > _SHOWN_PODS else ''})"
