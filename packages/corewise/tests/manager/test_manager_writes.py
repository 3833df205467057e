"""One write a node: ratios and the amounts they make are stored together, and only when that is right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from corewise.actions import NodeAction, PatchNode, TouchNodeStatus
from corewise.kube.cache import Cache
from corewise.kube.resources import CONFIG_MAPS, PODS
from corewise.manager.executor import body_of
from corewise.manager.queue import WorkQueue
from corewise.manager.reconciler import Reconciler
from corewise.manager.snapshot import Listeners, Snapshot
from corewise.service.program import Heartbeats
from corewise.vocabulary import metrics
from corewise.vocabulary.names import (
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    NORMALIZATION_RATIO,
)
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import WORKLOAD_NODES, Node
from manager.world import PODS_NAMESPACE, World, amplification, eventually, normalization, until


@asynccontextmanager
async def versions_of(world: World, name: str) -> AsyncIterator[list[Node]]:
    """Every stored version of a node, as a watcher sees them."""
    seen: list[Node] = []

    def changed(old: Node | None, new: Node | None) -> None:
        if old and new:
            seen.append(new)

    cache = Cache(world.client, WORKLOAD_NODES, field_selector=f"metadata.name={name}", on_change=changed)
    task = asyncio.create_task(cache.run())
    await cache.synced.wait()
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def stored(node: Node) -> tuple[str | None, str]:
    return node.metadata.annotations.get(NORMALIZATION_RATIO), node.status.allocatable["cpu"]


async def test_no_node_version_is_divided_without_being_amplified(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    async with versions_of(world, "fast") as seen, world.manager() as manager:
        await until(lambda: len(seen) == 1)
        await world.configure(normalization=normalization(), amplification=amplification(cpu=1.5))
        await until(lambda: len(seen) == 2)
        await world.client.delete(CONFIG_MAPS, CONFIG_NAME, CONFIG_NAMESPACE)
        await until(lambda: len(seen) == 3)
        assert [stored(version) for version in seen] == [("2.00", "16"), ("2.00", "24"), ("1.00", "8")]
        assert manager.metrics.value(metrics.WRITES, "PatchNode", "ok") == 3
        assert manager.metrics.value(metrics.WRITES, "TouchNodeStatus", "ok") == 0

        def pending() -> float:
            manager.program.metrics_text()
            return manager.metrics.value(metrics.NODES_PENDING)

        await until(lambda: pending() == 0)


async def test_node_without_webhook_is_pending_until_one_exists(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    async with world.manager(webhook_listen=None, manage_webhooks=False) as manager:
        await until(lambda: manager.metrics.value(metrics.WRITES, "PatchNode", "ok") == 1)

        def is_pending() -> bool:
            manager.program.metrics_text()
            return manager.metrics.value(metrics.NODES_PENDING) == 1

        await until(is_pending)
        assert await world.cpu("fast") == ("8", "8")
    async with world.manager() as manager:
        await until(lambda: "fast" in manager.reconciler.reports)
        world.clock.skip(31)
        manager.queue.add("fast")
        await world.shows_cpu("fast", "16")
        assert manager.metrics.value(metrics.WRITES, "TouchNodeStatus", "ok") == 1


async def test_user_annotated_ratio_applies_to_raw_node_immediately(world: World) -> None:
    await world.add_node("fast")
    async with world.manager() as manager:
        await until(lambda: "fast" in manager.reconciler.reports)
        world.clock.skip(31)
        await world.annotate("fast", {AMPLIFICATION_RATIO: '{"cpu":1.50}'})
        await world.shows_cpu("fast", "12")
        await world.configure(normalization=normalization())
        await world.shows_cpu("fast", "24")
    annotations = (await world.node("fast"))["metadata"]["annotations"]
    assert annotations[AMPLIFICATION_ORIGINAL] == '{"cpu":1.50}'


def test_every_write_names_the_version_it_relied_on() -> None:
    touch = TouchNodeStatus("n1", "7", Reason.STATUS_TOUCHED, "")
    assert body_of(touch) == {"metadata": {"resourceVersion": "7"}}
    patch = PatchNode("n1", "7", {"a": None}, Reason.RATIOS_WRITTEN, "")
    assert body_of(patch) == {"metadata": {"resourceVersion": "7", "annotations": {"a": None}}}


class Keeper:
    """Keeps what it is told to do."""

    def __init__(self) -> None:
        self.actions: list[NodeAction] = []

    async def carry_out(self, action: NodeAction) -> str | None:
        self.actions.append(action)
        return None


async def test_ratio_decreases_use_api_server_pods_not_cache(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())
    async with world.manager():
        await world.shows_cpu("fast", "16")
    await world.add_pod("big", "fast", cpu="9")
    await world.configure(normalization=normalization(enable=False))

    def ignore(_name: str = "") -> None: ...

    snapshot = Snapshot(world.client, world.options(), Listeners(ignore, ignore, ignore), world.clock)
    keeper, queue = Keeper(), WorkQueue()
    reconciler = Reconciler(snapshot, keeper, queue, heartbeats=Heartbeats(world.clock), clock=world.clock)
    caches = (snapshot.nodes, snapshot.topologies, snapshot.config_maps)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(cache.run()) for cache in caches]
        await until(lambda: all(cache.synced.is_set() for cache in caches))
        tasks.append(group.create_task(reconciler.run(workers=1)))
        await until(lambda: "fast" in reconciler.reports)
        assert not snapshot.pods.items
        assert reconciler.reports["fast"].held_back
        assert not [action for action in keeper.actions if isinstance(action, PatchNode)]

        async def lowered() -> bool:
            queue.add("fast")
            return any(isinstance(action, PatchNode) for action in keeper.actions)

        await world.client.delete(PODS, "big", PODS_NAMESPACE, grace_period=0)
        await eventually(lowered)
        for each in tasks:
            each.cancel()
