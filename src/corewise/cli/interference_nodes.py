"""What a file says was measured of nodes, in base units: ``{"n1": {"memorybandwidth_used": 2e10, ...}}``.

Beside the columns of :class:`corewise.interference.Pressure` a node may state ``labels``, by which capacity
rules select it, and ``placed``: pods that were placed so recently that the values don't show them yet, each
with its profile and its age in seconds. null is a value that nobody has; NaN and infinities, which JSON has
no form for, are read as JavaScript and Prometheus write them, and are missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from corewise.config.decoding import Decoder, Parsed, Place, did_you_mean
from corewise.config.interference import InterferenceConfiguration
from corewise.config.interference.strict import number, strict_fields
from corewise.config.json_numbers import shown
from corewise.config.json_text import read_json
from corewise.interference import COLUMNS
from corewise.interference.pressure import LARGEST, LEAST, ZERO_IS_MISSING

_CONSTANTS = {"NaN": '"N"', "Infinity": '"Inf"   ', "-Infinity": '"-Inf"   '}
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\\n]|\\.)*"|-?\bInfinity\b|\bNaN\b')
_ODD = {"N": math.nan, "NaN": math.nan, "Inf": math.inf, "+Inf": math.inf, "-Inf": -math.inf}
_OLDEST = 10**6
_UNITS = {
    "memorybandwidth_used": "bytes/s",
    "memorybandwidth_capacity": "bytes/s",
    "memorylatency": "seconds",
    "memorylatency_idle": "seconds",
    "memorylatency_slope": "seconds",
    "llc_occupancy": "bytes",
    "llc_capacity": "bytes",
    "llc_mpki": "misses per 1000 instructions",
    "cpu": "a ratio, 0..1",
    "cpu_cores": "CPUs",
    "memory_available": "bytes",
}


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod placed recently: the name of its profile, and how many seconds ago."""

    profile: str
    age: float


@dataclass(frozen=True, slots=True)
class MeasuredNode:
    """What is said of one node; ``values`` has only what is stated, as stated."""

    name: str
    values: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    placed: tuple[Placed, ...] = ()

    def missing(self) -> dict[str, str]:
        """Return which columns the decision goes without, and why."""
        found = ((column, why_missing(column, self.values.get(column))) for column in COLUMNS)
        return {column: why for column, why in found if why}


def why_missing(column: str, value: float | None) -> str:
    """Say why a value counts as missing; nothing if it does not."""
    if value is None:
        return "not given"
    reasons = (
        (math.isnan(value), "not a number"),
        (math.isinf(value), "infinite"),
        (value < 0, f"{value:g} is negative"),
        (value > LARGEST, f"{value:g} is more than any machine has"),
        (value < LEAST and column in ZERO_IS_MISSING, f"{value:g}, which exporters print for what they lack"),
    )
    return next((reason for holds, reason in reasons if holds), "")


def parse_nodes(text: str, config: InterferenceConfiguration) -> Parsed[list[MeasuredNode]]:
    """Read the file; profiles of ``placed`` pods are those of the configuration."""
    decoder = Decoder(read_json(_STRING_OR_CONSTANT.sub(_quoted, text)))
    entries = decoder.entries(decoder.root)
    return decoder.finish([_node(decoder, str(key.path[-1]), place, config) for key, place in entries])


def _quoted(match: re.Match[str]) -> str:
    """Return text of the same length, so that positions stay true."""
    return _CONSTANTS.get(match[0], match[0])


def _node(decoder: Decoder, name: str, place: Place, config: InterferenceConfiguration) -> MeasuredNode:
    if place.value is None:
        decoder.tell(place, "must be an object of values, not null")
    fields = strict_fields(decoder, place, (*COLUMNS, "labels", "placed"))
    stated = ((column, _value(decoder, fields[column], column)) for column in COLUMNS)
    placed = decoder.items(fields["placed"])
    return MeasuredNode(
        name,
        {column: value for column, value in stated if value is not None},
        dict(_labels(decoder, fields["labels"])),
        tuple(_placed(decoder, each, config) for each in placed),
    )


def _value(decoder: Decoder, place: Place, column: str) -> float | None:
    if place.is_empty:
        return None
    if isinstance(place.value, Decimal):
        return float(place.value)
    if isinstance(place.value, str) and place.value in _ODD:
        return _ODD[place.value]
    decoder.tell(place, f"must be a number ({_UNITS[column]}) or null, not {shown(place.value)}")
    return None


def _labels(decoder: Decoder, place: Place) -> Iterable[tuple[str, str]]:
    for key, value in decoder.entries(place):
        text = decoder.text(value)
        if text is not None:
            yield str(key.path[-1]), text


def _placed(decoder: Decoder, place: Place, config: InterferenceConfiguration) -> Placed:
    fields = strict_fields(decoder, place, ("profile", "age"))
    profile = decoder.text(fields["profile"])
    if profile is None:
        decoder.tell(fields["profile"], "the name of a profile is missing")
    elif profile not in config.profiles:
        near = did_you_mean(profile, config.profiles)
        decoder.tell(fields["profile"], f"{shown(profile)} is no profile of the configuration{near}")
    age = number(decoder, fields["age"], 0, _OLDEST)
    return Placed(profile or "", float(age or 0))
