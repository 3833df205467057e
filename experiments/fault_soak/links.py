"""What the network does to each pair of programs, and when: drawn from a seed before the run.

A *link* is the way from one program to another. Its *spells* are the stretches of time in which one kind of
fault strikes it; between them it is sound. The same seed gives the same spells. Which request of a spell is
struck depends on when it comes, and so differs from run to run.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final

SHORTEST, LONGEST = 2.0, 12.0
"""Seconds of a spell."""
CALM: Final = (1.0, 11.0)
"""Seconds between two spells of a link."""
SLOW: Final = (0.3, 1.4)
"""Seconds that a read takes in a spell of slow reads."""


class Fault(StrEnum):
    """What a spell does."""

    SLOW_READS = "slow reads"
    REORDERED = "reordering"
    LOSSES = "losses"
    ERRORS = "429, 500 and 503"
    WATCHES = "watches cut, late or 410"
    REFUSED = "partition, refused"
    SILENT = "partition, silent"

    @property
    def option(self) -> str:
        """The name on the command line."""
        return self.name.lower().replace("_", "-")


OF_HTTP: Final = tuple(Fault)
OF_TLS: Final = (Fault.SLOW_READS, Fault.LOSSES, Fault.REFUSED, Fault.SILENT)
"""Where the proxy cannot read what passes."""


@dataclass(frozen=True, slots=True)
class Spell:
    """One kind of fault for a while, in seconds since the faults began."""

    fault: Fault
    begins: float
    ends: float


def spells(link: str, faults: Sequence[Fault], seed: int, seconds: float) -> tuple[Spell, ...]:
    """Return the spells of a link: every kind once, in any order, before any of them comes again.

    Without a kind there are none.
    """
    draw = Random(f"{seed} {link}")  # noqa: S311 - an order of faults
    found: list[Spell] = []
    deck: list[Fault] = []
    begins = draw.uniform(*CALM)
    while faults and begins < seconds:
        deck = deck or draw.sample(faults, len(faults))
        ends = begins + draw.uniform(SHORTEST, LONGEST)
        found.append(Spell(deck.pop(), begins, min(ends, seconds)))
        begins = ends + draw.uniform(*CALM)
    return tuple(found)


@dataclass
class Link:
    """The way from one program to another; it is sound until :meth:`begin`."""

    name: str
    faults: tuple[Fault, ...]
    draw: Random
    spells: tuple[Spell, ...] = ()
    passed: int = 0
    """Requests that came; where the proxy cannot read, pieces of them."""
    struck: Counter[str] = field(default_factory=Counter)
    _began: float = 0.0

    @classmethod
    def drawn(cls, name: str, faults: tuple[Fault, ...], seed: int) -> Link:
        return cls(name, faults, Random(f"{seed} {name} requests"))  # noqa: S311 - which requests are struck

    def begin(self, seed: int, seconds: float) -> None:
        """Let the faults begin."""
        self.spells = spells(self.name, self.faults, seed, seconds)
        self._began = asyncio.get_running_loop().time()

    @property
    def spell(self) -> Spell | None:
        """The spell of this moment; None if the link is sound."""
        now = asyncio.get_running_loop().time() - self._began
        at = bisect_right(self.spells, now, key=lambda spell: spell.begins) - 1
        return self.spells[at] if at >= 0 and now < self.spells[at].ends else None

    @property
    def fault(self) -> Fault | None:
        spell = self.spell
        return spell.fault if spell else None

    async def until_over(self) -> None:
        """Wait until the spell of this moment is over."""
        if spell := self.spell:
            await asyncio.sleep(max(0.0, spell.ends - (asyncio.get_running_loop().time() - self._began)))

    def strikes(self, share: float) -> bool:
        """Draw whether a fault strikes, which it does with this share."""
        return self.draw.random() < share

    def note(self, what: str) -> None:
        """Count a fault that struck."""
        self.struck[what] += 1
