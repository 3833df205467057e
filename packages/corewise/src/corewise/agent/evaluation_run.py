"""Measures one CPU for two seconds in a child process, and ends as soon as other work wants the CPU.

The child (:mod:`corewise.agent.calibration_worker`) has the policy SCHED_IDLE and runs in a cgroup of its own
that is idle (:mod:`corewise.kernel.cgroups.idle`), both before its interpreter starts
(:mod:`corewise.kernel.idle_start`): there it gives way to every other task at once. Where the
kernel refuses that cgroup (cgroup v2, in a container without the host's cgroup namespace; Linux before 5.15)
the child stays in the agent's. There the weight of the agent's pod counts, one of the smallest of the
node, and a task that wakes up on that CPU may wait for one slice, about 3 ms. That happens hardly more than
once a run: the child stops once others have had the CPU for half a millisecond.

The agent looks at the node after each kernel of the mix. All of this blocks: it runs in a thread.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Protocol

from corewise.agent.calibration import WorkerError, WorkerStarvedError, idle_worker
from corewise.agent.calibration_worker import lost_too_much
from corewise.kernel.cgroups.idle import IdleCgroup
from corewise.kernel.cgroups.layout import find_layout
from corewise.kernel.cgroups.own import OwnCgroup
from corewise.kernel.cpu_conditions import CPUConditions, read_conditions
from corewise.kernel.errors import KernelError
from corewise.kernel.host_files import HostFiles
from corewise.kernel.usage import busy_share, stolen_share
from corewise.normalization.evaluation import KERNEL_NANOSECONDS, Meanwhile, disturbance
from corewise.normalization.mix import KERNELS, Done
from corewise.topology import CPUSet, Topology
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

PATIENCE = 5.0
"""Seconds: a child that gets no CPU time for so long is not waited for."""

_TEN_THOUSAND = 10_000
_log = logging.getLogger(__name__)


class Bench(Protocol):
    """Measures CPUs of this machine; a test has one of its own."""

    def allowed(self) -> CPUSet:
        """Return the CPUs that this process may use."""

    def memory_left(self) -> int | None:
        """Return the bytes up to this process's memory limit; None without one."""

    def measure(self, topology: Topology, cpu: int, stop: Event) -> Mapping[str, Done] | Finding:
        """Run every kernel of the mix on a CPU; return what was done, or why the run does not count."""


class Place(Protocol):
    """A cgroup for the child."""

    def take(self, process: int) -> None:
        """Move a process into the cgroup.

        Raises:
            KernelError: if the kernel refuses; the process stays where it is.
        """

    def remove(self) -> None:
        """Remove what was made for the process, which has ended."""


class KernelBench:
    """Measures CPUs of the running kernel, whose files are below ``root``; by default in an idle cgroup."""

    def __init__(
        self,
        root: Path,
        *,
        duration: int = KERNEL_NANOSECONDS,
        patience: float = PATIENCE,
        place: Place | None = None,
    ) -> None:
        self._root = root
        self._duration = duration
        self._patience = patience
        self._place = place or _idle_cgroup(root)

    def allowed(self) -> CPUSet:
        return CPUSet.of(os.sched_getaffinity(0))

    def memory_left(self) -> int | None:
        own = OwnCgroup()
        try:
            return own.memory_left()
        finally:
            own.close()

    def measure(self, topology: Topology, cpu: int, stop: Event) -> Mapping[str, Done] | Finding:
        place, done = self._place, dict[str, Done]()

        def isolate(process: int) -> None:
            if place is None:
                return
            try:
                place.take(process)
            except KernelError as error:
                _log.info("the evaluation runs in the agent's own cgroup: %s", error)

        try:
            with idle_worker(cpu, isolate, self._patience) as worker:
                watch = _Watch(self._root, topology, cpu)
                for kernel in KERNELS:
                    if stop.is_set():
                        return Finding(Reason.EVALUATION_INTERRUPTED, "the agent is stopping")
                    done[kernel] = worker.run(kernel, CPUSet.of([cpu]), self._duration)[cpu]
                    found = disturbance(watch.look(done[kernel]), cpu)
                    if found is not None:
                        return found
        except WorkerStarvedError as error:
            return Finding(Reason.EVALUATION_INTERRUPTED, f"other work wanted CPU {cpu}: {error}")
        except WorkerError as error:
            return Finding(Reason.EVALUATION_FAILED, str(error))
        finally:
            if place is not None:
                place.remove()
        return done


def _idle_cgroup(root: Path) -> IdleCgroup | None:
    """Return the idle cgroup of a machine; None if it has no cgroups."""
    with suppress(KernelError):
        return IdleCgroup(find_layout(root))
    return None


class _Watch:
    """Compares the node's counters with those at the last look."""

    def __init__(self, root: Path, topology: Topology, cpu: int) -> None:
        self._root = root
        self._own = CPUSet.of([cpu])
        self._siblings = topology.siblings(cpu) - self._own
        self._others = topology.cpus - self._siblings - self._own
        self._cgroup = OwnCgroup()
        self._throttled = self._cgroup.throttled()
        self._before = self._read()

    def look(self, done: Done) -> Meanwhile:
        """Return the disturbances since the last look, in which the worker did this."""
        before, after = self._before, self._read()
        throttled, self._throttled = self._throttled, self._cgroup.throttled()
        self._before = after
        held_back = throttled is not None and self._throttled is not None and self._throttled > throttled
        gave_way = lost_too_much(done.elapsed, done.cpu)
        if before is None or after is None:
            return Meanwhile(gave_way=gave_way, throttled=held_back)
        return Meanwhile(
            gave_way=gave_way,
            others=busy_share(before.times, after.times, self._others),
            siblings=busy_share(before.times, after.times, self._siblings),
            pressure=pressure_share(before, after, self._own),
            stolen=stolen_share(before.times, after.times, self._own),
            heated=max(0, after.heated - before.heated),  # fewer where a CPU went offline
            throttled=held_back,
        )

    def _read(self) -> CPUConditions | None:
        return read_conditions(HostFiles(self._root))


def pressure_share(before: CPUConditions, after: CPUConditions, cpus: CPUSet) -> int:
    """Return the part of the time between two readings in which a task waited for a CPU, in basis points.

    0 where the kernel does not tell. ``cpus`` are CPUs online, whose ticks say how much time has passed.
    """
    both = [
        (before.times[cpu], after.times[cpu]) for cpu in cpus if cpu in before.times and cpu in after.times
    ]
    ticks = max((last.total - first.total for first, last in both), default=0)
    if before.pressure is None or after.pressure is None or ticks <= 0:
        return 0
    # Microseconds a tick of 10,000 of them: that is basis points.
    return min(_TEN_THOUSAND, max(0, after.pressure - before.pressure) // ticks)
