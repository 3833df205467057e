"""The manager's knowledge of the cluster: its caches, and the views of nodes made from them.

Every replica keeps them, since the validating webhooks need them as much as the reconciler does. The resource
NodeResourceTopology may not be installed: then no node has CPU facts, and everything else works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from corewise.amplification.amounts import CPU
from corewise.kube.cache import Cache, Caches
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.objects import NO_META, ConfigMap, KubeObject, ObjectMeta, Struct, share_annotations
from corewise.kube.resources import (
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    NODE_RESOURCE_TOPOLOGIES,
    VALIDATING_WEBHOOKS,
)
from corewise.manager.options import VALIDATING_NAME, ManagerOptions
from corewise.ratios.cluster import (
    UNKNOWN,
    ClusterContext,
    ConfigurationReading,
    interfering_webhook,
    published_largest,
    read_configuration,
)
from corewise.ratios.nodes import (
    RUNNING_ON_A_NODE,
    Annotations,
    NodeView,
    demand_of_node,
    running_on,
    view_of,
)
from corewise.service.reader import in_reader
from corewise.workload.nodes import WORKLOAD_NODES, Node
from corewise.workload.pods import WORKLOAD_PODS, Pod

if TYPE_CHECKING:
    from corewise.engine.objects import ReportedTopology  # the engine's arrays are no manager's


class AnnotatedTopology(Struct, frozen=True):
    """topology.node.k8s.io/v1alpha1 NodeResourceTopology: what its agent states in annotations."""

    metadata: ObjectMeta = NO_META

    def __post_init__(self) -> None:
        share_annotations(self.metadata)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Called with what has changed: a node (by name), a node's pods, what applies to all nodes, a pod."""

    node: Callable[[str], None]
    pods: Callable[[str], None]
    everything: Callable[[], None]
    pod: Callable[[Pod | None, Pod | None], None] = lambda _old, _new: None


@dataclass(frozen=True, slots=True)
class NodeCaches:
    """The caches that views of nodes are made from; pods that are not bound count nowhere."""

    nodes: Cache[Node]
    topologies: Cache[AnnotatedTopology] | Cache[ReportedTopology]
    pods: Cache[Pod]


class Snapshot:
    """The caches, and what is derived from them. Of nodes, those that ``label_selector`` selects.

    ``more`` caches run beside them. ``shared``: the caches, if another object follows them. ``follows``: the
    largest ratio is the one that the cluster's manager states, not that of the options.
    """

    def __init__(
        self,
        client: Client,
        options: ManagerOptions,
        listeners: Listeners,
        clock: Clock,
        *,
        label_selector: str = "",
        more: Iterable[Cache[Any]] = (),
        shared: NodeCaches | None = None,
        follows: bool = False,
    ) -> None:
        self._client = client
        self._options = options
        self._listeners = listeners
        self._clock = clock
        self._pods_of: dict[str, dict[str, Pod]] = {}
        self.reading = ConfigurationReading(UNKNOWN, present=False)
        self._prepared: asyncio.Future[ConfigurationReading] | None = None
        self.koordinator = ""
        self._follows, self._largest = follows, options.largest_amplification
        caches = shared or NodeCaches(
            Cache(client, WORKLOAD_NODES, label_selector=label_selector, clock=clock),
            Cache(client, NODE_RESOURCE_TOPOLOGIES.typed(AnnotatedTopology), clock=clock),
            Cache(client, WORKLOAD_PODS, field_selector=RUNNING_ON_A_NODE, clock=clock),
        )
        self.nodes, self.topologies, self.pods = caches.nodes, caches.topologies, caches.pods
        self.nodes.listen(self._node_changed)
        self.topologies.listen(self._topology_changed)
        self.pods.listen(self._pod_changed)
        self.config_maps = Cache(
            client,
            CONFIG_MAPS,
            namespace=options.config_namespace,
            field_selector=f"metadata.name={options.config_name}",
            prepare=self._prepare_configuration,
            on_change=self._config_changed,
            clock=clock,
        )
        self.webhooks = Cache(client, MUTATING_WEBHOOKS, on_change=self._webhooks_changed, clock=clock)
        self.installed = Cache(
            client, VALIDATING_WEBHOOKS, field_selector=f"metadata.name={VALIDATING_NAME}", clock=clock
        )
        self.caches = Caches(
            self.nodes,
            self.topologies,
            self.pods,
            self.config_maps,
            self.webhooks,
            self.installed,
            *more,
        )

    @property
    def context(self) -> ClusterContext:
        """The settings that apply to all nodes now."""
        return ClusterContext(self.reading.configuration, self.koordinator, self._largest)

    @property
    def config_map(self) -> ConfigMap | None:
        return self.config_maps.get(self._options.config_name, self._options.config_namespace)

    async def synced(self) -> None:
        """Wait until everything has been listed, and read the configuration even if there is none."""
        await self.caches.listed(self._clock)
        self.without_config_map()

    def names(self) -> Iterable[str]:
        return [str(name) for name in self.nodes.items]

    def node_labels(self) -> Iterable[tuple[str, Mapping[str, str]]]:
        return [(node.metadata.name, node.metadata.labels) for node in self.nodes.items.values()]

    def view(self, name: str) -> NodeView | None:
        """Return a node as it is now; None if there is none of that name."""
        node = self.nodes.get(name)
        return self.view_of(node) if node else None

    def view_of(self, node: Node) -> NodeView:
        """Return the view of a node that need not be the cached one."""
        name = node.metadata.name
        topology = self.topologies.get(name)
        annotations = topology.metadata.annotations if topology else None
        return view_of(node, annotations, lambda: self._pods_of.get(name, {}).values())

    def stated_of(self, name: str) -> Annotations:
        """Return the annotations of a node's NodeResourceTopology; none if there is none."""
        topology = self.topologies.get(name)
        return topology.metadata.annotations if topology else {}

    def pods_on(self, node: str) -> Iterable[Pod]:
        """Return the pods that take something of a node."""
        return tuple(self._pods_of.get(node, {}).values())

    async def with_current_pods(self, node: NodeView) -> NodeView:
        """Return the view with the pods that the API server has on the node now, whatever the cache says.

        Raises:
            KubeError: if the pods cannot be listed.
        """
        pods = await self._client.list(WORKLOAD_PODS, field_selector=running_on(node.name))
        capacity = node.amounts.capacity.get(CPU)
        return replace(node, demand=lambda: demand_of_node(pods, node.topology, node.annotations, capacity))

    def _node_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        self._notify_node(old, new)

    def _topology_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if old is None or new is None or old.metadata.annotations != new.metadata.annotations:
            self._notify_node(old, new)

    def _notify_node(self, old: KubeObject | None, new: KubeObject | None) -> None:
        changed = new or old
        if changed:
            self._listeners.node(changed.metadata.name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        old, new = (each if each and each.spec.node_name else None for each in (old, new))
        if old:
            pods = self._pods_of.get(old.spec.node_name, {})
            pods.pop(old.metadata.uid, None)
            if not pods:
                self._pods_of.pop(old.spec.node_name, None)
        if new:
            self._pods_of.setdefault(new.spec.node_name, {})[new.metadata.uid] = new
        changed = new or old
        if changed:
            self._listeners.pods(changed.spec.node_name)
        self._listeners.pod(old, new)

    def _read(self, config_map: ConfigMap | None) -> ConfigurationReading:
        return read_configuration(config_map, self.reading.configuration, self._largest)

    async def _prepare_configuration(self, config_map: ConfigMap) -> None:
        self._prepared = in_reader(partial(self._read, config_map))
        await asyncio.wait([self._prepared])

    def _config_changed(self, _old: ConfigMap | None, new: ConfigMap | None) -> None:
        if new is None:
            self.without_config_map()
        else:
            self._take(self._read(new) if self._prepared is None else self._prepared.result())

    def without_config_map(self) -> None:
        """Take the configuration of a cluster without the ConfigMap, if it has none."""
        if self.config_map is None:
            self._take(self._read(None))

    def _take(self, reading: ConfigurationReading) -> None:
        if reading != self.reading:
            self.reading = reading
            self._listeners.everything()

    def _webhooks_changed(self, _old: KubeObject | None, _new: KubeObject | None) -> None:
        koordinator = interfering_webhook(self.webhooks.items.values())
        if koordinator != self.koordinator:
            self.koordinator = koordinator
            self._listeners.everything()
        largest = published_largest(self.webhooks.items.values()) if self._follows else self._largest
        if largest != self._largest:
            self._largest, self._prepared = largest, None
            if self.config_map is not None:
                self._take(self._read(self.config_map))
            self._listeners.everything()
