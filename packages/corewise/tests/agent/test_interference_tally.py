"""One counter made of many: it never falls, has all that was counted in between, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from corewise.agent.interference.collector import Tally

COUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2**64 - 1))


def after(*looks: Mapping[str, int]) -> int:
    tally: Tally[str] = Tally()
    for counts in looks:
        tally.take(counts)
    return tally.total


def test_first_look_adds_nothing_and_later_add_growth() -> None:
    assert after({"a": 1000, "b": 5}) == 0
    assert after({"a": 1000, "b": 5}, {"a": 1010, "b": 6}) == 11


def test_counter_reset_adds_nothing_until_it_grows_again() -> None:
    assert after({"a": 1000}, {"a": 7}) == 0
    assert after({"a": 1000}, {"a": 7}, {"a": 10}) == 3


def test_group_that_comes_and_goes_causes_no_jump() -> None:
    assert after({"a": 10}, {"a": 20, "b": 5000}, {"a": 30, "b": 5001}, {"a": 40}, {"a": 50, "b": 9000}) == 41


def test_growth_counted_by_another_source_is_not_readded() -> None:
    tally: Tally[str] = Tally()
    tally.take({"a": 10})
    tally.forget()
    tally.take({"a": 500})
    tally.take({"a": 501})
    assert tally.total == 1


@given(st.lists(COUNTS, max_size=8))
def test_total_never_falls_and_includes_every_rise(looks: list[dict[str, int]]) -> None:
    totals = [after(*looks[:length]) for length in range(len(looks) + 1)]
    assert totals == sorted(totals)
    rises = (max(0, new[key] - old[key]) for old, new in pairwise(looks) for key in old.keys() & new.keys())
    assert totals[-1] == sum(rises)


@given(st.lists(st.tuples(st.integers(0, 10**12), st.booleans()), max_size=20))
def test_counter_reset_loses_at_most_one_look(moves: list[tuple[int, bool]]) -> None:
    """A counter that is reset between two looks loses at most what moved in between."""
    tally: Tally[str] = Tally()
    counter = lost = 0
    tally.take({"a": counter})
    for moved, reset in moves:
        counter = moved if reset else counter + moved
        before = tally.total
        tally.take({"a": counter})
        assert tally.total - before in {moved, 0} or reset
        lost += moved - (tally.total - before)
    assert sum(moved for moved, _ in moves) == tally.total + lost
    assert lost >= 0
