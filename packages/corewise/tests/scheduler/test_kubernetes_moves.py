"""What kube-scheduler and kubelet do since 1.33 to 1.37, in a cluster of the local API server.

==========================  =================================================================================
a node hint                 kube-scheduler asks Filter about one node and binds, without Prioritize (KEP-5598)
a PodGroup                  Filter for each member before any is bound, then all binds at once (KEP-4671)
a resize of an owner        its request changes while it runs; its CPUs do not (KEP-1287)
preemption for a resize     a victim leaves, then kubelet applies the resize (KEP-5836)
==========================  =================================================================================
"""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

from corewise.kube.errors import api_error
from corewise.topology import CPUSet
from corewise.vocabulary.reasons import Reason
from manager.world import PODS_NAMESPACE, eventually, until
from scheduler.program_world import (
    PLAIN_NODES,
    PLAIN_PODS,
    Interrupted,
    NotBoundError,
    SchedulerWorld,
    caller,
    pod_document,
)
from scheduler.test_program_interference import Known, a_stream, add_stream, known, quick, scheduling
from scheduler.test_program_ledger import ledger_becomes

__all__ = ["known", "quick"]
"""Fixtures, which pytest finds by name."""

THIRD_REFUSED = (
    "node n1 does not suit the pod: needs 3 CPUs of its own, 2 are free; the pod will be tried again"
)


async def test_hinted_pods_are_filtered_and_weighed(
    world: SchedulerWorld, known: Known, tmp_path: Path
) -> None:
    """n1 has 21 GB/s free: three pods of 5 GB/s pass, a fourth does not, and the next score shows them."""
    for name in ("n1", "n2"):
        await world.add_node(name, 8)
    known.values["used"] = {"n1": 79, "n2": 79}
    async with scheduling(world, known, tmp_path) as scheduler, caller(scheduler) as call:
        for number in range(4):
            name = f"p{number}"
            await add_stream(world, name)
            _, answer = await call("filter", {"Pod": a_stream(name), "NodeNames": ["n1"]})
            assert bool(answer["NodeNames"]) == (number < 3)
            if answer["NodeNames"]:
                await world.bind(name, "n1")
        assert answer["FailedNodes"] == {"n1": "Insufficient free memory bandwidth"}
        _, answer = await call("filter", {"Pod": a_stream("p3"), "NodeNames": ["n1", "n2"]})
        assert answer["NodeNames"] == ["n2"]


async def test_refused_group_members_leave_no_entry(world: SchedulerWorld) -> None:
    """Filter knows no member that is placed in the same cycle; bind gives every CPU once."""
    await world.add_node("n1", 8)
    members = [f"m{number}" for number in range(4)]
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        for name in members:
            document = pod_document(name, cpu="3", qos="LSR")
            document["spec"]["schedulingGroup"] = {"podGroupName": "group"}
            await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)
            _, answer = await call("filter", {"Pod": document, "NodeNames": ["n1"]})
            assert answer["NodeNames"] == ["n1"]

        async def bound(name: str) -> Reason | None:
            try:
                await world.bind(name, "n1")
            except NotBoundError as refused:
                return refused.reason
            return None

        answers = dict(zip(members, await asyncio.gather(*map(bound, members)), strict=True))
        fits = [name for name, reason in answers.items() if reason is None]
        assert len(fits) == 2
        ledger = {name: CPUSet.parse(cpus) for name, cpus in (await world.ledger("n1")).items()}
        assert sorted(ledger) == sorted(fits)
        assert len(CPUSet.of(cpu for cpus in ledger.values() for cpu in cpus)) == 6
        for name in members:
            pod = await world.pod(name)
            assert bool(pod["spec"].get("nodeName")) == (name in fits)
            assert (await world.cpus(name) is not None) == (name in fits)
        await world.add_node("n2", 8)

        async def retried() -> bool:
            return [await bound_to_n2(name) for name in members if name not in fits] == [True, True]

        async def bound_to_n2(name: str) -> bool:
            try:
                await world.bind(name, "n2")
            except NotBoundError:
                return False
            return True

        await eventually(retried)
        assert sorted(await world.ledger("n2")) == sorted(set(members) - set(fits))


@pytest.mark.parametrize("ratio", ["1.00", "2.00"])
async def test_failed_group_leaves_no_cpus_taken(world: SchedulerWorld, ratio: str) -> None:
    """Three members own 3 CPUs each, of 8: the third is refused, and then the group is deleted."""
    await world.add_node("n1", 8, ratio)
    members = await add_group(world, 3, cpu="3")
    async with world.scheduler():
        before = await allocatable(world, "n1")
        for name in members[:2]:
            await world.bind(name, "n1")
        with pytest.raises(NotBoundError) as refused:
            await world.bind(members[2], "n1")
        assert str(refused.value) == THIRD_REFUSED
        assert sorted(await world.ledger("n1")) == members[:2]
        for name in members:
            await world.client.delete(PLAIN_PODS, name, PODS_NAMESPACE, grace_period=0)
        await ledger_becomes(world, {})
        assert await allocatable(world, "n1") == before
        await world.add_pod("after", cpu="7", qos="LSR")
        await world.bind("after", "n1")


@pytest.mark.parametrize("code", [403, 500])
async def test_failed_bindings_of_a_group_leave_nothing(
    world: SchedulerWorld, interrupted: Interrupted, code: int
) -> None:
    """The API server refuses the third Binding, or its answer is lost; the group is deleted."""
    await world.add_node("n1", 16)
    members = await add_group(world, 3, cpu="3")

    async def fails() -> None:
        raise api_error(code, b"")

    async with world.scheduler():
        for name in members[:2]:
            await world.bind(name, "n1")
        interrupted.before[f"pods/{members[2]}/binding"] = fails
        with pytest.raises(NotBoundError) as refused:
            await world.bind(members[2], "n1")
        assert refused.value.reason is Reason.BINDING_FAILED
        assert sorted(await world.ledger("n1")) == (members[:2] if code == 403 else members)
        for name in members:
            await world.client.delete(PLAIN_PODS, name, PODS_NAMESPACE, grace_period=0)
        await ledger_becomes(world, {})


async def test_resize_after_preemption_counts_cpus_once(world: SchedulerWorld) -> None:
    """The victim owns CPUs too: they go to a new pod, and none to the pod that is resized."""
    await world.add_node("n1", 8)
    for name, cpu in (("owner", "2"), ("victim", "4"), ("next", "4")):
        await world.add_pod(name, cpu=cpu, qos="LSR")
    async with world.scheduler():
        await world.bind("owner", "n1")
        await world.bind("victim", "n1")
        owned = await world.cpus("owner")
        resize(world, "owner", "4", waits=True)
        await world.client.delete(PLAIN_PODS, "victim", PODS_NAMESPACE, grace_period=0)
        await ledger_becomes(world, {"owner": owned or ""})
        resize(world, "owner", "4", waits=False)
        await world.bind("next", "n1")
        ledger = await world.ledger("n1")
        assert sorted(ledger) == ["next", "owner"]
        assert ledger["owner"] == owned == await world.cpus("owner")
        assert CPUSet.parse(ledger["next"]).isdisjoint(CPUSet.parse(ledger["owner"]))
        await world.add_pod("too-many", cpu="2", qos="LSR")
        with pytest.raises(NotBoundError):
            await world.bind("too-many", "n1")


async def add_group(world: SchedulerWorld, size: int, *, cpu: str) -> list[str]:
    """Create the pods of a PodGroup, which own CPUs; return their names."""
    members = [f"m{number}" for number in range(size)]
    for name in members:
        document = pod_document(name, cpu=cpu, qos="LSR")
        document["spec"]["schedulingGroup"] = {"podGroupName": "group"}
        await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)
    return members


async def allocatable(world: SchedulerWorld, node: str) -> str:
    shown: str = (await world.client.get(PLAIN_NODES, node))["status"]["allocatable"]["cpu"]
    return shown


@pytest.mark.parametrize("cpu", ["1", "4"])
async def test_resized_owner_keeps_the_cpus_it_owns(world: SchedulerWorld, cpu: str) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("owner", cpu="2", qos="LSR")
    await world.add_pod("other", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:
        await world.bind("owner", "n1")
        before, owned = await world.ledger("n1"), await world.cpus("owner")
        resize(world, "owner", cpu)

        def seen() -> bool:
            pod = scheduler.state.pods.get("owner", PODS_NAMESPACE)
            return pod is not None and pod.spec.containers[0].resources.requests["cpu"] == cpu

        await until(seen)
        await world.bind("other", "n1")
        after = await world.ledger("n1")
        assert after["owner"] == before["owner"] == owned == await world.cpus("owner")
        assert CPUSet.parse(after["other"]).isdisjoint(CPUSet.parse(after["owner"]))
        assert len(CPUSet.parse(after["other"])) == 4


def resize(world: SchedulerWorld, name: str, cpu: str, *, waits: bool = False) -> None:
    """Change a pod's request and limit, as the resize subresource does.

    ``waits``: kubelet has deferred it; else it has allocated what is requested.
    """
    stored = world.server.store.get("pods", PODS_NAMESPACE, name)
    assert stored
    changed: dict[str, Any] = copy.deepcopy(stored.object)
    amounts = {"cpu": cpu}
    before = changed["spec"]["containers"][0]["resources"]["requests"]
    changed["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    allocated = {"name": "c", "allocatedResources": before if waits else amounts}
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    changed["status"] |= {"containerStatuses": [allocated], "conditions": [pending] if waits else []}
    world.server.store.put("pods", stored.key, changed)
