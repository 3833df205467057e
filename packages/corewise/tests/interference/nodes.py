"""Nodes for the tests of this package."""

from __future__ import annotations

import numpy as np

from corewise.config.interference.model import InterferenceConfiguration
from corewise.interference.outlook import Outlook, Weights, outlook
from corewise.interference.pressure import Pressure

GB = 10**9


def pressure(size: int, **columns: list[float]) -> Pressure:
    return Pressure.of(size, columns).cleaned()


def seen(
    measured: Pressure, weights: Weights | None = None, config: InterferenceConfiguration | None = None
) -> Outlook:
    return outlook(measured, weights or Weights.none(measured.size), config or InterferenceConfiguration())


def weights(size: int, **columns: list[float]) -> Weights:
    none = np.zeros(size)
    return Weights(
        *(
            np.array(columns[name]) if name in columns else none
            for name in ("memory_bandwidth", "memory", "cpu", "llc")
        )
    )
