"""CPU lists are read as people, the kernel and Nova write them, and printed canonically."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.topology import LARGEST_CPU, CPUSet, CPUSetError, NoCPULeftError, cpuset
from corewise.topology.cpuset import LONGEST_CLAIM

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
def test_cpu_list_names_its_cpus_minus_trailing_excludes(text: str, cpus: list[int]) -> None:
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
        ("8192", "8192"),
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


def test_kernel_lists_may_be_long_and_overlap() -> None:
    scattered = ",".join(str(cpu) for cpu in range(0, LARGEST_CPU, 2))
    assert len(scattered) > LONGEST_CLAIM
    assert len(CPUSet.parse(scattered)) == 4096


def test_reading_cost_follows_text_length_not_range_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = 0

    class CountingSet(set[int]):
        def update(self, *others: Iterable[int]) -> None:
            nonlocal steps
            for each in others:
                numbers = list(each)
                steps += len(numbers)
                super().update(numbers)

    monkeypatch.setattr(cpuset, "set", CountingSet, raising=False)
    assert len(CPUSet.parse("0-8191," * 37_000)) == LARGEST_CPU + 1
    assert steps == LARGEST_CPU + 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0-3,3", "'3' names a CPU that the list already has"),
        ("3,0-3", "'0-3' names a CPU that the list already has"),
        ("0-3,^2", "'^2' is an exclude"),
        ("8192", "'8192' goes beyond CPU 8191"),
        ("0-8191," * 36_000, "252000 characters are more than a list of CPUs may have (4096)"),
        ("0" + " " * 4000 + "-x", "is not a CPU or a range of CPUs"),
    ],
)
def test_claim_too_long_or_repeating_cpus_is_refused(text: str, words: str) -> None:
    with pytest.raises(CPUSetError) as refusal:
        CPUSet.parse_claim(text)
    assert words in str(refusal.value)
    assert len(str(refusal.value)) < 200


@given(st.frozensets(st.integers(0, LARGEST_CPU), max_size=800).map(CPUSet))
def test_claim_of_up_to_800_cpus_round_trips(cpus: CPUSet) -> None:
    assert CPUSet.parse_claim(str(cpus)) == cpus


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60), st.integers(0, 9)), max_size=12))
def test_merged_ranges_are_the_union_of_all_ranges(ranges: list[tuple[bool, int, int]]) -> None:
    wanted = {
        cpu for excludes, first, more in ranges if not excludes for cpu in range(first, first + more + 1)
    }
    wanted -= {cpu for excludes, first, more in ranges if excludes for cpu in range(first, first + more + 1)}
    text = ",".join(f"{'^' if excludes else ''}{first}-{first + more}" for excludes, first, more in ranges)
    try:
        assert set(CPUSet.parse(text)) == wanted
    except NoCPULeftError:
        assert not wanted


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
def test_printed_set_is_canonical_and_reads_as_itself(cpus: CPUSet) -> None:
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
def test_any_text_is_a_cpu_set_or_refused(text: str) -> None:
    try:
        cpus = CPUSet.parse(text)
    except CPUSetError:
        return
    assert CPUSet.parse(str(cpus)) == cpus
