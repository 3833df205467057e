"""The report on a Node's annotation survives writing and reading, and any other text is no report."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.vocabulary.offline_report import (
    LONGEST_CURVE,
    MemoryReport,
    OfferState,
    OfflineReport,
    SuppressionReport,
    decode,
)
from corewise.vocabulary.reasons import Reason

REPORT = OfflineReport(
    time="2026-11-21T19:00:00Z",
    interval_seconds=10,
    state=OfferState.FRESH,
    ratio="0.60",
    normalization_ratio="1.50",
    allocatable_milli=16_000,
    node_milli=9000,
    online_milli=6000,
    offline_milli=3000,
    pinned_milli=500,
    offered_milli=5700,
    raw_offer_milli=5700,
    memory=MemoryReport(allocatable=1 << 36, online=1 << 35, offline=1 << 33, offered=1 << 34),
    samples=10,
    limited_by=Reason.OFFER_LESS_PINNED,
    suppression=SuppressionReport(
        mode="besteffort-quota",
        reason=Reason.SUPPRESSION_AT_TARGET,
        why="quota 570000 us of 100000 us (5.7 CPUs), the amount offered",
        quota_milli=5700,
        target_milli=5700,
        step_milli=1600,
    ),
    online=[6000, 6000],
    offline=[3000, 3000],
)


def test_a_report_is_read_as_it_was_written() -> None:
    assert decode(REPORT.encode()) == REPORT


def test_keys_are_written_api_style_and_defaults_omitted() -> None:
    document = json.loads(REPORT.encode())
    assert document["rawOfferMilli"] == 5700
    assert document["state"] == "fresh"
    assert document["suppression"]["reason"] == "SuppressionAtTarget"
    assert not {"missing", "offlinePods", "nativeBestEffort"} & set(document)


def test_of_long_curves_the_newest_samples_are_written() -> None:
    report = msgspec.structs.replace(REPORT, online=list(range(100)), offline=[1])
    read = decode(report.encode())
    assert read is not None
    assert read.online == list(range(100))[-LONGEST_CURVE:]
    assert read.offline == [1]


def test_keys_and_reasons_of_another_version_are_skipped() -> None:
    document = {**json.loads(REPORT.encode()), "colour": "red"}
    document["suppression"]["reason"] = "ReasonOfALaterVersion"
    read = decode(json.dumps(document))
    assert read is not None
    assert read.suppression is not None
    assert read.suppression.reason == "ReasonOfALaterVersion"


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "{", "[" * 100_000, '{"time": 1}'])
def test_what_is_no_report_is_none(text: str) -> None:
    assert decode(text) is None


@given(st.text(max_size=50))
def test_any_text_can_be_decoded(text: str) -> None:
    assert decode(text) is None
