"""In which order nested sets are written on v1, so that each is within its parent's at every moment. Pure.

The kernel refuses a set that is not within the parent's (EACCES), and one that does not hold the children's
(EBUSY). A set may also move, from CPUs 0-3 to 4-7: it neither grows nor shrinks. So

1. from the top down everything gets what it is to have more. What holds children that are not yet within its
   new set keeps what they have of its old one for the moment;
2. from the bottom up everything gives up what it is to have no more.

When its turn comes in 1, a set's parent has all that it and its children had, and all that they are to have;
in 2, the children have nothing but what they are to have.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from corewise.kernel.cgroups.paths import ancestors, depth
from corewise.topology import CPUSet


class Move(NamedTuple):
    """One write of a set to a cgroup."""

    cgroup: str
    before: CPUSet
    after: CPUSet


def nested_aims(
    present: Mapping[str, CPUSet], wanted: Mapping[str, CPUSet], firm: Container[str]
) -> tuple[dict[str, CPUSet], dict[str, CPUSet]]:
    """Return what each cgroup is to have, and for those that cannot have it, what their parents have.

    ``present`` are the wanted cgroups and their parents; what is not wanted keeps its present set. One that
    is not ``firm`` gets what of it the parent has, or all that the parent has if that is nothing.
    """
    aims: dict[str, CPUSet] = {}
    beyond: dict[str, CPUSet] = {}
    for cgroup in _downwards(wanted):
        own, parent = wanted[cgroup], next(ancestors(cgroup), "")
        limit = aims.get(parent, present.get(parent, CPUSet()))
        if not limit or own <= limit:
            aims[cgroup] = own
        elif cgroup in firm:
            beyond[cgroup] = limit
        else:
            aims[cgroup] = own & limit or limit
    return aims, beyond


def nested_moves(present: Mapping[str, CPUSet], aims: Mapping[str, CPUSet]) -> list[Move]:
    """Return the writes that bring the sets from what is present to the aims, in order."""
    now = dict(present)
    moves: list[Move] = []

    def write(cgroup: str, after: CPUSet) -> None:
        if now[cgroup] != after:
            moves.append(Move(cgroup, now[cgroup], after))
            now[cgroup] = after

    for cgroup in _downwards(aims):
        if not aims[cgroup] <= now[cgroup]:
            write(cgroup, aims[cgroup] | _below(cgroup, present) & present[cgroup])
    for cgroup in reversed(_downwards(aims)):
        write(cgroup, aims[cgroup])
    return moves


def _below(cgroup: str, present: Mapping[str, CPUSet]) -> CPUSet:
    """Return what the cgroups below one have."""
    return CPUSet.of(cpu for each, has in present.items() if cgroup in ancestors(each) for cpu in has)


def _downwards(cgroups: Mapping[str, CPUSet]) -> list[str]:
    return sorted(cgroups, key=lambda cgroup: (depth(cgroup), cgroup))
