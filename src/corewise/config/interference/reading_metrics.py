"""``metrics``: which series are asked of Prometheus, and how each metric ranks nodes.

A preset knows the queries of an exporter; what is written for a series is put over it. Without a preset the
series that are written, and no others, are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from corewise.config.decoding import Decoder, Fields, Place
from corewise.config.interference.amounts import (
    BANDWIDTH,
    BYTES,
    LATENCY_UNITS,
    PERCENT,
    amount,
    duration,
    unit_of,
)
from corewise.config.interference.model import (
    DEFAULT_RANKINGS,
    Metric,
    MetricsSettings,
    Order,
    Preset,
    Ranking,
    Series,
    SeriesSettings,
)
from corewise.config.interference.strict import strict_fields, word

_AGE = duration(1, 24 * 3600, "1s..24h")
_OF_ALL = ("preset", "nodeLabel", "maximumAge")
_OF_A_SERIES = ("query", "nodeLabel", "unit", "maximumAge")
_OF_A_METRIC = (*_OF_A_SERIES, "order", "tolerance")
_ONE = Fraction(1)

UNITS: Mapping[Series, Mapping[str, Fraction]] = MappingProxyType(
    {
        Series.MEMORY_BANDWIDTH: BANDWIDTH.units,
        Series.MEMORY_BANDWIDTH_CAPACITY: BANDWIDTH.units,
        Series.MEMORY_LATENCY: LATENCY_UNITS,
        Series.MEMORY_LATENCY_IDLE: LATENCY_UNITS,
        Series.LLC_OCCUPANCY: BYTES.units,
        Series.LLC_CAPACITY: BYTES.units,
        Series.MEMORY_AVAILABLE: BYTES.units,
        Series.LLC_MPKI: {"mpki": _ONE, "misses/instruction": Fraction(1000)},
        Series.CPU: {"ratio": _ONE, "%": Fraction(1, 100)},
        Series.CPU_CORES: {"cores": _ONE, "milli": Fraction(1, 1000)},
    }
)
"""The units in which a series may come, and how much of the base unit each is; the base unit has factor 1."""


def read_metrics(decoder: Decoder, place: Place) -> MetricsSettings:
    """Read the whole of ``metrics``; where nothing is written, it is the preset of corewise's own agent."""
    if place.value is None:
        return MetricsSettings()
    fields = strict_fields(decoder, place, (*_OF_ALL, *Series))
    preset = decoder.choice(fields["preset"], Preset)
    written = [each for each in Series if fields[each].value is not None]
    inside = {each: _fields(decoder, each, fields[each]) for each in written}
    if fields["preset"].value is None:
        _need_queries(decoder, place, inside)
    rankings = {each: _ranking(decoder, inside.get(Series(each.value)), each) for each in Metric}
    return MetricsSettings(
        preset=preset,
        node_label=decoder.text(fields["nodeLabel"]),
        maximum_age=_age(decoder, fields["maximumAge"]),
        series=MappingProxyType({each: _series(decoder, each, found) for each, found in inside.items()}),
        rankings=MappingProxyType(rankings),
    )


def _fields(decoder: Decoder, series: Series, place: Place) -> Fields:
    ranked = series.value in tuple(Metric)
    return strict_fields(decoder, place, _OF_A_METRIC if ranked else _OF_A_SERIES)


def _need_queries(decoder: Decoder, place: Place, inside: Mapping[Series, Fields]) -> None:
    """Without a preset, everything that is asked for has its query."""
    if not inside:
        decoder.tell(place, f"neither a preset ({', '.join(Preset)}) nor a series with its query")
    for fields in inside.values():
        if fields["query"].value is None:
            decoder.tell(fields.owner, "has no query, and there is no preset that has one")


def _series(decoder: Decoder, series: Series, fields: Fields) -> SeriesSettings:
    query = decoder.text(fields["query"])
    if query is not None and not query.strip():
        decoder.tell(fields["query"], "is empty")
    return SeriesSettings(
        query=query,
        node_label=decoder.text(fields["nodeLabel"]),
        unit=unit_of(decoder, fields["unit"], UNITS[series]),
        maximum_age=_age(decoder, fields["maximumAge"]),
        line=decoder.position(fields.owner)[0],
    )


def _age(decoder: Decoder, place: Place) -> float | None:
    seconds = amount(decoder, place, _AGE)
    return None if seconds is None else float(seconds)


def _ranking(decoder: Decoder, fields: Fields | None, metric: Metric) -> Ranking:
    default = DEFAULT_RANKINGS[metric]
    if fields is None:
        return default
    tolerance = amount(decoder, fields["tolerance"], PERCENT)
    return Ranking(
        order=word(decoder, fields["order"], Order, default.order),
        tolerance=default.tolerance if tolerance is None else float(tolerance),
    )
