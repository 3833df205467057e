"""What happens to ledgers while something goes wrong between two steps of those who write them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from corewise.kube.errors import api_error
from corewise.scheduler import counted, late_owners
from corewise.scheduler.collector import _ASKED_AT_ONCE, EXPIRY
from corewise.scheduler.late_owners import LateOwners
from corewise.scheduler.program import Scheduler
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import print_cpu_topology
from corewise.vocabulary.names import (
    CPU_MANAGER_POLICY,
    CPU_TOPOLOGY,
    OWNED_CPUS,
    OWNED_MILLI_CPU,
    RESOURCE_STATUS,
)
from corewise.vocabulary.owned_cpus import CPUOwner, Owners, print_owned_cpus
from corewise.vocabulary.reasons import Reason
from engine import scenes
from engine.scenes import arrangement
from manager.world import PODS_NAMESPACE, MovableClock, until
from scheduler.program_world import PLAIN_NODES, PLAIN_PODS, Interrupted, NotBoundError, SchedulerWorld

READ_N1 = "GET /api/v1/nodes/n1"


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector looks only when the test has it look."""

    async def idle(scheduler: Scheduler) -> None:
        while True:
            await MovableClock().sleep(1.0)

    monkeypatch.setattr(Scheduler, "_keep_ledgers", idle)


def is_bound(scheduler: Scheduler, name: str, node: str) -> bool:
    """Whether the watch has shown a pod on a node."""
    pod = scheduler.state.pods.get(name, PODS_NAMESPACE)
    return pod is not None and pod.spec.node_name == node


async def bound_past(world: SchedulerWorld, scheduler: Scheduler, name: str, node: str) -> None:
    """Bind a pod as another scheduler does, and wait until the watch has shown it."""
    await world.bind_past(name, node)
    await until(lambda: is_bound(scheduler, name, node))


async def write_ledger(world: SchedulerWorld, scheduler: Scheduler, owners: Owners) -> None:
    """Write the ledger of n1 by hand, and wait until the watch has shown it."""
    body = {"metadata": {"annotations": print_owned_cpus(owners)}}
    await world.client.patch(PLAIN_NODES, "n1", body)
    await until(lambda: scheduler.state.counted.owners("n1") == owners)


async def test_pod_deleted_during_late_entry_no_longer_counts(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:
        await bound_past(world, scheduler, "p", "n1")

        async def delete() -> None:
            await world.client.delete(PLAIN_PODS, "p", PODS_NAMESPACE, grace_period=0)
            await until(lambda: scheduler.state.pods.get("p", PODS_NAMESPACE) is None)

        interrupted.before[READ_N1] = delete
        await scheduler.collector.look()
        assert not interrupted.before
        assert await world.ledger("n1") == {}
        assert scheduler.state.counted.cluster.pods_on("n1") == {}


async def test_node_deleted_during_late_entry_stops_nothing(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    for node in ("n1", "n2"):
        await world.add_node(node, 8)
    for name in ("a", "b"):
        await world.add_pod(name, cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:
        await bound_past(world, scheduler, "a", "n1")
        await bound_past(world, scheduler, "b", "n2")

        async def delete() -> None:
            await world.client.delete(PLAIN_NODES, "n1")
            await until(lambda: scheduler.state.nodes.get("n1") is None)

        interrupted.before[READ_N1] = delete
        await scheduler.collector.look()
        assert list(await world.ledger("n2")) == ["b"]


async def test_pod_rebound_elsewhere_gets_late_entry_only_there(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    """The bind verb has read it unbound, and decides after the watch has shown it on another node."""
    for node in ("n1", "n2"):
        await world.add_node(node, 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:

        async def bind_elsewhere() -> None:
            await bound_past(world, scheduler, "p", "n2")

        interrupted.after["GET /api/v1/namespaces/apps/pods/p"] = bind_elsewhere
        interrupted.before["/pods/p/binding"] = scheduler.collector.look
        with pytest.raises(NotBoundError, match="is bound to node n2 already"):
            await world.bind("p", "n1")
        assert scheduler.state.counted.cluster.node_of("apps/p") == "n2"
        await scheduler.collector.look()
        assert list(await world.ledger("n2")) == ["p"]
        assert await world.ledger("n1") == {}


async def test_entry_is_removed_despite_a_lost_write_answer(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    """The write is sent again then, and refused, since the first one has changed the Node."""
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler():

        async def lose() -> None:
            raise api_error(409, b"")

        async def refuse() -> None:
            raise api_error(403, b'{"kind":"Status","message":"not today","code":403}')

        interrupted.after["PATCH /api/v1/nodes/n1/status"] = lose
        interrupted.before["/pods/p/binding"] = refuse
        with pytest.raises(NotBoundError, match="not today"):
            await world.bind("p", "n1")
        assert await world.ledger("n1") == {}


async def test_node_deleted_before_a_write_answer_stays_forgotten(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:

        async def delete() -> None:
            await world.client.delete(PLAIN_NODES, "n1")
            await until(lambda: scheduler.state.nodes.get("n1") is None)

        interrupted.after["PATCH /api/v1/nodes/n1/status"] = delete
        await world.bind("p", "n1")
        assert scheduler.state.node("n1") is None
        assert scheduler.state.counted.cluster.nodes == {}


async def test_answer_about_a_since_reregistered_node_is_ignored(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:
        before = scheduler.state.nodes.items["n1"].metadata.uid

        async def register_anew() -> None:
            await world.client.delete(PLAIN_NODES, "n1")
            await world.add_node("n1", 8)
            await until(lambda: _is_anew(scheduler, before))

        interrupted.after["PATCH /api/v1/nodes/n1/status"] = register_anew
        await world.bind("p", "n1")
        await until(lambda: is_bound(scheduler, "p", "n1"))
        known = scheduler.state.node("n1")
        assert known
        assert known.metadata.uid != before
        await scheduler.collector.look()
        assert list(await world.ledger("n1")) == ["p"], "its entry went with the former node"


def _is_anew(scheduler: Scheduler, before: str) -> bool:
    node = scheduler.state.nodes.get("n1")
    return node is not None and node.metadata.uid != before and "cpu" in node.status.allocatable


async def test_unremovable_entry_delays_no_other(world: SchedulerWorld, interrupted: Interrupted) -> None:
    """A webhook of somebody refuses every change of the pod, so its entry is never fenced off."""
    await world.add_node("n1", 8)
    refused = (await world.add_pod("refused", cpu="2", qos="LSR"))["metadata"]["uid"]
    waiting = (await world.add_pod("waiting", cpu="2", qos="LSR"))["metadata"]["uid"]

    async def refuse() -> None:
        interrupted.before["/pods/refused"] = lookup

    async def lookup() -> None:
        interrupted.before["/pods/refused"] = refuse_patch

    async def refuse_patch() -> None:
        interrupted.before["/pods/refused"] = lookup
        raise api_error(403, b'{"kind":"Status","message":"not in this namespace","code":403}')

    async with world.scheduler() as scheduler:
        owners = {
            refused: CPUOwner("apps/refused", CPUSet.parse("0-1"), "1"),
            waiting: CPUOwner("apps/waiting", CPUSet.parse("2-3"), "2"),
        }
        await write_ledger(world, scheduler, owners)
        await scheduler.collector.look()
        await refuse()
        world.clock.skip(EXPIRY + 1)
        for _ in range(2):
            gone = {"gone": CPUOwner("apps/gone", CPUSet.parse("4-5"), "3")}
            await write_ledger(world, scheduler, {**scheduler.state.counted.owners("n1"), **gone})
            await scheduler.collector.look()
            assert await world.ledger("n1") == {"refused": "0-1"}


async def test_pods_that_cannot_be_entered_block_no_others(world: SchedulerWorld) -> None:
    """16 amplified CPUs, of which 12 are requested: only one of three pods can own its 4 CPUs."""
    await world.add_node("n1", 8, "2.00")
    async with world.scheduler() as scheduler:
        for name in ("a", "b", "c"):
            await world.add_pod(name, cpu="4", qos="LSR")
            await bound_past(world, scheduler, name, "n1")
        await scheduler.collector.look()
        assert list(await world.ledger("n1")) == ["a"]
        message = "its CPUs cost 4 amplified CPUs more than node n1 has left"
        assert message in await world.told(Reason.AMPLIFIED_CPU_INSUFFICIENT)


async def test_late_entry_never_makes_a_ledger_unreadably_long(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corewise.scheduler.binding.LONGEST_LEDGER", 150)
    await world.add_node("n1", 8)
    async with world.scheduler() as scheduler:
        for name in ("a", "b"):
            await world.add_pod(name, cpu="1", qos="LSR")
            await bound_past(world, scheduler, name, "n1")
        await scheduler.collector.look()
        assert list(await world.ledger("n1")) == ["a"]
        assert "more than 150" in await world.told(Reason.CPUS_TOO_SCATTERED)


async def test_node_with_many_forged_entries_delays_no_other(
    world: SchedulerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="corewise.scheduler.collector")
    for node in ("n1", "n2"):
        await world.add_node(node, 128)
    async with world.scheduler() as scheduler:
        forged = {f"u{cpu:03}": CPUOwner(f"apps/p{cpu}", CPUSet.of([cpu]), "f") for cpu in range(120)}
        body = {"metadata": {"annotations": print_owned_cpus({"u": CPUOwner("apps/p", CPUSet.of([0]))})}}
        await world.client.patch(PLAIN_NODES, "n2", body)
        await until(lambda: len(scheduler.state.counted.owners("n2")) == 1)
        await write_ledger(world, scheduler, forged)
        lefts = []
        for _ in range(3):
            await scheduler.collector.look()
            lefts.append(len(await world.ledger("n1")))
            assert await world.ledger("n2") == {}
        assert lefts == [120 - _ASKED_AT_ONCE, 120 - 2 * _ASKED_AT_ONCE, 0]
        told = [each.getMessage() for each in caplog.records if "removed from a ledger" in each.getMessage()]
        assert [each.partition(",")[0] for each in told] == [
            "50 entries removed from a ledger",
            "entry removed from a ledger",
            "50 entries removed from a ledger",
            "20 entries removed from a ledger",
        ]


async def test_lasting_entries_never_deprive_later_entries_of_turns(world: SchedulerWorld) -> None:
    """Entries of pods that wait to be bound are asked about in turn with the others."""
    await world.add_node("n1", 128)
    owners = {}
    for number in range(_ASKED_AT_ONCE):
        pod = await world.add_pod(f"w{number:02}", cpu="1", qos="LSR")
        owners[pod["metadata"]["uid"]] = CPUOwner(f"apps/w{number:02}", CPUSet.of([number]), "w")
    async with world.scheduler() as scheduler:
        gone = {"z": CPUOwner("apps/gone", CPUSet.of([100]), "z")}
        await write_ledger(world, scheduler, {**owners, **gone})
        for _ in range(3):
            await scheduler.collector.look()
        assert scheduler.state.counted.owners("n1").keys() == owners.keys()


async def test_pods_that_own_nothing_are_not_looked_at(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Guaranteed pod with whole CPUs owns them only where kubelet's CPU manager is static."""
    followed: list[str] = []

    async def follow(late: LateOwners, key: str) -> bool:
        followed.append(key)
        return True

    monkeypatch.setattr(LateOwners, "follow", follow)
    for node in ("n1", "static"):
        await world.add_node(node, 8)
    topology = {CPU_TOPOLOGY: print_cpu_topology(arrangement(8)), CPU_MANAGER_POLICY: '{"policy":"static"}'}
    await world.state_topology("static", topology)
    for name in ("plain", "pinned"):
        await world.add_pod(name, cpu="4", memory="1Gi")
    async with world.scheduler() as scheduler:
        await bound_past(world, scheduler, "plain", "n1")
        await bound_past(world, scheduler, "pinned", "static")
        await scheduler.collector.look()
        assert followed == ["apps/pinned"]


async def test_bindings_are_answered_while_many_nodes_are_checked(world: SchedulerWorld) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with world.scheduler() as scheduler:
        for number in range(200):
            scheduler.state.counted.cluster.put_node(scenes.node(f"n{number}", 8))
        counting = asyncio.create_task(count())
        await scheduler.collector.look()
        counting.cancel()
    assert turns >= 9


async def test_new_leader_waits_again_before_repairing_a_ledger(world: SchedulerWorld) -> None:
    """Between two times that it leads, another one may have repaired the damage that was seen before."""
    await world.add_node("n1", 8)
    damage = {"metadata": {"annotations": {OWNED_CPUS: "no ledger", OWNED_MILLI_CPU: "1000"}}}
    await world.client.patch(PLAIN_NODES, "n1", damage)
    async with world.scheduler() as scheduler:
        collector = scheduler.collector

        async def is_repaired() -> bool:
            await collector.look()
            node: dict[str, Any] = await world.client.get(PLAIN_NODES, "n1")
            return OWNED_CPUS not in node["metadata"].get("annotations", {})

        assert not await is_repaired()
        world.clock.skip(EXPIRY + 1)
        collector.begin()
        assert not await is_repaired()
        world.clock.skip(EXPIRY + 1)
        assert await is_repaired()


async def test_contradicting_claim_takes_nothing_and_is_corrected(world: SchedulerWorld) -> None:
    """Somebody writes other CPUs into the annotation of a pod that owns some."""
    await world.add_node("n1", 8, "2.00")
    for name in ("p", "other"):
        await world.add_pod(name, cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:
        await world.bind("p", "n1")
        owned = await world.cpus("p")
        forged = {"metadata": {"annotations": {RESOURCE_STATUS: json.dumps({"cpuset": "2-3,6-7"})}}}
        await world.client.patch(PLAIN_PODS, "p", forged, namespace=PODS_NAMESPACE)
        await until(lambda: _claims(scheduler, "p", "2-3,6-7"))
        snapshot = scheduler.state.counted.cluster.snapshot()
        row = snapshot.index["n1"]
        assert (snapshot.owned_cpu[row], snapshot.cpu_room[row]) == (4000, 8000)
        await world.bind("other", "n1")
        assert await world.cpus("other") == "2-3,6-7"
        await scheduler.collector.look()
        assert await world.cpus("p") == owned


def _claims(scheduler: Scheduler, name: str, cpus: str) -> bool:
    pod = scheduler.state.pods.get(name, PODS_NAMESPACE)
    return pod is not None and cpus in pod.metadata.annotations.get(RESOURCE_STATUS, "")


async def test_waiting_node_is_checked_although_nothing_changes(
    world: SchedulerWorld,
) -> None:
    """All nodes are looked at once a minute: at 0 s and 61 s here, so at 92 s only those that wait."""
    await world.add_node("n1", 8)
    pod = await world.add_pod("slow", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:
        owner = CPUOwner("apps/slow", CPUSet.parse("0-1,4-5"))
        await write_ledger(world, scheduler, {pod["metadata"]["uid"]: owner})
        for seconds, kept in ((0.0, ["slow"]), (61.0, ["slow"]), (31.0, [])):
            world.clock.skip(seconds)
            await scheduler.collector.look()
            assert list(await world.ledger("n1")) == kept


async def test_orderly_state_is_read_once_until_it_changes(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat changes neither a node nor its pods; 20,000 nodes send 75 of them a second."""
    read: Counter[str] = Counter()

    def count(module: ModuleType, name: str) -> None:
        call = getattr(module, name)

        def counted(*given: Any) -> Any:
            read[name] += 1
            return call(*given)

        monkeypatch.setattr(module, name, counted)

    count(counted, "read_node_facts")
    count(late_owners, "stated_status")
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:
        await world.bind("p", "n1")
        await until(lambda: _claims(scheduler, "p", "0-1,4-5"))

        async def looks(beat: str, labels: dict[str, str]) -> dict[str, int]:
            """Write to the node as kubelet does, look, and return what was read since."""
            read.clear()
            conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": beat}]
            body = {"metadata": {"labels": labels}, "status": {"conditions": conditions}}
            await world.client.patch(PLAIN_NODES, "n1", {"metadata": body["metadata"]})
            written = await world.client.patch(PLAIN_NODES, "n1", body, subresource="status")
            version = written["metadata"]["resourceVersion"]
            nodes = scheduler.state.nodes.items
            await until(lambda: nodes["n1"].metadata.resource_version == version)
            await scheduler.collector.look()
            return dict(read)

        await scheduler.collector.look()
        assert await looks("2026-01-01T00:00:10Z", {}) == {}
        assert await looks("2026-01-01T00:00:20Z", {"zone": "a"}) == {
            "read_node_facts": 1,
            "stated_status": 1,
        }
        assert await looks("2026-01-01T00:00:30Z", {"zone": "a"}) == {}
