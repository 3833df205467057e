"""What the pods of a node request, and which of its CPUs are theirs alone.

Requests are counted as kube-scheduler and kubelet count them: containers and sidecars run together; an init
container runs alone but for the sidecars started before it, and the largest such moment counts; a request at
pod level replaces the sum; overhead comes on top; while a container is resized the larger of wanted and
granted counts. Source: k8s.io/component-helpers/resource, PodRequests.

A CPUSet pod owns CPUs: those of its resource-status annotation; without one (bound while nothing assigned
them) as many as it requests, if it has QoS LSE or LSR and requests whole CPUs, or if it is Guaranteed under
kubelet's static CPU manager, which gives exclusive CPUs to each container that requests whole ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from corewise.amplification.amounts import AMPLIFIABLE, CPU, MEMORY, ResourceList
from corewise.quantities import Quantity
from corewise.vocabulary import names
from corewise.vocabulary.qos import OWNERS_OF_CPUS

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_MILLI: Final = 1000
_NOTHING: Final = Quantity(0)


@dataclass(frozen=True, slots=True)
class ContainerDemand:
    """A container's requests. ``allocated``: what kubelet has granted it, while a resize is under way."""

    requests: ResourceList
    allocated: ResourceList = field(default_factory=dict)
    restarts_always: bool = False
    """An init container with restartPolicy Always: a sidecar."""


@dataclass(frozen=True, slots=True)
class PodDemand:
    """What is needed of a pod to know what it takes of its node.

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
    qos_class: str = ""
    phase: str = ""


@dataclass(frozen=True, slots=True)
class NodeDemand:
    """The sum over a node's pods that have not finished.

    ``requests``: cpu in milli-CPU, memory in bytes. ``cpuset_milli``: 1000 x CPUs that CPUSet pods own.
    """

    requests: Mapping[str, int]
    cpuset_milli: int = 0


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
        cpuset_milli=len(named) * _MILLI + unnamed,
    )


def is_cpuset_by_class(pod: PodDemand) -> bool:
    """Whether the pod asks for CPUs of its own by its QoS class, whatever the node's kubelet does."""
    return pod.labels.get(names.QOS_CLASS) in OWNERS_OF_CPUS


def owned_milli(pod: PodDemand, *, static_cpu_manager: bool) -> int:
    """Return 1000 x the CPUs that a pod is to own by its requests; 0 for a CPUShare pod.

    An amount that is no whole number of CPUs owns none.
    """
    if is_cpuset_by_class(pod):
        return _whole_milli(pod_request(pod, CPU))
    if static_cpu_manager and pod.qos_class == "Guaranteed":
        sidecars = tuple(each for each in pod.init_containers if each.restarts_always)
        lasting = (*pod.containers, *sidecars)
        return sum(_whole_milli(each.requests.get(CPU, _NOTHING)) for each in lasting)
    return 0


def _whole_milli(request: Quantity) -> int:
    return request.milli if request.milli % _MILLI == 0 else 0
