"""The tables and documents of the web page, by name, over caches that follow the cluster.

One ``WebViews`` serves every page that is open. A row keeps its record, the same object, until the row has
changed in more than its age, so that whoever sends changes need not compare values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypedDict

import msgspec

from corewise.agent.objects import QuotaPod
from corewise.assessment.decision import assess
from corewise.cli.explain import explain_pod, shown_events
from corewise.cli.explain_suppression import subject_of
from corewise.cli.new_pod import online_in_spite_of
from corewise.cli.node_explanation import explain_node
from corewise.cli.node_listing import installed_paths
from corewise.cli.suppression_explanation import explain_suppression
from corewise.cli.top_data import LostConnection, TopData, lost_connection
from corewise.cli.top_view import PLAIN
from corewise.cli.web_views.documents import event_records, explained, quota_record, topology_record
from corewise.engine.objects import PlacedPod
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.config import ClusterConfig
from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.objects import Event
from corewise.kube.resources import EVENTS, PODS
from corewise.scheduler.listing import decide_about
from corewise.scheduler.state import UNFINISHED, ClusterState
from corewise.vocabulary.names import MANAGER_COMPONENT

_AGE = "ageSeconds"
_COMPONENTS = (MANAGER_COMPONENT, "corewise-scheduler", "corewise-agent")
_POLL = 0.05


class ShownTable(TypedDict):
    """The rows of a table, their sum (None where nothing adds up), and what the rows do not show."""

    rows: list[dict[str, Any]]
    total: dict[str, Any] | None
    remarks: list[str]


class UnknownObject(LookupError):  # noqa: N818 - an answer, not a fault
    """There is no such table or object; the text says so."""


class WebViews:
    """What the page shows of one cluster. ``on_change`` is called after a change of anything shown."""

    def __init__(
        self,
        cluster: ClusterConfig,
        client: Client,
        *,
        config_namespace: str,
        on_change: Callable[[], None] = lambda: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client, self._clock, self._on_change = client, clock, on_change
        self._config_namespace = config_namespace
        self._state = ClusterState(
            client, clock, on_pod=self._pod_changed, on_room=on_change, pods=UNFINISHED
        )
        self._data = TopData(
            cluster,
            client,
            selector="",
            config_namespace=config_namespace,
            bars=PLAIN,
            clock=clock,
            pods=self._state.pods,
            on_change=on_change,
        )
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
            self._state.nodes,
            self._state.topologies,
            self._state.pods,
            *self._events,
        ]
        self._records: dict[str, dict[str, tuple[object, dict[str, Any]]]] = {}

    def follow(self, group: asyncio.TaskGroup) -> None:
        """Follow the cluster until the group ends, or ``stop``."""
        self._loops = [group.create_task(each.run(), name=f"cache {each.plural}") for each in self._caches]

    def stop(self) -> None:
        """Follow nothing any more."""
        for loop in self._loops:
            loop.cancel()

    async def listed(self) -> None:
        """Wait until everything has been listed, or has failed to be.

        Raises:
            KubeError: if the nodes cannot be listed.
        """
        while not all(each.synced.is_set() or each.last_error for each in self._caches):
            await self._clock.sleep(_POLL)
        nodes = self._data.snapshot.nodes
        if nodes.last_error is not None and not nodes.synced.is_set():
            raise nodes.last_error

    @property
    def lost(self) -> LostConnection | None:
        """Why the cluster cannot be followed at the moment, if it cannot."""
        return lost_connection(self._caches)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(self._data.tables)

    def table(self, name: str) -> ShownTable:
        """Return a table as it is now.

        Raises:
            UnknownObject: if there is no such table.
        """
        if name not in self._data.tables:
            raise UnknownObject(f"there is no table {name}")
        table = self._data.tables[name]
        rows = table.rows(self._clock.now())
        return {
            "rows": self._kept(name, rows),
            "total": dict(table.listing(rows).totals or {}),
            "remarks": self._data.remarks(table, rows),
        }

    def _kept(self, table: str, rows: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the records of rows: the ones of last time where nothing but an age differs."""
        before = self._records.get(table, {})
        self._records[table] = after = {row.name: _record(row, before.get(row.name)) for row in rows}
        return [record for _, record in after.values()]

    async def document(self, kind: str, name: str) -> dict[str, Any]:
        """Return all that is known of an object: kind "nodes" by name, "pods" by NAMESPACE/NAME.

        Raises:
            UnknownObject: if there is none.
            KubeError: if the API server does not say what has to be asked for.
        """
        made = {"nodes": self._node, "pods": self._pod}.get(kind)
        if made is None:
            raise UnknownObject(f"there are no documents of {kind}")
        return await made(name)

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
        config = known.config_map
        readable = not isinstance(known.config_maps.last_error, Forbidden)
        subject = subject_of(
            node,
            (config.data if config else {}) if readable else None,
            known.pods_on(name) if pods_known else None,
        )
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
            "suppression": explained(explain_suppression(subject)),
            "events": event_records(events),
        }

    async def _pod(self, name: str) -> dict[str, Any]:
        namespace, _, plain = name.partition("/")
        pod = self._state.pods.get(plain, namespace)
        row = next(
            (each for each in self._data.tables["pods"].rows(self._clock.now()) if each.name == name), None
        )
        if pod is None or row is None:
            raise UnknownObject(f"there is no pod {name} that has not finished")
        try:
            raw = await self._client.get(PODS.typed(dict), plain, namespace)
        except NotFound as error:
            raise UnknownObject(f"there is no pod {name}") from error
        late = await online_in_spite_of(self._client, raw)
        await self._state.catch_up()
        try:
            listed = decide_about(pod, self._state.cluster)
            listed = replace(listed, findings=(*listed.findings, *([late] if late else [])))
            explanation = explain_pod(listed, "")
        finally:
            self._state.count(pod)
        node = self._state.nodes.get(pod.spec.node_name)
        owns = bool(listed.placement and listed.placement.cpus)
        return {
            "pod": row.record,
            "explanation": explained(explanation, listed.missing),
            "quota": quota_record(
                msgspec.convert(raw, QuotaPod), node.metadata.annotations if node else {}, owns=owns
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

    def _pod_changed(self, old: PlacedPod | None, new: PlacedPod | None) -> None:
        self._data.pod_changed(old, new)

    def _event_changed(self, _old: Event | None, _new: Event | None) -> None:
        self._on_change()


def _record(row: Any, before: tuple[object, dict[str, Any]] | None) -> tuple[object, dict[str, Any]]:
    if before is not None and before[0] is row:
        return before
    record: dict[str, Any] = row.record
    if before is not None and _without_age(before[1]) == _without_age(record):
        return row, before[1]
    return row, record


def _without_age(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != _AGE}
