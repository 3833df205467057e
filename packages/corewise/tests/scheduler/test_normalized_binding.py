"""Pods whose CPUs are normalized, through the scheduler: what is bound, recorded, and kept.

n1 has 16 CPUs at ratio 2.00, n2 has 16 at 1.00. A pod that requests 8 normalized CPUs owns 4 on n1, 8 on n2.

then                                         what it owns
the node's ratio changes                     stays
a Binding without an answer is tried again   stays, by the entry, whatever the ratio is by then
the pod's annotation changes                 stays
it was bound by somebody else                chosen by the ratio, entered late
the same, more in whole cores than requested none, and an Event says so
an older version wrote its entry             the request comes back from resource-status
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from corewise.kube.errors import TransportError
from corewise.scheduler.collector import EXPIRY
from corewise.scheduler.program import Scheduler
from corewise.topology import CPUSet
from corewise.vocabulary.metrics import LEDGER_REPAIRS
from corewise.vocabulary.names import (
    NORMALIZATION_RATIO,
    NORMALIZE_CPUSET,
    OWNED_CPU_COUNT,
    OWNED_CPUS,
    OWNED_MILLI_CPU,
    OWNED_REQUESTS,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
)
from corewise.vocabulary.owned_cpus import CPUOwner, print_owned_cpus, read_owned_cpus
from corewise.vocabulary.reasons import Reason
from manager.world import until
from scheduler.program_world import (
    PLAIN_NODES,
    PLAIN_PODS,
    Interrupted,
    NotBoundError,
    SchedulerWorld,
    caller,
)

NORMALIZED = {NORMALIZE_CPUSET: "true"}


async def add_fast(world: SchedulerWorld, name: str = "n1", cpus: int = 16, ratio: str = "2.00") -> None:
    await world.add_node(name, cpus, ratio)
    await normalize(world, name, ratio)


async def normalize(world: SchedulerWorld, name: str, ratio: str) -> None:
    await world.client.patch(PLAIN_NODES, name, {"metadata": {"annotations": {NORMALIZATION_RATIO: ratio}}})


async def sees(scheduler: Scheduler, name: str, hundredths: int) -> None:
    """Wait until a scheduler has seen a node's ratio."""

    def shown() -> bool:
        facts = scheduler.state.counted.cluster.nodes.get(name)
        return (
            facts is not None
            and facts.normalization is not None
            and facts.normalization.hundredths == hundredths
        )

    await until(shown)


async def notes(world: SchedulerWorld, name: str) -> dict[str, str]:
    found: dict[str, str] = (await world.client.get(PLAIN_NODES, name))["metadata"].get("annotations") or {}
    return found


async def owner(world: SchedulerWorld, node: str = "n1") -> CPUOwner:
    (found,) = read_owned_cpus(await notes(world, node)).owners.values()
    return found


async def test_each_node_gives_what_does_the_work(world: SchedulerWorld) -> None:
    await add_fast(world)
    await world.add_node("n2", 16)
    async with world.scheduler():
        for name, node, cpus in (("a", "n1", 4), ("b", "n2", 8)):
            await world.add_pod(name, cpu="8", qos="LSR", annotations=NORMALIZED)
            await world.bind(name, node)
            meta = (await world.pod(name))["metadata"]["annotations"]
            status = json.loads(meta[RESOURCE_STATUS])
            assert len(CPUSet.parse(status["cpuset"])) == cpus
            assert status.get("requestedCPUs") == (8 if cpus < 8 else None)
            assert meta[OWNED_CPU_COUNT] == str(cpus)
        first, second = await notes(world, "n1"), await notes(world, "n2")
        assert [each[OWNED_MILLI_CPU] for each in (first, second)] == ["4000", "8000"]
        assert [each.get(OWNED_REQUESTS) for each in (first, second)] == ["8000", None]
        assert (await owner(world)).request == 8


async def test_plain_owners_are_told_no_number(world: SchedulerWorld) -> None:
    await add_fast(world)
    for name, choice in (("a", {}), ("b", {NORMALIZE_CPUSET: "false"})):
        await world.add_pod(name, cpu="4", qos="LSR", annotations=choice)
    async with world.scheduler():
        for name in ("a", "b"):
            await world.bind(name, "n1")
            meta = (await world.pod(name))["metadata"]["annotations"]
            assert OWNED_CPU_COUNT not in meta
            assert json.loads(meta[RESOURCE_STATUS]).keys() == {"cpuset"}
        assert OWNED_REQUESTS not in await notes(world, "n1")


async def test_filter_counts_by_each_nodes_ratio(world: SchedulerWorld) -> None:
    for number, ratio in enumerate(("1.00", "2.00", "3.00"), start=1):
        await add_fast(world, f"n{number}", 4, ratio)
    pod = await world.add_pod("p", cpu="8", qos="LSR", annotations=NORMALIZED)
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        asked = {"Pod": pod, "Nodes": None, "NodeNames": ["n1", "n2", "n3"]}
        _, answer = await call("filter", asked)
        assert answer["NodeNames"] == ["n2", "n3"]
        assert answer["FailedNodes"] == {"n1": "not enough free CPUs"}


async def test_what_a_pod_owns_outlives_ratio_and_annotation(world: SchedulerWorld) -> None:
    await add_fast(world)
    await world.add_pod("p", cpu="8", qos="LSR", annotations=NORMALIZED)
    async with world.scheduler() as scheduler:
        await world.bind("p", "n1")
        before = (await world.ledger("n1"), await world.cpus("p"))
        await normalize(world, "n1", "1.00")
        change = {"metadata": {"annotations": {NORMALIZE_CPUSET: "false"}}}
        await world.client.patch(PLAIN_PODS, "p", change, namespace=world.namespace)
        await sees(scheduler, "n1", 100)
        await scheduler.collector.look()
        assert (await world.ledger("n1"), await world.cpus("p")) == before
        assert (await owner(world)).request == 8
        await world.add_pod("q", cpu="8", qos="LSR", annotations=NORMALIZED)
        await world.bind("q", "n1")
        assert len(CPUSet.parse(await world.cpus("q") or "")) == 8


async def test_a_repeated_binding_keeps_its_cpus(world: SchedulerWorld, interrupted: Interrupted) -> None:
    """The entry stays, since the Binding may still arrive; meanwhile the ratio falls."""
    await add_fast(world)
    await world.add_pod("p", cpu="8", qos="LSR", annotations=NORMALIZED)

    async def lost() -> None:
        raise TransportError("lost")

    async with world.scheduler() as scheduler:
        interrupted.before["/binding"] = lost
        with pytest.raises(NotBoundError) as refusal:
            await world.bind("p", "n1")
        assert refusal.value.reason is Reason.BINDING_FAILED
        before = await owner(world)
        await normalize(world, "n1", "1.00")
        await sees(scheduler, "n1", 100)
        await world.bind("p", "n1")
        after = await owner(world)
        assert (after.cpus, after.request) == (before.cpus, 8)
        assert CPUSet.parse(await world.cpus("p") or "") == before.cpus


async def test_normalized_pod_bound_elsewhere_is_entered_late(world: SchedulerWorld) -> None:
    await add_fast(world)
    await world.add_pod("p", cpu="9", qos="LSR", annotations=NORMALIZED)
    async with world.scheduler() as scheduler:
        await world.bind_past("p", "n1")
        await until(lambda: scheduler.state.counted.cluster.node_of("apps/p") == "n1")
        await world.told("OwnedLate")
        found = await owner(world)
        assert (len(found.cpus), found.request) == (5, 9)
        assert CPUSet.parse(await world.cpus("p") or "") == found.cpus


async def test_late_pods_never_own_more_than_requested(world: SchedulerWorld) -> None:
    await add_fast(world)
    whole = {RESOURCE_SPEC: '{"requiredCPUBindPolicy":"FullPCPUs"}'}
    await world.add_pod("p", cpu="1", qos="LSR", annotations=NORMALIZED | whole)
    await world.add_pod("q", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:
        await world.bind_past("p", "n1")
        await until(lambda: scheduler.state.counted.cluster.node_of("apps/p") == "n1")
        await world.told("NotWholeCores")
        assert OWNED_CPUS not in await notes(world, "n1")
        await world.bind("q", "n1")


async def test_a_lost_request_comes_back_from_the_pod(world: SchedulerWorld) -> None:
    """A version that knows no requests has rewritten the entries, and has left their sum."""
    await add_fast(world)
    await world.add_pod("p", cpu="8", qos="LSR", annotations=NORMALIZED)
    async with world.scheduler() as scheduler:
        await world.bind("p", "n1")
        uid = (await world.pod("p"))["metadata"]["uid"]
        plain = print_owned_cpus({uid: CPUOwner("apps/p", (await owner(world)).cpus, "0")})
        changed: dict[str, Any] = {key: plain[key] for key in (OWNED_CPUS, OWNED_MILLI_CPU)}
        await world.client.patch(PLAIN_NODES, "n1", {"metadata": {"annotations": changed}})

        def damaged() -> bool:
            return bool(scheduler.state.counted.cluster.nodes["n1"].owned.problem)

        await until(damaged)
        await scheduler.collector.look()
        world.clock.skip(EXPIRY + 1)
        await scheduler.collector.look()
        await until(lambda: not damaged())
        assert scheduler.metrics.value(LEDGER_REPAIRS) == 1
        assert (await owner(world)).request == 8


@pytest.mark.parametrize("ratio", ["1.00", "2.00"])
async def test_a_normalized_pod_evicts_by_what_victims_own(world: SchedulerWorld, ratio: str) -> None:
    """n1 is full of pods that request 8 each; a pod of 16 needs as many CPUs as two or four of them own."""
    await add_fast(world, "n1", 16, ratio)
    pods = 2 if ratio == "1.00" else 4
    for number in range(pods):
        await world.add_pod(f"low{number}", cpu="8", qos="LSR", annotations=NORMALIZED)
    high = await world.add_pod("high", cpu="16", qos="LSR", annotations=NORMALIZED)
    high["spec"]["priority"] = 1000
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        for number in range(pods):
            await world.bind(f"low{number}", "n1")
        counted = scheduler.state.counted.cluster
        await until(lambda: all(counted.node_of(f"apps/low{number}") for number in range(pods)))
        asked = {"Pod": high, "NodeNameToMetaVictims": {"n1": {"Pods": []}}}
        _, answer = await call("preempt", asked)
        assert len(answer["NodeNameToMetaVictims"]["n1"]["Pods"]) == 2
