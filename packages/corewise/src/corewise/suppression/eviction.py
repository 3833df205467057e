"""The choice of the offline pod to evict, if any: one at a time, and only during a shortage.

*Memory* is short from the sample in which the node uses more than the threshold until one in which it uses
less than the lower one (by default 2 % of the node's memory less):

    used x 100 > threshold x total      begins          used x 100 < lower x total      ends

*CPU* is short once offline pods have had too little of what they request in every sample of the window, and
used what they had. It ends when they have more than the upper share, or do not use what they have:

    quota x 100 < lower x requested  and  used x 100 >= usage threshold x quota      for the whole window
    quota x 100 > upper x requested  or   used x 100 <  usage threshold x quota      ends

All of it is physical. ``quota`` is that of all offline pods together, ``requested`` the sum of their requests
of batch-cpu divided by the normalization ratio. Where the quota is not known, CPU is not short.

*Who goes*: the lowest priority, among those the youngest, then the first by name. The youngest has the least
work to lose, and most likely caused the shortage; a pod that uses much memory may be about to finish.

No pod goes

- without a sample, or with one older than ``FRESH_FOR`` seconds;
- while an offline pod is being deleted, or one that was evicted is still shown, but for ``GONE_WITHIN``
  seconds at most: whoever deletes a pod chooses how long that takes. The wait begins when the first of them
  is seen, and again with each eviction; further pods that are deleted do not prolong it;
- in the cooldown after an eviction. The agent's start counts as one: what an earlier agent did is not known.

Never: a pod that is not marked as offline; one without a running container, which has nothing to give back;
the mirror of a static pod, which kubelet would start again; a pod of a DaemonSet, which would come back to
this node at once; a system-critical pod. A pod whose eviction was refused is passed over for ``REFUSED_FOR``
seconds. Where CPU is short, only pods that count in ``requested`` go: the others would leave it as short.

Source: Koordinator's pkg/koordlet/qosmanager/plugins/{memoryevict,cpuevict} for thresholds and the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from corewise.config.eviction import EvictionSettings
from corewise.vocabulary.reasons import Reason

FRESH_FOR = 15.0
REFUSED_FOR = 60.0
GONE_WITHIN = 120.0
"""Four times Kubernetes' default grace period."""
_HYSTERESIS = 2
_USED_UP = 90
_SHOWN = 3


class Shortage(StrEnum):
    """The resource that is short on a node."""

    NONE = ""
    MEMORY = "memory"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class EvictionSample:
    """The measurements at one time (monotonic seconds): bytes and physical milli-CPU.

    ``quota_milli`` is None where it is not known, or unlimited; ``memory_total`` is 0 where it is not known.
    """

    at: float
    memory: int
    memory_total: int
    offline_memory: int = 0
    quota_milli: int | None = None
    used_milli: int = 0
    requested_milli: int = 0


@dataclass(frozen=True, slots=True)
class OfflineCandidate:
    """An offline pod of the node, with the facts that eviction needs.

    ``created`` is RFC 3339 in UTC, so texts compare as times. ``requested_milli`` is what it adds to the
    sample's. ``protection`` says why it never goes; "" if it may.
    """

    namespace: str
    name: str
    uid: str
    priority: int = 0
    created: str = ""
    requested_milli: int = 0
    runs: bool = True
    terminating: bool = False
    protection: str = ""

    @property
    def label(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def order(self) -> str:
        return f"priority {self.priority}, created {self.created or 'at an unknown time'}"


@dataclass(frozen=True, slots=True)
class EvictionVerdict:
    """``pod`` is to be evicted now, if it is not None; ``following`` would be the next one."""

    reason: Reason
    why: str
    shortage: Shortage = Shortage.NONE
    pod: OfflineCandidate | None = None
    following: OfflineCandidate | None = None


@dataclass(frozen=True, slots=True)
class EvictionState:
    """The state after the samples and evictions so far, as a value: each event makes another one.

    ``last_at`` is when the last pod was evicted, at first when the agent started. ``evicted`` is the UID of a
    pod that should be gone soon. ``waiting_since`` is since when there has always been a pod that leaves.
    ``refused`` has, by UID, until when a pod is passed over, and why.
    """

    last_at: float
    sample: EvictionSample | None = None
    memory_is_short: bool = False
    cpu_is_short: bool = False
    starved_since: float | None = None
    evicted: str = ""
    waiting_since: float | None = None
    refused: Mapping[str, tuple[float, str]] = field(default_factory=dict)

    @property
    def shortage(self) -> Shortage:
        if self.memory_is_short:
            return Shortage.MEMORY
        return Shortage.CPU if self.cpu_is_short else Shortage.NONE

    def willing(self, pods: Iterable[OfflineCandidate], now: float) -> list[OfflineCandidate]:
        """Return those whose eviction was not refused lately."""
        return [each for each in pods if self.refused.get(each.uid, (now, ""))[0] <= now]

    def with_sample(self, settings: EvictionSettings, sample: EvictionSample) -> EvictionState:
        starved = _is_starved(settings, sample)
        since = (sample.at if self.starved_since is None else self.starved_since) if starved else None
        window_is_full = since is not None and sample.at - since >= settings.cpu_window_seconds
        return replace(
            self,
            sample=sample,
            memory_is_short=_memory_is_short(settings, sample, before=self.memory_is_short),
            cpu_is_short=window_is_full or (self.cpu_is_short and _stays_starved(settings, sample)),
            starved_since=since,
        )

    def leaving(self, pods: Iterable[OfflineCandidate]) -> list[OfflineCandidate]:
        """Return those that are being deleted, or were evicted."""
        return [each for each in pods if each.terminating or each.uid == self.evicted]

    def with_pods(self, pods: Iterable[OfflineCandidate], now: float) -> EvictionState:
        """Take note of whether a pod leaves now."""
        since = now if self.waiting_since is None else self.waiting_since
        return replace(self, waiting_since=since if self.leaving(pods) else None)

    def with_miss(self) -> EvictionState:
        """A window with a gap is none."""
        return replace(self, sample=None, starved_since=None)

    def with_eviction(self, now: float, uid: str = "") -> EvictionState:
        """``uid`` is that of the pod that goes; empty if it is not certain that it does."""
        return replace(self, last_at=now, evicted=uid, waiting_since=now if uid else self.waiting_since)

    def with_pod_gone(self, uid: str) -> EvictionState:
        """Nothing was evicted: the pod that was decided on is not there, though it is still shown."""
        return replace(self, evicted=uid)

    def with_refusal(self, now: float, uid: str, why: str) -> EvictionState:
        still = {pod: each for pod, each in self.refused.items() if each[0] > now}
        return replace(self, refused=still | {uid: (now + REFUSED_FOR, why)})


def _memory_is_short(settings: EvictionSettings, sample: EvictionSample, *, before: bool) -> bool:
    threshold = settings.memory_threshold_percent
    if threshold is None or not sample.memory_total:
        return False
    lower = settings.memory_lower_percent
    lower = threshold - _HYSTERESIS if lower is None else lower
    if before:
        return sample.memory * 100 >= lower * sample.memory_total
    return sample.memory * 100 > threshold * sample.memory_total


def _uses_it_up(settings: EvictionSettings, sample: EvictionSample, quota: int) -> bool:
    share = settings.cpu_usage_threshold_percent
    return sample.used_milli * 100 >= quota * (_USED_UP if share is None else share)


def _is_starved(settings: EvictionSettings, sample: EvictionSample) -> bool:
    lower, quota = settings.cpu_satisfaction_lower_percent, sample.quota_milli
    if lower is None or quota is None:
        return False
    return quota * 100 < lower * sample.requested_milli and _uses_it_up(settings, sample, quota)


def _stays_starved(settings: EvictionSettings, sample: EvictionSample) -> bool:
    lower, upper = settings.cpu_satisfaction_lower_percent, settings.cpu_satisfaction_upper_percent
    quota = sample.quota_milli
    if lower is None or quota is None:
        return False
    bound = lower if upper is None else upper
    return quota * 100 <= bound * sample.requested_milli and _uses_it_up(settings, sample, quota)


def decide(
    settings: EvictionSettings, state: EvictionState, pods: Iterable[OfflineCandidate], now: float
) -> EvictionVerdict:
    """Return the verdict on eviction now: the pod to evict, if any, and the next. ``now`` is monotonic."""
    pods = tuple(pods)
    sample, shortage = state.sample, state.shortage
    if sample is None or not 0 <= now - sample.at <= FRESH_FOR:
        why = "there is no fresh sample of the node's usage"
        return EvictionVerdict(Reason.EVICTION_NO_SAMPLE, why, shortage)
    queue = _queue((each for each in pods if each.uid != state.evicted), shortage)
    first = queue[0] if queue else None
    why = _numbers(settings, sample, state, shortage)
    if shortage is Shortage.NONE:
        return EvictionVerdict(Reason.EVICTION_NOT_NEEDED, why, following=first)
    obstacle = _obstacle(settings, state, pods, queue, now)
    if obstacle is not None:
        return EvictionVerdict(obstacle[0], f"{why}; {obstacle[1]}", shortage, following=first)
    willing = state.willing(queue, now)
    reason = Reason.EVICTED_FOR_MEMORY if shortage is Shortage.MEMORY else Reason.EVICTED_FOR_CPU_TIME
    following = willing[1] if len(willing) > 1 else None
    return EvictionVerdict(reason, why, shortage, pod=willing[0], following=following)


def _obstacle(
    settings: EvictionSettings,
    state: EvictionState,
    pods: Sequence[OfflineCandidate],
    queue: Sequence[OfflineCandidate],
    now: float,
) -> tuple[Reason, str] | None:
    """Return the reason that no pod is evicted now although something is short."""
    leaving = state.leaving(pods)
    if leaving and (state.waiting_since is None or now - state.waiting_since < GONE_WITHIN):
        return Reason.EVICTION_POD_TERMINATING, f"pod {leaving[0].label} is being deleted"
    if not queue:
        kept = [f"{each.label} is {each.protection}" for each in pods if each.protection]
        return Reason.EVICTION_NO_CANDIDATE, "; ".join(["no offline pod can go", *kept[:_SHOWN]])
    if now - state.last_at < settings.cooldown_seconds:
        left = settings.cooldown_seconds - int(now - state.last_at)
        return Reason.EVICTION_COOLING_DOWN, f"the cooldown lasts {left} s more"
    if not state.willing(queue, now):
        refused = [f"{each.label}: {state.refused[each.uid][1]}" for each in queue[:_SHOWN]]
        return Reason.EVICTION_REFUSED, "; ".join(refused)
    return None


def _queue(pods: Iterable[OfflineCandidate], shortage: Shortage) -> list[OfflineCandidate]:
    """Return the pods that may go, in the order in which they would."""
    able = [
        each
        for each in pods
        if each.runs
        and not each.terminating
        and not each.protection
        and (shortage is not Shortage.CPU or each.requested_milli > 0)
    ]
    able.sort(key=lambda each: each.label)
    able.sort(key=lambda each: each.created, reverse=True)
    able.sort(key=lambda each: each.priority)
    return able


def _numbers(
    settings: EvictionSettings, sample: EvictionSample, state: EvictionState, shortage: Shortage
) -> str:
    memory = (
        f"memory in use is {_percent(sample.memory, sample.memory_total)} of {sample.memory_total >> 20} MiB "
        f"(threshold {settings.memory_threshold_percent} %), {sample.offline_memory >> 20} MiB of it by "
        "offline pods"
    )
    quota = "no known quota" if sample.quota_milli is None else f"{sample.quota_milli}m"
    cpu = (
        f"offline pods have {quota} of the {sample.requested_milli}m CPU that they request (lower threshold "
        f"{settings.cpu_satisfaction_lower_percent} %), and use {sample.used_milli}m"
    )
    if state.starved_since is not None:
        cpu += f"; too little for {sample.at - state.starved_since:.0f} s"
    match shortage:
        case Shortage.MEMORY:
            return memory
        case Shortage.CPU:
            return cpu
        case Shortage.NONE:
            watched = [memory] if settings.evicts_for_memory else []
            return "; ".join([*watched, cpu] if settings.evicts_for_cpu else watched)


def _percent(part: int, whole: int) -> str:
    return f"{part * 100 // whole if whole else 0} %"
