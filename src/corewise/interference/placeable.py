"""Profiles that no node can take even when it is idle: a mistake that is said when it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from corewise.config.interference import InterferenceConfiguration
from corewise.interference.pressure import Values


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """A profile that needs more free memory bandwidth than any node has; in bytes/s."""

    name: str
    line: int
    needed: float
    largest: float


def unplaceable(config: InterferenceConfiguration, capacity: Values) -> Iterator[Unplaceable]:
    """Yield the profiles that fit none of the nodes with these capacities, in bytes/s; NaN is unknown.

    Where a capacity is unknown and what is missing passes, the node takes any profile.
    """
    known = capacity[~np.isnan(capacity)]
    if not len(known) or (config.missing_passes and len(known) < len(capacity)):
        return
    largest = float(known.max())
    for name, line, needed in config.stated_bandwidths():
        if needed >= largest:
            yield Unplaceable(name, line, float(needed), largest)
