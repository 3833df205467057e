"""Evicts offline pods of one node; :mod:`corewise.suppression.eviction` decides which pod goes, if any.

``observe`` takes each sample, and what is decided then is reported; it waits for no write. ``due`` decides
again in the moment of the action: the API server may have been slow, and another pod refused, since then. An
eviction goes by the Eviction API, with the UID of the pod that was decided on:

| answer | result | what follows |
|---|---|---|
| accepted | evicted | the cooldown; no other eviction while this pod is shown, two minutes at most |
| 429 of a PodDisruptionBudget, 500: it has several | blocked | the next pod at once; this one in a minute |
| any other 4xx | failed | the next pod at once; this one in a minute |
| 404, or 409: another pod has the name | gone | no eviction while this pod is shown, two minutes at most |
| 5xx, or none after it was sent | unknown | the cooldown, then the next pod; this one a minute later |
| 429 or 503 of overload (Retry-After), no connection | unavailable | the same pod at the next sample |

A pod that cannot be evicted must not protect the others; an API server that is away must not make a pod of
higher priority go. In a dry run no pod is evicted; the agent goes on as if it had been, and had come back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from corewise.agent.objects import QuotaPod
from corewise.agent.offline_pods import MarkedPod
from corewise.config.eviction import NO_EVICTION
from corewise.kube.client import Client
from corewise.kube.clock import rfc3339
from corewise.kube.errors import (
    APIError,
    Conflict,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)
from corewise.quantities import Ratio, deamplified_ceil
from corewise.service.logs import fields
from corewise.suppression.eviction import (
    EvictionSample,
    EvictionState,
    EvictionVerdict,
    OfflineCandidate,
    Shortage,
    decide,
)
from corewise.suppression.offer import Usage
from corewise.vocabulary.names import STATIC_POD
from corewise.vocabulary.offline_report import EvictionReport
from corewise.vocabulary.qos import SYSTEM_CRITICAL
from corewise.vocabulary.reasons import Reason

log = logging.getLogger(__name__)
_TIMEOUT = 5.0
_OVERLOAD = 503
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
"""Of the API server's words, which has no reason for it: registry/core/pod/storage/eviction.go."""
_SYSTEM_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


class EvictionResult(StrEnum):
    """The result of an eviction, as the metric labels it. ``passes_over``: the next pod may go at once."""

    EVICTED = "evicted"
    BLOCKED = "blocked"
    GONE = "gone"
    UNKNOWN = "unknown"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    DRY_RUN = "dry-run"

    @property
    def passes_over(self) -> bool:
        return self in {EvictionResult.BLOCKED, EvictionResult.FAILED}

    @property
    def is_bad(self) -> bool:
        return self in {EvictionResult.FAILED, EvictionResult.UNKNOWN, EvictionResult.UNAVAILABLE}


def protection_of(pod: QuotaPod) -> str:
    """Return the reason that an offline pod is never evicted; "" if it may be."""
    if STATIC_POD in pod.metadata.annotations:
        return "the mirror of a static pod"
    owners = [each.name for each in pod.metadata.owner_references if each.kind == "DaemonSet"]
    if owners:
        return f"of DaemonSet {owners[0]}"
    if pod.spec.priority >= SYSTEM_CRITICAL or pod.spec.priority_class_name in _SYSTEM_CLASSES:
        return f"of class {pod.spec.priority_class_name or 'system-critical'}"
    return ""


def candidate(marked: MarkedPod, normalization: Ratio) -> OfflineCandidate:
    """Return an offline pod as the decision sees it."""
    pod, meta = marked.pod, marked.pod.metadata
    return OfflineCandidate(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        priority=pod.spec.priority,
        created=meta.creation_timestamp or "",
        requested_milli=deamplified_ceil(marked.batch_cpu, normalization),
        runs=any(each.runs for each in pod.status.all_containers),
        terminating=meta.deletion_timestamp is not None,
        protection=protection_of(pod),
    )


class Evictor:
    """The evictions of one node. ``verdict`` and ``report`` are None as long as nothing is configured."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._state: EvictionState | None = None
        self._pods: tuple[OfflineCandidate, ...] = ()
        self._last = ""
        self.settings = NO_EVICTION
        self.verdict: EvictionVerdict | None = None

    @property
    def report(self) -> EvictionReport | None:
        verdict = self.verdict
        if verdict is None:
            return None
        first = verdict.pod or verdict.following
        return EvictionReport(
            reason=verdict.reason,
            why=verdict.why,
            pressure=verdict.shortage,
            next=first.label if first else "",
            order=first.order if first else "",
            last=self._last,
            dry_run=self.settings.dry_run,
        )

    @property
    def shortage(self) -> Shortage:
        return self._state.shortage if self._state else Shortage.NONE

    def forget(self) -> None:
        """Start over, like an agent that starts."""
        self._state, self._pods, self.verdict = None, (), None

    def observe(
        self,
        now: float,
        usage: Usage | None,
        quota_milli: int | None,
        pods: Iterable[MarkedPod],
        normalization: Ratio,
    ) -> None:
        """Take a sample, None if it is missing. ``quota_milli`` is the quota that held in its interval."""
        settings = self.settings
        if not settings.evicts_for_memory and not settings.evicts_for_cpu:
            self.forget()
            return
        state = self._state or EvictionState(last_at=now)
        self._pods = tuple(candidate(each, normalization) for each in pods)
        if usage is None:
            self._state = state.with_miss()
        else:
            sample = EvictionSample(
                at=now,
                memory=usage.node_memory,
                memory_total=usage.memory_total,
                offline_memory=usage.offline_memory,
                quota_milli=quota_milli,
                used_milli=usage.offline_milli,
                requested_milli=sum(each.requested_milli for each in self._pods if each.runs),
            )
            self._state = state.with_sample(settings, sample)
        self._state = self._state.with_pods(self._pods, now)
        self.verdict = decide(settings, self._state, self._pods, now)

    def due(self, now: float, pods: Iterable[MarkedPod], normalization: Ratio) -> EvictionVerdict | None:
        """Return the current verdict if it evicts a pod that still exists and is still offline."""
        if self._state is None:
            return None
        self._pods = tuple(candidate(each, normalization) for each in pods)
        verdict = decide(self.settings, self._state, self._pods, now)
        return verdict if verdict.pod else None

    def record(
        self, verdict: EvictionVerdict, result: EvictionResult, why: str, now: float, wall: float
    ) -> None:
        """Take note of what became of an eviction; ``why`` is the API server's answer."""
        pod = verdict.pod
        if self._state is None or pod is None:
            return
        match result:
            case EvictionResult.EVICTED:
                self._state = self._state.with_eviction(now, pod.uid)
                self._last = f"{pod.label} at {rfc3339(datetime.fromtimestamp(wall, UTC))}: {verdict.reason}"
            case EvictionResult.DRY_RUN:
                self._state = self._state.with_eviction(now)
            case EvictionResult.UNKNOWN:
                cooled = now + self.settings.cooldown_seconds
                self._state = self._state.with_eviction(now).with_refusal(cooled, pod.uid, why)
            case EvictionResult.GONE:
                self._state = self._state.with_pod_gone(pod.uid)
            case EvictionResult.BLOCKED | EvictionResult.FAILED:
                self._state = self._state.with_refusal(now, pod.uid, why)
            case EvictionResult.UNAVAILABLE:
                pass
        log.log(
            logging.WARNING if result.is_bad else logging.INFO,
            "eviction of offline pod %s: %s (%s)",
            pod.label,
            result,
            why or verdict.why,
            extra=fields(node=self._node, reason=verdict.reason),
        )


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Evict an offline pod; with ``dry_run``, which users configure, go on as if it had been evicted."""

    pod: OfflineCandidate
    reason: Reason
    why: str
    dry_run: bool


async def evict(client: Client, pod: OfflineCandidate) -> tuple[EvictionResult, str]:
    """Evict a pod; return what became of it, and what the API server answered if it is not evicted."""
    try:
        await client.evict(pod.name, pod.namespace, uid=pod.uid, timeout=_TIMEOUT)
    except TooManyRequests as error:
        if error.is_disruption_budget:
            return EvictionResult.BLOCKED, "; ".join(each.message for each in error.causes)
        return EvictionResult.UNAVAILABLE, str(error)
    except KubeError as error:
        return _result_of(error), str(error)
    return EvictionResult.EVICTED, ""


def _result_of(error: KubeError) -> EvictionResult:
    match error:
        case NotFound() | Conflict():
            return EvictionResult.GONE
        case ServerError() if _SEVERAL_BUDGETS in error.message:
            return EvictionResult.BLOCKED
        case ServerError(code=code, retry_after=wait) if code != _OVERLOAD or wait is None:
            return EvictionResult.UNKNOWN
        case TransportError(sent=True):
            return EvictionResult.UNKNOWN
        case APIError() if not isinstance(error, ServerError):
            return EvictionResult.FAILED
        case _:
            return EvictionResult.UNAVAILABLE
