"""``corewise nodes``: every node's CPU as the kernel counts it, as normalized, as offered, as requested."""

from __future__ import annotations

import asyncio

import click

from corewise.cli import output
from corewise.cli.options import cluster_options, examples
from corewise.cli.output import Form
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import load_config


@click.command(epilog=examples("corewise nodes -l pool=fast", "corewise nodes -o wide"))
@cluster_options
@click.option("-l", "--selector", default="", help="Label selector, such as pool=fast,zone!=a.")
@click.option(
    "--all", "show_all", is_flag=True, help="Also show nodes that taints or cordons keep pods away from."
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

    CPU is in CPUs, memory in GiB, both allocatable (what is left for pods). -o wide adds hyper-threading (HT)
    and turbo, NATIVE BE, memory, and the CPU capacity of the whole machine; machine forms name the unit of
    each amount. NORM is the normalization ratio annotated on the node, AMP the amplification ratio of cpu:
    RAW CPU x AMP is SCHEDULABLE. OFFLINE OFFERED is the raw CPU that offline pods may use; NATIVE BE counts
    BestEffort pods that are no offline pods, and are squeezed along with them.
    """
    # What decides about nodes needs numpy and an HTTP client; --help is quick without them.
    from corewise.kube.client import Client  # noqa: PLC0415
    from corewise.views import node_table  # noqa: PLC0415
    from corewise.views.node_listing import ListedCluster, list_cluster  # noqa: PLC0415

    async def read() -> ListedCluster:
        async with Client(load_config(kubeconfig, context)) as client:
            return await list_cluster(client, config_namespace, label_selector=selector)

    listed = asyncio.run(read())
    complete = show_all or form not in {Form.TABLE, Form.WIDE}
    shown = [each for each in listed.nodes if complete or not node_table.hidden(each)]
    now = SYSTEM_CLOCK.now()
    rows = [node_table.row_of(each, now, pods_known=listed.pods_known) for each in shown]
    click.echo(output.render(node_table.listing_of(rows), form), nl=False)
    for line in node_table.remarks(listed, rows):
        output.say(line)
