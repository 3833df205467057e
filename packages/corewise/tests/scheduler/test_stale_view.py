"""A scheduler that could not take in a change says so and decides nothing, until it has taken it in.

Until then it binds nothing: kube-scheduler tries the pods again.
"""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from corewise.engine import Cluster, Placement, PodFacts
from corewise.vocabulary.metrics import LOOP_RESTARTS
from manager.world import PODS_NAMESPACE, eventually
from scheduler.program_world import PLAIN_PODS, NotBoundError, SchedulerWorld, caller, pod_document

STALE = "the view of pods is stale: a change of apps/poison could not be taken in (see the log)"


async def test_pod_crashing_view_makes_scheduler_unready_until_counted(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison = True
    put_pod = Cluster.put_pod

    def counted(cluster: Cluster, pod: PodFacts, placement: Placement) -> None:
        if poison and pod.key == "apps/poison":
            raise ZeroDivisionError
        put_pod(cluster, pod, placement)

    monkeypatch.setattr(Cluster, "put_pod", counted)
    await world.add_node("n1", 8)
    async with world.scheduler() as scheduler, aiohttp.ClientSession() as session:
        assert scheduler.program.health
        address = scheduler.program.health.address

        async def ready() -> tuple[int, str]:
            async with session.get(f"http://{address}/readyz") as response:
                return response.status, await response.text()

        async def stale() -> bool:
            return await ready() == (503, f"{STALE}\n")

        async def current() -> bool:
            return await ready() == (200, "ok\n")

        assert await current()
        bound: dict[str, Any] = pod_document("poison", cpu="6", qos="LSR")
        bound["spec"]["nodeName"] = "n1"
        await world.client.create(PLAIN_PODS, bound, PODS_NAMESPACE)
        await eventually(stale)
        pod = await world.add_pod("next", cpu="3", qos="LSR")
        names = {"PodName": "next", "PodNamespace": PODS_NAMESPACE, "PodUID": pod["metadata"]["uid"]}
        async with caller(scheduler) as call:
            status, answer = await call("bind", {**names, "Node": "n1"})
            assert (status, STALE in answer["Error"]) == (200, True)
        poison = False
        await eventually(current)
        assert scheduler.metrics.value(LOOP_RESTARTS, "caches") >= 1
        with pytest.raises(NotBoundError, match="does not suit the pod"):
            await world.bind("next", "n1")
