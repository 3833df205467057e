"""The conditions under which a CPU is measured: how busy and how hot the machine is, and what it is.

====================  ==============================================================================
times                 /proc/stat: see :mod:`corewise.kernel.usage`
pressure              /proc/pressure/cpu, ``some``: the time in which a task could run and had no CPU
                      (Linux 4.20; not with psi=0)
heated                thermal_throttle/{core,package}_throttle_count of each CPU: how often the processor
                      was slowed down because of its temperature (Intel; others have no such files)
frequency             cpufreq/cpuinfo_max_freq, kHz; most virtual machines have none
microcode             ``microcode`` of /proc/cpuinfo (x86)
====================  ==============================================================================

Source: Documentation/accounting/psi.rst, Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from corewise.kernel.cpu_facts import CPUINFO
from corewise.kernel.host_files import HostFiles
from corewise.kernel.machine import CPUS
from corewise.kernel.usage import CPUTime, read_cpu_times

PRESSURE = "proc/pressure/cpu"
RELEASE = "proc/sys/kernel/osrelease"
_COUNTS = ("core_throttle_count", "package_throttle_count")
_SOME = re.compile(r"^some .*\btotal=([0-9]{1,20})$", re.MULTILINE)
_MICROCODE = re.compile(r"^microcode\s*:\s*(0x[0-9a-fA-F]{1,16})$", re.MULTILINE)
_FIRST_CPU = 1 << 16


@dataclass(frozen=True, slots=True)
class CPUConditions:
    """Counters at one moment; ``pressure`` in microseconds, None where the kernel does not tell."""

    times: Mapping[int, CPUTime]
    pressure: int | None
    heated: int


@dataclass(frozen=True, slots=True)
class CPUIdentity:
    """What scores depend on beside the model: 0 or "" is unknown."""

    frequency: int
    kernel: str
    microcode: str


def read_conditions(files: HostFiles) -> CPUConditions | None:
    """Return the counters; None if /proc/stat cannot be read."""
    times = read_cpu_times(files)
    if times is None:
        return None
    return CPUConditions(times, files.parsed(PRESSURE, waited), read_heated(files))


def waited(pressure: str) -> int:
    """Return the microseconds in which a task waited, in a text like /proc/pressure/cpu.

    Raises:
        ValueError: if it has no line ``some``.
    """
    match = _SOME.search(pressure)
    if match is None:
        raise ValueError("has no line some")
    return int(match[1])


def read_heated(files: HostFiles) -> int:
    """Return the number of times since boot that CPUs were slowed down because of their temperature."""
    places = (
        f"{CPUS}/cpu{cpu}/thermal_throttle/{count}"
        for cpu in files.numbered(CPUS, "cpu")
        for count in _COUNTS
    )
    return sum(files.number(place) or 0 for place in places)


def read_identity(files: HostFiles, cpu: int) -> CPUIdentity:
    """Return the facts that scores of a CPU depend on."""
    microcode = _MICROCODE.search(files.text(CPUINFO, longest=_FIRST_CPU) or "")
    return CPUIdentity(
        frequency=files.number(f"{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq") or 0,
        kernel=files.text(RELEASE) or "",
        microcode=microcode[1] if microcode else "",
    )
