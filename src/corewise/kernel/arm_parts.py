"""Names of ARM CPUs, which /proc/cpuinfo gives only as numbers: as ``lscpu`` prints them.

The numbers are the implementer and part fields of the MIDR register. The table has the parts that servers,
clouds and the usual boards have; a part that is not in it is "unknown", as with an lscpu that is too old.

Source of the numbers: Linux arch/arm64/include/asm/cputype.h. Source of the names: util-linux, lscpu.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

UNKNOWN = "unknown"

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


def implementer_name(implementer: int) -> str:
    """Return who designed the core, as lscpu's vendor: "ARM"; "" if the table does not know."""
    return _IMPLEMENTERS.get(implementer, "")


def part_name(implementer: int, part: int) -> str:
    """Return the core's name: "Neoverse-N1"; "unknown" if the table does not know."""
    return _PARTS.get(implementer, {}).get(part, UNKNOWN)
