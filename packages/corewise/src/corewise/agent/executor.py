"""A dry run: nothing is written, and each write that would be made is printed as one JSON line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from corewise.agent.topology_report import TopologyChange
from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.journaled_writer import Written

Write = Callable[[str], object]


def print_writes(written: Iterable[Written], write: Write) -> None:
    """Print writes to cgroups."""
    for each in written:
        action = "WriteCPUSet" if each.file.startswith("cpuset.") else "WriteQuota"
        line = {"action": action, "cgroup": each.cgroup, "file": each.file}
        _print({**line, "old": each.old, "new": each.new}, write)


def print_change(node: str, change: TopologyChange | None, write: Write) -> None:
    """Print a change of the node's NodeResourceTopology."""
    if change is not None:
        action = "CreateNodeResourceTopology" if change.create else "PatchNodeResourceTopology"
        _print({"action": action, "object": node, "why": change.why, "body": change.body}, write)


def print_node_patch(node: str, body: Mapping[str, Any], write: Write) -> None:
    """Print a patch of the Node's status."""
    _print({"action": "PatchNodeStatus", "object": node, "body": body}, write)


def print_eviction(pod: str, reason: str, why: str, write: Write) -> None:
    """Print the eviction of a pod."""
    _print({"action": "EvictPod", "object": pod, "reason": reason, "why": why}, write)


def _print(line: object, write: Write) -> None:
    write(msgspec.json.encode(line).decode() + "\n")


class Rehearsal:
    """Cgroup files of a dry run: reads what is there, or what would be there by now."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._written: dict[tuple[str, str], str] = {}

    @property
    def version(self) -> Version:
        return self._files.version

    def read(self, cgroup: str, file: str) -> str:
        found = self._files.read(cgroup, file)
        return self._written.get((cgroup, file), found)

    def write(self, cgroup: str, file: str, text: str) -> None:
        before = self.read(cgroup, file)
        kept_period = before.partition(" ")[2] if file == "cpu.max" else ""
        self._written[cgroup, file] = f"{text} {kept_period}".rstrip()

    def exists(self, cgroup: str) -> bool:
        return self._files.exists(cgroup)

    def children(self, cgroup: str) -> tuple[str, ...]:
        return self._files.children(cgroup)
