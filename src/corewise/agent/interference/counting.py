"""What a node's counters have counted since the agent began: memory traffic, instructions, cache misses."""

from __future__ import annotations

from corewise.agent.interference.readings import MissTotals
from corewise.agent.interference.tally import Tally
from corewise.kernel.absence import Absent
from corewise.kernel.host_files import HostFiles
from corewise.kernel.perf.misses import MissCounters
from corewise.kernel.perf.system import Perf
from corewise.kernel.resctrl.monitoring import MonitoringEvent, Place, read_counts
from corewise.kernel.uncore.controllers import MemoryControllers, has_controllers
from corewise.vocabulary.reasons import Reason


class MemoryTraffic:
    """Bytes moved from and to memory: from resctrl where it monitors bandwidth, else from memory controllers.

    Only one of the two counts at a time. Where resctrl monitors and has no value just now, there is none: it
    counts on meanwhile, and the next value has the traffic since the last one.
    """

    def __init__(self, files: HostFiles, perf: Perf | None) -> None:
        self._files = files
        self._resctrl: Tally[Place] = Tally()
        self._controllers = None if perf is None else MemoryControllers(perf, files)
        self._at_controllers = 0

    def look(self) -> int | Absent:
        """Return the total, or why it is not known now."""
        counts = read_counts(self._files, MonitoringEvent.TRAFFIC)
        if not isinstance(counts, Absent):
            self._resctrl.take(counts)
            self.close()
            return self._total
        if counts.reason is Reason.RESCTRL_NO_VALUE:
            return counts
        self._resctrl.forget()
        return self._ask_controllers(counts)

    def close(self) -> None:
        """Stop counting at the memory controllers."""
        if self._controllers is not None:
            self._controllers.close()

    @property
    def _total(self) -> int:
        return self._resctrl.total + self._at_controllers

    def _ask_controllers(self, no_resctrl: Absent) -> int | Absent:
        """Return the total by the controllers; where there are none, why resctrl has none either."""
        if self._controllers is None or not has_controllers(self._files):
            return no_resctrl
        traffic = self._controllers.look()
        if isinstance(traffic, Absent):
            return Absent(traffic.reason, f"{traffic.why}; {no_resctrl.why}")
        self._at_controllers += traffic.moved
        if traffic.behind:
            unit, cpu = traffic.behind[0]
            return Absent(Reason.UNCORE_NO_VALUE, f"{unit} on CPU {cpu} did not count")
        return self._total


class CacheMisses:
    """Instructions and cache misses of all CPUs."""

    def __init__(self, files: HostFiles, perf: Perf) -> None:
        self._counters = MissCounters(perf, files)
        self._totals = MissTotals(0, 0, "")

    def look(self) -> MissTotals | Absent:
        """Return the totals, or why they are not known now."""
        counted = self._counters.look()
        if isinstance(counted, Absent):
            return counted
        before = self._totals
        self._totals = MissTotals(
            before.instructions + counted.instructions, before.misses + counted.misses, counted.level
        )
        return self._totals

    def close(self) -> None:
        """Stop counting."""
        self._counters.close()
