"""``corewise explain suppression``: how a node's offer and its offline pods' quota come about."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from corewise.cli import output
from corewise.cli.completers import node_names
from corewise.cli.dump_client import client_and_time, from_option
from corewise.cli.options import cluster_options, examples, named
from corewise.cli.output import Form, show_explanation
from corewise.views.suppression_subject import read_suppression


@click.command(
    "suppression",
    short_help="Explain how much CPU a node's offline pods may have.",
    epilog=examples("corewise explain suppression n1", "corewise explain suppression n1 --from dump.json"),
)
@cluster_options
@from_option
@click.argument("name", metavar="NODE", callback=named, shell_complete=node_names)
@output.option((Form.TABLE, Form.JSON, Form.YAML))
def suppression_command(
    kubeconfig: str | None,
    context: str | None,
    config_namespace: str,
    dump: Path | None,
    name: str,
    form: Form,
) -> None:
    """Explain the CPU limit of offline pods on NODE: inputs, formula, bound, quota, and the next step.

    Amounts are raw: as the kernel counts CPUs. What was measured is the agent's last report, with its age.
    """
    client, now = client_and_time(dump, kubeconfig, context)
    explained, missing = asyncio.run(read_suppression(client, name, config_namespace, now))
    show_explanation(explained, form, missing)
