"""The plant: what the containers of a machine get in a moment, and what they cost each other.

CPU time is divided among the tree of cgroups as :mod:`corewise.local.fair_share` says: weights and quotas at
every level, CPU sets. What a container does with its time depends on the speed of the hardware threads it
runs on, and with hyper-threading that depends on their siblings. With ``lone`` the speed of a thread whose
sibling idles (core_speed x turbo_gain of :mod:`corewise.local.cpu_models`), ``both`` that of each of two
busy ones (x thread_share), and ``u`` the busy part of the threads of a pool of CPUs:

    speed(u) = lone                                             u <= 1/2
    speed(u) = ((1 - u) x lone + (2 u - 1) x both) / u          u > 1/2

The kernel looks for a core that is idle as a whole before it takes the sibling of a busy thread. So up to
half of the threads run alone; of ``u`` beyond that, ``2u - 1`` have a busy sibling and ``1 - u`` have none.
The mean is everybody's: online and offline threads are mixed over the cores. Without hyper-threading ``lone
= both``.

A container's *demand* is in baseline CPUs (compute), as work comes in: it wants

    wants_i   = demand_i / speed_i                    CPUs: work takes more time on a slower thread
    time_i    by the tree of cgroups
    compute_i = time_i x speed_i                      summed over pools

``u`` follows from the times, and they follow from ``u``: the step is the fixed point, found from u = 0
upwards. So what offline work costs online work on the same machine is this: it keeps siblings busy, online
threads slow down, online containers use more CPU time for the same work, and those that have no more (their
quota, or the machine, is used up) do less. *Slowdown* of a container is, over a window, at the same demand
and quotas,

    1 - compute beside offline pods / compute alone

Pure and deterministic: the same tree and demand give the same numbers, and a step knows nothing of the one
before. Not modelled: caches and memory bandwidth, NUMA, frequency that depends on load, the cost of a
switch, the time a thread waits for a CPU although there is enough for all, a core whose two threads are in
different pools.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corewise.local.fair_share import Division, Tree, divide

_ROUNDS = 40
_CLOSE = 1e-7


@dataclass(frozen=True, slots=True)
class Threads:
    """The speed of a machine's hardware threads, in baseline CPUs: with an idle and with a busy sibling."""

    lone: float
    both: float

    def speed(self, busy: float) -> float:
        """Return the mean speed of the busy threads, where so many (0 to 1) are busy."""
        if busy <= 0.5:
            return self.lone
        busy = min(1.0, busy)
        return ((1 - busy) * self.lone + (2 * busy - 1) * self.both) / busy


@dataclass(frozen=True, slots=True)
class Moment:
    """One step: by the index of a cgroup in its tree, CPUs it has, CPUs its quota refused it, its compute."""

    time: Sequence[float]
    refused: Sequence[float]
    compute: Sequence[float]

    @property
    def busy(self) -> float:
        """CPUs busy on the whole machine."""
        return self.time[0]


def moment(tree: Tree, demand: Mapping[int, float], threads: Threads) -> Moment:
    """Return what everybody gets. ``demand`` is in baseline CPUs, by the index of the leaf."""
    sizes = [pool.size for pool in tree.pools]
    busy = [0.0] * len(sizes)
    division = _divided(tree, demand, threads, busy, None)
    for _ in range(_ROUNDS if threads.lone != threads.both else 0):
        first = [time[0] for time in division.by_pool]
        if _distance(first, busy) < _CLOSE:
            break
        division = _divided(tree, demand, threads, first, division)
        second = [time[0] for time in division.by_pool]
        busy = [_ahead(*each) for each in zip(busy, first, second, sizes, strict=True)]
        division = _divided(tree, demand, threads, busy, division)
    return _moment(tree, division, threads)


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def _ahead(start: float, first: float, second: float, most: float) -> float:
    """Return where the sequence start, first, second goes to (Aitken), within 0 and ``most``."""
    bend = second - 2 * first + start
    if abs(bend) < _CLOSE * _CLOSE:
        return second
    return min(most, max(0.0, start - (first - start) ** 2 / bend))


def _divided(
    tree: Tree, demand: Mapping[int, float], threads: Threads, busy: Sequence[float], last: Division | None
) -> Division:
    """Divide the machine, with the threads as fast as they are while so many CPUs of each pool are busy."""
    speeds = [threads.speed(used / pool.size) for used, pool in zip(busy, tree.pools, strict=True)]
    wants = {}
    for leaf, wanted in demand.items():
        reachable = sum([pool.size for pool in tree.pools if leaf in pool.leaves])
        wants[leaf] = min(reachable, wanted / _speed_of(leaf, tree, speeds, last))
    return divide(tree, wants)


def _speed_of(leaf: int, tree: Tree, speeds: Sequence[float], last: Division | None) -> float:
    """Return the speed at which a leaf runs: the mean over its pools, by its time or else their size."""
    if len(speeds) == 1:
        return speeds[0]
    if last is not None and last.time[leaf] > 0:
        parts = [time[leaf] for time in last.by_pool]
    else:
        parts = [float(pool.size) if leaf in pool.leaves else 0.0 for pool in tree.pools]
    return math.fsum(p * s for p, s in zip(parts, speeds, strict=True)) / math.fsum(parts)


def _moment(tree: Tree, division: Division, threads: Threads) -> Moment:
    compute = [0.0] * len(tree.cgroups)
    for pool, time in zip(tree.pools, division.by_pool, strict=True):
        speed = threads.speed(time[0] / pool.size)
        for index, share in enumerate(time):
            compute[index] += share * speed
    return Moment(division.time, division.refused, compute)
