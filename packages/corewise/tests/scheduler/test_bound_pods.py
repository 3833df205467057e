"""The scheduler watches bound pods alone; one that is being bound counts from the decision on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from corewise.engine import Placement, PodFacts
from corewise.kube.cache import STALE_AFTER
from corewise.kube.resources import PODS
from corewise.scheduler.program import Scheduler
from corewise.workload.pods import Pod
from manager.world import PODS_NAMESPACE, until
from scheduler.program_world import PLAIN_PODS, Interrupted, SchedulerWorld, caller


def watched(scheduler: Scheduler) -> Iterable[Pod]:
    """The pods that the watch has shown."""
    return scheduler.state.pods.items.values()


def shown(scheduler: Scheduler) -> Iterator[str]:
    """Their names."""
    return (pod.metadata.name for pod in watched(scheduler))


def requested(scheduler: Scheduler) -> int:
    """The milli-CPU that n1's pods request."""
    snapshot = scheduler.state.counted.cluster.snapshot()
    return int(snapshot.requested_cpu[snapshot.index["n1"]])


async def test_pod_is_watched_from_binding_until_it_finishes(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("unbound", cpu="1")
    async with world.scheduler() as scheduler:
        for name in ("finishes", "goes", "stays"):
            await world.add_pod(name, cpu="1")
            await world.bind_past(name, "n1")
        await until(lambda: set(shown(scheduler)) == {"finishes", "goes", "stays"})
        assert requested(scheduler) == 3000
        status = {"status": {"phase": "Succeeded"}}
        await world.client.patch(
            PLAIN_PODS, "finishes", status, namespace=PODS_NAMESPACE, subresource="status"
        )
        await world.client.delete(PODS, "goes", PODS_NAMESPACE, grace_period=0)
        await world.client.delete(PODS, "unbound", PODS_NAMESPACE, grace_period=0)
        await until(lambda: set(shown(scheduler)) == {"stays"})
        assert requested(scheduler) == 1000


async def test_granted_amount_of_running_pod_counts(world: SchedulerWorld) -> None:
    """Its kubelet first states that it runs, which counts nothing, and then what it has been granted."""
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="1")
    async with world.scheduler() as scheduler:
        await world.bind_past("p", "n1")
        await until(lambda: requested(scheduler) == 1000)

        async def state(**status: object) -> None:
            body = {"status": {"phase": "Running", **status}}
            await world.client.patch(PLAIN_PODS, "p", body, namespace=PODS_NAMESPACE, subresource="status")

        await state()
        await until(lambda: [pod.status.phase for pod in watched(scheduler)] == ["Running"])
        assert requested(scheduler) == 1000
        granted = {"name": "c", "resources": {"requests": {"cpu": "500m"}}}
        await state(containerStatuses=[{**granted, "allocatedResources": {"cpu": "3"}}])
        await until(lambda: requested(scheduler) == 3000)
        await state(containerStatuses=[granted])
        await until(lambda: requested(scheduler) == 1000)
        infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
        conditions = (await world.pod("p"))["status"]["conditions"]
        await state(conditions=[*conditions, infeasible])
        await until(lambda: requested(scheduler) == 500)


async def test_pod_owning_nothing_is_bound_without_another_read(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a request of its own for it: with --pods all every pod is bound here."""
    await world.add_node("n1", 8)
    pod = await world.add_pod("p", cpu="1")
    reads: list[str] = []

    async def note() -> None:
        reads.append("p")

    interrupted = Interrupted(monkeypatch)
    interrupted.before["GET /api/v1/namespaces/apps/pods/p"] = note
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        await call("filter", {"Pod": pod, "Nodes": None, "NodeNames": ["n1"]})
        names = {"PodName": "p", "PodNamespace": PODS_NAMESPACE, "PodUID": pod["metadata"]["uid"]}
        assert await call("bind", {**names, "Node": "n1"}) == (200, {"Error": ""})
        assert (reads, scheduler.state.assumed.asked) == ([], {})
        assert requested(scheduler) == 1000
    assert (await world.pod("p"))["spec"]["nodeName"] == "n1"


async def test_pod_never_shown_bound_is_forgotten_in_time(world: SchedulerWorld) -> None:
    """It was deleted before a watch that had to restart."""
    await world.add_node("n1", 8)
    async with world.scheduler() as scheduler:
        for uid in ("refused", "answered"):
            facts = PodFacts(f"apps/{uid}", {"cpu": 1000}, uid=uid)
            scheduler.state.assumed.put(facts, Placement("n1"))
        scheduler.state.assumed.keep("answered")
        for uid in ("refused", "answered"):
            scheduler.state.assumed.forget(uid)
        assert requested(scheduler) == 1000
        world.clock.skip(STALE_AFTER)
        await until(lambda: requested(scheduler) == 0)
