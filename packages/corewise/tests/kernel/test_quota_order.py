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
bandwidths = st.builds(Bandwidth, quotas, periods)


def test_cgroup_ancestors_end_at_the_root() -> None:
    assert list(ancestors("/k/a/1")) == ["/k/a", "/k", "/"]
    assert list(ancestors("/k")) == ["/"]
    assert list(ancestors("/")) == []


def test_what_grows_is_written_before_what_shrinks() -> None:
    small, large = (Bandwidth(Microseconds(quota), Microseconds(100_000)) for quota in (5_000, 9_000))
    steps = [
        QuotaStep("/k/b/1", large, small),
        QuotaStep("/k/a/1", small, large),
        QuotaStep("/k/b", large, small),
        QuotaStep("/k/a", small, Bandwidth(None, small.period)),
    ]
    assert [step.cgroup for step in in_order(steps)] == ["/k/a", "/k/a/1", "/k/b/1", "/k/b"]


def fits(values: dict[str, Bandwidth]) -> bool:
    for cgroup, own in values.items():
        above = next((values[up] for up in ancestors(cgroup) if values[up].quota is not None), None)
        if above is not None and own.quota is not None and not own.fits_in(above):
            return False
    return True


@given(
    st.lists(bandwidths, min_size=8, max_size=8),
    st.lists(bandwidths, min_size=8, max_size=8),
)
def test_the_hierarchy_holds_after_every_single_step(
    before: list[Bandwidth], wanted: list[Bandwidth]
) -> None:
    anything = dict(zip(TREE, before, strict=True))
    values = within_parents(anything, anything)
    assert fits(values)
    aims = within_parents(values, dict(zip(TREE, wanted, strict=True)))
    for step in in_order([QuotaStep(cgroup, values[cgroup], aims[cgroup]) for cgroup in TREE]):
        values[step.cgroup] = step.after
        assert fits(values), step
    assert values == aims


@given(st.lists(bandwidths, min_size=8, max_size=8))
def test_bounded_quotas_fit_parents_and_lose_no_more(wanted: list[Bandwidth]) -> None:
    asked = dict(zip(TREE, wanted, strict=True))
    aims = within_parents({cgroup: Bandwidth(None, each.period) for cgroup, each in asked.items()}, asked)
    assert fits(aims)
    for cgroup, own in asked.items():
        above = next((aims[up] for up in ancestors(cgroup) if aims[up].quota is not None), None)
        if above is None or own.quota is None or own.fits_in(above):
            assert aims[cgroup] == own


def test_unrequested_cgroup_keeps_its_value_and_bounds_descendants() -> None:
    hundred = Microseconds(100_000)
    present = {
        "/k": Bandwidth(Microseconds(50_000), hundred),
        "/k/a": Bandwidth(None, hundred),
        "/k/a/1": Bandwidth(None, hundred),
    }
    asked = {"/k/a/1": Bandwidth(Microseconds(80_000), hundred)}
    assert within_parents(present, asked) == {"/k/a/1": Bandwidth(Microseconds(50_000), hundred)}
