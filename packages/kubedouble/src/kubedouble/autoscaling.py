"""HorizontalPodAutoscalers change the size of Deployments and ReplicaSets, as from kube-controller-manager.

Every ``PERIOD`` seconds, of each metric, with ``ratio`` = what is / target:

    replicas = ceil(pods counted x ratio)          unless ratio is within 10 % of 1

The largest of all metrics counts. A pod without a value counts as 100 % of the target where the others would
scale down, and as 0 where they would scale up; one that is pending (and, of CPU and memory, one that is not
ready) as 0 where they would scale up. What this turns round changes nothing. In one period a workload grows
by 4 pods or to twice its size, whichever is more, and it shrinks to the largest number of pods that was
wanted in the last ``stabilizationWindowSeconds`` (300).

============  ==============================================================================================
metric        is read from
============  ==============================================================================================
Resource      PodMetrics (metrics.k8s.io): usage / request, or usage
Pods          MetricValues (custom.metrics.k8s.io) that describe the workload's pods
External      ExternalMetricValues (external.metrics.k8s.io) of that name, summed up
============  ==============================================================================================

A real cluster reads them by aggregated APIs; here they are custom resources, which whoever stands in for
metrics-server or for an adapter writes, and deletes when there is no longer a value. Metrics of type Object
and ContainerResource, and ``behavior`` other than that window, are not followed: ScalingActive says so.

Source: kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale (algorithm details).
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kubedouble.cluster import Cluster
from kubedouble.errors import StatusError
from kubedouble.quantities import NANO, parse_quantity
from kubedouble.schema.decoding import timestamp
from kubedouble.selectors import label_selector, satisfies
from kubedouble.store import Key, Object, Stored

AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
PERIOD = 15.0
_WINDOW = "stabilizationWindowSeconds"
TOLERANCE = Fraction(1, 10)
_TARGETS = {"Deployment": "deployments.apps", "ReplicaSet": "replicasets.apps"}
_POD_METRICS, _VALUES, _EXTERNAL_VALUES = (
    "pods.metrics.k8s.io",
    "metricvalues.custom.metrics.k8s.io",
    "externalmetricvalues.external.metrics.k8s.io",
)

ChangePart = Callable[[tuple[str, Key], str, Object], Awaitable[None]]
"""Sets fields of a part of an object: storage key and object key, ``spec`` or ``status``, the fields."""


class NoMetricError(Exception):
    """A metric that cannot be computed: the reason of ScalingActive, and the fault."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Pods:
    """A workload's pods: those that run, those without whose value it must do, and the values by name.

    A value is ``(what is, what 100 % of the target is)`` in the same unit.
    """

    running: frozenset[str]
    unready: frozenset[str]
    values: Mapping[str, tuple[Fraction, Fraction]]


def replicas(current: int, pods: Pods) -> int:
    """Return the number of pods that the values ask for.

    Raises:
        ValueError: if no pod has a value, or the targets of those that have one are 0.
    """
    known = {name: value for name, value in pods.values.items() if name in pods.running}
    if not known:
        raise ValueError("no pod that runs has a value")
    ratio = _ratio(known.values())
    missing = pods.running - known.keys()
    unready = pods.unready if ratio > 1 else frozenset[str]()
    if not missing and not unready:
        return current if _is_near(ratio) else math.ceil(ratio * len(known))
    full = _sum(target for _, target in known.values()) / len(known)
    known |= dict.fromkeys(missing, (full if ratio < 1 else Fraction(0), full))
    known |= dict.fromkeys(unready, (Fraction(0), full))
    again = _ratio(known.values())
    wanted = math.ceil(again * len(known))
    turned = (again > 1) != (ratio > 1) or (wanted > current) != (ratio > 1)
    return current if _is_near(again) or turned else wanted


def _ratio(values: Iterable[tuple[Fraction, Fraction]]) -> Fraction:
    used, targets = map(_sum, zip(*values, strict=True))
    if not targets:
        raise ValueError("the target of the pods that run is 0")
    return used / targets


def _sum(amounts: Iterable[Fraction]) -> Fraction:
    return sum(amounts, Fraction(0))


def _is_near(ratio: Fraction) -> bool:
    return abs(ratio - 1) <= TOLERANCE


class Autoscaler:
    """Looks at all HorizontalPodAutoscalers until canceled."""

    def __init__(self, cluster: Cluster, change: ChangePart) -> None:
        self._cluster = cluster
        self._change = change
        self._wanted: dict[str, deque[tuple[float, int]]] = defaultdict(deque)
        """UID -> when how many pods were wanted."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            for stored in list(self._cluster.store.table(AUTOSCALERS).scan()):
                try:
                    await self._look(stored)
                except StatusError:
                    continue  # it was changed or deleted meanwhile: the next look decides again

    async def _look(self, stored: Stored) -> None:
        spec = stored.object["spec"]
        reference, namespace = spec["scaleTargetRef"], stored.key[0]
        place = (_TARGETS.get(reference["kind"], ""), (namespace, reference["name"]))
        target = self._cluster.store.get(place[0], *place[1]) if place[0] else None
        status: Object = {**(stored.object.get("status") or {}), "desiredReplicas": 0}
        conditions = {each["type"]: each for each in status.get("conditions") or ()}
        if target is None:
            named = f"{reference['kind']} {reference['name']}"
            self._state(
                conditions, "AbleToScale", "FailedGetScale", f"there is no {named} that can be scaled"
            )
        else:
            self._state(conditions, "AbleToScale", "SucceededGetScale", "the target was found", holds=True)
            current = target.object["spec"]["replicas"]
            wanted, reports = self._desired(stored, target, conditions)
            if wanted != current:
                await self._change(place, "spec", {"replicas": wanted})
                status["lastScaleTime"] = timestamp(self._cluster.clock())
            status |= {"currentReplicas": current, "desiredReplicas": wanted, "currentMetrics": reports}
        status["conditions"] = [*conditions.values()]
        await self._change((AUTOSCALERS, stored.key), "status", status)

    def _desired(
        self, stored: Stored, target: Stored, conditions: dict[str, Object]
    ) -> tuple[int, list[Object]]:
        """Return the desired number of the target's pods, and the metrics."""
        spec, current = stored.object["spec"], target.object["spec"]["replicas"]
        if current == 0:
            self._state(conditions, "ScalingActive", "ScalingDisabled", "the target has been scaled to 0")
            return 0, []
        proposals, reports, failures = [], [], []
        for metric in spec.get("metrics") or _DEFAULT_METRICS:
            try:
                proposed, report = self._proposal(metric, target)
            except NoMetricError as error:
                failures.append(error)
            else:
                proposals.append(proposed)
                reports.append(report)
        wanted = max(proposals, default=current)
        behavior = spec.get("behavior") or {}
        if behavior.get("scaleUp") or (behavior.get("scaleDown") or {}).keys() - {_WINDOW}:
            ignored = f"of behavior, only scaleDown.{_WINDOW} is followed here"
        else:
            ignored = "all metrics are known"
        if failures:  # a metric that is not known might have wanted more
            wanted = max(wanted, current)
            self._state(conditions, "ScalingActive", failures[0].reason, str(failures[0]))
        else:
            self._state(conditions, "ScalingActive", "ValidMetricFound", ignored, holds=True)
        wanted = min(self._stable(stored, current, wanted), max(2 * current, current + 4))
        return max(spec.get("minReplicas", 1), min(spec["maxReplicas"], wanted)), reports

    def _stable(self, stored: Stored, current: int, wanted: int) -> int:
        """Return the size, no smaller than what was wanted within the window."""
        behavior = (stored.object["spec"].get("behavior") or {}).get("scaleDown") or {}
        now = self._cluster.clock().timestamp()
        history = self._wanted[stored.object["metadata"]["uid"]]
        history.append((now, wanted))
        while history[0][0] < now - behavior.get(_WINDOW, 300):
            history.popleft()
        return max(wanted, min(current, max(size for _, size in history)))

    def _proposal(self, metric: Object, target: Stored) -> tuple[int, Object]:
        """Return the number of pods that a metric asks for, and its report for the status.

        Raises:
            NoMetricError: if it cannot be computed.
        """
        kind = metric["type"]
        if kind not in {"External", "Resource", "Pods"}:
            raise NoMetricError("InvalidMetricSourceType", f"metrics of type {kind} are not supported here")
        source = metric.get(kind.lower())
        if source is None:
            raise NoMetricError("InvalidMetricSourceType", f"the metric has no field {kind.lower()}")
        goal = source.get("target") or {}
        current = target.object["spec"]["replicas"]
        selector = label_selector(target.object["spec"].get("selector"))
        pods = [
            pod.object
            for pod in self._cluster.store.table("pods").scan(target.key[0])
            if satisfies(pod.object["metadata"].get("labels") or {}, selector)
            and not pod.object["metadata"].get("deletionTimestamp")
            and pod.object["status"].get("phase") not in {"Failed", "Succeeded"}
        ]
        if kind == "External":
            return self._external(source["metric"], goal, target, pods)
        if kind == "Resource":
            found, name = self._resource(source["name"], goal, target.key[0], pods), {"name": source["name"]}
        else:
            name = {"metric": source["metric"]}
            found = self._of_pods(source["metric"]["name"], goal, target.key[0])
        states = {pod["metadata"]["name"]: _is_unready(pod, kind) for pod in pods}
        unready = frozenset(name for name, waits in states.items() if waits)
        known = Pods(frozenset(states) - unready, unready, found)
        try:
            wanted = replicas(current, known)
        except ValueError as error:
            raise NoMetricError(f"FailedGet{kind}Metric", str(error)) from error
        values = [found[each] for each in known.running if each in found]
        used, full = map(_sum, zip(*values, strict=True))
        report: Object = {"averageValue": _text(used / len(values))}
        if "averageUtilization" in goal:
            report["averageUtilization"] = int(used * goal["averageUtilization"] / full)
        return wanted, {"type": kind, kind.lower(): {**name, "current": report}}

    def _resource(
        self, name: str, goal: Object, namespace: str, pods: Sequence[Object]
    ) -> dict[str, tuple[Fraction, Fraction]]:
        found = {}
        for pod in pods:
            stored = self._cluster.store.get(_POD_METRICS, namespace, pod["metadata"]["name"])
            used = {each["name"]: each["usage"] for each in stored.object["containers"]} if stored else {}
            spec = pod["spec"]
            sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy")]
            containers = [*spec["containers"], *sidecars]
            if any(name not in used.get(each["name"], ()) for each in containers):
                continue
            value = _sum(_amount(used[each["name"]][name], "Resource") for each in containers)
            if "averageUtilization" in goal:
                requests = [(each.get("resources") or {}).get("requests") or {} for each in containers]
                if any(name not in each for each in requests):
                    said = f"a container of pod {pod['metadata']['name']} has no request for {name}"
                    raise NoMetricError("FailedGetResourceMetric", said)
                requested = _sum(_amount(each[name], "Resource") for each in requests)
                full = requested * goal["averageUtilization"] / 100
            else:
                full = _target(goal, "averageValue", "Resource")
            found[pod["metadata"]["name"]] = (value, full)
        return found

    def _of_pods(self, name: str, goal: Object, namespace: str) -> dict[str, tuple[Fraction, Fraction]]:
        full = _target(goal, "averageValue", "Pods")
        return {
            each.object["describedObject"]["name"]: (_amount(each.object["value"], "Pods"), full)
            for each in self._cluster.store.table(_VALUES).scan(namespace)
            if each.object["metric"]["name"] == name and each.object["describedObject"]["kind"] == "Pod"
        }

    def _external(
        self, metric: Object, goal: Object, target: Stored, pods: Sequence[Object]
    ) -> tuple[int, Object]:
        name, selector = metric["name"], label_selector(metric.get("selector"))
        found = [
            _amount(each.object["value"], "External")
            for each in self._cluster.store.table(_EXTERNAL_VALUES).scan(target.key[0])
            if each.object["metricName"] == name
            and satisfies(each.object.get("metricLabels") or {}, selector)
        ]
        if not found:
            raise NoMetricError("FailedGetExternalMetric", f"the external metric {name} has no value")
        current, value = target.object["spec"]["replicas"], _sum(found)
        per_pod = "averageValue" in goal
        full = _target(goal, "averageValue" if per_pod else "value", "External")
        ratio = value / full / (current if per_pod else 1)
        ready = sum(not _is_unready(pod, "Resource") for pod in pods)
        wanted = current if _is_near(ratio) else math.ceil(ratio * (current if per_pod else ready))
        shown = {"averageValue": _text(value / current)} if per_pod else {"value": _text(value)}
        return wanted, {"type": "External", "external": {"metric": metric, "current": shown}}

    def _state(
        self, conditions: dict[str, Object], kind: str, reason: str, message: str, *, holds: bool = False
    ) -> None:
        stated: dict[str, Any] = {"type": kind, "status": str(holds), "reason": reason, "message": message}
        before = conditions.get(kind) or {}
        same = before.get("status") == stated["status"]
        since = before["lastTransitionTime"] if same else timestamp(self._cluster.clock())
        conditions[kind] = {**stated, "lastTransitionTime": since}


_DEFAULT_METRICS: Sequence[Object] = (
    {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
)


def _is_unready(pod: Object, metric: str) -> bool:
    """Whether a pod's value is set aside: it is pending or, for a metric of resources, not ready."""
    stated = pod["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in stated)
    return pod["status"].get("phase") == "Pending" or (metric == "Resource" and not ready)


def _target(goal: Object, field: str, kind: str) -> Fraction:
    """Return an amount of a metric's target.

    Raises:
        NoMetricError: if it is absent or 0.
    """
    full = _amount(goal.get(field, 0), kind)
    if not full:
        raise NoMetricError(f"FailedGet{kind}Metric", f"the target's {field} is missing or 0")
    return full


def _amount(value: object, kind: str) -> Fraction:
    """Return an amount that a metric of a kind needs.

    Raises:
        NoMetricError: if it is not a quantity: whoever writes metrics may write anything.
    """
    try:
        return Fraction(parse_quantity(str(value))[0], NANO)
    except ValueError as error:
        raise NoMetricError(f"FailedGet{kind}Metric", f"{value!r} is not a quantity") from error


def _text(amount: Fraction) -> str:
    """Return an amount in thousandths, as the controller reports it."""
    return parse_quantity(f"{math.ceil(amount * 1000)}m")[1]
