"""The tables of the web page, by name: the records that are sent.

A row keeps its record, the same object, until the row has changed in more than its age, so that whoever
sends changes need not compare values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NotRequired, TypedDict

from corewise.kube.errors import Forbidden
from corewise.kube.resources import PODS
from corewise.views.page.followed import FollowedCluster, UnknownObject
from corewise.views.page.node_records import NodeRecords
from corewise.views.page.problems import ProblemTable, counts
from corewise.views.page.recommended import RecommendedTable

_AGE = "ageSeconds"
_NODES, _PROBLEMS, _HOSTS, _RECOMMENDATIONS = "nodes", "problems", "hosts", "recommendations"
_NAMESPACES_FORBIDDEN = (
    "Problems with labels of namespaces are not shown: the account of corewise web may not list and watch "
    "namespaces. The ClusterRole corewise-web of the Helm chart allows it. To see these problems with your "
    "own account: corewise report"
)


class ShownTable(TypedDict):
    """The rows of a table, their sum (None where nothing adds up), and remarks on what they do not show.

    ``worth`` comes with the nodes: the worth of one requested CPU on each kind of machine.
    """

    rows: list[dict[str, Any]]
    total: dict[str, Any] | None
    remarks: list[str]
    worth: NotRequired[list[dict[str, Any]]]


class PageTables:
    """The tables of a cluster, and the records last made of their rows."""

    def __init__(self, cluster: FollowedCluster) -> None:
        self._cluster, self._data, self._hosts = cluster, cluster.data, cluster.hosts
        self._problems, self._nodes = ProblemTable(cluster), NodeRecords(cluster)
        self._recommended = RecommendedTable(cluster)
        self._shown: dict[str, tuple[list[Any], list[dict[str, Any]], dict[str, Any]]] = {}
        self._records: dict[str, dict[str, tuple[object, dict[str, Any]]]] = {}
        self.names = (*self._data.tables, _PROBLEMS, _RECOMMENDATIONS, *([_HOSTS] if self._hosts else []))

    async def made(self) -> None:
        """Wait until everything has been listed, or has failed to be, and make every row once."""
        await self._cluster.listed()
        for name in self._data.tables:
            self.table(name)

    def summary(self) -> dict[str, Any]:
        """Return the numbers of problems and recommendations, which every view shows."""
        self._cluster.usages.want()
        now = self._cluster.clock.now()
        return {
            "problems": counts(self._problems.rows(now)),
            "recommendations": len(self._recommended.rows()),
        }

    def table(self, name: str, namespace: str = "") -> ShownTable:
        """Return a table as it is now; that of pods for one namespace, too.

        Raises:
            UnknownObject: if there is no such table.
        """
        if namespace and name != PODS.plural:
            raise UnknownObject(f"the table {name} is not divided by namespace: ask for it without one")
        now = self._cluster.clock.now()
        if name == _PROBLEMS:
            forbidden = isinstance(self._cluster.namespaces.last_error, Forbidden)
            remarks = [_NAMESPACES_FORBIDDEN] if forbidden else []
            return {"rows": self._problems.rows(now), "total": None, "remarks": remarks}
        if name == _RECOMMENDATIONS:
            self._cluster.usages.want()
            return {
                "rows": self._recommended.rows(),
                "total": None,
                "remarks": self._recommended.remarks(),
            }
        if name == _HOSTS:
            return self._table_of_hosts()
        if name not in self._data.tables:
            known = ", ".join(self.names)
            raise UnknownObject(f"the page has no table {name!r}; its tables are {known}")
        table = self._data.tables[name]
        rows = table.rows(now)
        known_rows, records, total = self._shown.get(name, ([], [], {}))
        if rows is not known_rows:
            records = self._records_of(name, rows)
            total = table.total(rows).totals
            self._shown[name] = rows, records, total
        if namespace:
            rows = [row for row in rows if row.name.startswith(f"{namespace}/")]
            records = [each for each in records if each["name"].startswith(f"{namespace}/")]
            total = table.total(rows).totals
        shown: ShownTable = {"rows": records, "total": total, "remarks": self._data.remarks(table, rows)}
        if name == _NODES:
            self._cluster.usages.want()
            shown["worth"] = self._nodes.worth(rows)
        return shown

    def _table_of_hosts(self) -> ShownTable:
        if self._hosts is None:
            raise UnknownObject(
                "No compute hosts are shown. To show them, start the page with: "
                "corewise web --compute-hosts DIR"
            )
        remarks = [self._hosts.problem] if self._hosts.problem else []
        return {"rows": self._hosts.rows, "total": None, "remarks": remarks}

    def _records_of(self, table: str, rows: list[Any]) -> list[dict[str, Any]]:
        if table != _NODES:
            return self._kept(table, rows)
        now = self._cluster.clock.now()
        return self._nodes.of(rows, self._data.reports(now), self._problems.rows(now))

    def _kept(self, table: str, rows: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the records of rows: the ones of last time where nothing but an age differs."""
        before = self._records.get(table, {})
        self._records[table] = after = {}
        for row in rows:
            known = before.get(row.name)
            if known is None or known[0] is not row:
                record: dict[str, Any] = row.record
                same = known is not None and {**known[1], _AGE: None} == {**record, _AGE: None}
                known = row, known[1] if known is not None and same else record
            after[row.name] = known
        return [record for _, record in after.values()]
