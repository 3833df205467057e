"""The cluster at one moment: one column of whole numbers for each thing that decisions read of nodes.

Row i of every column is the node ``names[i]``; rows where ``present`` is false are empty. The columns are
those of the cluster that made the snapshot: it holds until the cluster is changed, and a decision, which is
made in one go, sees one state. ``copy`` makes one that stays.

What is derived is kept, not computed for each decision:

    free[resource]   = allocatable - requests of the pods
    cpu_room         = allocatable - occupied(R, A)                  milli-CPU, amplified (occupancy.py)
    zone_cpu_room    likewise for each NUMA node
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corewise.amplification import Column, Flags
from corewise.engine.estimates import OneNode, Weighing
from corewise.engine.labels import LabelColumn
from corewise.engine.nodes import Taint
from corewise.engine.table import Measures
from corewise.vocabulary.cpu_binding import NumaPolicy

NUMA_POLICIES = (
    NumaPolicy.NONE,
    NumaPolicy.BEST_EFFORT,
    NumaPolicy.RESTRICTED,
    NumaPolicy.SINGLE_NUMA_NODE,
)
"""The policy that each number of the column ``numa_policy`` stands for; 0 is none."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Columns over nodes. ``static_version`` changes with names, labels, taints and cordons, nothing else."""

    static_version: int
    names: tuple[str, ...] | list[str]
    index: Mapping[str, int]
    present: Flags
    unschedulable: Flags
    taint_set: Column
    taint_sets: list[tuple[Taint, ...]]
    labels: Mapping[str, LabelColumn]

    allocatable: Mapping[str, Column]
    free: Mapping[str, Column]
    divisors: Mapping[str, NDArray[np.float64]]
    """Allocatable cpu and memory to divide by: at least 1."""

    ratio: Column
    """In hundredths; 100 where the annotation cannot be read."""
    ratio_known: Flags
    requested_cpu: Column
    owned_cpu: Column
    cpu_room: Column
    static_cpu_manager: Flags

    topology_known: Flags
    free_cpus: Column
    """CPUs that nobody owns; with unknown topology, by the node's raw amount."""
    free_whole_cpus: Column
    """Those of them in cores of which nobody owns a thread."""
    free_cores: Column
    """Cores with a free thread."""
    core_size: Column
    """Of how many CPUs whole cores have a multiple."""
    full_cores_only: Flags

    numa_policy: Column
    zones_known: Flags
    zone_cpu: Column
    zone_cpu_room: Column
    zone_cpus: Column
    """CPUs of each NUMA node; beside it those that nobody owns, in the ways they are counted for the node."""
    zone_free_cpus: Column
    zone_free_whole_cpus: Column
    zone_free_cores: Column
    zone_core_size: Column
    zone_memory: Column
    zone_memory_free: Column

    stated_bandwidth: Column
    """Bytes/s that memory can move, by annotation or configuration; 0 where nobody states it."""
    measured: Mapping[str, Measures]
    """What was measured, by column of :class:`corewise.interference.Pressure`; NaN is missing."""
    measured_at: Mapping[str, Measures]
    """Unix time of the last sample that each value is from."""
    counterweights: Weighing
    """What pods placed lately are going to use."""

    @property
    def size(self) -> int:
        """How many rows there are, empty ones among them."""
        return len(self.present)

    def nowhere(self) -> Column:
        """Return a column of zeros."""
        return np.zeros(self.size, dtype=np.int64)

    def only(self, row: int) -> ClusterSnapshot:
        """Return the snapshot of one node, its row there is 0; without labels, so that none selects it."""
        here = slice(row, row + 1)
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        columns: dict[str, Any] = {
            name: value[..., here] for name, value in values if isinstance(value, np.ndarray)
        }
        return replace(
            self,
            names=(self.names[row],),
            index={self.names[row]: 0},
            labels={},
            divisors={name: column[here] for name, column in self.divisors.items()},
            allocatable={name: column[here] for name, column in self.allocatable.items()},
            free={name: column[here] for name, column in self.free.items()},
            measured={name: column[here] for name, column in self.measured.items()},
            measured_at={name: column[here] for name, column in self.measured_at.items()},
            counterweights=OneNode(self.counterweights, row, self.counterweights.version),
            **columns,
        )

    def copy(self) -> ClusterSnapshot:
        """Return a snapshot that stays as it is when the cluster changes."""
        return deepcopy(self)


Indices = NDArray[np.intp]
