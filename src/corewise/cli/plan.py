"""``corewise plan``: place all pods of a dump or a trace offline, under one configuration or two."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from corewise.assessment.cluster import ClusterConfiguration
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.interference_inputs import read_interference
from corewise.cli.output import Form, option, say
from corewise.cli.plan_report import PlanReport, TimedOutcome, print_plan
from corewise.cli.policy_file import NOTHING_CONFIGURED, configuration_of, read_policy
from corewise.config.interference import InterferenceConfiguration
from corewise.engine import Allocation, Plugin
from corewise.scheduler.plugins import PluginError, load_plugins
from corewise.simulation.plan import InputError
from corewise.simulation.planner import compare, plan
from corewise.simulation.planner_inputs import PlanInput, plan_from_dump, plan_from_openb

_FILE = click.Path(path_type=Path, dir_okay=False)
_NONE = "none"
_SCORES = {each.value: each for each in Allocation}


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the configurations, and what it is called."""

    name: str
    configuration: ClusterConfiguration


@click.command()
@click.option(
    "--from", "dump", type=_FILE, help="Nodes and pods of a real cluster: kubectl get nodes,pods -A -o json."
)
@click.option(
    "--from-openb", "openb", type=(_FILE, _FILE), help="Nodes and pods of the Alibaba openb trace (CSV)."
)
@click.option(
    "--policy",
    metavar="FILE",
    help="Configuration to plan with: a ConfigMap, as in config check.  [default: the dump's own or none]",
)
@click.option(
    "--against",
    metavar="FILE|none",
    help="A second configuration, to compare the first with; none: as if there was none.",
)
@click.option(
    "--score",
    type=click.Choice(list(_SCORES)),
    default=Allocation.LEAST.value,
    show_default=True,
    help="Which nodes suit a pod best: those with much left, or with little.",
)
@click.option(
    "--interference",
    type=_FILE,
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
    """Place all pods offline, on the engine of the scheduler, and say what fits and what does not.

    Nothing is changed anywhere. With --against, both configurations are planned and compared: --policy is
    what would be, --against is what is.

    Exit codes: 0 no difference (or nothing to compare), 1 a difference, 2 wrong call, 5 a bad file.
    """
    given = _input(dump, openb)
    sides = [_side(given, policy)]
    if against is not None:
        sides.insert(0, _side(given, against))
    profiles = None if interference is None else read_interference(interference)
    try:
        plugins = load_plugins()
    except PluginError as error:
        raise Failure(str(error), exit_code=ExitCode.USAGE) from error
    outcomes = [_timed(given, side, _SCORES[score], profiles, plugins) for side in sides]
    difference = compare(outcomes[0].outcome, outcomes[1].outcome) if len(outcomes) > 1 else None
    print_plan(PlanReport(given, tuple(outcomes), difference), form)
    for note in given.notes:
        say(f"note: {note}")
    if difference is not None and difference.differs:
        raise click.exceptions.Exit(ExitCode.VERDICT)


def _input(dump: Path | None, openb: tuple[Path, Path] | None) -> PlanInput:
    if (dump is None) == (openb is None):
        raise click.UsageError("name what to plan: either --from DUMP or --from-openb NODES PODS")
    try:
        if dump is not None:
            return plan_from_dump(dump)
        assert openb is not None  # noqa: S101 - the call above says so
        return plan_from_openb(*openb)
    except InputError as error:
        raise Failure(str(error)) from error


def _side(given: PlanInput, file: str | None) -> _Side:
    if file == _NONE:
        return _Side("no configuration", NOTHING_CONFIGURED)
    if file is not None:
        return _Side(file, read_policy(file))
    if given.config:
        return _Side("the dump's own", configuration_of(given.config, given.source))
    return _Side("no configuration", NOTHING_CONFIGURED)


def _timed(
    given: PlanInput,
    side: _Side,
    allocation: Allocation,
    profiles: InterferenceConfiguration | None,
    plugins: Sequence[Plugin],
) -> TimedOutcome:
    start = time.perf_counter()
    outcome = plan(given, side.configuration, allocation, profiles, plugins)
    return TimedOutcome(side.name, outcome, time.perf_counter() - start)
