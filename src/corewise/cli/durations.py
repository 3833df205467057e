"""Durations on the command line: "60s", "5m", "1h", "7d"; a bare number is seconds."""

from __future__ import annotations

import re

import click

_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]+)?)(s|m|h|d|)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Read a duration, as the callback of an option."""
    if value is None:
        return None
    match = _DURATION.fullmatch(value.strip())
    if match is None or float(match[1]) == 0:
        raise click.BadParameter(f"{value!r} is not a duration: write 60s, 5m, 1h or 7d", context, parameter)
    return float(match[1]) * _UNITS[match[2]]
