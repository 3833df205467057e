"""An amplified cluster at rest is as quiet as any: what its kubelets send every period is not stored.

The real manager, API server and kubelet stand-ins, with kubelet periods shortened: what takes an hour at ten
seconds a patch takes seconds here. The limits on the age of heartbeats are the real ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from corewise.kube.clock import rfc3339
from corewise.vocabulary.names import NORMALIZATION_RATIO
from corewise_lab import control_plane
from corewise_lab import control_plane as bootstrap
from corewise_lab.cluster import LocalCluster, local_cluster
from corewise_lab.kubelets import SIMULATED_NODES, Periods
from corewise_lab.scenario import load_scenario

NODES = 3
PERIODS = Periods(status=0.1, report=300.0, lease=0.5)
SETTLING_ROUNDS = 8
ROUNDS = 10


@asynccontextmanager
async def amplified(folder: Path) -> AsyncIterator[LocalCluster]:
    """A cluster whose nodes have their ratios, and whose kubelets have reported since then.

    A first report is stored even if it changes nothing: managedFields are kept in the order of their times,
    in whole seconds. So the rounds waited for take longer than one.
    """
    plan, place = load_scenario("builtin").plan(NODES), control_plane.Folder(folder)
    async with local_cluster(plan, place, periods=PERIODS) as cluster:
        await cluster.load()
        await cluster.turn_on()
        manager = control_plane.program(place, bootstrap.shipped_manifests(), control_plane.MANAGER)
        async with control_plane.running_program(manager):
            assert await cluster.settle(timeout=240) == []
            await patches(cluster, SETTLING_ROUNDS * NODES)
            yield cluster


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - the caches tell no one
            await asyncio.sleep(0.02)


async def patches(cluster: LocalCluster, count: int) -> None:
    """Wait for so many more status patches."""
    target = cluster.kubelets.counters.status_patches + count
    await until(lambda: cluster.kubelets.counters.status_patches >= target)


def ratio_above_one(cluster: LocalCluster) -> str:
    """The name of a node whose CPU is amplified."""
    return next(
        node.metadata.name
        for node in cluster.nodes
        if node.metadata.annotations[NORMALIZATION_RATIO] > "1.00"
    )


def heartbeats(cluster: LocalCluster, name: str) -> set[str]:
    (node,) = (node for node in cluster.nodes if node.metadata.name == name)
    return {condition["lastHeartbeatTime"] for condition in node.status["conditions"]}


async def test_round_after_round_of_kubelet_patches_stores_nothing(tmp_path: Path) -> None:
    async with amplified(tmp_path) as cluster:
        before = cluster.node_writes
        await patches(cluster, ROUNDS * NODES)
        assert cluster.node_writes == before, "an unamplified cluster stores none either in that time"


async def test_real_condition_change_is_stored_immediately(tmp_path: Path) -> None:
    async with amplified(tmp_path) as cluster:
        name = ratio_above_one(cluster)
        cluster.kubelets.kubelets[name].pressure = ("MemoryPressure",)
        (node,) = (node for node in cluster.nodes if node.metadata.name == name)
        allocatable = node.status["allocatable"]
        await until(
            lambda: any(
                condition["type"] == "MemoryPressure" and condition["status"] == "True"
                for each in cluster.nodes
                if each.metadata.name == name
                for condition in each.status["conditions"]
            )
        )
        (node,) = (node for node in cluster.nodes if node.metadata.name == name)
        assert node.status["allocatable"] == allocatable, "and the amounts stay amplified"


async def test_a_heartbeat_older_than_the_limit_is_stored(tmp_path: Path) -> None:
    async with amplified(tmp_path) as cluster:
        name = ratio_above_one(cluster)
        old = rfc3339(datetime.now(UTC) - timedelta(minutes=4, seconds=40))
        (node,) = (node for node in cluster.nodes if node.metadata.name == name)
        aged = [condition | {"lastHeartbeatTime": old} for condition in node.status["conditions"]]
        before = cluster.node_writes
        await cluster.client.patch(
            SIMULATED_NODES, name, {"status": {"conditions": aged}}, subresource="status"
        )
        await until(lambda: cluster.node_writes >= before + 2)
        assert old not in heartbeats(cluster, name)
        await patches(cluster, SETTLING_ROUNDS * NODES)
        before = cluster.node_writes
        await patches(cluster, ROUNDS * NODES)
        assert cluster.node_writes == before, "and then it is quiet again"
