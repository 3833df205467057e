"""Hardware counters by perf_event_open(2): groups of events, each on one CPU, read together and scaled.

Needs CAP_PERFMON (or perf_event_paranoid below 1), a seccomp profile that allows the call, and a processor,
or a hypervisor, that counts. The call is made by ctypes: the C library has no function for it, and its number
differs between architectures. Where that is not known here, counting is not supported.

When more events are wanted than a processor has counters, the kernel lets groups take turns. What was counted
in the time that a group ran stands for the time it was enabled:

    growth = (value after - before) x (enabled after - before) / (running after - before)

:class:`MissCounters` counts instructions and cache misses of a whole machine: on each CPU a group of the two,
which see the same time. MPKI is 1000 x misses / instructions of these sums; the counters' own times cancel
out. Misses are reads that miss the last level (LL), where the kernel knows that event. For AMD's Zen it does
not; its general event "cache misses" counts reads that miss the second level there (L2), and the level is
reported with the figure. Figures of different levels do not compare.

Source: perf_event_open(2), "Reading results"; include/uapi/linux/perf_event.h (struct perf_event_attr,
PERF_ATTR_SIZE_VER1); arch/x86/events/{intel,amd}/core.c (hw_cache_event_ids; amd_zen2_perfmon_event_map:
0x0964, an L2 miss), drivers/perf/arm_pmuv3.c (LL_CACHE_MISS_RD).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from corewise.kernel.host_files import HostFiles
from corewise.kernel.machine import read_cpus
from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

_ATTRIBUTES = struct.Struct("=IIQQQQQIIQQ")
"""type, size, config, sample_period, sample_type, read_format, flags, wakeup_events, bp_type, config1, -2."""

_TOTAL_TIME_ENABLED, _TOTAL_TIME_RUNNING, _GROUP = 1 << 0, 1 << 1, 1 << 3
_READ_FORMAT = _TOTAL_TIME_ENABLED | _TOTAL_TIME_RUNNING | _GROUP

_HEADER = struct.Struct("=QQQ")
_VALUE = 8
_HARDWARE, _HARDWARE_CACHE = 0, 3
_LAST_LEVEL, _READ, _MISS = 2, 0, 1


@dataclass(frozen=True, slots=True)
class PerfEvent:
    """One event of the performance unit that ``type`` names."""

    type: int
    config: int
    config1: int = 0
    config2: int = 0

    def attributes(self) -> bytes:
        """Return the struct that the kernel takes: counting from the start on, in user and kernel space."""
        fields = (self.type, _ATTRIBUTES.size, self.config, 0, 0, _READ_FORMAT, 0, 0, 0)
        return _ATTRIBUTES.pack(*fields, self.config1, self.config2)


INSTRUCTIONS = PerfEvent(_HARDWARE, 1)
CACHE_MISSES = PerfEvent(_HARDWARE, 3)
"""The event counted here depends on the processor: on AMD's Zen it is misses of the second level."""
LAST_LEVEL_READ_MISSES = PerfEvent(_HARDWARE_CACHE, _LAST_LEVEL | _READ << 8 | _MISS << 16)


@dataclass(frozen=True, slots=True)
class GroupReading:
    """Values since the group was opened, and the nanoseconds that it was enabled and that it ran."""

    enabled: int
    running: int
    values: tuple[int, ...]

    @classmethod
    def parse(cls, content: bytes) -> GroupReading:
        """Read what the kernel returns for a group.

        Raises:
            ValueError: if it is cut short, as that of a group whose CPU has gone offline.
        """
        if len(content) < _HEADER.size:
            raise ValueError("the group has no reading")
        count, enabled, running = _HEADER.unpack_from(content)
        if len(content) != _HEADER.size + count * _VALUE:
            raise ValueError(f"{count} values in {len(content)} bytes")
        return cls(enabled, running, struct.unpack_from(f"={count}Q", content, _HEADER.size))

    def is_reset_of(self, before: GroupReading) -> bool:
        """Say whether anything went back since, so that the two cannot be compared."""
        times = self.enabled < before.enabled or self.running < before.running
        return times or any(new < old for new, old in zip(self.values, before.values, strict=True))


def reading_size(events: int) -> int:
    """Return the bytes of a group's reading."""
    return _HEADER.size + events * _VALUE


def growth(before: GroupReading, after: GroupReading) -> tuple[int, ...] | None:
    """Return the scaled growth of each value; None if the group did not run in between.

    ``after`` is not a reset of ``before``.
    """
    running = after.running - before.running
    if not running:
        return None
    enabled = after.enabled - before.enabled
    pairs = zip(before.values, after.values, strict=True)
    return tuple((new - old) * enabled // running for old, new in pairs)


_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_EVERY_PROCESS = -1
_CLOSE_ON_EXEC = 8

_NOT_PERMITTED = {errno.EACCES, errno.EPERM}
MISSING = frozenset({errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
"""Errors that say: not counted here. Another CPU of the machine may count it."""


class Perf(Protocol):
    """The part of the kernel that counts. Every method may raise OSError."""

    def open(self, event: PerfEvent, cpu: int, leader: int = -1) -> int:
        """Count an event on a CPU, for all processes, in the leader's group; return its file descriptor."""

    def read(self, fd: int, size: int) -> bytes:
        """Return the reading of a leader's group."""

    def close(self, fd: int) -> None:
        """Stop counting."""


class KernelPerf:
    """The kernel that this process runs on."""

    def __init__(self) -> None:
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._number = _NUMBERS.get(platform.machine())

    def open(self, event: PerfEvent, cpu: int, leader: int = -1) -> int:
        if self._number is None:
            raise OSError(errno.ENOSYS, f"perf_event_open is not known on {platform.machine()}")
        attributes = ctypes.create_string_buffer(event.attributes())
        numbers = (_EVERY_PROCESS, cpu, leader, _CLOSE_ON_EXEC)
        fd = int(self._call(ctypes.c_long(self._number), attributes, *map(ctypes.c_long, numbers)))
        if fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return fd

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def close(self, fd: int) -> None:
        os.close(fd)


def absence(error: OSError, what: str) -> Finding:
    """Return the reason code and text for a failed call."""
    code = error.errno or 0
    name = errno.errorcode.get(code, str(code))
    if code in _NOT_PERMITTED:
        reason = Reason.PERF_NOT_PERMITTED
    else:
        reason = Reason.PERF_EVENT_MISSING if code in MISSING else Reason.PERF_FAILED
    return Finding(reason, f"perf_event_open of {what}: {name} ({error.strerror})")


K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class WantedEvents:
    """Events to be counted together on one CPU."""

    cpu: int
    events: tuple[PerfEvent, ...]


class CounterGroup:
    """One group that counts."""

    def __init__(self, perf: Perf, wanted: WantedEvents) -> None:
        """Begin to count.

        Raises:
            OSError: if the kernel does not, with nothing left open.
        """
        self._perf = perf
        self._fds: list[int] = []
        try:
            for event in wanted.events:
                self._fds.append(perf.open(event, wanted.cpu, self._fds[0] if self._fds else -1))
        except OSError:
            self.close()
            raise
        self._before = self._read()

    def grown(self) -> tuple[int, ...] | None:
        """Return the scaled counts since the last answer.

        None: the group did not run, and the next answer has all since the last one; or there is nothing to
        compare with, and the next answer begins here.
        """
        before, after = self._before, self._read()
        if after is None:
            return None
        if before is None or after.is_reset_of(before):
            self._before = after
            return None
        counted = growth(before, after)
        if counted is not None:
            self._before = after
        return counted

    def close(self) -> None:
        while self._fds:
            with suppress(OSError):
                self._perf.close(self._fds.pop())

    def _read(self) -> GroupReading | None:
        try:
            return GroupReading.parse(self._perf.read(self._fds[0], reading_size(len(self._fds))))
        except (OSError, ValueError):
            return None


class Groups(dict[K, CounterGroup]):
    """Groups that count, by key."""

    def grown(self) -> dict[K, tuple[int, ...]]:
        grown = ((key, group.grown()) for key, group in self.items())
        return {key: counted for key, counted in grown if counted is not None}

    def close(self) -> None:
        for group in self.values():
            group.close()


def open_groups(perf: Perf, wanted: Mapping[K, WantedEvents], what: str) -> Groups[K] | Finding:
    """Begin to count all that is wanted.

    A group that its CPU does not know is left out (an efficiency core, one going offline), unless all are.
    Any other error ends it all: half a machine is of no use.
    """
    groups: Groups[K] = Groups()
    missing: OSError | None = None
    for key, each in wanted.items():
        try:
            groups[key] = CounterGroup(perf, each)
        except OSError as error:
            if error.errno not in MISSING:
                groups.close()
                return absence(error, what)
            missing = missing or error
    if not groups:
        return absence(missing or FileNotFoundError(2, "nothing to count on"), what)
    return groups


_CPUINFO = "proc/cpuinfo"
_ZEN = re.compile(r"^vendor_id\s*: (?:AuthenticAMD|HygonGenuine)$", re.MULTILINE)
_WHAT = "instructions and cache misses"
LAST_LEVEL, SECOND_LEVEL = "LL", "L2"


@dataclass(frozen=True, slots=True)
class MissTotals:
    """The counts of all CPUs since the first reading; ``level``: the cache that was missed."""

    instructions: int
    misses: int
    level: str


class MissCounters:
    """The groups of one machine: opened at the first reading, and reopened when other CPUs are online."""

    def __init__(self, perf: Perf, files: HostFiles) -> None:
        self._perf = perf
        self._files = files
        self._cpus = CPUSet()
        self._groups: Groups[int] | None = None
        self._level = ""
        self._instructions = self._misses = 0

    def read(self) -> MissTotals | Finding:
        """Return the totals; a Finding at the first reading, and where nothing was counted since the last."""
        online, _ = read_cpus(self._files)
        if self._groups is None or online != self._cpus:
            self.close()
            absent = self._open(online)
            if absent is not None:
                return absent
        grown = self._groups.grown() if self._groups else {}
        if not grown:
            return Finding(Reason.PERF_NO_VALUE, "the counters ran on no CPU since the last reading")
        instructions, misses = (sum(counts) for counts in zip(*grown.values(), strict=True))
        self._instructions += instructions
        self._misses += misses
        return MissTotals(self._instructions, self._misses, self._level)

    def close(self) -> None:
        if self._groups is not None:
            self._groups.close()
        self._groups = None

    def _open(self, online: CPUSet) -> Finding | None:
        first: Finding | None = None
        levels = [(LAST_LEVEL, LAST_LEVEL_READ_MISSES)]
        if _ZEN.search(self._files.text(_CPUINFO) or ""):
            levels.append((SECOND_LEVEL, CACHE_MISSES))
        for level, misses in levels:
            wanted = {cpu: WantedEvents(cpu, (INSTRUCTIONS, misses)) for cpu in online}
            opened = open_groups(self._perf, wanted, _WHAT)
            if isinstance(opened, Groups):
                self._cpus, self._groups, self._level = online, opened, level
                return None
            first = first or opened
            if opened.reason is not Reason.PERF_EVENT_MISSING:
                break
        return first
