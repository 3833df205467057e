"""What a dry run prints: one JSON line for each write that would be made."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from corewise.agent.enforcement import Cycle
from corewise.agent.topology_report import TopologyChange

Write = Callable[[str], object]


def print_cycle(cycle: Cycle, write: Write) -> None:
    """Print the writes of a cycle."""
    for each in cycle.written:
        line = {"action": "WriteQuota", "cgroup": each.cgroup, "file": each.file}
        _print({**line, "old": each.old, "new": each.new}, write)


def print_change(node: str, change: TopologyChange | None, write: Write) -> None:
    """Print a change of the node's NodeResourceTopology."""
    if change is not None:
        action = "CreateNodeResourceTopology" if change.create else "PatchNodeResourceTopology"
        _print({"action": action, "object": node, "why": change.why, "body": change.body}, write)


def _print(line: object, write: Write) -> None:
    write(msgspec.json.encode(line).decode() + "\n")
