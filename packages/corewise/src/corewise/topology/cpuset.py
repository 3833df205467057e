"""Sets of CPUs, as people, the kernel and Nova write them.

A comma list of ``a``, ``a-b``, ``^a`` and ``^a-b``. What is marked with ``^`` is taken away at the end,
wherever it stands. Spaces, and commas with nothing between, are ignored. The empty text is the empty set, but
a list whose excludes leave nothing is an error. Printed as the kernel prints lists: ascending, ``a-b`` a run.

Ranges are merged before they become CPUs, so the cost of reading follows the length of the text and not the
sum of its ranges: a hostile list of 256 KB takes a fraction of a second. What pods state is read by
``parse_claim``, which is stricter.

Source: Documentation/admin-guide/kernel-parameters.rst ("cpu lists"), nova.virt.hardware.parse_cpu_spec.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

LARGEST_CPU = 8191
"""The largest NR_CPUS that any architecture's Kconfig of Linux allows is 8192 (x86 and powerpc)."""

LONGEST_CLAIM = 4096
"""Characters: every set of up to 800 CPUs, however scattered over the largest machine."""

_SHOWN = 40
_ITEM = re.compile(r"(?P<exclude>\^)?\s*(?P<first>[0-9]{1,9})\s*(?:-\s*(?P<last>[0-9]{1,9}))?")


class CPUSetError(ValueError):
    """The text is not a set of CPUs; ``item`` is the part that is wrong."""

    def __init__(self, item: str, message: str) -> None:
        super().__init__(message)
        self.item = item


class NoCPULeftError(CPUSetError):
    """Every item can be read, but the excludes take all CPUs away."""


@dataclass(frozen=True, slots=True)
class CPUSet:
    """An immutable set of CPU numbers. Iterates in ascending order; false if empty."""

    cpus: frozenset[int] = frozenset()

    @classmethod
    def of(cls, cpus: Iterable[int]) -> CPUSet:
        return cls(frozenset(cpus))

    @classmethod
    def parse(cls, text: str) -> CPUSet:
        """Read a CPU list.

        Raises:
            CPUSetError: naming the bad item, or the whole text if excludes leave nothing.
        """
        included: list[range] = []
        excluded: list[range] = []
        items = [item.strip() for item in text.split(",")]
        for item in filter(None, items):
            excludes, cpus = _parse_item(item)
            (excluded if excludes else included).append(cpus)
        left = frozenset(_union(included) - _union(excluded))
        if not left and any(items):
            raise NoCPULeftError(text.strip(), f"{text.strip()[:_SHOWN]!r} leaves no CPU")
        return cls(left)

    @classmethod
    def parse_claim(cls, text: str) -> CPUSet:
        """Read the CPUs that a pod states as its own: short, no excludes, no CPU named twice.

        Raises:
            CPUSetError: naming the bad item, or the whole text if it is too long.
        """
        if len(text) > LONGEST_CLAIM:
            message = f"{len(text)} characters are more than a list of CPUs may have ({LONGEST_CLAIM})"
            raise CPUSetError(text, message)
        claimed: set[int] = set()
        for item in filter(None, (item.strip() for item in text.split(","))):
            excludes, cpus = _parse_item(item)
            if excludes:
                raise CPUSetError(item, f"{item[:_SHOWN]!r} is an exclude: a claim names the CPUs it claims")
            if not claimed.isdisjoint(cpus):
                raise CPUSetError(item, f"{item[:_SHOWN]!r} names a CPU that the list already has")
            claimed.update(cpus)
        return cls(frozenset(claimed))

    def __or__(self, other: CPUSet) -> CPUSet:
        return CPUSet(self.cpus | other.cpus)

    def __and__(self, other: CPUSet) -> CPUSet:
        return CPUSet(self.cpus & other.cpus)

    def __sub__(self, other: CPUSet) -> CPUSet:
        return CPUSet(self.cpus - other.cpus)

    def __le__(self, other: CPUSet) -> bool:
        return self.cpus <= other.cpus

    def __contains__(self, cpu: int) -> bool:
        return cpu in self.cpus

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.cpus))

    def __len__(self) -> int:
        return len(self.cpus)

    def isdisjoint(self, other: CPUSet) -> bool:
        return self.cpus.isdisjoint(other.cpus)

    def __str__(self) -> str:
        numbers = sorted(self.cpus)
        starts = [right for left, right in pairwise([-2, *numbers]) if right != left + 1]
        ends = [left for left, right in pairwise([*numbers, LARGEST_CPU + 2]) if right != left + 1]
        runs = zip(starts, ends, strict=True)
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _parse_item(item: str) -> tuple[bool, range]:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise CPUSetError(
            item, f"{item[:_SHOWN]!r} is not a CPU or a range of CPUs: write 3, 0-3, ^2 or ^2-3"
        )
    first = int(match["first"])
    last = int(match["last"] or first)
    if last < first:
        raise CPUSetError(item, f"{item[:_SHOWN]!r} runs backwards: write {last}-{first}")
    if last > LARGEST_CPU:
        raise CPUSetError(item, f"{item[:_SHOWN]!r} goes beyond CPU {LARGEST_CPU}")
    return match["exclude"] is not None, range(first, last + 1)


def _union(ranges: list[range]) -> set[int]:
    cpus: set[int] = set()
    end = 0
    for each in sorted(ranges, key=lambda each: each.start):
        cpus.update(range(max(end, each.start), each.stop))
        end = max(end, each.stop)
    return cpus
