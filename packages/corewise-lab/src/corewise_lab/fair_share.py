"""The kernel's fair scheduler: divides the CPUs of a machine among a tree of cgroups. Pure.

Weights, quotas and CPU sets are applied over a few periods. Every cgroup has a weight ``w``, a quota ``q``
(in CPUs; infinite without one) and maybe a CPU set; those without children (*leaves*) want ``d`` CPUs. Where
no leaf is confined to some CPUs, the ``C`` CPUs are one pool, and

    cap(leaf)  = min(q, d)
    cap(group) = min(q, sum of cap(child))
    time(root) = min(C, cap(root))
    time(child) = min(cap(child), w x level)      one level for the children of a group, such that
    sum of time(child) = time(group)              (water-filling)

So no share is above its cap, no CPU idles that a leaf may use, and where time is short, shares are by weight,
level by level: the children of a slice share what the slice has. *Refused* is what a cgroup's own quota kept
from it: ``wants - q`` where it has all of ``q``, with ``wants`` the caps below it.

CPU sets make several *pools*: CPUs that the same leaves may use. They are divided one after the other as
above, those with the fewest users first, each leaf looking there for what it still wants; weights count
within a pool. So a leaf that may go elsewhere leaves the CPUs that others are confined to, as load balancing
does, and still no CPU idles that a leaf may use. A cgroup's set counts within that of its parent; one that
leaves nothing is the parent's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")
_ROUNDS = 60


def crossing(excess: Callable[[float], tuple[float, T]], low: float, high: float, close: float) -> T:
    """Return the companion value at the zero of a continuous falling function between two bounds.

    ``excess`` returns its value and what comes with it. A value within ``close`` of zero counts as zero. If
    there is no zero, what comes with the bound that is nearer to one is returned.
    """
    above, found = excess(low)
    if above < close:
        return found
    below, last = excess(high)
    if below >= 0:
        return last
    for _ in range(_ROUNDS):
        if high - low < close or above < close:
            break
        middle = low + (high - low) * above / (above - below)
        value, found = excess(middle)
        if abs(value) < close:
            break
        if value > 0:
            low, above, below = middle, value, below / 2
        else:
            high, below, above = middle, value, above / 2
    return found


_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A cgroup as the scheduler sees it. ``quota`` is in CPUs; without ``cpus`` it may use its parent's."""

    path: str
    weight: float = 100.0
    quota: float = math.inf
    cpus: frozenset[int] | None = None
    children: tuple[Cgroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Pool:
    """CPUs that the same leaves may use; ``leaves`` are their indices."""

    size: int
    leaves: frozenset[int]


class Tree:
    """A tree of cgroups on a machine with ``cpus`` CPUs, made ready to be divided many times."""

    def __init__(self, root: Cgroup, cpus: int) -> None:
        self.cgroups: list[Cgroup] = []
        """All of them, parents first. Indices below are into this list."""
        self.children: list[tuple[int, ...]] = []
        self._allowed: dict[int, frozenset[int] | None] = {}
        self._add(root, None)
        self.index = {cgroup.path: index for index, cgroup in enumerate(self.cgroups)}
        self.leaves = tuple(index for index, below in enumerate(self.children) if not below)
        self.groups = tuple((index, below) for index, below in enumerate(self.children) if below)
        """Those with children, and their children; parents first."""
        self.quotas = tuple(cgroup.quota for cgroup in self.cgroups)
        self.pools = tuple(self._pools(cpus))

    def reach(self, leaf: int) -> float:
        """Return the number of CPUs a leaf may use."""
        return float(sum([pool.size for pool in self.pools if leaf in pool.leaves]))

    def _add(self, cgroup: Cgroup, allowed: frozenset[int] | None) -> int:
        index = len(self.cgroups)
        if cgroup.cpus is not None:
            allowed = (cgroup.cpus if allowed is None else cgroup.cpus & allowed) or allowed
        self.cgroups.append(cgroup)
        self.children.append(())
        self._allowed[index] = allowed
        self.children[index] = tuple([self._add(child, allowed) for child in cgroup.children])
        return index

    def _pools(self, cpus: int) -> Iterator[Pool]:
        every = frozenset(self.leaves)
        if all(self._allowed[leaf] is None for leaf in self.leaves):
            yield Pool(cpus, every)
            return
        sizes: dict[frozenset[int], int] = {}
        for cpu in range(cpus):
            users = frozenset(leaf for leaf in every if cpu in (self._allowed[leaf] or (cpu,)))
            sizes[users] = sizes.get(users, 0) + 1
        yield from (Pool(sizes[users], users) for users in sorted(sizes, key=len))


def added(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return the sum of two lists, element by element."""
    return [a + b for a, b in zip(one, other, strict=True)]


def divide_pool(tree: Tree, pool: Pool, wants: Mapping[int, float], quotas: Sequence[float]) -> list[float]:
    """Divide one pool's CPUs. ``quotas`` are what other pools have left of the cgroups' quotas."""
    time, raw = _caps(tree, wants, quotas)  # a child has its cap, unless its parent has less than all caps
    time[0] = min(float(pool.size), time[0])
    for index, below in tree.groups:
        if raw[index] > time[index]:
            weights = [tree.cgroups[child].weight for child in below]
            shares = water_fill([time[child] for child in below], weights, time[index])
            for child, share in zip(below, shares, strict=True):
                time[child] = share
    return time


def refused(tree: Tree, wants: Mapping[int, float], time: Sequence[float]) -> list[float]:
    """Return the CPU time denied by quotas, given the leaves' ``wants`` and the ``time`` used."""
    _, raw = _caps(tree, wants, tree.quotas)
    return [
        wanted - quota if wanted > quota and had >= quota * (1 - _LEAST) else 0.0
        for quota, had, wanted in zip(tree.quotas, time, raw, strict=True)
    ]


def _caps(tree: Tree, wants: Mapping[int, float], quotas: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the CPU that each cgroup can use, and the CPU it could use without a quota of its own."""
    raw = [0.0] * len(quotas)
    for leaf, wanted in wants.items():
        raw[leaf] = wanted
    caps = list(map(min, raw, quotas))
    for index, below in reversed(tree.groups):
        raw[index] = wanted = sum([caps[child] for child in below])
        caps[index] = min(wanted, quotas[index])
    return caps, raw


def water_fill(caps: Sequence[float], weights: Sequence[float], total: float) -> list[float]:
    """Divide ``total`` by weight; cap each share, and redistribute what is left.

    Weights must be positive; a cap may be infinite.
    """
    shares = [0.0] * len(caps)
    order = sorted(range(len(caps)), key=lambda i: caps[i] / weights[i])
    weights_left = list(accumulate(weights[i] for i in reversed(order)))[::-1]
    left = total
    for i, weight_left in zip(order, weights_left, strict=True):
        shares[i] = min(caps[i], left * weights[i] / weight_left)
        left = max(0.0, left - shares[i])
    return shares
