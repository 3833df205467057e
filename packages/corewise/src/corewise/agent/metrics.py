"""The agent's metrics, set when somebody reads them: quotas and containers, CPU sets, offline pods.

CPU time over request misleads on a normalized node: a container that has all it asked for uses less time
there. Real utilization is CPU time / (request / ratio), which the rules in
deploy/monitoring/normalization-rules.yaml record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from corewise.agent.kubelet import STATIC
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_loop import OfflineLoop
from corewise.agent.offline_settings import KEYS
from corewise.agent.quota_targets import targets_of
from corewise.amplification import normalization_of_owned
from corewise.amplification.amounts import CPU
from corewise.kernel.cgroups.resources import read_usage
from corewise.kernel.errors import KernelError
from corewise.prometheus.exposition import Exposition
from corewise.quantities import MILLI, ONE, Ratio
from corewise.suppression.eviction import Shortage
from corewise.suppression.quotas import Task
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import CONFIG_VALID, ExportedMetric
from corewise.vocabulary.offline_report import OfferState
from corewise.vocabulary.qos import normalizes_cpus
from corewise.workload.requests import container_requests

Labelled = dict[tuple[str, ...], float]

_NANO = 1_000_000_000
_HUNDREDTHS = 100
_TOTALS = {
    metrics.QUOTA_WRITES: "written",
    metrics.QUOTA_DRIFTS: "drifted",
    metrics.QUOTA_ERRORS: "failed",
    metrics.QUOTA_REFUSALS: "refused",
}


def publish_quotas(local: LocalNode, pods: Collection[QuotaPod], exposition: Exposition) -> None:
    """Set the metrics of containers and quotas."""
    exposition.set(metrics.AGENT_RATIO, local.ratio.hundredths / _HUNDREDTHS)
    certain = local.certain_pods(pods).pods
    times: Labelled = {}
    requests: Labelled = {}
    ratios: Labelled = {}
    found = local.cgroups.found
    if found is not None:
        exposition.set(metrics.QUOTAS_HELD, len(found.writer.held))
        for metric, name in _TOTALS.items():
            exposition.set(metric, found.writer.totals[name])
        for pod in certain:
            ratio = _ratio_of_time(local, pod)
            stated = {
                each.name: container_requests(each, (CPU,)).get(CPU) for each in pod.spec.all_containers
            }
            # A container whose cgroup cannot be read has just ended.
            with suppress(KernelError, ValueError):
                for target in targets_of(pod, pod.spec, found.names):
                    if target.container:
                        labels = (pod.metadata.namespace, pod.metadata.name, target.container)
                        times[labels] = read_usage(found.files, target.cgroup) / _NANO
                        held = found.held(target.cgroup)
                        divided = ratio or (local.ratio if held and held.quota is not None else ONE)
                        ratios[labels] = divided.hundredths / _HUNDREDTHS
                        if (request := stated.get(target.container)) is not None:
                            requests[labels] = request.milli / MILLI
    exposition.replace(metrics.CONTAINER_CPU_SECONDS, times)
    exposition.replace(metrics.CONTAINER_CPU_REQUEST, requests)
    exposition.replace(metrics.CONTAINER_RATIO, ratios)
    exposition.set(metrics.QUOTAS_FAILING, local.problem_log.count("quotas"))
    exposition.set(metrics.PODS_LEFT_ALONE, local.problem_log.count("pods"))


def _ratio_of_time(local: LocalNode, pod: QuotaPod) -> Ratio | None:
    """Return the ratio that divides a pod's quotas, or else its owned CPUs; None if neither is divided.

    A request is in normalized CPUs whether there is a limit to divide or not.
    """
    if local.divides(pod):
        return local.ratio_of(pod)
    qos_class = local.rules.class_of(pod.metadata.labels, pod.metadata.namespace)
    if not normalizes_cpus(qos_class, pod.metadata.annotations):
        return None
    static = local.cpu_manager().policy == STATIC
    return normalization_of_owned(local.ratio, local.amplification, static_cpu_manager=static)


def publish_pinning(local: LocalNode, exposition: Exposition) -> None:
    """Set the metrics of owned CPUs and settings."""
    division = local.pins.division
    exposition.set(metrics.PINNING_PODS, sum(bool(owner.online) for owner in division.owners.values()))
    exposition.set(metrics.PINNING_OWNED, len(division.owned))
    shared: Mapping[tuple[str, ...], float] = {(): len(division.shared)} if division.owners else {}
    exposition.replace(metrics.PINNING_SHARED, shared)
    exposition.set(metrics.PINNING_FAILING, local.problem_log.count("CPU sets"))
    if local.cgroups.found is not None:
        totals = local.cgroups.found.settings.totals
        exposition.set(metrics.SETTING_WRITES, totals["written"])
        exposition.set(metrics.SETTING_DRIFTS, totals["drifted"])
        exposition.set(metrics.SETTING_ERRORS, totals["failed"])


def publish_offline(loop: OfflineLoop, exposition: Exposition) -> None:
    """Set the metrics of offline pods. What is not known has no series."""
    controller, suppressor = loop.controller, loop.controller.suppressor
    cache, node = controller.cache, controller.node
    report, published = controller.last.report, loop.publisher.published
    by_label: dict[ExportedMetric, Mapping[str, float]] = {
        CONFIG_VALID: {key: key not in loop.configuration.problems for key in KEYS},
        metrics.OFFLINE_PODS: {"offline": len(cache.pods.offline), "native": cache.pods.native},
        metrics.OVERSUBSCRIPTION_SAMPLES_MISSED: {str(kind): count for kind, count in cache.missed.items()},
        metrics.OVERSUBSCRIPTION_STATE: {
            state.value: state is report.state for state in OfferState if report is not None
        },
        metrics.OVERSUBSCRIPTION_USED_CPU: (
            {"online": report.online_milli / MILLI, "offline": report.offline_milli / MILLI} if report else {}
        ),
        metrics.OVERSUBSCRIPTION_USED_MEMORY: (
            {"online": report.memory.online, "offline": report.memory.offline} if report else {}
        ),
        metrics.OFFLINE_EVICTION_SHORTAGE: {
            each: each is controller.evictor.shortage
            for each in Shortage
            if each and controller.evictor.verdict
        },
        metrics.SUPPRESSION_ENABLED: {node.mode.value: 1.0} if node.mode else {},
        metrics.SUPPRESSION_ADJUSTMENTS: {way: suppressor.adjustments[way] for way in ("down", "up")},
        metrics.SUPPRESSION_TASK: {task.value: task is suppressor.task for task in Task if task},
    }
    for metric, values in by_label.items():
        exposition.replace(metric, {(str(label),): float(value) for label, value in values.items()})
    limits = suppressor.report
    gauges: dict[ExportedMetric, float | None] = {
        metrics.OVERSUBSCRIPTION_ALLOCATABLE_CPU: _cores(report.allocatable_milli if report else None),
        metrics.OVERSUBSCRIPTION_PINNED_CPU: _cores(report.pinned_milli if report else None),
        metrics.OVERSUBSCRIPTION_OFFERED_CPU: _cores(report.offered_milli if report else None),
        metrics.OVERSUBSCRIPTION_OFFERED_MEMORY: report.memory.offered if report else None,
        metrics.OVERSUBSCRIPTION_PUBLISHED_CPU: _cores(published.cpu_milli if published else None),
        metrics.OVERSUBSCRIPTION_LAST_SAMPLE: cache.sampled_at,
        metrics.SUPPRESSION_QUOTA: _cores(limits.quota_milli if limits else None),
        metrics.SUPPRESSION_TARGET: _cores(limits.target_milli if limits else None),
        metrics.SUPPRESSION_REPAIRS: suppressor.repaired,
        metrics.SUPPRESSION_AT_FLOOR: suppressor.at_floor,
        metrics.SUPPRESSION_SLICE_MISSING: suppressor.slice_missing,
        metrics.SUPPRESSION_UTILIZATION: (None if cache.utilization is None else float(cache.utilization)),
        metrics.SUPPRESSION_PODS: suppressor.suppressed_pods,
        metrics.SUPPRESSION_IDLE_PODS: controller.isolation.pods if controller.isolation else 0,
    }
    for metric, gauge in gauges.items():
        exposition.replace(metric, {} if gauge is None else {(): float(gauge)})


def _cores(milli: int | None) -> float | None:
    return None if milli is None else milli / MILLI
