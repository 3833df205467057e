"""What a machine says of its load (proc/stat, proc/meminfo), stated by hand: beside it, cgroups may be real.

Where other work shares the machine, or where a test is to say what online pods use, the agent reads these
files instead of the kernel's.
"""

from __future__ import annotations

from pathlib import Path

_TICK = 10_000_000
_NANO = 1_000_000_000
_MEMINFO = "MemTotal: 33554432 kB\nMemFree: 25165824 kB\nInactive(file): 1048576 kB\n"


class MachineLoad:
    """The files of a machine with so many CPUs, below a root directory that is made."""

    def __init__(self, root: Path, cpus: int) -> None:
        self.root = root
        self._cpus = cpus
        self._used = 0
        (root / "proc").mkdir(parents=True)
        (root / "proc/meminfo").write_text(_MEMINFO)
        self.state(0)

    def use(self, milli: int, seconds: int = 1) -> None:
        """Have so many milli-CPU been busy for some seconds more."""
        self.state(self._used + milli * seconds * (_NANO // 1000))

    def state(self, used: int) -> None:
        """State the CPU time used since boot, in nanoseconds; the kernel counts in ticks of 10 ms."""
        self._used = used
        ticks = used // _TICK
        lines = [f"cpu  {ticks} 0 0 0 0 0 0 0 0 0"]
        lines += [f"cpu{cpu} {ticks // self._cpus} 0 0 0 0 0 0 0 0 0" for cpu in range(self._cpus)]
        (self.root / "proc/stat").write_text("\n".join(lines) + "\n")
