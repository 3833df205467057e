"""How much of a node's amplified CPU is taken, and whether a pod fits: the arithmetic of scheduling.

A CPUSet pod owns physical CPUs, and an owned CPU takes its ratio of the node's amplified CPU. All amounts are
milli-CPU, r is the node's CPU amplification ratio:

    owned(pod)   = what the pod owns of its request: all of it, of a kubelet's static CPU manager the
                   containers with whole CPUs; of a CPUShare pod nothing
    occupied     = R - A + ceil(A x r)   if R >= A, else R
                   R = sum of requests, A = 1000 x CPUs owned
    fits iff       request = 0, or occupied(request, owned(pod)) <= allocatable - occupied(R, A)

With r = 1.00, or where nothing is owned, that is the scheduler's usual arithmetic. Per NUMA node it is the
same with the zone's amounts, the pod's own request among them. Owned CPUs are whole, so ceil is exact and
``occupied`` of two pods is the sum of both.

Every function takes whole numbers and int64 columns over nodes alike: the scheduler, the manager and the
tests compute with the same lines. Ratios are given in hundredths.

Source: the scheduler part of the proposal node-resource-amplification.
"""

from __future__ import annotations

from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from corewise.quantities import ONE

Column: TypeAlias = NDArray[np.int64]
"""One amount for each of many nodes."""

Flags: TypeAlias = NDArray[np.bool_]
_HUNDRED = ONE.hundredths


@overload
def amplified_up(milli: int, hundredths: int) -> int: ...
@overload
def amplified_up(milli: int | Column, hundredths: Column) -> Column: ...
def amplified_up(milli: int | Column, hundredths: int | Column) -> int | Column:
    """Return ceil(milli x ratio)."""
    return -(-milli * hundredths // _HUNDRED)


@overload
def occupied(requested: int, owned: int, hundredths: int) -> int: ...
@overload
def occupied(requested: int | Column, owned: int | Column, hundredths: Column) -> Column: ...
def occupied(requested: int | Column, owned: int | Column, hundredths: int | Column) -> int | Column:
    """Return how much amplified CPU requests take, of which ``owned`` are for CPUs that are owned."""
    return _occupied(requested, owned, hundredths)


def _occupied(requested: int | Column, owned: int | Column, hundredths: int | Column) -> int | Column:
    more = -(-owned * hundredths // _HUNDRED) - owned
    return requested + more * (requested >= owned)


@overload
def fits(request: int, owned: int, room: int, hundredths: int) -> bool: ...
@overload
def fits(request: int, owned: int | Column, room: Column, hundredths: Column) -> Flags: ...
def fits(request: int, owned: int | Column, room: int | Column, hundredths: int | Column) -> bool | Flags:
    """Whether a pod fits into ``room``, which is allocatable less what is occupied."""
    needed = _occupied(request, owned, hundredths)
    return (needed <= room) | (request == 0)
