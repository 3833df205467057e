"""A Node's report about its offline pods: its agent's data, their age, and its state in a word (pure).

A report is *old*, or stale, if its last sample, and those that it says are missing since, were due more than
three intervals and 90 s ago: the agent publishes at least that often, so it is gone, or cannot write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from corewise.suppression.offer import REPEATED_AFTER
from corewise.views.explanation import Line
from corewise.views.text import count
from corewise.vocabulary.names import OFFLINE_REPORT, OVERSUBSCRIPTION
from corewise.vocabulary.offline_report import OfferState, OfflineReport, decode
from corewise.vocabulary.reasons import Reason

_INTERVALS = 3
_NEVER = 1970
"""The year of a sample that there never was."""
_BITES = 95
"""Percent of their quota that offline pods use where the quota is what holds them."""
_SQUEEZING = frozenset({Reason.SUPPRESSION_STEPPED_DOWN, Reason.SUPPRESSION_AT_FLOOR})

SUPPRESSING, RECOVERING = "suppressing", "recovering"


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node and its report. ``age`` is that of the last sample in whole seconds; None if there was none.

    ``unreadable``: the annotation is there, but not a report. ``labeled``: oversubscription is asked for.
    """

    name: str
    labeled: bool
    report: OfflineReport | None = None
    unreadable: bool = False
    age: int | None = None

    @property
    def stale(self) -> bool:
        """Whether there is a report, and it is too old to be relied on."""
        report = self.report
        if report is None:
            return False
        if self.age is None:
            return report.state is not OfferState.WITHDRAWN
        return self.age > self.old_after

    @property
    def old_after(self) -> int:
        """The age in seconds up to which an agent that runs may leave a report; 0 without one."""
        report = self.report
        if report is None:
            return 0
        return (_INTERVALS + report.missing) * report.interval_seconds + REPEATED_AFTER

    def at(self, now: datetime) -> NodeReport:
        """Return the same report with the age that it has now."""
        return self if self.report is None else replace(self, age=_age(self.report.time, now))


def node_report(
    name: str, labels: Mapping[str, str], annotations: Mapping[str, str], now: datetime
) -> NodeReport:
    """Read a Node's annotation. A time that is yet to come (clocks differ) is age 0."""
    text = annotations.get(OFFLINE_REPORT)
    labeled = labels.get(OVERSUBSCRIPTION) == "true"
    if text is None:
        return NodeReport(name, labeled)
    report = decode(text)
    if report is None:
        return NodeReport(name, labeled, unreadable=True)
    return NodeReport(name, labeled, report).at(now)


def _age(time: str, now: datetime) -> int | None:
    try:
        moment = datetime.fromisoformat(time)
        return max(0, int((now - moment).total_seconds())) if moment.year > _NEVER else None
    except (ValueError, TypeError):
        return None


def suppression_state(report: OfflineReport) -> str:
    """Return "suppressing" while offline pods are squeezed, "recovering" while their quota rises, else "".

    With one quota for all, they are squeezed while it comes down, is at its floor, or is used up.
    """
    suppression = report.suppression
    if suppression is None:
        return ""
    if suppression.task:
        return suppression.task
    quota = suppression.quota_milli
    used_up = bool(quota) and report.offline_milli * 100 >= (quota or 0) * _BITES
    if suppression.reason in _SQUEEZING or used_up:
        return SUPPRESSING
    return RECOVERING if suppression.reason == Reason.SUPPRESSION_STEPPED_UP else ""


def eviction_lines(report: OfflineReport | None) -> Iterator[Line]:
    """Yield the state of eviction: whether a pod is evicted, the reason, the next pod and the last one."""
    eviction = report.eviction if report else None
    if eviction is not None:
        dry = "; a dry run: no pod is evicted" if eviction.dry_run else ""
        yield Line("eviction", f"{eviction.reason}: {eviction.why}{dry}")
        yield Line("goes next", f"{eviction.next}: {eviction.order}" if eviction.next else "none")
        if eviction.last:
            yield Line("went last", eviction.last)
        yield from _fix(eviction.reason)


def _fix(code: str) -> Iterator[Line]:
    if code in tuple(Reason) and Reason(code).fix:
        yield Line("to fix", Reason(code).fix)


def isolation_lines(report: OfflineReport | None) -> Iterator[Line]:
    """Yield the state of isolation: how many offline pods are idle, or the reason why none is."""
    isolation = report.isolation if report else None
    if isolation is not None:
        yield Line("isolation", f"{isolation.reason}: {isolation.why}")
        yield from _fix(isolation.reason)


def resctrl_lines(report: OfflineReport | None) -> Iterator[Line]:
    """Yield the limits on cache and memory bandwidth of offline pods, or the reason why there are none."""
    resctrl = report.resctrl if report else None
    if resctrl is not None:
        tasks = f", {count(resctrl.tasks, 'task')} in it" if resctrl.schemata else ""
        yield Line("resctrl", f"{resctrl.reason}: {resctrl.why}{tasks}")
        yield from _fix(resctrl.reason)


def offer_problem(report: OfflineReport) -> str:
    """Return the reason code of the problem with the offer, if there is one."""
    match report.state:
        case OfferState.FROZEN:
            return Reason.OFFER_FROZEN
        case OfferState.WITHDRAWN:
            return Reason.OFFER_WITHDRAWN
        case OfferState.FRESH:
            return ""


def age_text(seconds: int | None) -> str:
    """Return an age as kubectl prints them: "4s", "12m", "3h", "2d"."""
    if seconds is None:
        return "?"
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def agent_command(node: str) -> str:
    """Return the command that shows whether a node's agent runs."""
    where = f"--field-selector spec.nodeName={node}"
    return f"kubectl get pods -A -o wide -l app.kubernetes.io/component=agent {where}"
