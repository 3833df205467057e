"""What the kernel of a simulated machine counts, and the files in which an agent finds it.

=====================================  =================================================================
file                                   holds
=====================================  =================================================================
proc/stat                              ticks of 10 ms since boot, evenly over the CPUs: user and idle
proc/meminfo                           MemTotal, MemFree, MemAvailable, Inactive(file)
cpu.stat of the best-effort slice      usage_usec, throttled_usec: the time that its own quota refused it
cpu.stat of pods that own CPUs         likewise
memory.current, memory.stat            of the best-effort slice: its pods' memory and their share of cache
=====================================  =================================================================

A container's working set is ``WORKING_SET`` of the memory it requests, from its first moment to its last; a
tenth of the machine's memory is page cache that nobody has used lately. ``throttled_usec`` counts CPU time
that was wanted, where a kernel counts how long threads waited.

What machines of one shape share of /proc they go on sharing; a machine whose counters are written gets files
of its own for these two.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corewise.simulation.machines import KIBI, Machine
from corewise.simulation.node_tree import NodeTree
from corewise.simulation.plant import Moment
from corewise.simulation.pod_cgroups import BEST_EFFORT, MOUNT, WORKING_SET, make_best_effort_slice

CACHE = 0.1
_TICKS = 100
_MICRO = 1_000_000


class NodeCounters:
    """The counters of one machine, from its boot on."""

    def __init__(self, root: Path, machine: Machine) -> None:
        self._root = root
        self._machine = machine
        self._uptime = 0.0
        self._busy = 0.0
        self._usage: dict[str, float] = {}
        self._throttled: dict[str, float] = {}
        own_proc(root)
        make_best_effort_slice(root)

    def add(self, seconds: float, tree: NodeTree, moment: Moment) -> None:
        """Let time pass in which everybody got what ``moment`` says."""
        self._uptime += seconds
        self._busy += moment.busy * seconds
        for index, cgroup in enumerate(tree.tree.cgroups):
            path = cgroup.path
            if path == BEST_EFFORT or path in tree.owners:
                self._usage[path] = self._usage.get(path, 0.0) + moment.time[index] * seconds
                self._throttled[path] = self._throttled.get(path, 0.0) + moment.refused[index] * seconds

    def write(self, tree: NodeTree) -> None:
        """Write all files; what is no longer in the tree is forgotten."""
        there = tree.tree.index
        self._usage = {path: usage for path, usage in self._usage.items() if path in there}
        self._throttled = {path: time for path, time in self._throttled.items() if path in there}
        cgroups = self._root / MOUNT
        for path, usage in self._usage.items():
            throttled = self._throttled[path]
            text = f"usage_usec {round(usage * _MICRO)}\nthrottled_usec {round(throttled * _MICRO)}"
            if (cgroups / path).is_dir():
                _put(cgroups / path / "cpu.stat", text)
        _put(self._root / "proc/stat", self._stat())
        self._write_memory(tree)

    def _stat(self) -> str:
        cpus = self._machine.cpus
        total, busy = int(self._uptime * _TICKS), int(self._busy / cpus * _TICKS)
        each = f"{busy} 0 0 {max(0, total - busy)} 0 0 0 0 0 0"
        every = f"{busy * cpus} 0 0 {max(0, total - busy) * cpus} 0 0 0 0 0 0"
        return "\n".join([f"cpu  {every}", *(f"cpu{cpu} {each}" for cpu in range(cpus))])

    def _write_memory(self, tree: NodeTree) -> None:
        total, cache = self._machine.memory, int(self._machine.memory * CACHE)
        offline = working_set([task.container.memory for task in tree.tasks if task.best_effort])
        used = min(total - cache, working_set([task.container.memory for task in tree.tasks]))
        theirs = cache * offline // used if used else 0
        free = total - used - cache
        lines = {"MemTotal": total, "MemFree": free, "MemAvailable": free + cache, "Inactive(file)": cache}
        meminfo = [f"{name}: {size // KIBI} kB" for name, size in lines.items()]
        _put(self._root / "proc/meminfo", "\n".join(meminfo))
        best_effort = self._root / MOUNT / BEST_EFFORT
        _put(best_effort / "memory.current", str(offline + theirs))
        _put(best_effort / "memory.stat", f"inactive_file {theirs}")


def own_proc(root: Path) -> None:
    """Give a machine a /proc of its own, in which everything but what it counts is still shared."""
    proc = root / "proc"
    if not proc.is_symlink():
        return
    shared = proc.resolve()
    proc.unlink()
    proc.mkdir()
    for entry in shared.iterdir():
        if entry.name != "meminfo":
            (proc / entry.name).symlink_to(entry)


def working_set(requests: Sequence[int]) -> int:
    """Return the bytes in use of what containers request."""
    return sum(requests) * WORKING_SET // 100


def _put(path: Path, text: str) -> None:
    path.write_text(f"{text}\n", encoding="ascii")
