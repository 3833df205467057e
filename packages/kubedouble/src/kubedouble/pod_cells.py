"""The cells of a Pod (its state in one word, how much is ready, restarts), and ages as kubectl prints them.

Source: printPod of k8s.io/kubernetes/pkg/printers/internalversion/printers.go; HumanDuration of
k8s.io/apimachinery/pkg/util/duration/duration.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
UNKNOWN = "<unknown>"


def human_duration(seconds: float) -> str:
    """Return a length of time in at most two units, as precise as its size makes sensible."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    return next(text(whole) for below, text in _STEPS if whole < below)


def _two(whole: int, unit: int, name: str, rest: int, rest_name: str) -> str:
    remainder = whole % unit // rest
    return f"{whole // unit}{name}" + (f"{remainder}{rest_name}" if remainder else "")


_STEPS: tuple[tuple[float, Callable[[int], str]], ...] = (
    (2 * _MINUTE, lambda whole: f"{max(whole, 0)}s"),
    (10 * _MINUTE, lambda whole: _two(whole, _MINUTE, "m", 1, "s")),
    (3 * _HOUR, lambda whole: f"{whole // _MINUTE}m"),
    (8 * _HOUR, lambda whole: _two(whole, _HOUR, "h", _MINUTE, "m")),
    (2 * _DAY, lambda whole: f"{whole // _HOUR}h"),
    (8 * _DAY, lambda whole: _two(whole, _DAY, "d", _HOUR, "h")),
    (2 * _YEAR, lambda whole: f"{whole // _DAY}d"),
    (8 * _YEAR, lambda whole: _two(whole, _YEAR, "y", _DAY, "d")),
    (inf, lambda whole: f"{whole // _YEAR}y"),
)


def since(timestamp: Any, now: datetime) -> str:
    """Return the age of an API timestamp; ``<unknown>`` if there is none."""
    at = instant(timestamp)
    return UNKNOWN if at is None else human_duration((now - at).total_seconds())


def instant(timestamp: Any) -> datetime | None:
    """Return an API timestamp as a time; None if it is none."""
    if not isinstance(timestamp, str):
        return None
    try:
        at = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


Object = Mapping[str, Any]
NONE = "<none>"


@dataclass(slots=True)
class _Summary:
    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: datetime | None = None

    def count(self, status: Object) -> None:
        self.restarts += status.get("restartCount", 0)
        finished = instant(((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
        if finished and (self.last_restart is None or finished > self.last_restart):
            self.last_restart = finished


def pod_cells(pod: Object, now: datetime) -> list[Any]:
    """Return the cells of a pod, wide ones included."""
    spec, status, metadata = pod.get("spec") or {}, pod.get("status") or {}, pod["metadata"]
    summary = _Summary(status.get("reason") or status.get("phase") or "Unknown")
    if _has_condition(status, "PodScheduled", "reason", "SchedulingGated"):
        summary.reason = "SchedulingGated"
    initializing = _initialize(summary, spec, status)
    if not initializing:
        _run(summary, status)
    if metadata.get("deletionTimestamp"):
        lost = status.get("reason") == "NodeLost"
        summary.reason = "Unknown" if lost else "Terminating"
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts += f" ({human_duration((now - summary.last_restart).total_seconds())} ago)"
    sidecars = sum(each.get("restartPolicy") == "Always" for each in spec.get("initContainers") or ())
    total = len(spec.get("containers") or ()) + sidecars
    return [
        f"{summary.ready}/{total}",
        summary.reason,
        restarts,
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, status),
    ]


def _initialize(summary: _Summary, spec: Object, status: Object) -> bool:
    """Count the init containers; return whether they are still at work."""
    containers = {each["name"]: each for each in spec.get("initContainers") or ()}
    statuses = status.get("initContainerStatuses") or ()
    for position, each in enumerate(statuses):
        summary.count(each)
        state = each.get("state") or {}
        sidecar = containers.get(each.get("name"), {}).get("restartPolicy") == "Always"
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated and terminated.get("exitCode") == 0:
            continue
        if sidecar and each.get("started"):
            summary.ready += bool(each.get("ready"))
            continue
        if terminated:
            summary.reason = f"Init:{_ended(terminated)}"
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            summary.reason = f"Init:{waiting['reason']}"
        else:
            summary.reason = f"Init:{position}/{len(containers)}"
        return True
    return False


def _run(summary: _Summary, status: Object) -> None:
    statuses = status.get("containerStatuses") or ()
    if statuses:
        sidecars = [each for each in status.get("initContainerStatuses") or () if each.get("started")]
        summary.restarts = sum(each.get("restartCount", 0) for each in sidecars)
    running = False
    for each in reversed(statuses):
        summary.count(each)
        state = each.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            summary.reason = waiting["reason"]
        elif terminated is not None:
            summary.reason = _ended(terminated)
        elif each.get("ready") and "running" in state:
            running = True
            summary.ready += 1
    if summary.reason == "Completed" and running:
        summary.reason = "Running" if _has_condition(status, "Ready", "status", "True") else "NotReady"


def _has_condition(status: Object, kind: str, field: str, value: str) -> bool:
    conditions = status.get("conditions") or ()
    return any(each.get("type") == kind and each.get(field) == value for each in conditions)


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _gates(spec: Object, status: Object) -> str:
    gates: Iterable[Object] = spec.get("readinessGates") or ()
    wanted = [gate["conditionType"] for gate in gates]
    if not wanted:
        return NONE
    true = {each["type"] for each in status.get("conditions") or () if each.get("status") == "True"}
    return f"{sum(each in true for each in wanted)}/{len(wanted)}"
