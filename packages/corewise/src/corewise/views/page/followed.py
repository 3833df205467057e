"""The cluster that the web page shows: caches of its objects and Events, and what only time shows.

One ``FollowedCluster`` serves every page that is open. What it knows is read by :mod:`tables` and
:mod:`documents`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from corewise.config.interference.metrics import Preset
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.config import ClusterConfig
from corewise.kube.errors import Forbidden
from corewise.kube.objects import Event
from corewise.kube.resources import EVENTS, NAMESPACES
from corewise.manager.snapshot import NodeCaches
from corewise.prometheus.client import PrometheusClient
from corewise.scheduler.state import UNFINISHED, ClusterState
from corewise.views.offline_table import PLAIN
from corewise.views.page.history import EVERY, OfflineHistory, PastHours
from corewise.views.page.hosts import HostTable
from corewise.views.page.interference import InterferenceViews
from corewise.views.page.usage import Usages
from corewise.views.page.what_if import LiveObjects
from corewise.views.suppression_explanation import Subject
from corewise.views.suppression_subject import subject_of
from corewise.views.top_data import LostConnection, TopData, lost_connection
from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.names import MANAGER_COMPONENT, NORMALIZE_CPUSET
from corewise.workload.nodes import Node

_COMPONENTS = (MANAGER_COMPONENT, "corewise-scheduler", "corewise-agent")
_POLL = 0.05


class UnknownObject(LookupError):  # noqa: N818 - an answer, not a fault
    """There is no such table or object; the text says so."""


class HostRows:
    """The rows of the hosts as last read; an unchanged row is the same object. ``problem``: a failed read."""

    def __init__(self, table: HostTable) -> None:
        self.table, self.rows, self.problem = table, list[dict[str, Any]](), ""

    async def run(self, clock: Clock, on_change: Callable[[], None]) -> None:
        """Read the hosts again and again: no event says that their files changed."""
        while True:
            try:
                rows, problem = await asyncio.to_thread(self.table.rows), ""
            except OperationalError as error:
                rows, problem = self.rows, error.message
            if (rows, problem) != (self.rows, self.problem):
                before = {row["name"]: row for row in self.rows}
                self.rows = [old if (old := before.get(row["name"])) == row else row for row in rows]
                self.problem = problem
                on_change()
            await clock.sleep(EVERY)


class FollowedCluster:
    """The caches of one cluster. ``on_change`` is called after a change of anything shown."""

    def __init__(
        self,
        config: ClusterConfig,
        client: Client,
        *,
        config_namespace: str,
        on_change: Callable[[], None] = lambda: None,
        clock: Clock = SYSTEM_CLOCK,
        hosts: HostTable | None = None,
        prometheus: tuple[PrometheusClient, Preset] | None = None,
    ) -> None:
        self.client, self.clock, self._on_change = client, clock, on_change
        self.config_namespace = config_namespace

        def changed(*_: object) -> None:
            on_change()

        self.state = ClusterState(client, clock, on_room=on_change, pods=UNFINISHED)
        self.data = TopData(
            config,
            client,
            selector="",
            config_namespace=config_namespace,
            bars=PLAIN,
            clock=clock,
            shared=NodeCaches(self.state.nodes, self.state.topologies, self.state.pods),
            on_change=changed,
            aging=False,
        )
        self.state.pods.listen(changed)
        self._events = [
            Cache(client, EVENTS, field_selector=f"source={component}", on_change=changed, clock=clock)
            for component in _COMPONENTS
        ]
        self.namespaces = Cache(
            client, NAMESPACES, label_selector=NORMALIZE_CPUSET, on_change=changed, clock=clock
        )
        """Those whose label says whether CPUs of their pods are normalized."""
        self.known = known = self.data.snapshot
        objects = (known.nodes, known.topologies, known.pods, known.config_maps, known.webhooks)
        self.caches: tuple[Cache[Any], ...] = (*objects, self.namespaces, *self._events)
        started = clock.now()
        self.history = OfflineHistory(started)
        self.past = PastHours(prometheus[0], clock, started) if prometheus else None
        self.interference = prometheus and InterferenceViews(*prometheus, self.state.nodes, clock)
        self.hosts = HostRows(hosts) if hosts else None
        self.usages = Usages(client, clock)

    async def list_nodes(self) -> None:
        """List the nodes, without which there is nothing to show, and read how the scheduler judges pods.

        Raises:
            KubeError: if the API server does not answer, or refuses.
        """
        await self.known.nodes.relist()
        await self.read_rules()

    async def read_rules(self) -> None:
        """Judge pods by the scheduler's QoS rules, as the cluster states them now."""
        if await self.data.read_rules():
            self.state.counted.rules = self.data.published.rules
            for pod in self.state.pods.items.values():
                self.state.count(pod)

    def follow(self, group: asyncio.TaskGroup) -> None:
        """Follow the cluster until the group ends, or ``stop``."""
        self._loops = [group.create_task(each.run(), name=f"cache {each.plural}") for each in self.caches]
        self._loops.append(group.create_task(self._remember(), name="history"))
        self._loops.append(group.create_task(self.usages.run(self._measured), name="usage"))
        if self.interference is not None:
            asking = self._ask_prometheus(self.interference)
            self._loops.append(group.create_task(asking, name="interference"))
        if self.hosts is not None:
            self._loops.append(group.create_task(self.hosts.run(self.clock, self._on_change), name="hosts"))

    def stop(self) -> None:
        """Stop following everything."""
        for loop in self._loops:
            loop.cancel()

    def _measured(self) -> None:
        self.data.usages.take(self.usages.nodes)
        self._on_change()

    async def _remember(self) -> None:
        await self.listed()
        while True:
            now, table = self.clock.now(), self.data.tables["offline"]
            rows, requested = table.rows(now), Counter[str]()
            for pod in self.data.tables["pods"].rows(now):
                requested[pod.node] += pod.amounts.batch_cpu
            self.history.take(rows, table.total(rows), requested, now)
            self._on_change()
            await self.clock.sleep(EVERY)

    async def _ask_prometheus(self, interference: InterferenceViews) -> None:
        await self.listed()
        await interference.run(self._on_change)

    async def listed(self) -> None:
        """Wait until everything has been listed, or has failed to be."""
        while not all(each.synced.is_set() or each.last_error for each in self.caches):
            await self.clock.sleep(_POLL)

    def lost(self) -> LostConnection | None:
        """Return the reason why the cluster cannot be followed at the moment, if there is one."""
        return lost_connection(self.caches)

    @property
    def events(self) -> Iterator[Event]:
        """The Events of corewise."""
        return (event for cache in self._events for event in cache.items.values())

    def subject(self, node: Node) -> Subject:
        """Return the known facts about a node's offline pods."""
        known, config = self.known, self.known.config_map
        readable = not isinstance(known.config_maps.last_error, Forbidden)
        data = (config.data if config else {}) if readable else None
        pods = known.pods_on(node.metadata.name) if known.pods.synced.is_set() else None
        return subject_of(node, data, pods, self.clock.now())

    def objects(self, used: Mapping[str, int]) -> LiveObjects:
        """Return all objects as they are now; ``used`` is the CPU that each node uses."""
        known, state = self.known, self.state
        return LiveObjects(
            nodes={node.metadata.name: node for node in known.nodes.items.values()},
            topologies={each.metadata.name: each for each in state.topologies.items.values()},
            pods=tuple(pod for _, pod in sorted(state.pods.items.items())),
            pods_of={str(name): known.pods_on(str(name)) for name in known.nodes.items},
            config=dict(known.config_map.data) if known.config_map else {},
            context=known.context,
            namespace=self.config_namespace,
            used=used,
            rules=state.counted.rules,
            no_config_map=known.config_map is None,
        )
