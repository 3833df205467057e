"""The Node is told of changes above 10 %, of everything every 90 s, and of nothing that is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import ONE, Ratio
from corewise.suppression.offer import (
    REPEATED_AFTER,
    Computed,
    Offer,
    OfferHistory,
    OfflineAmounts,
    due,
    published_form,
)
from corewise.vocabulary.offline_report import OfferState
from corewise.vocabulary.reasons import Reason


def offer(cpu: int, memory: int = 0, state: OfferState = OfferState.FRESH) -> Offer:
    computed = Computed(cpu, memory, 0, 0, 0, Reason.OFFER_FROM_IDLE)
    return Offer(cpu, memory, state, 1, 0, computed, 0.0)


@pytest.mark.parametrize(
    ("published", "cpu", "memory", "changes"),
    [
        (OfflineAmounts(1000, 1000), 1000, 1000, False),
        (OfflineAmounts(1000, 1000), 1100, 1000, False),
        (OfflineAmounts(1000, 1000), 1101, 1000, True),
        (OfflineAmounts(1000, 1000), 900, 1000, False),
        (OfflineAmounts(1000, 1000), 899, 1000, True),
        (OfflineAmounts(1000, 1000), 1000, 1101, True),
        (OfflineAmounts(1000, 1000), 1000, 899, True),
        (OfflineAmounts(1000, 1000), 0, 0, True),
        (OfflineAmounts(0, 0), 1, 0, True),
        (OfflineAmounts(0, 0), 0, 0, False),
        (None, 0, 0, True),
    ],
)
def test_more_than_ten_percent_is_published_at_once(
    published: OfflineAmounts | None, cpu: int, memory: int, changes: bool
) -> None:
    wanted = due(published, 0.0, offer(cpu, memory), ONE, 1.0)
    assert wanted == (OfflineAmounts(cpu, memory) if changes else None)


@pytest.mark.parametrize(
    ("published_at", "now", "repeats"),
    [(0.0, 89.9, False), (0.0, REPEATED_AFTER, True), (100.0, 99.0, True), (None, 1.0, True)],
)
def test_everything_is_published_once_a_minute_and_after_a_jump_of_the_clock(
    published_at: float | None, now: float, repeats: bool
) -> None:
    wanted = due(OfflineAmounts(1000, 1000), published_at, offer(1000, 1000), ONE, now)
    assert (wanted is not None) is repeats


def test_batch_cpu_is_normalized_cpu_and_rounded_down() -> None:
    assert published_form(offer(1001, 77), Ratio(150)) == OfflineAmounts(1501, 77)


def test_what_is_not_known_yet_is_not_published_and_what_is_withdrawn_is_zero() -> None:
    unknown = OfferHistory().with_miss(0.0)
    assert due(OfflineAmounts(5000, 5000), 0.0, unknown.offer(1.0), ONE, 1.0) is None
    assert due(None, None, unknown.offer(1.0), ONE, 1.0) is None
    assert due(OfflineAmounts(5000, 5000), 899.0, unknown.offer(900.0), ONE, 900.0) == OfflineAmounts(0, 0)


amounts = st.integers(0, 10**12)


@given(amounts, amounts, st.integers(100, 500).map(Ratio))
def test_what_stays_published_is_never_further_off_than_ten_percent(old: int, new: int, ratio: Ratio) -> None:
    wanted = published_form(offer(new), ratio).cpu_milli
    if due(OfflineAmounts(old, 0), 0.0, offer(new), ratio, 1.0) is None:
        assert abs(wanted - old) <= old / 10
    else:
        assert wanted != old
