"""The kinds of pods on the node: offline ones, native best-effort ones, and ones that own CPUs. Pure.

Which pods are offline, :mod:`corewise.colocation.offline` decides. Most of them request
``kubernetes.io/batch-cpu``; kubelet knows nothing of that resource, so a pod that requests nothing else is
BestEffort to it. One that is marked and requests nothing at all is an offline pod without limits. An offline
pod that kubelet puts into another class has limits of kubelet's own. It counts as online usage, and its
cgroups stay as kubelet made them, but for suppression by each pod's own quota.

A pod owns CPUs by kubelet's static policy, by its QoS class (LSE, LSR), or by the annotation resource-status,
which then tells how many. They cannot be lent, whether it uses them or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from corewise.actions import EmitEvent
from corewise.agent.kubelet import CPUManager
from corewise.agent.objects import QuotaPod, QuotaPodSpec
from corewise.agent.quota_targets import Target, spec_in_force, targets_of
from corewise.agent.sampler import PinnedPod
from corewise.amplification.amounts import CPU
from corewise.colocation.offline import mark_of
from corewise.kernel.cgroups.layout import PodCgroups, QOSClass
from corewise.kernel.errors import UnsafeName
from corewise.quantities import QuantityError, largest, requested
from corewise.suppression.batch_limits import BatchContainer, BatchPod
from corewise.suppression.offer import OfflineAmounts
from corewise.vocabulary.cpu_annotations import stated_status
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, RESOURCE_STATUS
from corewise.vocabulary.qos import DEFAULT_RULES, OWNERS_OF_CPUS, QoSRules
from corewise.vocabulary.reasons import Reason
from corewise.workload.pods import Container
from corewise.workload.requests import container_requests


@dataclass(frozen=True, slots=True)
class OfflinePod:
    """An offline pod in kubelet's BestEffort class: what it asks for, and cgroups of running containers."""

    name: str
    cgroup: str
    spec: BatchPod
    containers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MarkedPod:
    """Any pod that is marked as offline. ``batch_cpu``: what it requests of the quota of all offline pods."""

    pod: QuotaPod
    mark: str
    batch_cpu: int = 0


@dataclass(frozen=True, slots=True)
class NativePod:
    """An offline pod with limits of kubelet's own: the cgroups of the pod and of its running containers.

    ``is_certain``: kubelet goes by these limits. While a resize waits, an agent that has just started does
    not know by which: only the journal has those of a pod that is bounded.
    """

    pod: QuotaPod
    targets: tuple[Target, ...]
    is_certain: bool = True

    @property
    def name(self) -> str:
        return self.pod.name


@dataclass(frozen=True, slots=True)
class _Kind:
    """The kind of one pod. ``cgroup`` is empty if it cannot be named. ``spec``: the one kubelet uses.

    ``mark`` says what marks it as offline, whatever becomes of it.
    """

    mark: str
    cgroup: str = ""
    offline: OfflinePod | None = None
    limited: NativePod | None = None
    spec: QuotaPodSpec | None = None
    native: bool = False
    problems: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[EmitEvent, ...] = ()


@dataclass(slots=True)
class NodePods:
    """The pods of a node by what oversubscription needs to know of them.

    ``marked`` are all that are marked as offline, those too that own CPUs or request no batch-cpu.
    ``limited`` are offline pods with limits of kubelet's own that own no CPUs. ``native`` counts the
    best-effort pods that nothing marks as offline. ``problems`` are sentences by pod, ``warnings`` the events
    for the users of pods.
    """

    offline: list[OfflinePod] = field(default_factory=list)
    limited: list[NativePod] = field(default_factory=list)
    marked: list[MarkedPod] = field(default_factory=list)
    native: int = 0
    pinned: list[PinnedPod] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    warnings: list[EmitEvent] = field(default_factory=list)

    @property
    def cgroups(self) -> Mapping[str, int]:
        """The cgroups of all offline pods, with the number of each pod's running containers."""
        others = {each.targets[0].cgroup: len(each.targets) - 1 for each in self.limited}
        return {each.cgroup: len(each.containers) for each in self.offline} | others


def batch_requests(pods: Collection[QuotaPod]) -> tuple[OfflineAmounts, OfflineAmounts]:
    """Return the batch resources that running pods request together, and that all do that have not ended."""
    return _requests(pod for pod in pods if pod.status.phase == "Running"), _requests(pods)


def _requests(pods: Iterable[QuotaPod]) -> OfflineAmounts:
    total = Counter[str]()
    for pod in pods:
        for resource in (BATCH_CPU, BATCH_MEMORY):
            if not pod.has_ended and any(
                resource in each.resources.requests or resource in each.resources.limits
                for each in pod.spec.all_containers
            ):
                total[resource] += pod.request(resource).units
    return OfflineAmounts(total[BATCH_CPU], total[BATCH_MEMORY])


class PodTable:
    """Tells the pods of a node apart, and computes what follows from a pod only when it is another one."""

    def __init__(self, rules: QoSRules = DEFAULT_RULES) -> None:
        self._rules = rules
        self._known: dict[str, tuple[QuotaPod, _Kind]] = {}

    def sort(self, pods: Iterable[QuotaPod], names: PodCgroups, manager: CPUManager) -> NodePods:
        """Return the pods by what they are; those that have ended are none."""
        known, result = self._known, NodePods()
        self._known = {}
        for pod in pods:
            if pod.has_ended or not pod.status.qos_class:
                continue
            before = known.get(pod.name)
            if before is not None and before[0] is pod:
                kind = before[1]
            else:
                same = before is not None and before[0].uid == pod.uid
                kind = _kind_of(pod, names, before[1].spec if before is not None and same else None)
            self._known[pod.name] = pod, kind
            result.offline += [kind.offline] if kind.offline else []
            result.native += kind.native
            if kind.mark:
                batch_cpu = kind.offline.spec.cpu_request if kind.offline else 0
                result.marked.append(MarkedPod(pod, kind.mark, batch_cpu))
            result.problems |= kind.problems
            result.warnings += kind.warnings
            owned = _owned(pod, manager, self._rules) if kind.cgroup else 0
            if owned:
                result.pinned.append(PinnedPod(pod.uid, kind.cgroup, owned))
            elif kind.limited:
                result.limited.append(kind.limited)
        return result


def _kind_of(pod: QuotaPod, names: PodCgroups, before: QuotaPodSpec | None) -> _Kind:
    limited = None
    requesting = [
        each.name
        for each in pod.spec.all_containers
        if BATCH_CPU in each.resources.requests or BATCH_CPU in each.resources.limits
    ]
    meta = pod.metadata
    mark = mark_of(meta.labels, meta.annotations, pod.spec.priority, requesting)
    try:
        qos = QOSClass(pod.status.qos_class)
        cgroup = names.pod(pod.uid, qos)
        best_effort = qos is QOSClass.BEST_EFFORT
        spec_by_kubelet = spec_in_force(pod, before)
        if mark and not best_effort:
            targets = tuple(targets_of(pod, spec_by_kubelet or pod.spec, names))
            limited = NativePod(pod, targets, is_certain=spec_by_kubelet is not None)
        if not mark or not (requesting or best_effort):
            return _Kind(mark, cgroup, native=best_effort, limited=limited, spec=spec_by_kubelet)
        spec = BatchPod(
            tuple(map(_batch_container, pod.spec.containers)),
            tuple(map(_batch_container, pod.spec.init_containers)),
        )
        warnings = tuple(_tiny_amounts(pod, spec))
        problems = {f"{pod.name}: {each.message}": f"pod {pod.name}: {each.message}" for each in warnings}
        if best_effort:
            stated = {container.name for container in pod.spec.all_containers}
            containers = {
                status.name: names.container(pod.uid, qos, status.container_id)
                for status in pod.status.all_containers
                if status.runs and status.name in stated
            }
            offline = OfflinePod(pod.name, cgroup, spec, containers)
            return _Kind(mark, cgroup, offline, problems=problems, warnings=warnings)
    except (UnsafeName, ValueError) as error:
        return _Kind(mark, problems={pod.name: f"pod {pod.name} is left alone: {error}"})
    problems[pod.name] = (
        f"pod {pod.name} requests {BATCH_CPU} and is {qos}, not BestEffort: it counts as online, and its "
        "cgroups stay as kubelet made them (mode per-pod-quota lowers them); let it request no cpu and "
        "no memory"
    )
    return _Kind(mark, cgroup, problems=problems, warnings=warnings, limited=limited, spec=spec_by_kubelet)


def _batch_container(container: Container) -> BatchContainer:
    requests, limits = container.resources.requests, container.resources.limits
    return BatchContainer(
        name=container.name,
        cpu_request=_amount(requests, BATCH_CPU),
        cpu_limit=_amount(limits, BATCH_CPU),
        memory_limit=_amount(limits, BATCH_MEMORY),
        sidecar=container.restart_policy == "Always",
    )


def _amount(amounts: Mapping[str, str], resource: str) -> int | None:
    """Return a whole number; as no limit, an amount that cannot be read would free the pod."""
    if resource not in amounts:
        return None
    amount = requested(resource, amounts[resource])
    if amount == largest(resource):
        text = amounts[resource][:40]
        raise QuantityError(
            f"its {resource} {text!r} is more than any machine has ({Reason.AMOUNT_TOO_LARGE})"
        )
    return amount.units


def _tiny_amounts(pod: QuotaPod, spec: BatchPod) -> Iterator[EmitEvent]:
    """Yield a warning for each amount that was probably meant as CPUs, not as milli-CPU."""
    meta, reason = pod.metadata, Reason.BATCH_AMOUNT_TINY
    for container in (*spec.containers, *spec.init_containers):
        if container.is_tiny:
            amount = min(filter(None, (container.cpu_request, container.cpu_limit)))
            message = (
                f"container {container.name} asks for {BATCH_CPU}: {amount}, which counts milli-CPU: that is "
                f"0.{amount:03d} of a CPU, and {amount} CPUs are {amount}000 ({reason})"
            )
            yield EmitEvent("Pod", meta.namespace, meta.name, meta.uid, reason, message, warning=True)


def _owned(pod: QuotaPod, manager: CPUManager, rules: QoSRules) -> int:
    meta = pod.metadata
    claim = stated_status(meta.annotations.get(RESOURCE_STATUS))
    if claim.cpus and not rules.claim_problem(meta.labels, meta.namespace, claim, pod.cpu_request):
        return len(claim.cpus) * 1000
    if pod.uid in manager.pinned or rules.class_of(meta.labels, meta.namespace) in OWNERS_OF_CPUS:
        requests = (container_requests(each, (CPU,)) for each in pod.spec.containers)
        return sum(each[CPU].milli for each in requests if each)
    return 0
