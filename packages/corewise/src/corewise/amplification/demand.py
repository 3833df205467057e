"""The requests of a node's pods, the CPUs they own, and whether they still fit after a change of ratio.

Requests are counted as kube-scheduler and kubelet count them: containers and sidecars run together; an init
container runs alone but for the sidecars started before it, and the largest such moment counts; a request at
pod level replaces the sum; overhead comes on top; while a container is resized the larger of wanted and
granted counts (workload/requests.py). Source: k8s.io/component-helpers/resource, PodRequests.

A CPUSet pod owns CPUs: those of its resource-status annotation; without one (bound while nothing assigned
them) as many as it requests, if it has QoS LSE or LSR and requests whole CPUs, or if it is Guaranteed under
kubelet's static CPU manager, which gives exclusive CPUs to each container that requests whole ones.

Lowering or removing a ratio can leave pods that no longer fit, and kubelet would evict or reject them.

    R = sum of the pods' requests, A = 1000 x CPUs that CPUSet pods own, N what these request   (milli-CPU)
    requested(ratio)   = occupied(R, A, ratio, N - A), see occupancy.py      (cpu; of memory just R)
    allocatable(ratio) = floor(raw allocatable x ratio)
    safe iff requested(ratio) <= allocatable(ratio), for every resource whose ratio falls

A raised or unchanged ratio never makes pods stop fitting, whatever else is wrong with the node, so it is not
refused. CPUs that CPUSet pods own are never more than raw CPUs after a change that is allowed: the rule above
implies A <= raw, and where A > raw no ratio is safe.

With whole owned CPUs A x ratio is exact, so the smallest safe ratio is
    (R - N) / (raw - A), and R / raw where N > A, rounded up to hundredths, at least 1.00.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from corewise.amplification.amounts import (
    AMPLIFIABLE,
    CPU,
    MEMORY,
    NANO_PER_STEP,
    Ratios,
    ResourceList,
    amplified,
    quantity,
    ratio_of,
    shown,
)
from corewise.amplification.occupancy import occupied
from corewise.quantities import MILLI, ONE, Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.qos import OWNERS_OF_CPUS
from corewise.vocabulary.reasons import Reason

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_NOTHING: Final = Quantity(0)


@dataclass(frozen=True, slots=True)
class ContainerDemand:
    """A container's requests. ``allocated``: what kubelet has granted it, if it says so."""

    requests: ResourceList
    allocated: ResourceList = field(default_factory=dict)
    restarts_always: bool = False
    """An init container with restartPolicy Always: a sidecar."""


@dataclass(frozen=True, slots=True)
class PodDemand:
    """The parts of a pod that decide its demand on its node.

    ``requests`` are those of the pod level, where it has any. ``exclusive_cpus``: the CPUs that its
    resource-status annotation names. ``qos_class``: that of its status, ``Guaranteed`` for instance.
    """

    name: str
    containers: tuple[ContainerDemand, ...]
    init_containers: tuple[ContainerDemand, ...] = ()
    requests: ResourceList = field(default_factory=dict)
    overhead: ResourceList = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    exclusive_cpus: frozenset[int] = frozenset()
    surplus: int = 0
    """The milli-CPU that it requests beyond these CPUs: they are normalized."""
    qos_class: str = ""
    phase: str = ""


@dataclass(frozen=True, slots=True)
class NodeDemand:
    """The sum over a node's pods that have not finished.

    ``requests``: cpu in milli-CPU, memory in bytes. ``cpuset_milli``: 1000 x CPUs that CPUSet pods own.
    ``surplus``: the milli-CPU that these request beyond that.
    """

    requests: Mapping[str, int]
    cpuset_milli: int = 0
    surplus: int = 0


def pod_requests(pod: PodDemand) -> ResourceList:
    """Return the effective requests of a pod, cpu and memory."""
    return {resource: pod_request(pod, resource) for resource in AMPLIFIABLE}


def pod_request(pod: PodDemand, resource: str) -> Quantity:
    """Return the effective request of a pod for one resource, of any kind."""
    return Quantity(_pod_nano(pod, resource))


def _pod_nano(pod: PodDemand, resource: str) -> int:
    running = sum(_container_nano(each, resource) for each in pod.containers)
    sidecars = starting = 0
    for each in pod.init_containers:
        own = _container_nano(each, resource)
        starting = max(starting, sidecars + own)
        sidecars += own if each.restarts_always else 0
    total = max(running + sidecars, starting)
    if resource in pod.requests:
        total = pod.requests[resource].nano
    return total + pod.overhead.get(resource, _NOTHING).nano


def _container_nano(container: ContainerDemand, resource: str) -> int:
    wanted = container.requests.get(resource, _NOTHING).nano
    return max(wanted, container.allocated.get(resource, _NOTHING).nano)


def node_demand(pods: Iterable[PodDemand], *, static_cpu_manager: bool = False) -> NodeDemand:
    """Sum up a node's pods; those that have finished do not count.

    ``static_cpu_manager``: the node's kubelet runs the static CPU manager policy.
    """
    present = [pod for pod in pods if pod.phase not in _FINISHED]
    requests = [pod_requests(pod) for pod in present]
    named = frozenset[int]().union(*(pod.exclusive_cpus for pod in present))
    unnamed = sum(
        owned_milli(pod, static_cpu_manager=static_cpu_manager) for pod in present if not pod.exclusive_cpus
    )
    return NodeDemand(
        requests={
            CPU: sum(each[CPU].milli for each in requests),
            MEMORY: sum(each[MEMORY].units for each in requests),
        },
        cpuset_milli=len(named) * MILLI + unnamed,
        surplus=sum(pod.surplus for pod in present if pod.exclusive_cpus),
    )


def is_cpuset_by_class(pod: PodDemand) -> bool:
    """Whether the pod asks for CPUs of its own by its QoS class, whatever the node's kubelet does."""
    return pod.labels.get(names.QOS_CLASS) in OWNERS_OF_CPUS


def owned_milli(pod: PodDemand, *, static_cpu_manager: bool) -> int:
    """Return 1000 x the CPUs that a pod is to own by its requests; 0 for a CPUShare pod.

    An amount that is not a whole number of CPUs owns none.
    """
    if is_cpuset_by_class(pod):
        return _whole_milli(pod_request(pod, CPU))
    if static_cpu_manager and pod.qos_class == "Guaranteed":
        sidecars = tuple(each for each in pod.init_containers if each.restarts_always)
        lasting = (*pod.containers, *sidecars)
        return sum(_whole_milli(each.requests.get(CPU, _NOTHING)) for each in lasting)
    return 0


def _whole_milli(request: Quantity) -> int:
    return request.milli if request.milli % MILLI == 0 else 0


BUSY_PERCENT: Final = 60


@dataclass(frozen=True, slots=True)
class Misfit:
    """Pods that would no longer fit. ``smallest_safe`` is None where no ratio makes them fit."""

    resource: str
    requested: Quantity
    """At the ratio asked for, with owned CPUs amplified."""
    allocatable: Quantity | None
    """After the change; None if the raw amount is not known."""
    ratio: Ratio
    """That was asked for."""
    smallest_safe: Ratio | None
    owned_cpus: int = 0

    @property
    def message(self) -> str:
        """One sentence with the numbers, for the person who asked for the change."""
        owned = f" (with {self.owned_cpus} CPUs of CPUSet pods amplified)" if self.owned_cpus else ""
        requested = shown(self.resource, self.requested)
        if self.allocatable is None:
            return (
                f"{self.resource}: the node's pods request {requested}{owned}; allocatable at ratio "
                f"{self.ratio} is not known, because the amount in status has no usable record and may be "
                "amplified already; try again in 30 seconds, when kubelet has had time to state the raw "
                "one"
            )
        advice = (
            "no ratio is safe: CPUSet pods own more CPUs than the machine offers"
            if self.smallest_safe is None
            else f"the smallest safe ratio is {self.smallest_safe}"
        )
        return (
            f"{self.resource}: the node's pods request {requested}{owned}, but at ratio {self.ratio} "
            f"allocatable would be {shown(self.resource, self.allocatable)}; {advice}"
        )


def misfits(
    *,
    old: Ratios,
    new: Ratios,
    raw_allocatable: ResourceList,
    demand: NodeDemand,
) -> tuple[Misfit, ...]:
    """Return the misfits that make a change of ratios unsafe. The caller handles the override.

    ``raw_allocatable``: the amounts that are known to be raw. Where one is not, no decrease is safe for pods
    that request the resource.
    """
    lowered = [name for name in AMPLIFIABLE if ratio_of(new, name) < ratio_of(old, name)]
    found = [_misfit(name, ratio_of(new, name), raw_allocatable.get(name), demand) for name in lowered]
    return tuple(misfit for misfit in found if misfit is not None)


def _misfit(resource: str, ratio: Ratio, raw: Quantity | None, demand: NodeDemand) -> Misfit | None:
    total = demand.requests.get(resource, 0)
    counts = resource == CPU and total >= demand.cpuset_milli + demand.surplus
    owned, surplus = (demand.cpuset_milli, demand.surplus) if counts else (0, 0)
    needed = occupied(total, owned, ratio.hundredths, surplus)
    if raw is None:
        return (
            Misfit(resource, quantity(resource, needed), None, ratio, None, owned // MILLI)
            if needed
            else None
        )
    step = NANO_PER_STEP[resource]
    requested = Quantity(needed * step, raw.format)
    allocatable = amplified(resource, raw, ratio)
    if requested <= allocatable:
        return None
    smallest = _smallest_safe((total - owned - surplus) * step, raw.nano - owned * step)
    if smallest is not None and surplus:
        smallest = max(smallest, Ratio(-(-total * step * ONE.hundredths // raw.nano)))
    return Misfit(resource, requested, allocatable, ratio, smallest, owned // MILLI)


def _smallest_safe(shared: int, offered: int) -> Ratio | None:
    """Return the smallest ratio at which ``shared`` requests fit into what owned CPUs leave of raw."""
    if offered <= 0:
        return ONE if shared == offered == 0 else None
    return max(ONE, Ratio(-(-shared * ONE.hundredths // offered)))


def allows_unsafe_change(annotations: Mapping[str, str]) -> bool:
    """Whether the node says that its pods may stop fitting."""
    return annotations.get(names.ALLOW_UNSAFE_CHANGE) == "true"


def busy_raise(*, old: Ratios, new: Ratios, cpu_usage_percent: int | None) -> Finding | None:
    """Return a warning if the cpu ratio rises on a node that is really busy; unknown usage gives none."""
    before, after = ratio_of(old, CPU), ratio_of(new, CPU)
    if after <= before or cpu_usage_percent is None or cpu_usage_percent <= BUSY_PERCENT:
        return None
    message = (
        f"the cpu ratio rises from {before} to {after} while {cpu_usage_percent} % of the node's CPU time "
        f"is used (more than {BUSY_PERCENT} %): amplify idle nodes only"
    )
    return Finding(Reason.RAISE_ON_BUSY_NODE, message, CPU)
