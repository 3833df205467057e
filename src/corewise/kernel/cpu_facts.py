"""CPU facts from /proc and /sys: model, vendor, hyper-threading, turbo, L3 mask. No ``lscpu`` is run.

====================  ==============================================================================
model                 first ``model name`` of /proc/cpuinfo; on ARM, which has none, the name of its
                      implementer and part as ``lscpu`` prints it; else ``unknown``
vendor                first ``vendor_id``; on ARM the implementer's name
hyper-threading       cpu/smt/active is 1, else any core has more than one online thread
turbo                 intel_pstate/no_turbo is 0, else cpufreq/boost is 1 (acpi-cpufreq, amd-pstate), else
                      off. Kernels before 6.11 do not tell with amd-pstate in active mode: off.
L3 mask               info/L3/cbm_mask of resctrl, if that is mounted
====================  ==============================================================================

A fact whose file is there but cannot be read is None: left out, and the problem tells why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from corewise.config.facts import CPUFacts
from corewise.kernel.arm_parts import UNKNOWN, implementer_name, part_name
from corewise.kernel.host_files import HostFiles
from corewise.topology import Topology

CPUINFO = "proc/cpuinfo"
SMT_ACTIVE = "sys/devices/system/cpu/smt/active"
NO_TURBO = "sys/devices/system/cpu/intel_pstate/no_turbo"
BOOST = "sys/devices/system/cpu/cpufreq/boost"
L3_MASK = "sys/fs/resctrl/info/L3/cbm_mask"

_FIRST_CPUS = 1 << 16
"""Bytes of /proc/cpuinfo that surely hold its first CPU: the file makes the kernel ask every CPU it lists."""

_LONGEST_NAME = 128
_FIELD = re.compile(r"^([^\t:\n][^:\n]*?)[ \t]*:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_MASK = re.compile(r"[0-9a-fA-F]{1,16}")


@dataclass(frozen=True, slots=True)
class ObservedCPU:
    """The CPU facts of a machine. None is a fact that could not be read."""

    model: str | None
    vendor: str | None
    hyper_threading: bool | None
    turbo: bool | None
    l3_mask: str | None

    @property
    def facts(self) -> CPUFacts:
        """The same as readers of the report take it: what is left out is false or unknown."""
        return CPUFacts(
            model=self.model or UNKNOWN,
            hyper_threading=bool(self.hyper_threading),
            turbo=bool(self.turbo),
            l3_mask=self.l3_mask or "",
            vendor=self.vendor or "",
        )


def read_cpu_facts(files: HostFiles, topology: Topology) -> ObservedCPU:
    """Read the facts; ``topology`` is that of the CPUs online. Problems are noted in ``files``."""
    cpuinfo = files.text(CPUINFO, longest=_FIRST_CPUS)
    fields = None if cpuinfo is None and files.failed(CPUINFO) else first_fields(cpuinfo or "")
    active = files.flag(SMT_ACTIVE)
    return ObservedCPU(
        model=None if fields is None else model_of(fields),
        vendor=None if fields is None else vendor_of(fields),
        hyper_threading=bool(active) or topology.hyper_threading,
        turbo=_turbo(files),
        l3_mask=_l3_mask(files),
    )


def first_fields(cpuinfo: str) -> Mapping[str, str]:
    """Return each field of /proc/cpuinfo as it first occurs."""
    fields: dict[str, str] = {}
    for match in _FIELD.finditer(cpuinfo):
        fields.setdefault(match[1], match[2])
    return fields


def model_of(fields: Mapping[str, str]) -> str:
    """Return the CPU's model: see the module's table."""
    name = _printable(fields.get("model name", ""))
    if name:
        return name
    part = _hexadecimal(fields.get("CPU part", ""))
    return UNKNOWN if part is None else part_name(_implementer(fields), part)


def vendor_of(fields: Mapping[str, str]) -> str:
    """Return the vendor's id, or "" if the kernel does not tell."""
    return _printable(fields.get("vendor_id", "")) or implementer_name(_implementer(fields))


def _implementer(fields: Mapping[str, str]) -> int:
    number = _hexadecimal(fields.get("CPU implementer", ""))
    return -1 if number is None else number


def _hexadecimal(text: str) -> int | None:
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else None


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text))[:_LONGEST_NAME].strip()


def _turbo(files: HostFiles) -> bool | None:
    if files.flag(NO_TURBO) is False:
        return True
    boost = files.flag(BOOST)
    if boost is None and (files.failed(NO_TURBO) or files.failed(BOOST)):
        return None
    return boost is True


def _l3_mask(files: HostFiles) -> str | None:
    mask = files.parsed(L3_MASK, _mask)
    return None if mask is None and files.failed(L3_MASK) else mask or ""


def _mask(text: str) -> str:
    if not _MASK.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a mask in hexadecimal digits")
    return text
