"""The data of ``corewise top``, kept current: three tables over caches that follow the cluster.

The nodes are assessed as the manager assesses them, from the manager's own caches; the pods are read as the
scheduler reads them. A row is rebuilt only when something that it is made from has changed, so a cluster of
thousands of nodes costs what changes in it. A cache is followed from the first time that a table needs it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.config import ClusterConfig
from corewise.kube.errors import Forbidden, NotFound
from corewise.manager.options import ManagerOptions
from corewise.manager.snapshot import Listeners, NodeCaches, Snapshot
from corewise.ratios.decision import assess
from corewise.scheduler.listing import PublishedRules, read_rules
from corewise.scheduler.state import UNFINISHED
from corewise.views import node_table, offline_table, pod_table
from corewise.views.explanation import Explanation
from corewise.views.node_explanation import read_node
from corewise.views.node_listing import ListedNode, unread
from corewise.views.node_table import NodeRow
from corewise.views.node_usage import NodeUsages
from corewise.views.offline_reports import NodeReport, node_report
from corewise.views.offline_table import TopRow
from corewise.views.pod_explanation import explain_pod, read_pod
from corewise.views.pod_table import PodRow
from corewise.views.stored_config import keys_with_errors
from corewise.views.suppression_subject import read_suppression
from corewise.views.tables import Column, Listing
from corewise.vocabulary.reasons import Reason
from corewise.workload.pods import WORKLOAD_PODS, Pod

_POLL = 0.05


class NamedRow(Protocol):
    """The properties that every row has."""

    @property
    def name(self) -> str: ...
    @property
    def record(self) -> dict[str, Any]: ...
    @property
    def totals(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=NamedRow)
Explained = tuple[Explanation, Sequence[str]]
"""An explanation, and what could not be read, in words."""


@dataclass(frozen=True)
class TopTable(Generic[R]):
    """One table: its columns, its rows as they are now, their sum, and the explanation of a row.

    ``caches``: what it is made from, first what it cannot do without. ``remarks`` is what the rows do not
    show. ``command`` followed by a row's name is the command that explains it.
    """

    title: str
    noun: str
    columns: Sequence[Column[R]]
    caches: Sequence[Cache[Any]]
    rows: Callable[[datetime], list[R]]
    total: Callable[[list[R]], R]
    listing: Callable[[list[R]], Listing[R]]
    remarks: Callable[[list[R]], Iterable[str]]
    command: str
    explain: Callable[[str], Coroutine[Any, Any, Explained]]


@dataclass(frozen=True, slots=True)
class LostConnection:
    """The reason why the cluster cannot be followed, and the seconds since it last answered."""

    message: str
    seconds: int


def lost_connection(caches: Iterable[Cache[Any]]) -> LostConnection | None:
    """Return the reason why caches cannot follow the cluster now; absent or forbidden kinds are no loss."""
    for cache in caches:
        if cache.last_error is not None and not isinstance(cache.last_error, Forbidden | NotFound):
            return LostConnection(cache.last_error.message, int(cache.silence or 0))
    return None


class TopData:
    """The tables of a cluster, by the name that the command line has for each.

    ``shared``: the caches, if another object follows them.
    ``on_change`` is called after every change of what rows of nodes are made from, with the name of the node
    that it is about, "" if it is about all of them. ``aging``: a row of offline pods is rebuilt for its
    age alone, too.
    """

    def __init__(
        self,
        cluster: ClusterConfig,
        client: Client,
        *,
        selector: str,
        config_namespace: str,
        bars: str,
        clock: Clock = SYSTEM_CLOCK,
        shared: NodeCaches | None = None,
        on_change: Callable[[str], None] = lambda _: None,
        aging: bool = True,
    ) -> None:
        self._cluster, self._client, self._clock = cluster, client, clock
        self._config_namespace = config_namespace
        self._selector = selector
        self._on_change = on_change
        self._aging = aging
        self._offline_rows: dict[str, tuple[NodeReport, TopRow | None]] = {}
        options = ManagerOptions(config_namespace=config_namespace)
        listeners = Listeners(self._node_changed, self._outdate, self._outdate_all)
        self.snapshot = Snapshot(
            client, options, listeners, clock, label_selector=selector, shared=shared, follows=True
        )
        self._pods = (
            shared.pods if shared else Cache(client, WORKLOAD_PODS, field_selector=UNFINISHED, clock=clock)
        )
        self._pods.listen(self._pod_changed)
        self._pods_known = False
        self._reports: dict[str, NodeReport] = {}
        self._node_rows: dict[str, NodeRow] = {}
        self._pod_rows: dict[str, PodRow] = {}
        self._pods_in_order: list[PodRow] | None = None
        self._loops: dict[Cache[Any], asyncio.Task[None]] = {}
        self.published = PublishedRules()
        self.usages = NodeUsages(client, clock, self._usage_changed)
        self._measuring: asyncio.Task[None] | None = None
        self.built = 0
        """How many rows of nodes and pods have been made."""
        known = self.snapshot
        self.tables: Mapping[str, TopTable[Any]] = {
            "nodes": TopTable(
                "Nodes",
                "node",
                node_table.columns(bars),
                [known.nodes, known.topologies, known.pods, known.config_maps, known.webhooks],
                self._rows_of_nodes,
                node_table.total_of,
                lambda rows: node_table.listing_of(rows, bars),
                self._remarks_on_nodes,
                "corewise explain node",
                self._explain_node,
            ),
            "pods": TopTable(
                "Pods",
                "pod",
                pod_table.COLUMNS,
                [self._pods, *([known.nodes] if selector else [])],
                self._rows_of_pods,
                pod_table.total_of,
                pod_table.listing_of,
                self._remarks_on_pods,
                "corewise explain pod",
                self._explain_pod,
            ),
            "offline": TopTable(
                "Offline pods",
                "node",
                offline_table.columns(bars),
                [known.nodes],
                self._rows_of_offline_pods,
                offline_table.total_of,
                lambda rows: offline_table.listing_of(rows, bars),
                lambda _: offline_table.remarks(self.reports(clock.now()), config_namespace),
                "corewise explain suppression",
                self._explain_suppression,
            ),
        }

    async def read(self, table: TopTable[Any]) -> None:
        """List once what a table is made from, and follow nothing.

        Raises:
            KubeError: if something cannot be listed, other than what may be absent or forbidden.
        """

        async def read(cache: Cache[Any]) -> None:
            try:
                await cache.relist()
            except (Forbidden, NotFound) as error:
                if cache is table.caches[0]:
                    raise
                cache.last_error = error

        if self._pods in table.caches:
            await self.read_rules()
        if table is self.tables["nodes"]:
            await self.usages.read()
        await asyncio.gather(*map(read, table.caches))

    async def read_rules(self) -> bool:
        """Read by which QoS rules the scheduler judges pods; say whether they have changed.

        Raises:
            KubeError: if the API server does not answer.
        """
        before, self.published = self.published, await read_rules(self._client)
        changed = before.rules != self.published.rules
        if changed:
            self._pod_rows.clear()
            self._pods_in_order = None
        return changed

    def follow(self, table: TopTable[Any], group: asyncio.TaskGroup) -> None:
        """Follow the objects that a table is made from, until the group ends."""
        for cache in table.caches:
            if cache not in self._loops:
                self._loops[cache] = group.create_task(cache.run(), name=f"cache {cache.plural}")
        if table is self.tables["nodes"] and self._measuring is None:
            self._measuring = group.create_task(self.usages.run(), name="usage of nodes")

    def stop(self) -> None:
        """Stop following everything."""
        for loop in (*self._loops.values(), self._measuring):
            if loop is not None:
                loop.cancel()

    async def listed(self, table: TopTable[Any]) -> None:
        """Wait until everything that a table is made from has been listed, or has failed to be.

        Raises:
            KubeError: if what the table cannot do without cannot be listed.
        """
        while not self.ready(table):
            await self._clock.sleep(_POLL)
        first = table.caches[0]
        if first.last_error is not None and not first.synced.is_set():
            raise first.last_error

    def ready(self, table: TopTable[Any]) -> bool:
        """Return whether everything that a table is made from has been listed, or has failed to be."""
        return all(cache.synced.is_set() or cache.last_error for cache in table.caches)

    @property
    def lost(self) -> LostConnection | None:
        """The reason why the cluster cannot be followed at the moment, if there is one."""
        return lost_connection(self._loops)

    def remarks(self, table: TopTable[R], rows: list[R]) -> list[str]:
        """Return remarks on what a table does not show, most urgent first, and on unreadable objects."""
        missing = (
            unread(cache.plural, cache.last_error)
            for cache in table.caches
            if isinstance(cache.last_error, Forbidden | NotFound)
        )
        return [*table.remarks(rows), *missing]

    def _node_changed(self, name: str) -> None:
        self._reports.pop(name, None)
        self._outdate(name)

    def _outdate(self, name: str) -> None:
        self._node_rows.pop(name, None)
        self._on_change(name)

    def _usage_changed(self, name: str) -> None:
        """Put the new usage into a node's row, unless its agent reports that."""
        row, report = self._node_rows.get(name), self._reports.get(name)
        if row is not None and (report is None or report.report is None or report.stale):
            self._node_rows[name] = node_table.with_usage(row, self.usages.of(name))

    def _outdate_all(self) -> None:
        self._node_rows.clear()
        self._on_change("")

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Forget the cached results for a pod."""
        changed = (new or old or Pod()).metadata
        self._pod_rows.pop(f"{changed.namespace}/{changed.name}", None)
        self._pods_in_order = None

    def reports(self, now: datetime) -> list[NodeReport]:
        """Return the reports of the nodes, in the order of their names."""
        nodes = self.snapshot.nodes.items
        for node in nodes.values():
            meta = node.metadata
            if meta.name not in self._reports:
                self._reports[meta.name] = node_report(meta.name, meta.labels, meta.annotations, now)
        return [self._reports[name].at(now) for name in sorted(map(str, nodes))]

    def _rows_of_offline_pods(self, now: datetime) -> list[TopRow]:
        return [row for row in map(self._offline_row, self.reports(now)) if row is not None]

    def _offline_row(self, report: NodeReport) -> TopRow | None:
        before, row = self._offline_rows.get(report.name, (None, None))
        same = before is not None and before.report is report.report and before.stale == report.stale
        if before is not None and same and (before.age == report.age or not self._aging):
            return row
        row = offline_table.row_of(report)
        self._offline_rows[report.name] = report, row
        return row

    def _rows_of_nodes(self, now: datetime) -> list[NodeRow]:
        if not self.snapshot.reading.present and self.snapshot.config_maps.synced.is_set():
            self.snapshot.without_config_map()
        if self._pods_known != self.snapshot.pods.synced.is_set():
            self._pods_known = not self._pods_known
            self._outdate_all()
        rows = []
        for report in self.reports(now):
            known = self._reports[report.name]
            if known.stale != report.stale:
                self._reports[report.name] = report
                self._outdate(report.name)
            row = self._node_rows.get(report.name)
            if row is None:
                self._node_rows[report.name] = row = self._row_of_node(report.name, now)
            rows.append(row)
        return rows

    def _row_of_node(self, name: str, now: datetime) -> NodeRow:
        self.built += 1
        snapshot, node = self.snapshot, self.snapshot.nodes.items[name]
        listed = ListedNode(node, assess(snapshot.view_of(node), snapshot.context))
        usage = self.usages.of(name)
        return node_table.row_of(listed, now, pods_known=self._pods_known, usage=usage)

    def _rows_of_pods(self, _now: datetime) -> list[PodRow]:
        """Return the rows; the same list, not to be changed, until a pod has changed."""
        if self._pods_in_order is not None and not self._selector:
            return self._pods_in_order
        nodes = self.snapshot.nodes.items
        rows = []
        for key, pod in sorted(self._pods.items.items()):
            if self._selector and pod.spec.node_name not in nodes:
                continue
            rows.append(self.row_of_pod("/".join(key), pod))
        self._pods_in_order = rows
        return rows

    def row_of_pod(self, name: str, pod: Pod) -> PodRow:
        """Return the row of one pod, NAMESPACE/NAME, rebuilt only if the pod has changed."""
        row = self._pod_rows.get(name)
        if row is None:
            self.built += 1
            self._pod_rows[name] = row = pod_table.row_of(pod, self.published.rules)
        return row

    def _remarks_on_pods(self, rows: list[PodRow]) -> Iterable[str]:
        refused = any(row.problem == Reason.QOS_CLASS_NOT_ALLOWED for row in rows)
        return self.published.missing if refused else ()

    def _remarks_on_nodes(self, rows: list[NodeRow]) -> Iterator[str]:
        yield from node_table.problems(rows)
        yield from keys_with_errors(self.snapshot.reading, self._config_namespace)

    async def _explain_node(self, name: str) -> Explained:
        return await read_node(Client(self._cluster), name, self._config_namespace, self._clock.now())

    async def _explain_pod(self, name: str) -> Explained:
        listed = await read_pod(Client(self._cluster), name)
        return explain_pod(listed, ""), listed.missing

    async def _explain_suppression(self, name: str) -> Explained:
        now = self._clock.now()
        return await read_suppression(Client(self._cluster), name, self._config_namespace, now)


@asynccontextmanager
async def following(
    cluster: ClusterConfig, first: str, *, selector: str, config_namespace: str, bars: str
) -> AsyncIterator[tuple[TopData, Callable[[TopTable[Any]], None]]]:
    """Yield the tables of a cluster, and a function that follows one, once the ``first`` of them is listed.

    Raises:
        ExceptionGroup: of a KubeError, if what that table cannot do without cannot be listed.
    """
    # What caches say about a lost connection is on the screen; a line of log would tear it.
    logging.getLogger("corewise").addHandler(logging.NullHandler())
    # The client ends first, and aborts its connections: a watch that is canceled leaves its own half closed.
    async with asyncio.TaskGroup() as group, Client(cluster, on_warning=None) as client:
        data = TopData(cluster, client, selector=selector, config_namespace=config_namespace, bars=bars)
        table = data.tables[first]
        await data.read_rules()
        data.follow(table, group)
        try:
            await data.listed(table)
            yield data, lambda other: data.follow(other, group)
        finally:
            data.stop()
