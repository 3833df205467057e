"""CPU lists are read as people, the kernel and Nova write them, and printed canonically."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.topology import LARGEST_CPU, CPUSet, CPUSetError

cpusets = st.frozensets(st.integers(0, 300) | st.integers(0, LARGEST_CPU)).map(CPUSet)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", []),
        ("\n", []),
        ("0", [0]),
        ("0-3\n", [0, 1, 2, 3]),
        ("0-3,^2", [0, 1, 3]),
        ("^2,0-3", [0, 1, 3]),
        ("0-7,^2-4", [0, 1, 5, 6, 7]),
        (" 0 - 2 , ^ 1 ,, 8 ", [0, 2, 8]),
        ("3,1,2,2", [1, 2, 3]),
        ("0-1,1-3", [0, 1, 2, 3]),
        ("5-5", [5]),
        ("1,^9", [1]),
    ],
)
def test_a_cpu_list_names_its_cpus_and_takes_excludes_away_at_the_end(text: str, cpus: list[int]) -> None:
    assert list(CPUSet.parse(text)) == cpus


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("0-3,-1", "-1"),
        ("1-,2", "1-"),
        ("1-2-3", "1-2-3"),
        ("0,5-2", "5-2"),
        ("^", "^"),
        ("0-3,a", "a"),
        ("^^1,2", "^^1"),
        ("1 2", "1 2"),
        ("0x3", "0x3"),
        ("1.5", "1.5"),
        ("65536", "65536"),
        ("0-999999999", "0-999999999"),
        ("\N{ARABIC-INDIC DIGIT ONE}", "\N{ARABIC-INDIC DIGIT ONE}"),
        ("0-3,^0-3", "0-3,^0-3"),
        ("^1", "^1"),
    ],
)
def test_an_error_names_the_bad_item(text: str, item: str) -> None:
    with pytest.raises(CPUSetError) as refusal:
        CPUSet.parse(text)
    assert refusal.value.item == item
    assert repr(item) in str(refusal.value)


def test_sets_combine() -> None:
    left, right = CPUSet.parse("0-3"), CPUSet.parse("2-5")
    assert str(left | right) == "0-5"
    assert str(left & right) == "2-3"
    assert str(left - right) == "0-1"
    assert left - right <= left
    assert not right <= left
    assert (left - right).isdisjoint(right)
    assert 3 in left
    assert 4 not in left
    assert len(left) == 4
    assert not CPUSet()


@given(cpusets)
def test_a_printed_set_is_canonical_and_reads_as_itself(cpus: CPUSet) -> None:
    text = str(cpus)
    assert CPUSet.parse(text) == cpus
    runs = [[int(number) for number in run.split("-")] for run in text.split(",") if run]
    assert all(run == sorted(set(run)) for run in runs)
    assert all(after[0] > before[-1] + 1 for before, after in pairwise(runs))


@given(cpusets, cpusets)
def test_excluding_is_difference(left: CPUSet, right: CPUSet) -> None:
    excludes = ",".join(f"^{cpu}" for cpu in right)
    text = f"{excludes},{left}"
    try:
        assert CPUSet.parse(text) == left - right
    except CPUSetError:
        assert left <= right


@given(st.text(alphabet="0123456789-^, \t\na", max_size=20) | st.text(max_size=20))
def test_any_text_is_a_set_of_cpus_or_refused(text: str) -> None:
    try:
        cpus = CPUSet.parse(text)
    except CPUSetError:
        return
    assert CPUSet.parse(str(cpus)) == cpus
