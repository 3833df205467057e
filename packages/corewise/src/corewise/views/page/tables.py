"""The tables of the web page, by name: the records that are sent.

A row keeps its record, the same object, until the row has changed in more than its age, so that whoever
sends changes need not compare values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from corewise.kube.resources import PODS
from corewise.views.page.followed import FollowedCluster, UnknownObject
from corewise.views.page.problems import ProblemTable

_AGE = "ageSeconds"
_PROBLEMS, _HOSTS = "problems", "hosts"


class ShownTable(TypedDict):
    """The rows of a table, their sum (None where nothing adds up), and remarks on what they do not show."""

    rows: list[dict[str, Any]]
    total: dict[str, Any] | None
    remarks: list[str]


class PageTables:
    """The tables of a cluster, and the records last made of their rows."""

    def __init__(self, cluster: FollowedCluster) -> None:
        self._cluster, self._data, self._hosts = cluster, cluster.data, cluster.hosts
        self._problems = ProblemTable(cluster)
        self._shown: dict[str, tuple[list[Any], list[dict[str, Any]], dict[str, Any]]] = {}
        self._records: dict[str, dict[str, tuple[object, dict[str, Any]]]] = {}
        self.names = (*self._data.tables, _PROBLEMS, *([_HOSTS] if self._hosts else []))

    async def made(self) -> None:
        """Wait until everything has been listed, or has failed to be, and make every row once."""
        await self._cluster.listed()
        for name in self._data.tables:
            self.table(name)

    def table(self, name: str, namespace: str = "") -> ShownTable:
        """Return a table as it is now; that of pods for one namespace, too.

        Raises:
            UnknownObject: if there is no such table.
        """
        if namespace and name != PODS.plural:
            raise UnknownObject(f"there is no table {name} of one namespace")
        now = self._cluster.clock.now()
        if name == _PROBLEMS:
            return {"rows": self._problems.rows(now), "total": None, "remarks": []}
        if name == _HOSTS and self._hosts is not None:
            remarks = [self._hosts.problem] if self._hosts.problem else []
            return {"rows": self._hosts.rows, "total": None, "remarks": remarks}
        if name not in self._data.tables:
            raise UnknownObject(f"there is no table {name}")
        table = self._data.tables[name]
        rows = table.rows(now)
        known, records, total = self._shown.get(name, ([], [], {}))
        if rows is not known:
            records, total = self._kept(name, rows), table.total(rows).totals
            self._shown[name] = rows, records, total
        if namespace:
            rows = [row for row in rows if row.name.startswith(f"{namespace}/")]
            records = [each for each in records if each["name"].startswith(f"{namespace}/")]
            total = table.total(rows).totals
        return {"rows": records, "total": total, "remarks": self._data.remarks(table, rows)}

    def _kept(self, table: str, rows: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the records of rows: the ones of last time where nothing but an age differs."""
        before = self._records.get(table, {})
        self._records[table] = after = {}
        for row in rows:
            known = before.get(row.name)
            if known is None or known[0] is not row:
                record = self._record(table, row)
                same = known is not None and {**known[1], _AGE: None} == {**record, _AGE: None}
                known = row, known[1] if known is not None and same else record
            after[row.name] = known
        return [record for _, record in after.values()]

    def _record(self, table: str, row: Any) -> dict[str, Any]:
        """Return a row's record; a node's with its labels, by which the page groups nodes."""
        node = self._cluster.known.nodes.get(row.name) if table == "nodes" else None
        record: dict[str, Any] = row.record
        return record if node is None else {**record, "labels": dict(node.metadata.labels)}
