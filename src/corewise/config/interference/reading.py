"""The section ``interference`` of the scheduler's file: the text in, the configuration and all problems out.

    interference:
      overprovisioning: 2
      points: [10, 5, 1]
      ...

Every error is told at once, with line, column, field, and what is allowed. A key that is unknown is an error;
a metric missing among affinities counts as 0, with a warning.
"""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise

from corewise.config.decoding import Decoder, Parsed, Place
from corewise.config.interference.amounts import BANDWIDTH, amount, duration, whole_amount
from corewise.config.interference.model import (
    CapacityRule,
    CounterweightSettings,
    Decay,
    InterferenceConfiguration,
    LatencyModel,
)
from corewise.config.interference.reading_metrics import read_metrics
from corewise.config.interference.reading_profiles import read_profiles
from corewise.config.interference.strict import number, strict_fields, warn, word
from corewise.config.json_numbers import shown
from corewise.config.json_tree import Items
from corewise.config.node_configs import read_label_selector
from corewise.config.yaml_text import read_yaml
from corewise.vocabulary.selectors import label_key_fault

INTERFERENCE = "interference"
BESIDE = ("scoring", "rememberedDecisions")
"""The other keys of the scheduler's file, which others read."""

_KEYS = (
    *("overprovisioning", "points", "window", "counterweight", "missing", "typeLabel", "metrics"),
    *("capacity", "profiles", "relative", "latencyModel"),
)
_DEFAULTS = InterferenceConfiguration()
_WINDOW = duration(10, 24 * 3600, "10s..24h")
_EXPIRY = duration(0, 24 * 3600, "0s..24h")
_LINEAR = "linear"
_LARGEST_FACTOR = 100
_MOST_POINTS = 10_000
_LONGEST_LIST = 1000


class _OnMissing(StrEnum):
    PASS = "pass"  # noqa: S105 - it lets a node pass
    FAIL = "fail"


class _MissingScore(StrEnum):
    ZERO = "zero"


def parse_interference(
    text: str, beside: Collection[str] = BESIDE
) -> Parsed[InterferenceConfiguration | None]:
    """Read the section of a YAML or JSON file. ``beside``: the other keys the file may have.

    The value is None without errors if the file has no such section: nothing is configured.
    """
    decoder = Decoder(read_yaml(text))
    root = strict_fields(decoder, decoder.root, (INTERFERENCE, *beside))
    if INTERFERENCE not in root.found:
        return decoder.finish(None)
    return decoder.finish(_section(decoder, root[INTERFERENCE]))


def _section(decoder: Decoder, place: Place) -> InterferenceConfiguration:
    fields = strict_fields(decoder, place, _KEYS)
    profiles = read_profiles(decoder, fields["profiles"])
    window = _seconds(amount(decoder, fields["window"], _WINDOW), _DEFAULTS.window)
    missing = strict_fields(decoder, fields["missing"], ("filter", "score"))
    word(decoder, missing["score"], _MissingScore, _MissingScore.ZERO)
    relative = decoder.flag(fields["relative"])
    config = InterferenceConfiguration(
        overprovisioning=_overprovisioning(decoder, fields["overprovisioning"]),
        points=_points(decoder, fields["points"]),
        window=window,
        counterweight=_counterweight(decoder, fields["counterweight"], window),
        missing_passes=word(decoder, missing["filter"], _OnMissing, _OnMissing.PASS) is _OnMissing.PASS,
        type_label=_type_label(decoder, fields["typeLabel"]),
        metrics=read_metrics(decoder, fields["metrics"]),
        capacity=_capacity(decoder, fields["capacity"]),
        default=profiles.default,
        profiles=profiles.named,
        relative=bool(relative),
        latency_model=word(decoder, fields["latencyModel"], LatencyModel, _DEFAULTS.latency_model),
    )
    _say_unplaceable(decoder, fields["profiles"], config)
    return config


def _seconds(value: Fraction | None, default: float) -> float:
    return default if value is None else float(value)


def _overprovisioning(decoder: Decoder, place: Place) -> Fraction:
    factor = number(decoder, place, 0, _LARGEST_FACTOR)
    if factor is not None and factor == 0:
        decoder.tell(place, "0 makes every profile need nothing: write a factor above 0, such as 2")
    return _DEFAULTS.overprovisioning if factor is None else Fraction(factor)


def _points(decoder: Decoder, place: Place) -> tuple[float, ...] | None:
    if place.is_empty:
        return _DEFAULTS.points
    if isinstance(place.value, str):
        if place.value != _LINEAR:
            decoder.tell(
                place, f'{shown(place.value)} means nothing here: write "linear" or a list [10, 5, 1]'
            )
        return None
    items = decoder.items(place)
    if not isinstance(place.value, Items):
        return _DEFAULTS.points
    found = [number(decoder, item, 0, _MOST_POINTS) for item in items]
    values = [value for value in found if value is not None]
    if len(values) == len(items):
        _check_points(decoder, place, items, values)
    return tuple(float(value) for value in values)


def _check_points(decoder: Decoder, place: Place, items: list[Place], values: list[Decimal]) -> None:
    if not values:
        decoder.tell(place, "no points: write those of the first positions, such as [10, 5, 1]")
    if len(values) > _LONGEST_LIST:
        decoder.tell(place, f"{len(values)} points are more than {_LONGEST_LIST}: write linear")
    for item, (better, worse) in zip(items[1:], pairwise(values), strict=False):
        if worse > better:
            decoder.tell(item, f"{worse} is more than {better} before it: points must not increase")
    if values and not any(values):
        warn(decoder, place, "all points are 0, so every node scores 0")


def _counterweight(decoder: Decoder, place: Place, window: float) -> CounterweightSettings:
    fields = strict_fields(decoder, place, ("expiry", "decay"))
    default = _DEFAULTS.counterweight
    expiry = _seconds(amount(decoder, fields["expiry"], _EXPIRY), default.expiry)
    if expiry < window:
        at = fields["expiry"] if fields["expiry"].value is not None else place
        warn(
            decoder,
            at,
            f"expires after {expiry:g} s, before the window of {window:g} s shows the pod in full",
        )
    return CounterweightSettings(expiry, word(decoder, fields["decay"], Decay, default.decay))


def _type_label(decoder: Decoder, place: Place) -> str:
    key = decoder.text(place)
    fault = None if key is None else label_key_fault(key)
    if fault:
        decoder.tell(place, f"not a label key: {fault}")
    return _DEFAULTS.type_label if key is None else key


def _capacity(decoder: Decoder, place: Place) -> tuple[CapacityRule, ...]:
    fields = strict_fields(decoder, place, ("memoryBandwidth",))
    return tuple(_rule(decoder, item) for item in decoder.items(fields["memoryBandwidth"]))


def _rule(decoder: Decoder, place: Place) -> CapacityRule:
    fields = strict_fields(decoder, place, ("selector", "value"))
    value = whole_amount(decoder, fields["value"], BANDWIDTH)
    for name in ("selector", "value"):
        if fields[name].value is None:
            hint = ": {} selects all nodes" if name == "selector" else ": write 107GB/s"
            decoder.tell(fields[name], f"is missing{hint}")
    if value == 0:
        decoder.tell(fields["value"], "0 is no capacity: leave the rule out if it is not known")
    selector = read_label_selector(decoder, fields["selector"], strict_fields)
    return CapacityRule(selector, value or 0, decoder.position(place)[0])


def _say_unplaceable(decoder: Decoder, place: Place, config: InterferenceConfiguration) -> None:
    """Warn of profiles that need more bandwidth than any capacity rule gives a node."""
    needed = {name: demand for name, _, demand in config.stated_bandwidths()}
    if not config.capacity or not needed:
        return
    largest = max(rule.memory_bandwidth for rule in config.capacity)
    for key, _ in decoder.entries(place):
        demand = needed.get(str(key.path[-1]), Fraction(0))
        if demand >= largest > 0:
            warn(
                decoder,
                key,
                unplaceable_message(float(demand), largest, "no node that a capacity rule selects"),
            )


def unplaceable_message(needed: float, largest: float, which: str = "no node") -> str:
    """Say that no node is large enough; a rule speaks only of nodes that state no capacity themselves."""
    return (
        f"fits {which}: it needs more than {needed / 10**9:g} GB/s of free memory bandwidth "
        f"(overprovisioning x profile), and the largest capacity known is {largest / 10**9:g} GB/s"
    )
