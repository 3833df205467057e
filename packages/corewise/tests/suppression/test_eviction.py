"""Which offline pod goes, by case and for any pods and samples."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.eviction import NO_EVICTION, EvictionSettings
from corewise.suppression.eviction import (
    FRESH_FOR,
    GONE_WITHIN,
    REFUSED_FOR,
    EvictionSample,
    EvictionState,
    EvictionVerdict,
    OfflineCandidate,
    Shortage,
    decide,
)
from corewise.vocabulary.reasons import Reason

MEMORY = EvictionSettings(memory_threshold_percent=80, memory_lower_percent=70, cooldown_seconds=300)
CPU = EvictionSettings(
    cpu_satisfaction_lower_percent=40,
    cpu_satisfaction_upper_percent=60,
    cpu_window_seconds=60,
    cooldown_seconds=300,
)
BEGAN = EvictionState(last_at=0)


def used(percent: float, at: float = 1000.0) -> EvictionSample:
    return EvictionSample(at, int(percent * 10_000), 1_000_000)


def quota(percent: int | None, at: float, use: int = 100) -> EvictionSample:
    """Offline pods request 10 CPUs, have a share of them, and use a share of what they have (percent)."""
    milli = None if percent is None else percent * 100
    return EvictionSample(at, 0, 0, 0, milli, (milli or 0) * use // 100, 10_000)


def pod(
    name: str, priority: int = 0, created: str = "2026-01-01T00:00:00Z", **more: object
) -> OfflineCandidate:
    return replace(OfflineCandidate("default", name, name, priority, created, 1000), **more)  # type: ignore[arg-type]


def after(
    settings: EvictionSettings, *samples: EvictionSample, state: EvictionState = BEGAN
) -> EvictionState:
    for each in samples:
        state = state.with_sample(settings, each)
    return state


def verdict(
    settings: EvictionSettings, state: EvictionState, *pods: OfflineCandidate, now: float = 1000.0
) -> EvictionVerdict:
    return decide(settings, state, pods, now)


@pytest.mark.parametrize(
    ("percents", "short"),
    [
        ([80], False),
        ([80.1], True),
        ([81, 70], True),
        ([81, 69.9], False),
        ([75], False),
        ([90, 60, 75], False),
    ],
)
def test_memory_shortage_lasts_until_below_the_lower_threshold(
    percents: Sequence[float], short: bool
) -> None:
    state = after(MEMORY, *map(used, percents))
    assert (state.shortage is Shortage.MEMORY) is short


def test_lower_threshold_defaults_and_unknown_memory_is_ignored() -> None:
    settings = replace(MEMORY, memory_lower_percent=None)
    assert after(settings, used(81), used(78)).memory_is_short
    assert not after(settings, used(81), used(77.9)).memory_is_short
    assert not after(settings, replace(used(99), memory_total=0)).memory_is_short


STARVED = [quota(39, at) for at in (0, 20, 40, 60)]


@pytest.mark.parametrize(
    ("samples", "short"),
    [
        (STARVED, True),
        (STARVED[:3], False),
        ([*STARVED[:3], quota(40, 60), quota(39, 80)], False),  # the share was there once in the window
        ([*STARVED[:3], quota(39, 60, use=89), quota(39, 80)], False),  # they did not want it once
        ([quota(39, at, use=90) for at in (0, 60)], True),
        ([quota(None, at) for at in (0, 60)], False),
        ([*STARVED, quota(60, 80)], True),
        ([*STARVED, quota(61, 80)], False),
        ([*STARVED, quota(50, 80, use=89)], False),
        ([*STARVED, quota(None, 80)], False),
    ],
)
def test_cpu_shortage_lasts_a_window_above_upper_share(
    samples: Sequence[EvictionSample], short: bool
) -> None:
    assert (after(CPU, *samples).shortage is Shortage.CPU) is short


def test_a_window_with_a_missing_sample_begins_anew() -> None:
    state = after(CPU, *STARVED[:3]).with_miss()
    state = after(CPU, quota(39, 60), state=state)
    assert not state.cpu_is_short
    assert after(CPU, quota(39, 120), state=state).cpu_is_short


def test_eviction_orders_by_priority_then_youngest_then_name() -> None:
    pods = [
        pod("old-low", 5000),
        pod("high", 5999, "2026-03-01T00:00:00Z"),
        pod("young-low", 5000, "2026-02-01T00:00:00Z"),
        pod("also-young-low", 5000, "2026-02-01T00:00:00Z"),
    ]
    order = []
    while pods:
        found = verdict(MEMORY, after(MEMORY, used(90)), *pods)
        assert found.pod is not None
        order.append(found.pod.name)
        pods.remove(found.pod)
        assert (
            found.following is None or found.following == verdict(MEMORY, after(MEMORY, used(90)), *pods).pod
        )
    assert order == ["also-young-low", "young-low", "old-low", "high"]


SHORT = after(MEMORY, used(90))
NOBODY = {
    "nothing is short": (after(MEMORY, used(70)), [pod("a")], 1000.0, Reason.EVICTION_NOT_NEEDED),
    "no sample": (SHORT.with_miss(), [pod("a")], 1000.0, Reason.EVICTION_NO_SAMPLE),
    "an old sample": (SHORT, [pod("a")], 1000.1 + FRESH_FOR, Reason.EVICTION_NO_SAMPLE),
    "a sample of the future": (SHORT, [pod("a")], 999.9, Reason.EVICTION_NO_SAMPLE),
    "the cooldown": (SHORT.with_eviction(701), [pod("a")], 1000.0, Reason.EVICTION_COOLING_DOWN),
    "a pod that is deleted": (
        SHORT,
        [pod("a"), pod("b", terminating=True)],
        1000.0,
        Reason.EVICTION_POD_TERMINATING,
    ),
    "a pod evicted that is still shown": (
        SHORT.with_eviction(900, "b"),
        [pod("a"), pod("b")],
        1000.0,
        Reason.EVICTION_POD_TERMINATING,
    ),
    "no one is there": (SHORT, [], 1000.0, Reason.EVICTION_NO_CANDIDATE),
    "no one may go": (
        SHORT,
        [pod("a", protection="static"), pod("b", runs=False)],
        1000.0,
        Reason.EVICTION_NO_CANDIDATE,
    ),
    "all were refused": (
        SHORT.with_refusal(990, "a", "a budget"),
        [pod("a")],
        1000.0,
        Reason.EVICTION_REFUSED,
    ),
}


@pytest.mark.parametrize(("state", "pods", "now", "reason"), NOBODY.values(), ids=NOBODY)
def test_nobody_goes_and_the_reason_says_why(
    state: EvictionState, pods: Sequence[OfflineCandidate], now: float, reason: Reason
) -> None:
    found = verdict(MEMORY, state, *pods, now=now)
    assert (found.reason, found.pod) == (reason, None)


def test_long_termination_protects_other_pods_for_two_minutes() -> None:
    pods = [pod("a"), pod("forever", terminating=True)]
    state = SHORT.with_pods(pods, 1000)
    for seconds in range(0, int(GONE_WITHIN), 10):
        state = after(MEMORY, used(90, 1000 + seconds), state=state).with_pods(pods, 1000 + seconds)
        found = verdict(MEMORY, state, *pods, now=1000 + seconds)
        assert found.reason is Reason.EVICTION_POD_TERMINATING
    end = 1000 + GONE_WITHIN
    state = after(MEMORY, used(90, end), state=state).with_pods(pods, end)
    assert verdict(MEMORY, state, *pods, now=end).pod == pod("a")


def test_pods_deleted_in_sequence_never_extend_the_wait() -> None:
    state = SHORT
    for seconds in range(0, 200, 10):
        now = 1000.0 + seconds
        pods = [pod("a"), pod(f"new{seconds}", terminating=True), pod(f"new{seconds + 10}", terminating=True)]
        state = after(MEMORY, used(90, now), state=state).with_pods(pods, now)
        found = verdict(MEMORY, state, *pods, now=now)
        assert (found.pod is not None) is (seconds >= GONE_WITHIN)


def test_eviction_restarts_the_wait_and_never_repeats() -> None:
    pods = [pod("a"), pod("b", 1), pod("forever", terminating=True)]
    settings = replace(MEMORY, cooldown_seconds=0)
    state = replace(SHORT, waiting_since=0.0).with_eviction(1000, "a")
    for now, goes in ((1000.0, None), (1000 + GONE_WITHIN, "b")):
        state = after(settings, used(90, now), state=state).with_pods(pods, now)
        found = verdict(settings, state, *pods, now=now)
        assert (found.pod.name if found.pod else None) == goes
    state = state.with_pods([pod("b", 1)], 2000)
    assert state.waiting_since is None


def test_refused_pod_is_skipped_for_a_minute() -> None:
    state = SHORT.with_refusal(1000, "a", "a budget")
    assert verdict(MEMORY, state, pod("a"), pod("b", 1)).pod == pod("b", 1)
    state = after(MEMORY, used(90, 1000 + REFUSED_FOR), state=state)
    assert verdict(MEMORY, state, pod("a"), pod("b", 1), now=1000 + REFUSED_FOR).pod == pod("a")


def test_cpu_shortage_evicts_only_pods_counted_as_requested() -> None:
    state = replace(after(CPU, *STARVED), last_at=-1000)
    pods = [pod("a", 0, requested_milli=0), pod("b", 9)]
    found = verdict(CPU, state, *pods, now=60)
    assert (found.reason, found.pod) == (Reason.EVICTED_FOR_CPU_TIME, pods[1])
    assert "3900m of the 10000m" in found.why
    assert verdict(CPU, state, pods[0], now=60).reason is Reason.EVICTION_NO_CANDIDATE


def test_without_thresholds_nothing_is_ever_short() -> None:
    assert after(NO_EVICTION, used(100), quota(1, 0), quota(1, 10_000)).shortage is Shortage.NONE


PODS = st.lists(
    st.builds(
        OfflineCandidate,
        namespace=st.sampled_from("xy"),
        name=st.sampled_from("abc"),
        uid=st.text("abcdef0123456789", min_size=4, max_size=8),
        priority=st.integers(-2, 2),
        created=st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]),
        requested_milli=st.integers(0, 2),
        runs=st.booleans(),
        terminating=st.booleans(),
        protection=st.sampled_from(["", "", "static"]),
    ),
    max_size=6,
    unique_by=(lambda each: each.uid, lambda each: each.label),
)
BOTH = replace(CPU, memory_threshold_percent=80, memory_lower_percent=70)
STEPS = st.lists(st.tuples(st.integers(1, 40), st.integers(60, 95), st.integers(20, 70), PODS), max_size=30)


@given(STEPS, st.booleans(), st.randoms(use_true_random=False))
def test_any_history_evicts_only_single_eligible_pods(
    steps: list[tuple[int, int, int, list[OfflineCandidate]]], succeeds: bool, rng: random.Random
) -> None:
    now, state, went_at = 0.0, BEGAN, 0.0
    for seconds, memory, share, pods in steps:
        now += seconds
        state = state.with_sample(BOTH, replace(quota(share, now), memory=memory, memory_total=100))
        state = state.with_pods(pods, now)
        found = decide(BOTH, state, pods, now)
        shuffled = list(pods)
        rng.shuffle(shuffled)
        assert decide(BOTH, state, shuffled, now).pod == found.pod
        if found.pod is None:
            assert found.reason not in {Reason.EVICTED_FOR_MEMORY, Reason.EVICTED_FOR_CPU_TIME}
            continue
        went = found.pod
        assert state.shortage is not Shortage.NONE
        assert now - went_at >= BOTH.cooldown_seconds
        if any(each.terminating for each in pods):
            assert state.waiting_since is not None
            assert now - state.waiting_since >= GONE_WITHIN
        assert went.runs
        assert not went.protection
        able = [each for each in pods if each.runs and not each.protection and each.uid not in state.refused]
        if state.memory_is_short:
            assert went.priority == min(each.priority for each in able)
            same = [each for each in able if each.priority == went.priority]
            assert went.created == max(each.created for each in same)
        else:
            assert went.requested_milli > 0
        if succeeds:
            state, went_at = state.with_eviction(now, went.uid), now
        else:
            state = state.with_refusal(now, went.uid, "a budget")
            assert decide(BOTH, state, pods, now).pod != went
