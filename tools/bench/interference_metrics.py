"""The latency probe: its median, its spread, its cost; and what this machine answers to every other source.

Probes run as in the agent, in a thread of their own; CPU time is that of the whole process, handing a probe
over included. Beside it a child copies memory, to show how much one process makes reads wait here.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from corewise.agent.interference.collector import Collector
from corewise.agent.interference.latency import LARGEST_SHARE, ProbeThread
from corewise.agent.options import LATENCY_INTERVAL
from corewise.config.interference.metrics import Metric
from corewise.kernel.host_files import HostFiles
from corewise.kernel.memory_controllers import MemoryControllers
from corewise.kernel.memory_latency import ROUNDS, Chase, load_chase, numa_cpus, probe
from corewise.kernel.perf import KernelPerf
from corewise.vocabulary.findings import Finding
from tools.bench.table import Row, quantile

PROBES = 100
LOOKS = 200
_PAUSE = 0.05
_COPYING = (
    "b = bytearray(512 << 20)\nc = memoryview(bytearray(512 << 20))\nprint(flush=True)\nwhile True: c[:] = b"
)


async def measure() -> list[Row]:
    """Probe, look, and ask."""
    chase = load_chase()
    rows = [Row("latency probe", "this machine", _answer(chase))] if isinstance(chase, Finding) else []
    if isinstance(chase, Chase):
        rows = [*_within(chase), *await _probes(chase)]
    return [*rows, *_looks(), *_answers()]


def _within(chase: Chase) -> list[Row]:
    """The rounds of one probe on each NUMA node."""
    size = f"{ROUNDS} rounds x {chase.lines} lines"
    rows = []
    for node, cpus in numa_cpus(HostFiles()).items():
        rounds = list(probe(chase, cpus).rounds)
        rows.append(
            Row(f"rounds of one probe, NUMA node {node}: p5, p25, p50, p75, p95", size, _spread(rounds))
        )
    return rows


async def _probes(chase: Chase) -> list[Row]:
    """Return the medians of many probes, alone and beside a copying child, and the cost of a probe."""
    thread = ProbeThread(chase, HostFiles())
    try:
        medians, cpu = await _medians(thread)
        async with _copying():
            beside, _ = await _medians(thread)
    finally:
        thread.close()
    size = f"{PROBES} probes"
    share = cpu / max(LATENCY_INTERVAL, cpu / LARGEST_SHARE)
    return [
        Row("medians of probes: p5, p25, p50, p75, p95", size, _spread(medians)),
        Row("the same beside a process that copies memory", size, _spread(beside)),
        Row("CPU time of a probe", size, f"{cpu * 1000:.1f} ms"),
        Row("CPU at the default interval", f"{LATENCY_INTERVAL:.0f} s", f"{share:.3%} of a core"),
    ]


async def _medians(thread: ProbeThread) -> tuple[list[float], float]:
    """Return the medians, the worst NUMA node's of each probe, and the CPU time of a probe of all of them."""
    await thread.measure()
    medians, cpu = [], 0.0
    for _ in range(PROBES):
        await asyncio.sleep(_PAUSE)
        began = time.process_time()
        probed = await thread.measure()
        cpu += time.process_time() - began
        medians += [max(probed.medians.values())] if probed.medians else []
    return medians, cpu / PROBES


@asynccontextmanager
async def _copying() -> AsyncIterator[None]:
    """A child that copies memory until the block ends."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _COPYING, stdout=asyncio.subprocess.PIPE
    )
    try:
        if child.stdout:
            await child.stdout.readline()
        yield
    finally:
        child.kill()
        await child.wait()


def _looks() -> list[Row]:
    """Measure one reading of all counters, as each scrape of the agent does."""
    collector = Collector(Path("/"), KernelPerf())
    latency = {0: 1e-7}
    collector.read(latency)
    began = time.process_time()
    for _ in range(LOOKS):
        collector.read(latency)
    took = (time.process_time() - began) / LOOKS
    collector.close()
    return [
        Row("CPU time of a look at all counters", f"{LOOKS} looks, this machine", f"{took * 1000:.2f} ms")
    ]


def _answers() -> list[Row]:
    """Return this machine's answer for each source: a value, or the reason why there is none."""
    collector = Collector(Path("/"), KernelPerf())
    collector.read({})
    readings = collector.read({})
    controllers = MemoryControllers(KernelPerf(), HostFiles())
    answers = {
        "resctrl: mbm_total_bytes": readings[Metric.MEMORY_BANDWIDTH],
        "resctrl: llc_occupancy": readings[Metric.LLC_OCCUPANCY],
        "memory controllers: CAS counts": controllers.read(),
        "perf: instructions and cache misses": readings[Metric.LLC_MPKI],
        "memory modules: theoretical bandwidth": readings[Metric.MEMORY_BANDWIDTH_CAPACITY],
        "last-level caches: size": readings[Metric.LLC_CAPACITY],
    }
    controllers.close()
    collector.close()
    return [Row(what, "this machine", _answer(answer)) for what, answer in answers.items()]


def _answer(answer: object) -> str:
    if isinstance(answer, Finding):
        return f"{answer.reason}: {answer.message}"
    if isinstance(answer, tuple):
        return ", ".join(f"{value:.0f}" for values in answer for value in values.values())
    return f"{answer}"


def _spread(seconds: list[float]) -> str:
    shares = (0.05, 0.25, 0.5, 0.75, 0.95)
    return ", ".join(f"{quantile(seconds, share) * 1e9:.0f}" for share in shares) + " ns"
