"""The analysis of a history that the plant has made: metrics that move together, as they do on real nodes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from corewise.config.interference.metrics import Metric
from corewise.interference.analysis import TypeFinding, analyze
from corewise.interference.history import History, PodRecord, TimeSeries
from corewise_lab.contention import Contention, Memory, MemoryUse, contend
from interference.simulated_history import DEFAULT

MEMORY = Memory(bandwidth=100e9, llc=float(32 << 20))
HOG = MemoryUse(bandwidth=3.6e9, llc=1e12)
JOBS = {
    "graph": MemoryUse(bandwidth=0.2e9, llc=float(8 << 20), cache_sensitivity=0.39, memory_bound=0.09),
    "pricing": MemoryUse(bandwidth=0.02e9, llc=float(1 << 20), cache_sensitivity=0.01, memory_bound=0.02),
}
CPUS, NODES, HOURS = 64, 10, 60
WORK = 1500.0
STEP = 300.0
INSTRUCTIONS = 2.5e9


def moment(hogs: int) -> Contention:
    """A node with so many hogs of four CPUs, and one Job of each type."""
    by_number = dict(enumerate([*[HOG] * hogs, *JOBS.values()]))
    return contend(MEMORY, by_number, lambda stretch: {user: 4.0 / stretch[user] for user in by_number})


def history() -> tuple[History, Mapping[str, float]]:
    """Two hours with so many hogs, then with others; and what that costs each type from fewest to most."""
    random = np.random.default_rng(3)
    moments = {hogs: moment(hogs) for hogs in range(9)}
    levels = random.integers(0, 9, (NODES, HOURS // 2))
    nodes = {
        f"n{number}": _series([moments[hogs] for hogs in level], random)
        for number, level in enumerate(levels)
    }
    pods = []
    for index, kind in enumerate(JOBS):
        for number in range(250):
            node, slot = random.integers(NODES), random.integers(HOURS // 2)
            hogs = int(levels[node, slot])
            stretch = moments[hogs].stretch[hogs + index]
            start = float(slot * 7200 + random.integers(0, 3600))
            took = WORK * stretch * float(random.lognormal(0.0, 0.03))
            pods.append(PodRecord(f"default/{kind}-{number}", kind, f"n{node}", start, start + took))
    costs = {kind: moments[8].stretch[8 + i] / moments[0].stretch[i] - 1 for i, kind in enumerate(JOBS)}
    return History(0.0, HOURS * 3600.0, nodes, pods), costs


def _series(level: list[Contention], random: np.random.Generator) -> dict[str, TimeSeries]:
    times = np.arange(0, HOURS * 3600, STEP)
    here = [level[int(at // 7200)] for at in times]
    columns = {
        Metric.MEMORY_BANDWIDTH: [each.used for each in here],
        Metric.MEMORY_LATENCY: [each.latency for each in here],
        Metric.LLC_OCCUPANCY: [each.occupancy for each in here],
        Metric.LLC_MPKI: [each.misses / (len(each.stretch) * 4 * INSTRUCTIONS) * 1000 for each in here],
        Metric.CPU: [len(each.stretch) * 4 / CPUS for each in here],
    }
    return {
        str(metric): TimeSeries(times, np.array(values) * random.normal(1.0, 0.01, len(times)))
        for metric, values in columns.items()
    }


@pytest.fixture(scope="module")
def found() -> tuple[dict[str, TypeFinding], Mapping[str, float]]:
    seen, costs = history()
    return {each.type: each for each in analyze(seen, DEFAULT)}, costs


def measured(finding: TypeFinding) -> dict[str, float]:
    return {metric: each.effect for metric, each in finding.affinity.items() if not each.why_default}


def test_total_slowdown_is_found_though_metrics_move_together(
    found: tuple[dict[str, TypeFinding], Mapping[str, float]],
) -> None:
    findings, costs = found
    assert costs["graph"] > 0.3
    assert sum(measured(findings["graph"]).values()) == pytest.approx(costs["graph"], abs=0.15)


def test_type_hardly_sensitive_to_memory_is_recognized(
    found: tuple[dict[str, TypeFinding], Mapping[str, float]],
) -> None:
    findings, costs = found
    assert costs["pricing"] < 0.1
    assert sum(measured(findings["pricing"]).values()) < 0.1
    heaviest = {
        kind: max(each.value for each in finding.affinity.values() if not each.why_default)
        for kind, finding in findings.items()
    }
    assert heaviest["pricing"] < 10 < heaviest["graph"]
