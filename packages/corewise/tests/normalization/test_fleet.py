"""Which scores of a fleet count, and why others are left out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from corewise.config.facts import CPUFacts
from corewise.normalization.fleet import Fleet, LeftOut, ScoredNode, scored_node
from normalization.fleets import FAST, NOW, SLOW, named, report


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, LeftOut.NO_REPORT),
        ("{", LeftOut.UNREADABLE),
        (report(10**400).encode(), LeftOut.UNREADABLE),
        (report(100, spread=-1).encode(), LeftOut.UNREADABLE),
        (report(0, reason="SomethingWrong").encode(), LeftOut.NOT_MEASURED),
        (report(100, runs=4).encode(), LeftOut.FEW_RUNS),
        (report(100, "unknown").encode(), LeftOut.UNKNOWN_MODEL),
        (report(100, turbo_enabled=False).encode(), LeftOut.OTHER_SETTINGS),
        (report(100, SLOW).encode(), LeftOut.OTHER_SETTINGS),
    ],
)
def test_score_that_does_not_count_says_why(text: str | None, why: LeftOut) -> None:
    assert scored_node("n", text, CPUFacts(FAST, True, True)) is why


def test_score_counts_if_settings_are_still_those() -> None:
    assert isinstance(scored_node("n", report(100).encode(), CPUFacts(FAST, True, True)), ScoredNode)
    assert isinstance(scored_node("n", report(100).encode(), None), ScoredNode)


@pytest.mark.parametrize("other", [{"mix": 2}, {"python": "3.13.0"}, {"zlib": "1.2.13"}])
def test_only_scores_of_one_toolchain_are_compared(other: dict[str, object]) -> None:
    nodes = [*named("n", [100, 100, 100], FAST), *named("other", [500], FAST, **other)]
    found = Fleet.of(nodes, NOW)
    assert [each.name for each in found.nodes] == ["n0", "n1", "n2"]
    assert found.left_out == {LeftOut.OTHER_TOOLCHAIN: ("other0",)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"mix": 1}, {"mix": 2}),
        ({"mix": 9, "python": "3.13.0"}, {"mix": 10}),
        ({"python": "3.9.18"}, {"python": "3.11.9"}),
        ({"python": "3.11.9"}, {"python": "3.11.10"}),
        ({"python": "3.11.9"}, {"python": "3.11.9+"}),
        ({"zlib": "1.2.13"}, {"zlib": "1.3"}),
        ({"zlib": "1.3"}, {"zlib": "1.3.1.zlib-ng"}),
        ({"python": "unknown"}, {"python": "3.9.18"}),
    ],
)
def test_newer_toolchain_wins_when_both_are_frequent(old: dict[str, Any], new: dict[str, Any]) -> None:
    nodes = [*named("old", [100], FAST, **old), *named("new", [100], FAST, **new)]
    assert [each.name for each in Fleet.of(nodes, NOW).nodes] == ["new0"]


@pytest.mark.parametrize(
    ("age", "counts"),
    [
        (timedelta(0), True),
        (timedelta(days=6, hours=23), True),
        (timedelta(days=7), False),
        (timedelta(days=27), False),
        (-timedelta(minutes=59), True),
        (-timedelta(hours=1), False),
    ],
)
def test_scores_of_the_last_week_count(age: timedelta, counts: bool) -> None:
    found = Fleet.of(named("n", [100], FAST), NOW + age)
    assert len(found.nodes) == counts
    assert found.left_out == ({} if counts else {LeftOut.OLD: ("n0",)})


def test_score_without_a_time_is_old() -> None:
    found = Fleet.of(named("n", [100], FAST, time="", measured=""), NOW)
    assert found.left_out == {LeftOut.OLD: ("n0",)}
