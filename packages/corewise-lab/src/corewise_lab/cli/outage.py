"""``corewise up --scenario outage``: every corewise program is killed under load, and what goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import click

from corewise.cli import output
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.output import Form, say
from corewise.service.program import on_stop_signals
from corewise.views.tables import CellSeverity, Column
from corewise.views.text import count
from corewise_lab.control_plane import NO_POLICIES, Folder, has_policies
from corewise_lab.outage import OWNER, PLAIN, OutageReport, Phase, Phases, run_outage

NAME = "outage"
_SHARES = (0.2, 0.4, 0.4)
"""Of the time that --for gives: all run, all are killed, all run again."""


def _if_any(number: int) -> CellSeverity | None:
    return CellSeverity.ERROR if number else None


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}s"


_COLUMNS: tuple[Column[Phase], ...] = (
    Column("COREWISE", lambda row: row.name),
    Column("TIME", lambda row: f"{row.seconds:.0f}s", right=True, priority=2),
    Column("KUBELET WRITES", lambda row: str(row.kubelet_writes), right=True, priority=4),
    Column("REFUSED", lambda row: str(row.refused), right=True, priority=3),
    Column(
        "NOT AMPLIFIED", lambda row: str(row.raw_seen), right=True, severity=lambda row: _if_any(row.raw_seen)
    ),
    Column("PLAIN PODS/s", lambda row: f"{row.bound[PLAIN] / row.seconds:.1f}", right=True),
    Column("PLAIN WAIT", lambda row: _seconds(row.wait(PLAIN)), right=True, priority=1),
    Column("OWNERS CREATED", lambda row: str(row.created[OWNER]), right=True),
    Column("BOUND", lambda row: str(row.bound[OWNER]), right=True),
    Column("OWNER WAIT", lambda row: _seconds(row.wait(OWNER)), right=True),
    Column("CPUS TWICE", lambda row: str(row.twice), right=True, severity=lambda row: _if_any(row.twice)),
)


def run_scenario(folder: Folder, nodes: int | None, duration: float | None, form: Form) -> None:
    """Run the scenario and print its three phases.

    Raises:
        Failure: if it cannot be run here, or something happened that must not.
        ClusterError: if a part of the cluster does not come up.
        KubeError: if the API refuses a part of it.
        CancelledError: if a signal stops it.
    """
    if not has_policies():
        raise Failure(NO_POLICIES, hint="install it where it has a wheel: pip install cel-expr-python")
    phases = Phases() if duration is None else Phases(*(share * duration for share in _SHARES))
    progress = say if form is Form.TABLE else lambda _: None
    report = asyncio.run(
        _until_stopped(run_outage(folder, phases, progress, **({"nodes": nodes} if nodes else {})))
    )
    if form is Form.TABLE:
        click.echo(output.table(_COLUMNS, report.phases), nl=False)
        for line in _notes(report):
            output.tell(line)
    else:
        click.echo(output.document_text(_record(report), form), nl=False)
    if not report.is_sound:
        problem = "a node was not amplified, or a CPU had two owners: see the table"
        raise Failure(problem, exit_code=ExitCode.VERDICT)


async def _until_stopped(run: Coroutine[Any, Any, OutageReport]) -> OutageReport:
    """Run; Ctrl-C and the other signals that stop a program cancel it."""
    task = asyncio.ensure_future(run)
    on_stop_signals(task.cancel, hangup=True)
    return await task


def _notes(report: OutageReport) -> list[str]:
    killed = ", ".join(report.killed)
    return [
        f"{report.nodes} nodes; killed and started again: {killed}",
        "KUBELET WRITES: statuses with raw amounts; NOT AMPLIFIED: states of nodes that showed them",
        "OWNERS: pods that own CPUs; WAIT: median from creation to binding of those bound in this phase",
        f"{count(report.waiting, 'pod')} that should own CPUs had no node at the end",
    ]


def _record(report: OutageReport) -> dict[str, Any]:
    return {
        "nodes": report.nodes,
        "killed": list(report.killed),
        "waitingAtEnd": report.waiting,
        "phases": [
            {
                "name": each.name,
                "seconds": round(each.seconds, 1),
                "kubeletWrites": each.kubelet_writes,
                "refused": each.refused,
                "notAmplified": each.raw_seen,
                "cpusTwice": each.twice,
                **{
                    kind: {
                        "created": each.created[kind],
                        "bound": each.bound[kind],
                        "medianWaitSeconds": each.wait(kind),
                    }
                    for kind in (PLAIN, OWNER)
                },
            }
            for each in report.phases
        ],
    }
