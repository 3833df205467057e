"""Every problem that is known of a cluster: one row for each reason on each object.

They come from the configuration, the scores and the assessment of each node, what the scheduler reads of
nodes and pods, claims to CPUs, the agents' reports, labels of namespaces, objects that cannot be decoded,
and Events of corewise.
An Event about what is still so gives its age; one about a problem that is over is a row of its own until it
expires.

A problem is an ``error`` if somebody has to act, a ``warning`` if it usually clears itself, and ``over`` if
only an Event is left of it. A new object is not complete at once: its machine has no facts, its agent no
report. What only this has caused, and is over, is no row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from corewise.engine import Cluster
from corewise.engine.reading import placement, pod_facts
from corewise.kube.cache import Cache
from corewise.kube.clock import rfc3339
from corewise.kube.objects import ConfigMap, Event, Namespace, ObjectMeta
from corewise.manager.node_speed import configured_off, off_message, ratio_nodes
from corewise.manager.reporting import event_about_koordinator, events_about
from corewise.normalization.fleet import Fleet
from corewise.ratios.cluster import ConfigurationReading
from corewise.ratios.nodes import Annotations, read_scores
from corewise.views.node_table import NodeRow
from corewise.views.page.followed import FollowedCluster
from corewise.views.pod_table import PodRow
from corewise.views.stored_config import fix_of
from corewise.views.suppression_explanation import Subject
from corewise.vocabulary.cpu_annotations import normalize_label_command, normalize_label_problem
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import CONFIG_NAMESPACE
from corewise.vocabulary.qos import QoSRules
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod

_REASONS = {each.value: each for each in Reason}
_ON_ONE_OBJECT = frozenset({Reason.CONFIG_INVALID, Reason.KOORDINATOR_WEBHOOK_PRESENT})
"""What each node's assessment says again of the one object at fault."""
_SCORES_EVERY = timedelta(minutes=1)
_CLEAR_THEMSELVES = frozenset(
    {
        Reason.EVICTED_FOR_CPU_TIME,
        Reason.EVICTED_FOR_MEMORY,
        Reason.OFFER_BELOW_REQUESTS,
        Reason.RAISE_ON_BUSY_NODE,
        Reason.RECORD_UNUSABLE,
        Reason.SAMPLE_MISSED,
        Reason.SLICE_MISSING,
        Reason.STATUS_CHANGE_UNDONE,
    }
)
"""corewise has dealt with these, or they end when the load changes: look at them if they last."""
STARTING_SECONDS = 120
"""How long after its creation an object may be incomplete."""


class Severity(StrEnum):
    """The urgency of a problem."""

    ERROR = "error"
    WARNING = "warning"
    OVER = "over"


def severity_of(reason: str) -> Severity:
    """Return the severity of a problem that exists now."""
    return Severity.WARNING if reason in _CLEAR_THEMSELVES else Severity.ERROR


@dataclass(frozen=True, slots=True)
class KnownProblem:
    """``name`` is the object's, NAMESPACE/NAME if it is in one; ``reason`` is "" where there is no code.

    ``node``: the node that it is on or about, "" if there is none. ``correction``: a command that ends it.
    """

    kind: str
    name: str
    reason: str
    message: str
    node: str = ""
    correction: str = ""

    @property
    def key(self) -> str:
        return f"{self.reason} {self.kind}/{self.name}"

    @property
    def severity(self) -> Severity:
        return severity_of(self.reason)

    @property
    def meaning(self) -> str:
        """The sentence that holds for every object with this reason; "" without a code."""
        return _REASONS[self.reason].meaning if self.reason in _REASONS else ""

    @property
    def fix(self) -> str:
        namespace = self.name.partition("/")[0] if self.kind == "ConfigMap" else CONFIG_NAMESPACE
        return fix_of(_REASONS[self.reason], namespace) if self.reason in _REASONS else ""

    @property
    def command(self) -> str:
        """The command that ends the problem, or that says more; "" if there is none."""
        match self.kind:
            case "Node" if self.reason.startswith(("Offer", "Suppression", "Slice", "Batch")):
                return f"corewise explain suppression {self.name}"
            case "Node":
                return f"corewise explain node {self.name}"
            case "Pod":
                return f"corewise explain pod {self.name}"
            case "ConfigMap" if self.reason == Reason.MODEL_RATIO_OFF:
                return "corewise config suggest --cluster"
            case "ConfigMap":
                namespace, _, name = self.name.partition("/")
                read = f"kubectl -n {namespace} get configmap {name} -o yaml"
                return f"{read} | corewise config check - --cluster"
        return self.correction


class ProblemHistory:
    """Since when each problem is known: as its Event says, else since this program first saw it.

    A problem that was there at the first look is older than that: its row says ``atLeast``.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, bool]] = {}
        self._looked = False

    def rows(
        self,
        problems: Iterable[KnownProblem],
        events: Iterable[Event],
        now: datetime,
        created: Callable[[KnownProblem], str | None] = lambda _: None,
    ) -> list[dict[str, Any]]:
        """Return a row for each problem that is so now, and for those that only Events tell of.

        ``created``: when the object of a problem was created, None where that is not known.
        """
        warned = {each.key: (each, event) for event in events if (each := _of_event(event)) is not None}
        current = {each.key: each for each in problems}
        first = (rfc3339(now), not self._looked)
        self._seen, self._looked = {key: self._seen.get(key, first) for key in current}, True
        rows = []
        for key, problem in {**{key: each for key, (each, _) in warned.items()}, **current}.items():
            event, is_so = warned[key][1] if key in warned else None, key in current
            if event is not None and not is_so and _while_starting(event, created(problem)):
                continue
            since = event.first_timestamp if event else None
            seen, at_least = self._seen.get(key, (None, False))
            rows.append(
                {
                    "name": key,
                    "reason": problem.reason or None,
                    "kind": problem.kind,
                    "object": problem.name,
                    "node": problem.node or None,
                    "severity": (problem.severity if is_so else Severity.OVER).value,
                    "meaning": problem.meaning,
                    "message": problem.message,
                    "fix": problem.fix,
                    "command": problem.command,
                    "since": since or seen,
                    "atLeast": not since and at_least,
                    "lastEvent": event.last_timestamp if event else None,
                    "current": is_so,
                }
            )
        return sorted(rows, key=lambda row: (not row["current"], row["reason"] or "", row["object"]))


def _of_event(event: Event) -> KnownProblem | None:
    about = event.involved_object
    if event.reason not in _REASONS or event.type != "Warning":
        return None
    name = f"{about.namespace}/{about.name}" if about.namespace and about.kind != "Node" else about.name
    node = about.name if about.kind == "Node" else ""
    return KnownProblem(about.kind, name, event.reason, event.message, node)


def _while_starting(event: Event, created: str | None) -> bool:
    """Whether an Event only says that its object was not complete yet."""
    last = event.last_timestamp or event.first_timestamp
    if not created or not last:
        return False
    try:
        age = datetime.fromisoformat(last) - datetime.fromisoformat(created)
    except (ValueError, TypeError):
        return False
    return age.total_seconds() <= STARTING_SECONDS


class ProblemTable:
    """The rows of all problems of a cluster; a row that is as before is the same object."""

    def __init__(self, cluster: FollowedCluster) -> None:
        self._cluster, self._history = cluster, ProblemHistory()
        self._rows: dict[str, dict[str, Any]] = {}
        self._reported: dict[str, tuple[NodeRow, tuple[KnownProblem, ...]]] = {}
        self._scores: tuple[datetime, tuple[KnownProblem, ...]] | None = None
        self._configuration: tuple[object, tuple[KnownProblem, ...]] = None, ()

    def rows(self, now: datetime) -> list[dict[str, Any]]:
        """Return the rows as they are now."""
        cluster, before = self._cluster, self._rows
        state, tables = cluster.state, cluster.data.tables
        nodes = tables["nodes"].rows(now)
        found = (
            *self._of_configuration(),
            *self._of_scores(now),
            *of_nodes(nodes),
            *of_pods(tables["pods"].rows(now), state.pods.items, state.counted.rules),
            *of_scheduler(state.counted.findings, state.counted.cluster),
            *self._of_reports(nodes, now),
            *of_namespaces(cluster.namespaces.items.values()),
            *of_caches(cluster.caches),
        )
        rows = self._history.rows(map(self._placed, found), cluster.events, now, self._created)
        self._rows = {row["name"]: old if (old := before.get(row["name"])) == row else row for row in rows}
        return list(self._rows.values())

    def _of_configuration(self) -> tuple[KnownProblem, ...]:
        """Return the problems with the ConfigMap and the webhook, as last time if nothing differs.

        Each entry of the ConfigMap is tried on the labels of every node, which most changes of nodes keep.
        """
        known = self._cluster.known
        of = known.reading, known.config_map, known.node_labels(), known.koordinator
        if self._configuration[0] != of:
            hook = known.webhooks.get(known.koordinator.partition("/")[0]) if known.koordinator else None
            meta = hook.metadata if hook else None
            self._configuration = of, tuple(of_configuration(*of, meta))
        return self._configuration[1]

    def _of_scores(self, now: datetime) -> tuple[KnownProblem, ...]:
        """Return the problems with configured ratios, once a minute: scores change about once a day."""
        if self._scores is None or now - self._scores[0] >= _SCORES_EVERY:
            known = self._cluster.known
            nodes = known.nodes.items.values()
            found = of_scores(nodes, known.stated_of, known.reading, known.config_map, now)
            self._scores = now, tuple(found)
        return self._scores[1]

    def _placed(self, problem: KnownProblem) -> KnownProblem:
        """Return the problem with the node that its pod is on."""
        if problem.kind != "Pod" or problem.node:
            return problem
        namespace, _, name = problem.name.partition("/")
        pod = self._cluster.state.pods.get(name, namespace)
        return replace(problem, node=pod.spec.node_name) if pod is not None else problem

    def _created(self, problem: KnownProblem) -> str | None:
        if problem.kind == "Node":
            node = self._cluster.known.nodes.get(problem.name)
            return node.metadata.creation_timestamp if node is not None else None
        namespace, _, name = problem.name.partition("/")
        pod = self._cluster.state.pods.get(name, namespace) if problem.kind == "Pod" else None
        return pod.metadata.creation_timestamp if pod is not None else None

    def _of_reports(self, nodes: Iterable[NodeRow], now: datetime) -> Iterator[KnownProblem]:
        """Yield the problems that agents report; a node's are recomputed only when its row has changed."""
        before, self._reported = self._reported, {}
        for row, report in zip(nodes, self._cluster.data.reports(now), strict=True):
            known = before.get(row.name)
            if known is None or known[0] is not row:
                node = self._cluster.known.nodes.items[row.name]
                shown = report.labeled or report.report is not None or report.unreadable
                known = row, tuple(of_report(self._cluster.subject(node))) if shown else ()
            self._reported[row.name] = known
            yield from known[1]


def counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of problems of each severity, and of nodes that have any now."""
    found, nodes = Counter[str](), set[str]()
    for row in rows:
        found[row["severity"]] += 1
        if row["current"] and row["node"]:
            nodes.add(row["node"])
    return {**{each.value: found[each] for each in Severity}, "nodes": len(nodes)}


def by_node(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the reasons and severities of the problems that each node has now, on it or on its pods."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["current"] and row["node"]:
            found.setdefault(row["node"], {})[row["reason"] or row["kind"]] = row["severity"]
    return {node: tuple(sorted(reasons.items())) for node, reasons in found.items()}


def of_configuration(
    reading: ConfigurationReading,
    config_map: ConfigMap | None,
    labels: Iterable[tuple[str, Mapping[str, str]]],
    koordinator: str,
    webhook: ObjectMeta | None,
) -> Iterator[KnownProblem]:
    """Yield the manager's problems with the ConfigMap, and with Koordinator's webhook.

    ``labels``: those of each node. ``koordinator`` names the webhook that amplifies nodes, if there is one,
    and ``webhook`` is the metadata of the object it is in.
    """
    for each in events_about(reading, config_map, labels, was_bad=False):
        yield KnownProblem("ConfigMap", f"{each.namespace}/{each.name}", each.reason, each.message)
    for each in event_about_koordinator(koordinator, webhook):
        yield KnownProblem(each.regarding_kind, each.name, each.reason, each.message)


def of_scores(
    nodes: Iterable[Node],
    stated_of: Callable[[str], Annotations],
    reading: ConfigurationReading,
    config_map: ConfigMap | None,
    now: datetime,
) -> Iterator[KnownProblem]:
    """Yield the problem that configured ratios are not those that the nodes measured.

    ``stated_of`` returns the annotations of a node's NodeResourceTopology.
    """
    stated = [(node.metadata, stated_of(node.metadata.name)) for node in nodes]
    fleet = Fleet.of(read_scores((meta.name, found) for meta, found in stated), now)
    off = configured_off(fleet, ratio_nodes(stated), reading.configuration.normalization)
    if off and config_map is not None:
        meta = config_map.metadata
        name = f"{meta.namespace}/{meta.name}"
        yield KnownProblem("ConfigMap", name, Reason.MODEL_RATIO_OFF, off_message(off))


def of_nodes(rows: Iterable[NodeRow]) -> Iterator[KnownProblem]:
    """Yield the problems that the assessments of nodes warn of."""
    for row in rows:
        for each in row.problems:
            if each.reason not in _ON_ONE_OBJECT:
                yield KnownProblem("Node", row.name, each.reason, each.message, row.name)


def of_pods(rows: Iterable[PodRow], pods: Mapping[Any, Pod], rules: QoSRules) -> Iterator[KnownProblem]:
    """Yield the problems with labels, annotations and requests of pods."""
    for row in rows:
        pod = pods.get(tuple(row.name.split("/", 1))) if row.problem else None
        if pod is not None:
            wrong = pod_facts(pod, rules).problem or placement(pod, rules)[1]
            yield KnownProblem("Pod", row.name, row.problem, wrong.message if wrong else "")


def of_scheduler(findings: Mapping[str, Iterable[Finding]], cluster: Cluster) -> Iterator[KnownProblem]:
    """Yield the parts of nodes and pods that the scheduler cannot use, and the CPUs that two pods claim."""
    for name, found in findings.items():
        for each in found:
            on_pod = "/" in name
            node = "" if on_pod else name
            yield KnownProblem("Pod" if on_pod else "Node", name, each.reason, each.message, node)
    for node in cluster.nodes:
        ledger = cluster.ledger(node)
        for conflict in ledger.conflicts if ledger else ():
            message = f"{node}: {conflict.message}"
            yield KnownProblem("Pod", conflict.owner, conflict.reason, message, node)


def of_report(subject: Subject) -> Iterator[KnownProblem]:
    """Yield the problems that a node's agent reports, or that it does not report."""
    name, report = subject.node.name, subject.node.report
    suppression, resctrl = (report.suppression, report.resctrl) if report else (None, None)
    for reason in subject.problems:
        if reason not in _ON_ONE_OBJECT:
            said = suppression.why if suppression and suppression.reason == reason else ""
            yield KnownProblem("Node", name, reason, said or reason.meaning, name)
    if resctrl and resctrl.reason in _REASONS and _REASONS[resctrl.reason].warning:
        yield KnownProblem("Node", name, resctrl.reason, resctrl.why, name)


def of_namespaces(namespaces: Iterable[Namespace]) -> Iterator[KnownProblem]:
    """Yield the labels of namespaces that cannot be read."""
    for each in namespaces:
        meta = each.metadata
        if problem := normalize_label_problem(meta.name, meta.labels):
            command = normalize_label_command(meta.name, meta.labels)
            yield KnownProblem("Namespace", meta.name, problem.reason, problem.message, correction=command)


def of_caches(caches: Iterable[Cache[Any]]) -> Iterator[KnownProblem]:
    """Yield the objects that cannot be decoded."""
    for cache in caches:
        for key, message in cache.problems.items():
            name = key if isinstance(key, str) else "/".join(key)
            said = f"cannot be read, the last good state stays: {message}"
            yield KnownProblem(cache.plural, name, "", said)
