"""What a dry run prints: one JSON line for each write that would be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from corewise.agent.topology_report import TopologyChange
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


def _print(line: object, write: Write) -> None:
    write(msgspec.json.encode(line).decode() + "\n")
