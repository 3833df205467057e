"""The records of nodes that the page shows: those of ``corewise nodes -o json``, and what the map colors.

Beside the keys of the command each has ``shortModel``, the name of its CPU model that the command shows
on a narrow terminal; ``labels``, by which the page groups nodes; ``problems``, the reasons and severities of
all that is wrong on the node and its pods; ``usedCPUMilli`` and ``onlineCPUMilli``, raw CPU that all pods and
that online pods use. The agent's report says how much; where there is none, metrics.k8s.io says what all use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corewise.normalization.decision import configured_ratio
from corewise.quantities import ONE, Ratio, RatioError
from corewise.views.machine_kinds import short_model
from corewise.views.node_table import NodeRow
from corewise.views.offline_reports import NodeReport
from corewise.views.page.followed import FollowedCluster
from corewise.views.page.problems import by_node
from corewise.views.worth import MachineSpeed, worth_records


@dataclass(frozen=True, slots=True)
class _Usage:
    """Raw milli-CPU in use; None where it is not measured."""

    used: int | None = None
    online: int | None = None


_PERCENT = 100
_Problems = tuple[tuple[str, str], ...]


class NodeRecords:
    """The record of each node, the same object until it has changed, and the worth of a requested CPU."""

    def __init__(self, cluster: FollowedCluster) -> None:
        self._cluster = cluster
        self._kept: dict[str, tuple[NodeRow, _Usage, _Problems, dict[str, Any]]] = {}
        self._machines: dict[str, tuple[NodeRow, MachineSpeed | None]] = {}
        self._worth: tuple[list[MachineSpeed], list[dict[str, Any]]] = ([], [])

    def of(
        self, rows: Iterable[NodeRow], reports: Iterable[NodeReport], problems: Iterable[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the records of all nodes; ``reports`` are in the order of ``rows``."""
        found, before = by_node(problems), self._kept
        self._kept = after = {}
        for row, report in zip(rows, reports, strict=True):
            known, wrong = before.get(row.name), found.get(row.name, ())
            usage = _usage(row, report)
            if known is not None and _alike(known[1], usage, row.amounts.raw):
                usage = known[1]
            if known is None or known[0] is not row or (known[1], known[2]) != (usage, wrong):
                record = self._record(row, usage, wrong)
                same = known is not None and known[3] == record
                known = row, usage, wrong, known[3] if known is not None and same else record
            after[row.name] = known
        return [record for *_, record in after.values()]

    def _record(self, row: NodeRow, usage: _Usage, problems: _Problems) -> dict[str, Any]:
        node = self._cluster.known.nodes.get(row.name)
        return {
            **row.record,
            "shortModel": short_model(row.facts.cpu_model) if row.facts.cpu_model else None,
            "labels": dict(node.metadata.labels) if node is not None else {},
            "problems": [{"reason": reason, "severity": severity} for reason, severity in problems],
            "usedCPUMilli": usage.used,
            "onlineCPUMilli": usage.online,
            "worthCPU": self._worth_of(row),
        }

    def _worth_of(self, row: NodeRow) -> str | None:
        """Return the worth of one CPU requested on a node, in baseline CPUs; None if it is unknown."""
        machine = self._machine(row)
        return str(machine.worth) if machine is not None and machine.worth is not None else None

    def worth(self, rows: Iterable[NodeRow]) -> list[dict[str, Any]]:
        """Return the worth of one requested CPU on each kind of machine; the same list until it changes."""
        before, self._machines = self._machines, {}
        for row in rows:
            known = before.get(row.name)
            self._machines[row.name] = known if known and known[0] is row else (row, self._machine(row))
        machines = [machine for _, machine in self._machines.values() if machine is not None]
        if machines != self._worth[0]:
            self._worth = machines, worth_records(machines)
        return self._worth[1]

    def _machine(self, row: NodeRow) -> MachineSpeed | None:
        facts, known = row.facts, self._cluster.known
        config, view = known.context.configuration.normalization, known.view(row.name)
        if facts.cpu_model is None or view is None:
            return None
        speed = configured_ratio(view, config) if config is not None else None
        if speed is None and facts.normalization_ratio not in {None, str(ONE)}:
            speed = _ratio(facts.normalization_ratio)
        amplification = _ratio(facts.amplification_ratio) or ONE
        return MachineSpeed(
            facts.cpu_model, bool(facts.hyper_threading), bool(facts.turbo), speed, amplification
        )


def _usage(row: NodeRow, report: NodeReport) -> _Usage:
    said = None if report.stale else report.report
    return _Usage(row.amounts.used, said.online_milli if said is not None else None)


def _alike(before: _Usage, now: _Usage, raw: int | None) -> bool:
    """Whether two usages that metrics.k8s.io measured differ by less than a hundredth of the node."""
    if before.used is None or now.used is None or (before.online, now.online) != (None, None):
        return before == now
    return _PERCENT * abs(now.used - before.used) < (raw or 0)


def _ratio(text: str | None) -> Ratio | None:
    try:
        return Ratio.parse(text or "")
    except RatioError:
        return None
