"""``corewise up``: a local cluster of simulated machines, the real programs on it, and a report."""

from __future__ import annotations

import asyncio
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from corewise.cli.completers import file_names
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.extensions import not_installed
from corewise.cli.files import FILE, FOLDER
from corewise.cli.options import duration, examples
from corewise.cli.output import Form, option, say
from corewise.kube.errors import KubeError
from corewise.service.program import on_stop_signals
from corewise_lab.cli.folders import run_folder
from corewise_lab.cli.report import Teller, print_report, refuse_unsound
from corewise_lab.cli.story import worths
from corewise_lab.control_plane import NO_POLICIES, ClusterError, has_policies
from corewise_lab.dump import load_dump
from corewise_lab.openb import load_openb
from corewise_lab.plan import Plan, check_config
from corewise_lab.report import RunReport
from corewise_lab.run import RunOptions, run
from corewise_lab.scenario import BUILTIN, load_scenario, scenario_descriptions

if TYPE_CHECKING:
    from corewise.views.cluster_report import ClusterReport

_INTERRUPTED = 130
OPENSTACK, OUTAGE = "openstack", "outage"
"""Scenarios with a run and a report of their own: a cloud of OpenStack hosts; corewise killed under load."""


def scenario_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete the name of a scenario, or of a file."""
    found = [
        CompletionItem(name, help=description)
        for name, description in scenario_descriptions().items()
        if name.startswith(incomplete)
    ]
    return found or file_names(context, parameter, incomplete)


@click.command(
    epilog=examples(
        "corewise up --for 30s",
        "corewise up --nodes 50 --kubeconfig-out kubeconfig",
        "corewise up --from dump.json --for 60s",
        "corewise up --for 30s --report report.html",
    )
)
@click.option(
    "--nodes", type=click.IntRange(1, 20_000), help="Number of nodes.  [default: as the scenario has]"
)
@click.option(
    "--scenario",
    default=BUILTIN,
    show_default=True,
    metavar="NAME|FILE",
    shell_complete=scenario_names,
    help=f"Scenario: {', '.join(scenario_descriptions())}, or a YAML file.",
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
@duration("--for", "duration", help="How long to run, such as 60s.  [default: until Ctrl-C]")
@click.option("--kubeconfig-out", type=FILE, help="Write the cluster's kubeconfig to this file.")
@click.option(
    "--state",
    type=FOLDER,
    help="Keep the cluster's objects, kubeconfig and logs in this directory, and go on from what is there.",
)
@click.option(
    "--report",
    "page",
    type=FILE,
    help="Write the page of corewise report to this file at the end; Markdown if its name ends in .md.",
)
@option((Form.TABLE, Form.JSON))
def command(
    nodes: int | None,
    scenario: str,
    dump: Path | None,
    openb: tuple[Path, Path] | None,
    duration: float | None,
    kubeconfig_out: Path | None,
    state: Path | None,
    page: Path | None,
    form: Form,
) -> None:
    """Run simulated machines with corewise off, then on, and report what CPUs deliver to which pods.

    It needs no root, no containers and no network. kubectl and corewise work against it; Ctrl-C ends it.
    The scenario openstack shows OpenStack hosts instead: dedicated and shared CPUs, guests, an upgrade.
    The scenario outage kills every corewise program for a while, under load, and shows what keeps working.
    """
    if scenario == OPENSTACK:
        if nodes or dump or openb or kubeconfig_out or page:
            raise click.UsageError(f"--scenario {OPENSTACK} goes with --for, --state and -o only")
        if find_spec("corewise_openstack") is None:
            raise not_installed("the scenario openstack", "corewise-openstack")
        from corewise_lab.cli.openstack import run_scenario  # noqa: PLC0415 - few want it

        run_scenario(state, duration, form)
        return
    if scenario == OUTAGE:
        if dump or openb or kubeconfig_out or state or page:
            raise click.UsageError(f"--scenario {OUTAGE} goes with --nodes, --for and -o only")
        from corewise_lab.cli.outage import run_scenario as run_outage  # noqa: PLC0415 - few want it

        with run_folder(None) as folder, _failures():
            run_outage(folder, nodes, duration, form)
        return
    for file in filter(None, (kubeconfig_out, page)):
        _check_writable(file)
    plan = make_plan(nodes, scenario, dump, openb)
    check_config(plan)
    if not has_policies():
        say(f"{NO_POLICIES}: the manager's webhook amplifies, as on Kubernetes before 1.36")
    for line in plan.advice:
        say(line)
    with run_folder(state) as folder:
        kubeconfig = kubeconfig_out or folder.path / "kubeconfig"
        teller = Teller(form, kubeconfig, open_ended=duration is None)
        options = RunOptions(
            plan, folder, duration, kubeconfig_out=kubeconfig_out, with_cluster=page is not None
        )
        report = _run(options, teller)
        print_report(report, form)
    if page is not None and report.cluster is not None:
        _write_page(page, report, report.cluster)
    refuse_unsound(report)


def make_plan(nodes: int | None, scenario: str, dump: Path | None, openb: tuple[Path, Path] | None) -> Plan:
    """Read the plan of the cluster.

    Raises:
        InputError: if a file cannot be used.
        UsageError: for options that exclude each other.
    """
    if dump and openb:
        raise click.UsageError("--from and --from-openb exclude each other")
    if nodes is not None and (dump or openb):
        raise click.UsageError("--nodes goes with a scenario; a dump or trace says itself how many there are")
    chosen = load_scenario(scenario, has_nodes=dump is None)
    if dump:
        known = load_scenario(BUILTIN)
        table = (*chosen.cpu_facts, *known.cpu_facts)
        return load_dump(dump, config=chosen.config or known.config, table=table, models=chosen.models)
    if openb:
        return load_openb(*openb, config=chosen.config)
    return chosen.plan(nodes)


def _check_writable(file: Path) -> None:
    """Refuse now what could not be written once the cluster is up, as a new file in place of this one."""
    try:
        if not file.parent.is_dir():
            raise Failure(f"cannot write {file}: there is no directory {file.parent}")
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(file.stat().st_mode):
                raise Failure(f"cannot write {file}: it is not a regular file")
            file.open("ab").close()
        tempfile.TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise Failure(f"cannot write {file}: {error.strerror}") from error


def _write_page(file: Path, report: RunReport, read: ClusterReport) -> None:
    """Write the page of a run: the worths are those that it has measured."""
    from corewise.cli.report import HTML, MARKDOWN, rendered  # noqa: PLC0415 - slow to import, and few want it

    off, on, _ = worths(report)
    form = MARKDOWN if file.suffix == ".md" else HTML
    try:
        file.write_text(rendered(read.with_measured(off or {}, on), form), encoding="utf-8")
    except OSError as error:
        raise Failure(f"cannot write {file}: {error.strerror}") from error
    say(f"wrote {file}")


@contextmanager
def _failures() -> Iterator[None]:
    """Raise the end of a run that has no report as a Failure."""
    try:
        yield
    except (ClusterError, KubeError) as error:
        hint = getattr(error, "hint", "")
        raise Failure(str(error), hint=hint, exit_code=ExitCode.CONNECTION) from error
    except asyncio.CancelledError:
        raise Failure("stopped before there was anything to report", exit_code=_INTERRUPTED) from None


def _run(options: RunOptions, teller: Teller) -> RunReport:
    try:
        with _failures():
            return asyncio.run(_until_interrupted(options, teller))
    finally:
        teller.clear()


async def _until_interrupted(options: RunOptions, teller: Teller) -> RunReport:
    """Run; Ctrl-C ends the run with its report, or at once as long as there is nothing to report."""
    stop = asyncio.Event()
    program = asyncio.ensure_future(run(options, teller, stop))

    def interrupt() -> None:
        stop.set()
        if not teller.reportable:
            program.cancel()

    on_stop_signals(interrupt, hangup=True)
    return await program
