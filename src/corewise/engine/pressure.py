"""From the columns of a snapshot to the pressure that decisions work with: what is too old is missing.

What a node's memory can move is what the node or the configuration states, else what is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from corewise.config.interference import InterferenceConfiguration, Metric, Series
from corewise.engine.columns import ClusterSnapshot
from corewise.engine.table import Measures
from corewise.interference import Pressure

CAPACITY = "memorybandwidth_capacity"
COLUMN_OF: Mapping[Series, str] = {
    each: "memorybandwidth_used" if each is Series.MEMORY_BANDWIDTH else each.value for each in Series
}
"""The column of a pressure that each series is."""

COLUMN_OF_METRIC: Mapping[Metric, str] = {each: COLUMN_OF[Series(each.value)] for each in Metric}


def maximum_ages(configuration: InterferenceConfiguration) -> Mapping[str, float]:
    """Return the age in seconds up to which a column's values count; by default the window's length."""
    settings = configuration.metrics
    own = {series: each.maximum_age for series, each in settings.series.items()}
    general = configuration.window if settings.maximum_age is None else settings.maximum_age
    return {
        column: general if own.get(series) is None else float(own[series] or 0.0)
        for series, column in COLUMN_OF.items()
    }


def pressure_of(
    snapshot: ClusterSnapshot, maximum_ages: Mapping[str, float], now: float
) -> tuple[Pressure, float]:
    """Return the pressure at a time, and until when it stays so if nothing new is measured."""
    columns: dict[str, Measures] = {}
    until = math.inf
    for name, values in snapshot.measured.items():
        sampled, age = snapshot.measured_at[name], maximum_ages.get(name, math.inf)
        fresh = sampled + age >= now
        columns[name] = np.where(fresh, values, np.nan)
        if fresh.any() and age < math.inf:
            until = min(until, float(sampled[fresh].min()) + age)
    stated = snapshot.stated_bandwidth
    measured = columns.get(CAPACITY, np.full(snapshot.size, np.nan))
    columns[CAPACITY] = np.where(stated > 0, stated, measured)
    return Pressure.of(snapshot.size, columns).cleaned(), until
