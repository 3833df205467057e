"""Per-container CPU time, request and ratio, read when somebody asks for the metrics.

CPU time over request misleads on a normalized node: a container that has all it asked for uses less time
there. Real utilization is CPU time / (request / ratio); deploy/agent/recording-rules.yaml has it as a rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.quotas import targets_of
from corewise.kernel.cgroups.cpu import read_usage
from corewise.kernel.errors import KernelError
from corewise.prometheus.exposition import Exposition
from corewise.quantities import requested
from corewise.vocabulary.metrics import agent as metrics

Labelled = dict[tuple[str, ...], float]

_NANO = 1_000_000_000
_MILLI = 1000
_HUNDREDTHS = 100


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """One running container. ``cpu_time`` in nanoseconds, ``request`` in milli-CPU."""

    labels: tuple[str, str, str]
    cpu_time: int
    request: int | None
    divided: bool


def publish(local: LocalNode, pods: Collection[QuotaPod], exposition: Exposition) -> None:
    """Set everything that is told about containers and quotas."""
    usages = list(container_usages(local, local.tell_apart(pods).pods))
    ratio = local.ratio.hundredths / _HUNDREDTHS
    times: Labelled = {each.labels: each.cpu_time / _NANO for each in usages}
    requests: Labelled = {each.labels: each.request / _MILLI for each in usages if each.request is not None}
    ratios: Labelled = {each.labels: ratio if each.divided else 1.0 for each in usages}
    exposition.replace(metrics.CONTAINER_CPU_SECONDS, times)
    exposition.replace(metrics.CONTAINER_CPU_REQUEST, requests)
    exposition.replace(metrics.CONTAINER_RATIO, ratios)
    exposition.set(metrics.AGENT_RATIO, ratio)
    exposition.set(metrics.QUOTAS_FAILING, local.complaints.count("quotas"))
    exposition.set(metrics.PODS_LEFT_ALONE, local.complaints.count("pods"))
    found = local.cgroups.found
    if found is None:
        return
    exposition.set(metrics.QUOTAS_HELD, len(found.writer.held))
    totals = found.writer.totals
    for metric, name in _TOTALS.items():
        exposition.set(metric, totals[name])


_TOTALS = {
    metrics.QUOTA_WRITES: "written",
    metrics.QUOTA_DRIFTS: "drifted",
    metrics.QUOTA_ERRORS: "failed",
    metrics.QUOTA_REFUSALS: "refused",
}


def container_usages(local: LocalNode, pods: Collection[QuotaPod]) -> Iterator[ContainerUsage]:
    """Yield the containers that run; one whose cgroup cannot be read has just ended."""
    found = local.cgroups.found
    if found is None:
        return
    for pod in pods:
        requests = {c.name: _milli(c.resources.requests.get("cpu")) for c in pod.spec.all_containers}
        try:
            for target in targets_of(pod, pod.spec, found.names):
                if target.container:
                    labels = (pod.metadata.namespace, pod.metadata.name, target.container)
                    held = found.held(target.cgroup) is not None
                    cpu_time = read_usage(found.files, target.cgroup)
                    yield ContainerUsage(labels, cpu_time, requests.get(target.container), held)
        except (KernelError, ValueError):
            continue


def _milli(text: str | None) -> int | None:
    return None if text is None else requested("cpu", text).milli
