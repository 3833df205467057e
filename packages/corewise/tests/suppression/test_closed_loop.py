"""Option 1 as a closed loop, exactly: it settles where it should, and the tempting formula does not.

The plant is the least there is: in each interval offline pods use what their quota and online work leave
them, all of it. The tempting formula takes the node's whole usage, offline pods' own included, for used up:

    target = (allocatable - online - offline) x ratio        rests where offline = target:
    offline = idle x ratio / (1 + ratio)                     37.5 % of idle at 0.60
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import WHOLE, Share
from corewise.suppression.offer import LONGEST, OfferHistory, OfflineAmounts, Usage, compute
from corewise.suppression.quotas import adjust

PERIOD = 100_000
CPUS = 16_000
TENTH, SIXTY = Share.parse("0.1"), Share.parse("0.6")

Look = Callable[[Usage], Usage]


def offline_left_out(usage: Usage) -> Usage:
    return usage


def offline_counted(usage: Usage) -> Usage:
    return replace(usage, offline_milli=0)


def loop(
    online: Iterable[int],
    *,
    look: Look = offline_left_out,
    ratio: Share = SIXTY,
    step: Share = TENTH,
    smoothed: bool = True,
) -> list[int]:
    """Return the quota in milli-CPU after each interval, of which ``online`` has the online usage."""
    history, quota, course = OfferHistory(), None, []
    for now, load in enumerate(online):
        limit = CPUS if quota is None else quota * 1000 // PERIOD
        offline = min(limit, CPUS - load)
        usage = look(Usage(load + offline, offline, (), 0, 0))
        history = history.with_sample(now, compute(usage, OfflineAmounts(CPUS, 0), ratio))
        latest = history.offer(now).latest
        target = latest.cpu_milli if latest and not smoothed else history.offer(now).cpu_milli
        quota = adjust(quota, quota, PERIOD, target_milli=target, allocatable_milli=CPUS, step=step).quota
        course.append(quota * 1000 // PERIOD)
    return course


def test_constant_load_reaches_the_offer_stepwise_and_stays() -> None:
    assert loop([4000] * 12) == [14_400, 12_800, 11_200, 9600, 8000, *[7200] * 7]


def test_quota_follows_a_load_step_in_minimal_steps() -> None:
    before, after = SIXTY.of(CPUS * 8 // 10), SIXTY.of(CPUS * 3 // 10)
    course = loop([CPUS * 2 // 10] * 30 + [CPUS * 7 // 10] * 30)
    assert course[29] == before
    step = TENTH.of(CPUS)
    steps = -(-(before - after) // step)
    reaction = course[30:]
    assert all(abs(quota - after) <= step for quota in reaction[steps - 1 :])
    assert reaction[LONGEST:] == [after] * 20
    assert all(later <= earlier for earlier, later in pairwise(reaction))


loads = st.integers(0, CPUS)
shares = st.integers(0, 10_000).map(Share)
steps = st.integers(500, 10_000).map(Share)


@given(loads, loads, shares, steps)
def test_quota_moves_monotonically_and_settles_after_any_step(
    before: int, after: int, ratio: Share, step: Share
) -> None:
    course = loop([before] * 40 + [after] * 40, ratio=ratio, step=step)
    reaction = course[39:]
    rises = {later > earlier for earlier, later in pairwise(reaction) if later != earlier}
    assert len(rises) <= 1
    rest = max(10, ratio.of(CPUS - after))
    assert course[-1] == rest
    needed = -(-abs(reaction[0] - rest) // max(1, step.of(CPUS)))
    assert set(reaction[1 + max(needed, LONGEST) :]) == {rest}


def test_counting_offline_usage_settles_at_three_eighths_idle() -> None:
    idle = CPUS - 4000
    course = loop([4000] * 200, look=offline_counted)
    assert all(abs(Fraction(quota, idle) - Fraction(3, 8)) < Fraction(1, 100) for quota in course[100:])
    assert loop([4000] * 200)[-1] == SIXTY.of(idle)


@pytest.mark.parametrize(("ratio", "swings"), [("0.60", False), ("1", True)])
def test_without_smoothing_and_steps_that_formula_swings(ratio: str, swings: bool) -> None:
    share = Share.parse(ratio)
    counted = loop([4000] * 100, look=offline_counted, ratio=share, step=WHOLE, smoothed=False)
    first = [later > earlier for earlier, later in pairwise(counted[1:9])]
    assert first in ([True, False] * 3 + [True], [False, True] * 3 + [False])
    assert (counted[-1] != counted[-2]) is swings
    left_out = loop([4000] * 100, ratio=share, step=WHOLE, smoothed=False)
    assert set(left_out[1:]) == {share.of(12_000)}
