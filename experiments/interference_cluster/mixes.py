"""The workloads, the mixes that operators run of them, and their arrivals. Pure.

Workloads are WCA's 19 measured applications (:mod:`experiments.interference_wca.workloads`) and the five
types of the scenario ``interference``, whose sensitivity to the cache was measured too. A *service* has a
Service, by which kube-scheduler spreads its pods over nodes; the others are batch work, as Jobs are.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import parse_interference
from corewise_lab.contention import IDLE_LATENCY, Memory, MemoryUse
from corewise_lab.scenario import load_scenario
from experiments.interference_wca.experiment import SHAPES, Machine
from experiments.interference_wca.workloads import WORKLOADS

WINDOW = 10
"""Seconds of the metrics' window, the shortest there is: 30 times shorter than by default."""
WORK = (60.0, 150.0)
"""Seconds that a pod's work takes undisturbed, drawn evenly: in the window's scale, 30 to 75 minutes."""
LOAD = 0.7
"""Of a cell's CPUs are requested once arrivals and ends balance, if nothing slows down."""
BURST = 20
COPIES = 4
_STEEP = 1.6
_MOST_LLC = 16 << 20
_GIGA, _MEBI = 10**9, 1 << 20
_HEADING = """\
interference:
  window: {window}s
  counterweight: {{expiry: {expiry}s}}
  relative: true # nodes differ in bandwidth and cache
  profiles:
"""
_ENTRY = """\
    {name}:
      profile: {{memoryBandwidth: {bandwidth}MB/s, memory: {memory}GB, cpu: {cpus}, llc: {llc}MiB}}
      affinity: {{memorybandwidth: {wait}, memorylatency: {wait}, {cache}, cpu: 0}}
"""
_CACHE = "llc_occupancy: {0}, llc_mpki: {0}"


@dataclass(frozen=True, slots=True)
class Workload:
    """One type of pod: CPUs, GB, and the memory use of each CPU."""

    name: str
    cpus: int
    memory: int
    use: MemoryUse

    @property
    def is_service(self) -> bool:
        return self.name.startswith(("memcached", "mysql", "redis", "specjbb"))


def _workloads() -> dict[str, Workload]:
    measured = [Workload(each.name, each.cpus, each.memory, each.use) for each in WORKLOADS]
    for group in load_scenario("interference").pods:
        if group.memory_use is not None:
            cpus, memory = group.cpu_milli // 1000, -(-group.memory // _GIGA)
            measured.append(Workload(group.name, cpus, memory, group.memory_use))
    return {each.name: each for each in measured}


ALL = _workloads()


def _named(*beginnings: str) -> list[str]:
    return [name for name in ALL if name.startswith(beginnings)]


def _mix(*parts: tuple[int, list[str]]) -> dict[str, float]:
    """Return each workload's share of the pods; a part is split evenly among its workloads."""
    return {name: share / len(names) for share, names in parts for name in names}


_SERVICES, _JAVA, _HOGS = (
    _named("memcached", "mysql", "redis"),
    _named("specjbb"),
    _named("stress", "sysbench"),
)
_EVEN = _mix((100, [each.name for each in WORKLOADS]))
MIXES: Mapping[str, Mapping[str, float]] = {
    "even": _EVEN,
    "analytics": _mix((50, _HOGS), (25, _JAVA), (25, _SERVICES)),
    "serving": _mix((65, _SERVICES), (20, _JAVA), (15, _HOGS)),
    "cache": _mix((40, ["graph"]), (25, ["sort"]), (15, ["pricing"]), (20, ["scan", "stream"])),
    "compute": _mix((60, ["pricing"]), (25, _named("mysql", "specjbb-preset-small")), (15, _HOGS)),
    "bursts": _EVEN,
}
"""Shares of pods in percent. In ``bursts`` they arrive BURST at once, in the others one by one."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod to come: seconds after the beginning, and of its work undisturbed."""

    at: float
    workload: Workload
    work: float


def machines(cell: str, copies: int = COPIES) -> list[Machine]:
    """Return the machines of a cell: a few of each shape."""
    return [
        Machine(
            f"{cell}-{shape.name}-{number}",
            shape.cpus,
            shape.memory * _GIGA,
            Memory(float(shape.bandwidth * _GIGA), float(shape.llc * _MEBI)),
        )
        for number in range(copies)
        for shape in SHAPES
    ]


CPUS = COPIES * sum(shape.cpus for shape in SHAPES)


def arrivals(mix: str, seed: int, seconds: float, scale: float = 1.0) -> list[Arrival]:
    """Return the pods of a cell, in order; ``scale`` multiplies all times, for a short try."""
    draw = random.Random(f"{mix}/{seed}")  # noqa: S311 - a simulation
    names, shares = zip(*MIXES[mix].items(), strict=True)
    cpus = sum(ALL[name].cpus * share for name, share in MIXES[mix].items()) / sum(shares)
    at_once = BURST if mix == "bursts" else 1
    between = at_once * cpus * sum(WORK) / 2 / (LOAD * CPUS)
    found: list[Arrival] = []
    at = 0.0
    while True:
        at += draw.expovariate(1 / between) if at_once == 1 else between * draw.uniform(0.5, 1.5)
        if at >= seconds:
            return found
        chosen = draw.choices(names, shares, k=at_once)
        found += (Arrival(at * scale, ALL[name], draw.uniform(*WORK) * scale) for name in chosen)


def configuration_text(window: int = WINDOW) -> str:
    """Return the scheduler's file as an operator writes it: profiles and affinities as measured.

    An affinity is the extra time of the work, in hundredths: to bandwidth and latency at 95 % of the
    bandwidth, to the cache with nothing left of it.
    """
    memory = Memory(bandwidth=1.0, llc=0.0, latency=IDLE_LATENCY)
    return _HEADING.format(window=window, expiry=window * 6 // 5) + "".join(
        _ENTRY.format(
            name=each.name,
            bandwidth=round(each.cpus * each.use.bandwidth / 1e6),
            memory=each.memory,
            cpus=each.cpus,
            llc=round(min(each.use.llc, _MOST_LLC) / _MEBI),
            wait=min(100, round(100 * _STEEP * each.use.bound(memory))),
            cache=_CACHE.format(round(100 * each.use.cache_sensitivity)),
        )
        for each in ALL.values()
    )


def configuration(window: int = WINDOW) -> InterferenceConfiguration:
    """Return the configuration that the scheduler reads from that file."""
    parsed = parse_interference(configuration_text(window))
    if parsed.value is None:
        raise ValueError("; ".join(map(str, parsed.errors)))
    return parsed.value
