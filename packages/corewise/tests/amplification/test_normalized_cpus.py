"""How many CPUs a pod owns whose CPUs are normalized, and what they cost beyond its request.

n CPUs are requested, q is the node's normalization ratio, r its amplification ratio (q times the user's own):

    n    q      r      owns   they take   fold
    8    1.00   1.00   8      8           0
    8    2.00   2.00   4      8           0
    9    2.00   2.00   5      10          1
    1    5.00   5.00   1      5           4
    1    1.01   1.01   1      1.01        0.01
    8    2.50   2.50   4      10          2
    8    1.33   1.33   7      9.31        1.31
    8    2.00   3.00   4      12          4      the user offers half as much again
    8    1.00   1.50   8      12          4      as without normalization
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import NodeDemand, fits, left, misfits, normalized_cpus, occupied
from corewise.amplification.annotations import print_count, read_node
from corewise.quantities import Quantity, Ratio, amplify
from corewise.vocabulary import names

CPU = 1000


@pytest.mark.parametrize(
    ("requested", "normalization", "ratio", "owns", "fold"),
    [
        (8, "1.00", "1.00", 8, 0),
        (8, "2.00", "2.00", 4, 0),
        (9, "2.00", "2.00", 5, 1 * CPU),
        (1, "5.00", "5.00", 1, 4 * CPU),
        (1, "1.01", "1.01", 1, 10),
        (8, "2.50", "2.50", 4, 2 * CPU),
        (8, "1.33", "1.33", 7, 1310),
        (8, "2.00", "3.00", 4, 4 * CPU),
        (8, "1.00", "1.50", 8, 4 * CPU),
    ],
)
def test_a_pod_owns_what_does_its_work(
    requested: int, normalization: str, ratio: str, owns: int, fold: int
) -> None:
    assert normalized_cpus(requested, Ratio.parse(normalization).hundredths) == owns
    assert folded(owns, requested, Ratio.parse(ratio)) == fold


def folded(owned: int, requested: int, ratio: Ratio) -> int:
    """Return the fold of a node's allocatable, by its annotations."""
    notes = {names.OWNED_MILLI_CPU: str(owned * CPU), names.OWNED_REQUESTS: str(requested * CPU)}
    return read_node(notes).folded(("allocatable", "cpu"), ratio)


requests = st.integers(1, 1024)
normalizations = st.integers(100, 500)
originals = st.integers(100, 300)
pods = st.lists(requests, max_size=12)


def amplification(normalization: int, original: int) -> int:
    """Return normalization x original in hundredths, rounded half-even as the manager does."""
    return round(Fraction(normalization * original, 100))


@given(requests, normalizations)
def test_owned_cpus_are_just_enough(requested: int, normalization: int) -> None:
    owns, ratio = normalized_cpus(requested, normalization), Fraction(normalization, 100)
    assert owns >= 1
    assert owns * ratio >= requested
    assert (owns - 1) * ratio < requested
    assert owns <= requested


@given(pods, normalizations, originals)
def test_fold_is_exact_and_never_negative(asked: list[int], normalization: int, original: int) -> None:
    ratio = amplification(normalization, original)
    owned = [normalized_cpus(each, normalization) for each in asked]
    beyond = [Fraction(p * ratio, 100) - n for p, n in zip(owned, asked, strict=True)]
    assert all(each >= 0 for each in beyond)
    assert folded(sum(owned), sum(asked), Ratio(ratio)) == sum(beyond) * CPU


@given(pods, st.integers(0, 10**6), normalizations, originals, st.integers(100, 1000))
def test_a_pod_never_counts_below_its_request(
    asked: list[int], share: int, normalization: int, original: int, later: int
) -> None:
    """Whatever ratio the node has later: its request counts, or what it owns, if that is more."""
    owned, n = sum(normalized_cpus(each, normalization) for each in asked) * CPU, sum(asked) * CPU
    for ratio in (amplification(normalization, original), later):
        taken = occupied(share + n, owned, ratio, n - owned)
        assert taken == share + max(n, ceil(Fraction(owned * ratio, 100)))
        assert left(10**9, share + n, owned, ratio, n - owned) == 10**9 - taken


@given(
    st.lists(st.tuples(requests, normalizations, originals, st.integers(0, 10**6)), min_size=1, max_size=9)
)
def test_columns_give_what_single_nodes_give(nodes: list[tuple[int, int, int, int]]) -> None:
    asked, normalization, original, share = map(list, zip(*nodes, strict=True))
    ratio = [amplification(q, o) for q, o in zip(normalization, original, strict=True)]
    owned = [normalized_cpus(n, q) for n, q in zip(asked, normalization, strict=True)]
    column = normalized_cpus(7, np.array(normalization, dtype=np.int64))
    assert column.tolist() == [normalized_cpus(7, each) for each in normalization]
    columns = [np.array(each, dtype=np.int64) for each in (asked, share, owned, ratio)]
    taken = occupied(
        columns[0] * CPU + columns[1], columns[2] * CPU, columns[3], (columns[0] - columns[2]) * CPU
    )
    single = [
        occupied(n * CPU + s, p * CPU, r, (n - p) * CPU)
        for n, s, p, r in zip(asked, share, owned, ratio, strict=True)
    ]
    assert taken.tolist() == single


@given(
    st.integers(1, 256), normalizations, originals, st.lists(st.tuples(requests, st.booleans()), max_size=20)
)
def test_admitted_pods_fit_the_machine_and_its_status(
    raw: int, normalization: int, original: int, asked: list[tuple[int, bool]]
) -> None:
    """What corewise admits, kube-scheduler's sums admit too: they see allocatable less the fold."""
    ratio = amplification(normalization, original)
    whole = amplify(raw * CPU, Ratio(ratio))
    requested = owned = for_owned = 0
    for n, normalized in asked:
        p = normalized_cpus(n, normalization) if normalized else n
        taken = occupied(requested, owned, ratio, for_owned - owned)
        needed = occupied(n * CPU, p * CPU, ratio, (n - p) * CPU)
        if owned + p * CPU <= raw * CPU and needed <= whole - taken:
            requested, owned, for_owned = requested + n * CPU, owned + p * CPU, for_owned + n * CPU
    fold = folded(owned // CPU, for_owned // CPU, Ratio(ratio))
    assert whole - fold - requested == left(whole, requested, owned, ratio, for_owned - owned)
    assert whole - fold - requested >= 0
    unsafe = misfits(
        old={"cpu": Ratio(ratio + 1)},
        new={"cpu": Ratio(ratio)},
        raw_allocatable={"cpu": Quantity.of_milli(raw * CPU)},
        demand=NodeDemand({"cpu": requested}, owned, for_owned - owned),
    )
    assert unsafe == ()


@given(st.integers(1, 64), normalizations, pods, st.integers(0, 64_000), st.integers(100, 400))
def test_smallest_safe_ratio_is_the_smallest_one(
    raw: int, normalization: int, asked: list[int], share: int, lowered: int
) -> None:
    owned, n = sum(normalized_cpus(each, normalization) for each in asked) * CPU, sum(asked) * CPU
    demand = NodeDemand({"cpu": share + n}, owned, n - owned)
    raw_allocatable = {"cpu": Quantity.of_milli(raw * CPU)}

    def unsafe(hundredths: int) -> tuple[object, ...]:
        old = {"cpu": Ratio(hundredths + 1)}
        return misfits(
            old=old, new={"cpu": Ratio(hundredths)}, raw_allocatable=raw_allocatable, demand=demand
        )

    found = misfits(
        old={"cpu": Ratio(lowered + 1)},
        new={"cpu": Ratio(lowered)},
        raw_allocatable=raw_allocatable,
        demand=demand,
    )
    if not found:
        return
    smallest = found[0].smallest_safe
    if smallest is None:
        assert owned >= raw * CPU
        return
    assert not unsafe(smallest.hundredths)
    assert smallest.hundredths == 100 or unsafe(smallest.hundredths - 1)


@given(st.integers(1, 512), pods, normalizations, originals)
def test_applied_ratio_can_be_read_from_the_record(
    raw: int, asked: list[int], normalization: int, original: int
) -> None:
    ratio = amplification(normalization, original)
    owned = sum(normalized_cpus(each, normalization) for each in asked)
    if owned >= raw:
        return
    whole, fold = amplify(raw * CPU, Ratio(ratio)), folded(owned, sum(asked), Ratio(ratio))
    notes = {
        names.OWNED_MILLI_CPU: str(owned * CPU),
        names.OWNED_REQUESTS: str(sum(asked) * CPU),
        names.recorded_raw("allocatable", "cpu"): print_count("cpu", raw * CPU),
        names.recorded_applied("allocatable", "cpu"): print_count("cpu", whole - fold),
    }
    if whole - fold > raw * CPU:
        assert read_node(notes).recorded_ratio("cpu") == Ratio(ratio)


@pytest.mark.parametrize("text", ["", "-1", "4.5", "many", "1" * 16])
def test_unreadable_requests_count_as_owned(text: str) -> None:
    notes = {names.OWNED_MILLI_CPU: "4000", names.OWNED_REQUESTS: text}
    assert read_node(notes).folded(("allocatable", "cpu"), Ratio(200)) == 4000


def test_plain_owners_fit_as_before() -> None:
    assert fits(8 * CPU, 8 * CPU, 16 * CPU, 200)
    assert not fits(8 * CPU, 8 * CPU, 16 * CPU - 1, 200)
