"""The measurements of every node: one column per quantity, one row per node, NaN where nothing is known.

Missing is what was not stated and what is too old; also NaN, infinite and negative values, and a 0 from
a source of bandwidth, latency, occupancy or capacity, since exporters print 0 for "not supported". So is what
no machine has: above 10^18 of anything, or less than 10^-15 where 0 is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corewise.config.interference.metrics import METRICS

Values: TypeAlias = NDArray[np.float64]
"""One value for each node; NaN is missing."""

Flags: TypeAlias = NDArray[np.bool_]

LARGEST = 1e18
LEAST = 1e-15
ZERO_IS_MISSING = frozenset(metric.column for metric, spec in METRICS.items() if spec.zero_is_missing)


@dataclass(frozen=True, slots=True, eq=False)
class Pressure:
    """Averages over the window. Fields are named as in ``corewise explain interference --metrics``.

    Bandwidths are bytes/s, latencies seconds, occupancies and memory bytes, ``llc_mpki`` misses per 1000
    instructions of the cache of ``llc_mpki_level`` (2 is L2; missing is the last level), ``cpu`` the share of
    the node's CPUs in use. ``memorylatency_idle`` and ``memorylatency_slope`` are the node's latency curve,
    see :mod:`corewise.interference.latency`.
    """

    memorybandwidth_used: Values
    memorybandwidth_capacity: Values
    memorylatency: Values
    llc_occupancy: Values
    llc_mpki: Values
    llc_mpki_level: Values
    cpu: Values
    cpu_cores: Values
    memory_available: Values
    llc_capacity: Values
    memorylatency_idle: Values
    memorylatency_slope: Values

    @classmethod
    def of(cls, size: int, columns: Mapping[str, ArrayLike]) -> Pressure:
        """Return a pressure of ``size`` nodes; a column that is not given is missing everywhere.

        Raises:
            KeyError: if there is no column of a name.
            ValueError: if a column is not of that size.
        """
        unknown = [name for name in columns if name not in COLUMNS]
        if unknown:
            raise KeyError(unknown[0])
        return cls(**{name: _column(size, columns.get(name)) for name in COLUMNS})

    @property
    def size(self) -> int:
        return len(self.memorybandwidth_used)

    def cleaned(self) -> Pressure:
        """Return the same with everything missing that no node can have."""
        return Pressure(**{name: _cleaned(name, getattr(self, name)) for name in COLUMNS})

    def rows(self, indices: NDArray[np.intp]) -> Pressure:
        """Return the pressure of some nodes, in that order; of a negative index nothing is known."""
        here, known = np.maximum(indices, 0), indices >= 0
        if not self.size:
            return Pressure.of(len(indices), {})
        return Pressure(**{name: np.where(known, getattr(self, name)[here], np.nan) for name in COLUMNS})


COLUMNS: tuple[str, ...] = tuple(each.name for each in fields(Pressure))


def _column(size: int, values: ArrayLike | None) -> Values:
    if values is None:
        return np.full(size, np.nan)
    column = np.array(values, dtype=np.float64)
    if column.shape != (size,):
        raise ValueError(f"a column of {column.shape} for {size} nodes")
    return column


def _cleaned(name: str, values: Values) -> Values:
    least = LEAST if name in ZERO_IS_MISSING else 0.0
    sound = (values >= least) & (values <= LARGEST)
    return np.where(sound, values, np.nan)
