"""The offer is smoothed over samples; what is missing is missing, and after a while nothing is promised."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.suppression.offer import FROZEN_AFTER, LONGEST, WITHDRAWN_AFTER, Computed, OfferHistory
from corewise.vocabulary.offline_report import OfferState
from corewise.vocabulary.reasons import Reason

INTERVAL = 10.0


def computed(cpu: int, memory: int = 0) -> Computed:
    return Computed(cpu, memory, 0, 0, 0, 0, Reason.OFFER_FROM_IDLE)


def sampled(*amounts: int) -> OfferHistory:
    """Return the history of samples that end at 10 s, 20 s, ..."""
    history = OfferHistory()
    for index, amount in enumerate(amounts, start=1):
        history = history.with_sample(index * INTERVAL, computed(amount, amount * 1000))
    return history


@pytest.mark.parametrize(
    ("amounts", "offered"),
    [
        ((4000,), 4000),
        ((3000, 6000), 5000),
        ((1000, 2000, 4000), 3000),
        ((7000, 0), 2333),
        ((0,) * 9 + (1023,), 512),
        ((1023,) + (0,) * 9, 1),
        # the eleventh but last does not count
        ((1023,) + (0,) * 10, 0),
        ((5,) * 40, 5),
    ],
)
def test_each_of_last_ten_samples_doubles_the_weight(amounts: tuple[int, ...], offered: int) -> None:
    offer = sampled(*amounts).offer(len(amounts) * INTERVAL)
    assert offer.cpu_milli == offered
    assert offer.state is OfferState.FRESH
    assert offer.samples == min(len(amounts), LONGEST)
    assert offer.age == 0.0
    assert offer.reason is Reason.OFFER_FROM_IDLE


def test_third_consecutive_missing_sample_freezes_the_offer() -> None:
    history, now = sampled(3000, 6000), 2 * INTERVAL
    states = []
    for _ in range(4):
        now += INTERVAL
        history = history.with_miss(now)
        offer = history.offer(now)
        assert (offer.cpu_milli, offer.memory, offer.samples) == (5000, 5_000_000, 2)
        states.append(offer.state)
    assert states == [OfferState.FRESH, OfferState.FRESH, OfferState.FROZEN, OfferState.FROZEN]
    assert history.offer(now).age == 4 * INTERVAL
    assert history.offer(now).reason is Reason.OFFER_FROZEN
    again = history.with_sample(now + INTERVAL, computed(6000)).offer(now + INTERVAL)
    assert (again.state, again.missing, again.samples) == (OfferState.FRESH, 0, 3)


def test_offer_is_withdrawn_after_fifteen_minutes_without_samples() -> None:
    history = sampled(3000).with_miss(20.0)
    just_before = history.offer(INTERVAL + WITHDRAWN_AFTER - 0.5)
    assert just_before.cpu_milli == 3000
    offer = history.offer(INTERVAL + WITHDRAWN_AFTER)
    assert (offer.cpu_milli, offer.memory, offer.state) == (0, 0, OfferState.WITHDRAWN)
    assert offer.is_known
    assert offer.reason is Reason.OFFER_WITHDRAWN
    later = INTERVAL + WITHDRAWN_AFTER + 1
    afresh = history.with_sample(later, computed(700)).offer(later)
    assert (afresh.cpu_milli, afresh.samples, afresh.state) == (700, 1, OfferState.FRESH)


def test_no_offer_exists_before_the_first_sample() -> None:
    history = OfferHistory()
    assert not history.offer(5.0).is_known
    history = history.with_miss(10.0).with_miss(20.0).with_miss(30.0)
    offer = history.offer(30.0)
    assert (offer.cpu_milli, offer.state, offer.latest) == (0, OfferState.FROZEN, None)
    assert not offer.is_known
    assert offer.reason is Reason.SAMPLE_MISSED
    given_up = history.offer(10.0 + WITHDRAWN_AFTER)
    assert given_up.state is OfferState.WITHDRAWN
    assert given_up.is_known


def test_clock_jumping_back_costs_one_sample_not_age() -> None:
    history = sampled(3000, 6000)
    jumped = history.with_sample(5.0, computed(0))
    assert jumped.missing == 1
    offer = jumped.offer(5.0)
    assert (offer.cpu_milli, offer.age) == (5000, 0.0)
    assert jumped.offer(15.0).age == 10.0
    assert jumped.offer(5.0 + WITHDRAWN_AFTER).state is OfferState.WITHDRAWN
    after = jumped.with_sample(15.0, computed(6000)).offer(15.0)
    assert (after.state, after.missing, after.samples) == (OfferState.FRESH, 0, 3)


def test_offer_requested_in_past_has_no_negative_age() -> None:
    assert sampled(3000).offer(0.0).age == 0.0


milli = st.integers(0, 10**6)
events = st.lists(st.tuples(st.floats(-2000, 2000), st.none() | milli), max_size=30)


@given(events)
def test_offer_always_stays_within_the_range_of_samples(
    steps: list[tuple[float, int | None]],
) -> None:
    history, now = OfferHistory(), 0.0
    for elapsed, amount in steps:
        now += elapsed
        history = history.with_miss(now) if amount is None else history.with_sample(now, computed(amount))
        offer = history.offer(now)
        kept = [each.cpu_milli for each in history.samples]
        assert offer.age >= 0
        assert len(kept) <= LONGEST
        if offer.state is OfferState.WITHDRAWN:
            assert offer.cpu_milli == 0
        elif kept:
            assert min(kept) <= offer.cpu_milli <= max(kept)
            assert (offer.state is OfferState.FROZEN) is (offer.missing >= FROZEN_AFTER)
        else:
            assert not offer.is_known


@given(st.lists(milli, min_size=1, max_size=25))
def test_smoothed_amount_is_the_weighted_mean_rounded_down(amounts: list[int]) -> None:
    last = amounts[-LONGEST:]
    weights = [Fraction(2**index) for index in range(len(last))]
    mean = sum(weight * amount for weight, amount in zip(weights, last, strict=True)) / sum(weights)
    assert sampled(*amounts).offer(len(amounts) * INTERVAL).cpu_milli == mean // 1
