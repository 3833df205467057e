"""The ratio that is applied: what is annotated, or the last good one."""

from __future__ import annotations

import pytest

from corewise.agent.local_node import NOT_NORMALIZED, RatioInUse, read_ratio
from corewise.quantities import Ratio
from corewise.vocabulary.names import NORMALIZATION_RATIO


def reading(text: str | None, before: RatioInUse = NOT_NORMALIZED) -> RatioInUse:
    return read_ratio({} if text is None else {NORMALIZATION_RATIO: text}, before)


@pytest.mark.parametrize(("text", "ratio"), [("1.20", 120), ("1", 100), ("5.00", 500), (None, 100)])
def test_a_good_annotation_is_in_force(text: str | None, ratio: int) -> None:
    assert reading(text, RatioInUse(Ratio(300))) == RatioInUse(Ratio(ratio))


@pytest.mark.parametrize("text", ["", "x", "0.99", "5.01", "1.205", "NaN", "-1", "1,2"])
def test_a_bad_one_leaves_the_last_good_one(text: str) -> None:
    after = reading(text, RatioInUse(Ratio(150)))
    assert after.ratio == Ratio(150)
    assert NORMALIZATION_RATIO in after.problem
    assert "1.50 stays" in after.problem
    assert reading(text).ratio == Ratio(100)
