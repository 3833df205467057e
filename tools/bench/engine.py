"""The scheduling engine without a network: a decision, a binding, and planning, as the cluster grows.

Machines of four sizes and three ratios; one in ten is tainted, all have labels. Pods come in many sizes, and
every tenth is a CPUSet pod. Times are CPU time, of one decision after the other, while nodes fill up.
Memory is what the cluster keeps, by tracemalloc.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import pairwise

from corewise.engine import (
    BlockingTaint,
    ChosenNode,
    Cluster,
    ClusterSnapshot,
    Decision,
    Engine,
    NodeFacts,
    Placement,
    PodFacts,
    assemble,
)
from corewise.engine.framework import Filter, Score
from corewise.planner.inputs import arrangement
from corewise.quantities import Ratio
from tools.bench.table import Row, exponent, quantile

_SIZES, _RATIOS = (32, 64, 96, 128), (100, 150, 200)
_DECISIONS = 3_000
_SAMPLED_NODES = 5_000
_MORE_PODS = 10_000
_GIBI = 1 << 30


async def measure(counts: tuple[int, ...]) -> list[Row]:
    """Decisions, placements a second and memory at each number of nodes."""
    measured = [_measure(count) for count in counts]
    curve = [(count, decision) for count, (decision, _) in zip(counts, measured, strict=True)]
    slopes = ", ".join(f"{exponent(one, two) or 0.0:.2f}" for one, two in pairwise(curve))
    grown = Row(
        "exponents of filter + score p50 (1.00: linear)", f"{' to '.join(map(str, counts))} nodes", slopes
    )
    return [*(row for _, rows in measured for row in rows), grown]


async def sample() -> dict[str, float]:
    """Return the p50 of a decision on 5,000 nodes, in microseconds."""
    cluster = Cluster()
    put_nodes(cluster, _SAMPLED_NODES)
    chooser = engine()
    times = [decided for decided, _ in _rounds(cluster, chooser)]
    return {"decision": quantile(times, 0.5) * 1e6}


def cpus_of(index: int) -> int:
    """Return the number of CPUs of a node."""
    return _SIZES[index % len(_SIZES)]


def node(index: int) -> NodeFacts:
    """One node; its CPU is amplified."""
    cpus, ratio = cpus_of(index), _RATIOS[index % len(_RATIOS)]
    return NodeFacts(
        name=f"node-{index:05d}",
        allocatable={"cpu": cpus * 10 * ratio, "memory": cpus * 4 * _GIBI, "pods": 110},
        labels={"kubernetes.io/hostname": f"node-{index:05d}", "zone": f"zone-{index % 3}"},
        taints=(BlockingTaint("dedicated", "NoSchedule", "batch"),) if index % 10 == 0 else (),
        ratio=Ratio(ratio),
        topology=arrangement(cpus, 2, 2, 2),
    )


def pod(index: int) -> PodFacts:
    """One pod; every tenth owns its CPUs."""
    if index % 10 == 0:
        return PodFacts(f"ns/owner-{index}", {"cpu": 4000, "memory": 8 * _GIBI}, owned_by_class=4000)
    return PodFacts(f"ns/pod-{index}", {"cpu": 250 + index % 7 * 250, "memory": (1 + index % 5) * _GIBI})


def engine() -> Engine:
    """The engine as the planner has it."""
    return assemble(kube_checks=True)


def _measure(count: int) -> tuple[float, list[Row]]:
    """Return the p50 of a decision in seconds, and the rows."""
    cluster = Cluster()
    heap = heap_of(lambda: put_nodes(cluster, count)) / count
    chooser = engine()
    placed = _rounds(cluster, chooser)
    decisions, rounds = [decided for decided, _ in placed], [bound for _, bound in placed]
    cpu = time.process_time()
    for index in range(_DECISIONS, 2 * _DECISIONS):
        bind(cluster, chooser, chooser.decide(pod(index), cluster.snapshot()))
    cpu = time.process_time() - cpu
    at = f"{count} nodes"
    p50, p99 = (f"{quantile(decisions, share) * 1000:.3f} ms" for share in (0.5, 0.99))
    pods = heap_of(lambda: _put_pods(cluster)) / _MORE_PODS
    return quantile(decisions, 0.5), [
        Row("filter + score p50, p99", at, f"{p50}, {p99}"),
        Row("filter, score, reserve and bind p50", at, f"{quantile(rounds, 0.5) * 1000:.3f} ms"),
        Row("pods placed per second of CPU time", at, f"{_DECISIONS / cpu:,.0f}"),
        Row("p50 by plugin", at, _by_plugin(cluster, chooser)),
        Row("memory a node, a pod", at, f"{heap / 1024:.1f} KiB, {pods / 1024:.1f} KiB"),
    ]


def _rounds(cluster: Cluster, chooser: Engine) -> list[tuple[float, float]]:
    """Place pods; return the seconds of each decision, and those with the binding."""
    rounds = []
    for index in range(_DECISIONS):
        asked, start = pod(index), time.process_time()
        decision = chooser.decide(asked, cluster.snapshot())
        decided = time.process_time()
        bind(cluster, chooser, decision)
        rounds.append((decided - start, time.process_time() - start))
    return rounds


def _by_plugin(cluster: Cluster, chooser: Engine) -> str:
    """Describe the time of a decision by plugin: each plugin asked alone, about the same pods."""
    snapshot, pods = cluster.snapshot(), [pod(index) for index in range(500)]
    calls: dict[str, Callable[[PodFacts], object]] = {}
    for plugin in chooser.filters:
        calls[plugin.name] = partial(_filter, plugin, snapshot)
    for scoring in chooser.scores:
        calls[scoring.name] = partial(_score, scoring, snapshot)
    return ", ".join(f"{name} {_median(call, pods) * 1e6:.0f} µs" for name, call in calls.items())


def _filter(plugin: Filter, snapshot: ClusterSnapshot, asked: PodFacts) -> object:
    return plugin.filter(asked, snapshot)


def _score(plugin: Score, snapshot: ClusterSnapshot, asked: PodFacts) -> object:
    return plugin.score(asked, snapshot, snapshot.present)


def _median(call: Callable[[PodFacts], object], pods: list[PodFacts]) -> float:
    times = []
    for asked in pods:
        start = time.perf_counter()
        call(asked)
        times.append(time.perf_counter() - start)
    return quantile(times, 0.5)


def bind(cluster: Cluster, chooser: Engine, decision: Decision) -> None:
    """Reserve the chosen node, and count the pod there."""
    if decision.node is None:
        return
    chosen = ChosenNode.of(cluster, cluster.snapshot(), decision.row)
    placement = chooser.reserve(decision.pod, chosen)
    if isinstance(placement, Placement):
        cluster.put_pod(decision.pod, placement)


def put_nodes(cluster: Cluster, count: int) -> None:
    """Fill a cluster with nodes."""
    for index in range(count):
        cluster.put_node(node(index))


def _put_pods(cluster: Cluster) -> None:
    for index in range(_MORE_PODS):
        shared = PodFacts(f"ns/more-{index}", {"cpu": 250, "memory": _GIBI})
        cluster.put_pod(shared, Placement(f"node-{index % len(cluster.nodes):05d}"))


def heap_of(work: Callable[[], object]) -> int:
    """Return the bytes that some work leaves allocated, its result included."""
    gc.collect()
    tracemalloc.start()
    result = work()
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del result
    return kept
