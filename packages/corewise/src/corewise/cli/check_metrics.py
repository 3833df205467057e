"""``corewise check``: whether what corewise reads elsewhere is what it takes it for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import click

from corewise.cli.choice import Choice
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import FILE, text_of
from corewise.cli.interference_inputs import read_interference
from corewise.cli.options import connection_options, examples
from corewise.cli.output import Form, option, render, say
from corewise.config.interference.metrics import Preset
from corewise.config.interference.model import InterferenceConfiguration, MetricsSettings
from corewise.kube.client import Client
from corewise.kube.config import ClusterConfig, load_config
from corewise.kube.errors import ConfigError
from corewise.prometheus.client import PrometheusClient, QueryError
from corewise.scheduler.active_config import identities
from corewise.scheduler.observing.diagnosis import Diagnosis, diagnose
from corewise.scheduler.observing.readings import NodeIdentity, NodeNames, Observation, State, observe
from corewise.scheduler.observing.sources import sources
from corewise.views.tables import CellSeverity, Column, Listing
from corewise.workload.nodes import WORKLOAD_NODES

_PRESETS = [each.value for each in Preset]


@click.group(epilog=examples("corewise check metrics --prometheus http://127.0.0.1:9090 --preset corewise"))
def command() -> None:
    """Check the data that corewise reads from other systems."""


@command.command(
    "metrics",
    short_help="Check the metrics that Prometheus has of each node.",
    epilog=examples(
        "corewise check metrics --prometheus http://127.0.0.1:9090 --preset corewise",
        "corewise check metrics --prometheus http://127.0.0.1:9090 --config C.yaml",
    ),
)
@click.option("--prometheus", metavar="URL", required=True, help="The Prometheus server to query.")
@click.option("--config", "config_file", type=FILE, help="The scheduler's file, with interference in it.")
@click.option("--preset", type=Choice(_PRESETS), help="The series of an exporter, instead of a file.")
@click.option(
    "--nodes", "nodes_file", type=FILE, help="A file with node names, one per line, instead of a cluster."
)
@connection_options
@option()
def metrics_command(
    prometheus: str,
    config_file: Path | None,
    preset: str | None,
    nodes_file: Path | None,
    kubeconfig: str | None,
    context: str | None,
    form: Form,
) -> None:
    """Check that Prometheus has the metrics that interference-aware scheduling needs.

    For every metric: the number of series, how many nodes of the cluster they name, the range of values,
    their age, and what to fix.

    Exit codes: 0 nothing to fix, 1 something is, 2 wrong call, 3 Prometheus or the cluster does not answer,
    5 a bad file.
    """
    configuration = _configuration(config_file, preset)
    nodes, found = asyncio.run(_check(prometheus, configuration, nodes_file, kubeconfig, context))
    click.echo(render(_listing(found, nodes), form), nl=False)
    for each in found:
        for line in each.to_fix:
            say(f"{each.source.metric}: {line}")
    if any(each.to_fix for each in found):
        raise click.exceptions.Exit(ExitCode.VERDICT)


def _configuration(file: Path | None, preset: str | None) -> InterferenceConfiguration:
    if file is not None and preset is not None:
        raise click.UsageError("--config already says which series are read: leave out --preset")
    if file is not None:
        return read_interference(file)
    return InterferenceConfiguration(metrics=MetricsSettings(Preset(preset) if preset else Preset.COREWISE))


async def _check(
    url: str,
    configuration: InterferenceConfiguration,
    nodes_file: Path | None,
    kubeconfig: str | None,
    context: str | None,
) -> tuple[int, list[Diagnosis]]:
    async with PrometheusClient(url) as client:
        nodes = NodeNames(await _nodes(nodes_file, kubeconfig, context))
        observation = await observe(client, sources(configuration), nodes, time.time)
        _need_an_answer(observation)
        return len(nodes), await diagnose(client, observation, nodes, time.time())


def _need_an_answer(observation: Observation) -> None:
    """Fail where Prometheus answers nothing, which is not a verdict about a series."""
    failures = list(observation.failures.values())
    if len(failures) == len(observation.sources) and not any(
        isinstance(each, QueryError) for each in failures
    ):
        raise Failure.of(failures[0])


async def _nodes(file: Path | None, kubeconfig: str | None, context: str | None) -> list[NodeIdentity]:
    if file is None:
        async with Client(_cluster(kubeconfig, context)) as client:
            return list(identities(await client.list(WORKLOAD_NODES)))
    lines = (await asyncio.to_thread(text_of, file)).splitlines()
    names = dict.fromkeys(line.strip().removeprefix("node/") for line in lines if line.strip())
    if not names:
        hint = "write one name per line: kubectl get nodes -o name"
        raise Failure(f"{file} contains no node names", hint=hint)
    return [NodeIdentity(name) for name in names]


def _cluster(kubeconfig: str | None, context: str | None) -> ClusterConfig:
    try:
        return load_config(kubeconfig, context)
    except ConfigError as error:
        error.hint += "; without a cluster, give a file of node names: --nodes FILE"
        raise


def _listing(found: list[Diagnosis], nodes: int) -> Listing[Diagnosis]:
    return Listing(
        columns=(
            Column("METRIC", lambda each: each.source.metric.value),
            Column("SERIES", lambda each: str(each.returned), right=True, priority=3),
            Column("NODES", lambda each: f"{each.matched} of {nodes}", right=True),
            Column("USABLE", lambda each: str(each.states[State.FRESH]), right=True, severity=_severity),
            Column("LEAST", lambda each: _value(each, 0), right=True, priority=2),
            Column("MEDIAN", lambda each: _value(each, 1), right=True),
            Column("MOST", lambda each: _value(each, 2), right=True, priority=2),
            Column(
                "OLDEST",
                lambda each: "-" if each.oldest is None else f"{each.oldest:.0f} s",
                right=True,
                priority=1,
            ),
            Column("FROM", lambda each: each.source.origin, wide=True),
            Column("QUERY", lambda each: each.source.query, wide=True),
        ),
        rows=found,
        records=[_record(each, nodes) for each in found],
        name=lambda each: each.source.metric.value,
    )


def _severity(each: Diagnosis) -> CellSeverity | None:
    if not each.states[State.FRESH]:
        return CellSeverity.ERROR
    return CellSeverity.WARNING if each.to_fix else None


def _value(each: Diagnosis, place: int) -> str:
    return "-" if each.spread is None else each.source.metric.spec.kind.text(each.spread[place])


def _record(each: Diagnosis, nodes: int) -> dict[str, Any]:
    least, median, most = each.spread or (None, None, None)
    return {
        "metric": each.source.metric.value,
        "series": each.returned,
        "nodes": nodes,
        "matched": each.matched,
        "states": {state.value: number for state, number in each.states.items()},
        "least": least,
        "median": median,
        "most": most,
        "oldestSeconds": each.oldest,
        "from": each.source.origin,
        "query": each.source.query,
        "toFix": list(each.to_fix),
    }
