"""Paths of cgroups, from the root of their hierarchy. Pure."""

from __future__ import annotations

from collections.abc import Iterator


def ancestors(cgroup: str) -> Iterator[str]:
    """Yield the paths above a cgroup, nearest first, up to "/"."""
    while cgroup != "/":
        cgroup = cgroup.rpartition("/")[0] or "/"
        yield cgroup


def depth(cgroup: str) -> int:
    """Return how far a cgroup stands below "/"."""
    return 0 if cgroup == "/" else cgroup.count("/")
