"""The usage of the node and its best-effort pods between two readings of the kernel's counters.

A sample is a difference of counters over monotonic time, so it needs an earlier reading. What cannot be
believed is *missed*, with the reason, and never zero: a counter that ran backwards, more CPU time than the
CPUs have, a clock that stood still or went back, a file that cannot be read. The next sample starts at the
reading of a missed one, unless nothing could be read; a reading older than ``LONGEST`` seconds starts none.

Usage is physical: milli-CPU as the kernel counts CPUs, and bytes of working set (without inactive file
pages). Time that a hypervisor gave to others counts as used by the node: it cannot be lent. A best-effort
cgroup that is not there uses nothing. One that is there and cannot be read is a miss; but where the kernel
does not account for its memory, all memory counts as that of online pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from corewise.agent.cgroups import NodeCgroups
from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import QOSClass
from corewise.kernel.cgroups.resources import read_usage, read_working_set
from corewise.kernel.errors import KernelError, Malformed, Missing
from corewise.kernel.host_files import HostFiles
from corewise.kernel.usage import BusyTime, MemoryInUse, read_busy_time, read_node_memory
from corewise.quantities import MILLI
from corewise.suppression.offer import Pinned, Usage

LONGEST = 150.0
"""Seconds that a sample may span."""
_NANO = 1_000_000_000
_TOLERANCE = 105
"""Percent of the CPUs' time that is believed, for clocks that are read one after the other."""
_TICKS = 20_000_000
"""Nanoseconds more for each CPU: the kernel counts in ticks of 10 ms."""


@dataclass(frozen=True, slots=True)
class PinnedPod:
    """A pod that owns CPUs. ``requested``: milli-CPU that cannot be lent, whether it uses them or not."""

    key: str
    cgroup: str
    requested: int


class Miss(StrEnum):
    """The kind of a missed sample, as the metric labels it."""

    FIRST = "first"
    UNREADABLE = "unreadable"
    CLOCK = "clock"
    STALE = "stale"
    BACKWARDS = "backwards"
    ABSURD = "absurd"


@dataclass(frozen=True, slots=True)
class Missed:
    """There is no sample, and why."""

    kind: Miss
    why: str


@dataclass(frozen=True, slots=True)
class _Counters:
    """Counters at one moment, in nanoseconds, and memory in bytes."""

    at: float
    node: BusyTime
    offline: int
    pinned: Mapping[str, int]
    node_memory: MemoryInUse
    offline_memory: int

    @property
    def node_used(self) -> int:
        return self.node.busy + self.node.stolen


class Samples(Protocol):
    """The interface through which a controller samples the usage of its node."""

    @property
    def cpus(self) -> int: ...

    def sample(self, now: float, pinned: Iterable[PinnedPod] = ()) -> Usage | Missed: ...

    def forget(self) -> None: ...


class Sampler:
    """The counters of one node. Synchronous: two files of the machine, two or three a cgroup."""

    def __init__(self, root: Path, cgroups: NodeCgroups) -> None:
        self._root = root
        self._cgroups = cgroups
        self._before: _Counters | None = None

    @property
    def cpus(self) -> int:
        """The number of CPUs online at the last reading; 0 before the first."""
        return self._before.node.cpus if self._before else 0

    def forget(self) -> None:
        """Start over: the next reading is the first."""
        self._before = None

    def sample(self, now: float, pinned: Iterable[PinnedPod] = ()) -> Usage | Missed:
        """Return the usage since the last reading. ``now`` is monotonic, in seconds."""
        owners = tuple(pinned)
        try:
            after = self._read(now, owners)
        except KernelError as error:
            return Missed(Miss.UNREADABLE, str(error))
        before, self._before = self._before, after
        if before is None:
            return Missed(Miss.FIRST, "this was the first reading: a sample needs two")
        return _implausible(before, after) or _usage(before, after, owners)

    def _read(self, now: float, pinned: Iterable[PinnedPod]) -> _Counters:
        found = self._cgroups.find()
        offline = found.names.qos(QOSClass.BEST_EFFORT)
        has_offline = found.files.exists(offline)
        host = HostFiles(self._root)
        node, memory = read_busy_time(host), read_node_memory(host)
        if node is None or memory is None:
            missing = Malformed(str(self._root / "proc"), "stat or meminfo is missing")
            raise next(iter(host.problems), missing)
        return _Counters(
            at=now,
            node=node,
            offline=read_usage(found.files, offline) if has_offline else 0,
            pinned=dict(_times(found.files, pinned)),
            node_memory=memory,
            offline_memory=_memory(found.files, offline) if has_offline else 0,
        )


def _times(files: Files, pinned: Iterable[PinnedPod]) -> Iterable[tuple[str, int]]:
    """Yield the CPU time of each pod that is there: one has just ended, another will start later."""
    for pod in pinned:
        try:
            yield pod.key, read_usage(files, pod.cgroup)
        except Missing:
            continue


def _memory(files: Files, cgroup: str) -> int:
    try:
        return read_working_set(files, cgroup)
    except Missing:
        return 0


def _implausible(before: _Counters, after: _Counters) -> Missed | None:
    """Return the reason that a difference is implausible; None if it is plausible."""
    elapsed = after.at - before.at
    if elapsed <= 0:
        return Missed(Miss.CLOCK, f"the clock went from {before.at:.3f} to {after.at:.3f} s")
    if elapsed > LONGEST:
        return Missed(
            Miss.STALE, f"the last reading is {elapsed:.0f} s old: no sample spans more than {LONGEST:.0f} s"
        )
    most = after.node.cpus * (int(elapsed * _NANO) * _TOLERANCE // 100 + _TICKS)
    deltas = {"the node": after.node_used - before.node_used, "offline pods": after.offline - before.offline}
    for whose, delta in deltas.items():
        if delta < 0:
            return Missed(Miss.BACKWARDS, f"the CPU time of {whose} ran backwards by {-delta / _NANO:.3f} s")
        if delta > most:
            grew = f"the CPU time of {whose} grew by {delta / _NANO:.3f} s in {elapsed:.3f} s"
            return Missed(Miss.ABSURD, f"{grew}, on {after.node.cpus} CPUs")
    return None


def _usage(before: _Counters, after: _Counters, pinned: Iterable[PinnedPod]) -> Usage:
    elapsed = int((after.at - before.at) * _NANO)
    node = min((after.node_used - before.node_used) * MILLI // elapsed, after.node.cpus * MILLI)
    return Usage(
        node_milli=node,
        offline_milli=min((after.offline - before.offline) * MILLI // elapsed, node),
        pinned=tuple(
            Pinned(pod.requested, max(0, after.pinned[pod.key] - before.pinned[pod.key]) * MILLI // elapsed)
            if pod.key in before.pinned and pod.key in after.pinned
            else Pinned(pod.requested, 0, is_known=pod.key not in {*before.pinned, *after.pinned})
            for pod in pinned
        ),
        node_memory=after.node_memory.used,
        offline_memory=min(after.offline_memory, after.node_memory.used),
        memory_total=after.node_memory.total,
    )
