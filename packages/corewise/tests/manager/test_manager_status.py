"""Node status through the webhook: outages, repair, quiet heartbeats, other writers."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from corewise.kube.client import PatchType
from corewise.kube.errors import KubeError
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES
from corewise.manager.options import FailurePolicy
from corewise.manager.program import Manager
from corewise.vocabulary import metrics
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    MACHINE_RAW_ALLOCATABLE,
    MACHINE_RAW_CAPACITY,
    RECORD_GENERATION,
    recorded_raw,
)
from corewise.vocabulary.reasons import Reason
from manager.world import PLAIN_NODES, SLOW, World, normalization, until


async def version(world: World, name: str = "fast") -> str:
    text: str = (await world.node(name))["metadata"]["resourceVersion"]
    return text


async def amplified(world: World) -> None:
    await world.add_node("fast")
    await world.configure(normalization=normalization())


def quieted(manager: Manager) -> float:
    return manager.metrics.value(metrics.HEARTBEATS_QUIETED)


async def test_kubelets_raw_status_is_amplified_every_time(world: World) -> None:
    await amplified(world)
    async with world.manager():
        await world.shows_cpu("fast", "16")
        for _ in range(3):
            answer = await world.kubelet_writes("fast")
            assert answer["status"]["allocatable"]["cpu"] == "16"
        answer = await world.kubelet_writes("fast", cpu="7")
        assert answer["status"]["capacity"]["cpu"] == "14"


async def test_mere_heartbeat_is_not_stored_until_old(world: World) -> None:
    await amplified(world)
    async with world.manager() as manager:
        await world.shows_cpu("fast", "16")
        await world.kubelet_writes("fast", beat=world.clock.now())
        before, count = await version(world), quieted(manager)
        for seconds in (10, 20, 200):
            await world.kubelet_writes("fast", beat=world.clock.now() + timedelta(seconds=seconds))
        assert await version(world) == before
        assert quieted(manager) == count + 3
        await world.kubelet_writes("fast", beat=world.clock.now() + timedelta(seconds=300))
        assert await version(world) != before
        assert quieted(manager) == count + 3


async def test_a_condition_that_changes_is_stored_at_once(world: World) -> None:
    await amplified(world)
    async with world.manager() as manager:
        await world.shows_cpu("fast", "16")
        await world.kubelet_writes("fast", beat=world.clock.now())
        before, count = await version(world), quieted(manager)
        later = world.clock.now() + timedelta(seconds=10)
        answer = await world.kubelet_writes("fast", beat=later, ready="False")
        assert await version(world) != before
        assert quieted(manager) == count
        assert answer["status"]["conditions"][0]["status"] == "False"
        assert answer["status"]["allocatable"]["cpu"] == "16"


async def test_heartbeats_can_be_left_unquieted(world: World) -> None:
    await amplified(world)
    async with world.manager(quiet_heartbeats=False) as manager:
        await world.shows_cpu("fast", "16")
        await world.kubelet_writes("fast", beat=world.clock.now())
        before = await version(world)
        await world.kubelet_writes("fast", beat=world.clock.now() + timedelta(seconds=10))
        assert await version(world) != before
        assert quieted(manager) == 0


async def test_webhook_outage_stores_no_raw_status(world: World) -> None:
    await amplified(world)
    await world.add_node("plain", model=SLOW)
    async with world.manager():
        await world.shows_cpu("fast", "16")
    with pytest.raises(KubeError, match="failed calling webhook"):
        await world.kubelet_writes("fast")
    assert await world.cpu("fast") == ("16", "16")
    assert (await world.kubelet_writes("plain"))["status"]["allocatable"]["cpu"] == "8"
    status = {"status": {"conditions": [{"type": "KernelDeadlock", "status": "False"}]}}
    await world.client.patch(PLAIN_NODES, "fast", status, type=PatchType.STRATEGIC, subresource="status")
    async with world.manager():
        await world.kubelet_gets("fast", "16")


async def test_webhook_outage_ends_without_double_amplification(world: World) -> None:
    await amplified(world)
    async with world.manager(node_status_failure_policy=FailurePolicy.IGNORE):
        await world.shows_cpu("fast", "16")
    await world.kubelet_writes("fast")
    assert await world.cpu("fast") == ("8", "8")
    async with world.manager():
        await world.kubelet_gets("fast", "16")
        assert await world.cpu("fast") == ("16", "16")


async def test_persistently_wrong_status_is_repaired_by_the_manager(world: World) -> None:
    await amplified(world)
    async with world.manager(node_status_failure_policy=FailurePolicy.IGNORE):
        await world.shows_cpu("fast", "16")
    await world.kubelet_writes("fast")
    async with world.manager() as manager:
        await until(lambda: "fast" in manager.reconciler.reports)
        assert await world.cpu("fast") == ("8", "8")
        world.clock.skip(31)
        manager.queue.add("fast")
        await world.shows_cpu("fast", "16")
        assert manager.metrics.value(metrics.WRITES, "RepairNodeStatus", "ok") == 1
        await world.told("StatusRepaired")


async def test_a_damaged_record_is_repaired(world: World) -> None:
    await amplified(world)
    async with world.manager() as manager:
        await world.shows_cpu("fast", "16")
        await world.annotate("fast", {recorded_raw("capacity", "cpu"): "damaged"})
        await until(lambda: manager.metrics.value(metrics.WRITES, "RepairNodeStatus", "ok") >= 1)
        await world.shows_cpu("fast", "16")
        record = (await world.node("fast"))["metadata"]["annotations"]
        assert record[recorded_raw("capacity", "cpu")] == "8"


async def test_ratio_removed_by_hand_returns_without_doubling(world: World) -> None:
    await amplified(world)
    async with world.manager():
        await world.shows_cpu("fast", "16")
        for _ in range(3):
            await world.annotate("fast", {AMPLIFICATION_RATIO: None})
            await world.kubelet_writes("fast")
        await world.shows_cpu("fast", "16")


async def test_foreign_amplified_amounts_are_undone_with_a_warning(world: World) -> None:
    await amplified(world)
    async with world.manager() as manager:
        await world.shows_cpu("fast", "16")
        status: dict[str, Any] = {"status": {"allocatable": {"cpu": "99"}}}
        somebody = world.client
        answer = await somebody.patch(PLAIN_NODES, "fast", status, type=PatchType.MERGE, subresource="status")
        assert answer["status"]["allocatable"]["cpu"] == "16"
        assert manager.metrics.value(metrics.CHANGES_UNDONE) == 1


async def test_another_nodes_kubelet_is_not_this_ones(world: World) -> None:
    await amplified(world)
    async with world.manager() as manager:
        await world.shows_cpu("fast", "16")
        status = {"status": {"allocatable": {"cpu": "4"}}}
        stranger = world.client.as_user("system:node:slow", ["system:masters"])
        answer = await stranger.patch(PLAIN_NODES, "fast", status, subresource="status")
        assert answer["status"]["allocatable"]["cpu"] == "16"
        assert manager.metrics.value(metrics.CHANGES_UNDONE) == 1


async def test_kubelets_may_go_by_other_names(world: World) -> None:
    await amplified(world)
    async with world.manager(kubelet_users=("edge:",)):
        await world.shows_cpu("fast", "16")
        amounts = {"cpu": "6", "memory": "16Gi"}
        edge = world.client.as_user("edge:fast", ["system:masters"])
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        answer = await edge.patch(PLAIN_NODES, "fast", status, subresource="status")
        assert answer["status"]["capacity"]["cpu"] == "12"


async def test_nodes_that_come_and_go_are_forgotten(world: World) -> None:
    await amplified(world)
    async with world.manager() as manager:
        await world.shows_cpu("fast", "16")
        await world.client.delete(NODES, "fast")
        await until(lambda: not manager.reconciler.reports)
        assert b'node="fast"' not in manager.program.metrics_text()


async def test_later_manager_sees_node_growth_to_amplified_amount(
    world: World,
) -> None:
    """8 CPUs at 2.00 show 16. When the machine has 16, kubelet finds nothing to correct."""
    await amplified(world)
    async with world.manager():
        await world.shows_cpu("fast", "16")
    node = await world.node("fast")
    texts = ("machineID", "systemUUID", "kernelVersion", "osImage", "containerRuntimeVersion")
    versions = ("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture")
    boot = {"status": {"nodeInfo": {**dict.fromkeys((*texts, *versions), "x"), "bootID": "b1"}}}
    await world.client.patch(PLAIN_NODES, "fast", boot, subresource="status")
    generation = node["metadata"]["annotations"][RECORD_GENERATION]
    amounts = {"cpu": "16", "memory": "16Gi"}
    report = {
        MACHINE_RAW_CAPACITY: json.dumps({**amounts, "bootID": "b1", "generation": generation}),
        MACHINE_RAW_ALLOCATABLE: json.dumps(amounts),
    }
    annotations = {"metadata": {"annotations": report}}
    await world.client.patch(NODE_RESOURCE_TOPOLOGIES, "fast", annotations)
    async with world.manager():
        await world.shows_cpu("fast", "32")
        await world.told(Reason.STATUS_REPAIRED)
