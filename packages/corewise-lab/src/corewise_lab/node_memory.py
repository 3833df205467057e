"""The memory of simulated nodes: what pods use of bandwidth and cache, and what the scheduler learns of it.

Values are the plant's averages over a window of simulated time; where every load is constant, one moment says
it all. *Slowdown* of a container is the part of its throughput that it loses against idle memory and all the
cache it wants, while it is busy. *MPKI* counts the cache lines that come from and go to memory, per thousand
instructions, of which a baseline CPU is assumed to retire ``INSTRUCTIONS`` a second undisturbed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corewise.engine.table import Measures
from corewise.workload.pods import Pod
from corewise_lab.contention import IDLE_LATENCY
from corewise_lab.machine_files import MachineFiles, working_set
from corewise_lab.machine_model import Moment, moment_with_memory
from corewise_lab.machines import Machine
from corewise_lab.measurement import SAMPLED_SECONDS, by_node
from corewise_lab.node_cgroups import NodeTree, describe, read_tree

INSTRUCTIONS = 2.5e9
BACKGROUND = 50e6
"""Bytes/s that an idle machine moves; a 0 would mean that nothing is measured."""

BACKGROUND_LLC = 1 << 20
CROWDED = 0.8
"""The used part of a node's bandwidth from which on it is called crowded."""

_KILO = 1000


@dataclass(frozen=True, slots=True)
class MemoryState:
    """A node's memory in a window: bytes/s, seconds, bytes, and shares of one.

    ``slowdowns`` are those of the containers of which it is known how they use memory, by type.
    """

    bandwidth: float
    used: float
    latency: float
    llc: float
    llc_occupancy: float
    llc_mpki: float
    cpu: float
    cpus: int
    memory_available: int
    slowdowns: Mapping[str, Sequence[float]]

    @property
    def utilization(self) -> float:
        return self.used / self.bandwidth

    @property
    def is_crowded(self) -> bool:
        return self.utilization > CROWDED


@dataclass(frozen=True, slots=True)
class MemorySummary:
    """Many nodes: the number with crowded bandwidth, and the slowdown of each type."""

    nodes: int
    crowded: int
    slowdowns: Mapping[str, Sequence[float]]

    @property
    def mean_slowdown(self) -> float | None:
        """Over all containers; None without any."""
        return mean([each for of_type in self.slowdowns.values() for each in of_type])


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None of nothing."""
    return math.fsum(values) / len(values) if values else None


def summary(states: Iterable[MemoryState]) -> MemorySummary:
    """Return nodes as one."""
    every = tuple(states)
    types = sorted({kind for state in every for kind in state.slowdowns})
    slowdowns = {kind: [lost for state in every for lost in state.slowdowns.get(kind, ())] for kind in types}
    return MemorySummary(len(every), sum(state.is_crowded for state in every), slowdowns)


def memory_state(machine: Machine, root: Path, pods: Sequence[Pod], label: str) -> MemoryState | None:
    """Return the state of a machine's memory with these pods; None if its bandwidth is unknown.

    ``label`` is that of pods which names their type.
    """
    memory, threads = machine.memory_system, machine.threads
    if memory is None or threads is None:
        return None
    tree = read_tree(root, describe(root, pods), machine.cpus)
    moments = []
    constant = all(task.container.load.is_constant for task in tree.tasks)
    for now in SAMPLED_SECONDS[:1] if constant else SAMPLED_SECONDS:
        demand = {task.leaf: task.demand(now) for task in tree.tasks}
        moments.append(moment_with_memory(tree.tree, demand, threads, memory, tree.memory_uses))
    types = {
        f"{pod.metadata.namespace}/{pod.metadata.name}": pod.metadata.labels.get(label, "") for pod in pods
    }
    return _state(machine, tree, moments, types)


def _state(
    machine: Machine, tree: NodeTree, moments: Sequence[Moment], types: Mapping[str, str]
) -> MemoryState:
    seen = [each.contention for each in moments if each.contention is not None]
    count = len(seen)
    used = math.fsum(each.used for each in seen) / count
    instructions = INSTRUCTIONS * math.fsum(each.compute[0] for each in moments) / count
    misses = math.fsum(each.misses for each in seen) / count
    slowdowns: dict[str, list[float]] = {}
    for task in tree.tasks:
        if task.container.memory_use is not None:
            lost = math.fsum(each.slowdown(task.leaf) for each in seen) / count
            slowdowns.setdefault(types[task.name.rpartition("/")[0]], []).append(lost)
    return MemoryState(
        bandwidth=float(machine.memory_bandwidth),
        used=max(used, BACKGROUND),
        llc=float(machine.llc),
        latency=math.fsum(each.latency for each in seen) / count,
        llc_occupancy=max(math.fsum(each.occupancy for each in seen) / count, BACKGROUND_LLC),
        llc_mpki=_KILO * misses / instructions if instructions else 0.0,
        cpu=math.fsum(each.busy for each in moments) / count / machine.cpus,
        cpus=machine.cpus,
        memory_available=max(0, machine.memory - working_set([task.container.memory for task in tree.tasks])),
        slowdowns=slowdowns,
    )


Pods = Callable[[], Iterable[Pod]]


class MemoryWatch:
    """Looks at the machines whose memory is known. ``pods`` returns those that are bound.

    ``label`` is that of pods which names their type.
    """

    def __init__(self, machines: Iterable[Machine], files: MachineFiles, pods: Pods, label: str) -> None:
        self._machines = tuple(machine for machine in machines if machine.memory_system is not None)
        self._files = files
        self._pods = pods
        self._label = label

    def states(self) -> dict[str, MemoryState]:
        """Return the current memory use, by node."""
        pods = by_node(self._pods()) if self._machines else {}
        states = {
            machine.name: memory_state(
                machine, self._files.root(machine.name), pods.get(machine.name, []), self._label
            )
            for machine in self._machines
        }
        return {name: state for name, state in states.items() if state is not None}


def series(states: Iterable[MemoryState]) -> Mapping[str, Measures]:
    """Return the measurements of nodes in these states, in base units, by column of a pressure."""
    every = tuple(states)
    columns = {
        "memorybandwidth_used": [state.used for state in every],
        "memorybandwidth_capacity": [state.bandwidth for state in every],
        "memorylatency": [state.latency for state in every],
        "memorylatency_idle": [IDLE_LATENCY for _ in every],
        "llc_capacity": [state.llc for state in every],
        "llc_occupancy": [state.llc_occupancy for state in every],
        "llc_mpki": [state.llc_mpki for state in every],
        "cpu": [state.cpu for state in every],
        "cpu_cores": [float(state.cpus) for state in every],
        "memory_available": [float(state.memory_available) for state in every],
    }
    return {name: np.array(values) for name, values in columns.items()}
