"""What a scheduler installs so that kube-scheduler asks it about pods that own CPUs.

the API server serves policies    the policy and its binding; a webhook that is there goes after a while
it does not (before 1.36)         the webhook, which fails closed while no replica answers
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path as FilePath
from typing import Any

import pytest

from corewise.kube.errors import KubeError, NotFound
from corewise.kube.resources import MUTATING_POLICIES, MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS, Resource
from corewise.scheduler.listing import read_rules
from corewise.scheduler.policy import NAME, webhook_configuration
from corewise.scheduler.program import Scheduler
from corewise.service.installation import GRACE, client_config
from corewise.vocabulary.metrics import OWNED_CPUS_PATH
from corewise.vocabulary.names import OWNED_CPUS_RESOURCE
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules
from kubedouble.server import NEW_IN_1_36, serve
from manager.world import PODS_NAMESPACE, eventually, small_cluster, until
from scheduler.program_world import PLAIN_PODS, SchedulerWorld, caller, pod_document


async def has(world: SchedulerWorld, resource: Resource[Any]) -> bool:
    try:
        await world.client.get(resource.typed(dict), NAME)
    except NotFound:
        return False
    return True


async def requested(world: SchedulerWorld, name: str, qos: str = "LSR") -> str | None:
    """Create a pod of 2 CPUs; return what it requests of the resource."""
    made = await world.client.create(PLAIN_PODS, pod_document(name, cpu="2", qos=qos), PODS_NAMESPACE)
    text: str | None = made["spec"]["containers"][0]["resources"]["requests"].get(OWNED_CPUS_RESOURCE)
    return text


def paths(scheduler: Scheduler) -> set[str]:
    return {path for path in ("policy", "webhook") if scheduler.metrics.value(OWNED_CPUS_PATH, path) == 1}


async def test_policy_is_installed_and_outlives_the_scheduler(world: SchedulerWorld) -> None:
    async with world.scheduler() as scheduler:
        await until(lambda: paths(scheduler) == {"policy"})
        assert await has(world, MUTATING_POLICIES)
        assert await has(world, MUTATING_POLICY_BINDINGS)
        assert not await has(world, MUTATING_WEBHOOKS)
    assert await requested(world, "owner") == "2"
    assert await requested(world, "share", qos="LS") is None


async def test_the_namespaces_of_the_option_are_published(world: SchedulerWorld) -> None:
    for namespaces in (frozenset({"kube-system"}), frozenset({"batch", "kube-system"})):
        async with world.scheduler(rules=QoSRules(namespaces)) as scheduler:
            await until(lambda: paths(scheduler) == {"policy"})
            assert (await read_rules(world.client)).rules == QoSRules(namespaces)


async def test_lse_elsewhere_is_refused_with_an_event(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        await until(lambda: paths(scheduler) == {"policy"})
        assert await requested(world, "exclusive", qos="LSE") == "2"
        question = {"Pod": await world.pod("exclusive"), "NodeNames": ["n1"]}
        _, answer = await call("filter", question)
        refused = answer["FailedAndUnresolvableNodes"]["n1"]
        assert refused.startswith("QoS class LSE is not allowed in namespace apps: use another class")
        assert refused in await world.told("NoNodeSuits")


async def test_older_servers_webhook_goes_once_policy_has_settled(
    world: SchedulerWorld,
) -> None:
    """As after an upgrade of the API server. Meanwhile both are there, and the pod has the resource once."""
    async with world.scheduler() as scheduler:
        config = client_config(f"https://{scheduler.service.address}", scheduler.service.bundle)
        left = webhook_configuration(config, DEFAULT_RULES)
        await world.client.create(MUTATING_WEBHOOKS.typed(dict), left)
        await until(lambda: paths(scheduler) == {"policy", "webhook"})
        assert await requested(world, "meanwhile") == "2"
        world.clock.skip(GRACE + 1)
        await until(lambda: paths(scheduler) == {"policy"})
        assert not await has(world, MUTATING_WEBHOOKS)
    assert await requested(world, "after") == "2"


@pytest.fixture
async def older(tmp_path: FilePath) -> AsyncIterator[SchedulerWorld]:
    """An API server as of Kubernetes 1.35: it serves no mutating admission policies."""
    async with serve(without=NEW_IN_1_36) as server, small_cluster(server, tmp_path) as cluster:
        yield SchedulerWorld(cluster.server, cluster.client, cluster.administrator)


async def test_webhook_replaces_policy_before_1_36_failing_closed(older: SchedulerWorld) -> None:
    async with older.scheduler() as scheduler:
        await until(lambda: paths(scheduler) == {"webhook"})

        tried = count()

        async def is_asked() -> bool:
            return await requested(older, f"owner-{next(tried)}") == "2"

        await eventually(is_asked)
        assert await requested(older, "share", qos="LS") is None
        assert await requested(older, "exclusive", qos="LSE") == "2"
        assert not (await read_rules(older.client)).unknown
    with pytest.raises(KubeError, match="failed calling webhook"):
        await requested(older, "slips-through")
    assert await requested(older, "plain", qos="") is None
