"""The NUMA nodes of a node that a pod may be placed on, by the rules of kubelet's topology manager.

    policy            admits
    None, BestEffort  whatever the node as a whole has room for
    Restricted        if a set of NUMA nodes has room, and no smaller set could hold the pod even if empty
    SingleNUMANode    if one NUMA node has room

A set counts for all resources alike: kubelet prefers a placement only where the affinities of cpu and memory
are equal. Zones that a node does not have are columns of zeros. Sets are bit masks of zones, and of sets of
the same size the one with the lower number is taken, as kubelet does; 0 stands for none. Amounts are
amplified milli-CPU (with the pod's own request amplified) or bytes.

There are 2**n sets of n zones, so kubelet's topology manager stops at 8 NUMA nodes. Nodes with more than
:data:`MOST_IN_SETS` have no affinity under BestEffort and Restricted, which weigh sets of zones.

Source: kubelet's pkg/kubelet/cm/topologymanager/policy.go, cpumanager/policy_static.go (hints).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corewise.vocabulary.cpu_annotations import NumaPolicy

IntColumn: TypeAlias = NDArray[np.int64]
"""One amount for each of many nodes."""

BoolColumn: TypeAlias = NDArray[np.bool_]

MOST_ZONES: Final = 63
"""A set of zones is a mask of that many bits."""

MOST_IN_SETS: Final = 8
"""kubelet's own limit, unless its option max-allowable-numa-nodes raises it."""

POLICIES_WITH_SETS: Final = frozenset({NumaPolicy.BEST_EFFORT, NumaPolicy.RESTRICTED})
"""The policies that weigh sets of zones."""


@dataclass(frozen=True, slots=True)
class ZoneAmounts:
    """One resource: rows are zones, columns are nodes; ``needed`` is what the pod needs on each node."""

    allocatable: IntColumn
    free: IntColumn
    needed: IntColumn


def admitted(policy: NumaPolicy, resources: Sequence[ZoneAmounts], nodes: int) -> BoolColumn:
    """Return the nodes on which the policy admits the pod. ``resources``: those that the pod requests."""
    if not resources or policy not in {NumaPolicy.RESTRICTED, NumaPolicy.SINGLE_NUMA_NODE}:
        return np.ones(nodes, dtype=np.bool_)
    return affinity(policy, resources) > 0


def affinity(policy: NumaPolicy, resources: Sequence[ZoneAmounts]) -> IntColumn:
    """Return the set of zones where the pod goes on each node; 0 where the policy has none.

    BestEffort takes the smallest set with room, preferred or not. None has no affinity.
    """
    if not resources or policy is NumaPolicy.NONE:
        return np.zeros(resources[0].needed.shape if resources else 0, dtype=np.int64)
    if policy is NumaPolicy.SINGLE_NUMA_NODE:
        return _first_zone(resources)
    sizes = [_smallest_size(each) for each in resources]
    alike = np.where(np.all([size == sizes[0] for size in sizes], axis=0), sizes[0], 0)
    preferred = _first_with_room(resources, alike)
    if policy is NumaPolicy.RESTRICTED:
        return preferred
    return np.where(preferred > 0, preferred, _first_with_room(resources, None))


def has_too_many(allocatable: IntColumn) -> BoolColumn:
    """Return the nodes whose zones are too many for sets, by one amount of each zone."""
    return np.asarray(np.any(allocatable[MOST_IN_SETS:] > 0, axis=0))


def _smallest_size(resource: ZoneAmounts) -> IntColumn:
    """Return the number of zones the pod would need on each empty node; if it never fits, one too many."""
    largest_first = -np.sort(-resource.allocatable, axis=0)
    short: BoolColumn = np.cumsum(largest_first, axis=0) < resource.needed
    sizes: IntColumn = short.sum(axis=0) + 1
    return sizes


def _first_zone(resources: Sequence[ZoneAmounts]) -> IntColumn:
    """Return the first zone with room for all resources."""
    found = np.zeros_like(resources[0].needed)
    for zone in range(len(resources[0].free)):
        room = found == 0
        for each in resources:
            room &= np.maximum(each.free[zone], 0) >= each.needed
        found[room] = 1 << zone
    return found


def _first_with_room(resources: Sequence[ZoneAmounts], sizes: IntColumn | None) -> IntColumn:
    """Return the first set with room for all resources, small sets first; of exactly ``sizes`` if given."""
    found = np.zeros_like(resources[0].needed)
    few = ~np.any([has_too_many(each.allocatable) for each in resources], axis=0)
    wanted = None if sizes is None else frozenset(sizes.tolist())
    for mask, zones in _sets(min(len(resources[0].free), MOST_IN_SETS)):
        if wanted is not None and len(zones) not in wanted:
            continue
        room = few & (found == 0)
        if sizes is not None:
            room &= sizes == len(zones)
        for each in resources:
            room &= np.maximum(each.free[zones], 0).sum(axis=0) >= each.needed
        found[room] = mask
    return found


@lru_cache(maxsize=MOST_IN_SETS)
def _sets(zones: int) -> tuple[tuple[int, list[int]], ...]:
    """Return all sets of zones as masks and rows, small sets first, lower numbers first among equals."""
    masks = sorted(range(1, 1 << zones), key=lambda mask: (mask.bit_count(), mask))
    return tuple((mask, members(mask)) for mask in masks)


def members(mask: int) -> list[int]:
    """Return the zones of a set."""
    return [zone for zone in range(mask.bit_length()) if mask >> zone & 1]


def distributed(needed: int, free: Iterable[tuple[int, int]]) -> dict[int, int] | None:
    """Spread an amount over zones, each filled before the next; None if they have no room for it.

    ``free`` has (zone, what is free in it) in the order of filling.
    """
    shares: dict[int, int] = {}
    for zone, room in free:
        share = min(needed, max(0, room))
        if share:
            shares[zone] = share
            needed -= share
    return None if needed else shares
