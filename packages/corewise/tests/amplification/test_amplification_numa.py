"""On which NUMA nodes a pod may go, as kubelet's topology manager decides it.

Two zones of 16 CPUs; free in each; a pod needs:

    free        needs   BestEffort   Restricted            SingleNUMANode
    16, 16      8       zone 0       zone 0                zone 0
    4, 16       8       zone 1       zone 1                zone 1
    4, 4        8       both         no: one would do      no
    16, 16      20      both         both: one never does  no
    16, 2       20      no affinity  no                    no
    16, 16      40      no affinity  no                    no

With memory, both resources must agree on the set: cpu free in zone 0 only and memory in zone 1 only admits
neither Restricted nor SingleNUMANode. One zone of 16 CPUs at ratio 1.50, of which share pods take 14, has no
room for a CPUSet pod of 8, whose own request counts 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import amplified_up, occupied
from corewise.amplification.numa import (
    IntColumn,
    ZoneAmounts,
    admitted,
    affinity,
    distributed,
    members,
)
from corewise.vocabulary.cpu_annotations import NumaPolicy

BEST, RESTRICTED, SINGLE = NumaPolicy.BEST_EFFORT, NumaPolicy.RESTRICTED, NumaPolicy.SINGLE_NUMA_NODE
Plain = tuple[Sequence[int], Sequence[int], int]
"""Allocatable and free of each zone, and the need: one resource of one node."""


def zones(resource: Plain) -> ZoneAmounts:
    allocatable, free, needed = resource
    return ZoneAmounts(column(allocatable), column(free), np.array([needed], dtype=np.int64))


def column(amounts: Sequence[int]) -> IntColumn:
    return np.array([amounts], dtype=np.int64).T


def place(policy: NumaPolicy, *resources: Plain) -> tuple[bool, list[int]]:
    amounts = [zones(each) for each in resources]
    return bool(admitted(policy, amounts, 1)[0]), members(int(affinity(policy, amounts)[0]))


@pytest.mark.parametrize(
    ("free", "needed", "best", "restricted", "single"),
    [
        ((16, 16), 8, [0], [0], [0]),
        ((4, 16), 8, [1], [1], [1]),
        ((4, 4), 8, [0, 1], [], []),
        ((16, 16), 20, [0, 1], [0, 1], []),
        ((16, 2), 20, [], [], []),
        ((16, 16), 40, [], [], []),
        ((-3, 8), 8, [1], [1], [1]),
    ],
)
def test_two_zones_of_sixteen_cpus(
    free: tuple[int, int], needed: int, best: list[int], restricted: list[int], single: list[int]
) -> None:
    cpu = ((16, 16), free, needed)
    assert place(BEST, cpu) == (True, best)
    assert place(RESTRICTED, cpu) == (bool(restricted), restricted)
    assert place(SINGLE, cpu) == (bool(single), single)
    assert place(NumaPolicy.NONE, cpu) == (True, [])


def test_cpu_and_memory_must_lie_together() -> None:
    cpu, memory = ((16, 16), (8, 0), 8), ((64, 64), (0, 32), 32)
    assert place(SINGLE, cpu, memory) == (False, [])
    assert place(RESTRICTED, cpu, memory) == (False, [])
    assert place(BEST, cpu, memory) == (True, [0, 1])


def test_single_numa_node_alone_knows_many_zones() -> None:
    cpu, small = ((16,) * 34, (0,) * 33 + (16,), 8), ((16,) * 8 + (0,), (0,) * 7 + (16, 0), 8)
    assert place(SINGLE, cpu) == (True, [33])
    assert place(RESTRICTED, cpu) == (False, [])
    assert place(BEST, cpu) == (True, [])
    assert place(RESTRICTED, small) == place(BEST, small) == (True, [7])


def test_a_pod_that_requests_nothing_is_admitted_everywhere() -> None:
    assert admitted(SINGLE, [], 3).tolist() == [True, True, True]


def test_cpuset_pods_own_request_counts_amplified_in_zone() -> None:
    hundredths, allocatable, share = 150, 24_000, 14_000
    free = allocatable - occupied(share, 0, hundredths)
    needed = amplified_up(8_000, hundredths)
    for policy in (SINGLE, RESTRICTED):
        assert place(policy, ([allocatable], [free], needed)) == (False, [])
        assert place(policy, ([allocatable], [free], 8_000)) == (True, [0])


def hints(resource: Plain) -> list[tuple[frozenset[int], bool]]:
    """Return the offers of kubelet's managers: every set with room, preferred if of the smallest size."""
    allocatable, free, needed = resource
    sets = [frozenset(members(mask)) for mask in range(1, 1 << len(free))]
    possible = [len(each) for each in sets if sum(allocatable[zone] for zone in each) >= needed]
    smallest = min(possible, default=-1)
    return [
        (each, len(each) == smallest) for each in sets if sum(max(0, free[zone]) for zone in each) >= needed
    ]


def kubelet_admits(policy: NumaPolicy, resources: Sequence[Plain]) -> bool:
    """The topology manager's merge: all combinations of hints, preferred only if equal and all preferred."""
    offered = [hints(each) for each in resources]
    if policy is SINGLE:
        offered = [[hint for hint in each if len(hint[0]) == 1 and hint[1]] for each in offered]
    merged = [
        frozenset.intersection(*(zones for zones, _ in combination))
        for combination in product(*offered)
        if all(preferred and zones == combination[0][0] for zones, preferred in combination)
    ]
    return policy is BEST or any(merged)


sizes = st.integers(0, 12)
one_zone = st.tuples(sizes, sizes).map(lambda pair: (max(pair), min(pair)))


@st.composite
def nodes(draw: st.DrawFn) -> list[Plain]:
    count = draw(st.integers(1, 4))
    resources: list[Plain] = []
    for _ in range(draw(st.integers(1, 2))):
        both = [draw(one_zone) for _ in range(count)]
        allocatable, free = zip(*both, strict=True)
        resources.append((allocatable, free, draw(st.integers(1, 20))))
    return resources


@given(nodes(), st.sampled_from([BEST, RESTRICTED, SINGLE]))
def test_what_is_admitted_is_what_kubelet_admits(resources: list[Plain], policy: NumaPolicy) -> None:
    is_admitted, chosen = place(policy, *resources)
    assert is_admitted is kubelet_admits(policy, resources)
    for _, free, needed in resources if chosen else ():
        assert sum(max(0, free[zone]) for zone in chosen) >= needed


@given(st.lists(nodes(), min_size=1, max_size=6), st.sampled_from([RESTRICTED, SINGLE]))
def test_many_nodes_are_decided_like_each_one_alone(batch: list[list[Plain]], policy: NumaPolicy) -> None:
    alone = [place(policy, each[0])[1] for each in batch]
    most = max(len(each[0][0]) for each in batch)
    columns = [zones(each[0]) for each in batch]
    padded = ZoneAmounts(
        np.concatenate([with_zones(each.allocatable, most) for each in columns], axis=1),
        np.concatenate([with_zones(each.free, most) for each in columns], axis=1),
        np.concatenate([each.needed for each in columns]),
    )
    assert [members(int(mask)) for mask in affinity(policy, [padded])] == alone


def with_zones(rows: IntColumn, count: int) -> IntColumn:
    return np.pad(rows, ((0, count - len(rows)), (0, 0)))


def test_amount_is_spread_over_zones_in_their_order() -> None:
    assert distributed(10, [(1, 6), (0, 8)]) == {1: 6, 0: 4}
    assert distributed(5, [(1, 6), (0, 8)]) == {1: 5}
    assert distributed(0, [(1, 6)]) == {}
    assert distributed(15, [(1, 6), (0, 8)]) is None
    assert distributed(8, [(1, -6), (0, 8)]) == {0: 8}
