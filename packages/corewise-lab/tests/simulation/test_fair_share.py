"""The tree of cgroups: shares by weight level by level, no one above a cap, no CPU idle while wanted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise_lab.fair_share import Cgroup, Tree, water_fill
from corewise_lab.machine_model import Moment, ThreadSpeeds, moment

amounts = st.floats(min_value=0, max_value=1000)
weights = st.floats(min_value=0.01, max_value=10_000)
claims = st.lists(st.tuples(amounts | st.just(math.inf), weights), min_size=1, max_size=12)
totals = st.floats(min_value=0.1, max_value=500)
SLACK = 1e-6


@given(claims, totals)
def test_all_cpus_are_shared_while_somebody_wants_them(
    claims: list[tuple[float, float]], total: float
) -> None:
    caps = [cap for cap, _ in claims]
    shares = water_fill(caps, [weight for _, weight in claims], total)
    assert math.fsum(shares) == pytest.approx(min(total, math.fsum(caps)), rel=SLACK, abs=SLACK)


@given(claims, totals)
def test_share_is_never_above_cap_nor_below_zero(claims: list[tuple[float, float]], total: float) -> None:
    shares = water_fill([cap for cap, _ in claims], [weight for _, weight in claims], total)
    assert all(0 <= share <= cap + SLACK for share, (cap, _) in zip(shares, claims, strict=True))


@given(claims, totals)
def test_those_below_their_cap_have_shares_by_weight(claims: list[tuple[float, float]], total: float) -> None:
    shares = water_fill([cap for cap, _ in claims], [weight for _, weight in claims], total)
    levels = [
        share / weight
        for share, (cap, weight) in zip(shares, claims, strict=True)
        if share < cap * (1 - SLACK) - SLACK
    ]
    assert not levels or max(levels) == pytest.approx(min(levels), rel=1e-4, abs=SLACK)


@given(claims, totals, st.floats(min_value=0, max_value=100))
def test_more_cpus_never_give_anybody_less(
    claims: list[tuple[float, float]], total: float, more: float
) -> None:
    caps, by_weight = [cap for cap, _ in claims], [weight for _, weight in claims]
    before, after = water_fill(caps, by_weight, total), water_fill(caps, by_weight, total + more)
    assert all(new >= old - SLACK for old, new in zip(before, after, strict=True))


@given(claims, totals, st.floats(min_value=0, max_value=100))
def test_a_higher_cap_never_costs_its_owner_anything(
    claims: list[tuple[float, float]], total: float, more: float
) -> None:
    caps, by_weight = [cap for cap, _ in claims], [weight for _, weight in claims]
    before = water_fill(caps, by_weight, total)[0]
    assert water_fill([caps[0] + more, *caps[1:]], by_weight, total)[0] >= before - SLACK


def leaf(path: str, *, weight: float = 100.0, quota: float = math.inf, cpus: str = "") -> Cgroup:
    return Cgroup(path, weight, quota, frozenset(map(int, cpus.split(","))) if cpus else None)


def group(path: str, *children: Cgroup, weight: float = 100.0, quota: float = math.inf) -> Cgroup:
    return Cgroup(path, weight, quota, None, children)


def times(root: Cgroup, cpus: int, **wants: float) -> dict[str, float]:
    tree = Tree(root, cpus)
    return by_path(tree, divided(tree, wants).time)


def divided(tree: Tree, wants: Mapping[str, float]) -> Moment:
    return moment(tree, {tree.index[path]: want for path, want in wants.items()}, ThreadSpeeds(1.0, 1.0))


def by_path(tree: Tree, values: object) -> dict[str, float]:
    assert isinstance(values, list)
    return {cgroup.path: value for cgroup, value in zip(tree.cgroups, values, strict=True)}


def test_slice_of_weight_1_starves_under_full_contention() -> None:
    root = group("root", leaf("web", weight=493), group("be", leaf("batch"), weight=1))
    shared = times(root, 16, web=16, batch=16)
    assert shared["be"] == pytest.approx(16 / 494)
    assert shared["web"] == pytest.approx(16 * 493 / 494)


def test_slice_of_any_weight_gets_what_online_leaves() -> None:
    root = group("root", leaf("web", weight=493), group("be", leaf("batch"), weight=1))
    assert times(root, 16, web=4, batch=16)["be"] == pytest.approx(12)


def test_children_of_a_slice_share_what_it_has() -> None:
    be = group("be", leaf("one", weight=300), leaf("two", weight=100), weight=1, quota=4)
    shared = times(group("root", leaf("web"), be), 16, web=2, one=16, two=16)
    assert (shared["be"], shared["one"], shared["two"]) == pytest.approx((4, 3, 1))


def test_weights_count_among_siblings_only() -> None:
    root = group("root", group("a", leaf("x", weight=10_000)), group("b", leaf("y", weight=1)))
    shared = times(root, 8, x=8, y=8)
    assert (shared["x"], shared["y"]) == pytest.approx((4, 4))


@pytest.mark.parametrize("level", ["be", "pod", "container"])
def test_a_quota_bounds_at_every_level(level: str) -> None:
    quota = {each: 3.0 if each == level else math.inf for each in ("be", "pod", "container")}
    pod = group("pod", leaf("container", quota=quota["container"]), quota=quota["pod"])
    root = group("root", group("be", pod, quota=quota["be"]))
    tree = Tree(root, 8)
    division = divided(tree, {"container": 8})
    assert by_path(tree, division.time)["container"] == 3
    refused = {path: value for path, value in by_path(tree, division.refused).items() if value}
    assert refused == {level: 5.0}


def test_unreached_quota_refuses_nothing_on_a_full_machine() -> None:
    root = group("root", leaf("web", weight=900), leaf("batch", quota=4))
    tree = Tree(root, 8)
    division = divided(tree, {"web": 8, "batch": 8})
    assert by_path(tree, division.time)["batch"] == pytest.approx(0.8)
    assert not any(division.refused)


def test_confined_container_gets_no_more_than_its_cpus() -> None:
    root = group("root", leaf("pinned", cpus="0,1"), leaf("web"))
    assert times(root, 8, pinned=5, web=8) == pytest.approx({"root": 8, "pinned": 1, "web": 7})
    assert times(root, 8, pinned=5, web=1) == pytest.approx({"root": 3, "pinned": 2, "web": 1})


def test_owned_cpus_that_others_cannot_use_waste_nothing() -> None:
    root = group(
        "root", leaf("pinned", cpus="0,1"), leaf("web", cpus="2,3,4,5"), leaf("batch", cpus="2,3,4,5")
    )
    shared = times(root, 6, pinned=2, web=6, batch=6)
    assert (shared["pinned"], shared["web"], shared["batch"]) == pytest.approx((2, 2, 2))


def test_a_quota_counts_over_all_pools_together() -> None:
    root = group("root", leaf("pinned", cpus="0,1"), leaf("batch", quota=2.5))
    assert times(root, 8, pinned=1, batch=8)["batch"] == pytest.approx(2.5)


def test_set_disjoint_from_its_parents_becomes_the_parents() -> None:
    parent = Cgroup("p", cpus=frozenset({0, 1}), children=(leaf("c", cpus="5"),))
    assert times(group("root", parent), 8, c=8)["c"] == pytest.approx(2)


SETS = st.none() | st.sets(st.integers(0, 5), min_size=1).map(frozenset)


@st.composite
def forests(draw: st.DrawFn) -> tuple[Tree, dict[int, float]]:
    """A tree of three levels on six CPUs, and what its leaves want."""
    quotas = st.just(math.inf) | st.floats(0.1, 6)
    slices = []
    for number in range(draw(st.integers(1, 3))):
        members = tuple(
            Cgroup(f"{number}/{index}", draw(weights), draw(quotas), draw(SETS))
            for index in range(draw(st.integers(1, 3)))
        )
        slices.append(Cgroup(str(number), draw(weights), draw(quotas), None, members))
    tree = Tree(Cgroup("root", children=tuple(slices)), 6)
    return tree, {index: draw(st.floats(0, 10)) for index in tree.leaves}


@given(forests())
def test_cgroups_stay_between_zero_and_quota_or_demand(
    forest: tuple[Tree, dict[int, float]],
) -> None:
    tree, wants = forest
    time = moment(tree, wants, ThreadSpeeds(1.0, 1.0)).time
    for index, cgroup in enumerate(tree.cgroups):
        assert -SLACK <= time[index] <= cgroup.quota + SLACK
        below = tree.children[index]
        if below:
            assert time[index] == pytest.approx(math.fsum(time[child] for child in below), abs=SLACK)
        else:
            assert time[index] <= wants[index] + SLACK
    assert time[0] <= 6 + SLACK


@given(forests())
def test_no_cpu_idles_while_an_unthrottled_leaf_wants(
    forest: tuple[Tree, dict[int, float]],
) -> None:
    tree, wants = forest
    time = moment(tree, wants, ThreadSpeeds(1.0, 1.0)).time
    hungry = {
        leaf for leaf in tree.leaves if time[leaf] < wants[leaf] - SLACK and not bounded(tree, time, leaf)
    }
    open_to_them = sum(pool.size for pool in tree.pools if pool.leaves & hungry)
    had_there = sum(
        time[leaf]
        for leaf in tree.leaves
        if any(leaf in pool.leaves for pool in tree.pools if pool.leaves & hungry)
    )
    assert had_there >= open_to_them - SLACK


def bounded(tree: Tree, time: Sequence[float], leaf: int) -> bool:
    """Whether a quota keeps a leaf from more, its own or one above."""
    parents = {child: index for index, below in enumerate(tree.children) for child in below}
    chain = [leaf, parents[leaf], 0]
    return any(time[index] >= tree.cgroups[index].quota - SLACK for index in chain)


@given(forests())
def test_the_pools_are_the_cpus_of_the_machine(forest: tuple[Tree, dict[int, float]]) -> None:
    tree, _ = forest
    assert sum(pool.size for pool in tree.pools) == 6
