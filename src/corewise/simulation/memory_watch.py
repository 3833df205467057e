"""The memory of the cluster's nodes, and what the scheduler is told of it, as a Prometheus would tell it.

Values are those of the plant, the averages of a window. Between two looks lies more than such a window of
simulated time: who ran at the last one shows in full, and is no counterweight any more. Pods placed since
then are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from corewise.config.interference import InterferenceConfiguration, Profile
from corewise.engine import Interference, Measured, PodFacts
from corewise.manager.objects import DemandingPod
from corewise.scheduler.active_config import estimates_of
from corewise.scheduler.configuration import SchedulerConfiguration
from corewise.simulation.contention import IDLE_LATENCY
from corewise.simulation.local_scheduler import LocalScheduler
from corewise.simulation.machine_files import MachineFiles
from corewise.simulation.machines import Machine
from corewise.simulation.measurement import by_node
from corewise.simulation.memory_state import MemoryState, memory_state

EVERY = 5.0
"""Seconds between two looks while nothing is asked for."""

Pods = Callable[[], Iterable[DemandingPod]]


class MemoryWatch:
    """Looks at the machines whose memory is known. ``pods`` returns those that are bound.

    The scheduler is told nothing before ``turn_on`` has applied its configuration.
    """

    def __init__(self, machines: Iterable[Machine], files: MachineFiles, pods: Pods) -> None:
        self._machines = tuple(machine for machine in machines if machine.memory_system is not None)
        self._files = files
        self._pods = pods
        self._told: tuple[LocalScheduler, InterferenceConfiguration] | None = None
        self._type_label = InterferenceConfiguration().type_label

    def turn_on(self, scheduler: LocalScheduler, configuration: SchedulerConfiguration) -> None:
        """Apply a configuration."""
        scheduler.active.apply(configuration)
        if configuration.interference is not None:
            self._told = scheduler, configuration.interference
            self._type_label = configuration.interference.type_label

    def states(self) -> dict[str, MemoryState]:
        """Return how memory is used now, by node."""
        pods = by_node(self._pods()) if self._machines else {}
        states = {
            machine.name: memory_state(
                machine, self._files.root(machine.name), pods.get(machine.name, []), self._type_label
            )
            for machine in self._machines
        }
        return {name: state for name, state in states.items() if state is not None}

    def show(self) -> None:
        """Show the scheduler how nodes are now."""
        if self._told is None or not self._machines:
            return
        scheduler, settings = self._told
        active = scheduler.active
        shown = frozenset(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in self._pods())
        plugin = Interference(settings, active.now)

        def profile_of(pod: PodFacts) -> Profile | None:
            return None if pod.key in shown else plugin.profile_of(pod)

        estimates = replace(estimates_of(plugin, active.now), profile_of=profile_of)
        scheduler.state.cluster.estimate(estimates)
        active.measure(measured(self.states(), active.now()))

    async def run(self) -> None:
        """Show it again and again, until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            self.show()


def measured(states: Mapping[str, MemoryState], now: float) -> Measured:
    """Return what would be measured of nodes in these states."""
    every = states.values()
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
    at = np.full(len(states), now)
    return Measured(tuple(states), {name: (np.array(values), at) for name, values in columns.items()})
