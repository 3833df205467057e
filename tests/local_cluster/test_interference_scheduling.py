"""The local cluster and the planner place pods by their profiles of memory bandwidth.

Four pods of type stream use 5 GB/s each and need more than 10 GB/s free. Two nodes of 20 GB/s take two each:
the third would need more than the 10 GB/s that are left.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from corewise.cli import corewise
from corewise.config.configuration import NO_AMPLIFICATION, NO_NORMALIZATION
from corewise.config.interference.model import InterferenceConfiguration
from corewise.engine.amplified_cpu import Allocation
from corewise.planner.planner import PlanOutcome, plan
from corewise.ratios.cluster import ClusterConfiguration
from corewise.scheduler.configuration import parse_configuration
from corewise.scheduler.installation import Pods
from corewise.scheduler.program import Scheduler
from corewise.vocabulary.names import MEMORY_BANDWIDTH
from corewise.vocabulary.reasons import Reason
from corewise_lab.metrics_server import MetricsHistory, metrics_server
from corewise_lab.node_memory import MemoryState
from corewise_lab.plan_inputs import plan_from_dump
from local_cluster.test_local_scheduler import extended
from manager.world import PODS_NAMESPACE, until
from scheduler.program_world import PLAIN_PODS, SchedulerWorld, pod_document, scheduler_world

TEXT = """
interference:
  counterweight: {decay: step}
  profiles:
    stream:
      profile: {memoryBandwidth: 5GB/s}
      affinity: {memorybandwidth: 100, memorylatency: 0, llc_occupancy: 0, llc_mpki: 0, cpu: 0}
"""
PODS = 5
NODES = ("n1", "n2")


def stream(name: str) -> dict[str, Any]:
    document = pod_document(name, cpu="100m")
    document["metadata"]["labels"] = {"app": "stream"}
    return document


world = pytest.fixture(scheduler_world, name="world")


@pytest.mark.parametrize("asked", [Pods.PROFILED, Pods.ALL])
async def test_extender_separates_pods_that_arrive_together(
    world: SchedulerWorld, tmp_path: Path, asked: Pods
) -> None:
    for name in NODES:
        await world.add_node(name, 8)
    file = tmp_path / "scheduler.yaml"
    file.write_text(TEXT)
    configuration = parse_configuration(TEXT)
    assert configuration.interference
    state = MemoryState(20e9, 1e3, 9e-8, 32e6, 1e6, 1.0, 0.1, 8, 32_000_000_000, {})
    async with metrics_server(configuration.interference, lambda: dict.fromkeys(NODES, state)) as url:
        options: dict[str, Any] = {
            "configuration": configuration,
            "configuration_file": str(file),
            "prometheus": url,
        }
        async with extended(world, asked, **options) as scheduler:
            (real,) = world.running
            await until(lambda: has_metrics(real))
            for number in range(PODS):
                await world.client.create(PLAIN_PODS, stream(f"p{number}"), PODS_NAMESPACE)
            await until(lambda: scheduler.pending == 1 and scheduler.is_idle)
            pods = await world.client.list(PLAIN_PODS, PODS_NAMESPACE)
    homes = Counter(pod["spec"].get("nodeName", "") for pod in pods)
    assert homes == {"n1": 2, "n2": 2, "": 1}


def test_metrics_average_the_window_backfilled_by_first_look() -> None:
    now, used = 1000.0, 10.0

    def states() -> dict[str, MemoryState]:
        return {"n1": MemoryState(100.0, used, 9e-8, 32e6, 1e6, 1.0, 0.1, 8, 1, {})}

    history = MetricsHistory(60.0, states, lambda: now)
    history.look()
    assert history.averages("memorybandwidth_used") == {"n1": 10.0}
    now, used = 1030.0, 70.0
    history.look()
    assert history.averages("memorybandwidth_used") == {"n1": 10.0}, "a change shows little by little"
    now = 1060.0
    assert history.averages("memorybandwidth_used") == {"n1": 40.0}
    now = 1090.0
    assert history.averages("memorybandwidth_used") == {"n1": 70.0}, "and fully after a window"


def has_metrics(scheduler: Scheduler) -> bool:
    """Whether the real scheduler knows the nodes' bandwidth."""
    return "memorybandwidth_capacity" in scheduler.state.counted.cluster.snapshot().measured


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110"}
    nodes = [
        {
            "kind": "Node",
            "metadata": {"name": name, "annotations": {MEMORY_BANDWIDTH: "20GB/s"}},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        for name in NODES
    ]
    pods = [{"kind": "Pod", **stream(f"p{number}")} for number in range(PODS)]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [*nodes, *pods]}))
    return path


def outcome(dump: Path, interference: InterferenceConfiguration | None) -> PlanOutcome:
    nothing = ClusterConfiguration(NO_NORMALIZATION, NO_AMPLIFICATION)
    return plan(plan_from_dump(dump), nothing, Allocation.MOST, interference)


def test_a_plan_counts_what_it_has_placed_itself(dump: Path) -> None:
    packed = outcome(dump, None)
    assert set(Counter(packed.placed.values()).values()) == {PODS}
    apart = outcome(dump, parse_configuration(TEXT).interference)
    assert Counter(apart.placed.values()) == {"n1": 2, "n2": 2}
    (why,) = apart.unplaced.values()
    assert why.reason is Reason.MEMORY_BANDWIDTH_INSUFFICIENT


def test_the_command_plans_with_the_schedulers_file(dump: Path, tmp_path: Path) -> None:
    (tmp_path / "scheduler.yaml").write_text(TEXT)
    options = ["--from", str(dump), "--interference", str(tmp_path / "scheduler.yaml"), "-o", "json"]
    answer = CliRunner().invoke(corewise, ["plan", *options])
    assert answer.exit_code == 0, answer.output
    assert "Insufficient free memory bandwidth" in answer.stdout
