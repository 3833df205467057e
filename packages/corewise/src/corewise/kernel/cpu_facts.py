"""CPU facts from /proc and /sys: model, vendor, hyper-threading, turbo, L3 mask. No ``lscpu`` is run.

====================  ==============================================================================
model                 first ``model name`` of /proc/cpuinfo; on ARM, which has none, the name of its
                      implementer and part as ``lscpu`` prints it; else ``unknown``
vendor                first ``vendor_id``; on ARM the implementer's name
hyper-threading       cpu/smt/active is 1, else any core has more than one online thread
turbo                 intel_pstate/no_turbo is 0, else cpufreq/boost is 1 (acpi-cpufreq, amd-pstate), else
                      off. Kernels before 6.11 do not state it with amd-pstate in active mode: off.
L3 mask               info/L3/cbm_mask of resctrl, if that is mounted
====================  ==============================================================================

A fact whose file is there but cannot be read is None: left out, and the problem says why.

ARM's numbers are the implementer and part fields of the MIDR register. The table has the parts that servers,
clouds and the usual boards have; a part that is not in it is "unknown", as with an lscpu that is too old.

Source of the numbers: Linux arch/arm64/include/asm/cputype.h. Source of the names: util-linux, lscpu.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from corewise.config.facts import CPUFacts
from corewise.kernel.host_files import HostFiles
from corewise.topology import Topology

UNKNOWN = "unknown"
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
    unreadable = cpuinfo is None and files.failed(CPUINFO)
    model, vendor = (None, None) if unreadable else model_and_vendor(cpuinfo or "")
    mask = files.parsed(L3_MASK, _mask)
    return ObservedCPU(
        model=model,
        vendor=vendor,
        hyper_threading=bool(files.flag(SMT_ACTIVE)) or topology.hyper_threading,
        turbo=_turbo(files),
        l3_mask=None if mask is None and files.failed(L3_MASK) else mask or "",
    )


def model_and_vendor(cpuinfo: str) -> tuple[str, str]:
    """Return the CPU's model and vendor from a text like /proc/cpuinfo: see the module's table."""
    # Each CPU repeats the fields: reversed, so that the dictionary keeps those of the first.
    fields = dict(reversed(_FIELD.findall(cpuinfo)))
    implementer = _hexadecimal(fields.get("CPU implementer", ""))
    part = _hexadecimal(fields.get("CPU part", ""))
    model = _printable(fields.get("model name", "")) or part_name(implementer, part)
    vendor = _printable(fields.get("vendor_id", "")) or _IMPLEMENTERS.get(implementer, "")
    return model, vendor


def _hexadecimal(text: str) -> int:
    """Return the number, or -1, which no table has."""
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else -1


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text))[:_LONGEST_NAME].strip()


def _turbo(files: HostFiles) -> bool | None:
    if files.flag(NO_TURBO) is False:
        return True
    boost = files.flag(BOOST)
    if boost is None and (files.failed(NO_TURBO) or files.failed(BOOST)):
        return None
    return boost is True


def _mask(text: str) -> str:
    if not _MASK.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a mask in hexadecimal digits")
    return text


def part_name(implementer: int, part: int) -> str:
    """Return the core's name: "Neoverse-N1", or "unknown" if the table does not have it."""
    return _PARTS.get(implementer, {}).get(part, UNKNOWN)


_IMPLEMENTERS: Mapping[int, str] = MappingProxyType(
    {
        0x41: "ARM",
        0x42: "Broadcom",
        0x43: "Cavium",
        0x46: "FUJITSU",
        0x48: "HiSilicon",
        0x4E: "NVIDIA",
        0x50: "APM",
        0x51: "Qualcomm",
        0x53: "Samsung",
        0x56: "Marvell",
        0x61: "Apple",
        0x6D: "Microsoft",
        0x70: "Phytium",
        0xC0: "Ampere",
    }
)

_PARTS: Mapping[int, Mapping[int, str]] = MappingProxyType(
    {
        0x41: {
            0xC07: "Cortex-A7",
            0xC08: "Cortex-A8",
            0xC09: "Cortex-A9",
            0xC0E: "Cortex-A17",
            0xC0F: "Cortex-A15",
            0xD03: "Cortex-A53",
            0xD04: "Cortex-A35",
            0xD05: "Cortex-A55",
            0xD07: "Cortex-A57",
            0xD08: "Cortex-A72",
            0xD09: "Cortex-A73",
            0xD0A: "Cortex-A75",
            0xD0B: "Cortex-A76",
            0xD0C: "Neoverse-N1",
            0xD0D: "Cortex-A77",
            0xD0E: "Cortex-A76AE",
            0xD40: "Neoverse-V1",
            0xD41: "Cortex-A78",
            0xD42: "Cortex-A78AE",
            0xD44: "Cortex-X1",
            0xD46: "Cortex-A510",
            0xD47: "Cortex-A710",
            0xD48: "Cortex-X2",
            0xD49: "Neoverse-N2",
            0xD4A: "Neoverse-E1",
            0xD4B: "Cortex-A78C",
            0xD4D: "Cortex-A715",
            0xD4E: "Cortex-X3",
            0xD4F: "Neoverse-V2",
            0xD80: "Cortex-A520",
            0xD81: "Cortex-A720",
            0xD82: "Cortex-X4",
            0xD83: "Neoverse-V3AE",
            0xD84: "Neoverse-V3",
            0xD85: "Cortex-X925",
            0xD87: "Cortex-A725",
            0xD8E: "Neoverse-N3",
        },
        0x42: {0x100: "Brahma-B53", 0x516: "ThunderX2"},
        0x43: {
            0x0A0: "ThunderX",
            0x0A1: "ThunderX-88XX",
            0x0A2: "ThunderX-81XX",
            0x0A3: "ThunderX-83XX",
            0x0AF: "ThunderX2-99xx",
            0x0B0: "OcteonTX2",
            0x0B1: "OcteonTX2-98XX",
            0x0B2: "OcteonTX2-96XX",
            0x0B8: "ThunderX3-T110",
        },
        0x46: {0x001: "A64FX"},
        0x48: {0xD01: "Kunpeng-920"},
        0x4E: {0x003: "Denver 2", 0x004: "Carmel"},
        0x51: {
            0x800: "Falkor-V1/Kryo",
            0x802: "Kryo-3XX-Gold",
            0x803: "Kryo-3XX-Silver",
            0x804: "Kryo-4XX-Gold",
            0x805: "Kryo-4XX-Silver",
            0xC00: "Falkor",
            0xC01: "Saphira",
        },
        0x61: {
            0x022: "Icestorm-M1",
            0x023: "Firestorm-M1",
            0x032: "Blizzard-M2",
            0x033: "Avalanche-M2",
        },
        0x6D: {0xD49: "Azure-Cobalt-100"},
        0x70: {0x660: "FTC660", 0x661: "FTC661", 0x662: "FTC662", 0x663: "FTC663"},
        0xC0: {0xAC3: "Ampere-1", 0xAC4: "Ampere-1a"},
    }
)
