"""The tables and documents of the web page, by name, over caches that follow the cluster.

One ``WebViews`` serves every page that is open. A row keeps its record, the same object, until the row has
changed in more than its age, so that whoever sends changes need not compare values.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from corewise.agent.objects import QuotaPod
from corewise.config.interference.metrics import Preset
from corewise.config.key_texts import KEYS
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.config import ClusterConfig
from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.objects import Event
from corewise.kube.resources import EVENTS, PODS
from corewise.manager.busy_nodes import cpu_usages
from corewise.manager.snapshot import NodeCaches
from corewise.prometheus.client import PrometheusClient
from corewise.ratios.decision import assess
from corewise.scheduler.listing import decide_about
from corewise.scheduler.state import UNFINISHED, ClusterState
from corewise.views.new_pod import online_in_spite_of
from corewise.views.node_explanation import explain_node, shown_events
from corewise.views.node_listing import installed_paths
from corewise.views.offline_table import PLAIN, TOTAL
from corewise.views.page import problems
from corewise.views.page.documents import event_records, explained, quota_record, topology_record
from corewise.views.page.history import EVERY, OfflineHistory, PastHours
from corewise.views.page.hosts import HostTable
from corewise.views.page.interference import NOT_ASKED, InterferenceViews
from corewise.views.page.problems import KnownProblem, ProblemHistory
from corewise.views.page.trial import tried
from corewise.views.page.what_if import ChangeRefused, LiveObjects
from corewise.views.pod_explanation import explain_pod
from corewise.views.suppression_explanation import Subject, explain_suppression
from corewise.views.suppression_subject import subject_of
from corewise.views.top_data import LostConnection, TopData, lost_connection
from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.names import MANAGER_COMPONENT
from corewise.workload.nodes import Node

_AGE = "ageSeconds"
_COMPONENTS = (MANAGER_COMPONENT, "corewise-scheduler", "corewise-agent")
_POLL = 0.05
PROBLEMS, HOSTS = "problems", "hosts"


class ShownTable(TypedDict):
    """The rows of a table, their sum (None where nothing adds up), and remarks on what they do not show."""

    rows: list[dict[str, Any]]
    total: dict[str, Any] | None
    remarks: list[str]


class UnknownObject(LookupError):  # noqa: N818 - an answer, not a fault
    """There is no such table or object; the text says so."""


class WebViews:
    """The page's data about one cluster. ``on_change`` is called after a change of anything shown."""

    def __init__(
        self,
        cluster: ClusterConfig,
        client: Client,
        *,
        config_namespace: str,
        on_change: Callable[[], None] = lambda: None,
        clock: Clock = SYSTEM_CLOCK,
        hosts: HostTable | None = None,
        prometheus: tuple[PrometheusClient, Preset] | None = None,
    ) -> None:
        self.hosts, self._host_rows = hosts, list[dict[str, Any]]()
        self._host_problem = ""
        self._client, self._clock, self._on_change = client, clock, on_change
        self._config_namespace = config_namespace
        self._state = ClusterState(client, clock, on_room=on_change, pods=UNFINISHED)
        self._data = TopData(
            cluster,
            client,
            selector="",
            config_namespace=config_namespace,
            bars=PLAIN,
            clock=clock,
            shared=NodeCaches(self._state.nodes, self._state.topologies, self._state.pods),
            on_change=self._changed,
            aging=False,
        )
        self._state.pods.listen(lambda _old, _new: on_change())
        self._interference = prometheus and InterferenceViews(*prometheus, self._state.nodes)
        self._events = [
            Cache(
                client,
                EVENTS,
                field_selector=f"source={component}",
                on_change=self._event_changed,
                clock=clock,
            )
            for component in _COMPONENTS
        ]
        known = self._data.snapshot
        self._caches: list[Cache[Any]] = [
            known.nodes,
            known.topologies,
            known.pods,
            known.config_maps,
            known.webhooks,
            *self._events,
        ]
        self._shown: dict[str, tuple[list[Any], list[dict[str, Any]], dict[str, Any]]] = {}
        self._records: dict[str, dict[str, tuple[object, dict[str, Any]]]] = {}
        started = clock.now()
        self._history = OfflineHistory(started)
        self._past = PastHours(prometheus[0], clock, started) if prometheus else None
        self._problems = ProblemHistory()
        self._problem_rows: dict[str, dict[str, Any]] = {}
        self._of_reports: dict[str, tuple[bool, tuple[KnownProblem, ...]]] = {}

    async def list_nodes(self) -> None:
        """List the nodes, without which there is nothing to show, and read how the scheduler judges pods.

        Raises:
            KubeError: if the API server does not answer, or refuses.
        """
        await self._data.snapshot.nodes.relist()
        await self._read_rules()

    async def _read_rules(self) -> None:
        """Judge pods by the scheduler's QoS rules, as the cluster states them now."""
        if await self._data.read_rules():
            self._state.rules = self._data.published.rules
            for pod in self._state.pods.items.values():
                self._state.count(pod)

    def follow(self, group: asyncio.TaskGroup) -> None:
        """Follow the cluster until the group ends, or ``stop``."""
        self._loops = [group.create_task(each.run(), name=f"cache {each.plural}") for each in self._caches]
        self._loops.append(group.create_task(self._remember(), name="history"))
        if self._interference is not None:
            asking = self._ask_prometheus(self._interference)
            self._loops.append(group.create_task(asking, name="interference"))
        if self.hosts is not None:
            self._loops.append(group.create_task(self._look_at_hosts(self.hosts), name="hosts"))

    def stop(self) -> None:
        """Stop following everything."""
        for loop in self._loops:
            loop.cancel()

    async def _remember(self) -> None:
        await self.known()
        while True:
            now, table = self._clock.now(), self._data.tables["offline"]
            rows, requested = table.rows(now), Counter[str]()
            for pod in self._data.tables["pods"].rows(now):
                requested[pod.node] += pod.amounts.batch_cpu
            self._history.take(rows, table.total(rows), requested, now)
            self._on_change()
            await self._clock.sleep(EVERY)

    async def _ask_prometheus(self, interference: InterferenceViews) -> None:
        await self.known()
        await interference.run(self._clock, self._on_change)

    async def listed(self) -> None:
        """Wait until everything has been listed, or has failed to be, and make every row once."""
        await self.known()
        for name in self._data.tables:
            self.table(name)

    async def _look_at_hosts(self, hosts: HostTable) -> None:
        """Read the hosts again and again: no event says that their files changed."""
        while True:
            try:
                rows, problem = await asyncio.to_thread(hosts.rows), ""
            except OperationalError as error:
                rows, problem = self._host_rows, error.message
            if (rows, problem) != (self._host_rows, self._host_problem):
                before = {row["name"]: row for row in self._host_rows}
                self._host_rows = [old if (old := before.get(row["name"])) == row else row for row in rows]
                self._host_problem = problem
                self._on_change()
            await self._clock.sleep(EVERY)

    async def known(self) -> None:
        """Wait until everything has been listed, or has failed to be."""
        while not all(each.synced.is_set() or each.last_error for each in self._caches):
            await self._clock.sleep(_POLL)

    @property
    def lost(self) -> LostConnection | None:
        """The reason why the cluster cannot be followed at the moment, if there is one."""
        return lost_connection(self._caches)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return (*self._data.tables, PROBLEMS, *([HOSTS] if self.hosts else []))

    def table(self, name: str, namespace: str = "") -> ShownTable:
        """Return a table as it is now; that of pods for one namespace, too.

        Raises:
            UnknownObject: if there is no such table.
        """
        if namespace and name != PODS.plural:
            raise UnknownObject(f"there is no table {name} of one namespace")
        if name == PROBLEMS:
            return {"rows": self._rows_of_problems(), "total": None, "remarks": []}
        if name == HOSTS and self.hosts is not None:
            remarks = [self._host_problem] if self._host_problem else []
            return {"rows": self._host_rows, "total": None, "remarks": remarks}
        if name not in self._data.tables:
            raise UnknownObject(f"there is no table {name}")
        table = self._data.tables[name]
        rows = table.rows(self._clock.now())
        known, records, total = self._shown.get(name, ([], [], {}))
        if rows is not known:
            records, total = self._kept(name, rows), table.total(rows).totals
            self._shown[name] = rows, records, total
        if namespace:
            rows = [row for row in rows if row.name.startswith(f"{namespace}/")]
            records = [each for each in records if each["name"].startswith(f"{namespace}/")]
            total = table.total(rows).totals
        return {"rows": records, "total": total, "remarks": self._data.remarks(table, rows)}

    def _rows_of_problems(self) -> list[dict[str, Any]]:
        """Return the rows of all problems; a row that is as before is the same object."""
        known, now = self._data.snapshot, self._clock.now()
        tables = self._data.tables
        nodes = tables["nodes"].rows(now)
        found = (
            *problems.of_configuration(known),
            *problems.of_nodes(nodes),
            *problems.of_pods(tables["pods"].rows(now), self._state.pods.items, self._state.rules),
            *problems.of_scheduler(self._state.findings, self._state.cluster),
            *self._problems_of_reports(now),
            *problems.of_caches(self._caches),
        )
        events = [event for cache in self._events for event in cache.items.values()]
        before = self._problem_rows
        rows = self._problems.rows(found, events, now)
        self._problem_rows = {
            row["name"]: before[row["name"]] if before.get(row["name"]) == row else row for row in rows
        }
        return list(self._problem_rows.values())

    def _problems_of_reports(self, now: datetime) -> Iterator[KnownProblem]:
        """Yield the problems that agents report; a node's are recomputed only when it has changed."""
        nodes = self._data.snapshot.nodes
        for report in self._data.reports(now):
            known = self._of_reports.get(report.name)
            if known is None or known[0] != report.stale:
                node = nodes.items[report.name]
                shown = report.labeled or report.report is not None or report.unreadable
                found = tuple(problems.of_report(self._subject(node))) if shown else ()
                self._of_reports[report.name] = known = report.stale, found
            yield from known[1]

    def _subject(self, node: Node) -> Subject:
        """Return the known facts about a node's offline pods."""
        known, config = self._data.snapshot, self._data.snapshot.config_map
        readable = not isinstance(known.config_maps.last_error, Forbidden)
        data = (config.data if config else {}) if readable else None
        pods = known.pods_on(node.metadata.name) if known.pods.synced.is_set() else None
        return subject_of(node, data, pods)

    def _kept(self, table: str, rows: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the records of rows: the ones of last time where nothing but an age differs."""
        before = self._records.get(table, {})
        self._records[table] = after = {}
        for row in rows:
            known = before.get(row.name)
            if known is None or known[0] is not row:
                known = row, _kept_record(self._record(table, row), known)
            after[row.name] = known
        return [record for _, record in after.values()]

    def _record(self, table: str, row: Any) -> dict[str, Any]:
        """Return a row's record; a node's with its labels, by which the page groups nodes."""
        node = self._data.snapshot.nodes.get(row.name) if table == "nodes" else None
        record: dict[str, Any] = row.record
        return record if node is None else {**record, "labels": dict(node.metadata.labels)}

    async def document(self, kind: str, name: str) -> dict[str, Any]:
        """Return all that is known of an object: kind "nodes" by name, "pods" by NAMESPACE/NAME, "hosts".

        "offline", "*" is the history of all nodes together; "what-if", "" the texts of the configuration.

        Raises:
            UnknownObject: if there is none.
            OperationalError: if the API server or a host does not say what has to be asked for.
        """
        if (kind, name) == ("offline", TOTAL):
            return {"history": self._history.record()}
        if (kind, name) == ("what-if", ""):
            return {"config": self._config()}
        made = {"nodes": self._node, "pods": self._pod, HOSTS: self._host}.get(kind)
        if made is None:
            raise UnknownObject(f"there are no documents of {kind}")
        return await made(name)

    def _config(self) -> dict[str, str]:
        """Return the texts of the ConfigMap's keys that corewise reads; "" where there is none."""
        config = self._data.snapshot.config_map
        return {key: config.data.get(key, "") if config else "" for key in KEYS}

    async def what_if(self, body: Mapping[str, Any]) -> dict[str, Any] | msgspec.Raw:
        """Try a change on the cluster's objects, in a process of its own; nothing is written.

        ``{"change": "flavor", "flavor": {...}, "image": {...}, "pack": false}`` asks the compute hosts.

        Raises:
            ChangeRefused: if the body is not a change that can be tried.
            ChangeNotTried: if trying it takes too long.
            ValueError: if it is no flavor that the hosts can be asked for.
        """
        if body.get("change") == "flavor":
            if self.hosts is None:
                raise ChangeRefused("no compute hosts are shown: start the page with --compute-hosts")
            asked = {key: value for key, value in body.items() if key != "change"}
            return await asyncio.to_thread(self.hosts.try_flavor, asked)
        await self._read_rules()
        used = await cpu_usages(self._client)
        known, config = self._data.snapshot, self._data.snapshot.config_map
        live = LiveObjects(
            nodes={node.metadata.name: node for node in known.nodes.items.values()},
            topologies={each.metadata.name: each for each in self._state.topologies.items.values()},
            pods=tuple(pod for _, pod in sorted(self._state.pods.items.items())),
            pods_of={str(name): known.pods_on(str(name)) for name in known.nodes.items},
            config=dict(config.data) if config else {},
            context=known.context,
            namespace=self._config_namespace,
            used=used,
            rules=self._state.rules,
        )
        return await tried(body, live)

    async def _host(self, name: str) -> dict[str, Any]:
        shown = None if self.hosts is None else await asyncio.to_thread(self.hosts.document, name)
        if shown is None:
            raise UnknownObject(f"there is no compute host {name}")
        return shown

    async def _node(self, name: str) -> dict[str, Any]:
        known, now = self._data.snapshot, self._clock.now()
        node = known.nodes.get(name)
        row = next((each for each in self._data.tables["nodes"].rows(now) if each.name == name), None)
        if node is None or row is None:
            raise UnknownObject(f"there is no node {name}")
        missing = self._data.remarks(self._data.tables["nodes"], [])
        paths = await installed_paths(self._client, known.webhooks.items.values(), missing)
        events = self._events_about("Node", name)
        pods_known = known.pods.synced.is_set()
        explanation = explain_node(
            assess(known.view_of(node), known.context),
            shown_events(events),
            pods_known=pods_known,
            paths=paths,
        )
        return {
            "node": row.record,
            "topology": topology_record(self._state.cluster, name),
            "explanation": explained(explanation, missing),
            "suppression": explained(explain_suppression(self._subject(node))),
            "interference": self._interference.record(name) if self._interference else NOT_ASKED,
            "history": self._history.record(name, *(await self._past.of(name) if self._past else ())),
            "events": event_records(events),
        }

    async def _pod(self, name: str) -> dict[str, Any]:
        namespace, _, plain = name.partition("/")
        pod = self._state.pods.get(plain, namespace)
        if pod is None:
            raise UnknownObject(f"there is no unfinished pod {name}")
        await self._read_rules()
        row = self._data.row_of_pod(name, pod)
        try:
            raw = await self._client.get(PODS.typed(dict), plain, namespace)
        except NotFound as error:
            raise UnknownObject(f"there is no pod {name}") from error
        late = await online_in_spite_of(self._client, raw)
        await self._state.catch_up()
        try:
            listed = decide_about(pod, self._state.cluster, self._state.rules)
            listed = replace(listed, findings=(*listed.findings, *([late] if late else [])))
            explanation = explain_pod(listed, "")
        finally:
            self._state.count(pod)
        node = self._state.nodes.get(pod.spec.node_name)
        owns = bool(listed.placement and listed.placement.cpus)
        return {
            "pod": row.record,
            "explanation": explained(explanation, self._data.remarks(self._data.tables["pods"], [row])),
            "quota": quota_record(
                msgspec.convert(raw, QuotaPod),
                node.metadata.annotations if node else {},
                self._state.rules,
                owns=owns,
            ),
            "events": event_records(self._events_about("Pod", plain, namespace)),
        }

    def _events_about(self, kind: str, name: str, namespace: str = "") -> list[Event]:
        about = (event for cache in self._events for event in cache.items.values())
        key = (kind, name, namespace)
        return [
            each
            for each in about
            if (each.involved_object.kind, each.involved_object.name, each.involved_object.namespace) == key
        ]

    def _changed(self, node: str) -> None:
        if node:
            self._of_reports.pop(node, None)
        else:
            self._of_reports.clear()
        self._on_change()

    def _event_changed(self, _old: Event | None, _new: Event | None) -> None:
        self._on_change()


def _kept_record(record: dict[str, Any], before: tuple[object, dict[str, Any]] | None) -> dict[str, Any]:
    """Return the previous record if only its age changed."""
    if before is not None and {**before[1], _AGE: None} == {**record, _AGE: None}:
        return before[1]
    return record
