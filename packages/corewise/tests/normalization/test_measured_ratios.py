"""Ratios from a fleet's scores: how sure a ratio is, which configured one is off, and what is suggested.

| nodes of the two models | interval | by what a configured ratio is judged |
|---|---|---|
| 1 or 2 of one of them | none | not at all |
| 3 to 6 of one of them | none | the range of all nodes |
| 7 or more of both | from order statistics | the interval |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import comb
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.configuration import NormalizationStrategy, RatioField
from corewise.config.facts import CPUFacts
from corewise.config.node_configs import Configuration, NodeConfig
from corewise.normalization.fleet import Fleet
from corewise.normalization.measured_ratios import (
    applied_ratios,
    interval_rank,
    measured_ratios,
    ratios_off,
    suggested_model,
    suggested_ratios,
)
from corewise.quantities import Ratio
from corewise.vocabulary.names import NORMALIZATION_ENABLED
from corewise.vocabulary.selectors import LabelSelector
from normalization.fleets import FAST, NOW, SLOW, named

FIELD = RatioField.HYPER_THREADING_TURBO
SEVEN_SLOW = [98, 99, 100, 100, 100, 101, 102]
SEVEN_FAST = [147, 148, 150, 150, 150, 151, 153]


def fleet(fast: list[int], slow: list[int]) -> Fleet:
    return Fleet.of([*named("fast-", fast, FAST), *named("slow-", slow, SLOW)], NOW)


def configured(fast: int, slow: int = 100) -> dict[str, dict[RatioField, Ratio]]:
    return {FAST: {FIELD: Ratio(fast)}, SLOW: {FIELD: Ratio(slow)}}


def test_ratio_is_the_median_over_the_slowest() -> None:
    slow, fast = measured_ratios(fleet([150, 152, 60], [100, 99, 101]), {})
    assert (slow.model, slow.ratio, slow.interval) == (SLOW, Ratio(100), None)
    assert (fast.model, fast.ratio, fast.nodes) == (FAST, Ratio(150), ("fast-0", "fast-1", "fast-2"))
    assert fast.extremes == (Fraction(60, 100), Fraction(152, 100))


def test_settings_of_one_model_are_apart() -> None:
    nodes = [*named("on", [120], FAST), *named("off", [100], FAST, turbo_enabled=False)]
    found = measured_ratios(Fleet.of(nodes, NOW), {})
    assert [(each.field, each.ratio) for each in found] == [
        (RatioField.HYPER_THREADING, Ratio(100)),
        (FIELD, Ratio(120)),
    ]


@pytest.mark.parametrize(("fast", "slow"), [(6, 7), (7, 6), (1, 1), (2, 2), (3, 3)])
def test_fewer_than_seven_nodes_have_no_interval(fast: int, slow: int) -> None:
    found = measured_ratios(fleet([150] * fast, [100] * slow), {})
    assert [each.interval for each in found] == [None, None]
    assert (found[1].likely is not None) == (fast >= 3 and slow >= 3)


def test_seven_nodes_of_both_have_an_interval() -> None:
    fast = measured_ratios(fleet(SEVEN_FAST, SEVEN_SLOW), {})[1]
    assert fast.interval == (Fraction(147, 102), Fraction(153, 98))


@given(count=st.integers(0, 400))
def test_interval_is_the_narrowest_that_is_sure(count: int) -> None:
    rank = interval_rank(count)

    def missed(rank: int) -> Fraction:
        return Fraction(2 * sum(comb(count, below) for below in range(rank)), 2**count)

    assert 0 <= rank <= count // 2
    assert rank == 0 or missed(rank) <= Fraction(25, 1000)
    assert rank == count // 2 or missed(rank + 1) > Fraction(25, 1000)


@given(scores=st.lists(st.integers(1, 10**6), min_size=7, max_size=40), factor=st.integers(2, 9))
def test_ratio_of_a_model_lies_in_its_interval(scores: list[int], factor: int) -> None:
    found = measured_ratios(fleet([score * factor for score in scores], scores), {})[1]
    assert found.interval is not None
    low, high = found.interval
    assert low <= found.exact <= high
    assert found.exact == factor


@pytest.mark.parametrize(
    ("ratio", "off"),
    [(150, False), (143, False), (142, True), (157, False), (158, True), (100, True)],
)
def test_configured_ratio_beyond_five_percent_is_off(ratio: int, off: bool) -> None:
    found = ratios_off(measured_ratios(fleet([150] * 7, [100] * 7), configured(ratio)))
    assert bool(found) is off
    assert not off or (found[0].configured, found[0].measured) == (Ratio(ratio), Ratio(150))


def test_configured_ratio_within_the_interval_is_not_off() -> None:
    scores = fleet([120, 130, 140, 150, 160, 170, 180], SEVEN_SLOW)
    assert not ratios_off(measured_ratios(scores, configured(170)))


def test_two_nodes_prove_no_ratio_wrong() -> None:
    assert not ratios_off(measured_ratios(fleet([150] * 2, [100] * 9), configured(200)))


def test_ratio_that_was_off_ends_below_four_percent() -> None:
    scores, before = fleet([150] * 7, [100] * 7), [(FAST, FIELD, "")]
    assert not ratios_off(measured_ratios(scores, configured(157)))
    assert ratios_off(measured_ratios(scores, configured(157)), before)
    assert not ratios_off(measured_ratios(scores, configured(155)), before)


def test_slowest_model_keeps_its_configured_ratio_in_comparisons() -> None:
    measured = measured_ratios(fleet([150] * 7, [100] * 7), configured(180, slow=120))
    assert [each.ratio for each in measured] == [Ratio(120), Ratio(180)]
    assert not ratios_off(measured)


@pytest.mark.parametrize(
    ("others_stay", "slow", "expected"),
    [
        (True, 150, [150, 225]),  # an unmeasured model is slower: its scale stays
        (False, 150, [100, 150]),  # all were measured: the slowest is the baseline
        (True, None, [100, 150]),  # the slowest is slower than what the key has
        (True, 100, [100, 150]),
    ],
)
def test_suggestion_has_the_scale_of_the_key(
    others_stay: bool, slow: int | None, expected: list[int]
) -> None:
    key = {FAST: {FIELD: Ratio(100)}} if slow is None else configured(200, slow)
    measured = measured_ratios(fleet([150] * 7, [100] * 7), key)
    found = suggested_ratios(measured, others_stay=others_stay)
    assert [each.ratio.hundredths for each in found] == expected
    assert found[1].interval is None or found[1].interval == (found[1].exact, found[1].exact)
    assert found[1].extremes == (found[1].exact, found[1].exact)


def test_suggestion_keeps_what_was_not_measured() -> None:
    before = {"Other": {RatioField.BASE: Ratio(130)}, FAST: {RatioField.BASE: Ratio(110), FIELD: Ratio(170)}}
    assert suggested_model(measured_ratios(fleet([150], [100]), {}), before) == {
        "Other": {RatioField.BASE: Ratio(130)},
        FAST: {RatioField.BASE: Ratio(110), FIELD: Ratio(150)},
        SLOW: {FIELD: Ratio(100)},
    }


def test_ratio_above_five_is_not_suggested() -> None:
    measured = measured_ratios(fleet([501], [100]), {})
    assert not measured[1].is_allowed
    assert FAST not in suggested_model(measured, {})


ODD = "AMD EPYC 7763 64-Core Processor"


@pytest.mark.parametrize("odd", [[90], [90, 91]])
def test_base_has_three_nodes(odd: list[int]) -> None:
    nodes = [*named("fast", [150] * 7, FAST), *named("slow", [100] * 7, SLOW), *named("odd", odd, ODD)]
    measured = measured_ratios(Fleet.of(nodes, NOW), configured(200) | {ODD: {FIELD: Ratio(100)}})
    assert [each.model for each in measured if each.is_base] == [SLOW]
    assert [each.model for each in ratios_off(measured)] == [FAST]


@dataclass(frozen=True)
class Node:
    """A node of a model, in a pool."""

    facts: CPUFacts
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)


def node_config(*, enable: bool | None = None, pool: dict[RatioField, Ratio] | None = None) -> Any:
    """Return a configuration in which FAST should have 1.50, and does not; ``pool``: that of pool b."""
    strategy = NormalizationStrategy(enable, configured(200))
    own = replace(strategy, enable=True, ratio_model=configured(200) | ({FAST: pool} if pool else {}))
    entry = NodeConfig(0, "b", LabelSelector.of_labels({"pool": "b"}), own, 1, 1)
    return Configuration(strategy, (entry,))


def off_messages(labels: dict[str, str], config: Any) -> list[str]:
    """Return the messages about a fleet whose nodes have these labels."""
    scores = fleet([150] * 7, [100] * 7)
    facts = {each.name: CPUFacts(each.report.cpu_model, True, True) for each in scores.nodes}
    nodes = {name: Node(found, labels) for name, found in facts.items()}
    return [each.message for each in ratios_off(applied_ratios(scores, nodes, config))]


IS_OFF = f'{FIELD} of "{FAST}" is 2.00, and 7 nodes of it measured 1.50'


@pytest.mark.parametrize(
    ("labels", "config", "off"),
    [
        ({}, node_config(enable=True), [IS_OFF]),
        ({}, node_config(), []),
        ({NORMALIZATION_ENABLED: "true"}, node_config(), [IS_OFF]),
        ({NORMALIZATION_ENABLED: "false"}, node_config(enable=True), []),
        ({"pool": "b"}, node_config(), [IS_OFF]),
        ({"pool": "b"}, node_config(pool={FIELD: Ratio(150)}), []),
        (
            {"pool": "b"},
            node_config(pool={FIELD: Ratio(300)}),
            [f'{FIELD} of "{FAST}" in nodeConfigs[0] "b" is 3.00, and 7 nodes of it measured 1.50'],
        ),
    ],
    ids=["cluster", "off", "label", "label off", "entry", "right in entry", "wrong in entry"],
)
def test_ratio_is_judged_where_it_is_used(labels: dict[str, str], config: Any, off: list[str]) -> None:
    assert off_messages(labels, config) == off


@pytest.mark.parametrize("score", [999, 1001])
def test_wrong_entry_leaves_right_ratios_alone(score: int) -> None:
    """Pool b is of the slowest model: which of the two groups is slower, noise decides."""
    cluster = NormalizationStrategy(True, configured(150))
    own = replace(cluster, ratio_model=configured(150, slow=120))
    config: Any = Configuration(
        cluster, (NodeConfig(0, "b", LabelSelector.of_labels({"pool": "b"}), own, 1, 1),)
    )
    pool = named("pool", [score] * 7, SLOW)
    scores = Fleet.of([*named("fast", [1500] * 7, FAST), *named("slow", [1000] * 7, SLOW), *pool], NOW)
    nodes = {
        each.name: Node(
            CPUFacts(each.report.cpu_model, True, True), {"pool": "b"} if each.name.startswith("pool") else {}
        )
        for each in scores.nodes
    }
    off = ratios_off(applied_ratios(scores, nodes, config))
    assert [(each.model, each.entry, each.measured) for each in off] == [
        (SLOW, 'nodeConfigs[0] "b"', Ratio(100))
    ]


def test_score_without_its_node_is_not_judged() -> None:
    assert not applied_ratios(fleet([150] * 7, [100] * 7), {}, node_config(enable=True))


OFF = RatioField.TURBO


def both_sides(off: list[int], slow_off: list[int]) -> Fleet:
    """Return FAST at 150 and SLOW at 100 with hyper-threading, and scores of both without."""
    plain = {"hyper_thread_enabled": False}
    return Fleet.of(
        [
            *named("fast", [150] * 7, FAST),
            *named("slow", [100] * 7, SLOW),
            *named("fast-off", off, FAST, **plain),
            *named("slow-off", slow_off, SLOW, **plain),
        ],
        NOW,
    )


def sides(fast: int, slow: int) -> dict[str, dict[RatioField, Ratio]]:
    """Return a ratioModel: 1.00 and 1.50 with hyper-threading, and these ratios without."""
    return {
        FAST: {FIELD: Ratio(150)} | ({OFF: Ratio(fast)} if fast else {}),
        SLOW: {FIELD: Ratio(100)} | ({OFF: Ratio(slow)} if slow else {}),
    }


def suggested(scores: Fleet, key: dict[str, dict[RatioField, Ratio]]) -> Any:
    return suggested_model(suggested_ratios(measured_ratios(scores, key), others_stay=False), key)


def test_hyper_threading_on_and_off_are_not_compared() -> None:
    scores, key = both_sides([150] * 7, [100] * 7), sides(250, 167)
    assert ratios_off(measured_ratios(scores, key)) == ()
    assert suggested(scores, key) == key


def test_each_side_is_judged_by_its_own_base() -> None:
    scores = both_sides([180] * 7, [100] * 7)
    (off,) = ratios_off(measured_ratios(scores, sides(250, 167)))
    assert (off.model, off.field, off.measured) == (FAST, OFF, Ratio(301))
    assert suggested(scores, sides(250, 167)) == sides(301, 167)


def test_side_without_a_configured_ratio_gets_none() -> None:
    scores, key = both_sides([180] * 7, [100] * 7), sides(0, 0)
    assert suggested(scores, key) == key
    assert [each.is_scaled for each in measured_ratios(scores, key)] == [True, True, False, False]
    assert suggested(scores, sides(0, 167)) == sides(301, 167)


@pytest.mark.parametrize(("off", "chosen"), [(7, FIELD), (8, OFF)])
def test_side_with_more_nodes_starts_the_scale(off: int, chosen: RatioField) -> None:
    found = suggested(both_sides([150] * off, [100] * 7), {})
    assert found == {FAST: {chosen: Ratio(150)}, SLOW: {chosen: Ratio(100)}}
