"""Contention: latency rises with used bandwidth, cache is shared by traffic, no one gets what is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise_lab.contention import (
    LINE,
    MISSED,
    Contention,
    Memory,
    MemoryUse,
    cache_shares,
    contend,
    growth,
)
from corewise_lab.fair_share import Cgroup, Tree
from corewise_lab.machine_model import Moment, ThreadSpeeds, moment, moment_with_memory
from corewise_lab.pods import parse_memory_use, print_memory_use

MIB = 2**20
MEMORY = Memory(bandwidth=100e9, llc=32 * MIB, latency=100e-9)
HOG = MemoryUse(bandwidth=5e9, llc=1e12)
SENSITIVE = MemoryUse(bandwidth=0.2e9, llc=16 * MIB, cache_sensitivity=0.4, memory_bound=0.1)
INDIFFERENT = MemoryUse(bandwidth=0.01e9, llc=MIB, cache_sensitivity=0.0, memory_bound=0.0)

uses = st.builds(
    MemoryUse,
    bandwidth=st.floats(0, 20e9),
    llc=st.floats(0, 1e9),
    cache_sensitivity=st.floats(0, 2),
    memory_bound=st.none() | st.floats(0, 1),
)


def busy(many: Mapping[int, MemoryUse], cpus: float = 1.0, memory: Memory = MEMORY) -> Contention:
    """Every user has so many baseline CPUs of time, all busy."""
    return contend(memory, many, lambda stretch: {user: cpus / stretch[user] for user in many})


@pytest.mark.parametrize(
    ("used", "factor"), [(0.0, 1.0), (0.5, 1.0125), (0.8, 1.2048), (0.9, 1.6561), (0.95, 2.629)]
)
def test_latency_grows_with_the_used_bandwidth_as_documented(used: float, factor: float) -> None:
    assert growth(used) == pytest.approx(factor, rel=1e-4)
    assert MEMORY.loaded_latency(used) == pytest.approx(factor * 100e-9, rel=1e-4)


def test_a_user_alone_is_not_stretched() -> None:
    alone = busy({0: SENSITIVE})
    assert alone.stretch[0] == pytest.approx(1.0, abs=1e-6)
    assert alone.used == pytest.approx(0.2e9)
    assert alone.occupancy == 16 * MIB
    assert alone.latency == pytest.approx(100e-9)


def test_bandwidth_hogs_get_only_what_exists_and_wait() -> None:
    crowd = busy(dict.fromkeys(range(40), HOG))
    assert 0.9 < crowd.utilization < 1.0
    assert crowd.slowdown(0) == pytest.approx(1 - crowd.used / 200e9, abs=1e-4), (
        "what it does not get is lost"
    )


def test_hog_takes_cache_from_sensitive_not_indifferent_users() -> None:
    seen = busy({0: SENSITIVE, 1: INDIFFERENT, 2: HOG})
    assert seen.occupancy == pytest.approx(32 * MIB)
    assert seen.lost[0] > 0.25
    assert seen.slowdown(0) > 0.1
    assert seen.slowdown(1) < 0.01


def test_lost_cache_has_to_be_fetched_again() -> None:
    fetched = SENSITIVE.traffic(MEMORY, 1.0) - SENSITIVE.traffic(MEMORY, 0.0)
    assert fetched == pytest.approx(0.4 * MISSED * LINE / 100e-9)


def test_unstated_waiting_figures_follow_from_littles_law() -> None:
    assert HOG.bound(MEMORY) == pytest.approx(5e9 * 100e-9 / 640)
    assert MemoryUse(bandwidth=100e9).bound(MEMORY) == 1.0
    assert MemoryUse(bandwidth=1.0, memory_bound=0.0).bound(MEMORY) == 0.01, "who fetches waits"
    assert MemoryUse(bandwidth=0.0).bound(MEMORY) == 0.0


def test_extreme_bandwidth_demand_never_exceeds_the_bandwidth() -> None:
    hungry = MemoryUse(bandwidth=8.6e9, memory_bound=0.0)
    seen = busy({0: hungry, 1: hungry}, cpus=59.0, memory=replace(MEMORY, bandwidth=1e9))
    assert seen.utilization == pytest.approx(1, abs=1e-5)


@given(st.lists(uses, max_size=8), st.floats(0.01, 100), st.floats(1e9, 1e12))
def test_traffic_matches_work_done_and_stays_within_bandwidth(
    many: list[MemoryUse], cpus: float, bandwidth: float
) -> None:
    memory = replace(MEMORY, bandwidth=bandwidth)
    by_user = dict(enumerate(many))
    seen = busy(by_user, cpus, memory)
    moved = sum(
        cpus / seen.stretch[user] * use.traffic(memory, seen.lost[user]) for user, use in by_user.items()
    )
    assert seen.used == pytest.approx(moved)
    assert seen.utilization <= 1 + 1e-4
    if seen.utilization < 0.99:
        assert seen.latency == pytest.approx(memory.loaded_latency(seen.utilization), rel=0.01)
    assert all(stretch >= 1 - 1e-9 for stretch in seen.stretch.values())


@given(st.lists(uses, min_size=1, max_size=6), uses)
def test_one_more_user_never_helps_the_others(many: list[MemoryUse], more: MemoryUse) -> None:
    before, after = busy(dict(enumerate(many))), busy(dict(enumerate([*many, more])))
    assert all(after.stretch[user] >= before.stretch[user] - 1e-3 for user in before.stretch)


@given(st.lists(uses, max_size=8))
def test_cache_is_never_overfull_nor_idle_while_wanted(many: list[MemoryUse]) -> None:
    by_user = dict(enumerate(many))
    shares = cache_shares(MEMORY, by_user, dict.fromkeys(by_user, 1.0))
    wanted = sum(use.llc for use in many)
    assert sum(shares.values()) == pytest.approx(min(wanted, MEMORY.llc), rel=1e-6, abs=1)
    assert all(shares[user] <= use.llc + 1e-6 for user, use in by_user.items())


def test_who_does_nothing_has_no_cache() -> None:
    shares = cache_shares(MEMORY, {0: SENSITIVE, 1: HOG}, {0: 1.0, 1: 0.0})
    assert shares == {0: 16 * MIB, 1: 0.0}


# In the plant: time, speed and stretch agree.

THREADS = ThreadSpeeds(lone=2.0, both=1.25)
TREE = Tree(Cgroup("root", children=(Cgroup("a", quota=4.0), Cgroup("b"), Cgroup("c"))), 16)
A, B, C = (TREE.index[path] for path in "abc")


def at(demand: dict[int, float], many: dict[int, MemoryUse]) -> Moment:
    return moment_with_memory(TREE, demand, THREADS, MEMORY, many)


def test_moments_are_unchanged_without_memory_users() -> None:
    plain, seen = moment(TREE, {A: 9.0, B: 3.0}, THREADS), at({A: 9.0, B: 3.0}, {})
    assert (seen.time, seen.refused) == (plain.time, plain.refused)
    assert seen.compute == pytest.approx(plain.compute)
    assert seen.contention is not None
    assert seen.contention.used == 0


def test_memory_stalled_work_takes_spare_cpu_time() -> None:
    alone = at({B: 4.0}, {B: SENSITIVE})
    beside = at({B: 4.0, C: 12.0}, {B: SENSITIVE, C: replace(HOG, bandwidth=20e9)})
    assert beside.compute[B] == pytest.approx(4.0, abs=1e-3), "there are CPUs enough"
    assert beside.time[B] > 1.2 * alone.time[B]


def test_work_at_its_quota_loses_what_memory_takes() -> None:
    seen = at({A: 100.0, C: 12.0}, {A: SENSITIVE, C: replace(HOG, bandwidth=20e9)})
    assert seen.contention is not None
    speed = THREADS.speed(seen.busy / 16)
    assert seen.time[A] == pytest.approx(4.0)
    assert seen.compute[A] == pytest.approx(4.0 * speed / seen.contention.stretch[A])
    assert seen.compute[0] == pytest.approx(seen.compute[A] + seen.compute[C]), (
        "groups are the sums of leaves"
    )


@given(st.floats(0, 40), st.floats(0, 40), uses, uses)
def test_a_moment_moves_the_traffic_of_its_compute(
    a: float, b: float, one: MemoryUse, other: MemoryUse
) -> None:
    seen = at({A: a, B: b}, {A: one, B: other})
    contention = seen.contention
    assert contention is not None
    moved = sum(
        seen.compute[leaf] * use.traffic(MEMORY, contention.lost[leaf])
        for leaf, use in ((A, one), (B, other))
    )
    assert contention.used == pytest.approx(moved, rel=1e-6, abs=1.0)
    assert contention.utilization <= 1 + 1e-3


# How it stands on a pod.


@given(uses)
def test_how_a_pod_uses_memory_survives_its_annotation(use: MemoryUse) -> None:
    read = parse_memory_use(print_memory_use(use))
    assert read is not None
    assert read.bandwidth == pytest.approx(use.bandwidth, abs=1)
    assert read.llc == pytest.approx(use.llc, abs=1)
    assert read.cache_sensitivity == pytest.approx(use.cache_sensitivity, rel=1e-5)
    if use.memory_bound is None:
        assert read.memory_bound is None
    else:
        assert read.memory_bound == pytest.approx(use.memory_bound, rel=1e-5)


def test_annotation_amounts_are_quantities_and_require_only_bandwidth() -> None:
    assert parse_memory_use("bandwidth=3600M") == MemoryUse(3.6e9)
    assert parse_memory_use("bandwidth=1G, llc=16Mi, memoryBound=0.5") == MemoryUse(1e9, 16 * MIB, 0.0, 0.5)


@pytest.mark.parametrize(
    "text",
    ["", "llc=1Mi", "bandwidth=", "bandwidth=-1G", "bandwidth=1G,memoryBound=2", "bandwidth=1G,cache=1"],
)
def test_what_is_no_such_annotation_says_nothing(text: str) -> None:
    assert parse_memory_use(text) is None
