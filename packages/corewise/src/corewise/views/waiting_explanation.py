"""The explanation of a pod's wait for CPUs, for ``corewise explain interference NAMESPACE/POD``.

What the pod's agent found stands on the NodeResourceTopology of the node, so neither agent nor node need be
reachable. A report is *stale* if it was due again three times since: every minute while pods wait, every ten
minutes otherwise.

A report that does not name a pod says that it waits little only if the agent watched the pod for a minute
before, knows the wait of every pod, and named all that wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import msgspec

from corewise.kube.client import Client
from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES
from corewise.views.errors import no_pod
from corewise.views.explanation import Explanation, Line, Part
from corewise.views.offline_reports import age_text, agent_command
from corewise.views.text import count
from corewise.vocabulary.interference_report import (
    OWN_REASONS,
    InterferenceReport,
    SuspectReport,
    WaitingReport,
    decode,
)
from corewise.vocabulary.names import INTERFERENCE_REPORT
from corewise.vocabulary.reasons import Reason
from corewise.workload.pods import WORKLOAD_PODS, Pod

_STALE_WAITING, _STALE = 180, 1800
_WATCHED_AT_LEAST = 60
"""Seconds from a pod's binding to a report that judges it: half of them pass until a verdict is written."""
_NAMED = frozenset({Reason.ANTAGONIST_NAMED, Reason.ANTAGONIST_OUTSIDE_PODS})


@dataclass(frozen=True, slots=True)
class WaitSubject:
    """A pod, and the report of its node. ``text`` is that of the annotation, None if there is none."""

    name: str
    pod: Pod
    text: str | None = None
    topology: bool = True
    """Whether the node's NodeResourceTopology exists and may be read."""


async def read_waiting(client: Client, name: str, now: datetime) -> tuple[Explanation, list[str]]:
    """Return the explanation of the wait of the pod NAMESPACE/NAME, and the unreadable objects."""
    namespace, _, pod_name = name.rpartition("/")
    where = f"{namespace or 'default'}/{pod_name}"
    missing: list[str] = []
    async with client:
        try:
            pod = await client.get(WORKLOAD_PODS, pod_name, namespace or "default")
        except NotFound as error:
            raise await no_pod(client, namespace or "default", pod_name) from error
        subject = WaitSubject(where, pod)
        if pod.spec.node_name:
            try:
                topology = await client.get(NODE_RESOURCE_TOPOLOGIES, pod.spec.node_name)
            except NotFound:
                subject = WaitSubject(where, pod, topology=False)
            except Forbidden:
                subject = WaitSubject(where, pod, topology=False)
                missing.append(f"NodeResourceTopology {pod.spec.node_name}: you may not read it")
            else:
                subject = WaitSubject(where, pod, topology.metadata.annotations.get(INTERFERENCE_REPORT))
    return explain_waiting(subject, now), missing


def fresh_report(text: str | None, now: datetime) -> InterferenceReport | None:
    """Return an agent's report; None if there is none, or it cannot be read or is stale."""
    report = decode(text or "")
    if report is None:
        return None
    age = _age(report.time, now)
    is_slow = all(each.reason in OWN_REASONS for each in report.pods)
    return None if age is None or age > (_STALE if is_slow else _STALE_WAITING) else report


def is_too_new(pod: Pod, report: InterferenceReport) -> bool:
    """Whether a pod was bound too shortly before a report to be judged in it."""
    try:
        watched = datetime.fromisoformat(report.time) - datetime.fromisoformat(pod.scheduled_at)
    except (ValueError, TypeError):
        return False
    return watched.total_seconds() < _WATCHED_AT_LEAST


def judges_all(report: InterferenceReport) -> bool:
    """Whether the pods that a report does not name wait little, but for new ones."""
    return not report.unknown and not report.left_out


def explain_waiting(subject: WaitSubject, now: datetime) -> Explanation:
    """Explain what a pod waits for."""
    node, phase = subject.pod.spec.node_name or "", subject.pod.status.phase
    unknown = _unknown(subject, node, phase)
    if unknown is not None:
        return _explanation(subject, "is not known to wait", {"reason": None}, unknown)
    report = decode(subject.text or "")
    if report is None:
        lines = [Line("report", f"the annotation {INTERFERENCE_REPORT} of node {node} cannot be read")]
        return _explanation(subject, "is not known to wait", {"reason": None}, lines)
    age = _age(report.time, now)
    record: dict[str, object] = {"reportAge": age, "watched": report.watched, "sources": report.sources}
    if age is None or fresh_report(subject.text, now) is None:
        lines = [
            Line("report", f"the last report of node {node} is {age_text(age)} old: its agent does not run"),
            Line("next", agent_command(node)),
        ]
        return _explanation(subject, "is not known to wait", {**record, "reason": None}, lines)
    waiting = next((each for each in report.pods if each.uid == subject.pod.metadata.uid), None)
    if waiting is None:
        return _not_waiting(subject, report, record, age)
    heading = "waits for CPUs" if waiting.reason != Reason.OWN_QUOTA_THROTTLES else "is throttled"
    record |= msgspec.to_builtins(waiting)
    record["antagonist"] = _antagonist(waiting)
    return _explanation(subject, heading, record, list(_lines(waiting, report, age, now)))


def _antagonist(waiting: WaitingReport) -> str | None:
    """Return the name of the neighbor that the verdict names; None if it names none."""
    return waiting.suspects[0].name if waiting.reason in _NAMED and waiting.suspects else None


def _unknown(subject: WaitSubject, node: str, phase: str) -> list[Line] | None:
    """Return the lines about a pod without a report; None if there is one."""
    if not node:
        return [
            Line("pod", "it is on no node yet"),
            Line("next", f"corewise explain pod {subject.name}"),
        ]
    if phase != "Running":
        return [Line("pod", f"it does not run: its phase is {phase or 'unknown'}")]
    if subject.text is None:
        what = f"no agent has reported on pods of node {node}"
        if not subject.topology:
            what += ": its NodeResourceTopology cannot be read"
        return [Line("report", what), Line("next", agent_command(node))]
    return None


def _explanation(
    subject: WaitSubject, heading: str, record: dict[str, object], lines: list[Line]
) -> Explanation:
    node = subject.pod.spec.node_name or None
    where = f" on node {node}" if node else ""
    about = {"pod": subject.name, "node": node, "antagonist": None}
    return Explanation(f"{subject.name}: {heading}{where}", [Part({**about, **record}, lines)])


def _not_waiting(
    subject: WaitSubject, report: InterferenceReport, record: dict[str, object], age: int
) -> Explanation:
    """Explain a pod that the report does not name: it waits little, unless the report does not judge it."""
    reason: Reason | None = None
    heading, lines = "is not known to wait", [_report_line(report, age)]
    if 0 < report.unknown >= report.watched:
        reason = Reason.CPU_WAIT_UNKNOWN
        lines = [Line("to fix", reason.fix)]
    elif is_too_new(subject.pod, report):
        reason = Reason.TOO_FEW_SAMPLES
        when = "the agent reports within a minute if the pod waits, else every 10 minutes"
        lines.append(Line("next", f"ask again: {when}"))
    elif judges_all(report):
        reason, heading = Reason.WAITS_LITTLE, "waits little for CPUs"
        text = "the CPUs are not the cause: look at memory, disk, network, and what it calls"
        lines.append(Line("next", text))
    else:
        lines += _doubts(report)
    if reason is not None:
        lines.insert(0, Line("verdict", f"{reason}: {reason.meaning}"))
    return _explanation(subject, heading, {**record, "reason": reason}, lines)


def _doubts(report: InterferenceReport) -> Iterator[Line]:
    """Yield the reasons why a pod that the report does not name may wait all the same."""
    if report.unknown:
        pods = count(report.unknown, "pod")
        yield Line("but", f"the kernel does not tell the wait of {pods} there: it may be one of them")
        yield Line("to fix", Reason.CPU_WAIT_UNKNOWN.fix)
    if report.left_out:
        pods = count(report.left_out, "more pod")
        yield Line("but", f"left out of the report: {pods} that wait: it may be one of them")


def _report_line(report: InterferenceReport, age: int) -> Line:
    pods, sources = count(report.watched, "pod"), " and ".join(report.sources) or "nothing"
    return Line("report", f"{pods} watched, by {sources}; last look {age_text(age)} before it was read")


def _lines(waiting: WaitingReport, report: InterferenceReport, age: int, now: datetime) -> Iterator[Line]:
    wanted = waiting.used + waiting.waited + waiting.among_itself
    part = f"{waiting.waited / wanted:.0%} of the time it wants to run" if wanted else "all the time"
    yield Line("runs", f"{waiting.used:.2f} CPUs")
    yield Line("waits", f"{waiting.waited:.2f} s a second while others run: {part}")
    if waiting.among_itself:
        yield Line("waits", f"{waiting.among_itself:.2f} s a second for its own threads")
    if waiting.throttled:
        yield Line("waits", f"{waiting.throttled:.2f} s a second for its quota, each CPU counted")
    reason = Reason(waiting.reason) if waiting.reason in tuple(Reason) else None
    since = age_text(_age(waiting.since, now))
    meaning = f": {reason.meaning}" if reason else ""
    yield Line("verdict", f"{waiting.reason} for {since}{meaning}")
    named = _antagonist(waiting)
    for index, suspect in enumerate(waiting.suspects):
        label = "antagonist" if named and not index else "suspect"
        yield from _suspect_lines(suspect, label)
    if reason is not None and reason.fix:
        yield Line("to fix", reason.fix)
    if named and "/" in named:
        namespace, _, name = named.partition("/")
        yield Line("next", f"kubectl -n {namespace} describe pod {name}")
    yield Line("samples", f"{waiting.samples} over {waiting.seconds:.0f} s")
    yield _report_line(report, age)


def _suspect_lines(suspect: SuspectReport, label: str) -> Iterator[Line]:
    """Yield a neighbor, and the figures that speak for and against it."""
    yield Line(label, suspect.name)
    yield Line(
        "  for", f"it explains {suspect.share:.0%} of the wait, {suspect.slowdown:.0%} of the wanted time"
    )
    uses = f"it uses {suspect.used:.2f} CPUs"
    if suspect.request is None:
        yield Line("  for", uses)
    elif suspect.used > suspect.request:
        yield Line("  for", f"{uses} and wants {suspect.wanted:.2f}; it requests {suspect.request:.2f}")
    else:
        yield Line("  against", f"{uses}, no more than the {suspect.request:.2f} that it requests")
    if suspect.correlation is not None:
        side = "for" if suspect.correlation > 0 else "against"
        text = f"correlation of what it wants with the wait: {suspect.correlation:+.2f}"
        yield Line(f"  {side}", text)
    yield Line("  against", f"it does not explain {1 - suspect.share:.0%} of the wait")


def _age(time: str, now: datetime) -> int | None:
    try:
        return max(0, int((now - datetime.fromisoformat(time)).total_seconds()))
    except (ValueError, TypeError):
        return None
