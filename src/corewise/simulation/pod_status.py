"""What a kubelet writes into a pod's status: admitted and running, or rejected for want of a resource. Pure.

The kubelet admits a pod by the allocatable it reads from the API, so on an amplified node by the amplified
one. Of extended resources, batch CPU among them, it checks those alone that the node offers. Sources:
pkg/kubelet/lifecycle/predicate.go (OutOf… reasons and messages), pkg/kubelet/status.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from corewise.manager.objects import DemandingPod
from corewise.quantities import Quantity, QuantityError
from corewise.simulation.pod_cgroups import container_id


def _nothing() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Need:
    """What a pod takes of its node. CPU in milli-CPU as the scheduler counts it, memory in bytes.

    ``extended``: amounts above 0 of extended resources.
    """

    cpu_milli: int
    memory: int
    extended: Mapping[str, int] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the kubelet does not run a pod."""

    reason: str
    message: str


def admit(need: Need, used: Need, pods: int, allocatable: Mapping[str, str]) -> Rejection | None:
    """Return why a pod does not fit beside ``pods`` others that use ``used``, or None if it does."""
    room = (
        ("pods", 1, pods, _units(allocatable, "pods")),
        ("cpu", need.cpu_milli, used.cpu_milli, _milli(allocatable, "cpu")),
        ("memory", need.memory, used.memory, _units(allocatable, "memory")),
        *(
            (name, amount, used.extended.get(name, 0), _units(allocatable, name))
            for name, amount in need.extended.items()
            if name in allocatable
        ),
    )
    for resource, wanted, taken, capacity in room:
        if wanted > 0 and taken + wanted > capacity:
            return Rejection(
                f"OutOf{resource}",
                f"Pod was rejected: Node didn't have enough resource: {resource}, "
                f"requested: {wanted}, used: {taken}, capacity: {capacity}",
            )
    return None


def together(needs: Collection[Need]) -> Need:
    """Return what all of these take."""
    names = {name for each in needs for name in each.extended}
    return Need(
        sum(each.cpu_milli for each in needs),
        sum(each.memory for each in needs),
        {name: sum(each.extended.get(name, 0) for each in needs) for name in names},
    )


def _milli(amounts: Mapping[str, str], resource: str) -> int:
    return _quantity(amounts, resource).milli


def _units(amounts: Mapping[str, str], resource: str) -> int:
    return _quantity(amounts, resource).units


def _quantity(amounts: Mapping[str, str], resource: str) -> Quantity:
    try:
        return Quantity.parse(amounts.get(resource, "0"))
    except QuantityError:
        return Quantity(0)


def running_status(pod: DemandingPod, *, host: str, address: str, now: str) -> dict[str, Any]:
    """Return the status of a pod whose containers all run."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds],
        "containerStatuses": [_running(pod, container.name, now) for container in pod.spec.containers],
        "initContainerStatuses": [
            _running(pod, container.name, now)
            for container in pod.spec.init_containers
            if container.restart_policy == "Always"
        ],
    }


def _running(pod: DemandingPod, name: str, now: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": "simulated",
        "imageID": "simulated",
        "containerID": container_id(pod, name),
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": now}},
    }


def rejected_status(rejection: Rejection, *, now: str) -> dict[str, Any]:
    """Return the status of a pod the kubelet refuses."""
    return {
        "phase": "Failed",
        "reason": rejection.reason,
        "message": rejection.message,
        "startTime": now,
    }
