"""PodDisruptionBudgets: whether a pod may be evicted now.

The disruption controller of a real cluster keeps the status of a budget at all times. Here it is computed,
and stored, when a pod of the budget is to be evicted:

    allowed = healthy pods - (minAvailable, or expected pods - maxUnavailable)

A healthy pod is ready and not being deleted. The expected pods are the ``replicas`` of the ReplicaSets that
control the pods; for a whole ``minAvailable``, the pods themselves. A pod that no ReplicaSet controls has no
expected number: with ``maxUnavailable`` or a percentage nothing is allowed.

A refusal states no Retry-After: the real one has it only while a budget is still being processed.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go, pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubedouble.cluster import Cluster
from kubedouble.errors import StatusError, cause
from kubedouble.selectors import label_selector, satisfies
from kubedouble.store import Object, Stored

_STORAGE = "poddisruptionbudgets.policy"
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
        stored = {**budget.object, "status": {**(budget.object.get("status") or {}), **status}}
        if not dry_run and stored != budget.object:
            cluster.store.put(_STORAGE, budget.key, stored)
        if not _may_go(budget.object["spec"], status, pod.object):
            raise _refusal(budget.key[1], status)


def _may_go(spec: Object, status: Object, pod: Object) -> bool:
    if not _is_ready(pod):
        if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return True
        if status["currentHealthy"] >= status["desiredHealthy"] > 0:
            return True
    return bool(status["disruptionsAllowed"] > 0)


def _refusal(name: str, status: Object) -> StatusError:
    why = (
        f"The disruption budget {name} needs {status['desiredHealthy']} healthy pods and has "
        f"{status['currentHealthy']} currently"
    )
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return StatusError(429, "TooManyRequests", message, {"causes": [cause("DisruptionBudget", why)]})


def _status(cluster: Cluster, budget: Object) -> dict[str, Any]:
    spec, namespace = budget["spec"], budget["metadata"]["namespace"]
    selector = label_selector(spec["selector"])
    pods = [
        each.object
        for each in cluster.store.table("pods").scan(namespace)
        if satisfies(each.object["metadata"].get("labels") or {}, selector)
        and (each.object.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
    ]
    healthy = sum(_is_ready(each) and not each["metadata"].get("deletionTimestamp") for each in pods)
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    expected: int | None = len(pods)
    if most is not None or isinstance(least, str):
        expected = _replicas(cluster, namespace, pods)
    if expected is None:
        desired, allowed = len(pods), 0
    else:
        desired = _scaled(least, expected) if most is None else max(0, expected - _scaled(most, expected))
        allowed = max(0, healthy - desired)
    return {
        "observedGeneration": budget["metadata"].get("generation", 1),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": len(pods) if expected is None else expected,
        "disruptionsAllowed": allowed,
    }


def _replicas(cluster: Cluster, namespace: str, pods: Sequence[Object]) -> int | None:
    """Return how many pods their ReplicaSets want; None if another kind, or nobody, controls one."""
    owners = set()
    for pod in pods:
        references = pod["metadata"].get("ownerReferences") or ()
        controller = next((each for each in references if each.get("controller")), None)
        if controller is None or controller["kind"] != "ReplicaSet":
            return None
        owners.add(controller["name"])
    found = [cluster.store.get("replicasets.apps", namespace, name) for name in owners]
    return None if None in found else sum(each.object["spec"]["replicas"] for each in found if each)


def _scaled(amount: int | str | None, expected: int) -> int:
    """Return a number of pods; a percentage is rounded up."""
    if isinstance(amount, str):
        return -(-int(amount.removesuffix("%")) * expected // 100)
    return amount or 0


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
