"""Probes the latency of memory now and then, and never costs more than a thousandth of one CPU.

A probe keeps a CPU busy for some milliseconds for each NUMA node, longer where memory is slow or contended.
The pause after it is the interval, or a thousand times the CPU time that it took, whichever is longer. It
runs in a thread of its own: the agent's other work goes on, and the thread's binding to CPUs affects nothing
else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from corewise.kernel.host_files import HostFiles
from corewise.kernel.memory_latency import Chase, numa_cpus, probe
from corewise.kube.clock import Clock
from corewise.service.program import Heartbeats
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

NAME = "latency"
LARGEST_SHARE = 0.001
"""Of one CPU, that probing may cost."""
_TOO_OLD = 3
"""Pauses after which a probe is out of date."""
_LONG_SILENCE = 6
_NOT_YET = Finding(Reason.LATENCY_NOT_YET, "no probe has ended yet")


@dataclass(frozen=True, slots=True)
class Probed:
    """The medians by NUMA node (seconds), what failed by NUMA node, and the CPU time that all took."""

    medians: Mapping[int, float] = field(default_factory=dict)
    failed: Mapping[int, str] = field(default_factory=dict)
    cpu_seconds: float = 0.0


def probe_all(chase: Chase, files: HostFiles) -> Probed:
    """Probe every NUMA node that has CPUs, one after the other."""
    medians: dict[int, float] = {}
    failed: dict[int, str] = {}
    cost = 0.0
    for node, cpus in numa_cpus(files).items():
        try:
            latency = probe(chase, cpus)
        except OSError as error:
            failed[node] = f"NUMA node {node}, CPUs {cpus}: {error.strerror}"
        else:
            medians[node] = latency.seconds
            cost += latency.cpu_seconds
    return Probed(medians, failed, cost)


class LatencyProbe:
    """The loop, and what it found last."""

    def __init__(self, measure: Callable[[], Awaitable[Probed]], *, interval: float, clock: Clock) -> None:
        self._measure = measure
        self._interval = interval
        self._clock = clock
        self._last: Probed | None = None
        self._good_until = 0.0

    async def run(self, heartbeats: Heartbeats) -> None:
        while True:
            probed = await self._measure()
            pause = max(self._interval, probed.cpu_seconds / LARGEST_SHARE)
            self._last = probed
            self._good_until = self._clock.monotonic() + _TOO_OLD * pause
            heartbeats.beat(NAME, _LONG_SILENCE * pause)
            await self._clock.sleep(pause)

    def latest(self) -> Mapping[int, float] | Finding:
        """Return the medians of the last probe, or why there are none."""
        if self._last is None:
            return _NOT_YET
        if self._clock.monotonic() > self._good_until:
            return Finding(Reason.LATENCY_NOT_YET, "the last probe is too old")
        if not self._last.medians:
            why = "; ".join(self._last.failed.values()) or "no NUMA node has CPUs to probe on"
            return Finding(Reason.LATENCY_PROBE_FAILED, why)
        return self._last.medians


class ProbeThread:
    """Runs probes in one thread that does nothing else."""

    def __init__(self, chase: Chase, files: HostFiles) -> None:
        self._chase = chase
        self._files = files
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memory-latency")

    async def measure(self) -> Probed:
        """Probe every NUMA node, without keeping the event loop waiting."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, probe_all, self._chase, self._files)

    def close(self) -> None:
        """Let the thread end; a probe under way ends by itself, in milliseconds."""
        self._executor.shutdown(wait=False, cancel_futures=True)
