"""What all memory channels of a machine could move: channels x transfers a second x bytes a transfer.

EDAC drivers tell which channels have modules, and the firmware how fast those run; the slowest counts for
all. Two modules on a channel share it. This is a theoretical peak, which no program gets.

::

    sys/devices/system/edac/mc/mc0/dimm0/{dimm_location,size}     "channel 0 slot 0", 32768 (MiB)
    sys/devices/system/edac/mc/mc0/rank0/…                         "csrow 0 channel 1"
    sys/firmware/dmi/tables/DMI                                    readable by root

Source: Documentation/ABI/testing/sysfs-devices-edac, sysfs-firmware-dmi-tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from corewise.kernel.absence import Absent
from corewise.kernel.dimms.smbios import memory_modules
from corewise.kernel.host_files import HostFiles
from corewise.vocabulary.reasons import Reason

CONTROLLERS = "sys/devices/system/edac/mc"
TABLE = "sys/firmware/dmi/tables/DMI"
_MODULE = re.compile(r"(?:dimm|rank)[0-9]{1,6}")
_LOCATION = re.compile(r"(?:branch ([0-9]{1,4}) )?(?:csrow [0-9]{1,4} )?channel ([0-9]{1,4})\b")

Channel = tuple[int, str, str]


def read_peak_bandwidth(files: HostFiles) -> int | Absent:
    """Return the theoretical bandwidth of the machine's memory, in bytes a second."""
    channels = set(_channels(files))
    if not channels:
        return Absent(Reason.MEMORY_CHANNELS_UNKNOWN, f"{CONTROLLERS} tells of no channel with a module")
    modules = memory_modules(files.content(TABLE) or b"")
    speeds = {module.transfers_per_second for module in modules}
    widths = {module.width_bytes for module in modules}
    known_speeds = [speed for speed in speeds if speed is not None]
    known_widths = [width for width in widths if width is not None]
    if None in speeds | widths or not known_speeds or not known_widths:
        return Absent(Reason.MEMORY_SPEED_UNKNOWN, f"{TABLE} does not tell the speed of every module")
    return len(channels) * min(known_speeds) * min(known_widths)


def _channels(files: HostFiles) -> Iterator[Channel]:
    """Yield the channel of every module that is plugged in."""
    for controller in files.numbered(CONTROLLERS, "mc"):
        where = f"{CONTROLLERS}/mc{controller}"
        for module in filter(_MODULE.fullmatch, files.entries(where)):
            location = _LOCATION.match(files.text(f"{where}/{module}/dimm_location") or "")
            if location and files.number(f"{where}/{module}/size"):
                yield controller, location[1] or "", location[2]
