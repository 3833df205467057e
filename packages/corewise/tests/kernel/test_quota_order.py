"""Parents and children are written in an order in which none is ever above its parent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from corewise.kernel.cgroups.files import ancestors
from corewise.kernel.cgroups.resources import Bandwidth
from corewise.kernel.writing.quota_claims import QuotaStep, in_order, within_parents
from corewise.quantities import Microseconds

TREE = ["/", "/k", "/k/a", "/k/b", "/k/a/1", "/k/a/2", "/k/b/1", "/k/b/1/x"]

quotas = st.one_of(st.none(), st.integers(1000, 400_000).map(Microseconds))
periods = st.sampled_from([Microseconds(100_000), Microseconds(50_000), Microseconds(1_000_000)])


def test_cgroup_ancestors_end_at_the_root() -> None:
    assert list(ancestors("/k/a/1")) == ["/k/a", "/k", "/"]
    assert list(ancestors("/k")) == ["/"]
    assert list(ancestors("/")) == []


def test_what_grows_is_written_before_what_shrinks() -> None:
    small, large = (Bandwidth(Microseconds(quota), Microseconds(100_000)) for quota in (5_000, 9_000))
    steps = [
        QuotaStep("/k/b/1", large, small.quota),
        QuotaStep("/k/a/1", small, large.quota),
        QuotaStep("/k/b", large, small.quota),
        QuotaStep("/k/a", small, None),
    ]
    assert [step.cgroup for step in in_order(steps)] == ["/k/a", "/k/a/1", "/k/b/1", "/k/b"]


def fits(values: dict[str, Bandwidth]) -> bool:
    for cgroup, own in values.items():
        above = next((values[up] for up in ancestors(cgroup) if values[up].quota is not None), None)
        if above is not None and own.quota is not None and not own.fits_in(above):
            return False
    return True


@given(st.lists(quotas, min_size=8, max_size=8), st.lists(quotas, min_size=8, max_size=8), periods)
def test_the_hierarchy_holds_after_every_single_step(
    before: list[Microseconds | None], wanted: list[Microseconds | None], period: Microseconds
) -> None:
    anything = {cgroup: Bandwidth(quota, period) for cgroup, quota in zip(TREE, before, strict=True)}
    start = within_parents(anything, dict(zip(TREE, before, strict=True)))
    values = {cgroup: Bandwidth(start[cgroup], period) for cgroup in TREE}
    assert fits(values)
    aims = within_parents(values, dict(zip(TREE, wanted, strict=True)))
    for step in in_order([QuotaStep(cgroup, values[cgroup], aims[cgroup]) for cgroup in TREE]):
        values[step.cgroup] = step.after
        assert fits(values), step
    assert {cgroup: value.quota for cgroup, value in values.items()} == aims


@given(st.lists(quotas, min_size=8, max_size=8), st.lists(periods, min_size=8, max_size=8))
def test_bounded_quotas_fit_parents_and_lose_no_more(
    wanted: list[Microseconds | None], each_period: list[Microseconds]
) -> None:
    present = {cgroup: Bandwidth(None, period) for cgroup, period in zip(TREE, each_period, strict=True)}
    asked = dict(zip(TREE, wanted, strict=True))
    aims = within_parents(present, asked)
    values = {cgroup: Bandwidth(aims[cgroup], present[cgroup].period) for cgroup in TREE}
    assert fits(values)
    for cgroup in TREE:
        above = next((values[up] for up in ancestors(cgroup) if values[up].quota is not None), None)
        own = Bandwidth(asked[cgroup], present[cgroup].period)
        if above is None or own.quota is None or own.fits_in(above):
            assert aims[cgroup] == asked[cgroup]


def test_unrequested_cgroup_keeps_its_value_and_bounds_descendants() -> None:
    hundred = Microseconds(100_000)
    present = {
        "/k": Bandwidth(Microseconds(50_000), hundred),
        "/k/a": Bandwidth(None, hundred),
        "/k/a/1": Bandwidth(None, hundred),
    }
    assert within_parents(present, {"/k/a/1": Microseconds(80_000)}) == {"/k/a/1": 50_000}
