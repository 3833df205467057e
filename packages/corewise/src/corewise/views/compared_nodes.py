"""The nodes that a configuration is compared with, and what is said about their CPU models."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from corewise.amplification.amounts import CPU
from corewise.config.configuration import LARGEST_AMPLIFICATION_RATIO
from corewise.config.decoding import Problem, Severity
from corewise.config.key_texts import KEYS
from corewise.kube.objects import ConfigMap, ObjectMeta, PartialObject
from corewise.kube.resources import CONFIG_MAPS, MUTATING_WEBHOOKS, NODE_RESOURCE_TOPOLOGIES, PODS
from corewise.normalization.models import CheckedNode, ModelCoverage, ModelInUse
from corewise.quantities import Ratio
from corewise.ratios.alike import Demands, RequestingPod
from corewise.ratios.cluster import (
    ClusterContext,
    interfering_webhook,
    published_largest,
    read_configuration,
    stated_largest,
)
from corewise.ratios.nodes import RUNNING_ON_A_NODE, NodeView, quantities, view_with
from corewise.views.tables import Column
from corewise.views.text import count, some
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.names import CONFIG_NAME, CONFIG_NAMESPACE
from corewise.workload.nodes import WORKLOAD_NODES, Node, NodeStatus

if TYPE_CHECKING:
    from corewise.kube.client import Client
    from corewise.views.foreign_names import FoundNames


_FINISHED = frozenset({"Succeeded", "Failed"})
PodsOf = Callable[[str], Iterable[RequestingPod]]


def _no_pods(_node: str) -> Iterable[RequestingPod]:
    return ()


class _Metadata(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Kind(msgspec.Struct, gc=False):
    """An object of any kind."""

    kind: str = "Node"


class _Object(_Kind, kw_only=True, gc=False):
    """An object of one of the kinds that are read."""

    metadata: _Metadata
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


@dataclass(frozen=True, slots=True)
class ComparedNodes:
    """The nodes to compare with; ``reports``: whether any NodeResourceTopology came with them.

    ``used``: the milli-CPU that nodes really use, where it is known. ``stored``: the texts of the cluster's
    ConfigMap. ``koordinator``: its webhook that amplifies nodes, if there is one. ``names``: those of other
    projects on the cluster's objects; None if they were not asked for. ``pods_known``: whether views have the
    pods that run on their nodes. ``namespace``: that of the ConfigMap; empty if it is not known. ``unread``:
    why the ConfigMap was not read, in words; empty if it was. ``absent``: the cluster said that it has none.
    ``largest``: the manager's largest amplification ratio. ``applied``: the ConfigMap's keys that kubectl
    apply wrote: it removes those that the next file does not have.
    """

    views: tuple[NodeView, ...]
    reports: bool
    used: Mapping[str, int]
    stored: Mapping[str, str]
    koordinator: str = ""
    names: FoundNames | None = None
    pods_known: bool = False
    namespace: str = ""
    unread: str = ""
    absent: bool = False
    largest: Ratio = LARGEST_AMPLIFICATION_RATIO
    applied: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        topologies: Mapping[str, Mapping[str, str]],
        used: Mapping[str, int],
        stored: Mapping[str, str],
        koordinator: str = "",
        *,
        pods: PodsOf | None = None,
    ) -> ComparedNodes:
        """Join nodes and the annotations of NodeResourceTopologies, which have their nodes' names.

        ``pods`` returns those that run on a node; None if they were not asked for, or may not be read.
        """
        demands, running = Demands(), pods or _no_pods

        def view(node: Node) -> NodeView:
            name, annotations = node.metadata.name, node.metadata.annotations
            topology = topologies.get(name)
            return view_with(
                node, topology, lambda cpu: demands.of_node(running(name), topology, annotations, cpu)
            )

        views = tuple(map(view, nodes))
        return cls(views, bool(topologies), used, stored, koordinator, pods_known=pods is not None)

    @property
    def nodes(self) -> tuple[CheckedNode, ...]:
        return tuple(CheckedNode(each.name, each.labels, each.facts) for each in self.views)

    def raised_while_busy(
        self, texts: Mapping[str, str], largest: Ratio, removed: Collection[str] = ()
    ) -> list[str]:
        """Warn about busy nodes whose cpu ratio these texts of keys raise, as admission does.

        Keys that are neither among them nor ``removed`` stay as the cluster has them.
        """
        # The manager's webhooks are slow to import.
        from corewise.manager.busy_nodes import raised_on_busy_nodes  # noqa: PLC0415

        async def used() -> Mapping[str, int]:
            return self.used

        kept = {key: text for key, text in self.stored.items() if key not in removed}
        planned = ConfigMap(data=kept | dict(texts))
        configuration = read_configuration(planned, largest=largest).configuration
        context = ClusterContext(configuration, self.koordinator, largest)
        return asyncio.run(raised_on_busy_nodes(self.views, context, used))


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class _Applied(msgspec.Struct, gc=False):
    """The ConfigMap as it was applied."""

    data: dict[str, object] | None = None


def _applied_keys(annotations: Mapping[str, str]) -> frozenset[str]:
    try:
        applied = msgspec.json.decode(annotations.get(_LAST_APPLIED, "{}"), type=_Applied)
    except UNREADABLE:
        return frozenset()
    return frozenset(KEYS).intersection(applied.data or {})


class _PlaceOfPod(msgspec.Struct, rename="camel", gc=False):
    """The part of a Pod's spec."""

    node_name: str = ""


class _PhaseOfPod(msgspec.Struct, gc=False):
    """The part of a Pod's status."""

    phase: str = ""


class _ItemOfDump(_Kind, gc=False):
    """The part of an object that says whether it is a Pod, and runs, and where."""

    spec: _PlaceOfPod | None = None
    status: _PhaseOfPod = msgspec.field(default_factory=_PhaseOfPod)


class _Dump(msgspec.Struct):
    """Objects as kubectl prints them."""

    items: list[msgspec.Raw]


_DUMP, _KIND = msgspec.json.Decoder(_Dump), msgspec.json.Decoder(_Kind)
_OBJECT = msgspec.json.Decoder(_Object)
_ITEM, _REQUESTING_POD = msgspec.json.Decoder(_ItemOfDump), msgspec.json.Decoder(RequestingPod)
_WEBHOOKS = "MutatingWebhookConfiguration"
_READ = frozenset({"Node", "NodeResourceTopology", "NodeMetrics", "ConfigMap", _WEBHOOKS})


def nodes_of_dump(
    content: bytes, config_namespace: str = CONFIG_NAMESPACE, *, pods: bool = False
) -> ComparedNodes:
    """Read nodes as kubectl prints them, with what else was asked for; with ``pods`` those that run on them.

    Objects of other kinds are skipped. Pods of a node are read when they matter: the most of a dump are pods.
    Of several ConfigMaps with the name, that of ``config_namespace`` counts, else the first.

    Raises:
        UNREADABLE: if an object does not have the form of its kind.
    """
    objects: dict[str, list[_Object]] = defaultdict(list)
    running: dict[str, list[msgspec.Raw]] = defaultdict(list)
    for index, item in enumerate(_DUMP.decode(content).items):
        try:
            seen = _item(item, pods=pods)
            if seen.kind in _READ:
                objects[seen.kind].append(_OBJECT.decode(item))
            elif seen.kind == "Pod" and pods and seen.status.phase not in _FINISHED:
                if seen.spec is None:
                    raise msgspec.ValidationError("Object missing required field `spec`")  # noqa: TRY301 - as of the decoder
                running[seen.spec.node_name].append(item)
        except msgspec.ValidationError as error:
            raise msgspec.ValidationError(f"items[{index}]: {error}") from None
    configs = [each for each in objects["ConfigMap"] if each.metadata.name == CONFIG_NAME]
    configs.sort(key=lambda each: each.metadata.namespace != config_namespace)
    compared = _joined(
        objects,
        configs[0].data or {} if configs else {},
        (lambda name: map(_REQUESTING_POD.decode, running[name])) if running else None,
    )
    largest = stated_largest(each.metadata.annotations or {} for each in objects[_WEBHOOKS])
    if configs:
        meta = configs[0].metadata
        applied = _applied_keys(meta.annotations or {})
        return replace(compared, namespace=meta.namespace, applied=applied, largest=largest)
    return replace(compared, unread=f"ConfigMap {CONFIG_NAME}: the dump has none", largest=largest)


def _item(item: msgspec.Raw, *, pods: bool) -> _ItemOfDump:
    """Decode an object in one pass: most are pods."""
    try:
        return _ITEM.decode(item)
    except msgspec.ValidationError:
        kind = _KIND.decode(item).kind
        if pods and kind == "Pod":
            raise
        return _ItemOfDump(kind)


def _joined(
    of_kind: Mapping[str, Sequence[_Object]], stored: Mapping[str, str], pods: PodsOf | None
) -> ComparedNodes:
    return ComparedNodes.of(
        (each.node for each in of_kind["Node"]),
        {each.metadata.name: each.metadata.annotations or {} for each in of_kind["NodeResourceTopology"]},
        {
            each.metadata.name: amount.milli
            for each in of_kind["NodeMetrics"]
            if (amount := quantities(each.usage or {}).get(CPU))
        },
        stored,
        pods=pods,
    )


async def nodes_of_cluster(
    client: Client, config_namespace: str, *, names: bool = False, pods: bool = False
) -> ComparedNodes:
    """Read the nodes from a cluster.

    With ``names`` also those of other projects on its objects, with ``pods`` the pods that run on them.
    """
    # The HTTP client is slow to import, and a file needs none.
    from corewise.kube.errors import Forbidden, NotFound  # noqa: PLC0415
    from corewise.manager.busy_nodes import cpu_usages  # noqa: PLC0415
    from corewise.views.foreign_names import foreign_names  # noqa: PLC0415
    from corewise.views.node_listing import unread  # noqa: PLC0415

    nodes = await client.list(WORKLOAD_NODES)
    try:
        topologies = tuple(await client.list(NODE_RESOURCE_TOPOLOGIES.typed(PartialObject)))
    except (Forbidden, NotFound):  # the CRD, which the agents need, may be missing
        topologies = ()
    config_map = ConfigMap()
    why, absent = "", False
    try:
        config_map = await client.get(CONFIG_MAPS, CONFIG_NAME, config_namespace)
    except (Forbidden, NotFound) as error:
        why = unread(f"ConfigMap {config_namespace}/{CONFIG_NAME}", error)
        absent = isinstance(error, NotFound)
    try:
        webhooks = tuple(await client.list(MUTATING_WEBHOOKS))
    except (Forbidden, NotFound):
        webhooks = ()
    running: dict[str, list[RequestingPod]] | None = None
    if pods:
        with suppress(Forbidden):
            listed = await client.list(PODS.typed(RequestingPod), field_selector=RUNNING_ON_A_NODE)
            running = defaultdict(list)
            for pod in listed:
                running[pod.spec.node_name].append(pod)
    compared = ComparedNodes.of(
        nodes,
        {each.metadata.name: each.metadata.annotations for each in topologies},
        await cpu_usages(client),
        config_map.data,
        interfering_webhook(webhooks),
        pods=None if running is None else running.__getitem__,
    )
    compared = replace(
        compared,
        namespace=config_namespace,
        unread=why,
        absent=absent,
        largest=published_largest(webhooks),
        applied=_applied_keys(config_map.metadata.annotations),
    )
    if not names:
        return compared
    of_nodes = [each.metadata for each in nodes]
    of_topologies = [each.metadata for each in topologies]
    found = await foreign_names(client, of_nodes, of_topologies, config_namespace)
    return replace(compared, names=found)


def model_problems(coverage: ModelCoverage) -> Iterator[Problem]:
    """Yield a warning for each model without a ratio, its own or a workload's, at the start of the text."""
    for each in coverage.models:
        nodes = f"{count(len(each.nodes), 'node')}: {some(each.nodes, 3)}"
        for workload in each.without_field:
            path = f'workloadRatios "{workload}"'
            message = f'no {each.field} of "{each.facts.model}" ({nodes}), so their own ratio applies'
            yield Problem(Severity.WARNING, 1, 1, path, message)
        for workload, other in each.respelled:
            message = f'no entry for "{each.facts.model}" ({nodes}){_meant(other)}'
            yield Problem(Severity.WARNING, 1, 1, f'workloadRatios "{workload}"', message)
        if each.is_matched:
            continue
        if each.is_named:
            path, message = f'ratioModel["{each.facts.model}"]', f"no {each.field} ({nodes})"
        else:
            path, message = "ratioModel", f'no entry for "{each.facts.model}" ({nodes})'
        if each.ratio is not None:
            message += f", so defaultRatio {each.ratio} applies"
        if each.other_name is not None:
            message += _meant(each.other_name)
        yield Problem(Severity.WARNING, 1, 1, path, message)


def _meant(other_name: str) -> str:
    return f': did you mean this CPU with "{other_name}"? Only the exact name matches'


def _switch(*, on: bool) -> str:
    return "on" if on else "off"


COVERAGE_COLUMNS: Sequence[Column[ModelInUse]] = (
    Column("NODES", lambda each: str(len(each.nodes)), right=True),
    Column("NORM", lambda each: str(each.ratio or "-"), right=True),
    Column("HT", lambda each: _switch(on=each.facts.hyper_threading)),
    Column("TURBO", lambda each: _switch(on=each.facts.turbo)),
    Column("MODEL", lambda each: each.facts.model),
)


def remarks(coverage: ModelCoverage) -> Iterator[str]:
    """Yield the number of models with a ratio, and the nodes that were not looked up."""
    in_use = len(coverage.in_use)
    have = "has a ratio of its own" if in_use == 1 else "have ratios of their own"
    yield f"{len(coverage.matched)} of {count(in_use, 'CPU model')} in use {have}"
    if coverage.without_facts:
        names = some(coverage.without_facts)
        have = "has" if len(coverage.without_facts) == 1 else "have"
        yield f"{count(len(coverage.without_facts), 'node')} {have} no usable CPU facts: {names}"
    if coverage.off:
        names = some(coverage.off)
        yield f"normalization is off on {count(len(coverage.off), 'node')}: {names}"


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
