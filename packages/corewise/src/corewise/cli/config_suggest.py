"""``corewise config suggest``: the ratios that the cluster's own agents have measured."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click

from corewise.cli import output
from corewise.cli.config_nodes import HOW_TO_WITH_PODS, node_options
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.options import CONFIG_NAMESPACE_OPTION, examples
from corewise.cli.output import Form
from corewise.views.compared_nodes import ComparedNodes
from corewise.views.ratio_suggestion import (
    COLUMNS,
    RatioSuggestion,
    remarks,
    suggest,
    suggestion_record,
)
from corewise.views.stored_config import save_command
from corewise.vocabulary.errors import UNREADABLE, unreadable_text
from corewise.vocabulary.names import CONFIG_NAME, NORMALIZATION_KEY

CONFIG_MAP_FORM = "configmap"


@click.command(
    short_help="Suggest ratios from the scores that agents measured.",
    epilog=examples(
        "corewise config suggest --cluster",
        "corewise config suggest --cluster -o configmap > new.yaml",
        "corewise config check new.yaml --cluster",
        f"{HOW_TO_WITH_PODS} > dump.json",
        "corewise config suggest --nodes dump.json",
    ),
)
@node_options(pods=True)
@CONFIG_NAMESPACE_OPTION
@output.option((Form.TABLE, Form.JSON, Form.YAML, CONFIG_MAP_FORM))
def command(nodes: ComparedNodes | None, form: Form | str) -> None:
    """Suggest ratios from the scores that agents measured on the nodes (corewise agent --evaluate).

    Prints one row for each CPU model with its settings: the median over its nodes, relative to the slowest
    model, beside the configured ratio, and how many nodes the change would raise or lower. Below it stands
    the key cpu-normalization-config with these ratios; -o configmap prints the whole ConfigMap instead.
    Decreases that the manager would hold back, since the node's pods would not fit, are named. Changes
    nothing.

    95% INTERVAL holds the true ratio in 95 % of all cases, whatever the distribution of the scores; it takes
    7 nodes of both models. ALL NODES goes from the slowest to the fastest node.

    Scores of corewise calibrate are not used: they are of all CPUs at once, these of one.

    Exit codes: 0 no model is off, 1 a configured ratio is off by more than 5 % or missing, unless the
    measured one is above 5.00, the largest allowed, 2 wrong call, 3 no answer from the cluster, 4 no node has
    a score, 5 a file cannot be read.
    """
    if nodes is None:
        raise click.UsageError("name the nodes: --cluster, or --nodes DUMP")
    try:
        suggestion = suggest(nodes, click.get_current_context().params["config_namespace"])
    except UNREADABLE as error:  # pods of a dump are read when they matter
        raise Failure(f"a Pod of the dump cannot be read: {unreadable_text(error)}") from None
    if not suggestion.rows:
        for line in remarks(suggestion):
            output.say(line)
        raise Failure(
            "no node has a score that counts",
            hint="let agents measure: corewise agent --evaluate; or measure by hand: corewise calibrate",
            exit_code=ExitCode.NOT_FOUND,
        )
    _print(suggestion, nodes, form)
    for line in remarks(suggestion):
        output.say(line)
    if suggestion.differs:
        raise click.exceptions.Exit(ExitCode.VERDICT)


def _print(suggestion: RatioSuggestion, nodes: ComparedNodes, form: Form | str) -> None:
    if form == CONFIG_MAP_FORM:
        namespace = click.get_current_context().params["config_namespace"]
        output.print_manifests(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": CONFIG_NAME, "namespace": namespace},
                "data": {**nodes.stored, NORMALIZATION_KEY: suggestion.key},
            }
        )
    elif form is Form.TABLE:
        click.echo(output.table(COLUMNS, suggestion.rows))
        click.echo(suggestion.key, nl=False)
        output.say(f"The key {NORMALIZATION_KEY} of ConfigMap {CONFIG_NAME}, with the measured ratios. Next:")
        for line in _next(has_stored=bool(nodes.stored)):
            output.say(f"  {line}")
    else:
        assert isinstance(form, Form)  # noqa: S101 - the option has no other
        click.echo(output.document_text(suggestion_record(suggestion), form), nl=False)


def _next(*, has_stored: bool) -> Iterator[str]:
    """Yield the commands that save the ConfigMap, check the suggested one, plan with it, and apply it."""
    params = click.get_current_context().params
    dump, namespace = params["dump"], params["config_namespace"]
    source = "--cluster" if dump is None else f"--nodes {shlex.quote(dump)}"
    if has_stored:
        yield f"{save_command(namespace)} > before.yaml"
    yield f"corewise config suggest {source} -o configmap > new.yaml"
    yield f"corewise config check new.yaml {source}"
    if dump is None:
        yield f"{HOW_TO_WITH_PODS} > dump.json"
    against = "before.yaml" if has_stored else "none"
    yield f"corewise plan --from {shlex.quote(dump or 'dump.json')} --policy new.yaml --against {against}"
    yield "kubectl apply -f new.yaml"
