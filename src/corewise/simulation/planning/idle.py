"""What would be measured of nodes that nothing runs on: a plan begins with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corewise.engine import Measured
from corewise.engine.facts import MEMORY
from corewise.simulation.planning.nodes import ConfiguredNode

_NEXT_TO_NOTHING = 1.0
"""Bytes, bytes/s: a source that says 0 is one that does not measure."""

_MILLI = 1000


def idle(nodes: Sequence[ConfiguredNode]) -> Measured:
    """Return the measurement. What memory can move, nodes and configuration state; latency is unknown."""
    size = len(nodes)
    memory = [float(node.facts.allocatable.get(MEMORY, 0)) for node in nodes]
    columns = {
        "memorybandwidth_used": np.full(size, _NEXT_TO_NOTHING),
        "llc_occupancy": np.full(size, _NEXT_TO_NOTHING),
        "cpu": np.zeros(size),
        "cpu_cores": np.array([node.raw_milli / _MILLI for node in nodes]),
        "memory_available": np.array(memory),
    }
    at = np.zeros(size)
    names = tuple(node.facts.name for node in nodes)
    return Measured(names, {name: (values, at) for name, values in columns.items()})
