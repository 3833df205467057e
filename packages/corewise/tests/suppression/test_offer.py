"""What online work leaves is offered, whatever offline work uses of it; CPUs of CPUSet pods are not lent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import Share
from corewise.suppression.offer import Computed, OfflineAmounts, Pinned, Usage, compute
from corewise.vocabulary.reasons import Reason

GIB = 1 << 30
NODE = OfflineAmounts(16_000, 64 * GIB)
SIXTY = Share.parse("0.60")


def usage(
    node: int, offline: int = 0, *pinned: tuple[int, int], memory: int = 0, offline_memory: int = 0
) -> Usage:
    return Usage(node, offline, tuple(Pinned(*each) for each in pinned), memory, offline_memory)


@pytest.mark.parametrize(
    ("used", "ratio", "cpu", "online", "extra", "reason"),
    [
        # an idle node offers its ratio, a busy one nothing
        (usage(0), "0.60", 9600, 0, 0, Reason.OFFER_FROM_IDLE),
        (usage(16_000), "0.60", 0, 16_000, 0, Reason.OFFER_NOTHING_IDLE),
        # capacity may be above allocatable, and so may usage
        (usage(17_500), "0.60", 0, 17_500, 0, Reason.OFFER_NOTHING_IDLE),
        # offline usage is not online usage
        (usage(10_000, 4000), "0.60", 6000, 6000, 0, Reason.OFFER_FROM_IDLE),
        # a part of a milli-CPU is never promised
        (usage(1), "0.60", 9599, 1, 0, Reason.OFFER_FROM_IDLE),
        # the counters of node and slice are not read in one instant
        (usage(3000, 3005), "0.60", 9600, 0, 0, Reason.OFFER_FROM_IDLE),
        # an idle CPUSet pod counts with its request, a busy one with its usage
        (usage(1000, 0, (4000, 0)), "0.60", 6600, 1000, 4000, Reason.OFFER_LESS_PINNED),
        (usage(5000, 0, (4000, 4000)), "0.60", 6600, 5000, 0, Reason.OFFER_FROM_IDLE),
        (usage(5000, 0, (4000, 4100)), "0.60", 6600, 5000, 0, Reason.OFFER_FROM_IDLE),
        # what one of them uses too much does not make up for what another leaves
        (usage(6000, 0, (2000, 3000), (4000, 1000)), "0.60", 4200, 6000, 3000, Reason.OFFER_LESS_PINNED),
        (usage(9000, 0, (8000, 1000)), "0.60", 0, 9000, 7000, Reason.OFFER_NOTHING_IDLE),
        # the ends of the ratio
        (usage(6000), "1", 10_000, 6000, 0, Reason.OFFER_FROM_IDLE),
        (usage(6000), "0", 0, 6000, 0, Reason.OFFER_RATIO_ZERO),
    ],
)
def test_offer_is_ratio_of_what_online_work_leaves(
    used: Usage, ratio: str, cpu: int, online: int, extra: int, reason: Reason
) -> None:
    assert compute(used, NODE, Share.parse(ratio)) == Computed(
        cpu,
        SIXTY.of(64 * GIB) if ratio == "0.60" else Share.parse(ratio).of(64 * GIB),
        16_000,
        online,
        extra,
        0,
        reason,
    )


@pytest.mark.parametrize(
    ("node", "offline", "offered", "online"),
    [(10, 0, 54, 10), (40, 30, 54, 10), (100, 0, 0, 100), (10, 12, 60, 0)],
)
def test_memory_is_offered_alike_from_working_sets(
    node: int, offline: int, offered: int, online: int
) -> None:
    used = usage(0, memory=node * GIB, offline_memory=offline * GIB)
    computed = compute(used, OfflineAmounts(1000, 100 * GIB), SIXTY)
    assert computed.memory == offered * GIB
    assert computed.online_memory == online * GIB


milli = st.integers(0, 200_000)
shares = st.integers(0, 10_000).map(Share)
pinned = st.lists(st.builds(Pinned, milli, milli), max_size=3).map(tuple)
usages = st.builds(Usage, milli, milli, pinned, milli, milli)
amounts = st.builds(OfflineAmounts, milli, milli)


@given(usages, amounts, shares)
def test_offer_is_never_negative_nor_above_capacity(
    used: Usage, allocatable: OfflineAmounts, ratio: Share
) -> None:
    computed = compute(used, allocatable, ratio)
    assert 0 <= computed.cpu_milli <= ratio.of(allocatable.cpu_milli)
    assert 0 <= computed.memory <= ratio.of(allocatable.memory)


@given(usages, amounts, shares, milli)
def test_offer_ignores_the_usage_of_offline_pods(
    used: Usage, allocatable: OfflineAmounts, ratio: Share, offline: int
) -> None:
    alone = replace(used, offline_milli=0, offline_memory=0)
    beside = replace(
        used,
        node_milli=used.node_milli + offline,
        offline_milli=offline,
        node_memory=used.node_memory + offline,
        offline_memory=offline,
    )
    assert compute(beside, allocatable, ratio) == compute(alone, allocatable, ratio)


@given(usages, amounts, shares, milli)
def test_more_online_work_never_raises_the_offer(
    used: Usage, allocatable: OfflineAmounts, ratio: Share, more: int
) -> None:
    busier = replace(used, node_milli=used.node_milli + more, node_memory=used.node_memory + more)
    before, after = compute(used, allocatable, ratio), compute(busier, allocatable, ratio)
    assert after.cpu_milli <= before.cpu_milli
    assert after.memory <= before.memory
