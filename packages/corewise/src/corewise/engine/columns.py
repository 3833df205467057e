"""The snapshot of a cluster, in columns over its nodes, and how these columns are written.

Row i of every column is the node ``names[i]``; rows where ``present`` is false are empty. The columns are
those of the cluster that made the snapshot: it holds until the cluster is changed, and a decision, which is
made in one go, sees one state. ``copy`` makes one that stays.

What is derived is written row by row, from exact sums, instead of being computed for each decision:

    free[resource]   = allocatable - requests of the pods
    cpu_room         = left(allocatable, R, A, surplus)              milli-CPU, amplified (occupancy.py)
    zone_cpu_room    likewise for each NUMA node

Sums are bounded too (:mod:`corewise.quantities.quantity`): a node is full before 64 bits are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corewise.amplification import left, occupied
from corewise.amplification.numa import BoolColumn, IntColumn
from corewise.engine.facts import CPU, MEMORY, PODS, BlockingTaint, NodeAccount, NodeFacts, ZoneAccount
from corewise.engine.table import ABSENT, LabelColumn, Measures, Table
from corewise.interference.neighbors import Neighbors
from corewise.interference.outlook import Counterweights, Weights
from corewise.pinning.ledger import FreeCores, Ledger
from corewise.quantities import MILLI, ONE, amplify, bounded, deamplified_ceil
from corewise.vocabulary.cpu_annotations import NumaPolicy

NUMA_POLICIES = (
    NumaPolicy.NONE,
    NumaPolicy.BEST_EFFORT,
    NumaPolicy.RESTRICTED,
    NumaPolicy.SINGLE_NUMA_NODE,
)
"""The policy that each number of the column ``numa_policy`` stands for; 0 is none."""


Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Columns over nodes. ``static_version`` changes with names, labels, taints and cordons, nothing else."""

    static_version: int
    names: tuple[str, ...] | list[str]
    index: Mapping[str, int]
    present: BoolColumn
    unschedulable: BoolColumn
    taint_set: IntColumn
    taint_sets: list[tuple[BlockingTaint, ...]]
    labels: Mapping[str, LabelColumn]

    allocatable: Mapping[str, IntColumn]
    free: Mapping[str, IntColumn]
    divisors: Mapping[str, NDArray[np.float64]]
    """Allocatable cpu and memory to divide by: at least 1."""

    ratio: IntColumn
    """In hundredths; 100 where the annotation cannot be read."""
    ratio_known: BoolColumn
    normalization: IntColumn
    """By which owned CPUs are normalized, in hundredths; 0 where the annotation cannot be read."""
    requested_cpu: IntColumn
    owned_cpu: IntColumn
    cpu_room: IntColumn
    static_cpu_manager: BoolColumn

    ledger_intact: BoolColumn
    topology_known: BoolColumn
    reservation_known: BoolColumn
    free_cpus: IntColumn
    """CPUs without an owner; with unknown topology, by the node's raw amount."""
    free_whole_cpus: IntColumn
    """Those of them in cores without any owned thread."""
    free_cores: IntColumn
    """Cores with a free thread."""
    core_size: IntColumn
    """Of how many CPUs whole cores have a multiple."""
    full_cores_only: BoolColumn

    numa_policy: IntColumn
    zones_known: BoolColumn
    zone_cpu: IntColumn
    zone_cpu_room: IntColumn
    zone_cpus: IntColumn
    """CPUs of each NUMA node; below, its free ones, counted as for the node."""
    zone_free_cpus: IntColumn
    zone_free_whole_cpus: IntColumn
    zone_free_cores: IntColumn
    zone_core_size: IntColumn
    zone_memory: IntColumn
    zone_memory_free: IntColumn

    stated_bandwidth: IntColumn
    """Bytes/s that memory can move, by annotation or configuration; 0 where it is not stated."""
    measured: Mapping[str, Measures]
    """What was measured, by column of :class:`corewise.interference.Pressure`; NaN is missing."""
    measured_at: Mapping[str, Measures]
    """Unix time of the last sample that each value is from."""
    counterweights: Counterweights | CounterweightsOfSome
    """What pods placed lately are going to use."""
    neighbors: Neighbors | NeighborsOfSome
    """How much the pods of known types mind losing their cache."""
    written: Sequence[int] = ()
    """The rows written since the cluster made this snapshot, in order; a row may be there several times."""

    @property
    def size(self) -> int:
        """The number of rows, including empty ones."""
        return len(self.present)

    def nowhere(self) -> IntColumn:
        """Return a column of zeros."""
        return np.zeros(self.size, dtype=np.int64)

    def only(self, row: int) -> ClusterSnapshot:
        """Return the snapshot of one node; its row there is 0."""
        return SomeNodes(self, slice(row, row + 1))

    def some(self, rows: Indices) -> ClusterSnapshot:
        """Return the snapshot of some nodes, as they are when it is looked at."""
        return SomeNodes(self, rows)

    def copy(self) -> ClusterSnapshot:
        """Return a snapshot that stays as it is when the cluster changes."""
        return deepcopy(self)


class SomeNodes(ClusterSnapshot):
    """Some rows of a snapshot. A decision looks at a few of its columns: each is taken at the first look."""

    every: ClusterSnapshot
    rows: slice | Indices

    def __init__(self, every: ClusterSnapshot, rows: slice | Indices) -> None:
        object.__setattr__(self, "every", every)
        object.__setattr__(self, "rows", rows)

    def __getattr__(self, name: str) -> Any:
        if name in {"every", "rows"}:
            raise AttributeError(name)
        every, rows = self.every, self.rows
        value = getattr(every, name)
        if isinstance(value, np.ndarray):
            value = value[rows] if value.ndim == 1 else value[:, rows]
        elif name == "names":
            value = tuple(value[rows] if isinstance(rows, slice) else [value[row] for row in rows.tolist()])
        elif name == "index":
            value = {each: row for row, each in enumerate(self.names)}
        elif name == "labels":
            value = {key: column.some(rows, every.size) for key, column in value.items()}
        elif name == "counterweights":
            value = CounterweightsOfSome(value, rows, every.size)
        elif name == "neighbors":
            value = NeighborsOfSome(value, rows, every.size)
        elif isinstance(value, dict):
            value = {key: column[rows] for key, column in value.items()}
        object.__setattr__(self, name, value)
        return value


@dataclass(frozen=True, slots=True)
class CounterweightsOfSome:
    """The counterweights of some nodes."""

    every: Counterweights | CounterweightsOfSome
    rows: slice | Indices
    size: int
    """How many nodes all are."""

    @property
    def version(self) -> int:
        return self.every.version

    def at(self, now: float, size: int) -> Weights:
        """Return their weights at ``now``; ``size`` is for those of all nodes."""
        weights = self.every.at(now, self.size)
        return Weights(*(getattr(weights, each.name)[self.rows] for each in fields(Weights)))


@dataclass(frozen=True, slots=True)
class NeighborsOfSome:
    """The neighbors on some nodes."""

    every: Neighbors | NeighborsOfSome
    rows: slice | Indices
    size: int
    """How many nodes all are."""

    @property
    def version(self) -> int:
        return self.every.version

    def at(self, size: int) -> Measures:
        """Return the sums of their pods; ``size`` is for those of all nodes."""
        return self.every.at(self.size)[self.rows]


NO_ROW = -1
_NO_ZONE = ZoneAccount()
_NOTHING_FREE = FreeCores(0, 0, 0, 1)
_MOST_WRITTEN = 1 << 14
"""Rows written after which a new snapshot is made though nothing else is different: their list has an end."""
_DIVISORS = (CPU, MEMORY)
_ZONE_BLOCKS = (
    "zone_cpu",
    "zone_cpu_room",
    "zone_cpus",
    "zone_free_cpus",
    "zone_free_whole_cpus",
    "zone_free_cores",
    "zone_core_size",
    "zone_memory",
    "zone_memory_free",
)


class NodeColumns:
    """One row for each node, and the snapshot of them all."""

    def __init__(self) -> None:
        self._table = Table()
        self._index: dict[str, int] = {}
        self._names: list[str] = []
        self._resources: set[str] = {CPU, MEMORY, PODS}
        self._labels: dict[str, LabelColumn] = {}
        self._taint_sets: list[tuple[BlockingTaint, ...]] = [()]
        self._taint_numbers: dict[tuple[BlockingTaint, ...], int] = {(): 0}
        self._static_version = 0
        self._divisor_version = 0
        self._series: tuple[str, ...] = ()
        self._snapshot: tuple[tuple[int, ...], ClusterSnapshot] | None = None
        self._written: list[int] = []
        self._counterweights = Counterweights()
        self._neighbors = Neighbors()

    def put(self, before: NodeFacts | None, facts: NodeFacts) -> None:
        """Write what a node is; ``before``: what it was. What its pods take is for ``refresh``."""
        row = self._row(facts.name)
        self._write_static(row, before, facts)
        self._write_amounts(row, before, facts)

    def remove(self, facts: NodeFacts) -> None:
        """Empty a node's row."""
        row = self._index.pop(facts.name)
        for key in facts.labels:
            self._labels[key].rows[row] = ABSENT
        self._names[row] = ""
        self._table.free_row(row)
        self._static_version += 1

    def refresh(
        self, facts: NodeFacts, account: NodeAccount, ledger: Ledger | None, resources: Iterable[str]
    ) -> None:
        """Write what a node's pods take of these resources, of its CPUs and zones."""
        row, table = self._index[facts.name], self._table
        self._written.append(row)
        for resource in (*resources, PODS):
            if resource not in self._resources:
                self._resources.add(resource)
                table.numbers(f"allocatable/{resource}")
            free = bounded(resource, facts.allocatable.get(resource, 0))
            free -= bounded(resource, account.requests[resource])
            table.set_number(f"free/{resource}", row, free)
        ratio = facts.ratio or ONE
        requested, owned = bounded(CPU, account.requests[CPU]), bounded(CPU, account.owned)
        surplus = bounded(CPU, account.surplus)
        allocatable = bounded(CPU, facts.allocatable.get(CPU, 0))
        table.set_number("requested_cpu", row, requested)
        table.set_number("owned_cpu", row, owned)
        table.set_number("cpu_room", row, left(allocatable, requested, owned, ratio.hundredths, surplus))
        self._refresh_cores(row, ledger, deamplified_ceil(allocatable, ratio) - owned)
        for place, zone in enumerate(facts.zones):
            zone_taken = account.zones.get(zone.number, _NO_ZONE)
            cpu, zone_owned = bounded(CPU, zone_taken.cpu), bounded(CPU, zone_taken.owned)
            room = table.block("zone_cpu")[place, row] - occupied(cpu, zone_owned, ratio.hundredths)
            table.block("zone_cpu_room")[place, row] = room
            memory = table.block("zone_memory")[place, row] - bounded(MEMORY, zone_taken.memory)
            table.block("zone_memory_free")[place, row] = memory
            cores = ledger.free_by_numa_node.get(zone.number, _NOTHING_FREE) if ledger else _NOTHING_FREE
            table.block("zone_free_cpus")[place, row] = cores.cpus
            table.block("zone_free_whole_cpus")[place, row] = cores.whole_cpus
            table.block("zone_free_cores")[place, row] = cores.cores
            table.block("zone_core_size")[place, row] = cores.threads

    def snapshot(self) -> ClusterSnapshot:
        """Return the columns as they are; valid until the next change."""
        full = len(self._written) >= _MOST_WRITTEN
        if self._snapshot is None or self._snapshot[0] != self._state() or full:
            self._written = []
            snapshot = self._view()
            self._snapshot = self._state(), snapshot
        return self._snapshot[1]

    def row(self, name: str) -> int:
        """Return the row of a node; NO_ROW if there is none."""
        return self._index.get(name, NO_ROW)

    @property
    def counterweights(self) -> Counterweights:
        return self._counterweights

    @counterweights.setter
    def counterweights(self, counterweights: Counterweights) -> None:
        self._counterweights = counterweights
        self._table.version += 1

    @property
    def neighbors(self) -> Neighbors:
        return self._neighbors

    @neighbors.setter
    def neighbors(self, neighbors: Neighbors) -> None:
        self._neighbors = neighbors
        self._table.version += 1

    def state_bandwidth(self, name: str, amount: int) -> None:
        """Write what a node's memory can move, as it is stated; 0 if it is not."""
        row = self._index[name]
        if self._table.number("stated_bandwidth", row) != amount:
            self._table.set_number("stated_bandwidth", row, amount)
            self._table.version += 1

    def measure(self, names: tuple[str, ...], columns: Mapping[str, tuple[Measures, Measures]]) -> None:
        """Write values of nodes and when they were sampled, by column; what is not given is missing."""
        self._series = tuple(columns)
        rows = np.array([self._index.get(name, NO_ROW) for name in names], dtype=np.int64)
        known = rows != NO_ROW
        for series, (values, sampled) in columns.items():
            for name, given in ((f"measured/{series}", values), (f"sampled/{series}", sampled)):
                column = self._table.measures(name)
                column[:] = np.nan
                column[rows[known]] = given[known]
        self._table.version += 1

    def _state(self) -> tuple[int, ...]:
        """Return the versions that a view of the columns depends on, apart from what is written in place."""
        return self._table.version, self._static_version, self._divisor_version

    def _row(self, name: str) -> int:
        row = self._index.get(name)
        if row is None:
            row = self._index[name] = self._table.add_row()
            self._names[row : row + 1] = [name]
        return row

    def _write_static(self, row: int, before: NodeFacts | None, facts: NodeFacts) -> None:
        old = (before.labels, before.taints, before.unschedulable) if before else None
        if old == (facts.labels, facts.taints, facts.unschedulable):
            return
        self._static_version += 1
        table = self._table
        table.set_flag("present", row, value=True)
        table.set_flag("unschedulable", row, value=facts.unschedulable)
        if facts.taints not in self._taint_numbers:
            self._taint_numbers[facts.taints] = len(self._taint_sets)
            self._taint_sets.append(facts.taints)
        table.set_number("taint_set", row, self._taint_numbers[facts.taints])
        for key in {*facts.labels, *(before.labels if before else ())}:
            column = self._labels.get(key)
            if column is None:
                column = self._labels[key] = LabelColumn(np.full(table.used, ABSENT, dtype=np.int64))
            column.put(row, facts.labels.get(key))

    def _write_amounts(self, row: int, before: NodeFacts | None, facts: NodeFacts) -> None:
        table = self._table
        for resource in {*facts.allocatable, *(before.allocatable if before else ())}:
            self._resources.add(resource)
            amount, name = bounded(resource, facts.allocatable.get(resource, 0)), f"allocatable/{resource}"
            self._divisor_version += resource in _DIVISORS and table.number(name, row) != amount
            table.set_number(name, row, amount)
        ratio = facts.ratio or ONE
        table.set_number("ratio", row, ratio.hundredths)
        table.set_flag("ratio_known", row, value=facts.ratio is not None)
        table.set_number("normalization", row, facts.normalization.hundredths if facts.normalization else 0)
        table.set_flag("static_cpu_manager", row, value=facts.static_cpu_manager)
        table.set_flag("full_cores_only", row, value=facts.full_cores_only)
        table.set_flag("ledger_intact", row, value=not facts.owned.problem)
        table.set_flag("topology_known", row, value=facts.topology is not None)
        table.set_flag("reservation_known", row, value=facts.reservation_known)
        table.set_number("numa_policy", row, NUMA_POLICIES.index(facts.numa_policy))
        table.set_flag("zones_known", row, value=bool(facts.zones))
        if facts.zones or (before and before.zones):
            for name in _ZONE_BLOCKS:
                table.block(name, len(facts.zones))[:, row] = 0
        for place, zone in enumerate(facts.zones):
            table.block("zone_cpu")[place, row] = amplify(bounded(CPU, zone.cpu), ratio)
            table.block("zone_cpus")[place, row] = zone.cpu // MILLI
            table.block("zone_memory")[place, row] = bounded(MEMORY, zone.memory)

    def _refresh_cores(self, row: int, ledger: Ledger | None, raw_milli_left: int) -> None:
        by_amount = max(0, raw_milli_left // MILLI)
        cores = ledger.free_cores if ledger else FreeCores(by_amount, by_amount, by_amount, 1)
        table = self._table
        table.set_number("free_cpus", row, min(by_amount, cores.cpus))
        table.set_number("free_whole_cpus", row, cores.whole_cpus)
        table.set_number("free_cores", row, cores.cores)
        table.set_number("core_size", row, cores.threads)

    def _view(self) -> ClusterSnapshot:
        table = self._table
        numbers, flags, block = table.numbers, table.flags, table.block
        return ClusterSnapshot(
            static_version=self._static_version,
            names=self._names,
            index=self._index,
            present=flags("present"),
            unschedulable=flags("unschedulable"),
            taint_set=numbers("taint_set"),
            taint_sets=self._taint_sets,
            labels=self._labels,
            allocatable={each: numbers(f"allocatable/{each}") for each in self._resources},
            free={each: numbers(f"free/{each}") for each in self._resources},
            divisors={each: np.maximum(numbers(f"allocatable/{each}"), 1.0) for each in _DIVISORS},
            ratio=numbers("ratio"),
            ratio_known=flags("ratio_known"),
            normalization=numbers("normalization"),
            requested_cpu=numbers("requested_cpu"),
            owned_cpu=numbers("owned_cpu"),
            cpu_room=numbers("cpu_room"),
            static_cpu_manager=flags("static_cpu_manager"),
            ledger_intact=flags("ledger_intact"),
            topology_known=flags("topology_known"),
            reservation_known=flags("reservation_known"),
            free_cpus=numbers("free_cpus"),
            free_whole_cpus=numbers("free_whole_cpus"),
            free_cores=numbers("free_cores"),
            core_size=numbers("core_size"),
            full_cores_only=flags("full_cores_only"),
            numa_policy=numbers("numa_policy"),
            zones_known=flags("zones_known"),
            zone_cpu=block("zone_cpu"),
            zone_cpu_room=block("zone_cpu_room"),
            zone_cpus=block("zone_cpus"),
            zone_free_cpus=block("zone_free_cpus"),
            zone_free_whole_cpus=block("zone_free_whole_cpus"),
            zone_free_cores=block("zone_free_cores"),
            zone_core_size=block("zone_core_size"),
            zone_memory=block("zone_memory"),
            zone_memory_free=block("zone_memory_free"),
            stated_bandwidth=numbers("stated_bandwidth"),
            measured={name: table.measures(f"measured/{name}") for name in self._series},
            measured_at={name: table.measures(f"sampled/{name}") for name in self._series},
            counterweights=self._counterweights,
            neighbors=self._neighbors,
            written=self._written,
        )
