"""When a kubelet's heartbeat need not be stored.

stored times, seconds ago      the write refreshes       kept?
-----------------------------  ------------------------  --------------------------------------
10, 10                         both                      yes
269, 10                        both                      yes: the oldest is younger than 4 min 30 s
270, 10                        both                      no
270, 10                        the second only           yes: only refreshed ones count
10                             none                      no: there is nothing to keep
not a time, or absent          it                        no
ahead of the write's times     it                        no: the write's newest time is the clock
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import keeps_stored_times, parse_time

NOW = 1_800_000_000


def text(ago: int) -> str:
    return (datetime.fromtimestamp(NOW, UTC) - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def keeps(stored: dict[str, int], written: dict[str, int]) -> bool:
    return keeps_stored_times(
        {kind: text(ago) for kind, ago in stored.items()},
        {kind: text(ago) for kind, ago in written.items()},
    )


def test_young_times_are_kept() -> None:
    assert keeps({"Ready": 10, "DiskPressure": 10}, {"Ready": 0, "DiskPressure": 0})
    assert keeps({"Ready": 269, "DiskPressure": 10}, {"Ready": 0, "DiskPressure": 0})


def test_write_is_stored_when_its_oldest_refresh_expires() -> None:
    assert not keeps({"Ready": 270, "DiskPressure": 10}, {"Ready": 0, "DiskPressure": 0})


def test_conditions_not_refreshed_by_the_write_are_ignored() -> None:
    assert keeps({"NetworkUnavailable": 9999, "Ready": 10}, {"NetworkUnavailable": 9999, "Ready": 0})


def test_write_that_refreshes_nothing_keeps_nothing() -> None:
    assert not keeps({"Ready": 10}, {"Ready": 10})


@pytest.mark.parametrize("old", ["", "yesterday", "2027-01-15T08:00:00+01:00"])
def test_a_stored_time_that_is_none_is_replaced(old: str) -> None:
    assert not keeps_stored_times({"Ready": old}, {"Ready": text(0)})
    assert not keeps_stored_times({}, {"Ready": text(0)})


def test_written_time_that_is_invalid_is_not_judged() -> None:
    assert not keeps_stored_times({"Ready": text(10)}, {"Ready": "?"})


def test_newest_time_of_the_write_is_the_clock() -> None:
    assert keeps({"Ready": 1000, "DiskPressure": 900}, {"Ready": 800, "DiskPressure": 731})
    assert not keeps({"Ready": 1000, "DiskPressure": 900}, {"Ready": 800, "DiskPressure": 730})


def test_stored_time_ahead_of_the_write_is_replaced() -> None:
    assert not keeps({"Ready": -60}, {"Ready": 0})


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 31)))  # noqa: DTZ001 - made aware below
def test_times_are_read_as_the_calendar_has_them(moment: datetime) -> None:
    aware = moment.replace(microsecond=0, tzinfo=UTC)
    assert parse_time(f"{aware:%Y-%m-%dT%H:%M:%S}Z".zfill(20)) == int(aware.timestamp())


@pytest.mark.parametrize(
    "text",
    ["1970-01-01T00:00:01.5Z", "2027-13-01T00:00:00Z", "2027-02-29T00:00:00Z", "2027-01-01T00:00:60Z"],
)
def test_time_the_api_server_would_refuse_is_none(text: str) -> None:
    assert parse_time(text) is None


@given(st.text(max_size=30) | st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"))
def test_any_other_text_is_no_time_or_error(anything: str) -> None:
    parse_time(anything)
    keeps_stored_times({"Ready": anything}, {"Ready": text(0)})
