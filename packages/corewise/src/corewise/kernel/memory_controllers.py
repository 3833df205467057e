"""Memory traffic at the memory controllers: column accesses (CAS), each of 64 bytes.

Each channel of Intel's servers is a performance unit ``uncore_imc_N`` with the events ``cas_count_read`` and
``cas_count_write`` (on some, one for each of two schedulers: ``cas_count_read_sch0`` …), and is counted on
one CPU of each socket, which ``cpumask`` names. When that CPU goes offline, the kernel moves the counters.
What devices read and write counts too, which resctrl does not see.

::

    sys/bus/event_source/devices/uncore_imc_0/{type,cpumask,format/*,events/*}

The kernel states an event by names ("event=0x04,umask=0x03"), and for each name which bits of which
configuration word it fills ("config:0-7"). A name alone means 1. Values fill the bits from the lowest on.

Source: Documentation/ABI/testing/sysfs-bus-event_source-devices-*, -format and -events;
arch/x86/events/intel/uncore_snbep.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from corewise.kernel.host_files import HostFiles
from corewise.kernel.perf import Groups, Perf, PerfEvent, WantedEvents, open_groups
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

_FIELD = re.compile(
    r"(config|config1|config2):((?:[0-9]{1,2}(?:-[0-9]{1,2})?)(?:,[0-9]{1,2}(?:-[0-9]{1,2})?)*)"
)
_TERM = re.compile(r"([a-z_][a-z0-9_]*)(?:=(0x[0-9a-fA-F]{1,16}|[0-9]{1,19}))?")
_WORDS = ("config", "config1", "config2")
_WORD_BITS = 64


@dataclass(frozen=True, slots=True)
class Field:
    """The word and bits that a name fills, the lowest bit of its value first."""

    word: str
    bits: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Field:
        """Read a file of ``format``.

        Raises:
            ValueError: if it is none.
        """
        match = _FIELD.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:40]!r} does not say which bits")
        bits: list[int] = []
        for part in match[2].split(","):
            first, _, last = part.partition("-")
            bits += range(int(first), int(last or first) + 1)
        if not bits or max(bits) >= _WORD_BITS:
            raise ValueError(f"{text[:40]!r} is not within {_WORD_BITS} bits")
        return cls(match[1], tuple(bits))

    def place(self, value: int) -> int:
        """Return the word with a value in its bits.

        Raises:
            ValueError: if it has more bits than the field.
        """
        if value >> len(self.bits):
            raise ValueError(f"{value:#x} does not fit into {len(self.bits)} bits")
        return sum((value >> index & 1) << bit for index, bit in enumerate(self.bits))


def event_of(unit: int, text: str, fields: Mapping[str, Field]) -> PerfEvent:
    """Return the event of the unit of this type that a file of ``events`` states.

    Raises:
        ValueError: if it is not written as the kernel does, or names a field missing from ``fields``.
    """
    words = dict.fromkeys(_WORDS, 0)
    for term in text.split(","):
        match = _TERM.fullmatch(term)
        if match is None:
            raise ValueError(f"{term[:40]!r} is not a term of an event")
        name, value = match[1], int(match[2], 0) if match[2] else 1
        if name in fields:
            words[fields[name].word] |= fields[name].place(value)
        elif name in words:
            words[name] |= value
        else:
            raise ValueError(f"the PMU has no format for field {name!r}")
    return PerfEvent(unit, *(words[word] for word in _WORDS))


UNITS = "sys/bus/event_source/devices"
BYTES_PER_ACCESS = 64
_UNIT = re.compile(r"uncore_imc(?:_[0-9]{1,4})?")
_EVENT = re.compile(r"cas_count_(?:read|write)(?:_sch[0-9])?")
_WHAT = "column accesses of the memory controllers"

Channel = tuple[str, int]
"""A unit and the CPU that it is counted on."""


@dataclass(frozen=True, slots=True)
class ControllerTraffic:
    """Bytes since the last reading. ``behind``: channels that did not count; their share comes later."""

    moved: int
    behind: tuple[Channel, ...]


class MemoryControllers:
    """The controllers of one machine: opened at the first reading."""

    def __init__(self, perf: Perf, files: HostFiles) -> None:
        self._perf = perf
        self._files = files
        self._groups: Groups[Channel] | None = None

    def read(self) -> ControllerTraffic | Finding:
        """Return the traffic since the last reading, or since the counters were opened."""
        if self._groups is None:
            opened = self._open()
            if isinstance(opened, Finding):
                return opened
            self._groups = opened
        grown = self._groups.grown()
        accesses = sum(sum(counts) for counts in grown.values())
        behind = tuple(channel for channel in self._groups if channel not in grown)
        return ControllerTraffic(accesses * BYTES_PER_ACCESS, behind)

    def close(self) -> None:
        if self._groups is not None:
            self._groups.close()
        self._groups = None

    def _open(self) -> Groups[Channel] | Finding:
        try:
            wanted = dict(_channels(self._files))
        except ValueError as error:
            return Finding(Reason.PERF_EVENT_MISSING, str(error))
        if not wanted:
            return Finding(Reason.PERF_EVENT_MISSING, f"{UNITS} has no uncore_imc with CAS counts")
        opened = open_groups(self._perf, wanted, _WHAT)
        if isinstance(opened, Groups) and len(opened) < len(wanted):
            opened.close()
            return Finding(Reason.PERF_EVENT_MISSING, f"{_WHAT}: some of them cannot be counted")
        return opened


def has_controllers(files: HostFiles) -> bool:
    """Say whether the kernel describes memory controllers at all."""
    return any(_UNIT.fullmatch(name) for name in files.entries(UNITS))


def _channels(files: HostFiles) -> Iterator[tuple[Channel, WantedEvents]]:
    """Yield every unit with CAS counts, on each of its CPUs.

    Raises:
        ValueError: naming the unit whose description cannot be understood.
    """
    for unit in files.entries(UNITS):
        events = tuple(_events(files, unit)) if _UNIT.fullmatch(unit) else ()
        if events:
            for cpu in files.cpus(f"{UNITS}/{unit}/cpumask") or ():
                yield (unit, cpu), WantedEvents(cpu, events)


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
