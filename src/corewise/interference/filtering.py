"""The filter: a node needs more room than overprovisioning x profile, of bandwidth and of memory. Strictly.

    capacity_bw - used_bw - counterweight_bw   >  overprovisioning x profile_bw
    available_mem         - counterweight_mem  >  overprovisioning x profile_mem

A dimension the profile needs nothing of is not asked. Where the left side is missing, the configuration says
whether the node passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from corewise.config.interference import Requirement
from corewise.interference.outlook import Outlook
from corewise.interference.pressure import Flags, Values


@dataclass(frozen=True, slots=True, eq=False)
class Inequality:
    """Both sides for every node: ``left`` > ``right`` must hold; of ``left`` NaN is missing."""

    left: Values
    right: float
    missing: Flags
    passes: Flags

    @property
    def asked(self) -> bool:
        """Whether anything is needed at all."""
        return self.right > 0


@dataclass(frozen=True, slots=True, eq=False)
class Filtered:
    """The two verdicts about every node."""

    bandwidth: Inequality
    memory: Inequality

    @property
    def passes(self) -> Flags:
        passing: Flags = self.bandwidth.passes & self.memory.passes
        return passing


def filter_nodes(nodes: Outlook, requirement: Requirement, *, missing_passes: bool) -> Filtered:
    """Return which nodes have the room that a profile requires."""
    return Filtered(
        bandwidth=_inequality(nodes.free_bandwidth, requirement.memory_bandwidth, missing_passes),
        memory=_inequality(nodes.free_memory, requirement.memory, missing_passes),
    )


def _inequality(left: Values, right: Fraction, missing_passes: bool) -> Inequality:  # noqa: FBT001 - as configured
    needed = float(right)
    missing = np.isnan(left)
    if needed <= 0:
        passes = np.ones(len(left), dtype=np.bool_)
    else:
        passes = left > needed
        if missing_passes:
            passes |= missing
    return Inequality(left, needed, missing, passes)
