"""``corewise explain interference``: the whole decision about a pod, offline, from three files."""

from __future__ import annotations

from pathlib import Path

import click

from corewise.cli import output
from corewise.cli.errors import Failure
from corewise.cli.interference_decision import Decision, decide, pressure_of, record_of
from corewise.cli.interference_file import read_interference, text_of
from corewise.cli.interference_nodes import MeasuredNode, parse_nodes
from corewise.cli.interference_pod import parse_pod
from corewise.cli.interference_table import heading_of, listing_of
from corewise.cli.output import Form
from corewise.config.interference import InterferenceConfiguration
from corewise.config.interference.reading import unplaceable_message
from corewise.config.json_tree import path_text
from corewise.interference import Conflict, unplaceable

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("interference")
@click.option(
    "--config", "config_file", type=_FILE, required=True, help="The scheduler's file, with its interference."
)
@click.option(
    "--metrics",
    "metrics_file",
    type=_FILE,
    required=True,
    help="What was measured: JSON, node -> values in base units.",
)
@click.option("--pod", "pod_file", type=_FILE, required=True, help="The Pod to be placed, YAML or JSON.")
@output.option((Form.TABLE, Form.WIDE, Form.JSON, Form.YAML))
def interference_command(config_file: Path, metrics_file: Path, pod_file: Path, form: Form) -> None:
    """Say of every node whether a pod's profile fits it, and how it scores: both sides of the filter,
    positions, points, raw and normalized score.

    Reads three files and nothing else. Values are in base units: bytes/s, bytes, seconds, ratios.

    Exit codes: 0 decided (also where no node passes), 2 wrong call, 5 a file cannot be used, or two
    profiles match the pod.
    """
    config = read_interference(config_file)
    nodes = _nodes(metrics_file, config)
    pod = parse_pod(text_of(pod_file), str(pod_file))
    decision = decide(pod, nodes, config)
    if isinstance(decision, Conflict):
        raise Failure(f"{config_file}: {decision}", hint=f"it is pod {pod.name} in {pod_file}")
    _say_unplaceable(config_file, nodes, config)
    _print(decision, form)


def _print(decision: Decision, form: Form) -> None:
    if form in {Form.JSON, Form.YAML}:
        click.echo(output.document_text(record_of(decision), form), nl=False)
        return
    click.echo(heading_of(decision))
    click.echo(output.render(listing_of(decision), form, colour=output.colour_wanted()), nl=False)


def _nodes(file: Path, config: InterferenceConfiguration) -> list[MeasuredNode]:
    parsed = parse_nodes(text_of(file), config)
    if parsed.value is None:
        hint = 'write {"NODE": {"memorybandwidth_used": 2e10, ...}, ...}'
        raise Failure("\n".join(f"{file}: {problem}" for problem in parsed.errors), hint=hint)
    return parsed.value


def _say_unplaceable(file: Path, nodes: list[MeasuredNode], config: InterferenceConfiguration) -> None:
    capacity = pressure_of(nodes, config).memorybandwidth_capacity
    for each in unplaceable(config, capacity):
        message = unplaceable_message(each.needed, each.largest)
        where = path_text(("interference", "profiles", each.name))
        output.say(f"{file}: line {each.line}: {where}: {message}")
