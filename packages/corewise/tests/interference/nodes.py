"""Nodes for the tests of this package."""

from __future__ import annotations

import numpy as np

from corewise.config.interference.metrics import RANKED
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


INCEPT = dict(zip(RANKED, (60, 60, 0, 0, 50), strict=True))
"""The affinities of the document's example."""
FOUR = pressure(
    4,
    memorybandwidth_capacity=[100e9] * 4,
    memorybandwidth_used=[40e9, 10e9, 20e9, 70e9],
    memorylatency=[95e-9, 90e-9, 110e-9, 120e-9],
    llc_occupancy=[1e6, 20e6, 30e6, 40e6],
    llc_mpki=[9.0, 3.0, 2.0, 1.0],
    cpu=[0.3, 0.1, 0.5, 0.7],
    cpu_cores=[32.0] * 4,
    memory_available=[64e9] * 4,
)
"""The first is third by bandwidth, second by latency, first by occupancy, last by MPKI, second by CPU."""
