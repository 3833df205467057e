"""What there is to say about a node's offline pods and their CPU, in lines for people (pure).

The agent's report has what was measured and decided; the formula is shown with these numbers in it. What is
configured stands beside what the agent reports to have in force, since the two may differ for a moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from corewise.cli.explanation import Line
from corewise.cli.offline_reports import (
    RECOVERING,
    SUPPRESSING,
    NodeReport,
    age_text,
    offer_problem,
    suppression_state,
)
from corewise.cli.offline_settings import OfflineSettings
from corewise.cli.output import count, cpus, gibibytes, some
from corewise.cli.suppression_course import course
from corewise.config.colocation import SuppressionMode, SuppressionSettings
from corewise.vocabulary.names import BATCH_CPU, OVERSUBSCRIPTION
from corewise.vocabulary.offline_report import OfferState, OfflineReport, SuppressionReport
from corewise.vocabulary.reasons import Reason

_STATES = {SUPPRESSING: "squeezed", RECOVERING: "let go", "": "not squeezed"}


@dataclass(frozen=True, slots=True)
class Subject:
    """All that is known of one node. ``label`` is the value of the label that turns oversubscription on.

    ``batch_cpu_milli`` and ``batch_memory`` are what the Node shows; ``native`` the names of its BestEffort
    pods that are no offline pods, None if the pods could not be read; ``tiny`` those of offline pods that ask
    for so little batch-cpu that CPUs were meant.
    """

    node: NodeReport
    label: str | None
    settings: OfflineSettings
    batch_cpu_milli: int | None = None
    batch_memory: int | None = None
    native: Sequence[str] | None = None
    tiny: Sequence[str] = ()

    @property
    def problems(self) -> tuple[Reason, ...]:
        """The reason codes of what is wrong, the most urgent first."""
        found = []
        report = self.node.report
        if self.label not in {None, "true", "false"}:
            found.append(Reason.OVERSUBSCRIPTION_LABEL_INVALID)
        codes = [offer_problem(report), _code(report.suppression)] if report else []
        found += [Reason(code) for code in codes if code in tuple(Reason) and Reason(code).text.warning]
        if self.settings.oversubscription.invalid or self.settings.suppression.invalid:
            found.append(Reason.CONFIG_INVALID)
        if self.tiny:
            found.append(Reason.BATCH_AMOUNT_TINY)
        return tuple(found)


def _code(suppression: SuppressionReport | None) -> str:
    return suppression.reason if suppression else ""


def lines_about(subject: Subject) -> tuple[str, list[Line]]:
    """Return the heading and the lines."""
    report = subject.node.report
    lines = [*_switch(subject), *_settings(subject)]
    if report is not None:
        lines += [
            *_sample(subject.node, report),
            *_usage(report),
            *_offer(report),
            *_published(subject, report),
            *_quota(subject, report),
            *_native(subject, report),
        ]
    return _heading(subject), [*lines, *_remedies(subject)]


def _heading(subject: Subject) -> str:
    report, name = subject.node.report, subject.node.name
    if subject.node.unreadable:
        return f"{name}: the report of its agent cannot be read; it may be another version's"
    if report is None and subject.node.labelled:
        return f"{name}: oversubscription is on, and its agent reports nothing yet"
    if report is None:
        return f"{name}: oversubscription is off    {Reason.OVERSUBSCRIPTION_OFF}"
    old = f", {age_text(subject.node.age)} ago" if subject.node.stale else ""
    told = f"offers {cpus(report.offered_milli)} of {cpus(report.allocatable_milli)} CPU{old}"
    suppression = report.suppression
    if suppression is None:
        return f"{name}: {told}; not suppressed    {Reason.SUPPRESSION_OFF}"
    state = suppression_state(report)
    return f"{name}: {told}; offline pods are {_STATES.get(state, state)}    {suppression.reason}"


def _switch(subject: Subject) -> Iterable[Line]:
    value = "is absent" if subject.label is None else f"is {subject.label}"
    yield Line("switch", f"label {OVERSUBSCRIPTION} {value}")


def _settings(subject: Subject) -> Iterable[Line]:
    offer, quota = subject.settings.oversubscription, subject.settings.suppression
    if offer.settings is None:
        yield Line("settings", f"oversubscription: {offer.source}")
    else:
        values = f"ratio {offer.settings.ratio}, every {offer.settings.interval} s"
        yield Line("settings", f"oversubscription: {values}    {offer.source}")
    report = subject.node.report
    if report and offer.settings and str(offer.settings.ratio) != report.ratio:
        yield Line("settings", f"the agent still has ratio {report.ratio} in force")
    told = quota.source if quota.settings is None else f"{_mode(quota.settings)}    {quota.source}"
    yield Line("settings", f"suppression: {told}")


def _mode(settings: SuppressionSettings) -> str:
    if not settings.enabled:
        return "off"
    if settings.mode is SuppressionMode.BESTEFFORT_QUOTA:
        fast = ", shrinking at once (fastSuppress)" if settings.fast else ""
        return f"{settings.mode}, adjustStep {settings.adjust_step}{fast}"
    return (
        f"{settings.mode}, thresholds {settings.recover} {settings.low} {settings.high}, "
        f"adjustQuotaStep {settings.quota_step}, adjustPodNum {settings.pods_a_cycle}"
    )


def _sample(node: NodeReport, report: OfflineReport) -> Iterable[Line]:
    missing = f"; {report.missing} missed in a row" if report.missing else ""
    old = "; older than it should be: is the agent running?" if node.stale else ""
    yield Line(
        "last sample",
        f"{report.time}, {age_text(node.age)} old; one every {report.interval_seconds} s; "
        f"{report.state}{missing}{old}",
    )


def _usage(report: OfflineReport) -> Iterable[Line]:
    node, offline, online = map(cpus, (report.node_milli, report.offline_milli, report.online_milli))
    yield Line("allocatable", f"{cpus(report.allocatable_milli)} CPU, raw")
    yield Line("node", f"{node} CPU used, by everything")
    yield Line("offline", f"{offline} CPU of that by the BestEffort slice")
    yield Line("online", f"{node} - {offline} = {online} CPU, daemons of the system too")
    if report.pinned_milli:
        yield Line("CPUSet pods", f"{cpus(report.pinned_milli)} CPU owned and not used: cannot be lent")


def _offer(report: OfflineReport) -> Iterable[Line]:
    if report.state is OfferState.WITHDRAWN:
        yield Line("offer", "nothing: withdrawn, there was no sample for 15 minutes")
    else:
        yield Line("offer", f"{formula(report)} = {cpus(report.raw_offer_milli)} CPU by the last sample")
        smoothed = f"smoothed over {count(report.samples, 'sample')}, each weighs twice the one before"
        yield Line("offer", f"{cpus(report.offered_milli)} CPU {smoothed}")
        memory = report.memory
        yield Line(
            "offer",
            f"memory: ({gibibytes(memory.allocatable)} - {gibibytes(memory.online)}) x {report.ratio}, "
            f"smoothed {gibibytes(memory.offered)} GiB",
        )
    code = report.limited_by
    if code:
        meaning = f": {Reason(code).text.meaning}" if code in tuple(Reason) else ""
        yield Line("limited by", f"{code}{meaning}")


def formula(report: OfflineReport) -> str:
    """Return the formula of the CPU offer with its numbers in it."""
    parts = [cpus(report.allocatable_milli), cpus(report.online_milli)]
    if report.pinned_milli:
        parts.append(cpus(report.pinned_milli))
    idle = report.allocatable_milli - report.online_milli - report.pinned_milli
    if idle < 0:
        return f"max(0, {' - '.join(parts)}) x {report.ratio}"
    return f"({' - '.join(parts)}) x {report.ratio}"


def _published(subject: Subject, report: OfflineReport) -> Iterable[Line]:
    shown = "nothing" if subject.batch_cpu_milli is None else str(subject.batch_cpu_milli)
    yield Line(
        "on the Node",
        f"{BATCH_CPU} {shown}: offer {cpus(report.offered_milli)} CPU x normalization ratio "
        f"{report.normalization_ratio}, in thousandths",
    )


def _quota(subject: Subject, report: OfflineReport) -> Iterable[Line]:
    suppression = report.suppression
    if suppression is None:
        yield Line("quota", "kubelet's own: offline pods are not held back")
        return
    if suppression.step_milli is not None:
        yield Line(
            "quota",
            f"{cpus(suppression.quota_milli)} CPU, target {cpus(suppression.target_milli)} CPU, "
            f"at most {cpus(suppression.step_milli)} CPU each adjustment",
        )
    yield Line("because", f"{suppression.reason}: {suppression.why}")
    yield Line("next", course(suppression, report, subject.settings.suppression.settings))
    if suppression.repaired:
        yield Line(
            "repaired",
            f"{count(suppression.repaired, 'time')} since the agent's start: somebody else had changed it",
        )


def _native(subject: Subject, report: OfflineReport) -> Iterable[Line]:
    yield Line("offline pods", str(report.offline_pods))
    if report.native_best_effort:
        bound = report.suppression is not None and report.suppression.mode == SuppressionMode.BESTEFFORT_QUOTA
        squeezed = "squeezed along" if bound else "not squeezed"
        names = f": {some(subject.native)}" if subject.native else ""
        yield Line(
            "native pods", f"{report.native_best_effort} BestEffort without {BATCH_CPU}, {squeezed}{names}"
        )


def _remedies(subject: Subject) -> Iterable[Line]:
    report = subject.node.report
    if subject.tiny:
        yield Line("tiny pods", some(subject.tiny))
    for reason in subject.problems:
        yield Line("problem", f"{reason}: {reason.text.meaning}")
        yield Line("to fix", reason.text.fix)
    if subject.node.unreadable:
        yield Line("to fix", "see that the agent of the node has the version of this command")
    elif report is None and subject.node.labelled:
        yield Line("to fix", "see that corewise agent runs on the node, and its log")
    elif report is None:
        yield Line("to fix", Reason.OVERSUBSCRIPTION_OFF.text.fix)
    elif report.suppression is None and not subject.problems:
        yield Line("to fix", Reason.SUPPRESSION_OFF.text.fix)
