"""The explanation of a node's offline pods and their CPU, for ``corewise explain suppression`` (pure).

The agent's report has what was measured and decided; the formula is shown with these numbers in it. What is
configured is shown beside what the agent reports to use, since the two may differ for a moment. What comes
next, if nothing changes:

    adjustments = ceil(|quota - target| / step)        one quota for all

In the record amounts are milli-CPU and bytes, ratios and shares decimal texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from corewise.config.colocation import SuppressionMode, SuppressionSettings
from corewise.views.explanation import Explanation, Line, Part
from corewise.views.offline_reports import (
    RECOVERING,
    SUPPRESSING,
    NodeReport,
    age_text,
    agent_command,
    eviction_lines,
    isolation_lines,
    offer_problem,
    resctrl_lines,
    suppression_state,
)
from corewise.views.stored_config import fix_of
from corewise.views.suppression_settings import OfflineSettings
from corewise.views.text import count, cpus, gibibytes, some
from corewise.vocabulary.names import (
    BATCH_CPU,
    BATCH_MEMORY,
    CONFIG_NAMESPACE,
    OVERSUBSCRIPTION,
    SYSTEM_NAMESPACE,
)
from corewise.vocabulary.offline_report import OfferState, OfflineReport, SuppressionReport
from corewise.vocabulary.reasons import Reason

_STATES = {SUPPRESSING: "squeezed", RECOVERING: "recovering", "": "not squeezed"}
_MOVING = frozenset({Reason.SUPPRESSION_STEPPED_DOWN, Reason.SUPPRESSION_STEPPED_UP})
_AGENT_SILENT = frozenset({Reason.OFFER_REPORT_OLD, Reason.OFFER_REPORT_MISSING})


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
        """The reason codes of the problems, the most urgent first."""
        found = []
        report = self.node.report
        if self.label not in {None, "true", "false"}:
            found.append(Reason.OVERSUBSCRIPTION_LABEL_INVALID)
        if report:
            codes = (offer_problem(report), report.suppression.reason if report.suppression else "")
            found += [Reason(code) for code in codes if code in tuple(Reason) and Reason(code).warning]
            found += [Reason.OFFER_BELOW_REQUESTS] if report.shortfall else []
        if self.node.unreadable:
            found.append(Reason.OFFER_REPORT_UNREADABLE)
        elif report is None and self.node.labeled:
            found.append(Reason.OFFER_REPORT_MISSING)
        elif self.node.stale:
            found.append(Reason.OFFER_REPORT_OLD)
        if self.settings.invalid:
            found.append(Reason.CONFIG_INVALID)
        if self.tiny:
            found.append(Reason.BATCH_AMOUNT_TINY)
        return tuple(found)

    @property
    def unreported(self) -> tuple[str, ...]:
        """What holds offline pods back on a node whose agent reports nothing, since it offers nothing."""
        no_report = self.node.report is None and not self.node.unreadable and not self.node.labeled
        return self.settings.needs_no_label if no_report else ()


def explain_suppression(subject: Subject, config_namespace: str = CONFIG_NAMESPACE) -> Explanation:
    """Explain a node's offer and its offline pods' quota."""
    report = subject.node.report
    state = (offer_problem(report) or suppression_state(report)) if report else ""
    label = "is absent" if subject.label is None else f"is {subject.label}"
    parts = [
        Part(
            {"name": subject.node.name, "label": subject.label, "state": state},
            [Line("switch", f"label {OVERSUBSCRIPTION} {label}")],
        ),
        _settings(subject),
        Part(
            {
                "report": report,
                "reportUnreadable": subject.node.unreadable,
                "ageSeconds": subject.node.age,
                "stale": subject.node.stale,
            },
            list(_usage(subject.node, report)) if report else [],
        ),
        Part({"formula": formula(report) if report else None}, list(_offer(report)) if report else []),
        _published(subject),
        _quota(subject),
        Part(
            {"nativeBestEffortPods": None if subject.native is None else list(subject.native)},
            list(_native(subject)),
        ),
        Part(
            {"tinyPods": list(subject.tiny)}, [Line("tiny pods", some(subject.tiny))] if subject.tiny else []
        ),
        _problems(subject, config_namespace),
    ]
    return Explanation(_heading(subject), parts)


def _heading(subject: Subject) -> str:
    report, name = subject.node.report, subject.node.name
    if subject.node.unreadable:
        return f"{name}: the report of its agent cannot be read; it may be another version's"
    if report is None and subject.node.labeled:
        return f"{name}: oversubscription is on, and its agent reports nothing yet"
    if report is None:
        acting = subject.unreported
        hold = "hold" if len(acting) > 1 else "holds"
        held_back = f"; {' and '.join(acting)} {hold} offline pods back" if acting else ""
        return f"{name}: oversubscription is off{held_back}    {Reason.OVERSUBSCRIPTION_OFF}"
    old = f", {age_text(subject.node.age)} ago" if subject.node.stale else ""
    offered = f"offers {cpus(report.offered_milli)} of {cpus(report.allocatable_milli)} CPU{old}"
    suppression = report.suppression
    if suppression is None:
        return f"{name}: {offered}; not suppressed    {Reason.SUPPRESSION_OFF}"
    state = suppression_state(report)
    return f"{name}: {offered}; offline pods are {_STATES.get(state, state)}    {suppression.reason}"


def _settings(subject: Subject) -> Part:
    configured = subject.settings
    offer, quota = configured.oversubscription.settings, configured.suppression.settings
    record = {
        "oversubscription": {
            "source": configured.oversubscription.source,
            "ratio": str(offer.ratio) if offer else None,
            "intervalSeconds": int(offer.interval) if offer else None,
        },
        "suppression": {
            "source": configured.suppression.source,
            "enabled": quota.enabled if quota else None,
            "isolation": quota.isolation if quota else None,
            "mode": quota.mode if quota else None,
            "adjustStep": str(quota.adjust_step) if quota else None,
            "highThreshold": str(quota.high) if quota else None,
            "lowThreshold": str(quota.low) if quota else None,
            "recoverThreshold": str(quota.recover) if quota else None,
            "adjustQuotaStep": str(quota.quota_step) if quota else None,
            "adjustPodNum": quota.pods_a_cycle if quota else None,
        },
        "resctrl": {"source": configured.resctrl.source},
        "eviction": {"source": configured.eviction.source},
        "withoutLabel": list(subject.unreported),
    }
    values = f"ratio {offer.ratio}, every {offer.interval} s    " if offer else ""
    lines = [Line("settings", f"oversubscription: {values}{configured.oversubscription.source}")]
    report = subject.node.report
    if report and offer and str(offer.ratio) != report.ratio:
        lines.append(Line("settings", f"the agent still applies ratio {report.ratio}"))
    mode = f"{_mode(quota)}    " if quota else ""
    lines.append(Line("settings", f"suppression: {mode}{configured.suppression.source}"))
    for name, each in (("resctrl", configured.resctrl), ("eviction", configured.eviction)):
        lines += [Line("settings", f"{name}: {each.source}")] if each.invalid else []
    return Part({"settings": record}, lines)


def _mode(settings: SuppressionSettings) -> str:
    if not settings.enabled:
        return "off"
    if settings.mode is SuppressionMode.BESTEFFORT_QUOTA:
        return f"isolation {settings.isolation}, {settings.mode}, adjustStep {settings.adjust_step}"
    return (
        f"isolation {settings.isolation}, {settings.mode}, "
        f"thresholds {settings.recover} {settings.low} {settings.high}, "
        f"adjustQuotaStep {settings.quota_step}, adjustPodNum {settings.pods_a_cycle}"
    )


def _usage(node: NodeReport, report: OfflineReport) -> Iterable[Line]:
    old = "old: OLD" if node.stale else "old"
    age = f"{age_text(node.age)} {old} (normal up to {age_text(node.old_after)})"
    yield Line("last sample", f"{report.time}, {age}; one every {report.interval_seconds} s")
    said = [] if report.state is OfferState.FRESH else [f"the offer is {report.state}"]
    said += [f"{report.missing} missed in a row"] if report.missing else []
    if said:
        yield Line("last sample", "; ".join(said))
    total, offline, online = map(cpus, (report.node_milli, report.offline_milli, report.online_milli))
    yield Line("allocatable", f"{cpus(report.allocatable_milli)} CPU, raw")
    yield Line("node", f"{total} CPU used, by everything")
    yield Line("offline", f"{offline} CPU of that by the BestEffort slice")
    yield Line("online", f"{total} - {offline} = {online} CPU, daemons of the system too")
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
        meaning = f": {Reason(code).meaning}" if code in tuple(Reason) else ""
        yield Line("limited by", f"{code}{meaning}")


def formula(report: OfflineReport) -> str:
    """Return the formula of the CPU offer with its numbers in it."""
    parts = [cpus(report.allocatable_milli), cpus(report.online_milli)]
    if report.pinned_milli:
        parts.append(cpus(report.pinned_milli))
    idle = report.allocatable_milli - report.online_milli - report.pinned_milli
    return f"{'max(0, ' if idle < 0 else '('}{' - '.join(parts)}) x {report.ratio}"


def _published(subject: Subject) -> Part:
    record = {"batchCPUNormalizedMilli": subject.batch_cpu_milli, "batchMemoryBytes": subject.batch_memory}
    lines = []
    if subject.node.report:
        report = subject.node.report
        shown = "nothing" if subject.batch_cpu_milli is None else str(subject.batch_cpu_milli)
        offer = f"offer {cpus(report.offered_milli)} CPU x normalization ratio {report.normalization_ratio}"
        lines.append(Line("on the Node", f"{BATCH_CPU} {shown}: {offer}, in thousandths"))
        if report.shortfall:
            short = report.shortfall
            lines.append(
                Line(
                    "shortfall",
                    f"offline pods request {short.batch_cpu} {BATCH_CPU} and "
                    f"{gibibytes(short.batch_memory)} GiB of {BATCH_MEMORY}, more than is offered: that "
                    "stays on the Node, and no further ones fit",
                )
            )
    elif subject.batch_cpu_milli is not None and not subject.node.labeled:
        kept = "what offline pods that still run request"
        lines.append(Line("on the Node", f"{BATCH_CPU} {subject.batch_cpu_milli}: {kept}"))
    return Part({"published": record}, lines)


def _quota(subject: Subject) -> Part:
    report = subject.node.report
    suppression = report.suppression if report else None
    if report is None or suppression is None:
        lines = [Line("quota", "kubelet's own: offline pods are not held back")] if report else []
        lines += [*isolation_lines(report), *resctrl_lines(report), *eviction_lines(report)]
        return Part({"adjustmentsToTarget": None, "next": None}, lines)
    coming = next_step(suppression, report, subject.settings.suppression.settings)
    lines = []
    if suppression.step_milli is not None:
        quota, target, step = map(
            cpus, (suppression.quota_milli, suppression.target_milli, suppression.step_milli)
        )
        lines.append(Line("quota", f"{quota} CPU, target {target} CPU, at most {step} CPU each adjustment"))
    lines += [Line("because", f"{suppression.reason}: {suppression.why}"), Line("next", coming)]
    if suppression.repaired:
        times = f"{count(suppression.repaired, 'time')} since the agent's start"
        lines.append(Line("repaired", f"{times}: somebody else had changed it"))
    lines += [*isolation_lines(report), *resctrl_lines(report), *eviction_lines(report)]
    return Part({"adjustmentsToTarget": adjustments_left(suppression), "next": coming}, lines)


def _native(subject: Subject) -> Iterable[Line]:
    report = subject.node.report
    if report is None:
        if subject.unreported:
            yield from _unreported(subject)
        return
    yield Line("offline pods", str(report.offline_pods))
    if report.native_best_effort:
        bound = report.suppression is not None and report.suppression.mode == SuppressionMode.BESTEFFORT_QUOTA
        squeezed = "squeezed along" if bound else "not squeezed"
        names = f": {some(subject.native)}" if subject.native else ""
        yield Line(
            "native pods", f"{report.native_best_effort} BestEffort without {BATCH_CPU}, {squeezed}{names}"
        )


def _unreported(subject: Subject) -> Iterable[Line]:
    """Yield the command that shows the log of an agent that reports nothing, and native pods."""
    agents = f"-n {SYSTEM_NAMESPACE} -l app.kubernetes.io/component=agent"
    of_node = f"--field-selector spec.nodeName={subject.node.name} -o name"
    yield Line("not reported", "without the label the agent reports nothing on the Node. Its log does:")
    yield Line("not reported", f"kubectl logs -n {SYSTEM_NAMESPACE} $(kubectl get pods {agents} {of_node})")
    if subject.native:
        count_and_names = f"{len(subject.native)} BestEffort without {BATCH_CPU}"
        yield Line("native pods", f"{count_and_names}, not held back: {some(subject.native)}")


def _problems(subject: Subject, config_namespace: str) -> Part:
    report = subject.node.report
    records = []
    lines = []
    for reason in subject.problems:
        fix = fix_of(reason, config_namespace)
        records.append({"reason": reason, "message": reason.meaning, "fix": fix})
        lines += [Line("problem", f"{reason}: {reason.meaning}"), Line("to fix", fix)]
        if reason in _AGENT_SILENT:
            lines.append(Line("to fix", agent_command(subject.node.name)))
    if report is None and not subject.problems:
        lines.append(Line("to fix", Reason.OVERSUBSCRIPTION_OFF.fix))
    elif report is not None and report.suppression is None and not subject.problems:
        lines.append(Line("to fix", Reason.SUPPRESSION_OFF.fix))
    return Part({"problems": records}, lines)


def adjustments_left(suppression: SuppressionReport) -> int | None:
    """Return the number of adjustments until the target; None without a quota for all or a target."""
    quota, target, step = suppression.quota_milli, suppression.target_milli, suppression.step_milli
    if quota is None or target is None or step is None:
        return None
    if suppression.reason not in _MOVING:
        return 0
    return max(1, -(-abs(quota - target) // max(1, step)))


def next_step(
    suppression: SuppressionReport, report: OfflineReport, settings: SuppressionSettings | None
) -> str:
    """Describe the next step, in words."""
    match suppression.reason:
        case Reason.SLICE_MISSING | Reason.SLICE_UNREADABLE:
            return f"tried again every {report.interval_seconds} s"
        case Reason.UTILIZATION_HIGH | Reason.UTILIZATION_LOW | Reason.UTILIZATION_BETWEEN:
            return _next_of_each_pod(suppression, settings)
        case Reason.NOTHING_ADJUSTABLE:
            return "nothing, until pods come and go or utilization changes"
    left = adjustments_left(suppression)
    if not left:
        return "-" if left is None else "nothing, until the offer changes"
    about = left * report.interval_seconds
    return f"{count(left, 'adjustment')} to the target if the offer stays, about {about} s"


def _next_of_each_pod(suppression: SuppressionReport, settings: SuppressionSettings | None) -> str:
    if settings is None:
        return "depends on settings that are not known"
    step = f"the next {settings.pods_a_cycle} pods {{}} {settings.quota_step} of their limit each interval"
    match suppression.reason:
        case Reason.UTILIZATION_HIGH:
            return f"{step.format('lose')}, until utilization is below {settings.low}"
        case Reason.UTILIZATION_LOW:
            return f"{step.format('gain')}, until utilization is above {settings.low}"
        case _:
            return f"nothing, until utilization is above {settings.high} or below {settings.recover}"
