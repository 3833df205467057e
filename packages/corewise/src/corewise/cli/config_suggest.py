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
from corewise.kube.clock import SYSTEM_CLOCK
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
from corewise.vocabulary.names import AMPLIFICATION_KEY, CONFIG_NAME, NORMALIZATION_KEY

_DUMP = "dump.json"
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

    Prints one row for each CPU model with its settings: the median over its nodes, relative to the baseline,
    beside the configured ratio, and how many nodes the change would raise or lower. The baseline is the
    slowest model measured that has a configured ratio. It keeps that ratio while the key has ratios that were
    not measured; otherwise the slowest model gets 1.00. Below the table stands the key
    cpu-normalization-config with these ratios; -o configmap prints the whole ConfigMap instead. Decreases
    that the manager would hold back, since the node's pods would not fit, are named. Changes nothing.

    95% INTERVAL holds the true ratio in 95 % of all cases, whatever the distribution of the scores; it takes
    7 nodes of both models. ALL NODES goes from the slowest to the fastest node.

    Scores of corewise calibrate are not used: they are of all CPUs at once, these of one.

    Exit codes: 0 no model is off, 1 a configured ratio is off by more than 5 % or missing (where the measured
    one is above 5.00, the largest allowed: off and below 5.00), 2 wrong call, 3 no answer from the cluster,
    4 no node has a score, 5 a file cannot be read.
    """
    if nodes is None:
        raise click.UsageError("name the nodes: --cluster, or --nodes DUMP")
    params = click.get_current_context().params
    namespace = nodes.namespace or params["config_namespace"]
    try:
        suggestion = suggest(nodes, SYSTEM_CLOCK.now(), namespace)
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
    _print(suggestion, nodes, namespace, form)
    for line in remarks(suggestion):
        output.say(line)
    if suggestion.differs:
        raise click.exceptions.Exit(ExitCode.VERDICT)


def _print(suggestion: RatioSuggestion, nodes: ComparedNodes, namespace: str, form: Form | str) -> None:
    if form == CONFIG_MAP_FORM:
        output.print_manifests(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": CONFIG_NAME, "namespace": namespace},
                "data": {**nodes.stored, NORMALIZATION_KEY: suggestion.key},
            }
        )
    elif form is Form.TABLE:
        params = click.get_current_context().params
        click.echo(output.table(COLUMNS, suggestion.rows))
        click.echo(suggestion.key, nl=False)
        then = "Next:"
        if nodes.unread and not nodes.absent:
            how = "with --cluster or a complete dump" if params["dump"] else "with an account that may"
            then = f"To keep its other keys, read it first, {how}:"
        output.say(
            f"The key {NORMALIZATION_KEY} of ConfigMap {CONFIG_NAME}, with the measured ratios. {then}"
        )
        for line in _next(nodes, namespace):
            output.say(f"  {line}")
    else:
        assert isinstance(form, Form)  # noqa: S101 - the option has no other
        click.echo(output.document_text(suggestion_record(suggestion), form), nl=False)


def _next(nodes: ComparedNodes, namespace: str) -> Iterator[str]:
    """Yield the commands that save the ConfigMap, check the suggested one, plan with it, and apply it.

    Where the ConfigMap was not read, the suggested one lacks its other keys, so it is not applied.
    """
    params = click.get_current_context().params
    dump = params["dump"]
    file = _DUMP if dump in {None, "-"} else shlex.quote(dump)
    source = "--cluster" if dump is None else f"--nodes {file}"
    make_dump = f"{HOW_TO_WITH_PODS} > {_DUMP}"
    if nodes.unread and not nodes.absent:
        yield make_dump
        yield f"corewise config suggest --nodes {_DUMP}"
        return
    if dump == "-":
        yield make_dump
    if not nodes.absent:
        yield f"{save_command(namespace)} > before.yaml"
    yield f"corewise config suggest {source} -o configmap > new.yaml"
    yield f"corewise config check new.yaml {source}"
    if dump is None:
        yield make_dump
    against = "before.yaml" if nodes.stored.keys() & {NORMALIZATION_KEY, AMPLIFICATION_KEY} else "none"
    yield f"corewise plan --from {file} --policy new.yaml --against {against}"
    yield "kubectl apply -f new.yaml"
