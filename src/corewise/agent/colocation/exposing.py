"""The metrics of offline pods, set when somebody asks for them."""

from __future__ import annotations

from corewise.agent.colocation.configuration import KEYS
from corewise.agent.colocation.keeper import OfflineKeeper
from corewise.agent.colocation.loop import OfflineLoop
from corewise.prometheus.exposition import Exposition
from corewise.suppression.pod_quotas import Task
from corewise.vocabulary.metrics import suppression as metrics
from corewise.vocabulary.metrics.service import CONFIG_VALID
from corewise.vocabulary.metrics.table import Metric
from corewise.vocabulary.offline_report import OfferState, OfflineReport

_MILLI = 1000
Labelled = dict[tuple[str, ...], float]


def publish(loop: OfflineLoop, exposition: Exposition) -> None:
    """Set everything that is told about offline pods."""
    keeper = loop.keeper
    valid: Labelled = {(key,): float(key not in loop.configuration.problems) for key in KEYS}
    exposition.replace(CONFIG_VALID, valid)
    pods: Labelled = {("offline",): float(len(keeper.pods.offline)), ("native",): float(keeper.pods.native)}
    exposition.replace(metrics.OFFLINE_PODS, pods)
    missed: Labelled = {(str(kind),): float(count) for kind, count in keeper.missed.items()}
    exposition.replace(metrics.OVERSUBSCRIPTION_SAMPLES_MISSED, missed)
    _publish_offer(loop, exposition)
    _publish_suppression(keeper, exposition)


def _publish_offer(loop: OfflineLoop, exposition: Exposition) -> None:
    report = loop.keeper.last.report
    states: Labelled = {}
    if report is not None:
        states = {(state.value,): float(state is report.state) for state in OfferState}
    exposition.replace(metrics.OVERSUBSCRIPTION_STATE, states)
    for metric, amount in _amounts(report).items():
        _state(exposition, metric, amount)
    cpu = {"online": report.online_milli / _MILLI, "offline": report.offline_milli / _MILLI} if report else {}
    memory = {"online": report.memory.online, "offline": report.memory.offline} if report else {}
    exposition.replace(metrics.OVERSUBSCRIPTION_USED_CPU, {(work,): used for work, used in cpu.items()})
    exposition.replace(metrics.OVERSUBSCRIPTION_USED_MEMORY, {(work,): used for work, used in memory.items()})
    published = loop.publisher.published
    cpus = published.cpu_milli / _MILLI if published else None
    _state(exposition, metrics.OVERSUBSCRIPTION_PUBLISHED_CPU, cpus)
    _state(exposition, metrics.OVERSUBSCRIPTION_LAST_SAMPLE, loop.keeper.sampled_at)


def _publish_suppression(keeper: OfflineKeeper, exposition: Exposition) -> None:
    suppressor, settings = keeper.suppressor, keeper.suppression
    enabled = keeper.on and settings is not None and settings.enabled
    modes: Labelled = {(settings.mode.value,): 1.0} if enabled and settings else {}
    exposition.replace(metrics.SUPPRESSION_ENABLED, modes)
    report = suppressor.report
    _state(exposition, metrics.SUPPRESSION_QUOTA, _cores(report.quota_milli if report else None))
    _state(exposition, metrics.SUPPRESSION_TARGET, _cores(report.target_milli if report else None))
    adjustments: Labelled = {(way,): float(suppressor.adjustments[way]) for way in ("down", "up")}
    exposition.replace(metrics.SUPPRESSION_ADJUSTMENTS, adjustments)
    exposition.set(metrics.SUPPRESSION_REPAIRS, suppressor.repaired)
    exposition.set(metrics.SUPPRESSION_AT_FLOOR, int(suppressor.at_floor))
    exposition.set(metrics.SUPPRESSION_SLICE_MISSING, int(suppressor.slice_missing))
    tasks: Labelled = {(task.value,): float(task is suppressor.task) for task in Task if task}
    exposition.replace(metrics.SUPPRESSION_TASK, tasks)
    utilization = keeper.utilization
    _state(exposition, metrics.SUPPRESSION_UTILIZATION, None if utilization is None else float(utilization))
    exposition.set(metrics.SUPPRESSION_PODS, suppressor.suppressed_pods)


def _amounts(report: OfflineReport | None) -> dict[Metric, float | None]:
    return {
        metrics.OVERSUBSCRIPTION_ALLOCATABLE_CPU: _cores(report.allocatable_milli if report else None),
        metrics.OVERSUBSCRIPTION_PINNED_CPU: _cores(report.pinned_milli if report else None),
        metrics.OVERSUBSCRIPTION_OFFERED_CPU: _cores(report.offered_milli if report else None),
        metrics.OVERSUBSCRIPTION_OFFERED_MEMORY: float(report.memory.offered) if report else None,
    }


def _cores(milli: int | None) -> float | None:
    return None if milli is None else milli / _MILLI


def _state(exposition: Exposition, metric: Metric, value: float | None) -> None:
    """Set a gauge without labels; None is no series at all."""
    exposition.replace(metric, {} if value is None else {(): value})
