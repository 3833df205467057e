"""Quiet heartbeats: may the stored heartbeat times be kept, so that a kubelet's write stores nothing?

A kubelet on an amplified node reads other amounts than it computes, and so patches the node's status every 10
seconds instead of every 5 minutes, each time with fresh heartbeat times. Each such patch would be stored and
sent to every watcher of nodes. Keeping the stored times makes the write one that changes nothing.

A stored time is kept while it is younger than 4 min 30 s, which is below the 5 minutes that kubelet itself
promises; node health lives in the node's Lease and does not suffer. Age is counted on the later of two
clocks, ours and the kubelet's: a clock that lags never makes a time look young, and a stored time that is
ahead of both is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LIMIT: Final = 270
"""Seconds for which a stored time may be kept."""

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?Z", re.ASCII)
_DAYS_TO_1970: Final = 719468
_DAYS_PER_ERA: Final = 146097


def parse_time(text: str) -> int | None:
    """Read an API time (``2025-01-31T12:00:00Z``) as seconds since 1970; None if it is not one."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups())
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        return None
    return ((_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second


def _days(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the Gregorian calendar, counted in years that begin in March."""
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _DAYS_PER_ERA + day_of_era - _DAYS_TO_1970


def keeps_stored_times(
    stored: Mapping[str, str], written: Mapping[str, str], *, now: int, limit: int = LIMIT
) -> bool:
    """Whether the stored lastHeartbeatTimes (condition type -> time) may stand for the written ones.

    The caller has made sure that the write is by the node's own kubelet, that its amounts were just put back
    (StatusVerdict.put_back), and that object and oldObject differ in nothing but these times.
    """
    refreshed = [kind for kind, time in written.items() if time != stored.get(kind)]
    old = [parse_time(stored.get(kind, "")) for kind in refreshed]
    fresh = [parse_time(written[kind]) for kind in refreshed]
    known_old = [time for time in old if time is not None]
    known_fresh = [time for time in fresh if time is not None]
    if not refreshed or len(known_old) < len(old) or len(known_fresh) < len(fresh):
        return False
    age = max(now, *known_fresh) - min(known_old)
    ahead = max(known_old) > max(now, *known_fresh)
    return age < limit and not ahead
