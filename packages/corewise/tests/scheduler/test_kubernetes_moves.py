"""What kube-scheduler and kubelet do since 1.33 to 1.37, in a cluster of the local API server.

==========================  =================================================================================
a node hint                 kube-scheduler asks Filter about one node and binds, without Prioritize (KEP-5598)
a PodGroup                  Filter for each member before any is bound, then all binds at once (KEP-4671)
a resize of an owner        its request changes while it runs; its CPUs do not (KEP-1287)
==========================  =================================================================================
"""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

from corewise.topology import CPUSet
from corewise.vocabulary.reasons import Reason
from manager.world import PODS_NAMESPACE, eventually, until
from scheduler.program_world import PLAIN_PODS, NotBoundError, SchedulerWorld, caller, pod_document
from scheduler.test_program_interference import Known, a_stream, add_stream, known, quick, scheduling

__all__ = ["known", "quick"]
"""Fixtures, which pytest finds by name."""


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


def resize(world: SchedulerWorld, name: str, cpu: str) -> None:
    """Change a pod's request and limit, as the resize subresource does."""
    stored = world.server.store.get("pods", PODS_NAMESPACE, name)
    assert stored
    changed: dict[str, Any] = copy.deepcopy(stored.object)
    amounts = {"cpu": cpu}
    changed["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    world.server.store.put("pods", stored.key, changed)
