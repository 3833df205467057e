"""``corewise report``: what corewise does for a cluster, on one page for people who decide."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corewise.cli.choice import Choice
from corewise.cli.dump_client import client_and_time, from_option
from corewise.cli.options import cluster_options, examples

if TYPE_CHECKING:
    from corewise.views.cluster_report import ClusterReport

HTML, MARKDOWN = "html", "md"


@click.command(
    epilog=examples(
        "corewise report --cluster > report.html", "corewise report --from dump.json -o md > report.md"
    )
)
@cluster_options
@click.option("--cluster", "live", is_flag=True, help="Report on the cluster, read now.")
@from_option
@click.option(
    "-o",
    "--output",
    "form",
    type=Choice([HTML, MARKDOWN]),
    default=HTML,
    show_default=True,
    help="A page with pictures, or Markdown.",
)
def command(
    kubeconfig: str | None,
    context: str | None,
    config_namespace: str,
    live: bool,
    dump: Path | None,
    form: str,
) -> None:
    """Print one page about a cluster: what its CPUs are worth, what amplification yields, and problems.

    It is for those who decide about corewise: a manager, a change board. It says what one CPU in a request is
    worth on each kind of machine, how many CPUs amplification gains and how many machines that saves, what
    offline pods use of the CPUs that online pods leave idle, and which problems are known: no other command
    lists all of them. The HTML page contains its pictures, needs no network and no scripts, and can be
    printed. Markdown has them as text. Nothing is written to the cluster.

    Machines saved are counted by placing all online pods from scratch, twice or more, as corewise plan does:
    thousands of nodes take a while.
    """
    if live == (dump is not None):
        raise click.UsageError("name what to report on: either --cluster or --from FILE")
    from corewise.views.cluster_reading import read_report  # noqa: PLC0415 - slow, and --help needs none

    source = f"dump {dump.name}" if dump else f"cluster {context}" if context else "cluster"

    async def read() -> ClusterReport:
        client, time = client_and_time(dump, kubeconfig, context)
        async with client:
            return await read_report(client, config_namespace, source, time)

    click.echo(rendered(asyncio.run(read()), form), nl=False)


def rendered(report: ClusterReport, form: str) -> str:
    """Return a report as HTML or as Markdown."""
    from corewise.cli.report_page import page  # noqa: PLC0415
    from corewise.cli.report_text import markdown  # noqa: PLC0415

    return markdown(report) if form == MARKDOWN else page(report)
