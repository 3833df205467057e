"""What a requested CPU is worth on a machine whose threads are all busy: the measure of normalization.
normalization.

For one step, with ``C`` CPUs of the nominal speed ``s`` (:mod:`corewise.simulation.cpu_models`: a thread
whose
sibling is busy), and for container ``i`` a demand ``d`` in baseline CPUs, a quota ``q`` in CPUs (infinite
without a limit) and a weight ``w``:

    cap_i     = min(q_i, d_i / s)                       what it can use
    time_i    = min(cap_i, w_i x level)                 water-filling: one level for the machine,
    sum(time) = min(C, sum(cap))                        as high as the CPUs allow
    compute_i = time_i x s                              in baseline CPUs

What one requested CPU is worth shows only while a container wants more than it gets; one that idles says
nothing about the machine. So *compute per requested CPU* of a node is, over the steps and those of its
CPUShare containers that were held back in the step:

    sum(compute_i) / sum(requested_i)

The speed is what a request can rely on, whoever else is there. It differs from the plant's
(:mod:`corewise.simulation.plant`), where a thread is faster while its sibling idles, and the tree of cgroups
counts: that says what happens at a moment, this what is promised. Offline pods have no part in it.

Pure and deterministic: the same containers give the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from corewise.simulation.fair_share import water_fill
from corewise.simulation.load import Load

HELD_BACK = 1e-9
"""A container whose compute is this much (relative) below its demand was held back."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container in one step."""

    demand: float
    weight: float
    quota: float = math.inf


@dataclass(frozen=True, slots=True)
class Share:
    """What a container got in one step: CPUs, and compute in baseline CPUs."""

    cpu_time: float
    compute: float
    held_back: bool


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
    if all(workload.load.is_constant for workload in workloads):
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
