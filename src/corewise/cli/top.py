"""``corewise top``: nodes' CPU split into online, offline and idle, what is offered, and what limits it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

import click

from corewise.cli import output
from corewise.cli.offline_reports import NodeReport
from corewise.cli.options import cluster_options, examples
from corewise.cli.output import Form
from corewise.cli.top_view import REPORTING_NODES, SORTS, TopView, ramp, remarks
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import ClusterConfig, load_config


@click.command(epilog=examples("corewise top", "corewise top --once -l pool=batch"))
@cluster_options
@click.option("-l", "--selector", default="", help="Label selector, such as pool=fast,zone!=a.")
@click.option(
    "--sort", type=click.Choice(list(SORTS)), default="name", show_default=True, help="Order of the nodes."
)
@click.option("--once", is_flag=True, help="Print once and end, on a terminal too.")
@output.option()
def command(
    kubeconfig: str | None,
    context: str | None,
    config_namespace: str,
    selector: str,
    sort: str,
    once: bool,
    form: Form,
) -> None:
    """Show the CPU of nodes that offer what is idle to offline pods, as their agents measured it.

    On a terminal the table is live: drawn again when a Node changes, and every 2 seconds; Ctrl-C ends it.
    Elsewhere, and in machine forms, it is printed once.

    CPU is raw: ONLINE + OFFLINE + IDLE = CPU allocatable. OFFERED is what offline pods may have, QUOTA what
    their cgroup has at the moment, LIMITED BY why it is not more. AGE is that of the last sample; STALE is
    older than three intervals and a minute. The formula with a node's numbers in it: corewise explain
    suppression NODE.
    """
    cluster = load_config(kubeconfig, context)
    view = TopView(form, sort, selector, config_namespace, ramp(sys.stdout.encoding))
    if once or form not in {Form.TABLE, Form.WIDE} or not _can_draw():
        _print(view, asyncio.run(_read(cluster, view)))
        return
    from corewise.cli.top_live import follow  # noqa: PLC0415 - rich is imported only when a screen is drawn

    asyncio.run(follow(cluster, view))


def _can_draw() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


async def _read(cluster: ClusterConfig, view: TopView) -> list[NodeReport]:
    async with Client(cluster) as client:
        nodes = await client.list(REPORTING_NODES, label_selector=view.selector)
    return view.reports(nodes, SYSTEM_CLOCK.now())


def _print(view: TopView, reports: Sequence[NodeReport]) -> None:
    text = output.render(view.listing(reports), view.form)
    click.echo(text, nl=False)
    for line in remarks(reports, view.config_namespace):
        output.say(line)
