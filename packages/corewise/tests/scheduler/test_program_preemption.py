"""POST /preempt, as kube-scheduler calls it: the wire format, and what it is answered about.

A node of 16 CPUs at ratio 2.00 offers 32. Its pods, of priority 0: "shares" requests 16, "owns" owns 6 CPUs,
so takes 12: 4 are left. kube-scheduler counts 32 - 22 = 10 free ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from corewise.kube.client import Client
from corewise.scheduler.preemption import (
    BUDGET,
    Preempted,
    PreemptionArgumentsError,
    decode_preemption,
    encode_preempted,
)
from corewise.scheduler.program import Scheduler
from corewise.vocabulary.names import QOS_CLASS
from manager.world import PODS_NAMESPACE, eventually
from scheduler.program_world import PLAIN_PODS, SchedulerWorld, caller, pod_document


def ranked(name: str, priority: int, **form: Any) -> dict[str, Any]:
    document = pod_document(name, **form)
    document["spec"]["priority"] = priority
    return document


async def put(world: SchedulerWorld, document: dict[str, Any], node: str = "") -> str:
    """Create a pod, bind it if a node is named; return its uid."""
    made = await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)
    if node:
        await world.bind(document["metadata"]["name"], node)
    uid: str = made["metadata"]["uid"]
    return uid


@asynccontextmanager
async def filled(world: SchedulerWorld) -> AsyncIterator[tuple[Scheduler, Any, dict[str, str]]]:
    """The node of the table, with its pods seen bound; the second value calls the extender."""
    await world.add_node("n1", 16, "2.00")
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        uids = {
            "shares": await put(world, ranked("shares", 0, cpu="16"), "n1"),
            "owns": await put(world, ranked("owns", 0, cpu="6", qos="LSR"), "n1"),
        }

        async def seen() -> bool:
            bound = (scheduler.state.pods.get(each, PODS_NAMESPACE) for each in uids)
            return all(each is not None and each.spec.node_name for each in bound)

        await eventually(seen)
        yield scheduler, call, uids


def asked(pod: dict[str, Any], **victims: list[str]) -> dict[str, Any]:
    """Return the request of a kube-scheduler with a node cache; it fills in the uid of the pod."""
    nodes = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
        for node, uids in victims.items()
    }
    pod = {**pod, "metadata": {**pod["metadata"], "namespace": PODS_NAMESPACE, "uid": "preemptor"}}
    return {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": nodes}


async def test_victims_are_added_until_owned_cpus_fit(world: SchedulerWorld) -> None:
    async with filled(world) as (_, call, uids):
        pod = ranked("p", 10, cpu="11", qos="LSR")
        status, answer = await call("preempt", asked(pod, n1=[uids["owns"]]))
        assert status == 200
        # 22 amplified CPUs: without "owns" 16 are left, without both 32.
        assert answer == {
            "NodeNameToMetaVictims": {
                "n1": {"Pods": [{"UID": uids["shares"]}, {"UID": uids["owns"]}], "NumPDBViolations": 0}
            }
        }


async def test_victims_that_make_room_are_named_without_proposals(world: SchedulerWorld) -> None:
    async with filled(world) as (_, call, uids):
        proposed = asked(ranked("p", 10, cpu="11", qos="LSR"), n1=[])
        _, answer = await call("preempt", proposed)
        named = answer["NodeNameToMetaVictims"]["n1"]["Pods"]
        assert named == [{"UID": uids["shares"]}, {"UID": uids["owns"]}]
        proposed = asked(ranked("p", 10, cpu="1", qos="LSR"), n1=[])
        assert (await call("preempt", proposed))[1] == {"NodeNameToMetaVictims": {}}


async def test_sufficient_victim_is_kept_and_ledger_frees_cpus(world: SchedulerWorld) -> None:
    async with filled(world) as (_, call, uids):
        _, answer = await call("preempt", asked(ranked("p", 10, cpu="8", qos="LSR"), n1=[uids["owns"]]))
        assert answer["NodeNameToMetaVictims"]["n1"]["Pods"] == [{"UID": uids["owns"]}]


async def test_pod_waits_for_victim_that_still_terminates(world: SchedulerWorld) -> None:
    async with filled(world) as (_, call, _):
        await world.add_node("n2", 16)
        other = await put(world, ranked("other", 0, cpu="16", qos="LSR"), "n2")
        pod = ranked("p", 10, cpu="8", qos="LSR") | {"status": {"nominatedNodeName": "n1"}}

        async def answered() -> Any:
            proposed = asked(pod, n2=[other])
            await call("filter", {"Pod": proposed["Pod"], "NodeNames": ["n1"]})
            return (await call("preempt", proposed))[1]["NodeNameToMetaVictims"]

        async def named() -> bool:
            return bool(await answered())

        await eventually(named)
        await world.client.delete(PLAIN_PODS, "owns", PODS_NAMESPACE, grace_period=30)

        async def waits() -> bool:
            return not await answered()

        await eventually(waits)


async def test_nodes_without_useful_or_known_victims_are_omitted(
    world: SchedulerWorld,
) -> None:
    async with filled(world) as (_, call, uids):
        assert (await call("preempt", asked(ranked("p", 10, cpu="17", qos="LSR"), n1=[uids["owns"]])))[1] == {
            "NodeNameToMetaVictims": {}
        }
        low = ranked("p", 0, cpu="8", qos="LSR")
        assert (await call("preempt", asked(low, n1=[uids["owns"]])))[1] == {"NodeNameToMetaVictims": {}}
        fits = ranked("p", 10, cpu="8", qos="LSR")
        unknown = await call("preempt", asked(fits, n1=["somebody"], n2=[uids["owns"]]))
        assert unknown == (200, {"NodeNameToMetaVictims": {}})


def waiting_resize(name: str, priority: int, **form: Any) -> dict[str, Any]:
    """A running pod whose resize waits for room, as kube-scheduler 1.37 has it in its queue."""
    document = ranked(name, priority, **form)
    document["spec"]["nodeName"] = "n1"
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    allocated = {"name": "c", "allocatedResources": {"cpu": "1"}}
    return {**document, "status": {"conditions": [pending], "containerStatuses": [allocated]}}


async def test_nobody_is_evicted_for_an_owners_resize(world: SchedulerWorld) -> None:
    async with filled(world) as (_, call, uids):
        for cpu in ("8", "2500m"):
            resized = waiting_resize("owns", 10, cpu=cpu, qos="LSR")
            answer = await call("preempt", asked(resized, n1=[uids["shares"]]))
            assert answer == (200, {"NodeNameToMetaVictims": {}})


async def test_resize_of_sharing_pod_keeps_its_victims(world: SchedulerWorld) -> None:
    """kube-scheduler counts the pod once; counted as a new one, it would need more victims."""
    async with filled(world) as (_, call, uids):
        resized = asked(waiting_resize("shares", 10, cpu="27"), n1=[uids["owns"]], n2=[])
        resized["NodeNameToMetaVictims"]["n1"]["NumPDBViolations"] = 1
        _, answer = await call("preempt", resized)
        assert answer == {
            "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": uids["owns"]}], "NumPDBViolations": 1}}
        }


async def test_violations_of_budgets_are_counted_for_all_victims(world: SchedulerWorld) -> None:
    async with filled(world) as (_, call, uids):
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {QOS_CLASS: "LSR"}}},
        }
        path = "/apis/policy/v1/namespaces/apps/poddisruptionbudgets"
        await world.client.request("POST", path, body=budget)
        _, answer = await call("preempt", asked(ranked("p", 10, cpu="16", qos="LSR"), n1=[uids["shares"]]))
        assert answer["NodeNameToMetaVictims"]["n1"]["NumPDBViolations"] == 1
        _, answer = await call("preempt", asked(ranked("p", 10, cpu="6", qos="LSR"), n1=[uids["shares"]]))
        assert answer["NodeNameToMetaVictims"]["n1"] == {
            "Pods": [{"UID": uids["shares"]}],
            "NumPDBViolations": 0,
        }


async def test_whole_victims_are_read_and_answered_by_uid(world: SchedulerWorld) -> None:
    async with filled(world) as (_, call, uids):
        body = asked(ranked("p", 10, cpu="8", qos="LSR"))
        body["NodeNameToMetaVictims"] = None
        body["NodeNameToVictims"] = {"n1": {"Pods": [await world.pod("owns")], "NumPDBViolations": 0}}
        _, answer = await call("preempt", body)
        assert answer["NodeNameToMetaVictims"]["n1"]["Pods"] == [{"UID": uids["owns"]}]


async def test_what_cannot_be_answered_fails_the_call(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with filled(world) as (scheduler, call, uids):
        for body in (b"{", b"[]", {"Pod": ranked("p", 1)}, asked(pod_document(""), n1=[])):
            status, answer = await call("preempt", body)
            assert (status, "corewise scheduler:" in answer["Error"]) == (400, True)

        async def broken(*_: object, **__: object) -> object:
            return await Client.get(world.client, PLAIN_PODS, "nobody", PODS_NAMESPACE)

        monkeypatch.setattr(scheduler.client, "list", broken)
        status, answer = await call("preempt", asked(ranked("p", 10), n1=[uids["owns"]]))
        assert (status, "nobody" in answer["Error"]) == (503, True)


async def test_slow_list_of_budgets_costs_no_victims(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with filled(world) as (scheduler, call, uids):
        read = scheduler.client.list

        async def slow(*args: Any, **options: Any) -> Any:
            world.clock.skip(2 * BUDGET)
            return await read(*args, **options)

        monkeypatch.setattr(scheduler.client, "list", slow)
        _, answer = await call("preempt", asked(ranked("p", 10, cpu="8", qos="LSR"), n1=[uids["owns"]]))
        assert answer["NodeNameToMetaVictims"]["n1"]["Pods"] == [{"UID": uids["owns"]}]


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b'{"Pod": {"metadata": {"name": "p"}}}'])
def test_arguments_without_pod_or_nodes_are_refused(body: bytes) -> None:
    with pytest.raises(PreemptionArgumentsError):
        decode_preemption(body)


def test_the_answer_has_kube_schedulers_keys() -> None:
    assert encode_preempted({"n": Preempted(("u",), 2)}) == (
        b'{"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}],"NumPDBViolations":2}}}'
    )
