"""PodDisruptionBudgets: whether a pod may be evicted now.

The disruption controller of a real cluster keeps the status of a budget at all times. Here it is computed,
and stored, when a pod of the budget is to be evicted:

    allowed = healthy pods - (minAvailable, or expected pods - maxUnavailable); 0 if no pod is expected

A healthy pod is ready and not being deleted. For a whole ``minAvailable`` the expected pods are the pods
themselves. For ``maxUnavailable`` and percentages they are the ``replicas`` of the controllers:

| a pod's controller | |
|---|---|
| has the subresource scale: a ReplicaSet, or the Deployment above it | its ``replicas`` count, once |
| has none: a Job, a DaemonSet | the status cannot be computed: nothing is allowed, condition ``SyncFailed`` |
| does not exist | the same |
| none | the pod is passed over; if that goes for all of them, no pod is expected, and nothing is allowed |

Of a status that cannot be computed only the condition and ``disruptionsAllowed`` are written. So a budget for
which it never could is "still being processed": that refusal alone states a Retry-After.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go, pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubedouble.cluster import Cluster
from kubedouble.errors import StatusError, cause
from kubedouble.schema.decoding import timestamp
from kubedouble.selectors import label_selector, satisfies
from kubedouble.store import Object, Stored

_STORAGE = "poddisruptionbudgets.policy"
_FAILED = "SyncFailed"
_ENDED_OR_NOT_BEGUN = {"Succeeded", "Failed", "Pending"}


def check(cluster: Cluster, pod: Stored, *, dry_run: bool) -> None:
    """Let an eviction pass, or refuse it.

    Raises:
        StatusError: 429, if a budget forbids it; 500, if the pod has more than one budget.
    """
    metadata, phase = pod.object["metadata"], (pod.object.get("status") or {}).get("phase")
    if phase in _ENDED_OR_NOT_BEGUN or metadata.get("deletionTimestamp"):
        return
    labels = metadata.get("labels") or {}
    budgets = [
        each
        for each in cluster.store.table(_STORAGE).scan(pod.key[0])
        if (selector := each.object["spec"].get("selector")) is not None
        and satisfies(labels, label_selector(selector))
    ]
    if len(budgets) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
        raise StatusError(500, "", message)
    for budget in budgets:
        status = _status(cluster, budget.object)
        stored = {**budget.object, "status": status}
        if not dry_run and stored != budget.object:
            cluster.store.put(_STORAGE, budget.key, stored)
        if not _is_ready(pod.object) and _unready_may_go(budget.object["spec"], status):
            continue
        if status.get("observedGeneration", 0) < budget.object["metadata"].get("generation", 1):
            why = f"The disruption budget {budget.key[1]} is still being processed by the server."
            raise _refusal(why, retry_after=10)
        if not status["disruptionsAllowed"]:
            raise _refusal(_why_not(budget.key[1], status))


def _unready_may_go(spec: Object, status: Object) -> bool:
    if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return bool(status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0)


def _why_not(name: str, status: Object) -> str:
    condition = status["conditions"][0]
    if condition["reason"] == _FAILED:
        why = "does not allow evicting pods currently because it failed sync"
        return f"The disruption budget {name} {why}: {condition['message']}"
    healthy, desired = status["currentHealthy"], status["desiredHealthy"]
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _refusal(why: str, *, retry_after: int = 0) -> StatusError:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    details: dict[str, Any] = {"causes": [cause("DisruptionBudget", why)]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", message, details)


class _SyncError(Exception):
    """The number of expected pods is unknown."""


def _status(cluster: Cluster, budget: Object) -> dict[str, Any]:
    """Return the budget's new status."""
    spec, before = budget["spec"], budget.get("status") or {}
    namespace, selector = budget["metadata"]["namespace"], label_selector(spec["selector"])
    pods = [
        each.object
        for each in cluster.store.table("pods").scan(namespace)
        if satisfies(each.object["metadata"].get("labels") or {}, selector)
        and (each.object.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
    ]
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    try:
        of_controllers = most is not None or isinstance(least, str)
        expected = _replicas(cluster, namespace, pods) if of_controllers else len(pods)
    except _SyncError as error:
        return {**before, "disruptionsAllowed": 0, **_condition(cluster, before, _FAILED, str(error))}
    healthy = sum(_is_ready(each) and not each["metadata"].get("deletionTimestamp") for each in pods)
    desired = _scaled(least, expected) if most is None else max(0, expected - _scaled(most, expected))
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status = {
        **before,
        "observedGeneration": budget["metadata"].get("generation", 1),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
    }
    return {**status, **_condition(cluster, status, "SufficientPods" if allowed else "InsufficientPods")}


def _condition(cluster: Cluster, status: Object, reason: str, message: str = "") -> dict[str, Any]:
    stated = {
        "type": "DisruptionAllowed",
        "status": "True" if reason == "SufficientPods" else "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "reason": reason,
        "message": message,
    }
    before: Object = next(iter(status.get("conditions") or ()), {})
    same = before.get("status") == stated["status"]
    since = before["lastTransitionTime"] if same else timestamp(cluster.clock())
    return {"conditions": [{**stated, "lastTransitionTime": since}]}


def _replicas(cluster: Cluster, namespace: str, pods: Sequence[Object]) -> int:
    """Return the number of pods that their controllers want.

    Raises:
        _SyncError: if a controller does not say, or does not exist.
    """
    scales: dict[str, int] = {}
    for pod in pods:
        reference = _controller(pod)
        if reference is None:
            continue
        resource = cluster.registry.of_kind(reference["apiVersion"].rpartition("/")[0], reference["kind"])
        if resource is None:
            group, _, version = reference["apiVersion"].rpartition("/")
            kind = f'kind "{reference["kind"]}.{group}"' if group else f'kind "{reference["kind"]}"'
            raise _SyncError(f'no matches for {kind} in version "{version}"')
        if "scale" not in resource.subresources:
            raise _SyncError(f"{resource.group_resource} does not implement the scale subresource")
        owner = _owner(cluster, namespace, reference)
        if owner is None:
            raise _SyncError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
        if (above := _controller(owner)) and above["kind"] == "Deployment":
            owner = _owner(cluster, namespace, above) or owner
        scales[owner["metadata"]["uid"]] = owner["spec"].get("replicas", 1)
    return sum(scales.values())


def _controller(obj: Object) -> Object | None:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def _owner(cluster: Cluster, namespace: str, reference: Object) -> Object | None:
    resource = cluster.registry.of_kind(reference["apiVersion"].rpartition("/")[0], reference["kind"])
    found = resource and cluster.store.get(resource.storage_key, namespace, reference["name"])
    return found.object if found and found.object["metadata"]["uid"] == reference["uid"] else None


def _scaled(amount: int | str | None, expected: int) -> int:
    """Return a number of pods; a percentage is rounded up."""
    if isinstance(amount, str):
        return -(-int(amount.removesuffix("%")) * expected // 100)
    return amount or 0


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
