"""A cgroup for work that gives way to all other work: ``/corewise-evaluation`` with ``cpu.idle`` = 1.

The kernel compares siblings. A task of policy SCHED_IDLE gives way to the tasks of its own cgroup; against
another pod's tasks the cgroups' weights count, and the running cgroup keeps the CPU for a slice (about 3 ms).
An idle cgroup at the top of the hierarchy is a sibling of kubelet's and of the system's cgroups, so it gives
way to every task of them at once (Linux 5.15).

It is made for one process, and removed when that has ended: nothing of kubelet's is touched, and nothing has
to be restored. On cgroup v2 the kernel refuses the move (ENOENT) where the hierarchy is mounted with
``nsdelegate``, as systemd does, and the caller is in a cgroup namespace of its own, as containers are.

Source: kernel/sched/fair.c (check_preempt_wakeup_fair, sched_group_set_idle), kernel/cgroup/cgroup.c
(cgroup_procs_write_permission), Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from corewise.kernel.cgroups.layout import Layout
from corewise.kernel.cgroups.resources import IDLE_FILE
from corewise.kernel.errors import writing_error

NAME = "corewise-evaluation"


class IdleCgroup:
    """The cgroup of one process."""

    def __init__(self, layout: Layout) -> None:
        self._directory = layout.cpu / NAME

    def take(self, process: int) -> None:
        """Make the cgroup, and move the process into it.

        Raises:
            KernelError: if the kernel refuses; the process stays where it is.
        """
        try:
            self._directory.mkdir(exist_ok=True)
        except OSError as error:
            raise writing_error(str(self._directory), error, value="") from error
        _write(self._directory / IDLE_FILE, "1")
        _write(self._directory / "cgroup.procs", str(process))

    def remove(self) -> None:
        """Remove the cgroup if it is there and empty."""
        with suppress(OSError):
            self._directory.rmdir()


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="ascii")
    except OSError as error:
        raise writing_error(str(file), error, value=text) from error
