"""``corewise explain interference``: the whole decision about a pod, offline, from three files."""

from __future__ import annotations

from pathlib import Path

import click

from corewise.cli import output
from corewise.cli.errors import Failure
from corewise.cli.files import FILE, text_of
from corewise.cli.interference_inputs import parse_nodes, parse_pod, read_interference
from corewise.cli.options import examples
from corewise.cli.output import Form
from corewise.config.interference.reading import unplaceable_message
from corewise.config.json_text import path_text
from corewise.interference.filtering import ProfileConflict, unplaceable
from corewise.views.interference_explanation import columns_of, decide, heading_of, record_of


@click.command(
    "interference",
    short_help="Show how well a pod's profile fits each node.",
    epilog=examples("corewise explain interference --config C.yaml --metrics M.json --pod P.yaml"),
)
@click.option(
    "--config", "config_file", type=FILE, required=True, help="The scheduler's file, with interference in it."
)
@click.option(
    "--metrics",
    "metrics_file",
    type=FILE,
    required=True,
    help="Measurements: JSON, node -> values in base units.",
)
@click.option("--pod", "pod_file", type=FILE, required=True, help="The Pod to be placed, YAML or JSON.")
@output.option((Form.TABLE, Form.WIDE, Form.JSON, Form.YAML))
def interference_command(config_file: Path, metrics_file: Path, pod_file: Path, form: Form) -> None:
    """Show for every node whether a pod's profile fits it, and how it scores: both sides of the filter,
    positions, points, raw and normalized score.

    Reads three files and nothing else. Values are in base units: bytes/s, bytes, seconds, ratios.

    Exit codes: 0 decided (also where no node passes), 2 wrong call, 5 a file cannot be used, or two
    profiles match the pod.
    """
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
