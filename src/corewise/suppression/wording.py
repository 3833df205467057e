"""How amounts are written in the sentences that say why. No binary float: 14400 milli-CPU are "14.4"."""

from __future__ import annotations

_MILLI = 1000


def cores(milli: int) -> str:
    """Return milli-CPU as CPUs: "16", "14.4", "0.01"."""
    whole, rest = divmod(abs(milli), _MILLI)
    digits = f".{rest:03d}".rstrip("0").rstrip(".")
    return f"{'-' if milli < 0 else ''}{whole}{digits}"


def quota_cores(quota: int, period: int) -> str:
    """Return a quota per period, both in microseconds, as CPUs, rounded down to thousandths."""
    return cores(quota * _MILLI // period)
