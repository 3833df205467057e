"""Instructions and cache misses of a whole machine: on each CPU a group of the two, which see the same time.

MPKI is 1000 x misses / instructions of these sums; the counters' own times cancel out. Misses are reads that
miss the last level (LL), where the kernel knows that event. For AMD's Zen it does not; its general event
"cache misses" counts reads that miss the second level there (L2), and the level is told with the figure.
Figures of different levels do not compare.

Source: arch/x86/events/{intel,amd}/core.c (hw_cache_event_ids; amd_zen2_perfmon_event_map: 0x0964, an
L2 miss), drivers/perf/arm_pmuv3.c (LL_CACHE_MISS_RD).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from corewise.kernel.absence import Absent
from corewise.kernel.cpu_topology import read_cpus
from corewise.kernel.host_files import HostFiles
from corewise.kernel.perf.event import CACHE_MISSES, INSTRUCTIONS, LAST_LEVEL_READ_MISSES, PerfEvent
from corewise.kernel.perf.groups import Groups, Wanted, open_groups
from corewise.kernel.perf.system import Perf
from corewise.topology import CPUSet
from corewise.vocabulary.reasons import Reason

_CPUINFO = "proc/cpuinfo"
_ZEN = re.compile(r"^vendor_id\s*: (?:AuthenticAMD|HygonGenuine)$", re.MULTILINE)
_WHAT = "instructions and cache misses"
LAST_LEVEL, SECOND_LEVEL = "LL", "L2"


@dataclass(frozen=True, slots=True)
class MissCounts:
    """What all CPUs counted since the last look; ``level``: which cache was missed."""

    instructions: int
    misses: int
    level: str


class MissCounters:
    """The groups of one machine: opened at the first look, and anew when other CPUs are online."""

    def __init__(self, perf: Perf, files: HostFiles) -> None:
        self._perf = perf
        self._files = files
        self._cpus = CPUSet()
        self._groups: Groups[int] | None = None
        self._level = ""

    def look(self) -> MissCounts | Absent:
        """Return the growth since the last look; Absent at the first one, and where nothing is counted."""
        online, _ = read_cpus(self._files)
        if self._groups is None or online != self._cpus:
            self.close()
            absent = self._open(online)
            if absent is not None:
                return absent
        grown = self._groups.grown() if self._groups else {}
        if not grown:
            return Absent(Reason.PERF_NO_VALUE, "the counters ran on no CPU since the last look")
        instructions, misses = (sum(counts) for counts in zip(*grown.values(), strict=True))
        return MissCounts(instructions, misses, self._level)

    def close(self) -> None:
        """Stop counting."""
        if self._groups is not None:
            self._groups.close()
        self._groups = None

    def _open(self, online: CPUSet) -> Absent | None:
        first: Absent | None = None
        for level, misses in self._levels():
            wanted = {cpu: Wanted(cpu, (INSTRUCTIONS, misses)) for cpu in online}
            opened = open_groups(self._perf, wanted, _WHAT)
            if isinstance(opened, Groups):
                self._cpus, self._groups, self._level = online, opened, level
                return None
            first = first or opened
            if opened.reason is not Reason.PERF_EVENT_MISSING:
                break
        return first

    def _levels(self) -> Iterator[tuple[str, PerfEvent]]:
        yield LAST_LEVEL, LAST_LEVEL_READ_MISSES
        if _ZEN.search(self._files.text(_CPUINFO) or ""):
            yield SECOND_LEVEL, CACHE_MISSES
