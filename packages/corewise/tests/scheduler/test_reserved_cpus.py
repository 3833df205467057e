"""CPUs that a Node's annotation reserves, in a cluster of the local API server: no one is bound with them."""

from __future__ import annotations

import pytest

from corewise.kube.errors import api_error
from corewise.scheduler.program import Scheduler
from corewise.vocabulary.metrics import BIND_REFUSALS
from corewise.vocabulary.names import RESERVATION, RESOURCE_SPEC
from corewise.vocabulary.reasons import Reason
from manager.world import until
from scheduler.program_world import PLAIN_NODES, Interrupted, NotBoundError, SchedulerWorld, caller


async def reserve(world: SchedulerWorld, text: str | None) -> None:
    body = {"metadata": {"annotations": {RESERVATION: text}}}
    await world.client.patch(PLAIN_NODES, "n1", body)


def reserved(scheduler: Scheduler) -> str:
    return str(scheduler.state.counted.cluster.nodes["n1"].reserved)


@pytest.mark.parametrize("text", ['{"reservedCPUs":"0,4"}', '{"resources":{"cpu":"2"}}'])
async def test_reserved_cpus_are_given_to_nobody(world: SchedulerWorld, text: str) -> None:
    await world.add_node("n1", 8)
    await reserve(world, text)
    for name, cpus in (("most", "6"), ("late", "1")):
        await world.add_pod(name, cpu=cpus, qos="LSR")
    async with world.scheduler():
        await world.bind("most", "n1")
        assert await world.cpus("most") == "1-3,5-7"
        with pytest.raises(NotBoundError, match="needs 1 CPUs of its own, 0 are free"):
            await world.bind("late", "n1")


async def test_a_reservation_beyond_owners_warns_once(
    world: SchedulerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await world.add_node("n1", 8)
    await reserve(world, '{"resources":{"cpu":"2"}}')
    async with world.scheduler() as scheduler:
        await until(lambda: reserved(scheduler) == "0,4")
        await world.client.patch(PLAIN_NODES, "n1", {"metadata": {"labels": {"seen": "yes"}}})
        await until(lambda: "seen" in scheduler.state.counted.cluster.nodes["n1"].labels)
    [warning] = [each for each in caplog.messages if RESERVATION in each]
    assert "n1: " in warning
    assert "Allocatable stays as it is" in warning


async def test_unreadable_reservation_binds_no_owner(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("before", cpu="2", qos="LSR")
    await world.add_pod("owner", cpu="2", qos="LSR")
    await world.add_pod("share", cpu="2")
    async with world.scheduler() as scheduler:
        await world.bind("before", "n1")
        await reserve(world, '{"reservedCPUs":"0-"}')
        await until(lambda: not scheduler.state.counted.cluster.nodes["n1"].reservation_known)
        with pytest.raises(NotBoundError, match="which CPUs of the node are reserved cannot be read"):
            await world.bind("owner", "n1")
        assert scheduler.metrics.value(BIND_REFUSALS, Reason.NODE_RESERVATION_INVALID) == 1
        await world.bind("share", "n1")
        assert await world.cpus("before") == "0,4", "who owns CPUs keeps them"
        await reserve(world, None)
        await until(lambda: scheduler.state.counted.cluster.nodes["n1"].reservation_known)
        await world.bind("owner", "n1")


async def test_an_entry_with_cpus_reserved_since(world: SchedulerWorld, interrupted: Interrupted) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="2", qos="LSR")
    async with world.scheduler() as scheduler:

        async def lose() -> None:
            raise api_error(500, b"")

        interrupted.before["/pods/p/binding"] = lose
        with pytest.raises(NotBoundError, match="HTTP 500"):
            await world.bind("p", "n1")
        assert await world.ledger("n1") == {"p": "0,4"}
        await reserve(world, '{"reservedCPUs":"0"}')
        await until(lambda: reserved(scheduler) == "0")
        await world.bind("p", "n1")
        assert await world.cpus("p") == "1,5"


async def test_constrained_burst_is_refused_by_name(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    wish = {RESOURCE_SPEC: '{"preferredCPUBindPolicy":"ConstrainedBurst"}'}
    pod = await world.add_pod("p", cpu="2", qos="LSR", annotations=wish)
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        _, answer = await call("filter", {"Pod": pod, "NodeNames": ["n1"]})
        assert answer["NodeNames"] == []
        text = "CPU bind policy ConstrainedBurst is not served"
        assert text in answer["FailedAndUnresolvableNodes"]["n1"]
        with pytest.raises(NotBoundError, match=text) as refused:
            await world.bind("p", "n1")
        assert refused.value.reason is Reason.CONSTRAINED_BURST_NOT_SERVED
