"""``corewise agent``: run the agent of a node; ``corewise agent restore``: undo what it did to cgroups."""

from __future__ import annotations

import platform
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

import click

from corewise.agent.cgroups import restore
from corewise.agent.options import INTERVAL, LATENCY_INTERVAL, NRI_SOCKET, STATE_DIR, AgentOptions
from corewise.agent.program import run_agent
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import EXISTING_FOLDER, FOLDER
from corewise.cli.options import (
    LOG_OPTIONS,
    METRICS_AUTH,
    METRICS_LISTEN,
    QOS_NAMESPACES,
    cluster_options,
    duration,
    examples,
    run_program,
    seconds,
)
from corewise.cli.output import say
from corewise.kube.config import load_config
from corewise.normalization.evaluation import DEFAULT_MINUTES
from corewise.service.logs import LogFormat, configure
from corewise.views.text import count
from corewise.vocabulary.qos import QoSRules

_SHORTEST_INTERVAL = 1.0


def _interval(context: click.Context, parameter: click.Parameter, value: str) -> float:
    period = seconds(context, parameter, value)
    if period is None or period < _SHORTEST_INTERVAL:
        raise click.BadParameter(f"at least {_SHORTEST_INTERVAL:.0f}s", context, parameter)
    return period


_ROOT = click.option(
    "--root",
    envvar="COREWISE_ROOT",
    type=EXISTING_FOLDER,
    default="/",
    show_default=True,
    help="Where the host's /proc, /sys and /var are found, or $COREWISE_ROOT.",
)
_STATE = click.option(
    "--state-dir",
    type=FOLDER,
    help=f"Directory of the journal of writes.  [default: {STATE_DIR} below the root]",
)


def _number(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuse NaN, which is within every range."""
    if isnan(value):
        raise click.BadParameter("nan is not a number", context, parameter)
    return value


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "corewise agent --node-name n1 --metrics-listen 127.0.0.1:8081",
        "corewise agent --node-name n1 --once --dry-run",
    ),
)
@click.pass_context
@cluster_options
@click.option(
    "--node-name", envvar="NODE_NAME", help="Name of this Node.  [default: $NODE_NAME, or the host]"
)
@_ROOT
@click.option(
    "--cgroup-root", default="/", show_default=True, help="kubelet's --cgroup-root, or the path of a cgroup."
)
@_STATE
@click.option(
    "--nri-socket",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"The container runtime's NRI socket.  [default: {NRI_SOCKET} below the root]",
)
@click.option(
    "--no-nri", is_flag=True, help="Do not use the runtime's NRI; divide quotas once containers run."
)
@duration(
    "--interval",
    default=f"{INTERVAL:.0f}s",
    callback=_interval,
    help="How often to check quotas; a change is handled at once.",
)
@duration(
    "--latency-interval",
    default=f"{LATENCY_INTERVAL:.0f}s",
    callback=_interval,
    help="How often to probe the latency of memory, for some milliseconds of one CPU.",
)
@QOS_NAMESPACES
@click.option("--no-latency-probe", is_flag=True, help="Do not probe memory; all other metrics stay.")
@click.option("--evaluate", is_flag=True, help="Measure this node's CPUs now and then, while it is idle.")
@click.option(
    "--evaluate-minutes",
    type=click.FloatRange(0.1, 60),
    callback=_number,
    default=DEFAULT_MINUTES,
    show_default=True,
    help="With --evaluate: at most so many minutes a day.",
)
@METRICS_LISTEN
@METRICS_AUTH
@click.option("--once", is_flag=True, help="Do everything once (one sample of 1 s, one step), and exit.")
@click.option("--dry-run", is_flag=True, help="Write nothing; print on stdout what would be written.")
@LOG_OPTIONS
def command(
    called: click.Context,
    /,
    kubeconfig: str | None,
    context: str | None,
    log_format: str,
    verbose: bool,
    **options: Any,
) -> None:
    """Report what this machine is, divide the CPU quotas of its pods by the node's ratio, and look after
    offline pods.

    With the label volcano.sh/oversubscription=true the Node offers to offline pods (batch-cpu, batch-memory)
    what online pods leave idle; the ConfigMap slo-controller-config says how much, and how offline pods are
    held back.

    Runs until SIGTERM or SIGINT, which change no quota (with onAgentStop "restore", those of suppression go
    back) and remove the resctrl group of offline pods. To undo everything, remove the label, stop the agent,
    and run `corewise agent restore`.
    """
    if called.invoked_subcommand is not None:
        return
    agent_options = _options(**options)
    configure(LogFormat(log_format), verbose=verbose)
    cluster = load_config(kubeconfig, context)
    all_well = run_program(run_agent(agent_options, cluster, write=partial(click.echo, nl=False)))
    if all_well is False:
        raise Failure("not everything is in order; see above", exit_code=ExitCode.VERDICT)


def _options(
    *,
    node_name: str | None,
    nri_socket: Path | None,
    no_nri: bool,
    no_latency_probe: bool,
    evaluate: bool,
    evaluate_minutes: float,
    restricted_qos_namespace: tuple[str, ...],
    **options: Any,
) -> AgentOptions:
    if no_nri and nri_socket:
        raise click.UsageError("--nri-socket and --no-nri exclude each other")
    socket = None if no_nri else nri_socket or options["root"] / NRI_SOCKET
    if no_latency_probe:
        options["latency_interval"] = None
    return AgentOptions(
        node=node_name or platform.node().lower(),
        nri_socket=socket,
        rules=QoSRules(frozenset(restricted_qos_namespace)),
        evaluate_minutes=evaluate_minutes if evaluate else None,
        **options,
    )


@command.command(
    "restore",
    short_help="Undo what the agent wrote to cgroups.",
    epilog=examples("corewise agent restore"),
)
@_ROOT
@_STATE
def restore_command(root: Path, state_dir: Path | None) -> None:
    """Restore quotas, weights, cpu.idle, CPU sets and memory limits of cgroups from the journal.

    The resctrl group of offline pods is removed.

    No API server is needed. Stop the agent first: it would write again. A second call does nothing.
    """
    directory = state_dir or root / STATE_DIR
    if not directory.is_dir():
        hint = "has an agent run here? See --root and --state-dir"
        raise Failure(f"{directory}: there is no journal", hint=hint, exit_code=ExitCode.NOT_FOUND)
    report = restore(root, directory, warn=say)
    for written in report.written:
        old, new = (text or "(empty)" for text in (written.old, written.new))
        click.echo(f"{written.cgroup} {written.file} {old} -> {new}")
    for problem in report.failed.values():
        say(str(problem))
    say(f"{count(len(report.written), 'write')}, {count(len(report.failed), 'failure')}")
    if report.failed:
        raise Failure("not everything could be put back", exit_code=ExitCode.VERDICT)
