"""``corewise explain interference``: what slows a running pod down, or which nodes a profile fits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from corewise.cli import output
from corewise.cli.completers import pod_names
from corewise.cli.dump_client import client_and_time, from_option
from corewise.cli.errors import Failure
from corewise.cli.files import FILE, text_of
from corewise.cli.interference_inputs import parse_nodes, parse_pod, read_interference
from corewise.cli.options import connection_options, examples, named
from corewise.cli.output import Form, show_explanation
from corewise.config.interference.reading import unplaceable_message
from corewise.config.json_text import path_text
from corewise.interference.filtering import ProfileConflict, unplaceable
from corewise.views.interference_explanation import columns_of, decide, heading_of, record_of
from corewise.views.waiting_explanation import read_waiting


@click.command(
    "interference",
    short_help="Explain which neighbor slows a pod down, or how its profile fits nodes.",
    epilog=examples(
        "corewise explain interference default/web",
        "corewise explain interference --config C.yaml --metrics M.json --pod P.yaml",
    ),
)
@connection_options
@from_option
@click.argument("name", metavar="[NAMESPACE/POD]", required=False, callback=named, shell_complete=pod_names)
@click.option("--config", "config_file", type=FILE, help="The scheduler's file, with interference in it.")
@click.option(
    "--metrics", "metrics_file", type=FILE, help="Measurements: JSON, node -> values in base units."
)
@click.option("--pod", "pod_file", type=FILE, help="The Pod to be placed, YAML or JSON.")
@output.option((Form.TABLE, Form.WIDE, Form.JSON, Form.YAML))
def interference_command(
    kubeconfig: str | None,
    context: str | None,
    dump: Path | None,
    name: str | None,
    config_file: Path | None,
    metrics_file: Path | None,
    pod_file: Path | None,
    form: Form,
) -> None:
    """Explain why a running pod waits for CPUs: the likely antagonist on its node, with the figures that
    speak for and against it, or why none is named. Its node's agent watches; nothing is configured.

    With three files instead of a pod: show for every node whether a pod's profile fits it, and how it scores:
    both sides of the filter, positions, points, raw and normalized score. Reads the files and nothing else.
    Values are in base units: bytes/s, bytes, seconds, ratios.

    Exit codes: 0 explained or decided (also where no node passes), 2 wrong call, 4 no such pod, 5 a file
    cannot be used, or two profiles match the pod.
    """
    if name is not None:
        if config_file or metrics_file or pod_file:
            raise click.UsageError("name a pod, or give three files: not both")
        client, now = client_and_time(dump, kubeconfig, context)
        explained, missing = asyncio.run(read_waiting(client, name, now))
        show_explanation(explained, Form.TABLE if form is Form.WIDE else form, missing)
    elif config_file is None or metrics_file is None or pod_file is None:
        raise click.UsageError("name a pod, NAMESPACE/POD, or give --config, --metrics and --pod")
    else:
        _show_fit(config_file, metrics_file, pod_file, form)


def _show_fit(config_file: Path, metrics_file: Path, pod_file: Path, form: Form) -> None:
    """Print how well a pod's profile fits each node."""
    config = read_interference(config_file)
    parsed = parse_nodes(text_of(metrics_file), config)
    if parsed.value is None:
        hint = 'write {"NODE": {"memorybandwidth_used": 2e10, ...}, ...}'
        raise Failure("\n".join(f"{metrics_file}: {problem}" for problem in parsed.errors), hint=hint)
    pod = parse_pod(text_of(pod_file), str(pod_file))
    decision = decide(pod, parsed.value, config)
    if isinstance(decision, ProfileConflict):
        raise Failure(f"{config_file}: {decision}", hint=f"it is pod {pod.name} in {pod_file}")
    for each in unplaceable(config, decision.outlook.pressure.memorybandwidth_capacity):
        where = path_text(("interference", "profiles", each.name))
        message = unplaceable_message(each.needed, each.largest)
        output.say(f"{config_file}: line {each.line}: {where}: {message}")
    if form in {Form.JSON, Form.YAML}:
        click.echo(output.document_text(record_of(decision), form), nl=False)
    else:
        output.tell(heading_of(decision), "    ")
        rows = range(len(decision.nodes))
        table = output.table(columns_of(decision), rows, wide=form is Form.WIDE, complete="-o wide")
        click.echo(table, nl=False)
