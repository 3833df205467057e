"""The CPU and memory files of a cgroup, in v1 and v2.

=========  ===========================================  =============================
what       v1                                           v2
=========  ===========================================  =============================
quota      cpu.cfs_quota_us: -1 or microseconds         cpu.max: "max|quota period"
period     cpu.cfs_period_us                            in cpu.max
burst      cpu.cfs_burst_us (Linux 5.14)                cpu.max.burst (Linux 5.14)
weight     cpu.shares: 2..262144                        cpu.weight: 1..10000
idle       cpu.idle: 0 or 1 (Linux 5.15)                cpu.idle: 0 or 1 (Linux 5.15)
CPU set    cpuset.cpus, cpuset.effective_cpus           cpuset.cpus, cpuset.cpus.effective
CPU time   cpuacct.usage, ns                            cpu.stat: usage_usec
memory     memory.usage_in_bytes                        memory.current
limit      memory.limit_in_bytes: bytes, "-1": none     memory.max: bytes or "max"
inactive   memory.stat: total_inactive_file             memory.stat: inactive_file
=========  ===========================================  =============================

An idle cgroup gives way to its siblings, and a CPU that runs nothing else counts as idle when a task is
woken. It has no weight of its own: the kernel refuses one, and gives it the default weight when it is
idle no more.

A period that is only read may change at any time: on v2 a quota is then written alone, which by the
kernel's rule keeps the period, so no change of it is lost. Rules the kernel enforces: quota >= 1000 us;
period from 1 ms to 1 s; burst <= quota; on v1 a quota, taken relative to its period, at most the nearest
ancestor's.

Memory usage includes the page cache. The working set is usage without the pages of files not used
lately, which the kernel gives back first: what kubelet and ``kubectl top`` show.

Source: Documentation/scheduler/sched-bwc.rst, admin-guide/cgroup-v2.rst, admin-guide/cgroup-v1/memory.rst;
kernel/sched/core.c (tg_set_cfs_bandwidth, tg_cfs_schedulable_down), kernel/sched/fair.c
(sched_group_set_idle, sched_group_set_shares); kubelet (cAdvisor) setMemoryStats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from corewise.kernel.cgroups.files import Files, ReadableFiles
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.errors import KernelError, Malformed, Missing, Vanished
from corewise.quantities import Bytes, Microseconds
from corewise.topology import CPUSet, CPUSetError

SMALLEST_QUOTA = Microseconds(1000)
"""The kernel refuses less."""

IDLE_FILE = "cpu.idle"
"""In both versions."""

_NUMBER = re.compile(r"[0-9]{1,20}")
_USAGE = re.compile(r"^usage_usec ([0-9]{1,20})$", re.MULTILINE)
_SHARE_SHIFT = 20
_NANO_PER_MICRO = 1000


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """A CFS quota per period; None is unlimited."""

    quota: Microseconds | None
    period: Microseconds

    def fits_in(self, other: Bandwidth) -> bool:
        """Whether this is at most the other, as the kernel compares (BW_SHIFT) a child with its parent."""
        if other.quota is None:
            return True
        return self.quota is not None and _share(self.quota, self.period) <= _share(other.quota, other.period)

    def quota_over(self, period: Microseconds) -> Microseconds | None:
        """Return the quota that is the same share of another period, rounded down to what fits."""
        if self.quota is None or period == self.period:
            return self.quota
        return Microseconds(self.quota * period // self.period)

    def __str__(self) -> str:
        return f"{'max' if self.quota is None else self.quota} {self.period}"


def _share(quota: int, period: int) -> int:
    return (quota << _SHARE_SHIFT) // period


def quota_file(version: Version) -> str:
    """Return the file that a quota is written to."""
    return "cpu.max" if version is Version.V2 else "cpu.cfs_quota_us"


def period_file(version: Version) -> str:
    """Return the file that a period is written to."""
    return "cpu.max" if version is Version.V2 else "cpu.cfs_period_us"


def period_in(version: Version, text: str) -> Microseconds | None:
    """Return the period that a text for its file states; None for one that leaves the period alone."""
    words = text.split(" ")
    return Microseconds(int(words[-1])) if version is Version.V1 or len(words) > 1 else None


def burst_file(version: Version) -> str:
    """Return the file of the burst."""
    return "cpu.max.burst" if version is Version.V2 else "cpu.cfs_burst_us"


def weight_file(version: Version) -> str:
    """Return the file of the weight."""
    return "cpu.weight" if version is Version.V2 else "cpu.shares"


def quota_text(version: Version, quota: Microseconds | None) -> str:
    """Return the text to write for a quota."""
    if quota is None:
        return "max" if version is Version.V2 else "-1"
    return str(quota)


def read_bandwidth(files: Files, cgroup: str) -> Bandwidth:
    """Return a cgroup's quota and period.

    Raises:
        KernelError: among them Missing, Unreadable and Malformed.
    """
    if files.version is Version.V2:
        words = files.read(cgroup, "cpu.max").split(" ")
        if len(words) != 2:
            raise _malformed(cgroup, "cpu.max", " ".join(words))
        quota = None if words[0] == "max" else Microseconds(_number(cgroup, "cpu.max", words[0]))
        return Bandwidth(quota, _positive(cgroup, "cpu.max", words[1]))
    text = files.read(cgroup, "cpu.cfs_quota_us")
    period = files.read(cgroup, "cpu.cfs_period_us")
    quota = None if text == "-1" else Microseconds(_number(cgroup, "cpu.cfs_quota_us", text))
    return Bandwidth(quota, _positive(cgroup, "cpu.cfs_period_us", period))


def read_burst(files: Files, cgroup: str) -> Microseconds | None:
    """Return a cgroup's burst, or None if this kernel has none."""
    file = burst_file(files.version)
    try:
        return Microseconds(_read_number(files, cgroup, file))
    except Vanished:
        raise
    except Missing:  # the cgroup is there: this kernel has no burst
        return None


def read_weight(files: Files, cgroup: str) -> int:
    """Return cpu.shares on v1 (1024 by default), cpu.weight on v2 (100 by default)."""
    return _read_number(files, cgroup, weight_file(files.version))


def has_idle(files: Files, cgroup: str) -> bool:
    """Say whether a cgroup can be idle: its kernel has the file."""
    try:
        files.read(cgroup, IDLE_FILE)
    except KernelError:
        return False
    return True


def read_cpuset(files: Files, cgroup: str) -> CPUSet:
    """Return the CPUs asked for; empty means those of the parent."""
    return _cpus(files, cgroup, "cpuset.cpus")


def read_effective_cpuset(files: Files, cgroup: str) -> CPUSet:
    """Return the CPUs that the cgroup may really use."""
    v2 = files.version is Version.V2
    return _cpus(files, cgroup, "cpuset.cpus.effective" if v2 else "cpuset.effective_cpus")


def read_usage(files: ReadableFiles, cgroup: str) -> int:
    """Return the CPU time that a cgroup has used since it was made, in nanoseconds."""
    if files.version is Version.V1:
        return _read_number(files, cgroup, "cpuacct.usage")
    text = files.read(cgroup, "cpu.stat")
    match = _USAGE.search(text)
    if match is None:
        raise _malformed(cgroup, "cpu.stat", text)
    return int(match[1]) * _NANO_PER_MICRO


def _cpus(files: Files, cgroup: str, file: str) -> CPUSet:
    text = files.read(cgroup, file)
    try:
        return CPUSet.parse(text)
    except CPUSetError as error:
        raise _malformed(cgroup, file, text) from error


def _read_number(files: ReadableFiles, cgroup: str, file: str) -> int:
    return _number(cgroup, file, files.read(cgroup, file))


def _number(cgroup: str, file: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise _malformed(cgroup, file, text)
    return int(text)


def _positive(cgroup: str, file: str, text: str) -> Microseconds:
    number = _number(cgroup, file, text)
    if number <= 0:
        raise _malformed(cgroup, file, text)
    return Microseconds(number)


def _malformed(cgroup: str, file: str, text: str) -> KernelError:
    return Malformed(f"{cgroup}/{file}", f"unexpected content {text[:80]!r}")


def usage_file(version: Version) -> str:
    """Return the file of what is in use, page cache included."""
    return "memory.current" if version is Version.V2 else "memory.usage_in_bytes"


def limit_file(version: Version) -> str:
    """Return the file of the limit."""
    return "memory.max" if version is Version.V2 else "memory.limit_in_bytes"


def read_memory_usage(files: Files, cgroup: str) -> Bytes:
    """Return the memory that a cgroup and those below it use, page cache included.

    Raises:
        KernelError: among them Missing, Unreadable and Malformed.
    """
    return Bytes(_read_number(files, cgroup, usage_file(files.version)))


def read_working_set(files: Files, cgroup: str) -> Bytes:
    """Return the memory that a cgroup and those below it use, without inactive pages of files.

    Raises:
        KernelError: among them Missing, Unreadable and Malformed.
    """
    field = "inactive_file" if files.version is Version.V2 else "total_inactive_file"
    usage = read_memory_usage(files, cgroup)
    text = files.read(cgroup, "memory.stat")
    fields = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    if field not in fields:
        raise Malformed(f"{cgroup}/memory.stat", f"there is no {field}")
    return Bytes(max(0, usage - _number(cgroup, "memory.stat", fields[field])))
