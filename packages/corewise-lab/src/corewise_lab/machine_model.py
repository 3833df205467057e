"""The plant: what the containers of a machine get in a moment, and what they cost each other.

CPU time is divided among the tree of cgroups as :mod:`corewise_lab.fair_share` says: weights and
quotas at every level, CPU sets. What a container does with its time depends on the speed of the hardware
threads it runs on, and with hyper-threading that depends on their siblings. With ``lone`` the speed of a
thread whose sibling idles (core_speed x turbo_gain of :mod:`corewise_lab.machines`), ``both`` that of
each of two busy ones (x thread_share), and ``u`` the busy part of the threads of a pool of CPUs:

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

Where the machine's memory and the containers' use of it are known, work is stretched by what they cost each
other there (:mod:`corewise_lab.contention`): with ``stretch_i``, work takes so much more time,

    wants_i   = demand_i x stretch_i / speed_i
    compute_i = time_i x speed_i / stretch_i

and the step is the fixed point of this too.

Pure and deterministic: the same tree and demand give the same numbers, and a step knows nothing of the one
before. Not modeled: NUMA, frequency that depends on load, the cost of a switch, the time a thread waits for
a CPU although there is enough for all, a core whose two threads are in different pools.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from corewise_lab.contention import Contention, Memory, MemoryUse, Stretches, contend
from corewise_lab.fair_share import Pool, Tree, added, crossing, divide_pool, refused

_CLOSE = 1e-7


@dataclass(frozen=True, slots=True)
class ThreadSpeeds:
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
    """One step: by the index of a cgroup in its tree, CPUs it has, CPUs its quota refused it, its compute.

    ``contention`` is that for memory, its users the indices of leaves; None if unknown.
    """

    time: Sequence[float]
    refused: Sequence[float]
    compute: Sequence[float]
    contention: Contention | None = None

    @property
    def busy(self) -> float:
        """CPUs busy on the whole machine."""
        return self.time[0]


def moment(tree: Tree, demand: Mapping[int, float], threads: ThreadSpeeds) -> Moment:
    """Return the CPU that all cgroups get. ``demand`` is in baseline CPUs, by the index of the leaf."""
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


def moment_with_memory(
    tree: Tree,
    demand: Mapping[int, float],
    threads: ThreadSpeeds,
    memory: Memory,
    uses: Mapping[int, MemoryUse],
) -> Moment:
    """Return the CPU that all cgroups get where leaves contend for memory as their ``uses`` say."""

    def stretched(by: Stretches) -> Moment:
        longer = {leaf: wanted * by.get(leaf, 1.0) for leaf, wanted in demand.items()}
        return moment(tree, longer, threads)

    def work(by: Stretches) -> dict[int, float]:
        compute = stretched(by).compute
        return {leaf: compute[leaf] / stretch for leaf, stretch in by.items()}

    contention = contend(memory, uses, work)
    taken = stretched(contention.stretch)
    return replace(taken, compute=_shrunk(tree, taken.compute, contention.stretch), contention=contention)


def _shrunk(tree: Tree, compute: Sequence[float], by: Stretches) -> list[float]:
    """Return the compute of leaves divided by their stretches, and the sums of it above them."""
    found = [each / by.get(index, 1.0) for index, each in enumerate(compute)]
    for index in range(len(found) - 1, -1, -1):
        below = tree.children[index]
        if below:
            found[index] = math.fsum(found[child] for child in below)
    return found


def _settled(
    tree: Tree, pool: Pool, demand: Mapping[int, float], used: Sequence[float], threads: ThreadSpeeds
) -> list[float]:
    """Return the times in a pool with which the speed agrees that they were worked out with.

    More busy threads are slower, so that more are wanted: what is busy rises with what was assumed, and
    crosses it once.
    """
    size = float(pool.size)
    asked = [(leaf, demand.get(leaf, 0.0)) for leaf in pool.leaves]
    quotas = [max(0.0, quota - spent) for quota, spent in zip(tree.quotas, used, strict=True)]

    def excess(busy: float) -> tuple[float, list[float]]:
        speed = threads.speed(busy / size)
        wants = {leaf: min(size, compute / speed) for leaf, compute in asked}
        time = divide_pool(tree, pool, wants, quotas)
        return time[0] - busy, time

    least, time = excess(0.0)
    if least <= size / 2 or threads.lone == threads.both:
        return time
    return crossing(excess, least, size, _CLOSE)
