"""The agent's metrics, set when somebody reads them: quotas and containers, CPU sets, offline pods.

CPU time over request misleads on a normalized node: a container that has all it asked for uses less time
there. Real utilization is CPU time / (request / ratio); deploy/agent/recording-rules.yaml has it as a rule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_controller import OfflineController
from corewise.agent.offline_loop import OfflineLoop
from corewise.agent.offline_settings import KEYS
from corewise.agent.quotas import targets_of
from corewise.kernel.cgroups.resources import read_usage
from corewise.kernel.errors import KernelError
from corewise.prometheus.exposition import Exposition
from corewise.quantities import requested
from corewise.suppression.quotas import Task
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import CONFIG_VALID, ExportedMetric
from corewise.vocabulary.offline_report import OfferState, OfflineReport

Labelled = dict[tuple[str, ...], float]

_NANO = 1_000_000_000
_MILLI = 1000
_HUNDREDTHS = 100
_TOTALS = {
    metrics.QUOTA_WRITES: "written",
    metrics.QUOTA_DRIFTS: "drifted",
    metrics.QUOTA_ERRORS: "failed",
    metrics.QUOTA_REFUSALS: "refused",
}


def publish_quotas(local: LocalNode, pods: Collection[QuotaPod], exposition: Exposition) -> None:
    """Set the metrics of containers and quotas."""
    ratio = local.ratio.hundredths / _HUNDREDTHS
    exposition.set(metrics.AGENT_RATIO, ratio)
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
            stated = {each.name: each.resources.requests.get("cpu") for each in pod.spec.all_containers}
            # A container whose cgroup cannot be read has just ended.
            with suppress(KernelError, ValueError):
                for target in targets_of(pod, pod.spec, found.names):
                    if target.container:
                        labels = (pod.metadata.namespace, pod.metadata.name, target.container)
                        times[labels] = read_usage(found.files, target.cgroup) / _NANO
                        ratios[labels] = 1.0 if found.held(target.cgroup) is None else ratio
                        if (request := stated.get(target.container)) is not None:
                            requests[labels] = requested("cpu", request).milli / _MILLI
    exposition.replace(metrics.CONTAINER_CPU_SECONDS, times)
    exposition.replace(metrics.CONTAINER_CPU_REQUEST, requests)
    exposition.replace(metrics.CONTAINER_RATIO, ratios)
    exposition.set(metrics.QUOTAS_FAILING, local.problem_log.count("quotas"))
    exposition.set(metrics.PODS_LEFT_ALONE, local.problem_log.count("pods"))


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
    """Set the metrics of offline pods."""
    controller = loop.controller
    valid: Labelled = {(key,): float(key not in loop.configuration.problems) for key in KEYS}
    exposition.replace(CONFIG_VALID, valid)
    pods: Labelled = {
        ("offline",): float(len(controller.pods.offline)),
        ("native",): float(controller.pods.native),
    }
    exposition.replace(metrics.OFFLINE_PODS, pods)
    missed: Labelled = {(str(kind),): float(count) for kind, count in controller.missed.items()}
    exposition.replace(metrics.OVERSUBSCRIPTION_SAMPLES_MISSED, missed)
    _publish_offer(loop, exposition)
    _publish_suppression(controller, exposition)


def _publish_offer(loop: OfflineLoop, exposition: Exposition) -> None:
    report = loop.controller.last.report
    states: Labelled = {}
    if report is not None:
        states = {(state.value,): float(state is report.state) for state in OfferState}
    exposition.replace(metrics.OVERSUBSCRIPTION_STATE, states)
    for metric, amount in _amounts(report).items():
        _gauge(exposition, metric, amount)
    cpu = {"online": report.online_milli / _MILLI, "offline": report.offline_milli / _MILLI} if report else {}
    memory = {"online": report.memory.online, "offline": report.memory.offline} if report else {}
    exposition.replace(metrics.OVERSUBSCRIPTION_USED_CPU, {(work,): used for work, used in cpu.items()})
    exposition.replace(metrics.OVERSUBSCRIPTION_USED_MEMORY, {(work,): used for work, used in memory.items()})
    published = loop.publisher.published
    cpus = published.cpu_milli / _MILLI if published else None
    _gauge(exposition, metrics.OVERSUBSCRIPTION_PUBLISHED_CPU, cpus)
    _gauge(exposition, metrics.OVERSUBSCRIPTION_LAST_SAMPLE, loop.controller.sampled_at)


def _publish_suppression(controller: OfflineController, exposition: Exposition) -> None:
    suppressor, settings = controller.suppressor, controller.suppression
    enabled = controller.on and settings is not None and settings.enabled
    modes: Labelled = {(settings.mode.value,): 1.0} if enabled and settings else {}
    exposition.replace(metrics.SUPPRESSION_ENABLED, modes)
    report = suppressor.report
    _gauge(exposition, metrics.SUPPRESSION_QUOTA, _cores(report.quota_milli if report else None))
    _gauge(exposition, metrics.SUPPRESSION_TARGET, _cores(report.target_milli if report else None))
    adjustments: Labelled = {(way,): float(suppressor.adjustments[way]) for way in ("down", "up")}
    exposition.replace(metrics.SUPPRESSION_ADJUSTMENTS, adjustments)
    exposition.set(metrics.SUPPRESSION_REPAIRS, suppressor.repaired)
    exposition.set(metrics.SUPPRESSION_AT_FLOOR, int(suppressor.at_floor))
    exposition.set(metrics.SUPPRESSION_SLICE_MISSING, int(suppressor.slice_missing))
    tasks: Labelled = {(task.value,): float(task is suppressor.task) for task in Task if task}
    exposition.replace(metrics.SUPPRESSION_TASK, tasks)
    utilization = controller.utilization
    _gauge(exposition, metrics.SUPPRESSION_UTILIZATION, None if utilization is None else float(utilization))
    exposition.set(metrics.SUPPRESSION_PODS, suppressor.suppressed_pods)


def _amounts(report: OfflineReport | None) -> dict[ExportedMetric, float | None]:
    return {
        metrics.OVERSUBSCRIPTION_ALLOCATABLE_CPU: _cores(report.allocatable_milli if report else None),
        metrics.OVERSUBSCRIPTION_PINNED_CPU: _cores(report.pinned_milli if report else None),
        metrics.OVERSUBSCRIPTION_OFFERED_CPU: _cores(report.offered_milli if report else None),
        metrics.OVERSUBSCRIPTION_OFFERED_MEMORY: float(report.memory.offered) if report else None,
    }


def _cores(milli: int | None) -> float | None:
    return None if milli is None else milli / _MILLI


def _gauge(exposition: Exposition, metric: ExportedMetric, value: float | None) -> None:
    """Set a gauge without labels; None is no series at all."""
    exposition.replace(metric, {} if value is None else {(): value})
