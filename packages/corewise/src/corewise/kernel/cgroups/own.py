"""The cgroup of this process, as the process sees it: in a container that is the container's.

A container may see its own cgroup as the root of the hierarchy (a cgroup namespace), or at the path that
/proc/self/cgroup names. What it cannot read is None: unknown, or not limited.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Version, find_layout
from corewise.kernel.cgroups.resources import limit_file, read_working_set
from corewise.kernel.cgroups.waits import read_throttled
from corewise.kernel.errors import KernelError

_MEMBERSHIP = "proc/self/cgroup"


class OwnCgroup:
    """The files of this process's cgroup below a root."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._files: CgroupFiles | None = None
        with suppress(KernelError):
            self._files = CgroupFiles(find_layout(root))

    def throttled(self) -> int | None:
        """Return the time that a CPU quota kept the cgroup from running, in nanoseconds."""
        return self._read("cpu", read_throttled)

    def memory_left(self) -> int | None:
        """Return the bytes up to the cgroup's memory limit."""
        return self._read("memory", _memory_left)

    def close(self) -> None:
        """Close the files."""
        if self._files is not None:
            self._files.close()

    def _read(self, controller: str, read: Callable[[CgroupFiles, str], int | None]) -> int | None:
        files = self._files
        if files is None:
            return None
        for cgroup in (self._path(files, controller), "/"):
            try:
                return read(files, cgroup)
            except KernelError:
                continue
        return None

    def _path(self, files: CgroupFiles, controller: str) -> str:
        try:
            lines = (self._root / _MEMBERSHIP).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            return "/"
        for line in lines:
            number, controllers, path = line.split(":", 2)
            unified = number == "0" and files.version is Version.V2
            if unified or controller in controllers.split(","):
                return path
        return "/"


def _memory_left(files: CgroupFiles, cgroup: str) -> int | None:
    limit = files.read(cgroup, limit_file(files.version))
    if not limit.isdecimal():  # max: there is none
        return None
    return max(0, int(limit) - read_working_set(files, cgroup))
