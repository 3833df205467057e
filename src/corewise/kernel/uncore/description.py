"""How a performance unit's events are encoded, from its description in /sys. Pure.

The kernel states an event by names ("event=0x04,umask=0x03"), and for each name which bits of which
configuration word it fills ("config:0-7"). A name alone means 1. Values fill the bits from the lowest on.

Source: Documentation/ABI/testing/sysfs-bus-event_source-devices-format and -events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from corewise.kernel.perf.event import PerfEvent

_FIELD = re.compile(
    r"(config|config1|config2):((?:[0-9]{1,2}(?:-[0-9]{1,2})?)(?:,[0-9]{1,2}(?:-[0-9]{1,2})?)*)"
)
_TERM = re.compile(r"([a-z_][a-z0-9_]*)(?:=(0x[0-9a-fA-F]{1,16}|[0-9]{1,19}))?")
_WORDS = ("config", "config1", "config2")
_WORD_BITS = 64


@dataclass(frozen=True, slots=True)
class Field:
    """Which bits of which word a name fills, the lowest bit of its value first."""

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
        ValueError: if it is not written as the kernel does, or names what ``fields`` has not.
    """
    words = dict.fromkeys(_WORDS, 0)
    for term in text.split(","):
        match = _TERM.fullmatch(term)
        if match is None:
            raise ValueError(f"{term[:40]!r} is no term of an event")
        name, value = match[1], int(match[2], 0) if match[2] else 1
        if name in fields:
            words[fields[name].word] |= fields[name].place(value)
        elif name in words:
            words[name] |= value
        else:
            raise ValueError(f"no format says where {name!r} goes")
    return PerfEvent(unit, *(words[word] for word in _WORDS))
