"""The Node gets changes above 10 %, everything every 90 s, and nothing that is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import ONE, Ratio
from corewise.suppression.offer import (
    NO_AMOUNTS,
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
    computed = Computed(cpu, memory, 0, 0, 0, 0, Reason.OFFER_FROM_IDLE)
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
    wanted = due(published, 0.0, OfflineAmounts(cpu, memory), NO_AMOUNTS, 1.0)
    assert wanted == (OfflineAmounts(cpu, memory) if changes else None)


@pytest.mark.parametrize(
    ("published_at", "now", "repeats"),
    [(0.0, 89.9, False), (0.0, REPEATED_AFTER, True), (100.0, 99.0, True), (None, 1.0, True)],
)
def test_everything_is_published_every_minute_and_after_jumps(
    published_at: float | None, now: float, repeats: bool
) -> None:
    same = OfflineAmounts(1000, 1000)
    wanted = due(same, published_at, same, NO_AMOUNTS, now)
    assert (wanted is not None) is repeats


def test_batch_cpu_is_normalized_cpu_and_rounded_down() -> None:
    assert published_form(offer(1001, 77), Ratio(150)) == OfflineAmounts(1501, 77)


def test_what_is_withdrawn_is_published_as_zero() -> None:
    withdrawn = OfferHistory().with_miss(0.0).offer(900.0)
    assert withdrawn.is_known
    assert published_form(withdrawn, ONE) == OfflineAmounts(0, 0)


@pytest.mark.parametrize(
    ("published", "offered", "held", "wanted"),
    [
        pytest.param(4000, 4000, 4000, None, id="as much is offered as is held"),
        pytest.param(4000, 1000, 4000, None, id="what is held stays when less is offered"),
        pytest.param(4100, 4000, 4001, 4001, id="in a shortfall nothing is left for others, not even 10 %"),
        pytest.param(4000, 1000, 3900, 3900, id="a pod has ended: its share goes at once"),
        pytest.param(4000, 1000, 0, 1000, id="all have ended"),
        pytest.param(4000, 4300, 4200, 4300, id="a pod that somebody bound needs more than is shown"),
    ],
)
def test_requests_above_the_offer_are_published_exactly(
    published: int, offered: int, held: int, wanted: int | None
) -> None:
    for cpu in (True, False):

        def of(amount: int, *, cpu: bool = cpu) -> OfflineAmounts:
            return OfflineAmounts(amount, 0) if cpu else OfflineAmounts(0, amount)

        found = due(of(published), 0.0, of(offered), of(held), 1.0)
        assert found == (None if wanted is None else of(wanted))


amounts = st.integers(0, 10**12)


@given(amounts, amounts, amounts)
def test_published_value_covers_held_cpus_within_ten_percent(old: int, offered: int, held: int) -> None:
    wanted = OfflineAmounts(max(offered, held), 0)
    found = due(OfflineAmounts(old, 0), 0.0, OfflineAmounts(offered, 0), OfflineAmounts(held, 0), 1.0)
    assert found in {None, wanted}
    if found is None:
        assert old >= held
        assert abs(wanted.cpu_milli - old) <= old / 10
