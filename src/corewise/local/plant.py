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

``u`` follows from the times, and they follow from ``u``: the step is the one fixed point of the two. Pools
are settled one after the other, and what a container could not do in one it wants to do in the next. So what
offline work costs online work on the same machine is this: it keeps siblings busy, online threads slow down,
online containers use more CPU time for the same work, and those that have no more (their quota, or the
machine, is used up) do less. *Slowdown* of a container is, over a window, at the same demand and quotas,

    1 - compute beside offline pods / compute alone

Pure and deterministic: the same tree and demand give the same numbers, and a step knows nothing of the one
before. Not modelled: caches and memory bandwidth, NUMA, frequency that depends on load, the cost of a
switch, the time a thread waits for a CPU although there is enough for all, a core whose two threads are in
different pools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corewise.local.fair_share import Pool, Tree, added, divide_pool, refused

_ROUNDS = 60
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
    left, speeds = dict(demand), dict.fromkeys(demand, threads.lone)
    time = compute = [0.0] * len(tree.cgroups)
    for pool in tree.pools:
        more = _settled(tree, pool, left, time, threads)
        speed = threads.speed(more[0] / pool.size)
        time, compute = added(time, more), added(compute, [share * speed for share in more])
        for leaf in pool.leaves:
            left[leaf], speeds[leaf] = max(0.0, left.get(leaf, 0.0) - more[leaf] * speed), speed
    wants = {leaf: min(tree.reach(leaf), time[leaf] + left[leaf] / speeds[leaf]) for leaf in left}
    return Moment(time, refused(tree, wants, time), compute)


def _settled(
    tree: Tree, pool: Pool, demand: Mapping[int, float], used: Sequence[float], threads: Threads
) -> list[float]:
    """Return the times in a pool with which the speed agrees that they were worked out with.

    More busy threads are slower, so that more are wanted: what is busy rises with what was assumed, and
    crosses it once. The crossing is looked for between two bounds by false position (Illinois).
    """
    size = float(pool.size)

    def excess(busy: float) -> tuple[float, list[float]]:
        speed = threads.speed(busy / size)
        wants = {leaf: min(size, demand.get(leaf, 0.0) / speed) for leaf in pool.leaves}
        time = divide_pool(tree, pool, wants, used)
        return time[0] - busy, time

    above, time = excess(0.0)
    if above <= size / 2 or threads.lone == threads.both:
        return time
    low, high = above, size
    above, time = excess(low)
    below, all_busy = excess(high)
    if below >= 0:
        return all_busy
    for _ in range(_ROUNDS):
        if high - low < _CLOSE or above < _CLOSE:
            break
        middle = low + (high - low) * above / (above - below)
        found, time = excess(middle)
        if abs(found) < _CLOSE:
            break
        if found > 0:
            low, above, below = middle, found, below / 2
        else:
            high, below, above = middle, found, above / 2
    return time
