"""The status that a kubelet writes for its node and its pods, and the form it sends it in. Pure.

Every period: take the node as cached, recompute the whole status from the
machine (raw amounts; conditions with a fresh ``lastHeartbeatTime``), and if anything but heartbeats
differs, or the last report is too old, send the *difference* to ``nodes/status`` as a strategic merge
patch. On an amplified node the cached amounts are never the raw ones, so something always differs.

What the kubelet copies it copies here too: resources it does not know stay in capacity, and come into
allocatable from there.

Source: pkg/kubelet/kubelet_node_status.go (tryUpdateNodeStatus, nodeStatusHasChanged),
pkg/kubelet/nodestatus/setters.go (MachineInfo), pkg/util/node (PatchNodeStatus).

The kubelet admits a pod by the allocatable it reads from the API, so on an amplified node by the amplified
one. Of extended resources it checks those alone that the node offers; here of batch CPU too, so that offline
pods can run without corewise. A kubelet counts no name of kubernetes.io as extended, and would refuse them.
Sources:
pkg/kubelet/lifecycle/predicate.go (OutOf… reasons and messages), pkg/kubelet/status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corewise.quantities import Quantity, QuantityError
from corewise.workload.pods import Pod
from corewise_lab.machines import Machine
from corewise_lab.node_cgroups import container_id

StatusPatch = dict[str, Any]
_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_UNDER_PRESSURE = {
    "MemoryPressure": ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    "DiskPressure": ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    "PIDPressure": ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
}
_AMOUNTS = ("capacity", "allocatable")
_ALWAYS_CHECKED = frozenset({"pods", "cpu", "memory"})

Need = Mapping[str, int]
"""What a pod takes of its node, by resource: CPU in milli-CPU as the scheduler counts it, memory in bytes."""


def compute_status(
    cached: Mapping[str, Any],
    machine: Machine,
    *,
    address: str,
    now: str,
    pressure: Sequence[str] = (),
    boot_id: str = "simulated",
) -> StatusPatch:
    """Return the status the kubelet wants, from its cached one and its view of the machine.

    ``pressure`` names the conditions (MemoryPressure …) that hold. ``now`` is RFC 3339, ``boot_id`` what the
    machine's kernel calls its boot.
    """
    capacity = {**cached.get("capacity", {}), **machine.capacity}
    return {
        **cached,
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": machine.name},
        ],
        "capacity": capacity,
        "allocatable": {**capacity, **machine.allocatable},
        "conditions": _conditions(cached.get("conditions", []), now, pressure),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": _node_info(machine, boot_id),
    }


def _conditions(
    cached: Sequence[Mapping[str, Any]], now: str, pressure: Sequence[str]
) -> list[dict[str, Any]]:
    """Return all conditions in their cached order: the kubelet's own recomputed, others untouched."""
    wanted: dict[str, dict[str, Any]] = {}
    for kind, healthy, *texts in _HEALTHY:
        status, (reason, message) = ("True", _UNDER_PRESSURE[kind]) if kind in pressure else (healthy, texts)
        wanted[kind] = {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
    result: list[dict[str, Any]] = []
    for old in cached:
        new = wanted.pop(old["type"], None)
        if new is None:
            result.append(dict(old))
            continue
        if old.get("status") == new["status"]:
            new["lastTransitionTime"] = old.get("lastTransitionTime", now)
        result.append(new)
    return result + list(wanted.values())


def _node_info(machine: Machine, boot_id: str) -> dict[str, str]:
    name = machine.name
    return {
        "architecture": machine.architecture,
        "bootID": boot_id,
        "containerRuntimeVersion": "containerd://0.0-simulated",
        "kernelVersion": "6.1.0-simulated",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.36.0",
        "machineID": f"machine-{name}",
        "operatingSystem": "linux",
        "osImage": "corewise simulated machine",
        "systemUUID": f"system-{name}",
    }


def has_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether anything but heartbeat times differs; amounts are compared as amounts, not as text."""
    if not all(_same_amounts(old.get(field, {}), new.get(field, {})) for field in _AMOUNTS):
        return True
    if _without_heartbeats(old) != _without_heartbeats(new):
        return True
    ignored = {*_AMOUNTS, "conditions"}
    return any(old.get(key) != new.get(key) for key in (old.keys() | new.keys()) - ignored)


def _without_heartbeats(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    conditions = sorted(status.get("conditions", []), key=lambda condition: str(condition["type"]))
    return [{k: v for k, v in condition.items() if k != "lastHeartbeatTime"} for condition in conditions]


def _same_amounts(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if old == new:
        return True
    try:
        return old.keys() == new.keys() and all(
            Quantity.parse(str(old[key])) == Quantity.parse(str(new[key])) for key in old
        )
    except QuantityError:
        return False


def strategic_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the strategic merge patch of ``status`` that leads from one status to the other.

    Conditions are merged by type, with their order; addresses are replaced whole, as the kubelet does,
    because their merge key does not tell two addresses of one type apart.
    """
    patch: dict[str, Any] = {}
    for key in old.keys() | new.keys():
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if key == "conditions":
            patch.update(_condition_patch(before or [], after or []))
        elif key == "addresses":
            patch[key] = [*(after or []), {"$patch": "replace"}]
        else:
            patch[key] = _map_difference(before, after)
    return patch


def _condition_patch(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    before = {condition["type"]: condition for condition in old}
    changed = [
        {"type": condition["type"], **_map_difference(before.get(condition["type"], {}), condition)}
        for condition in new
        if before.get(condition["type"]) != condition
    ]
    gone = before.keys() - {condition["type"] for condition in new}
    return {
        "$setElementOrder/conditions": [{"type": condition["type"]} for condition in new],
        "conditions": changed + [{"$patch": "delete", "type": kind} for kind in sorted(gone)],
    }


def _map_difference(old: Any, new: Any) -> Any:
    """Return a merge patch between two values: the changed ones, and None for removed ones."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    changed = {key: _map_difference(old.get(key), new[key]) for key in new if old.get(key) != new[key]}
    return changed | {key: None for key in old if key not in new}


@dataclass(frozen=True, slots=True)
class Rejection:
    """The kubelet's reason for not running a pod."""

    reason: str
    message: str


def admit(need: Need, others: Collection[Need], allocatable: Mapping[str, str]) -> Rejection | None:
    """Return the reason why a pod does not fit beside the others, or None if it does."""
    used = Counter({"pods": len(others)})
    for each in others:
        used.update(each)
    for resource, wanted in {"pods": 1, **need}.items():
        if resource not in _ALWAYS_CHECKED and resource not in allocatable:
            continue
        taken = used[resource]
        try:
            offered = Quantity.parse(allocatable.get(resource, "0"))
        except QuantityError:
            offered = Quantity(0)
        capacity = offered.milli if resource == "cpu" else offered.units
        if wanted > 0 and taken + wanted > capacity:
            return Rejection(
                f"OutOf{resource}",
                f"Pod was rejected: Node didn't have enough resource: {resource}, "
                f"requested: {wanted}, used: {taken}, capacity: {capacity}",
            )
    return None


def running_status(pod: Pod, *, host: str, address: str, now: str) -> dict[str, Any]:
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


def _running(pod: Pod, name: str, now: str) -> dict[str, Any]:
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


def ended_status(pod: Pod, *, now: str, failed: bool, restarts: int | None) -> dict[str, Any]:
    """Return the status of a pod whose containers have ended; with ``restarts`` they run again."""
    running = [_running(pod, container.name, now) for container in pod.spec.containers]
    if restarts is not None:
        return {"containerStatuses": [{**each, "restartCount": restarts} for each in running]}
    how = {"exitCode": int(failed), "reason": "Error" if failed else "Completed", "finishedAt": now}
    state = {"ready": False, "started": False, "state": {"terminated": how}}
    unready = {
        "status": "False",
        "reason": "PodFailed" if failed else "PodCompleted",
        "lastTransitionTime": now,
    }
    return {
        "phase": "Failed" if failed else "Succeeded",
        "conditions": [{"type": kind, **unready} for kind in ("Ready", "ContainersReady")],
        "containerStatuses": [{**each, **state} for each in running],
    }


def rejected_status(rejection: Rejection, *, now: str) -> dict[str, Any]:
    """Return the status of a pod the kubelet refuses."""
    return {"phase": "Failed", "reason": rejection.reason, "message": rejection.message, "startTime": now}
