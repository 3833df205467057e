"""Whether a pod fits a node on which CPUSet pods own CPUs.

Node of 32 CPUs, all amounts in CPUs, present pods and pod asked for:

    ratio  present                      asked         fits
    2.00   cpuset 32                    cpuset 32     no     64 + 64 > 64
    2.00   cpuset 32                    share 32      no     64 + 32 > 64
    2.00   share 32                     cpuset 32     no     32 + 64 > 64
    2.00   share 32                     share 32      yes    32 + 32 = 64
    2.00   -                            cpuset 32     yes    64 = 64
    2.00   -                            cpuset 33     no
    2.00   cpuset 16                    share 32      yes    32 + 32 = 64
    2.00   cpuset 16                    share 32.001  no
    1.50   share 14, 16 CPUs            cpuset 8      no     14 + 12 > 24
    1.50   share 12, 16 CPUs            cpuset 8      yes    12 + 12 = 24
    1.00   cpuset 16                    share 16      yes    plain arithmetic
    1.00   cpuset 16                    cpuset 17     no
    any    more than everything         nothing       yes    a request of 0 always fits
    2.00   owned 8 but requested 4      share 60      yes    R < A: R counts as it is
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import NodeDemand, amplified_up, fits, misfits, occupied
from corewise.quantities import Quantity, Ratio, amplify

CPU = 1000


def node_takes(
    ratio: str, *, raw: int = 32, requested: int, owned: int = 0, asked: int, asked_owned: int = 0
) -> bool:
    hundredths = Ratio.parse(ratio).hundredths
    room = amplify(raw * CPU, Ratio(hundredths)) - occupied(requested, owned, hundredths)
    return fits(asked, asked_owned, room, hundredths)


@pytest.mark.parametrize(
    ("ratio", "raw", "requested", "owned", "asked", "asked_owned", "fit"),
    [
        ("2.00", 32, 32 * CPU, 32 * CPU, 32 * CPU, 32 * CPU, False),
        ("2.00", 32, 32 * CPU, 32 * CPU, 32 * CPU, 0, False),
        ("2.00", 32, 32 * CPU, 0, 32 * CPU, 32 * CPU, False),
        ("2.00", 32, 32 * CPU, 0, 32 * CPU, 0, True),
        ("2.00", 32, 0, 0, 32 * CPU, 32 * CPU, True),
        ("2.00", 32, 0, 0, 33 * CPU, 33 * CPU, False),
        ("2.00", 32, 16 * CPU, 16 * CPU, 32 * CPU, 0, True),
        ("2.00", 32, 16 * CPU, 16 * CPU, 32001, 0, False),
        ("1.50", 16, 14 * CPU, 0, 8 * CPU, 8 * CPU, False),
        ("1.50", 16, 12 * CPU, 0, 8 * CPU, 8 * CPU, True),
        ("1.00", 32, 16 * CPU, 16 * CPU, 16 * CPU, 0, True),
        ("1.00", 32, 16 * CPU, 16 * CPU, 17 * CPU, 17 * CPU, False),
        ("1.37", 32, 99 * CPU, 0, 0, 0, True),
        ("2.00", 32, 4 * CPU, 8 * CPU, 60 * CPU, 0, True),
    ],
)
def test_pod_fits_if_enough_amplified_cpu_is_left(
    ratio: str, raw: int, requested: int, owned: int, asked: int, asked_owned: int, fit: bool
) -> None:
    taken = node_takes(ratio, raw=raw, requested=requested, owned=owned, asked=asked, asked_owned=asked_owned)
    assert taken is fit


amounts = st.integers(0, 10**7)
cpus = st.integers(0, 512).map(lambda count: count * CPU)
ratios = st.integers(100, 1000)


@given(amounts, cpus, ratios)
def test_occupied_is_the_formula_of_the_design(share: int, owned: int, hundredths: int) -> None:
    requested = share + owned
    exact = requested - owned + ceil(Fraction(owned * hundredths, 100))
    assert occupied(requested, owned, hundredths) == exact
    assert amplified_up(owned, hundredths) == ceil(Fraction(owned * hundredths, 100))


@given(amounts, st.integers(0, 10**6), ratios)
def test_amounts_are_rounded_up_to_whole_hundredths(share: int, owned: int, hundredths: int) -> None:
    assert amplified_up(owned, hundredths) == ceil(Fraction(owned * hundredths, 100))
    assert occupied(owned + share, owned, hundredths) >= Fraction(owned * hundredths, 100) + share


@given(amounts, cpus)
def test_a_ratio_of_one_changes_nothing(share: int, owned: int) -> None:
    assert occupied(share + owned, owned, 100) == share + owned


@given(amounts, cpus, amounts, cpus, ratios)
def test_two_pods_occupy_what_each_occupies(
    share: int, owned: int, other_share: int, other_owned: int, hundredths: int
) -> None:
    one = occupied(share + owned, owned, hundredths)
    other = occupied(other_share + other_owned, other_owned, hundredths)
    both = occupied(share + owned + other_share + other_owned, owned + other_owned, hundredths)
    assert both == one + other


@given(st.lists(st.tuples(amounts, cpus, ratios, amounts), min_size=1, max_size=20), amounts, cpus)
def test_columns_over_nodes_give_what_single_nodes_give(
    nodes: list[tuple[int, int, int, int]], asked: int, asked_owned: int
) -> None:
    requested, owned, hundredths, room = (
        np.array(column, dtype=np.int64) for column in zip(*nodes, strict=True)
    )
    single = [occupied(r, o, h) for r, o, h, _ in nodes]
    assert occupied(requested, owned, hundredths).tolist() == single
    fitting = [fits(asked, asked_owned, free, h) for _, _, h, free in nodes]
    assert fits(asked, asked_owned, room, hundredths).tolist() == fitting


@given(st.integers(1, 256), ratios, st.lists(st.tuples(st.integers(0, 64), st.booleans()), max_size=30))
def test_fitted_pods_never_own_more_cpus_than_exist(
    raw: int, hundredths: int, pods: list[tuple[int, bool]]
) -> None:
    ratio = Ratio(hundredths)
    allocatable = amplify(raw * CPU, ratio)
    requested = owned = 0
    for count, is_cpuset in pods:
        request, own = count * CPU, count * CPU if is_cpuset else 0
        if fits(request, own, allocatable - occupied(requested, owned, hundredths), hundredths):
            requested, owned = requested + request, owned + own
    assert owned <= raw * CPU
    assert occupied(requested, owned, hundredths) <= allocatable
    unsafe = misfits(
        old={"cpu": Ratio(hundredths + 1)},
        new={"cpu": ratio},
        raw_allocatable={"cpu": Quantity.of_milli(raw * CPU)},
        demand=NodeDemand({"cpu": requested}, owned),
    )
    assert unsafe == ()


@given(st.integers(1, 256), ratios, amounts, st.integers(0, 256))
def test_scheduler_and_change_check_agree_on_what_fits(
    raw: int, hundredths: int, share: int, owned_cpus: int
) -> None:
    owned, ratio = owned_cpus * CPU, Ratio(hundredths)
    demand = NodeDemand({"cpu": share + owned}, owned)
    raw_allocatable = {"cpu": Quantity.of_milli(raw * CPU)}
    old = {"cpu": Ratio(hundredths + 1)}
    unsafe = misfits(old=old, new={"cpu": ratio}, raw_allocatable=raw_allocatable, demand=demand)
    fit = fits(share + owned, owned, amplify(raw * CPU, ratio), hundredths)
    assert bool(unsafe) is not fit
