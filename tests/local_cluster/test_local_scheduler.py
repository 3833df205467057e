"""The local scheduler at the real API server: pods without a node find one, or learn why there is none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.errors import api_error
from corewise.kube.resources import EVENTS, MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS
from corewise.kube.transport import HTTPTransport, Request
from corewise.scheduler.installation import Pods
from corewise.scheduler.marking import NAME as INTERFERENCE
from corewise.scheduler.policy import NAME as OWNED_CPUS
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY
from corewise.workload.pods import WORKLOAD_PODS
from corewise_lab.control_plane import running
from corewise_lab.extender_calls import ExtenderCalls
from corewise_lab.local_scheduler import LocalScheduler
from manager.world import PODS_NAMESPACE, eventually
from scheduler.program_world import PLAIN_NODES, PLAIN_PODS, SchedulerWorld, pod_document, scheduler_world

WITHIN = 60.0


world = pytest.fixture(scheduler_world, name="world")


@asynccontextmanager
async def scheduling(world: SchedulerWorld) -> AsyncIterator[LocalScheduler]:
    scheduler = LocalScheduler(world.client, clock=SYSTEM_CLOCK)
    async with running(scheduler.run):
        yield scheduler


@asynccontextmanager
async def extended(
    world: SchedulerWorld, pods: Pods = Pods.OWNED, *, away: bool = False, **options: Any
) -> AsyncIterator[LocalScheduler]:
    """The local scheduler with the real one as its extender, once new pods are marked for it.

    ``away``: the real one cannot be reached; ``options`` are its options.
    """
    async with world.scheduler(**options) as real, scheduling(world) as scheduler:
        url = "https://127.0.0.1:1" if away else f"https://{real.service.address}"
        scheduler.extender = await ExtenderCalls.connect(world.client, [url], pods)

        marks = {OWNED_CPUS, *([INTERFERENCE] if pods is Pods.PROFILED else [])}

        async def installed() -> bool:
            webhooks = await world.client.list(MUTATING_WEBHOOKS)
            bindings = await world.client.list(MUTATING_POLICY_BINDINGS)
            return marks <= {each.metadata.name for each in (*webhooks, *bindings)}

        await eventually(installed, WITHIN)
        yield scheduler


async def node_of(world: SchedulerWorld, name: str) -> str:
    """The node of a pod, once it has one."""
    found: list[str] = []

    async def bound() -> bool:
        found[:] = [(await world.pod(name))["spec"].get("nodeName", "")]
        return bool(found[0])

    await eventually(bound, WITHIN)
    return found[0]


async def condition_of(world: SchedulerWorld, name: str, has: Callable[[str], bool] = bool) -> dict[str, Any]:
    """The condition PodScheduled of a pod, once its message is as wanted."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        conditions = (await world.pod(name))["status"].get("conditions") or []
        found[:] = [each for each in conditions if each["type"] == "PodScheduled"]
        return bool(found) and has(found[0].get("message", ""))

    await eventually(there, WITHIN)
    return found[0]


async def offer(world: SchedulerWorld, node: str, amounts: dict[str, str]) -> None:
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    await world.client.patch(PLAIN_NODES, node, status, subresource="status")


def offline(name: str, batch_cpu: str) -> dict[str, Any]:
    amounts = {BATCH_CPU: batch_cpu, BATCH_MEMORY: "1Gi"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


async def test_pod_goes_to_node_with_largest_share_left(world: SchedulerWorld) -> None:
    await world.add_node("half-full", 8)
    await world.add_node("empty", 8)
    async with scheduling(world):
        taken = pod_document("taken", cpu="4")
        taken["spec"]["nodeName"] = "half-full"
        await world.client.create(PLAIN_PODS, taken, PODS_NAMESPACE)
        await world.add_pod("first", cpu="1")
        assert await node_of(world, "first") == "empty"
        condition = await condition_of(world, "first", lambda _: True)
        assert condition["status"] == "True"


async def test_unschedulable_pod_on_full_nodes_gets_counted_reasons(world: SchedulerWorld) -> None:
    await world.add_node("small", 2)
    await world.add_node("smaller", 1)
    await world.client.patch(PLAIN_NODES, "smaller", {"spec": {"unschedulable": True}})
    async with scheduling(world) as scheduler:
        await world.add_pod("fits", cpu="2")
        await node_of(world, "fits")
        await world.add_pod("too-many", cpu="1")
        condition = await condition_of(world, "too-many")
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"].startswith("0/2 nodes are available: ")
        assert "1 Insufficient cpu" in condition["message"]
        assert "1 node is unschedulable" in condition["message"]
        assert await world.told("FailedScheduling") == condition["message"]
        assert scheduler.has_refused((PODS_NAMESPACE, "too-many"))
        assert (scheduler.pending, scheduler.is_idle) == (1, True)


async def test_a_refused_pod_is_scheduled_when_another_goes(world: SchedulerWorld) -> None:
    await world.add_node("only", 2)
    async with scheduling(world):
        await world.add_pod("first", cpu="2")
        await node_of(world, "first")
        await world.add_pod("second", cpu="2")
        await condition_of(world, "second")
        await world.client.delete(PLAIN_PODS, "first", PODS_NAMESPACE, grace_period=0)
        assert await node_of(world, "second") == "only"


async def test_refused_pod_schedules_when_node_joins_or_grows(world: SchedulerWorld) -> None:
    async with scheduling(world):
        await world.add_pod("early", cpu="2")
        condition = await condition_of(world, "early")
        assert condition["message"] == "0/0 nodes are available: there are no nodes"
        await world.add_node("late", 1)
        await condition_of(world, "early", lambda message: "1 Insufficient cpu" in message)
        await offer(world, "late", {"cpu": "2", "memory": "64Gi", "pods": "10"})
        assert await node_of(world, "early") == "late"


async def test_offline_pods_schedule_and_spread_by_their_offer(world: SchedulerWorld) -> None:
    for name, batch in (("offers-8", "8000"), ("offers-4", "4000")):
        await world.add_node(name, 4)
        amounts = {"cpu": "4", "memory": "64Gi", "pods": "9", BATCH_CPU: batch, BATCH_MEMORY: "64Gi"}
        await offer(world, name, amounts)
    await world.add_node("offers-nothing", 64)
    async with scheduling(world):
        nodes = []
        for number in range(3):
            await world.client.create(PLAIN_PODS, offline(f"batch-{number}", "4000"), PODS_NAMESPACE)
            nodes.append(await node_of(world, f"batch-{number}"))
        assert sorted(nodes) == ["offers-4", "offers-8", "offers-8"]
        assert nodes[0] != nodes[1], "an empty offer is a larger share than one that is used in part"
        await world.client.create(PLAIN_PODS, offline("batch-3", "4000"), PODS_NAMESPACE)
        condition = await condition_of(world, "batch-3")
        assert condition["message"] == f"0/3 nodes are available: 3 Insufficient {BATCH_CPU}"


async def test_real_scheduler_never_gives_owned_cpus_twice(
    world: SchedulerWorld,
) -> None:
    await world.add_node("only", 8)
    async with extended(world):
        for name in ("first", "second"):
            await world.add_pod(name, cpu="4", qos="LSR", memory="1Gi")
        for name in ("first", "second"):
            await node_of(world, name)
        owned = [await world.cpus(name) for name in ("first", "second")]
        assert sorted(filter(None, owned)) == ["0-1,4-5", "2-3,6-7"]
        assert sorted((await world.ledger("only")).values()) == ["0-1,4-5", "2-3,6-7"]
        await world.add_pod("share", cpu="1")
        await condition_of(world, "share", lambda message: "Insufficient" in message)


async def test_pod_requesting_half_an_owned_cpu_is_told(world: SchedulerWorld) -> None:
    await world.add_node("only", 8)
    async with extended(world) as scheduler:
        await world.add_pod("half", cpu="2500m", qos="LSR", memory="1Gi")
        condition = await condition_of(world, "half")
        assert condition["message"].startswith("0/1 nodes are available: 1 ")
        assert "the requested CPUs must be integer" in condition["message"]
        assert scheduler.has_refused((PODS_NAMESPACE, "half"))


async def test_refusals_before_and_in_the_extender_count_together(
    world: SchedulerWorld,
) -> None:
    for name in ("small", "fast"):
        await world.add_node(name, {"small": 2, "fast": 8}[name], {"small": "1.00", "fast": "2.00"}[name])
    async with extended(world):
        await world.add_pod("owner", cpu="10", qos="LSR", memory="1Gi")
        condition = await condition_of(world, "owner")
        assert condition["message"].startswith("0/2 nodes are available: ")
        assert "1 Insufficient cpu" in condition["message"], "kube-scheduler's own check"
        assert "1 not enough free CPUs" in condition["message"], "that of corewise"


async def test_silent_extender_delays_only_pods_that_own_cpus(world: SchedulerWorld) -> None:
    await world.add_node("only", 8)
    async with extended(world, away=True):
        await world.add_pod("plain")
        assert await node_of(world, "plain") == "only"
        await world.add_pod("owner", qos="LSR", memory="1Gi")
        condition = await condition_of(world, "owner")
        assert "no replica answers" in condition["message"]


async def test_silent_extender_of_all_pods_delays_every_pod(
    world: SchedulerWorld,
) -> None:
    await world.add_node("only", 8)
    async with extended(world, Pods.ALL, away=True):
        await world.add_pod("plain")
        condition = await condition_of(world, "plain")
        assert "no replica answers" in condition["message"]


async def test_foreign_gated_and_bound_pods_are_left_alone(
    world: SchedulerWorld,
) -> None:
    await world.add_node("only", 8)
    foreign, gated = pod_document("foreign"), pod_document("gated")
    foreign["spec"]["schedulerName"] = "mine"
    gated["spec"]["schedulingGates"] = [{"name": "not-yet"}]
    async with scheduling(world):
        for document in (foreign, gated):
            await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)
        await world.add_pod("ours")
        await node_of(world, "ours")
        for name in ("foreign", "gated"):
            pod = await world.pod(name)
            assert "nodeName" not in pod["spec"]
            assert not [
                each
                for each in pod["status"].get("conditions") or []
                if each.get("reason") == "Unschedulable"
            ]
        await world.client.patch(
            PLAIN_PODS, "gated", {"spec": {"schedulingGates": None}}, namespace=PODS_NAMESPACE
        )
        assert await node_of(world, "gated") == "only"


async def test_refused_binding_is_reported_and_retried(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add_node("only", 8)
    refusing = True
    send = HTTPTransport.send

    async def sent(transport: HTTPTransport, request: Request) -> bytes:
        if refusing and request.path.endswith("/pods/late/binding"):
            raise api_error(403, b'{"kind":"Status","message":"not today","code":403}')
        return await send(transport, request)

    monkeypatch.setattr(HTTPTransport, "send", sent)
    async with scheduling(world):
        await world.add_pod("late", cpu="1")
        condition = await condition_of(world, "late")
        assert condition["reason"] == "Unschedulable"
        assert "not today" in condition["message"]
        refusing = False
        assert await node_of(world, "late") == "only"


async def test_waiting_pods_schedule_by_priority_when_scheduler_starts(
    world: SchedulerWorld,
) -> None:
    await world.add_node("only", 2)
    urgent = pod_document("urgent", cpu="1")
    urgent["spec"]["priority"] = 10
    for name in ("first", "second"):
        await world.add_pod(name, cpu="1")
    await world.client.create(PLAIN_PODS, urgent, PODS_NAMESPACE)
    async with scheduling(world) as scheduler:
        assert [await node_of(world, name) for name in ("urgent", "first")] == ["only", "only"]
        await condition_of(world, "second")
        assert scheduler.pending == 1


async def test_held_pods_are_scheduled_together_in_given_order(world: SchedulerWorld) -> None:
    await world.add_node("only", 2)
    async with scheduling(world) as scheduler:
        keys = [(PODS_NAMESPACE, f"pod-{number}") for number in (3, 1, 2)]
        scheduler.hold(keys)
        created = [
            await world.client.create(WORKLOAD_PODS, pod_document(f"pod-{number}"), PODS_NAMESPACE)
            for number in (1, 2, 3)
        ]
        await scheduler.release(keys, created)
        assert [await node_of(world, name) for name in ("pod-3", "pod-1")] == ["only", "only"]
        await condition_of(world, "pod-2")


async def test_hundreds_of_pods_bind_without_overfilling_any_node(world: SchedulerWorld) -> None:
    for number in range(4):
        await world.add_node(f"node-{number}", 25)
    async with scheduling(world) as scheduler:
        for number in range(110):
            await world.add_pod(f"pod-{number}", cpu="1")

        async def settled() -> bool:
            return scheduler.is_idle and scheduler.pending == 10

        await eventually(settled, WITHIN)
        pods = await world.client.list(PLAIN_PODS)
        nodes = [pod["spec"].get("nodeName", "") for pod in pods.items]
        assert sorted(nodes.count(name) for name in set(nodes)) == [10, 25, 25, 25, 25]
        events = await world.client.list(EVENTS)
        assert {event.reason for event in events} <= {"FailedScheduling"}
