"""Which scores of a fleet count, and why others are left out."""

from __future__ import annotations

import pytest

from corewise.config.facts import CPUFacts
from corewise.normalization.fleet import Fleet, LeftOut, ScoredNode, scored_node
from normalization.fleets import FAST, SLOW, named, report


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
    found = Fleet.of(nodes)
    assert [each.name for each in found.nodes] == ["n0", "n1", "n2"]
    assert found.left_out == {LeftOut.OTHER_TOOLCHAIN: ("other0",)}


def test_newer_toolchain_wins_when_both_are_frequent() -> None:
    nodes = [*named("old", [100], FAST), *named("new", [100], FAST, mix=2)]
    assert [each.name for each in Fleet.of(nodes).nodes] == ["new0"]
