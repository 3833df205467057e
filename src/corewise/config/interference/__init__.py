"""What users write about memory bandwidth and cache: the section ``interference`` of the scheduler's file.

- :mod:`model`: the configuration as values, in base units: bytes/s, bytes, seconds, milli-CPU, shares of one;
- :mod:`amounts`: amounts with their units, read exactly;
- :mod:`reading`: the text in, the configuration and all problems out (:func:`parse_interference`).

Source: design/interference.md; the names of affinities are those of the seed.
"""

from corewise.config.interference.amounts import Unit
from corewise.config.interference.model import (
    COLUMN_OF,
    COLUMN_OF_METRIC,
    Affinity,
    CapacityRule,
    CounterweightSettings,
    Decay,
    DefaultProfile,
    InterferenceConfiguration,
    LatencyModel,
    Metric,
    MetricsSettings,
    Order,
    Preset,
    Profile,
    Ranking,
    Requirement,
    Series,
    SeriesSettings,
    WorkloadProfile,
)
from corewise.config.interference.reading import INTERFERENCE, parse_interference

__all__ = [
    "COLUMN_OF",
    "COLUMN_OF_METRIC",
    "INTERFERENCE",
    "Affinity",
    "CapacityRule",
    "CounterweightSettings",
    "Decay",
    "DefaultProfile",
    "InterferenceConfiguration",
    "LatencyModel",
    "Metric",
    "MetricsSettings",
    "Order",
    "Preset",
    "Profile",
    "Ranking",
    "Requirement",
    "Series",
    "SeriesSettings",
    "Unit",
    "WorkloadProfile",
    "parse_interference",
]
