"""Nested sets are written in an order in which each is within its parent's after every single write.

======================================  ===============================================================
sets                                    written
======================================  ===============================================================
all grow                                parents first
all shrink                              children first
all move elsewhere                      parents get the new ones, children move, parents give up the old
a set without children moves            at once
======================================  ===============================================================
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from corewise.kernel.cgroups.files import ancestors
from corewise.kernel.writing.setting_plan import nested_aims, nested_moves
from corewise.topology import CPUSet

TREE = ["/", "/k", "/k/a", "/k/b", "/k/a/1", "/k/a/2", "/k/b/1", "/k/b/1/x"]
ALL = CPUSet.parse("0-7")
SETS = st.sets(st.integers(0, 7), min_size=1).map(CPUSet.of)


def sets(**each: str) -> dict[str, CPUSet]:
    return {f"/{name.replace('_', '/')}": CPUSet.parse(text) for name, text in each.items()}


def moves(present: dict[str, CPUSet], aims: dict[str, CPUSet]) -> list[tuple[str, str, str]]:
    return [(cgroup, str(old), str(new)) for cgroup, old, new in nested_moves(present, aims)]


def test_what_grows_is_written_from_the_top() -> None:
    assert moves(sets(p="0-1", p_c="0"), sets(p="0-3", p_c="0-2")) == [
        ("/p", "0-1", "0-3"),
        ("/p/c", "0", "0-2"),
    ]


def test_what_shrinks_is_written_from_the_bottom() -> None:
    assert moves(sets(p="0-3", p_c="0-2"), sets(p="0-1", p_c="0")) == [
        ("/p/c", "0-2", "0"),
        ("/p", "0-3", "0-1"),
    ]


def test_parent_keeps_old_set_until_children_have_moved() -> None:
    assert moves(sets(p="0-3", p_c="0-1"), sets(p="4-7", p_c="4-5")) == [
        ("/p", "0-3", "0-1,4-7"),
        ("/p/c", "0-1", "4-5"),
        ("/p", "0-1,4-7", "4-7"),
    ]


def test_set_without_dependents_moves_at_once() -> None:
    assert moves(sets(p="0-7", p_c="0-1"), sets(p_c="4-5")) == [("/p/c", "0-1", "4-5")]
    assert moves(sets(p="0-3", p_c="2-3"), sets(p="2-5", p_c="2-3")) == [("/p", "0-3", "2-5")]


def test_nothing_is_written_where_nothing_changes() -> None:
    assert nested_moves(sets(p="0-3", p_c="0-1"), sets(p="0-3", p_c="0-1")) == []


def nested(values: dict[str, CPUSet]) -> bool:
    return all(own <= values[next(ancestors(each), each)] for each, own in values.items())


@given(
    st.lists(SETS, min_size=8, max_size=8),
    st.lists(SETS, min_size=8, max_size=8),
    st.sets(st.sampled_from(TREE)),
)
def test_the_hierarchy_holds_after_every_single_write(
    before: list[CPUSet], wanted: list[CPUSet], held: set[str]
) -> None:
    start, _ = nested_aims({}, dict(zip(TREE, before, strict=True)), ())
    assert nested(start)
    asked = {cgroup: cpus for cgroup, cpus in zip(TREE, wanted, strict=True) if cgroup in held}
    fits, _ = nested_aims(start, asked, ())
    aims, _ = nested_aims(start, {cgroup: fits.get(cgroup, has) for cgroup, has in start.items()}, ())
    values = dict(start)
    times = dict.fromkeys(TREE, 0)
    for cgroup, old, new in nested_moves(start, aims):
        assert values[cgroup] == old != new
        values[cgroup] = new
        times[cgroup] += 1
        assert nested(values), (cgroup, old, new)
    assert values == aims
    assert max(times.values()) <= 2


@given(st.lists(SETS, min_size=8, max_size=8), st.sets(st.sampled_from(TREE)))
def test_aims_stay_within_parents_and_inexact_are_reported(wanted: list[CPUSet], firm: set[str]) -> None:
    present = dict.fromkeys(TREE, ALL)
    asked = dict(zip(TREE, wanted, strict=True))
    aims, beyond = nested_aims(present, asked, firm)
    assert aims.keys() | beyond.keys() == asked.keys()
    assert beyond.keys() <= firm
    for cgroup, own in asked.items():
        limit = aims.get(next(ancestors(cgroup), ""), ALL)
        if cgroup in beyond:
            assert beyond[cgroup] == limit
            assert not own <= limit
        elif cgroup in firm or own <= limit:
            assert aims[cgroup] == own
        else:
            assert aims[cgroup] == (own & limit or limit)
