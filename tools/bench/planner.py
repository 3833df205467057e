"""``corewise plan`` without its files: nodes made ready under a configuration, and pods placed one by one.

Nodes and pods are those of the engine's benchmark, as objects of the API: machines of four sizes, labels, one
in ten tainted, ratio 1.50 by configuration; pods of many sizes, every tenth a CPUSet pod.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

import msgspec

from corewise.cli.config_file import configuration_of
from corewise.engine import Allocation
from corewise.engine.objects import ReportedTopology
from corewise.planner.inputs import PlanInput, PlannedNode, arrangement
from corewise.planner.planner import plan
from corewise.vocabulary.names import AMPLIFICATION_KEY
from corewise.workload.nodes import Node
from tools.bench import engine
from tools.bench.shares import Function, shares
from tools.bench.table import Row

_PODS = 10_000
_SHARES_FROM = _SAMPLED_NODES = 5_000
_POLICY = {AMPLIFICATION_KEY: json.dumps({"enable": True, "resourceAmplificationRatio": {"cpu": 1.5}})}
_PARTS: dict[str, Function] = {
    "nodes made ready": ("simulation/planner.py", "configured"),
    "NodeConstraints": ("engine/kube_plugins.py", "NodeConstraints.filter"),
    "ResourceFit": ("engine/kube_plugins.py", "ResourceFit.filter"),
    "AmplifiedCPU": ("engine/amplified_cpu.py", "filter"),
    "scores": ("engine/amplified_cpu.py", "score"),
    "CPUs chosen": ("engine/framework.py", "reserve"),
    "nodes put": ("engine/cluster.py", "Cluster.put_node"),
    "pods put": ("engine/cluster.py", "Cluster.put_pod"),
    "columns written": ("engine/columns.py", "refresh"),
}


async def measure(counts: tuple[int, ...]) -> list[Row]:
    """Pods planned a second at each number of nodes, and where the time goes."""
    return [row for count in counts for row in _measure(count)]


async def sample() -> dict[str, float]:
    """Return the CPU time of a pod planned on 5,000 nodes, in microseconds."""
    _, cpu, _ = _planned(_SAMPLED_NODES)
    return {"plan": cpu / _PODS * 1e6}


def _planned(count: int) -> tuple[float, float, Callable[[], object]]:
    """Plan; return the seconds on the clock and of CPU time, and what does it again."""
    given = PlanInput("bench", tuple(map(_node, range(count))), tuple(map(engine.pod, range(_PODS))))
    work = partial(plan, given, configuration_of(_POLICY, "bench"), Allocation.LEAST)
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if len(outcome.placed) != _PODS:
        raise SystemExit(f"only {len(outcome.placed)} of {_PODS} pods fit {count} nodes")
    return wall, cpu, work


def _measure(count: int) -> list[Row]:
    wall, cpu, work = _planned(count)
    at = f"{count} nodes, {_PODS:,} pods"
    speed = f"{_PODS / wall:,.0f}, {_PODS / cpu:,.0f}"
    rows = [Row("pods planned a second, and per second of CPU time", at, speed)]
    if count >= _SHARES_FROM:
        rows.append(Row("where the time goes", at, shares(work, _PARTS)))
    return rows


def _node(index: int) -> PlannedNode:
    facts = engine.node(index)
    cpus = engine.cpus_of(index)
    amounts = {"cpu": str(cpus), "memory": f"{cpus * 4}Gi", "pods": "110"}
    node = {
        "metadata": {"name": facts.name, "labels": dict(facts.labels)},
        "spec": {"taints": [{"key": each.key, "effect": each.effect} for each in facts.taints]},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    return PlannedNode(
        node=msgspec.convert(node, Node),
        topology=ReportedTopology(),
        assumed=arrangement(cpus, 2, 2, 2),
    )
