"""The pods of one node: what each requests, uses, and is held back to (pure).

    used, normalized = used raw CPU x the ratio of the pod's workload on the node, or of the node

is in the unit of the pod's request, so the two can be compared. Only of online pods that share CPUs does the
workload's ratio count. The use of a pod that owns CPUs is raw, as its request is, unless the pod normalizes
them: then the ratio is the one by which the scheduler divides owned CPUs on that node. A quota is raw: the
CPUs of this node that a pod may keep busy, its limit / that ratio; a pod that owns CPUs has none. How long
a pod is throttled or waits for others is what the node's agent last reported of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corewise.agent.kubelet import NO_POLICY
from corewise.agent.quotas import Sharing, sharing_of
from corewise.config.workload_ratios import quota_ratio
from corewise.normalization.quota import ContainerLimit, PodLimits, pod_quota
from corewise.quantities import (
    MILLI,
    ONE,
    AmplifiedMilli,
    Quantity,
    QuantityError,
    Ratio,
    amplify,
    requested,
)
from corewise.suppression.batch_limits import KUBELET_PERIOD, BatchContainer, BatchPod, quota
from corewise.views.pod_table import OFFLINE, PodRow
from corewise.views.waiting_explanation import is_too_new, judges_all
from corewise.vocabulary.interference_report import InterferenceReport, WaitingReport
from corewise.vocabulary.names import BATCH_CPU
from corewise.vocabulary.qos import QoSRules, normalizes_cpus
from corewise.workload.pods import Container, Pod

ONLINE, OWNER = "online", "CPU owner"
_CPU, _ALWAYS = "cpu", "Always"


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """What is known of a node. ``annotations`` are the Node's, ``used`` is raw milli-CPU by NAMESPACE/NAME.

    ``owned`` is the ratio by which owned CPUs are normalized. ``report`` is the agent's about pods that wait;
    None if there is none, or it is too old.
    """

    annotations: Mapping[str, str]
    owned: Ratio
    rules: QoSRules
    used: Mapping[str, int]
    report: InterferenceReport | None

    def ratio_of(self, pod: Pod) -> Ratio:
        """Return the ratio that divides a pod's quotas: its workload's, or the node's."""
        return quota_ratio(pod.metadata.labels, self.annotations).ratio


def pod_records(pods: Iterable[tuple[Pod, PodRow]], node: NodeFigures) -> list[dict[str, Any]]:
    """Return a record for each pod: CPU owners first, then online and offline pods, each by name."""
    records = [_record(pod, row, node) for pod, row in pods]
    order = (OWNER, ONLINE, OFFLINE)
    return sorted(records, key=lambda each: (order.index(each["work"]), each["name"]))


def _record(pod: Pod, row: PodRow, node: NodeFigures) -> dict[str, Any]:
    owns, used = bool(row.cpus), node.used.get(row.name)
    work = OFFLINE if row.qos == OFFLINE else OWNER if owns else ONLINE
    waiting = _waiting(pod, node.report)
    return {
        **row.record,
        "work": work,
        "limitCPUMilli": _limit_of(pod, work),
        "quotaRawCPUMilli": None if owns else _quota_of(pod, work, node),
        "usedRawCPUMilli": used,
        "usedCPUMilli": None if used is None else amplify(used, _ratio_of_use(pod, work, node)),
        "throttled": None if waiting is None else waiting.throttled,
        "waited": None if waiting is None else waiting.waited,
        "waits": waiting.reason if waiting is not None and waiting.reason else None,
    }


def _ratio_of_use(pod: Pod, work: str, node: NodeFigures) -> Ratio:
    """Return the ratio from the raw CPU that a pod uses to the unit of its request."""
    meta = pod.metadata
    if work == OWNER:
        qos_class = node.rules.class_of(meta.labels, meta.namespace)
        return node.owned if normalizes_cpus(qos_class, meta.annotations) else ONE
    ratios = quota_ratio(meta.labels, node.annotations)
    shares = work == ONLINE and _sharing(pod, node.rules) is Sharing.SHARE
    return ratios.ratio if shares else ratios.node


def _waiting(pod: Pod, report: InterferenceReport | None) -> WaitingReport | None:
    """Return the report's entry of a pod; one that it judges and does not name waits little."""
    if report is None:
        return None
    found = next((each for each in report.pods if each.uid == pod.metadata.uid), None)
    if found is None and judges_all(report) and not is_too_new(pod, report):
        return WaitingReport(pod="", uid=pod.metadata.uid, reason="", used=0.0, waited=0.0)
    return found


def _limit_of(pod: Pod, work: str) -> int | None:
    """Return the CPU that a pod is limited to, in normalized milli-CPU; None if it is not limited."""
    if work == OFFLINE:
        return _batch(pod).cpu_limit
    limits = _limits(pod)
    one = pod_quota(limits, period=KUBELET_PERIOD, ratio=ONE)
    return None if one is None else one * MILLI // KUBELET_PERIOD


def _quota_of(pod: Pod, work: str, node: NodeFigures) -> int | None:
    """Return the raw milli-CPU that a pod's quota lets it keep busy; None if it has no quota."""
    if work == OFFLINE:
        ratio = quota_ratio(pod.metadata.labels, node.annotations).node
        micro = quota(_batch(pod).cpu_limit, period=KUBELET_PERIOD, normalization=ratio)
    else:
        ratio = node.ratio_of(pod) if _sharing(pod, node.rules) is Sharing.SHARE else ONE
        micro = pod_quota(_limits(pod), period=KUBELET_PERIOD, ratio=ratio)
    return None if micro is None else micro * MILLI // KUBELET_PERIOD


def _sharing(pod: Pod, rules: QoSRules) -> Sharing:
    meta = pod.metadata
    stated = rules.class_of(meta.labels, meta.namespace)
    sharing = sharing_of(stated, meta.uid, pod.status.qos_class, NO_POLICY, owns=False)
    return Sharing.EXEMPT if sharing is Sharing.SHARE and pod.has_claimed_cpu else sharing


def _limits(pod: Pod) -> PodLimits:
    def limit(container: Container) -> ContainerLimit:
        sidecar = container.restart_policy == _ALWAYS
        return ContainerLimit(cpu_amount(container.resources.limits), sidecar)

    spec = pod.spec
    return PodLimits(
        tuple(map(limit, spec.containers)),
        tuple(map(limit, spec.init_containers)),
        cpu_amount(spec.resources.limits),
        cpu_amount(spec.overhead) or AmplifiedMilli(0),
    )


def cpu_amount(amounts: Mapping[str, str]) -> AmplifiedMilli | None:
    """Return the CPU of a ResourceList; None if it states none, or one that cannot be read."""
    try:
        return AmplifiedMilli(requested(_CPU, amounts[_CPU]).milli) if _CPU in amounts else None
    except QuantityError:
        return None


def _batch(pod: Pod) -> BatchPod:
    def batch(container: Container) -> BatchContainer:
        stated = container.resources
        asked, limit = _units(stated.requests), _units(stated.limits)
        return BatchContainer(container.name, asked, limit, sidecar=container.restart_policy == _ALWAYS)

    return BatchPod(tuple(map(batch, pod.spec.containers)), tuple(map(batch, pod.spec.init_containers)))


def _units(amounts: Mapping[str, str]) -> int | None:
    try:
        return Quantity.parse(amounts[BATCH_CPU]).units
    except (KeyError, QuantityError):
        return None
