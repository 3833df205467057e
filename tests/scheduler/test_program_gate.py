"""The binding gate in a cluster of the local API server: bindings are given CPUs, or refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from corewise.kube.client import Client
from corewise.kube.errors import APIError, Conflict, NotFound
from corewise.kube.resources import MUTATING_WEBHOOKS
from corewise.scheduler import installation
from corewise.scheduler.installation import CONFIGURATION_NAME, GATE
from corewise.scheduler.program import Scheduler
from corewise.scheduler.state import RESERVED_FOR
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import print_cpu_topology
from corewise.vocabulary.metrics import GATE_EXPIRED, GATE_REFUSALS, WEBHOOK_REQUESTS
from corewise.vocabulary.names import CPU_TOPOLOGY, NUMA_POLICY, RESOURCE_SPEC, RESOURCE_STATUS
from engine.scenes import arrangement
from manager.world import eventually, until
from scheduler.program_world import PLAIN_NODES, PLAIN_PODS, SchedulerWorld, caller, pod_document


def bound(scheduler: Scheduler, name: str) -> bool:
    return scheduler.state.cluster.node_of(f"default/{name}") is not None


async def test_each_cpuset_pod_is_bound_with_cpus_of_its_own(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    async with world.scheduler() as scheduler:
        await world.installed(scheduler)
        for name in ("a", "b"):
            pod = await world.add_pod(name, cpu="4", qos="LSR")
            await world.bind(name, "n1", uid=pod["metadata"]["uid"])
        taken = [CPUSet.parse(await world.cpus(name) or "") for name in ("a", "b")]
        assert [len(each) for each in taken] == [4, 4]
        assert taken[0].isdisjoint(taken[1])
        assert (await world.pod("a"))["spec"]["nodeName"] == "n1"


async def test_a_refusal_is_written_for_the_pods_owner(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8, "2.00")
    for name, cpus in (("first", "8"), ("late", "4")):
        await world.add_pod(name, cpu=cpus, qos="LSR")
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        await world.installed(scheduler)
        await world.bind("first", "n1")
        with pytest.raises(APIError) as refusal:
            await world.bind("late", "n1")
        text = (
            "node n1 does not suit the pod: needs 4 CPUs of its own, 0 are free; the pod will be tried again"
        )
        assert text in str(refusal.value)
        assert "nodeName" not in (await world.pod("late"))["spec"]
        assert scheduler.metrics.value(GATE_REFUSALS, "NotEnoughCPUs") == 1
        _, explained = await call("explain?pod=default/late")
        assert explained["decisions"][0]["outcome"].startswith("refused, NotEnoughCPUs: node n1")


async def test_a_share_pod_is_bound_without_an_annotation_and_counts(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    for name, cpu in (("a", "6"), ("b", "3")):
        await world.add_pod(name, cpu=cpu)
    async with world.scheduler() as scheduler:
        await world.installed(scheduler)
        await world.bind("a", "n1")
        assert await world.cpus("a") is None
        with pytest.raises(APIError, match="2 of 8 are left"):
            await world.bind("b", "n1")


async def test_two_hundred_bindings_raced_at_one_node_bind_exactly_those_that_fit(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 CPUs: of 200 pods with 4 CPUs of their own, 16 are bound."""
    # The machine may be busy: the API server must not lose patience with the gate, and let one through.
    monkeypatch.setattr(installation, "TIMEOUT_SECONDS", 30)
    await world.add_node("n1", 64)
    names = [f"p{number}" for number in range(200)]
    for name in names:
        await world.add_pod(name, cpu="4", qos="LSR")
    async with world.scheduler() as scheduler, Client(world.config, timeout=120.0) as client:
        await world.installed(scheduler)
        world.client = client
        results = await asyncio.gather(*(world.bind(name, "n1") for name in names), return_exceptions=True)
        pods = {each["metadata"]["name"]: each for each in await world.client.list(PLAIN_PODS, "default")}
        in_place = [name for name in names if pods[name]["spec"].get("nodeName") == "n1"]
        assert len(pods) == 200
        assert [name for name, each in zip(names, results, strict=True) if each is None] == in_place
        assert len(in_place) == 16
        claims = [json.loads(pods[name]["metadata"]["annotations"][RESOURCE_STATUS]) for name in in_place]
        cpus = [cpu for claim in claims for cpu in CPUSet.parse(claim["cpuset"])]
        assert sorted(cpus) == list(range(64))
        refusals = [each for each in results if each is not None]
        assert all(isinstance(each, APIError) and "does not suit the pod" in str(each) for each in refusals)
        assert scheduler.metrics.value(GATE_REFUSALS, "NotEnoughCPUs") == 184
        await until(lambda: len(scheduler.state.reservations) == 0)
        ledger = scheduler.state.cluster.ledger("n1")
        assert ledger
        assert not ledger.free
        assert not ledger.conflicts


async def test_a_dry_run_is_answered_and_reserves_nothing(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="8", qos="LSR")
    async with world.scheduler() as scheduler:
        await world.installed(scheduler)
        await world.bind("p", "n1", dry_run=True)
        assert scheduler.metrics.value(WEBHOOK_REQUESTS, GATE, "changed") == 1
        assert len(scheduler.state.reservations) == 0
        await world.bind("p", "n1")
        assert await world.cpus("p") == "0-7"


async def test_what_cannot_be_bound_leaves_nothing_reserved(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="8", qos="LSR")
    async with world.scheduler() as scheduler:
        await world.installed(scheduler)
        with pytest.raises(APIError, match="corewise does not know node n2 yet"):
            await world.bind("p", "n2")
        with pytest.raises(Conflict):
            await world.bind("p", "n1", uid="0000")
        with pytest.raises(NotFound):
            await world.bind("nobody", "n1")
        assert len(scheduler.state.reservations) == 0


def review(pod: dict[str, Any], node: str) -> dict[str, Any]:
    """Build a review of a binding that nobody carries out."""
    meta = pod["metadata"]
    identity = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "binding",
        "operation": "CREATE",
        "name": meta["name"],
        "namespace": meta["namespace"],
        "object": {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": identity,
            "target": {"kind": "Node", "name": node},
        },
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


async def test_a_binding_by_the_deprecated_resource_passes_the_gate_too(world: SchedulerWorld) -> None:
    """There the request has no name: the Binding has the pod's."""
    await world.add_node("n1", 8)
    pod = await world.add_pod("p", cpu="8", qos="LSR")
    other = await world.add_pod("other", cpu="8", qos="LSR")
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        await world.installed(scheduler)
        installed = await world.client.get(MUTATING_WEBHOOKS, CONFIGURATION_NAME)
        rules = [each for webhook in installed.webhooks for each in webhook.rules]
        assert [each.resources for each in rules] == [("pods/binding",), ("bindings",)]
        asked = review(pod, "n1")
        resource = {"group": "", "version": "v1", "resource": "bindings"}
        asked["request"] |= {"name": "", "subResource": "", "resource": resource}
        _, answer = await call("gate-binding", asked)
        assert answer["response"]["allowed"]
        _, answer = await call("gate-binding", review(other, "n1"))
        assert not answer["response"]["allowed"]


async def test_what_was_reserved_and_never_bound_is_free_again_after_a_while(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    lost = await world.add_pod("lost", cpu="8", qos="LSR")
    other = await world.add_pod("other", cpu="8", qos="LSR")
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        for _ in range(2):
            _, answer = await call("gate-binding", review(lost, "n1"))
            assert answer["response"]["allowed"]
        assert len(scheduler.state.reservations) == 1
        _, answer = await call("gate-binding", review(other, "n1"))
        assert not answer["response"]["allowed"]
        _, answer = await call("filter", {"Pod": lost, "NodeNames": ["n1"]})
        assert answer["NodeNames"] == ["n1"], "its own reservation is not in its way"
        world.clock.skip(RESERVED_FOR)
        await until(lambda: len(scheduler.state.reservations) == 0)
        await until(lambda: scheduler.metrics.value(GATE_EXPIRED) == 1)
        _, answer = await call("gate-binding", review(other, "n1"))
        assert answer["response"]["allowed"]
        await world.client.delete(PLAIN_PODS, "other", "default")
        await until(lambda: len(scheduler.state.reservations) == 0)


async def test_what_a_pod_says_of_its_own_cpus_before_it_is_bound_does_not_count(
    world: SchedulerWorld,
) -> None:
    await world.add_node("n1", 8)
    boast = {RESOURCE_STATUS: '{"cpuset":"0-7"}'}
    await world.add_pod("p", cpu="1", annotations=boast)
    async with world.scheduler() as scheduler:
        await world.installed(scheduler)
        await world.bind("p", "n1")
        assert await world.cpus("p") == ""
        await until(lambda: bound(scheduler, "p"))
        ledger = scheduler.state.cluster.ledger("n1")
        assert ledger
        assert len(ledger.free) == 8


async def test_cpus_that_do_not_exist_or_are_taken_are_counted_as_conflicts(world: SchedulerWorld) -> None:
    await world.add_node("n1", 4)
    for name, cpus, count in (("a", "0-1", "2"), ("b", "1-2", "2"), ("c", "64", "1"), ("d", "zero", "1")):
        claim = {RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
        document = pod_document(name, cpu=count, qos="LSR" if name != "d" else "", annotations=claim)
        document["spec"]["nodeName"] = "n1"
        await world.client.create(PLAIN_PODS, document, "default")
    async with world.scheduler() as scheduler:
        await until(lambda: all(bound(scheduler, name) for name in "abcd"))
        assert b"corewise_cpu_claim_conflicts 2.0" in scheduler.program.metrics_text()
        await world.installed(scheduler)
        await world.add_pod("p", cpu="2", qos="LSR")
        with pytest.raises(APIError, match="0 are free"):
            await world.bind("p", "n1")


async def test_on_a_node_with_a_numa_policy_every_pods_amounts_are_written_by_numa_node(
    world: SchedulerWorld,
) -> None:
    await world.add_node("n1", 8, stated=False)
    await world.client.patch(PLAIN_NODES, "n1", {"metadata": {"labels": {NUMA_POLICY: "SingleNUMANode"}}})
    amount = {"capacity": "4", "allocatable": "4", "available": "4"}
    zones = [
        {"name": f"node-{zone}", "type": "Node", "resources": [{"name": "cpu", **amount}]}
        for zone in range(2)
    ]
    text = print_cpu_topology(arrangement(8, numa_nodes=2))
    await world.state_topology("n1", {CPU_TOPOLOGY: text}, zones)
    for name, cpu in (("a", "3"), ("b", "3"), ("c", "2")):
        await world.add_pod(name, cpu=cpu)
    async with world.scheduler() as scheduler:
        await world.installed(scheduler)
        zones_of = {}
        for name in ("a", "b"):
            await world.bind(name, "n1")
            status = json.loads((await world.pod(name))["metadata"]["annotations"][RESOURCE_STATUS])
            (share,) = status["numaNodeResources"]
            assert share["resources"]["cpu"] == "3"
            zones_of[name] = share["node"]
        assert set(zones_of.values()) == {0, 1}
        with pytest.raises(APIError, match="no room within the NUMA nodes"):
            await world.bind("c", "n1")


async def test_a_new_leader_knows_what_the_last_one_gave(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    for name in ("a", "b", "c"):
        await world.add_pod(name, cpu="4", qos="LSR")
    async with world.scheduler(leader_elect=True, identity="first") as first:
        await world.installed(first)
        await world.bind("a", "n1")
    async with world.scheduler(leader_elect=True, identity="second") as second:
        await world.installed(second)
        await world.bind("b", "n1")
        taken = [CPUSet.parse(await world.cpus(name) or "") for name in ("a", "b")]
        assert taken[0] | taken[1] == CPUSet.parse("0-7")
        with pytest.raises(APIError, match="0 are free"):
            await world.bind("c", "n1")


async def test_what_is_bound_while_the_gate_is_away_counts_by_its_request(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8, "2.00")
    for name in ("a", "b", "c"):
        await world.add_pod(name, cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:
        await world.installed(scheduler)
    await world.bind("a", "n1")
    assert await world.cpus("a") is None
    async with world.scheduler() as scheduler:
        await world.installed(scheduler)
        await world.bind("b", "n1")
        assert len(CPUSet.parse(await world.cpus("b") or "")) == 4
        with pytest.raises(APIError, match="does not suit the pod"):
            await world.bind("c", "n1")


async def test_a_gate_that_cannot_tell_is_as_if_there_was_none(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:
        await world.installed(scheduler)
        scheduler.program.leading.clear()
        await world.bind("p", "n1")
        assert await world.cpus("p") is None
        assert scheduler.metrics.value(WEBHOOK_REQUESTS, GATE, "unavailable") == 1


async def test_a_pod_that_is_deleted_gives_its_cpus_back(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    for name in ("a", "b"):
        await world.add_pod(name, cpu="8", qos="LSR")
    async with world.scheduler() as scheduler:
        await world.installed(scheduler)
        await world.bind("a", "n1")
        await world.client.delete(PLAIN_PODS, "a", "default", grace_period=0)

        async def takes_it() -> bool:
            await world.bind("b", "n1")
            return True

        await eventually(takes_it)
        assert await world.cpus("b") == "0-7"


async def test_cpus_whose_list_is_longer_than_the_annotation_may_be_are_not_given_out(
    world: SchedulerWorld,
) -> None:
    """One thread of each of 1000 cores, every second CPU: 4.8 KB."""
    await world.add_node("n1", 2048)
    cpus = [{"id": cpu, "core": cpu // 2, "socket": 0, "node": 0} for cpu in range(2048)]
    await world.state_topology("n1", {CPU_TOPOLOGY: json.dumps({"detail": cpus})})
    spec = {RESOURCE_SPEC: '{"requiredCPUBindPolicy":"SpreadByPCPUs"}'}
    await world.add_pod("scattered", cpu="1000", qos="LSR", annotations=spec)
    await world.add_pod("whole", cpu="1000", qos="LSR")
    async with world.scheduler() as scheduler:
        await world.installed(scheduler)
        with pytest.raises(APIError, match="1000 CPUs so scattered"):
            await world.bind("scattered", "n1")
        assert scheduler.metrics.value(GATE_REFUSALS, "CPUsTooScattered") == 1
        assert len(scheduler.state.reservations) == 0
        await world.bind("whole", "n1")
        assert await world.cpus("whole") == "0-999"
