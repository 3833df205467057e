"""A machine made of files whose counters go on, and the agent's own collector that prints its page."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import machine_trees
from corewise.agent.interference.collector import Collector
from corewise.agent.interference.watch import publish
from corewise.prometheus.exposition import Exposition
from corewise.vocabulary.metrics import AGENT, exported_by
from kernel.fake_perf import FakePerf
from kernel.resctrl_trees import ResctrlTree
from kernel.test_memory_bandwidth import TWO_A_CHANNEL, machine, memory_device, table
from prometheus_server.exporters import Truth

LATENCY = {0: 80e-9, 1: 120e-9}
DIMMS = 4 * 2.933e9 * 8
"""What the modules of the recorded machine can move: channels x transfers a second x bytes."""

_HZ = 100


class RecordedNode:
    """One node. ``page`` is what its agent answers to a scrape."""

    def __init__(self, root: Path, node: str, truth: Truth) -> None:
        self._node, self._truth = node, truth
        self._tree = machine_trees.intel(root)
        self._resctrl = ResctrlTree(root).group("batch")
        machine(root, TWO_A_CHANNEL, table(memory_device()))
        self._perf = FakePerf()
        self._began = self._last = time.monotonic()
        self._write(0.0)
        self._collector = Collector(root, self._perf)
        self._exposition = Exposition(exported_by(AGENT))
        self._lock = threading.Lock()

    def page(self) -> str:
        with self._lock:
            now = time.monotonic()
            self._write(now - self._began)
            self._perf.run(
                0,
                int(self._truth.instructions * (now - self._last)),
                int(self._truth.misses * (now - self._last)),
            )
            self._last = now
            publish(self._collector.read(LATENCY), self._node, self._exposition)
            return self._exposition.text().decode()

    def _write(self, seconds: float) -> None:
        """Let the kernel have counted for so long. The group "batch" has a quarter of it all."""
        truth = self._truth
        for group, share in (("", 0.75), ("batch", 0.25)):
            for cache in (0, 1):
                moved = int(truth.bandwidth * seconds * share / 2)
                held = int(truth.occupancy * share / 2)
                self._resctrl.count(group, cache, mbm_total_bytes=moved, llc_occupancy=held)
        user = int(truth.busy * seconds * _HZ)
        idle = int((truth.cpus - truth.busy) * seconds * _HZ)
        each = "\n".join(f"cpu{cpu} 1 1 1 1 1 1 1 1 0 0" for cpu in range(truth.cpus))
        self._tree.put("proc/stat", f"cpu  {user} 0 0 {idle} 0 0 0 0 0 0\n{each}")
        self._tree.put(
            "proc/meminfo", f"MemTotal: {truth.memory // 1024} kB\nMemAvailable: {truth.available // 1024} kB"
        )
