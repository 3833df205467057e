"""Memory traffic at the memory controllers: column accesses (CAS), each of 64 bytes.

Each channel of Intel's servers is a performance unit ``uncore_imc_N`` with the events ``cas_count_read`` and
``cas_count_write`` (on some, one for each of two schedulers: ``cas_count_read_sch0`` …), and is counted on
one CPU of each socket, which ``cpumask`` names. When that CPU goes offline, the kernel moves the counters.
What devices read and write counts too, which resctrl does not see.

::

    sys/bus/event_source/devices/uncore_imc_0/{type,cpumask,format/*,events/*}

Source: Documentation/ABI/testing/sysfs-bus-event_source-devices-*, arch/x86/events/intel/uncore_snbep.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from corewise.kernel.absence import Absent
from corewise.kernel.host_files import HostFiles
from corewise.kernel.perf.event import PerfEvent
from corewise.kernel.perf.groups import Groups, Wanted, open_groups
from corewise.kernel.perf.system import Perf
from corewise.kernel.uncore.description import Field, event_of
from corewise.vocabulary.reasons import Reason

UNITS = "sys/bus/event_source/devices"
BYTES_PER_ACCESS = 64
_UNIT = re.compile(r"uncore_imc(?:_[0-9]{1,4})?")
_EVENT = re.compile(r"cas_count_(?:read|write)(?:_sch[0-9])?")
_WHAT = "column accesses of the memory controllers"

Channel = tuple[str, int]
"""A unit and the CPU that it is counted on."""


@dataclass(frozen=True, slots=True)
class ControllerTraffic:
    """Bytes since the last look. ``behind``: channels that did not count; their share comes later."""

    moved: int
    behind: tuple[Channel, ...]


class MemoryControllers:
    """The controllers of one machine: opened at the first look."""

    def __init__(self, perf: Perf, files: HostFiles) -> None:
        self._perf = perf
        self._files = files
        self._groups: Groups[Channel] | None = None

    def look(self) -> ControllerTraffic | Absent:
        """Return the traffic since the last look, or since the counters were opened."""
        if self._groups is None:
            opened = self._open()
            if isinstance(opened, Absent):
                return opened
            self._groups = opened
        grown = self._groups.grown()
        accesses = sum(sum(counts) for counts in grown.values())
        behind = tuple(channel for channel in self._groups.keys if channel not in grown)
        return ControllerTraffic(accesses * BYTES_PER_ACCESS, behind)

    def close(self) -> None:
        """Stop counting."""
        if self._groups is not None:
            self._groups.close()
        self._groups = None

    def _open(self) -> Groups[Channel] | Absent:
        try:
            wanted = dict(_channels(self._files))
        except ValueError as error:
            return Absent(Reason.PERF_EVENT_MISSING, str(error))
        if not wanted:
            return Absent(Reason.PERF_EVENT_MISSING, f"{UNITS} has no uncore_imc with CAS counts")
        opened = open_groups(self._perf, wanted, _WHAT)
        if isinstance(opened, Groups) and len(opened.keys) < len(wanted):
            opened.close()
            return Absent(Reason.PERF_EVENT_MISSING, f"{_WHAT}: some of them cannot be counted")
        return opened


def has_controllers(files: HostFiles) -> bool:
    """Say whether the kernel describes memory controllers at all."""
    return any(_UNIT.fullmatch(name) for name in files.entries(UNITS))


def _channels(files: HostFiles) -> Iterator[tuple[Channel, Wanted]]:
    """Yield every unit with CAS counts, on each of its CPUs.

    Raises:
        ValueError: naming the unit whose description cannot be understood.
    """
    for unit in files.entries(UNITS):
        events = tuple(_events(files, unit)) if _UNIT.fullmatch(unit) else ()
        if events:
            for cpu in files.cpus(f"{UNITS}/{unit}/cpumask") or ():
                yield (unit, cpu), Wanted(cpu, events)


def _events(files: HostFiles, unit: str) -> Iterator[PerfEvent]:
    where = f"{UNITS}/{unit}"
    number = files.number(f"{where}/type")
    names = [name for name in files.entries(f"{where}/events") if _EVENT.fullmatch(name)]
    if number is None or not names:
        return
    try:
        formats = files.entries(f"{where}/format")
        fields = {name: Field.parse(files.text(f"{where}/format/{name}") or "") for name in formats}
        for name in names:
            yield event_of(number, files.text(f"{where}/events/{name}") or "", fields)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
