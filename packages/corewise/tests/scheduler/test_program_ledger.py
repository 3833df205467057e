"""The leader keeps the ledgers in order: entries that no one needs, pods that came late, damage.

| what is found | what becomes of it |
|---|---|
| the pod is gone, finished, another, or bound elsewhere | the entry goes at once |
| the pod is not bound | the pod is annotated, then the entry goes, 90 s after it was first seen |
| a bound pod that owns CPUs has no entry | it is entered, annotated and told; or told why not |
| a pod that kubelet gives CPUs | it is entered with those that the agent reports |
| resource-status is not what the ledger says | it is written again |
| the ledger is damaged | it is rewritten, 90 s after it was first seen |
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from corewise.kube.resources import EVENTS
from corewise.scheduler.collector import EXPIRY
from corewise.scheduler.program import Scheduler
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import print_cpu_topology
from corewise.vocabulary.metrics import LEDGER_LATE, LEDGER_REMOVED, LEDGER_REPAIRS
from corewise.vocabulary.names import (
    CLAIM_EXPIRED,
    CPU_MANAGER_POLICY,
    CPU_TOPOLOGY,
    OWNED_CPUS,
    OWNED_MILLI_CPU,
    POD_CPUS,
    RESOURCE_STATUS,
)
from corewise.vocabulary.owned_cpus import CPUOwner, print_owned_cpus
from corewise.vocabulary.reasons import Reason
from engine.scenes import arrangement
from manager.world import PODS_NAMESPACE, eventually, until
from scheduler.program_world import PLAIN_NODES, PLAIN_PODS, SchedulerWorld, pod_document

FIRST_HALF, SECOND_HALF = "0-1,4-5", "2-3,6-7"


async def ledger_becomes(world: SchedulerWorld, owned: dict[str, str], *, skip: float = 5.0) -> None:
    """Wait until the ledger of n1 says this; between looks of the leader some time passes."""

    async def there() -> bool:
        world.clock.skip(skip)
        return await world.ledger("n1") == owned

    await eventually(there)


async def enter(world: SchedulerWorld, **owners: tuple[str, str]) -> None:
    """Write a ledger: the uid and the CPUs of each pod, by its name."""
    entries = {uid: CPUOwner(f"apps/{name}", CPUSet.parse(cpus)) for name, (uid, cpus) in owners.items()}
    await annotate(world, print_owned_cpus(entries))


async def annotate(world: SchedulerWorld, annotations: dict[str, str | None]) -> None:
    await world.client.patch(PLAIN_NODES, "n1", {"metadata": {"annotations": annotations}})


async def events(world: SchedulerWorld, reason: Reason) -> list[str]:
    """The messages of Events with a reason, once there is one."""
    found: list[str] = []

    async def there() -> bool:
        found[:] = [each.message for each in await world.client.list(EVENTS) if each.reason == reason]
        return bool(found)

    await eventually(there)
    return found


async def test_entries_of_gone_replaced_or_moved_pods_go(
    world: SchedulerWorld,
) -> None:
    for node in ("n1", "n2"):
        await world.add_node(node, 8)
    away, again, here = [await world.add_pod(name, cpu="1", qos="LSR") for name in ("away", "again", "here")]
    async with world.scheduler() as scheduler:
        await world.bind("here", "n1")
        await world.bind("away", "n2")
        entries = {
            "away": (away["metadata"]["uid"], "1"),
            "again": ("uid-of-before", "2"),
            "nobody": ("uid-of-nobody", "3"),
            "here": (here["metadata"]["uid"], "0"),
        }
        await enter(world, **entries)
        await ledger_becomes(world, {"here": "0"})
        assert scheduler.metrics.value(LEDGER_REMOVED, "gone") == 3
        assert CLAIM_EXPIRED not in (await world.pod("again"))["metadata"].get("annotations", {})
        assert again["metadata"]["uid"] == (await world.pod("again"))["metadata"]["uid"]


async def test_an_entry_of_a_finished_pod_goes(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("done", cpu="4", qos="LSR")
    async with world.scheduler():
        await world.bind("done", "n1")
        status = {"status": {"phase": "Succeeded"}}
        await world.client.patch(PLAIN_PODS, "done", status, namespace=PODS_NAMESPACE, subresource="status")
        await ledger_becomes(world, {})


async def test_pods_that_claim_held_cpus_have_events(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    for name, cpus in (("first", "0-3"), ("second", "2-5"), ("elsewhere", "64-67")):
        claim = {RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
        document = pod_document(name, cpu="4", qos="LSR", annotations=claim)
        document["spec"]["nodeName"] = "n1"
        await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)
    async with world.scheduler():
        (taken,) = await events(world, Reason.CPUS_TAKEN)
        (unknown,) = await events(world, Reason.CPUS_UNKNOWN)
    assert taken == "apps/second claims CPUs 2-3, which apps/first holds"
    assert unknown == "apps/elsewhere claims CPUs 64-67, which the machine does not have"


async def test_unbound_entry_expires_after_90_seconds_with_event(
    world: SchedulerWorld,
) -> None:
    await world.add_node("n1", 8)
    pod = await world.add_pod("slow", cpu="4", qos="LSR")
    await enter(world, slow=(pod["metadata"]["uid"], FIRST_HALF))
    async with world.scheduler() as scheduler:
        for _ in range(10):
            world.clock.skip(EXPIRY / 20)
            await until(lambda: scheduler.state.counted.cluster.unbound_entries == 1)
        assert await world.ledger("n1") == {"slow": FIRST_HALF}
        await ledger_becomes(world, {}, skip=EXPIRY)
        assert scheduler.metrics.value(LEDGER_REMOVED, "expired") == 1
        after = await world.pod("slow")
        assert after["metadata"]["annotations"][CLAIM_EXPIRED].endswith("Z")
        assert after["metadata"]["resourceVersion"] != pod["metadata"]["resourceVersion"]
        (message,) = await events(world, Reason.CLAIM_EXPIRED)
        assert message == f"node n1 no longer keeps CPUs {FIRST_HALF} for the pod: it was not bound in time"
        await world.bind("slow", "n1")


async def test_pod_bound_by_others_gets_own_cpus_late(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("ours", cpu="4", qos="LSR")
    await world.add_pod("late", cpu="4", qos="LSR")
    await world.add_pod("share", cpu="1")
    for name in ("late", "share"):
        await world.bind_past(name, "n1")
    async with world.scheduler() as scheduler:
        await ledger_becomes(world, {"late": FIRST_HALF})
        await until(lambda: scheduler.metrics.value(LEDGER_LATE, Reason.OWNED_LATE) == 1)

        async def stated() -> bool:
            return await world.cpus("late") == FIRST_HALF

        await eventually(stated)
        (message,) = await events(world, Reason.OWNED_LATE)
        assert message == (f"bound without the scheduler; it owns CPUs {FIRST_HALF} of node n1 from now on")
        await world.client.delete(PLAIN_PODS, "share", PODS_NAMESPACE, grace_period=0)

        async def bound() -> bool:
            await world.bind("ours", "n1")
            return True

        await eventually(bound)
        assert await world.cpus("ours") == SECOND_HALF


async def test_late_pod_keeps_its_stated_cpus_if_free(
    world: SchedulerWorld,
) -> None:
    await world.add_node("n1", 8)
    for name, cpus in (("right", "2-3"), ("few", "5"), ("taken", "3-4")):
        document = pod_document(
            name, cpu="2", qos="LSR", annotations={RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
        )
        document["spec"]["nodeName"] = "n1"
        created = await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)
        if name == "right":
            await enter(world, right=(created["metadata"]["uid"], "2-3"))
    async with world.scheduler():

        async def entered() -> bool:
            world.clock.skip(5.0)
            return len(await world.ledger("n1")) == 3

        await eventually(entered)
        owned = await world.ledger("n1")
        assert owned["right"] == "2-3"
        every = [cpu for cpus in owned.values() for cpu in CPUSet.parse(cpus)]
        assert len(every) == len(set(every)) == 6

        async def stated() -> bool:
            world.clock.skip(5.0)
            return {name: await world.cpus(name) for name in owned} == owned

        await eventually(stated)


async def test_late_pod_without_cpus_or_room_reports_once(world: SchedulerWorld) -> None:
    """n1: 8 CPUs at ratio 2.00; "rest" takes 12 of 16, so 4 owned CPUs, which cost 8, do not fit."""
    await world.add_node("n1", 8, "2.00")
    await world.add_node("n2", 4)
    for name, cpu, qos, node in (
        ("rest", "12", "", "n1"),
        ("no-room", "4", "LSR", "n1"),
        ("first", "4", "LSR", "n2"),
        ("no-cpus", "4", "LSR", "n2"),
    ):
        await world.add_pod(name, cpu=cpu, qos=qos)
        if name == "first":
            async with world.scheduler():
                await world.bind("first", "n2")
        else:
            await world.bind_past(name, node)
    async with world.scheduler() as scheduler:
        (room,) = await events(world, Reason.AMPLIFIED_CPU_INSUFFICIENT)
        assert room == (
            "bound without the scheduler, and owns no CPUs of node n1: its CPUs cost 4 amplified "
            "CPUs more than node n1 has left"
        )
        (cpus,) = await events(world, Reason.NOT_ENOUGH_CPUS)
        assert "and owns no CPUs of node n2" in cpus
        for _ in range(3):
            world.clock.skip(5.0)
            await until(lambda: True)
        assert scheduler.metrics.value(LEDGER_LATE, Reason.NOT_ENOUGH_CPUS) == 1
        assert await world.ledger("n1") == {}
        await world.client.delete(PLAIN_PODS, "rest", PODS_NAMESPACE, grace_period=0)
        await ledger_becomes(world, {"no-room": FIRST_HALF})


async def test_forbidden_bound_lse_pod_is_reported(world: SchedulerWorld) -> None:
    """Bound before the policy was installed, or without a scheduler: with a claim of its own, and without."""
    await world.add_node("n1", 8)
    claim = {RESOURCE_STATUS: json.dumps({"cpuset": "0-1"})}
    for name, stated in (("claims", claim), ("plain", {})):
        await world.add_pod(name, cpu="2", qos="LSE", annotations=stated)
        await world.bind_past(name, "n1")
    message = (
        "bound without the scheduler, and owns no CPUs of node n1: QoS class LSE is not allowed in namespace "
        "apps: use another class, or add it to --restricted-qos-namespace"
    )
    async with world.scheduler() as scheduler:
        await until(lambda: scheduler.metrics.value(LEDGER_LATE, Reason.QOS_CLASS_NOT_ALLOWED) == 2)

        async def both_told() -> bool:
            return await events(world, Reason.QOS_CLASS_NOT_ALLOWED) == [message] * 2

        await eventually(both_told)
        assert await world.ledger("n1") == {}


@pytest.mark.parametrize(
    ("qos", "reason"), [("LSR", Reason.CPUS_NOT_INTEGER), ("LSE", Reason.QOS_CLASS_NOT_ALLOWED)]
)
async def test_bound_pod_of_broken_cpus_is_reported(world: SchedulerWorld, qos: str, reason: Reason) -> None:
    """The pod owns no CPUs, although its class says so; that its class does not count goes first."""
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="2500m", qos=qos)
    await world.bind_past("p", "n1")
    async with world.scheduler() as scheduler:
        await until(lambda: scheduler.metrics.value(LEDGER_LATE, reason) == 1)

        async def told() -> bool:
            begin = "bound without the scheduler, and owns no CPUs of node n1: "
            return [each.startswith(begin) for each in await events(world, reason)] == [True]

        await eventually(told)
        assert await world.ledger("n1") == {}


async def test_kubelet_pinned_pod_is_entered_with_its_cpus(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    pod = await world.add_pod("static", cpu="2", memory="1Gi")
    await world.bind_past("static", "n1")
    owner = {"namespace": PODS_NAMESPACE, "name": "static", "uid": pod["metadata"]["uid"], "cpuset": "1,5"}
    reported = {
        CPU_TOPOLOGY: print_cpu_topology(arrangement(8)),
        CPU_MANAGER_POLICY: '{"policy":"static"}',
    }
    await world.state_topology("n1", reported)
    async with world.scheduler():
        await until(lambda: True)
        assert await world.ledger("n1") == {}, "kubelet has not said yet which"
        await world.state_topology(
            "n1", {**reported, POD_CPUS: json.dumps([{**owner, "managedByKubelet": True}])}
        )
        await ledger_becomes(world, {"static": "1,5"})
        given = [{**owner, "managedByKubelet": True, "cpuset": "2,6"}]
        await world.state_topology("n1", {**reported, POD_CPUS: json.dumps(given)})
        await ledger_becomes(world, {"static": "2,6"})
        assert await world.cpus("static") is None, "its CPUs are kubelet's to say"


async def test_resource_status_written_by_others_is_corrected(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler():
        await world.bind("p", "n1")
        other = {"metadata": {"annotations": {RESOURCE_STATUS: json.dumps({"cpuset": SECOND_HALF})}}}
        await world.client.patch(PLAIN_PODS, "p", other, namespace=PODS_NAMESPACE)

        async def right() -> bool:
            world.clock.skip(5.0)
            return await world.cpus("p") == FIRST_HALF

        await eventually(right)


async def test_damaged_ledger_is_rebuilt_from_remnants_and_pods(
    world: SchedulerWorld,
) -> None:
    await world.add_node("n1", 8)
    for name in ("a", "b"):
        await world.add_pod(name, cpu="2", qos="LSR")
    async with world.scheduler() as scheduler:
        for name in ("a", "b"):
            await world.bind(name, "n1")
        good = await world.ledger("n1")
        await annotate(world, {OWNED_CPUS: "{", OWNED_MILLI_CPU: "1000"})
        await until(lambda: bool(scheduler.state.counted.cluster.nodes["n1"].owned.problem))
        world.clock.skip(EXPIRY / 2)
        node: dict[str, Any] = await world.client.get(PLAIN_NODES, "n1")
        assert node["metadata"]["annotations"][OWNED_CPUS] == "{", "bindings may be under way"

        async def repaired() -> bool:
            world.clock.skip(EXPIRY)
            found = await world.client.get(PLAIN_NODES, "n1")
            return bool(found["metadata"]["annotations"][OWNED_CPUS] != "{")

        await eventually(repaired)
        assert await world.ledger("n1") == good
        await until(lambda: counted(scheduler) == 1)
        (message,) = await events(world, Reason.OWNED_CPUS_REPAIRED)
        assert message.endswith("it has been rewritten, with 2 pods that own CPUs")


def counted(scheduler: Scheduler) -> float:
    return scheduler.metrics.value(LEDGER_REPAIRS)
