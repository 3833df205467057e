"""60 pods at once on nodes of several ratios, placed by a stand-in of kube-scheduler; replicas are killed.

Two processes of ``corewise scheduler`` answer and bind; both are killed in turn, while they bind, and another
takes each one's place. The API server folds owned CPUs into allocatable by the policy of amplification, in
the same writes. What is checked: ``experiments/owned_burst.py``, which does the same on a real
cluster.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from corewise.amplification.policy import amplification_policy
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.resources import MUTATING_POLICIES, MUTATING_POLICY_BINDINGS
from corewise.quantities import Ratio
from corewise.scheduler.installation import Pods
from corewise.scheduler.policy import NAME as OWNED_CPUS
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import stated_cpus
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    NORMALIZATION_RATIO,
    NORMALIZE_CPUSET,
    OWNED_CPU_COUNT,
    OWNED_CPUS_RESOURCE,
    QOS_CLASS,
    RESOURCE_STATUS,
)
from corewise.vocabulary.owned_cpus import CPUOwner, print_owned_cpus
from corewise_lab.control_plane import running
from corewise_lab.extender_calls import ExtenderCalls
from corewise_lab.local_scheduler import LocalScheduler
from experiments.owned_burst import KILLS, burst, disagreements, run, wrong
from manager.world import PODS_NAMESPACE, eventually
from scheduler.program_world import PLAIN_NODES, PLAIN_PODS, SchedulerWorld, scheduler_world
from scheduler.test_two_programs import program

PODS = 60
WITHIN = 60.0
NODES = {
    "n1": (48, "1.00", "1.00"),
    "n2": (32, "2.00", "2.00"),
    "n3": (16, "2.50", "2.50"),
    "n4": (24, "1.50", "2.25"),
}
"""CPUs, normalization ratio, amplification ratio."""

world = pytest.fixture(scheduler_world, name="world")


async def add_nodes(world: SchedulerWorld) -> None:
    """Add the nodes, amplified by the policy in the API server."""
    policy, binding = amplification_policy(maximum=Ratio(1000))
    await world.client.create(MUTATING_POLICIES.typed(dict), policy)
    await world.client.create(MUTATING_POLICY_BINDINGS.typed(dict), binding)
    for name, (cpus, normalization, amplification) in NODES.items():
        await world.add_node(name, cpus)
        ratios = {
            NORMALIZATION_RATIO: normalization,
            AMPLIFICATION_RATIO: json.dumps({"cpu": float(amplification)}),
        }
        change: dict[str, Any] = {"metadata": {"annotations": ratios}}
        await world.client.patch(PLAIN_NODES, name, change, subresource="status")


async def test_bursts_with_kills_stay_exact(world: SchedulerWorld, tmp_path: Path) -> None:
    await add_nodes(world)
    async with AsyncExitStack() as stack:
        started = 0

        async def start() -> tuple[Any, str]:
            nonlocal started
            started += 1
            log = tmp_path / f"{started}.log"
            return await stack.enter_async_context(program(world.administrator, log))

        replicas = [await start() for _ in range(2 + KILLS)]
        urls = [url for _, url in replicas[:2]]
        scheduler = LocalScheduler(world.client, clock=SYSTEM_CLOCK)
        scheduler.extender = await ExtenderCalls.connect(world.client, urls, Pods.OWNED)
        await stack.enter_async_context(running(scheduler.run))

        async def installed() -> bool:
            bindings = await world.client.list(MUTATING_POLICY_BINDINGS)
            return OWNED_CPUS in {each.metadata.name for each in bindings}

        await eventually(installed, WITHIN)

        async def kill() -> None:
            """Kill the replica that is called first; one that is ready takes the last place."""
            process, _ = replicas.pop(0)
            process.kill()
            urls[:] = [url for _, url in replicas[:2]]
            scheduler.try_all()

        result = await run(world.client, PODS_NAMESPACE, burst(PODS), kill)
    assert result.bound == PODS
    pods = list(await world.client.list(PLAIN_PODS, PODS_NAMESPACE))
    assert not list(wrong(await world.client.list(PLAIN_NODES), pods))
    nodes = {pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["name"].startswith("normalized")}
    assert len(nodes) > 1, "the same pods own different numbers of CPUs"
    for pod in pods:
        meta, requests = pod["metadata"], pod["spec"]["containers"][0]["resources"]["requests"]
        owns, notes = meta.get("labels", {}).get(QOS_CLASS) == "LSR", meta.get("annotations") or {}
        cpus = stated_cpus(notes.get(RESOURCE_STATUS))
        assert bool(cpus) is owns is (OWNED_CPUS_RESOURCE in requests)
        counted = notes.get(OWNED_CPU_COUNT)
        assert counted == (str(len(cpus)) if notes.get(NORMALIZE_CPUSET) == "true" else None)


OWNER = CPUOwner("apps/a", CPUSet.parse("0-1"))
STATED = {RESOURCE_STATUS: '{"cpuset":"0-1"}'}


@pytest.mark.parametrize(
    ("owners", "node", "phase", "found"),
    [
        ({"a": OWNER}, "n1", "Running", ""),
        ({"a": OWNER}, "n2", "Running", "node n1: its ledger has apps/a own CPUs 0-1, and the pod does not"),
        ({}, "n1", "Running", "node n1: apps/a owns CPUs and is not in the ledger"),
        ({}, "n1", "Succeeded", ""),
    ],
)
def test_ledgers_and_pods_that_disagree_are_named(
    owners: dict[str, CPUOwner], node: str, phase: str, found: str
) -> None:
    ledger = {name: text for name, text in print_owned_cpus(owners).items() if text is not None}
    pod = {
        "metadata": {"name": "a", "uid": "a", "annotations": STATED},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }
    nodes = [{"metadata": {"name": "n1", "annotations": ledger}}]
    assert "".join(disagreements(nodes, [pod], "apps")) == found
    assert not list(disagreements(nodes, [], "others"))
