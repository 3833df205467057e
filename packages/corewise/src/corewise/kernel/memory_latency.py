"""The latency of one memory read, by NUMA node: on CPUs of the node, with memory of the node.

No counter has this, so it is measured. It needs no privilege, in a virtual machine neither. The helper in C,
``chase.c``, is compiled by ``hatch_build.py`` where the package is built. Where there was no compiler, or the
processor is neither x86-64 nor arm64, there is no library beside this file, and only this metric is missing.

A probe is 64 rounds of 256 reads, each from memory, and the median of the rounds; what is interrupted in
between is an outlier that the median does not see. The first round, which also meets pages and code for the
first time, does not count.

The calling thread is bound to the node's CPUs meanwhile, without those that the kernel isolates. The kernel
removes what the thread may not have anyway (its cgroup's CPU set), so a probe never runs on CPUs that a pod
owns.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from corewise.kernel.host_files import HostFiles
from corewise.kernel.machine import CPUS, NODES, read_cpus
from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

LIBRARY = Path(__file__).with_name("chase.so")


class Chase:
    """The compiled helper. ``lines``: how many reads a round is."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._chase = library.corewise_chase
        self._chase.argtypes = (ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64))
        self._chase.restype = ctypes.c_int
        library.corewise_chase_lines.restype = ctypes.c_uint32
        self.lines = int(library.corewise_chase_lines())

    def run(self, rounds: int) -> list[int]:
        """Return the nanoseconds of each round, on the CPU that this thread runs on. Other threads go on.

        Raises:
            OSError: if there is no memory for it.
        """
        times = (ctypes.c_uint64 * rounds)()
        code = self._chase(rounds, times)
        if code:
            raise OSError(code, os.strerror(code))
        return list(times)


def load_chase(path: Path = LIBRARY) -> Chase | Finding:
    """Load the helper, if it was built for this machine."""
    if not path.exists():
        return Finding(
            Reason.LATENCY_PROBE_NOT_BUILT, f"there is no {path.name} beside the package's modules"
        )
    try:
        return Chase(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        return Finding(Reason.LATENCY_PROBE_NOT_BUILT, f"{path.name} is not for this machine: {error}")


ROUNDS = 64
_NANO = 1e9


@dataclass(frozen=True, slots=True)
class Latency:
    """One probe: seconds of one read in each round that counts, and the CPU time that the probe took."""

    rounds: tuple[float, ...]
    cpu_seconds: float

    @property
    def seconds(self) -> float:
        return median(self.rounds)


def numa_cpus(files: HostFiles) -> Mapping[int, CPUSet]:
    """Return the CPUs to probe on, for each NUMA node that has any; without NUMA directories, of node 0."""
    isolated = files.cpus(f"{CPUS}/isolated") or CPUSet()
    nodes = files.numbered(NODES, "node")
    found = {node: (files.cpus(f"{NODES}/node{node}/cpulist") or CPUSet()) - isolated for node in nodes}
    if not nodes:
        found = {0: read_cpus(files)[0] - isolated}
    return {node: cpus for node, cpus in found.items() if cpus}


def probe(chase: Chase, cpus: CPUSet) -> Latency:
    """Probe from these CPUs. Takes some milliseconds; belongs into a thread of its own.

    Raises:
        OSError: if none of the CPUs may be used, or there is no memory.
    """
    with bound_to(cpus):
        began = time.thread_time()
        times = chase.run(ROUNDS + 1)[1:]  # the first round also pays for page faults and cold code
        cost = time.thread_time() - began
    return Latency(tuple(each / chase.lines / _NANO for each in times), cost)


@contextmanager
def bound_to(cpus: CPUSet) -> Iterator[None]:
    """Run this thread on these CPUs only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        with suppress(OSError):  # its CPU set has changed meanwhile: the next probe binds it again
            os.sched_setaffinity(0, before)
