"""The nodes that ``corewise config`` compares with a configuration, and remarks on their CPU models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from corewise.amplification.amounts import CPU
from corewise.cli import output
from corewise.cli.files import TEXT_FILE, decoded
from corewise.cli.options import connection_options, together
from corewise.cli.output import Column
from corewise.config.decoding import Problem, Severity
from corewise.kube.objects import ConfigMap, ObjectMeta, PartialObject
from corewise.kube.resources import CONFIG_MAPS, MUTATING_WEBHOOKS, NODE_RESOURCE_TOPOLOGIES
from corewise.normalization.models import CheckedNode, ModelCoverage, ModelInUse
from corewise.quantities import Ratio
from corewise.ratios.cluster import ClusterContext, interfering_webhook, read_configuration
from corewise.ratios.nodes import NodeView, quantities, view_of
from corewise.vocabulary.names import CONFIG_NAME, CONFIG_NAMESPACE
from corewise.workload.nodes import WORKLOAD_NODES, Node, NodeStatus

if TYPE_CHECKING:
    from corewise.cli.foreign_names import FoundNames

HOW_TO = "kubectl get nodes,noderesourcetopologies -o json"


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct):
    """A Node, a NodeResourceTopology, a NodeMetrics or a ConfigMap."""

    metadata: _Metadata
    kind: str = "Node"
    status: NodeStatus | None = None
    usage: dict[str, str] | None = None
    data: dict[str, str] | None = None

    @property
    def node(self) -> Node:
        meta = self.metadata
        return Node(
            ObjectMeta(name=meta.name, labels=meta.labels or {}, annotations=meta.annotations or {}),
            status=self.status or NodeStatus(),
        )


class _Dump(msgspec.Struct):
    items: list[_Object]


@dataclass(frozen=True, slots=True)
class ComparedNodes:
    """The nodes to compare with; ``reports``: whether any NodeResourceTopology came with them.

    ``used``: the milli-CPU that nodes really use, where it is known. ``stored``: the texts of the cluster's
    ConfigMap. ``koordinator``: its webhook that amplifies nodes, if there is one. ``names``: those of other
    projects on the cluster's objects; None if they were not asked for.
    """

    views: tuple[NodeView, ...]
    reports: bool
    used: Mapping[str, int]
    stored: Mapping[str, str]
    koordinator: str = ""
    names: FoundNames | None = None

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        topologies: Mapping[str, Mapping[str, str]],
        used: Mapping[str, int],
        stored: Mapping[str, str],
        koordinator: str = "",
    ) -> ComparedNodes:
        """Join nodes and the annotations of NodeResourceTopologies, which have their nodes' names."""
        views = tuple(view_of(node, topologies.get(node.metadata.name), tuple) for node in nodes)
        return cls(views, bool(topologies), used, stored, koordinator)

    @property
    def nodes(self) -> tuple[CheckedNode, ...]:
        return tuple(CheckedNode(each.name, each.labels, each.facts) for each in self.views)

    def raised_while_busy(self, texts: Mapping[str, str], largest: Ratio) -> list[str]:
        """Warn about busy nodes whose cpu ratio these texts of keys raise, as admission does.

        Keys that are not among them stay as the cluster has them.
        """
        # The manager's webhooks are slow to import.
        from corewise.manager.busy_nodes import raised_on_busy_nodes  # noqa: PLC0415

        async def used() -> Mapping[str, int]:
            return self.used

        planned = ConfigMap(data={**self.stored, **texts})
        configuration = read_configuration(planned, largest=largest).configuration
        context = ClusterContext(configuration, self.koordinator, largest)
        return asyncio.run(raised_on_busy_nodes(self.views, context, used))


def node_options(*, names: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options that name nodes; the command gets them as ``nodes``, None if no option is given.

    ``names``: with a cluster, the names of other projects on its objects are looked for too. A command that
    has CONFIG_NAMESPACE_OPTION says where the cluster's ConfigMap is.
    """
    return partial(_with_nodes, names=names)


def _with_nodes(command: Callable[..., None], *, names: bool) -> Callable[..., None]:
    @together(
        click.option(
            "--nodes",
            "dump",
            type=TEXT_FILE,
            metavar="DUMP",
            help=f"Compare with these nodes: {HOW_TO}; - is stdin.",
        ),
        click.option("--cluster", is_flag=True, help="Compare with the nodes of the cluster, read now."),
        connection_options,
    )
    @wraps(command)
    def with_nodes(
        *,
        dump: str | None,
        cluster: bool,
        kubeconfig: str | None,
        context: str | None,
        config_namespace: str = CONFIG_NAMESPACE,
        **others: Any,
    ) -> None:
        if dump is not None and cluster:
            raise click.UsageError("--nodes and --cluster: name one of them")
        if not cluster and (kubeconfig is not None or context is not None):
            raise click.UsageError("--kubeconfig and --context say which cluster: add --cluster")
        source = click.get_current_context().get_parameter_source("config_namespace")
        if not cluster and source is ParameterSource.COMMANDLINE:
            raise click.UsageError("--config-namespace is a namespace of the cluster: add --cluster")
        if dump == "-" and others.get("file") == "-":
            raise click.UsageError("only one of FILE and --nodes can be stdin")
        nodes = None if dump is None else _of_dump(dump)
        if cluster:
            nodes = _of_cluster(kubeconfig, context, config_namespace, names=names)
        command(nodes=nodes, **others)

    return with_nodes


def _of_dump(file: str) -> ComparedNodes:
    dump = decoded(file, msgspec.json.Decoder(_Dump).decode, "a list of nodes", f"make it with: {HOW_TO}")
    return ComparedNodes.of(
        (each.node for each in dump.items if each.kind == "Node"),
        {
            each.metadata.name: each.metadata.annotations or {}
            for each in dump.items
            if each.kind == "NodeResourceTopology"
        },
        {
            each.metadata.name: amount.milli
            for each in dump.items
            if each.kind == "NodeMetrics" and (amount := quantities(each.usage or {}).get(CPU))
        },
        next(
            (
                each.data
                for each in dump.items
                if each.kind == "ConfigMap" and each.metadata.name == CONFIG_NAME and each.data
            ),
            {},
        ),
    )


def _of_cluster(
    kubeconfig: str | None, context: str | None, config_namespace: str, *, names: bool
) -> ComparedNodes:
    # The HTTP client is slow to import, and a file needs none.
    from corewise.cli.foreign_names import foreign_names  # noqa: PLC0415
    from corewise.kube.client import Client  # noqa: PLC0415
    from corewise.kube.config import load_config  # noqa: PLC0415
    from corewise.kube.errors import Forbidden, NotFound  # noqa: PLC0415
    from corewise.manager.busy_nodes import cpu_usages  # noqa: PLC0415

    async def read() -> ComparedNodes:
        async with Client(load_config(kubeconfig, context)) as client:
            nodes = await client.list(WORKLOAD_NODES)
            try:
                topologies = tuple(await client.list(NODE_RESOURCE_TOPOLOGIES.typed(PartialObject)))
            except NotFound:  # a cluster without the CRD, which the agents need
                topologies = ()
            try:
                stored = (await client.get(CONFIG_MAPS, CONFIG_NAME, config_namespace)).data
            except (Forbidden, NotFound):
                stored = {}
            try:
                koordinator = interfering_webhook(await client.list(MUTATING_WEBHOOKS))
            except (Forbidden, NotFound):
                koordinator = ""
            compared = ComparedNodes.of(
                nodes,
                {each.metadata.name: each.metadata.annotations for each in topologies},
                await cpu_usages(client),
                stored,
                koordinator,
            )
            if not names:
                return compared
            of_nodes = [each.metadata for each in nodes]
            of_topologies = [each.metadata for each in topologies]
            found = await foreign_names(client, of_nodes, of_topologies, config_namespace)
            return replace(compared, names=found)

    return asyncio.run(read())


def model_problems(coverage: ModelCoverage) -> Iterator[Problem]:
    """Yield a warning for each model without a ratio of its own, at the start of the key's text."""
    for each in coverage.models:
        if each.is_matched:
            continue
        nodes = f"{output.count(len(each.nodes), 'node')}: {output.some(each.nodes, 3)}"
        if each.is_named:
            path, message = f'ratioModel["{each.facts.model}"]', f"no {each.field} ({nodes})"
        else:
            path, message = "ratioModel", f'no entry for "{each.facts.model}" ({nodes})'
        if each.ratio is not None:
            message += f", so defaultRatio {each.ratio} applies"
        if each.other_name is not None:
            message += f': did you mean this CPU with "{each.other_name}"? Only the exact name matches'
        yield Problem(Severity.WARNING, 1, 1, path, message)


def print_coverage(coverage: ModelCoverage) -> None:
    """Print the models as a table; what is not about a model goes to stderr."""
    if coverage.models:
        columns: Sequence[Column[ModelInUse]] = (
            Column("NODES", lambda each: str(len(each.nodes)), right=True),
            Column("NORM", lambda each: str(each.ratio or "-"), right=True),
            Column("HT", lambda each: _switch(on=each.facts.hyper_threading)),
            Column("TURBO", lambda each: _switch(on=each.facts.turbo)),
            Column("MODEL", lambda each: each.facts.model),
        )
        click.echo(output.table(columns, coverage.models), nl=False)


def remarks(coverage: ModelCoverage) -> Iterator[str]:
    """Yield the number of models with a ratio, and the nodes that were not looked up."""
    in_use = len(coverage.in_use)
    have = "has a ratio of its own" if in_use == 1 else "have ratios of their own"
    yield f"{len(coverage.matched)} of {output.count(in_use, 'CPU model')} in use {have}"
    if coverage.without_facts:
        names = output.some(coverage.without_facts)
        have = "has" if len(coverage.without_facts) == 1 else "have"
        yield f"{output.count(len(coverage.without_facts), 'node')} {have} no usable CPU facts: {names}"
    if coverage.off:
        names = output.some(coverage.off)
        yield f"normalization is off on {output.count(len(coverage.off), 'node')}: {names}"


def _switch(*, on: bool) -> str:
    return "on" if on else "off"


def coverage_record(coverage: ModelCoverage) -> Mapping[str, Any]:
    """Return the coverage as a record, for programs."""
    return {
        "inUse": len(coverage.in_use),
        "matched": len(coverage.matched),
        "models": [
            {
                "model": each.facts.model,
                "hyperThreading": each.facts.hyper_threading,
                "turbo": each.facts.turbo,
                "nodes": list(each.nodes),
                "normalizationRatio": None if each.ratio is None else str(each.ratio),
                "ratioField": each.field.value,
                "matched": each.is_matched,
                "reason": each.verdict.reason.value,
                "didYouMean": each.other_name,
            }
            for each in coverage.models
        ],
        "nodesWithoutFacts": list(coverage.without_facts),
        "nodesOff": list(coverage.off),
    }
