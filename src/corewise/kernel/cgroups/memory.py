"""The memory files of a cgroup, in v1 and v2.

=========  ==============================================================  ================================
what       v1                                                              v2
=========  ==============================================================  ================================
usage      memory.usage_in_bytes                                           memory.current
limit      memory.limit_in_bytes: bytes; "-1" takes it away                memory.max: bytes or "max"
inactive   memory.stat: total_inactive_file                                memory.stat: inactive_file
=========  ==============================================================  ================================

Usage has page cache in it. The working set is usage without the pages of files that nobody has used lately,
which the kernel gives back first: what kubelet and ``kubectl top`` show.

Source: Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst; kubelet (cAdvisor) setMemoryStats.
"""

from __future__ import annotations

import re

from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.errors import Malformed
from corewise.quantities import Bytes

_NUMBER = re.compile(r"[0-9]{1,20}")


def usage_file(version: Version) -> str:
    """Return the file of what is in use, page cache included."""
    return "memory.current" if version is Version.V2 else "memory.usage_in_bytes"


def limit_file(version: Version) -> str:
    """Return the file of the limit."""
    return "memory.max" if version is Version.V2 else "memory.limit_in_bytes"


def read_memory_usage(files: Files, cgroup: str) -> Bytes:
    """Return the memory that a cgroup and those below it use, page cache included.

    Raises:
        KernelError: among them Missing, Unreadable and Malformed.
    """
    file = usage_file(files.version)
    return _bytes(cgroup, file, files.read(cgroup, file))


def read_working_set(files: Files, cgroup: str) -> Bytes:
    """Return the memory that a cgroup and those below it use, without inactive pages of files.

    Raises:
        KernelError: among them Missing, Unreadable and Malformed.
    """
    field = "inactive_file" if files.version is Version.V2 else "total_inactive_file"
    usage = read_memory_usage(files, cgroup)
    text = files.read(cgroup, "memory.stat")
    fields = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    if field not in fields:
        raise Malformed(f"{cgroup}/memory.stat", f"there is no {field}")
    return Bytes(max(0, usage - _bytes(cgroup, "memory.stat", fields[field])))


def _bytes(cgroup: str, file: str, text: str) -> Bytes:
    if not _NUMBER.fullmatch(text):
        raise Malformed(f"{cgroup}/{file}", f"unexpected content {text[:80]!r}")
    return Bytes(int(text))
