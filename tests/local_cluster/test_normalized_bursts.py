"""60 pods at once on nodes of several ratios, placed by a stand-in of kube-scheduler, while replicas are killed.

A third of the pods own normalized CPUs, a third own CPUs as they are, a third shares. Two processes of
``corewise scheduler`` answer and bind; both are killed in turn, while they bind, and started again. The API
server folds owned CPUs into allocatable by the policy of amplification, in the same writes.

At every look: no CPU has two owners; each pod owns as many as its node's ratio says; allocatable is exact, and
covers what the pods on the node request. At the end every pod has a node, or none would take it.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from corewise.amplification import normalized_cpus
from corewise.amplification.policy import amplification_policy
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.resources import MUTATING_POLICIES, MUTATING_POLICY_BINDINGS
from corewise.quantities import Quantity, Ratio, amplify
from corewise.scheduler.installation import Pods
from corewise.vocabulary.cpu_annotations import stated_cpus
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    NORMALIZATION_RATIO,
    NORMALIZE_CPUSET,
    OWNED_CPU_COUNT,
    QOS_CLASS,
    RESOURCE_STATUS,
)
from corewise.vocabulary.owned_cpus import read_owned_cpus
from corewise_lab.control_plane import running
from corewise_lab.extender_calls import ExtenderCalls
from corewise_lab.local_scheduler import LocalScheduler
from manager.world import PODS_NAMESPACE, eventually
from scheduler.program_world import PLAIN_NODES, PLAIN_PODS, SchedulerWorld, pod_document, scheduler_world
from scheduler.test_two_programs import program

PODS = 60
WITHIN = 180.0
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


def burst() -> list[dict[str, Any]]:
    pods = []
    for number in range(PODS):
        kind = ("normalized", "plain", "shared")[number % 3]
        notes = {NORMALIZE_CPUSET: "true"} if kind == "normalized" else {}
        cpu = {"normalized": 2 + number % 4, "plain": 1 + number % 2, "shared": 1}[kind]
        qos = "" if kind == "shared" else "LSR"
        pods.append(pod_document(f"{kind}-{number}", cpu=str(cpu), qos=qos, annotations=notes, memory="64Mi"))
    return pods


def requested(pod: dict[str, Any]) -> int:
    return Quantity.parse(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]).milli


async def check(world: SchedulerWorld) -> int:
    """Check every node by what the API server says; return how many pods are bound."""
    nodes = {each["metadata"]["name"]: each for each in await world.client.list(PLAIN_NODES)}
    pods = list(await world.client.list(PLAIN_PODS, PODS_NAMESPACE))
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
    for name, (cpus, normalization, amplification) in NODES.items():
        ledger = read_owned_cpus(nodes[name]["metadata"].get("annotations") or {})
        assert not ledger.problem
        owned = [cpu for entry in ledger.owners.values() for cpu in entry.cpus]
        assert len(owned) == len(set(owned))
        assert set(owned) <= set(range(cpus))
        for uid, entry in ledger.owners.items():
            meta = by_uid[uid]["metadata"]
            n = requested(by_uid[uid]) // 1000
            is_normalized = meta.get("annotations", {}).get(NORMALIZE_CPUSET) == "true"
            ratio = Ratio.parse(normalization).hundredths if is_normalized else 100
            assert (len(entry.cpus), entry.requested) == (normalized_cpus(n, ratio), n)
        factor = Ratio.parse(amplification)
        whole = amplify(cpus * 1000, factor)
        taken = len(owned) * 10 * factor.hundredths
        fold = max(0, taken - 1000 * sum(entry.requested for entry in ledger.owners.values()))
        allocatable = Quantity.parse(nodes[name]["status"]["allocatable"]["cpu"]).milli
        assert allocatable == whole - fold
        assert allocatable >= sum(requested(pod) for pod in pods if pod["spec"].get("nodeName") == name)
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods)


async def test_bursts_with_kills_stay_exact(world: SchedulerWorld, tmp_path: Path) -> None:
    await add_nodes(world)
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(program(world.administrator, tmp_path / f"{number}.log"))
            for number in range(2)
        ]
        urls = [url for _, url in replicas]
        scheduler = LocalScheduler(world.client, clock=SYSTEM_CLOCK)
        scheduler.extender = await ExtenderCalls.connect(world.client, urls, Pods.OWNED)
        await stack.enter_async_context(running(scheduler.run))

        async def policy_works() -> bool:
            dry = pod_document("probe", cpu="1", qos="LSR")
            made = await world.client.create(PLAIN_PODS, dry, PODS_NAMESPACE)
            await world.client.delete(PLAIN_PODS, "probe", PODS_NAMESPACE, grace_period=0)
            return "corewise.io/owned-cpus" in made["spec"]["containers"][0]["resources"]["requests"]

        await eventually(policy_works, WITHIN)
        await asyncio.gather(
            *(world.client.create(PLAIN_PODS, each, PODS_NAMESPACE) for each in burst())
        )

        async def placed(least: int) -> bool:
            bound = await check(world)
            return bound >= least

        await eventually(lambda: placed(8), WITHIN)
        replicas[0][0].kill()
        await eventually(lambda: placed(20), WITHIN)
        number = len(replicas)
        fresh = await stack.enter_async_context(program(world.administrator, tmp_path / f"{number}.log"))
        urls[:] = [fresh[1], urls[1]]
        replicas[1][0].kill()
        other = await stack.enter_async_context(program(world.administrator, tmp_path / f"{number + 1}.log"))
        urls[:] = [fresh[1], other[1]]

        async def settled() -> bool:
            scheduler.try_all()
            return await check(world) == PODS

        await eventually(settled, WITHIN)
    found = {pod["metadata"]["name"]: pod for pod in await world.client.list(PLAIN_PODS, PODS_NAMESPACE)}
    for name, pod in found.items():
        meta = pod["metadata"]
        owns = meta.get("labels", {}).get(QOS_CLASS) == "LSR"
        cpus = stated_cpus((meta.get("annotations") or {}).get(RESOURCE_STATUS))
        assert bool(cpus) is owns, name
        if meta.get("annotations", {}).get(NORMALIZE_CPUSET) == "true":
            assert meta["annotations"][OWNED_CPU_COUNT] == str(len(cpus))
