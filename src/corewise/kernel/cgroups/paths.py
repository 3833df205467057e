"""Paths of cgroups, from the root of their hierarchy. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet


def ancestors(cgroup: str) -> Iterator[str]:
    """Yield the paths above a cgroup, nearest first, up to "/"."""
    while cgroup != "/":
        cgroup = cgroup.rpartition("/")[0] or "/"
        yield cgroup


def depth(cgroup: str) -> int:
    """Return how far a cgroup stands below "/"."""
    return 0 if cgroup == "/" else cgroup.count("/")


def is_within(cgroup: str, trees: AbstractSet[str]) -> bool:
    """Say whether a cgroup is one of these, or below one."""
    return bool(trees) and (cgroup in trees or not trees.isdisjoint(tuple(ancestors(cgroup))))
