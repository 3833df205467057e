"""How much of a node's amplified CPU is taken, and whether a pod fits: the node, and its NUMA nodes.

**A node.** A CPUSet pod owns physical CPUs, and an owned CPU takes its ratio of the node's amplified CPU. All
amounts are milli-CPU, r is the node's CPU amplification ratio:

    owned(pod)   = what the pod owns of its request: all of it, of a kubelet's static CPU manager the
                   containers with whole CPUs; of a CPUShare pod nothing
    occupied     = R - A + ceil(A x r)   if R >= A, else R
                   R = sum of requests, A = 1000 x CPUs owned
    fits iff       request = 0, or occupied(request, owned(pod)) <= allocatable - occupied(R, A)

**Folded in.** So that kube-scheduler is right about shared pods by itself, the write that enters an owned CPU
in a Node's ledger lowers allocatable by what that CPU costs beyond its request:

    fold        = ceil(A x (r - 1))              A of the ledger
    allocatable = floor(raw x r) - fold          in status
    left        = allocatable + fold - occupied(R, A)

``unfolded`` adds the fold back where it is in status, and :func:`left` is what scheduler, planner and
``corewise nodes`` all say is left.

With r = 1.00, or where nothing is owned, that is the scheduler's usual arithmetic. Per NUMA node it is the
same with the zone's amounts, the pod's own request among them. Owned CPUs are whole, so ceil is exact and
``occupied`` of two pods is the sum of both.

Every function takes whole numbers and int64 columns over nodes alike: the scheduler, the manager and the
tests compute with the same lines. Ratios are given in hundredths.

**NUMA nodes.** Which of them a pod may be placed on, as kubelet's topology manager decides it:

    policy            admits
    None, BestEffort  whatever the node as a whole has room for
    Restricted        if a set of NUMA nodes has room, and no smaller set could hold the pod even if empty
    SingleNUMANode    if one NUMA node has room

A set counts for all resources alike: kubelet prefers a placement only where the affinities of cpu and memory
are equal. Zones that a node does not have are columns of zeros. Sets are bit masks of zones, and of sets of
the same size the one with the lower number is taken, as kubelet does; 0 stands for none. Amounts are
amplified milli-CPU (with the pod's own request amplified) or bytes.

Source: the scheduler part of the proposal node-resource-amplification; kubelet's
pkg/kubelet/cm/topologymanager/policy.go, cpumanager/policy_static.go (hints).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from corewise.amplification.amounts import CPU
from corewise.amplification.annotations import Cell, Stated
from corewise.quantities import ONE, Ratio, amplify
from corewise.vocabulary.cpu_annotations import NumaPolicy

IntColumn: TypeAlias = NDArray[np.int64]
"""One amount for each of many nodes."""

BoolColumn: TypeAlias = NDArray[np.bool_]
_HUNDRED = ONE.hundredths


@overload
def amplified_up(milli: int, hundredths: int) -> int: ...
@overload
def amplified_up(milli: int | IntColumn, hundredths: IntColumn) -> IntColumn: ...
def amplified_up(milli: int | IntColumn, hundredths: int | IntColumn) -> int | IntColumn:
    """Return ceil(milli x ratio)."""
    return -(-milli * hundredths // _HUNDRED)


@overload
def occupied(requested: int, owned: int, hundredths: int) -> int: ...
@overload
def occupied(requested: int | IntColumn, owned: int | IntColumn, hundredths: IntColumn) -> IntColumn: ...
def occupied(
    requested: int | IntColumn, owned: int | IntColumn, hundredths: int | IntColumn
) -> int | IntColumn:
    """Return how much amplified CPU requests take, of which ``owned`` are for CPUs that are owned."""
    return _occupied(requested, owned, hundredths)


def _occupied(
    requested: int | IntColumn, owned: int | IntColumn, hundredths: int | IntColumn
) -> int | IntColumn:
    more = -(-owned * hundredths // _HUNDRED) - owned
    return requested + more * (requested >= owned)


@overload
def fits(request: int, owned: int, room: int, hundredths: int) -> bool: ...
@overload
def fits(request: int, owned: int | IntColumn, room: IntColumn, hundredths: IntColumn) -> BoolColumn: ...
def fits(
    request: int, owned: int | IntColumn, room: int | IntColumn, hundredths: int | IntColumn
) -> bool | BoolColumn:
    """Whether a pod fits into ``room``, which is allocatable less what is occupied."""
    needed = _occupied(request, owned, hundredths)
    return (needed <= room) | (request == 0)


def ratio_of_owned(stated: Stated) -> Ratio | None:
    """Return the ratio by which owned CPUs count on a node; None if it cannot be read.

    It is the larger of the one in force and the recorded one: while a change is under way, nothing is
    promised that one of the two does not have.
    """
    ratio = stated.ratio(CPU)
    return None if ratio is None else max(ratio, stated.recorded_ratio(CPU))


def unfolded(allocatable: int, stated: Stated) -> int:
    """Return a node's allocatable milli-CPU without the fold of what its ledger owns.

    The fold is added only if it surely is in status: there are writers that know no ledger, and a ratio may
    be changing. Otherwise the amount in status counts as it is, which promises less. While kubelet is asked
    to state it (status.py), the amount is 1m more.
    """
    cell: Cell = ("allocatable", CPU)
    known, ratio = stated.known[cell], stated.ratio(CPU)
    if ratio is None or known.raw is None or known.applied != allocatable:
        return allocatable
    whole = amplify(known.raw, ratio)
    asked = allocatable - max(0, whole - stated.folded(cell, ratio))
    return whole if asked in {0, 1} else allocatable


def left(allocatable: int, requested: int, owned: int, hundredths: int) -> int:
    """Return how much amplified CPU of a node is left; ``allocatable`` is unfolded."""
    return allocatable - occupied(requested, owned, hundredths)


MOST_ZONES = 16
"""More than any machine that runs a kubelet has; kubelet itself stops at 8 unless told otherwise."""


@dataclass(frozen=True, slots=True)
class ZoneAmounts:
    """One resource: rows are zones, columns are nodes; ``needed`` is what the pod needs on each node."""

    allocatable: IntColumn
    free: IntColumn
    needed: IntColumn


def admitted(policy: NumaPolicy, resources: Sequence[ZoneAmounts], nodes: int) -> BoolColumn:
    """Say which nodes the policy admits the pod on. ``resources``: those that the pod requests at all."""
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
        return _first_with_room(resources, np.ones_like(resources[0].needed))
    sizes = [_smallest_size(each) for each in resources]
    alike = np.where(np.all([size == sizes[0] for size in sizes], axis=0), sizes[0], 0)
    preferred = _first_with_room(resources, alike)
    if policy is NumaPolicy.RESTRICTED:
        return preferred
    return np.where(preferred > 0, preferred, _first_with_room(resources, None))


def _smallest_size(resource: ZoneAmounts) -> IntColumn:
    """Return how many zones the pod would need on each empty node; if it never fits, one too many."""
    largest_first = -np.sort(-resource.allocatable, axis=0)
    short: BoolColumn = np.cumsum(largest_first, axis=0) < resource.needed
    sizes: IntColumn = short.sum(axis=0) + 1
    return sizes


def _first_with_room(resources: Sequence[ZoneAmounts], sizes: IntColumn | None) -> IntColumn:
    """Return the first set with room for all resources, small sets first; of exactly ``sizes`` if given."""
    found = np.zeros_like(resources[0].needed)
    wanted = None if sizes is None else frozenset(sizes.tolist())
    for mask, zones in _sets(len(resources[0].free)):
        if wanted is not None and len(zones) not in wanted:
            continue
        room = found == 0 if sizes is None else (found == 0) & (sizes == len(zones))
        for each in resources:
            room &= np.maximum(each.free[zones], 0).sum(axis=0) >= each.needed
        found[room] = mask
    return found


@lru_cache(maxsize=MOST_ZONES)
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
