"""A scheduler that could not take in a change says so and decides nothing, until it has taken it in.

What the gate does not decide, the API server lets through: its failure policy is Ignore.
"""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from corewise.engine import Cluster, Placement, PodFacts
from corewise.kube.errors import APIError
from corewise.scheduler.installation import GATE
from corewise.service.webhooks import ReviewOutcome
from corewise.vocabulary.metrics import LOOP_RESTARTS, WEBHOOK_REQUESTS
from manager.world import eventually
from scheduler.program_world import PLAIN_PODS, SchedulerWorld, pod_document

STALE = "the view of pods is stale: a change of default/poison could not be taken in (see the log)"


async def test_a_pod_that_crashes_the_view_makes_the_scheduler_unready_until_it_is_counted(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison = True
    put_pod = Cluster.put_pod

    def counted(cluster: Cluster, pod: PodFacts, placement: Placement) -> None:
        if poison and pod.key == "default/poison":
            raise ZeroDivisionError
        put_pod(cluster, pod, placement)

    monkeypatch.setattr(Cluster, "put_pod", counted)
    await world.add_node("n1", 8)
    async with world.scheduler() as scheduler, aiohttp.ClientSession() as session:
        await world.installed(scheduler)
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
        await world.client.create(PLAIN_PODS, bound, "default")
        await eventually(stale)
        await world.add_pod("unchecked", cpu="1", qos="LSR")
        await world.bind("unchecked", "n1")
        assert scheduler.metrics.value(WEBHOOK_REQUESTS, GATE, ReviewOutcome.UNAVAILABLE) == 1
        assert await world.cpus("unchecked") is None
        await world.add_pod("next", cpu="2", qos="LSR")
        poison = False
        await eventually(current)
        assert scheduler.metrics.value(LOOP_RESTARTS, "caches") >= 1
        with pytest.raises(APIError, match="does not suit the pod"):
            await world.bind("next", "n1")
