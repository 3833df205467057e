"""The peak of all memory channels of a machine: channels x transfers a second x bytes a transfer.

EDAC drivers list the channels that have modules, and the firmware's table (SMBIOS structures of type 17) says
how fast those run; the slowest counts for all. Two modules on a channel share it. This is a theoretical peak,
which no program gets.

::

    sys/devices/system/edac/mc/mc0/dimm0/{dimm_location,size}     "channel 0 slot 0", 32768 (MiB)
    sys/devices/system/edac/mc/mc0/rank0/…                         "csrow 0 channel 1"
    sys/firmware/dmi/tables/DMI                                    readable by root

    offset  0  type   1  length   2  handle (2)   then the formatted part; after ``length``: strings, 0, 0
    type 17:  0x0a data width (bits)   0x0c size (0: empty)   0x15 speed   0x20 configured speed (MT/s)
              0x54 extended speed      0x58 extended configured speed (where the 16 bits say 0xffff)

Source: Documentation/ABI/testing/sysfs-devices-edac, sysfs-firmware-dmi-tables; DMTF DSP0134 (SMBIOS 3.7),
7.18 "Memory Device".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from corewise.kernel.host_files import HostFiles
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

_HEADER = 4
_MEMORY_DEVICE, _END = 17, 127
_DATA_WIDTH, _SIZE, _SPEED, _CONFIGURED = 0x0A, 0x0C, 0x15, 0x20
_EXTENDED_SPEED, _EXTENDED_CONFIGURED = 0x54, 0x58
_UNKNOWN = {0, 0xFFFF}
_EXTENDED = 0xFFFF
_BYTE = 8


@dataclass(frozen=True, slots=True)
class MemoryModule:
    """A module that is plugged in; None is what the firmware does not know."""

    transfers_per_second: int | None
    width_bytes: int | None


def memory_modules(table: bytes) -> tuple[MemoryModule, ...]:
    """Return the modules of a table; none of one that is not a table."""
    return tuple(
        MemoryModule(_transfers(structure), _width(structure))
        for structure in _structures(table)
        if structure[0] == _MEMORY_DEVICE and _number(structure, _SIZE) not in {None, 0}
    )


def _structures(table: bytes) -> Iterator[bytes]:
    """Yield the formatted part of each structure, up to the first that is not whole."""
    at = 0
    while at + _HEADER <= len(table) and table[at] != _END:
        length = table[at + 1]
        strings_end = table.find(b"\0\0", at + length)
        if length < _HEADER or strings_end < 0:
            return
        yield table[at : at + length]
        at = strings_end + 2


def _transfers(structure: bytes) -> int | None:
    """Return the speed that the module runs at, else the one that it could: transfers a second."""
    for place, extended in ((_CONFIGURED, _EXTENDED_CONFIGURED), (_SPEED, _EXTENDED_SPEED)):
        mega = _number(structure, place)
        if mega == _EXTENDED:
            mega = _number(structure, extended, 4)
        if mega is not None and mega not in _UNKNOWN:
            return mega * 1_000_000
    return None


def _width(structure: bytes) -> int | None:
    bits = _number(structure, _DATA_WIDTH)
    return None if bits is None or bits in _UNKNOWN else bits // _BYTE or None


def _number(structure: bytes, place: int, size: int = 2) -> int | None:
    """Return a number of the formatted part; None where an older firmware ends before it."""
    content = structure[place : place + size]
    return int.from_bytes(content, "little") if len(content) == size else None


CONTROLLERS = "sys/devices/system/edac/mc"
TABLE = "sys/firmware/dmi/tables/DMI"
_MODULE = re.compile(r"(?:dimm|rank)[0-9]{1,6}")
_LOCATION = re.compile(r"(?:branch ([0-9]{1,4}) )?(?:csrow [0-9]{1,4} )?channel ([0-9]{1,4})\b")

Channel = tuple[int, str, str]


def read_peak_bandwidth(files: HostFiles) -> int | Finding:
    """Return the theoretical bandwidth of the machine's memory, in bytes a second."""
    channels = set(_channels(files))
    if not channels:
        return Finding(Reason.MEMORY_CHANNELS_UNKNOWN, f"{CONTROLLERS} lists no channel with a module")
    modules = memory_modules(files.content(TABLE) or b"")
    speeds = {module.transfers_per_second for module in modules}
    widths = {module.width_bytes for module in modules}
    known_speeds = [speed for speed in speeds if speed is not None]
    known_widths = [width for width in widths if width is not None]
    if None in speeds | widths or not known_speeds or not known_widths:
        return Finding(Reason.MEMORY_SPEED_UNKNOWN, f"{TABLE} does not state the speed of every module")
    return len(channels) * min(known_speeds) * min(known_widths)


def _channels(files: HostFiles) -> Iterator[Channel]:
    for controller in files.numbered(CONTROLLERS, "mc"):
        where = f"{CONTROLLERS}/mc{controller}"
        for module in filter(_MODULE.fullmatch, files.entries(where)):
            location = _LOCATION.match(files.text(f"{where}/{module}/dimm_location") or "")
            if location and files.number(f"{where}/{module}/size"):
                yield controller, location[1] or "", location[2]
