"""``corewise top``: nodes, pods, and what offline pods have on each node; an application, or printed once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from corewise.cli import output
from corewise.cli.choice import Choice
from corewise.cli.options import cluster_options, duration, examples
from corewise.cli.output import Form
from corewise.kube.config import ClusterConfig, load_config
from corewise.views.offline_table import ramp
from corewise.views.tables import Column


def _sortable(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete a column of any table: which one is printed is not known yet."""
    from corewise.views import node_table, offline_table, pod_table  # noqa: PLC0415 - slow

    known = (node_table.COLUMNS, pod_table.COLUMNS, offline_table.columns(""))
    names = dict.fromkeys(["name", *(name for columns in known for name in _named(columns))])
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _named(known: Sequence[Column[Any]]) -> dict[str, Column[Any]]:
    return {column.title.lower().replace(" ", "-"): column for column in known}


@click.command(epilog=examples("corewise top", "corewise top offline --once -l pool=batch"))
@cluster_options
@click.argument("table", type=Choice(["nodes", "pods", "offline"]), required=False)
@click.option("-l", "--selector", default="", help="Label selector of nodes, such as pool=fast,zone!=a.")
@click.option(
    "--sort",
    metavar="COLUMN",
    default="name",
    show_default=True,
    shell_complete=_sortable,
    help="Column to sort a printed table by, such as idle: the largest figure first.",
)
@duration("--interval", default="2s", help="How often the screen shows what has changed.")
@click.option("--once", is_flag=True, help="Print once and end, on a terminal too.")
@output.option()
def command(
    kubeconfig: str | None,
    context: str | None,
    config_namespace: str,
    table: str | None,
    selector: str,
    sort: str,
    interval: float,
    once: bool,
    form: Form,
) -> None:
    """Show the CPU of nodes and pods, and the part that offline pods have of it, as it changes.

    On a terminal this is an application with three tables: nodes, pods and offline. Press ? to see its keys.
    With -o or --once, or into a pipe, it prints one TABLE. Either way it begins with nodes unless you name
    another.

    The table nodes is that of corewise nodes --all. The table offline has a row for each node that offers
    idle CPU to offline pods, as its agent measured it. CPU is raw: ONLINE + OFFLINE + IDLE = CPU allocatable.
    OFFERED is what offline pods may have, QUOTA what their cgroup has now, LIMITED BY why it is not more. AGE
    is that of the last sample; OLD is more than three intervals and 90 s. The formula with a node's
    numbers in it: corewise explain suppression NODE.
    """
    cluster = load_config(kubeconfig, context)
    settings: dict[str, Any] = {
        "selector": selector,
        "config_namespace": config_namespace,
        "bars": ramp(sys.stdout.encoding),
    }
    if once or form not in {Form.TABLE, Form.WIDE} or not _is_terminal():
        asyncio.run(_print(cluster, table or "nodes", sort, form, settings))
    else:
        asyncio.run(_show(cluster, table or "nodes", interval, settings))


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


async def _show(cluster: ClusterConfig, first: str, interval: float, settings: dict[str, Any]) -> None:
    from corewise.cli.top_app import show  # noqa: PLC0415 - Textual is imported only for its screen
    from corewise.views.top_data import following  # noqa: PLC0415

    async with following(cluster, first, **settings) as (data, follow):
        await show(data, first, interval, follow)


async def _print(cluster: ClusterConfig, name: str, sort: str, form: Form, settings: dict[str, Any]) -> None:
    from corewise.kube.client import Client  # noqa: PLC0415
    from corewise.kube.clock import SYSTEM_CLOCK  # noqa: PLC0415
    from corewise.views.top_data import TopData  # noqa: PLC0415 - slow, and --help needs none

    async with Client(cluster) as client:
        data = TopData(cluster, client, **settings)
        table = data.tables[name]
        column = _column(table.columns, sort)
        await data.read(table)
    rows = column.in_order(table.rows(SYSTEM_CLOCK.now()))
    click.echo(output.render(table.listing(rows), form), nl=False)
    for line in data.remarks(table, rows):
        output.say(line)


def _column(known: Sequence[Column[Any]], name: str) -> Column[Any]:
    """Return the column of a name; the first one is also called name.

    Raises:
        click.BadParameter: if there is none.
    """
    named = _named(known)
    if column := {"name": known[0], **named}.get(name.lower()):
        return column
    raise click.BadParameter(
        f"there is no column {name!r}; columns are: {', '.join(named)}", param_hint="--sort"
    )
