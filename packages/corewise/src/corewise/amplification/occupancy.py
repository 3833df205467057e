"""The amplified CPU of a node that is taken, and whether a pod fits.

A CPUSet pod owns physical CPUs, and an owned CPU takes its ratio of the node's amplified CPU. All amounts are
milli-CPU, r is the node's CPU amplification ratio:

    owned(pod)   = what the pod owns of its request: all of it, of a kubelet's static CPU manager the
                   containers with whole CPUs; of a CPUShare pod nothing
    occupied     = R - N + max(N, ceil(A x r))   if R >= N, else R
                   R = sum of requests, A = 1000 x CPUs owned, N = what is requested for these
    fits iff       request = 0, or occupied(request, owned(pod)) <= allocatable - occupied(R, A)

N = A, but for pods whose CPUs are normalized: such a pod requests n normalized CPUs, and owns the physical
ones that do their work, by the node's normalization ratio q:

    owned(pod)   = 1000 x ceil(n / q), in whole cores where that is required
    surplus      = N - A, what these pods request beyond the CPUs they own

r is q times the user's own ratio, so ceil(n / q) x r is at least n when the pod is placed; where a ratio
falls later, it may be less, and then its request counts.

So that kube-scheduler is right about shared pods by itself, the write that enters an owned CPU in a Node's
ledger lowers allocatable by what that CPU costs beyond its request:

    fold        = max(0, ceil(A x r) - N)        A and N of the ledger
    allocatable = floor(raw x r) - fold          in status
    left        = allocatable + fold - occupied(R, A)

``unfolded`` adds the fold back where it is in status, and :func:`left` is what scheduler, planner and
``corewise nodes`` all say is left.

With r = 1.00, or where nothing is owned, that is the scheduler's usual arithmetic. Per NUMA node (numa.py) it
is the same with the zone's amounts, the pod's own request among them. Owned CPUs are whole, so ceil is exact
and ``occupied`` of two pods is the sum of both.

Every function takes whole numbers and int64 columns over nodes alike: the scheduler, the manager and the
tests compute with the same lines. Ratios are given in hundredths. The agent, which has no columns, computes
here too, so numpy is not loaded.

Source: the scheduler part of the proposal node-resource-amplification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from corewise.amplification.amounts import CPU
from corewise.amplification.annotations import Cell, Stated
from corewise.quantities import ONE, Ratio, amplify

if TYPE_CHECKING:
    from corewise.amplification.numa import BoolColumn, IntColumn

_HUNDRED = ONE.hundredths


@overload
def amplified_up(milli: int, hundredths: int) -> int: ...
@overload
def amplified_up(milli: int | IntColumn, hundredths: IntColumn) -> IntColumn: ...
def amplified_up(milli: int | IntColumn, hundredths: int | IntColumn) -> int | IntColumn:
    """Return ceil(milli x ratio)."""
    return -(-milli * hundredths // _HUNDRED)


@overload
def normalized_cpus(requested: int, hundredths: int) -> int: ...
@overload
def normalized_cpus(requested: int, hundredths: IntColumn) -> IntColumn: ...
def normalized_cpus(requested: int, hundredths: int | IntColumn) -> int | IntColumn:
    """Return the physical CPUs that do the work of ``requested`` normalized ones: ceil(requested / ratio).

    At least 1, if any are requested.
    """
    return -(-requested * _HUNDRED // hundredths)


@overload
def occupied(requested: int, owned: int, hundredths: int, surplus: int = 0) -> int: ...
@overload
def occupied(
    requested: int | IntColumn,
    owned: int | IntColumn,
    hundredths: IntColumn,
    surplus: int | IntColumn = 0,
) -> IntColumn: ...
def occupied(
    requested: int | IntColumn,
    owned: int | IntColumn,
    hundredths: int | IntColumn,
    surplus: int | IntColumn = 0,
) -> int | IntColumn:
    """Return the amplified CPU that requests take, of which ``owned + surplus`` are for ``owned`` CPUs."""
    return _occupied(requested, owned, hundredths, surplus)


def _occupied(
    requested: int | IntColumn,
    owned: int | IntColumn,
    hundredths: int | IntColumn,
    surplus: int | IntColumn = 0,
) -> int | IntColumn:
    more = -(-owned * hundredths // _HUNDRED) - owned - surplus
    return requested + more * ((requested >= owned + surplus) & (more > 0))


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


def normalization_of_owned(
    normalization: Ratio | None, amplification: Ratio | None, *, static_cpu_manager: bool
) -> Ratio | None:
    """Return the ratio by which owned CPUs are normalized on a node; None if it is not known."""
    if static_cpu_manager:
        return ONE
    return None if normalization is None or amplification is None else min(normalization, amplification)


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


def left(allocatable: int, requested: int, owned: int, hundredths: int, surplus: int = 0) -> int:
    """Return the amplified CPU of a node that is left; ``allocatable`` is unfolded."""
    return allocatable - occupied(requested, owned, hundredths, surplus)
