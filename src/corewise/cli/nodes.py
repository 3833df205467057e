"""``corewise nodes``: every node's CPU as the kernel counts it, as normalized, as offered, as requested."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable

import click

from corewise.cli import output
from corewise.cli.cluster import cluster_options, find_cluster
from corewise.cli.node_listing import ListedCluster, ListedNode, Which, list_cluster
from corewise.cli.node_rows import COLUMNS, Row, record_of, row_of, sums_of, total_of
from corewise.cli.output import Form, Listing
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import ClusterConfig
from corewise.vocabulary.reasons import Reason

_CONDITION_TAINTS = "node.kubernetes.io/"
_EXPLAINED: dict[str, str] = dict.fromkeys((Reason.OFFER_FROZEN, Reason.OFFER_WITHDRAWN), "suppression")
"""What explains a problem, where it is not ``corewise explain node``."""
_KEEPS_PODS_AWAY = frozenset({"NoSchedule", "NoExecute"})


@click.command()
@cluster_options
@click.option("-l", "--selector", default="", help="Label selector, such as pool=fast,zone!=a.")
@click.option(
    "--all", "show_all", is_flag=True, help="Show nodes that taints or cordons keep pods away from, too."
)
@output.option()
def command(
    kubeconfig: str | None,
    context: str | None,
    config_namespace: str,
    selector: str,
    show_all: bool,
    form: Form,
) -> None:
    """List nodes with raw, normalized, amplified (schedulable), requested and free CPU.

    CPU is in CPUs, memory in GiB, both allocatable (what is left for pods); -o wide adds the capacity of the
    whole machine, and machine forms name the unit of each amount. NORM is the normalization ratio annotated
    on the node, AMP the amplification ratio of cpu: RAW CPU x AMP is SCHEDULABLE. OFFLINE OFFERED is the raw
    CPU that offline pods may use; NATIVE BE counts BestEffort pods that are no offline pods, and are squeezed
    along with them.
    """
    cluster = find_cluster(kubeconfig, context)
    listed = asyncio.run(_read(cluster, Which(label_selector=selector), config_namespace))
    shown = [
        each for each in listed.nodes if show_all or form not in {Form.TABLE, Form.WIDE} or not hidden(each)
    ]
    now = SYSTEM_CLOCK.now()
    rows = [row_of(each, now, pods_known=listed.pods_known) for each in shown]
    click.echo(output.render(_listing(rows), form, colour=output.colour_wanted()), nl=False)
    for line in _remarks(listed, rows):
        output.say(line)


async def _read(cluster: ClusterConfig, which: Which, config_namespace: str) -> ListedCluster:
    async with Client(cluster) as client:
        return await list_cluster(client, which, config_namespace)


def hidden(listed: ListedNode) -> bool:
    """Say whether pods without tolerations are kept away; conditions such as not-ready do not hide a node."""
    spec = listed.node.spec
    return spec.unschedulable or any(
        taint.effect in _KEEPS_PODS_AWAY and not taint.key.startswith(_CONDITION_TAINTS)
        for taint in spec.taints
    )


def _listing(rows: list[Row]) -> Listing[Row]:
    total, records = total_of(rows), [record_of(row) for row in rows]
    totals = [total] if rows else []
    return Listing(COLUMNS, rows, records, lambda row: f"node/{row.name}", sums_of(total), totals)


def _remarks(listed: ListedCluster, rows: list[Row]) -> Iterable[str]:
    """Say what the table does not show: hidden rows, problems, and what could not be read."""
    if not listed.nodes:
        yield "No nodes found."
    left_out = len(listed.nodes) - len(rows)
    if left_out:
        pronoun = "it" if left_out == 1 else "them"
        yield f"{output.count(left_out, 'node')} hidden by taint or cordon (--all shows {pronoun})."
    yield from _problems(rows)
    for key in listed.reading.bad_keys:
        yield f"{key} has errors; the manager keeps the last good one (corewise config check)"
    yield from listed.missing


def _problems(rows: list[Row]) -> Iterable[str]:
    """One line per reason, with the first nodes of each."""
    named: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.problem:
            named[row.problem].append(row.name)
    for reason, nodes in named.items():
        verb = "has" if len(nodes) == 1 else "have"
        yield (
            f"{output.count(len(nodes), 'node')} {verb} a problem: {output.some(nodes)} {reason} "
            f"(corewise explain {_EXPLAINED.get(reason, 'node')} {nodes[0]})"
        )
