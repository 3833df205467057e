"""Contention of a machine's containers for memory bandwidth and last-level cache. Pure.

A machine moves at most ``B`` bytes/s to and from memory, holds ``C`` bytes in its last-level caches, and
answers after ``l`` seconds while its memory idles. A container's use of them is stated per second of its work
undisturbed, that is with the cache it wants and idle memory (:class:`MemoryUse`):

    b   traffic, bytes per baseline CPU-second of work
    w   bytes it keeps in the cache
    s   how much longer its work takes with nothing of that in the cache
    m   the part of its time in which it waits for memory; so much longer it takes when latency doubles

**Cache.** If all want more than ``C``, each is displaced by what the others bring in: shares ``o`` are by
traffic, none above what its user wants (water-filling). Of the share that it would have alone it has lost

    lost = 1 - o / min(w, C)

and what it misses has to be fetched again, ``M`` lines of ``LINE`` bytes at once, since most of them depend
on others:

    traffic per work = b + s x lost x M x LINE / l

**Latency.** With ``u`` the used part of the bandwidth, memory answers later by the factor

    L(u) = 1 + 0.1 u^4 / (1 - u)              1.01 at half, 1.2 at 80 %, 1.7 at 90 %, 2.6 at 95 %

**Stretch** is how much longer a second's work takes than undisturbed:

    stretch = 1 + m x (L(u) - 1) + s x lost x L(u)

A stretched container does less and so fetches less: ``u`` follows from the stretches and they from ``u``.
Traffic falls as ``u`` rises, so the two agree at one ``u``, which is below 1: no user gets what the machine
does not have. *Slowdown* is ``1 - 1 / stretch``, the part of its throughput that a busy container loses.

Where ``m`` is not stated, it is what Little's law makes of the traffic: ``b x l / (P x LINE)``, at most 1.
Who has traffic waits for a hundredth of its time at least.

What is measured and what is assumed: ``s`` and ``m`` of the packaged types come from the slowdowns of PARSEC
programs beside one source of interference each (eth-easl/cloud-comp-arch-project: the columns llc and membw,
over the column cpu), ``b`` of the hogs from measurements of benchmark applications
(intel/workload-collocation-agent, Apache-2.0). ``P = 10`` is the number of line fill buffers of a core, which
streams fill; ``M = 2`` is an assumption.
``L`` has the shape of loaded-latency curves, flat up to two thirds and steep from 90 % on; its figures are an
assumption.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from corewise_lab.fair_share import crossing, water_fill

LINE = 64
PARALLEL = 10
MISSED = 2
IDLE_LATENCY = 85e-9
MOST_USED = 1 - 1e-9
_STEEPNESS = 0.1
_CLOSE = 1e-6
_LEAST_TRAFFIC = 1.0
_LEAST_BOUND = 0.01

WorkByContainer = Mapping[int, float]
Stretches = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Memory:
    """A machine's memory: bytes per second, bytes of last-level cache, and its latency while it idles."""

    bandwidth: float
    llc: float
    latency: float = IDLE_LATENCY

    def loaded_latency(self, used: float) -> float:
        """Return its latency in seconds where this part (0 to 1) of the bandwidth is used."""
        return self.latency * growth(used)


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """A type of workload's use of memory, undisturbed; see the module."""

    bandwidth: float
    llc: float = 0.0
    cache_sensitivity: float = 0.0
    memory_bound: float | None = None

    @property
    def is_sound(self) -> bool:
        """Whether there can be such a workload."""
        amounts = (self.bandwidth, self.llc, self.cache_sensitivity, self.memory_bound or 0.0)
        return all(math.isfinite(each) and each >= 0 for each in amounts) and (self.memory_bound or 0.0) <= 1

    def bound(self, memory: Memory) -> float:
        """Return the part of its time in which it waits for memory; who has traffic does for a hundredth."""
        by_littles_law = min(1.0, self.bandwidth * memory.latency / (PARALLEL * LINE))
        stated = by_littles_law if self.memory_bound is None else self.memory_bound
        return max(stated, _LEAST_BOUND if self.bandwidth > 0 else 0.0)

    def traffic(self, memory: Memory, lost: float) -> float:
        """Return bytes per baseline CPU-second of work, this part of its cache being lost."""
        return self.bandwidth + self.cache_sensitivity * lost * MISSED * LINE / memory.latency

    def stretch(self, memory: Memory, lost: float, used: float) -> float:
        """Return the factor by which its work takes longer than undisturbed."""
        loaded = growth(used)
        return 1 + self.bound(memory) * (loaded - 1) + self.cache_sensitivity * lost * loaded


@dataclass(frozen=True, slots=True)
class Contention:
    """A machine's memory at a moment: bytes/s, seconds, bytes; stretch and lost cache by user."""

    memory: Memory
    used: float
    latency: float
    occupancy: float
    stretch: Stretches
    lost: Mapping[int, float]

    @property
    def utilization(self) -> float:
        return self.used / self.memory.bandwidth

    @property
    def misses(self) -> float:
        """Cache lines per second that come from or go to memory."""
        return self.used / LINE

    def slowdown(self, user: int) -> float:
        """Return the part of its throughput that a busy user loses."""
        return 1 - 1 / self.stretch[user]


def growth(used: float) -> float:
    """Return latency over idle latency where this part of the bandwidth is used."""
    used = min(max(used, 0.0), MOST_USED)
    return 1 + _STEEPNESS * used**4 / (1 - used)


def contend(
    memory: Memory, uses: Mapping[int, MemoryUse], work_of: Callable[[Stretches], WorkByContainer]
) -> Contention:
    """Return the state in which users and memory agree.

    ``work_of`` says how much work (in baseline CPUs) each user does when its work is stretched by that much;
    the more it is stretched, the less it may do. The part used is looked for as ``1 - e^-scarcity``: near 1,
    where latency grows without bound, its smallest step matters.
    """
    undisturbed = work_of(dict.fromkeys(uses, 1.0))
    shares = cache_shares(memory, uses, undisturbed)
    lost = {user: _lost(memory, use, shares[user]) for user, use in uses.items()}
    traffic = {user: use.traffic(memory, lost[user]) for user, use in uses.items()}

    def excess(scarcity: float) -> tuple[float, Contention]:
        used = -math.expm1(-scarcity)
        stretch = {user: use.stretch(memory, lost[user], used) for user, use in uses.items()}
        work = work_of(stretch)
        moved = math.fsum(work[user] * traffic[user] for user in uses)
        latency = memory.loaded_latency(used)
        here = Contention(memory, moved, latency, math.fsum(shares.values()), stretch, lost)
        return moved / memory.bandwidth - used, here

    return crossing(excess, 0.0, -math.log(1 - MOST_USED), _CLOSE)


def cache_shares(memory: Memory, uses: Mapping[int, MemoryUse], work: WorkByContainer) -> dict[int, float]:
    """Return each user's share of the cache; a user that does no work has none."""
    users = [user for user in uses if work[user] > 0]
    wants = [uses[user].llc for user in users]
    weights = [max(_LEAST_TRAFFIC, work[user] * uses[user].traffic(memory, 1.0)) for user in users]
    return dict.fromkeys(uses, 0.0) | dict(zip(users, water_fill(wants, weights, memory.llc), strict=True))


def _lost(memory: Memory, use: MemoryUse, share: float) -> float:
    alone = min(use.llc, memory.llc)
    return max(0.0, 1 - share / alone) if alone > 0 else 0.0
