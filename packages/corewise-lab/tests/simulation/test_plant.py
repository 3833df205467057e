"""The plant: hyper-threads, demand in compute, and what offline work costs online work on the same cores."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise_lab.fair_share import Cgroup, Tree
from corewise_lab.machine_model import Moment, ThreadSpeeds, moment
from corewise_lab.machines import CATALOG

THREADS = ThreadSpeeds(lone=2.0, both=1.25)
FLAT = ThreadSpeeds(lone=1.5, both=1.5)
CPUS = 16


def machine(*, web_quota: float = math.inf, be_quota: float = math.inf, be_weight: float = 1) -> Tree:
    be = Cgroup("be", be_weight, be_quota, None, (Cgroup("batch"),))
    return Tree(Cgroup("root", children=(Cgroup("web", 493, web_quota), be)), CPUS)


def compute(tree: Tree, web: float, batch: float, threads: ThreadSpeeds = THREADS) -> float:
    """Return the compute of web."""
    return at(tree, web, batch, threads).compute[tree.index["web"]]


def at(tree: Tree, web: float, batch: float, threads: ThreadSpeeds = THREADS) -> Moment:
    return moment(tree, {tree.index["web"]: web, tree.index["batch"]: batch}, threads)


@pytest.mark.parametrize(
    ("busy", "speed"),
    [(0.0, 2.0), (0.25, 2.0), (0.5, 2.0), (0.75, (0.25 * 2 + 0.5 * 1.25) / 0.75), (1.0, 1.25)],
)
def test_threads_share_only_once_every_core_is_busy(busy: float, speed: float) -> None:
    assert THREADS.speed(busy) == pytest.approx(speed)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_busier_machine_does_more_on_slower_threads(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert THREADS.speed(low) >= THREADS.speed(high) - 1e-12
    assert low * THREADS.speed(low) <= high * THREADS.speed(high) + 1e-12


def test_nominal_model_speed_is_that_of_two_threads() -> None:
    model = CATALOG["AMD EPYC 9654 96-Core Processor"]
    threads = model.threads(hyper_threading=True, turbo=True)
    assert threads is not None
    assert threads.both == model.speed(hyper_threading=True, turbo=True)
    assert threads.lone == model.speed(hyper_threading=False, turbo=True)


def test_work_takes_time_by_its_thread_speed() -> None:
    tree = machine()
    alone = at(tree, web=8.0, batch=0.0)
    assert alone.time[tree.index["web"]] == pytest.approx(4.0)
    assert alone.compute[tree.index["web"]] == pytest.approx(8.0)


def test_offline_work_makes_the_same_online_work_slower() -> None:
    tree = machine()
    web = tree.index["web"]
    alone, beside = at(tree, 8.0, 0.0), at(tree, 8.0, 1000.0)
    assert beside.busy == pytest.approx(CPUS)
    assert beside.time[web] == pytest.approx(8.0 / THREADS.both)
    assert beside.time[web] > alone.time[web]
    assert beside.compute[web] == pytest.approx(8.0), "its weight gets it the time it needs"


def test_throttled_online_work_loses_what_its_threads_lose() -> None:
    tree = machine(web_quota=4.0)
    alone, beside = compute(tree, 100.0, 0.0), compute(tree, 100.0, 1000.0)
    assert alone == pytest.approx(4.0 * THREADS.lone)
    assert beside == pytest.approx(4.0 * THREADS.both)


def test_offline_slice_quota_returns_threads_to_online_work() -> None:
    free, bounded = machine(web_quota=4.0), machine(web_quota=4.0, be_quota=4.0)
    assert compute(bounded, 100.0, 1000.0) == pytest.approx(4.0 * THREADS.lone)
    assert compute(free, 100.0, 1000.0) < compute(bounded, 100.0, 1000.0)


def test_offline_work_costs_almost_nothing_without_hyper_threading() -> None:
    lost = 1 - compute(machine(), 1.5 * CPUS, 1000.0, FLAT) / compute(machine(), 1.5 * CPUS, 0.0, FLAT)
    assert lost == pytest.approx(1 / 494)
    assert compute(machine(), 1.0 * CPUS, 1000.0, FLAT) == pytest.approx(CPUS)


def test_offline_work_of_equal_weight_would_cost_half() -> None:
    equal = machine(be_weight=493)
    lost = 1 - compute(equal, 1.5 * CPUS, 1000.0, FLAT) / compute(equal, 1.5 * CPUS, 0.0, FLAT)
    assert lost == pytest.approx(0.5)


def test_pod_on_owned_cpus_keeps_their_speed() -> None:
    pinned = Cgroup("pinned", cpus=frozenset({0, 8}))
    others = frozenset(set(range(CPUS)) - {0, 8})
    tree = Tree(Cgroup("root", children=(pinned, Cgroup("batch", cpus=others))), CPUS)
    seen = moment(tree, {tree.index["pinned"]: 2.0, tree.index["batch"]: 1000.0}, THREADS)
    assert seen.time[tree.index["pinned"]] == pytest.approx(1.0), "a lone thread of its core"
    assert seen.compute[tree.index["batch"]] == pytest.approx(14 * THREADS.both)


@given(
    web=st.floats(0, 60),
    batch=st.floats(0, 60),
    web_quota=st.floats(0.1, 16),
    be_quota=st.floats(0.1, 16),
    both=st.floats(0.51, 1.0),
)
def test_times_and_speed_of_a_step_agree(
    web: float, batch: float, web_quota: float, be_quota: float, both: float
) -> None:
    threads = ThreadSpeeds(1.0, both)
    tree = machine(web_quota=web_quota, be_quota=be_quota)
    seen = at(tree, web, batch, threads)
    speed = threads.speed(seen.busy / CPUS)
    for path, demand, quota in (("web", web, web_quota), ("batch", batch, be_quota)):
        index = tree.index[path]
        had = seen.time[index]
        assert seen.compute[index] == pytest.approx(had * speed, abs=1e-4)
        if had < min(quota, CPUS) - 1e-3 and seen.busy < CPUS - 1e-3:
            assert had * speed == pytest.approx(demand, abs=1e-3)
        assert had * speed <= demand + 1e-3


@given(st.floats(0, 60), st.floats(0, 60))
def test_offline_work_never_helps_online_work(web: float, batch: float) -> None:
    tree = machine(web_quota=6.0)
    assert compute(tree, web, batch) <= compute(tree, web, 0.0) + 1e-4
