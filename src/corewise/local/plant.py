"""The plant: what compute the containers of one machine get, from their demand, quota, weight and its speed.

For one step, with ``C`` CPUs of speed ``s`` (:mod:`corewise.local.cpu_models`), and for container ``i`` a
demand ``d`` in baseline CPUs, a quota ``q`` in CPUs (infinite without a limit) and a weight ``w``:

    cap_i     = min(q_i, d_i / s)                       what it can use
    time_i    = min(cap_i, w_i x level)                 water-filling: one level for the machine,
    sum(time) = min(C, sum(cap))                        as high as the CPUs allow
    compute_i = time_i x s                              in baseline CPUs

This is what the kernel's fair scheduler and bandwidth control come to over a period: nobody above its cap,
no CPU idle while somebody wants it, and where CPUs are short, shares by weight.

What one requested CPU is worth shows only while a container wants more than it gets; one that idles says
nothing about the machine. So *compute per requested CPU* of a node is, over the steps and those of its
CPUShare containers that were held back in the step:

    sum(compute_i) / sum(requested_i)

Pure and deterministic: the same containers give the same numbers. Not modelled: caches, memory bandwidth,
NUMA, frequency that depends on load, the time a switch costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

HELD_BACK = 1e-9
"""A container whose compute is this much (relative) below its demand was held back."""


@dataclass(frozen=True, slots=True)
class Load:
    """A demand curve, as a multiple of the request: a cosine between ``low`` and ``high``."""

    low: float
    high: float
    period: float = 60.0

    def at(self, seconds: float, phase: float = 0.0) -> float:
        """Return the load at a time. ``phase`` (0 to 1) shifts the curve by that part of its period."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return middle - half * math.cos(2 * math.pi * (seconds / self.period + phase))


@dataclass(frozen=True, slots=True)
class Container:
    """One container as the plant sees it, in one step."""

    demand: float
    weight: float
    quota: float = math.inf


@dataclass(frozen=True, slots=True)
class Share:
    """What a container got in one step: CPUs, and compute in baseline CPUs."""

    cpu_time: float
    compute: float
    held_back: bool


def water_fill(caps: Sequence[float], weights: Sequence[float], total: float) -> list[float]:
    """Divide ``total`` by weight, nobody above its cap, nothing left over that somebody could use.

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


def step(containers: Sequence[Container], *, cpus: float, speed: float) -> list[Share]:
    """Return what each container gets in one step on a machine with ``cpus`` CPUs of ``speed``."""
    caps = [min(c.quota, c.demand / speed) for c in containers]
    times = water_fill(caps, [c.weight for c in containers], cpus)
    return [
        Share(time, time * speed, time * speed < c.demand * (1 - HELD_BACK))
        for c, time in zip(containers, times, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Workload:
    """A container over time: what it requests, how it is bounded, and what it is asked to do."""

    requested: float
    weight: float
    quota: float
    load: Load
    phase: float
    counts: bool
    """Whether it is a CPUShare container whose compute per requested CPU is to be reported."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a machine delivered over a window, in baseline CPUs, averaged over its steps."""

    compute: float
    per_requested: float | None
    """Compute per requested CPU; None if no counted container ever wanted more than it got."""


def run(workloads: Sequence[Workload], *, cpus: float, speed: float, seconds: Sequence[float]) -> Delivered:
    """Advance a machine through the given points in time and report what it delivered.

    Where every load is constant all steps are the same, and one of them says it all.
    """
    if all(workload.load.low == workload.load.high for workload in workloads):
        seconds = seconds[:1]
    compute, held_compute, held_requested = 0.0, 0.0, 0.0
    for now in seconds:
        containers = [Container(w.requested * w.load.at(now, w.phase), w.weight, w.quota) for w in workloads]
        shares = step(containers, cpus=cpus, speed=speed)
        compute += math.fsum(share.compute for share in shares)
        for workload, share in zip(workloads, shares, strict=True):
            if workload.counts and share.held_back:
                held_compute += share.compute
                held_requested += workload.requested
    return Delivered(
        compute=compute / max(1, len(seconds)),
        per_requested=held_compute / held_requested if held_requested else None,
    )


def spread(values: Sequence[float]) -> float | None:
    """Return the largest value over the smallest, or None if there is nothing to compare."""
    return max(values) / min(values) if values and min(values) > 0 else None
