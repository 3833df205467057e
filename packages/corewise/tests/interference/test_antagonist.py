"""Who makes a pod wait for CPUs: a greedy neighbor, or none; by stated samples.

=============================================  =================================================
what happens on the node                       verdict
=============================================  =================================================
one neighbor always runs, beyond its request   that neighbor, though its usage never varies
several small ones within their requests       none: the node is full
two alike that both run beyond theirs          none: neither is ahead
the pod is greedier than its neighbor          none
its own quota throttles it                     its quota
its own threads wait for one another           its threads
processes outside pods run much                those
a pod runs much on CPUs of its own             none of the others': it is no suspect
=============================================  =================================================
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.interference.antagonist import (
    FEWEST,
    OUTSIDE,
    Interval,
    Judgment,
    Wait,
    is_waiting,
    judge,
    wait_for_others,
)
from corewise.vocabulary.reasons import Reason

WEB, BATCH = "default/web", "default/batch"
REQUESTS = {WEB: 0.5, BATCH: 0.1, "default/a": 0.2, "default/b": 0.2}
SMALL = {"default/a": 0.1, "default/b": 0.1, OUTSIDE: 0.02}


def interval(
    waited: float, web: float = 0.3, *, among: float = 0.0, throttled: float = 0.0, **used: float
) -> Interval:
    neighbors = {f"default/{name}" if name != "outside" else OUTSIDE: each for name, each in used.items()}
    waits = {
        WEB: Wait(waited, among, throttled),
        **{name: Wait(0.1) for name in neighbors if name != OUTSIDE},
    }
    return Interval(1.0, 1, {WEB: web, **SMALL, **neighbors}, waits)


def verdict(*intervals: Interval, **requests: float) -> Judgment:
    return judge(WEB, intervals, REQUESTS | {f"default/{name}": each for name, each in requests.items()})


def test_an_owner_of_cpus_is_no_suspect() -> None:
    """Pods that share CPUs never wait for one that owns its own, and the other way round."""
    owner = "default/owner"
    apart = [replace(interval(0.3, batch=0.5, owner=4.0), owners=frozenset({owner})) for _ in range(10)]
    found = verdict(*apart, owner=1.0)
    assert found.antagonist == BATCH
    assert all(each.name != owner for each in found.suspects)
    own = [replace(each, owners=frozenset({WEB})) for each in apart]
    assert [each.name for each in verdict(*own).suspects] == [OUTSIDE]


def test_a_neighbor_that_always_runs_is_named() -> None:
    found = verdict(*[interval(0.3, batch=0.5)] * 10)
    assert (found.reason, found.antagonist) == (Reason.ANTAGONIST_NAMED, BATCH)
    first = found.suspects[0]
    assert first.share == pytest.approx(0.5 / 0.72)
    assert first.slowdown == pytest.approx(0.3 * 0.5 / 0.72 / (0.3 + 0.3 * 0.5 / 0.72))
    assert (first.used, first.wanted, first.request) == pytest.approx((0.5, 0.6, 0.1))
    assert first.correlation is None


def test_a_neighbor_that_pauses_is_named() -> None:
    on, off = interval(0.3, batch=0.6), interval(0.02, batch=0.0)
    found = verdict(*[on, on, off] * 6)
    assert found.antagonist == BATCH
    assert found.suspects[0].correlation == pytest.approx(1.0)


def test_wait_that_runs_against_a_neighbor_clears_it() -> None:
    much, little = interval(0.1, batch=0.7), interval(0.5, batch=0.4)
    assert verdict(*[much, little] * 6).reason is Reason.NO_SINGLE_ANTAGONIST


def test_many_small_neighbors_are_a_full_node() -> None:
    small = {f"n{index}": 0.1 for index in range(6)}
    found = verdict(*[interval(0.3, **small)] * 10)
    assert (found.reason, found.antagonist) == (Reason.NO_SINGLE_ANTAGONIST, "")
    assert found.suspects[0].share < 0.2


def test_two_alike_are_not_told_apart() -> None:
    found = verdict(*[interval(0.3, batch=0.3, other=0.3)] * 10)
    assert found.reason is Reason.NO_SINGLE_ANTAGONIST


@pytest.mark.parametrize(
    ("request_of_batch", "named"), [(0.0, True), (0.1, True), (0.45, True), (0.5, False), (2.0, False)]
)
def test_a_neighbor_within_its_request_is_not_named(request_of_batch: float, named: bool) -> None:
    assert bool(verdict(*[interval(0.3, batch=0.5)] * 10, batch=request_of_batch).antagonist) is named


def test_a_greedier_pod_is_no_victim() -> None:
    intervals = [interval(0.3, batch=0.5)] * 10
    assert verdict(*intervals, web=0.05).reason is Reason.NO_SINGLE_ANTAGONIST
    assert verdict(*intervals, web=0.0).antagonist == ""
    assert verdict(*intervals, web=0.0, batch=0.0).antagonist == BATCH


def test_processes_outside_pods_need_more_proof() -> None:
    assert verdict(*[interval(0.3, outside=0.6)] * 10).reason is Reason.ANTAGONIST_OUTSIDE_PODS
    assert verdict(*[interval(0.12, outside=0.6)] * 10).reason is Reason.NO_SINGLE_ANTAGONIST


def test_throttling_and_own_threads_are_no_neighbors() -> None:
    throttled = interval(0.1, batch=0.6, throttled=0.5)
    assert verdict(*[throttled] * 10).reason is Reason.OWN_QUOTA_THROTTLES
    crowded = interval(0.01, web=0.9, among=2.0, batch=0.05)
    assert verdict(*[crowded] * 10).reason is Reason.OWN_THREADS_WAIT


def test_too_few_samples_name_nobody() -> None:
    assert verdict(*[interval(0.3, batch=0.5)] * (FEWEST - 1)).reason is Reason.TOO_FEW_SAMPLES
    assert judge("default/gone", [interval(0.3)] * 20, {}).reason is Reason.TOO_FEW_SAMPLES
    short = replace(interval(0.3, batch=0.5), seconds=0.1)
    assert verdict(*[short] * 30).reason is Reason.TOO_FEW_SAMPLES


def test_only_the_last_half_minute_counts() -> None:
    past, calm = [interval(0.5, batch=0.6)] * 60, [interval(0.0)] * 30
    assert verdict(*past, *calm).reason is Reason.WAITS_LITTLE


@pytest.mark.parametrize(
    ("tasks", "own", "others", "waited"),
    [
        ([(0.5, 0.5)], 0.5, 0.5, 0.5),  # one thread waits for others alone
        ([(0.25, 0.75)] * 4, 1.0, 0.0, 0.0),  # four threads on one CPU wait for one another
        ([(0.25, 0.5)] * 2, 0.5, 0.25, 0.5),  # half of the wait of each, as others ran as much as its sibling
        ([], 0.0, 1.0, 0.0),
    ],
)
def test_wait_of_tasks_is_divided_by_who_ran(
    tasks: list[tuple[float, float]], own: float, others: float, waited: float
) -> None:
    assert wait_for_others(tasks, own, others, 0.0) == pytest.approx(waited)


def test_a_tenth_of_wait_deserves_a_look() -> None:
    assert is_waiting(WEB, interval(0.05))
    assert not is_waiting(WEB, interval(0.01))
    assert not is_waiting(WEB, interval(0.03, web=0.9))
    assert not is_waiting("default/gone", interval(0.5))


CPUS = st.floats(0, 2, allow_nan=False)
INTERVALS = st.lists(
    st.builds(
        lambda waited, own, each: interval(waited, own, **{f"n{i}": used for i, used in enumerate(each)}),
        CPUS,
        CPUS,
        st.lists(CPUS, min_size=1, max_size=6),
    ),
    max_size=40,
)


@given(INTERVALS)
def test_none_is_named_without_wait(intervals: list[Interval]) -> None:
    calm = [replace(each, waits={**each.waits, WEB: Wait(0.0)}) for each in intervals]
    assert judge(WEB, calm, {}).antagonist == ""


@given(INTERVALS, st.integers(0, 99))
def test_the_order_of_neighbors_does_not_matter(intervals: list[Interval], seed: int) -> None:
    def shuffled(each: Interval) -> Interval:
        names = list(each.used)
        random.Random(seed).shuffle(names)  # noqa: S311 - an order
        return replace(each, used={name: each.used[name] for name in names})

    one, other = judge(WEB, intervals, REQUESTS), judge(WEB, list(map(shuffled, intervals)), REQUESTS)
    assert (one.reason, one.antagonist) == (other.reason, other.antagonist)


@given(INTERVALS)
def test_shares_explain_at_most_the_wait(intervals: list[Interval]) -> None:
    suspects = judge(WEB, intervals, REQUESTS).suspects
    assert all(0 <= each.share <= 1.000001 and 0 <= each.slowdown <= 1 for each in suspects)
    assert sum(each.share for each in suspects) <= 1.000001
