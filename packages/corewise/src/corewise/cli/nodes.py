"""``corewise nodes``: every node's CPU as the kernel counts it, as normalized, as offered, as requested."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

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
    RAW CPU x AMP is SCHEDULABLE, of which pods request a part. USED is the raw CPU that runs, as the agent or
    metrics.k8s.io measures it, in percent of RAW CPU; LATELY shows the last minutes, where an agent reports.
    OFFLINE OFFERED is the raw CPU that offline pods may use; NATIVE BE counts BestEffort pods that are no
    offline pods, and are squeezed along with them. A narrow terminal shortens MODEL: Xeon 8269CY.
    """
    # What decides about nodes needs numpy and an HTTP client; --help is quick without them.
    from corewise.kube.client import Client  # noqa: PLC0415
    from corewise.manager.busy_nodes import cpu_usages  # noqa: PLC0415
    from corewise.views import node_table  # noqa: PLC0415
    from corewise.views.node_listing import ListedCluster, list_cluster  # noqa: PLC0415
    from corewise.views.offline_table import ramp  # noqa: PLC0415

    async def read() -> tuple[ListedCluster, Mapping[str, int]]:
        async with Client(load_config(kubeconfig, context)) as client:
            return await asyncio.gather(
                list_cluster(client, config_namespace, label_selector=selector), cpu_usages(client)
            )

    listed, usages = asyncio.run(read())
    complete = show_all or form not in {Form.TABLE, Form.WIDE}
    shown = [each for each in listed.nodes if complete or not node_table.hidden(each)]
    now = SYSTEM_CLOCK.now()
    rows = [
        node_table.row_of(each, now, pods_known=listed.pods_known, usage=[used] if used is not None else [])
        for each in shown
        for used in [usages.get(each.node.metadata.name)]
    ]
    click.echo(output.render(node_table.listing_of(rows, ramp(sys.stdout.encoding)), form), nl=False)
    for line in node_table.remarks(listed, rows, config_namespace):
        output.say(line)
