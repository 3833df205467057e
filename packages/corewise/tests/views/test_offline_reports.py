"""What a Node's annotation says, how old that is, and in which one word it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.offline_world import CALM, NOW, REPORT, aged, changed, labeled
from corewise.views.offline_reports import (
    NodeReport,
    age_text,
    node_report,
    offer_problem,
    suppression_state,
)
from corewise.views.offline_table import BARS, PLAIN, limit_of, ramp, sparkline
from corewise.vocabulary.names import OFFLINE_REPORT
from corewise.vocabulary.offline_report import OfferState, OfflineReport, SuppressionReport
from corewise.vocabulary.reasons import Reason

PER_POD = SuppressionReport(mode="per-pod-quota", reason=Reason.UTILIZATION_HIGH, why="", task="suppressing")


def read(report: OfflineReport | None) -> NodeReport:
    meta = labeled(report)
    return node_report("n1", meta["labels"], meta["annotations"], NOW)


def test_a_node_without_label_and_report_says_nothing() -> None:
    node = node_report("n1", {}, {}, NOW)
    assert node == NodeReport("n1", labeled=False)
    assert not node.stale


def test_label_other_than_true_requests_nothing() -> None:
    assert not node_report("n1", {"volcano.sh/oversubscription": "yes"}, {}, NOW).labeled


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', '{"time":"2026-11-21T00:00:00Z"}'])
def test_malformed_report_annotation_is_unreadable_without_a_crash(text: str) -> None:
    assert node_report("n1", {}, {OFFLINE_REPORT: text}, NOW).unreadable


@pytest.mark.parametrize(
    ("seconds", "stale"), [(-3600, False), (0, False), (120, False), (121, True), (10**8, True)]
)
def test_report_is_stale_after_three_missed_intervals(seconds: int, stale: bool) -> None:
    node = read(aged(REPORT, seconds))
    assert node.age == max(0, seconds)
    assert node.stale is stale


def test_a_long_interval_gives_a_report_more_time() -> None:
    assert not read(aged(changed(REPORT, interval_seconds=60), 240)).stale


@pytest.mark.parametrize("time", ["", "yesterday", "2026-11-21T03:00:00"])
def test_invalid_timestamp_makes_the_report_stale(time: str) -> None:
    node = read(changed(REPORT, time=time))
    assert node.age is None
    assert node.stale


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172_800, "2d")],
)
def test_ages_are_told_as_kubectl_tells_them(seconds: int | None, text: str) -> None:
    assert age_text(seconds) == text


@pytest.mark.parametrize(
    ("report", "state"),
    [
        (REPORT, "suppressing"),
        (CALM, ""),
        (changed(CALM, suppression=None), ""),
        (changed(CALM, suppression={"reason": Reason.SUPPRESSION_AT_FLOOR}), "suppressing"),
        (changed(CALM, suppression={"reason": Reason.SUPPRESSION_STEPPED_UP}), "recovering"),
        (changed(CALM, offline_milli=8_000), "suppressing"),
        (changed(CALM, offline_milli=7_900), ""),
        (changed(CALM, suppression={"quota_milli": None, "reason": Reason.SLICE_MISSING}), ""),
        (changed(CALM, suppression=PER_POD), "suppressing"),
    ],
)
def test_falling_or_exhausted_quota_makes_offline_pods_suppressed(report: OfflineReport, state: str) -> None:
    assert suppression_state(report) == state


def test_offer_that_is_not_fresh_is_a_problem() -> None:
    assert offer_problem(CALM) == ""
    assert offer_problem(changed(CALM, state=OfferState.FROZEN)) == Reason.OFFER_FROZEN
    assert offer_problem(changed(CALM, state=OfferState.WITHDRAWN)) == Reason.OFFER_WITHDRAWN


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (CALM, "0.60 of idle"),
        (REPORT, "going down to 2.5: 0.60 of idle, less CPUs owned"),
        (changed(CALM, suppression=None), "nothing: not suppressed (offer: 0.60 of idle)"),
        (changed(CALM, state=OfferState.FROZEN), "no samples: frozen"),
        (changed(CALM, limited_by=""), "0.60 of idle"),
        (changed(CALM, limited_by="FromTheFuture"), "FromTheFuture"),
        (changed(CALM, suppression={"reason": "FromTheFuture"}), "FromTheFuture"),
        (changed(CALM, suppression=PER_POD), "utilization high: squeezing pods"),
    ],
)
def test_what_limits_is_told_in_a_few_words(report: OfflineReport, words: str) -> None:
    assert limit_of(report) == words


@pytest.mark.parametrize("reason", [each for each in Reason if str(each).startswith("Suppression")])
def test_every_quota_reason_has_words_for_the_table(reason: Reason) -> None:
    report = changed(CALM, suppression={"reason": reason})
    if reason is not Reason.SUPPRESSION_OFF:
        assert limit_of(report) != reason


@given(st.lists(st.integers(-10, 2_000)), st.integers(-5, 1_500), st.integers(0, 40))
def test_sparkline_draws_one_bar_for_each_recent_sample(values: list[int], full: int, width: int) -> None:
    line = sparkline(values, full, width)
    assert len(line) == (min(len(values), width) if full > 0 else 0)
    assert set(line) <= set(BARS)


def test_a_sparkline_grows_with_its_values() -> None:
    assert sparkline(range(8), 8, 8) == BARS
    assert sparkline([0, 100, 99, 1000, -1], 100, 5) == "▁██" + "█▁"
    assert sparkline([0, 50], 100, 5, PLAIN) == "_+"


@pytest.mark.parametrize(
    ("encoding", "bars"), [("utf-8", BARS), ("ascii", PLAIN), (None, PLAIN), ("no-such", PLAIN)]
)
def test_terminals_without_bars_get_plain_characters(encoding: str | None, bars: str) -> None:
    assert ramp(encoding) == bars
