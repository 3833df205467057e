"""Calls made again, late, or of another replica give no CPU twice and leave no claim.

call made again                              answer
/bind as before                              it is bound: no error
/bind by a replica that was there before     it is bound: no error
/bind after a restart                        it is bound: no error
/bind to another node                        it is bound to the first
/bind of a pod whose name another has        it was deleted
/bind of a pod that is gone                  it does not exist
/filter, /preempt                            as before, and nothing is written
"""

from __future__ import annotations

from typing import Any

from corewise.kube.resources import PODS
from manager.world import PODS_NAMESPACE, until
from scheduler.program_world import PLAIN_NODES, SchedulerWorld, caller


def binding(pod: dict[str, Any], node: str) -> dict[str, str]:
    meta = pod["metadata"]
    return {"PodName": meta["name"], "PodNamespace": PODS_NAMESPACE, "PodUID": meta["uid"], "Node": node}


async def test_binds_made_again_bind_once(world: SchedulerWorld) -> None:
    for name in ("n1", "n2"):
        await world.add_node(name, 8)
    pod = await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler() as old, caller(old) as call_old:
        async with world.scheduler() as first, caller(first) as call:
            for each in (call, call, call_old):
                assert await each("bind", binding(pod, "n1")) == (200, {"Error": ""})
            bound = await world.pod("p")
            ledgers = [await world.ledger(name) for name in ("n1", "n2")]
        async with world.scheduler() as restarted, caller(restarted) as call:
            assert await call("bind", binding(pod, "n1")) == (200, {"Error": ""})
            for each in (call, call_old):
                _, answer = await each("bind", binding(pod, "n2"))
                assert answer == {"Error": "pod apps/p is bound to node n1 already"}
            assert await world.pod("p") == bound
            assert [await world.ledger(name) for name in ("n1", "n2")] == ledgers
            assert ledgers == [{"p": await world.cpus("p")}, {}]


async def test_a_bind_of_a_former_pod_claims_nothing(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    former = await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        await call("bind", binding(former, "n1"))
        await world.client.delete(PODS, "p", PODS_NAMESPACE, grace_period=0)
        _, answer = await call("bind", binding(former, "n1"))
        assert answer == {"Error": "pod apps/p no longer exists"}
        recreated = await world.add_pod("p", cpu="2", qos="LSR")
        _, answer = await call("bind", binding(former, "n1"))
        assert answer == {"Error": "pod apps/p was deleted, and another has its name"}
        assert await call("bind", binding(recreated, "n1")) == (200, {"Error": ""})
        await until(lambda: len(scheduler.state.counted.owners("n1")) == 1)
        assert await world.ledger("n1") == {"p": await world.cpus("p")}


async def test_filter_and_preempt_answer_again_alike(world: SchedulerWorld) -> None:
    await world.add_node("n1", 4)
    await world.add_pod("low", cpu="4", qos="LSR")
    high = await world.add_pod("high", cpu="4", qos="LSR")
    high["spec"]["priority"] = 1000
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        await world.bind("low", "n1")
        await until(lambda: scheduler.state.counted.cluster.node_of("apps/low") == "n1")
        node = (await world.client.get(PLAIN_NODES, "n1"))["metadata"]["resourceVersion"]
        asked = {
            "filter": {"Pod": high, "NodeNames": ["n1"]},
            "preempt": {"Pod": high, "NodeNameToMetaVictims": {"n1": {"Pods": []}}},
        }
        answers = {verb: [await call(verb, body) for _ in range(3)] for verb, body in asked.items()}
        for verb, (first, *others) in answers.items():
            assert others == [first, first], verb
        low = (await world.pod("low"))["metadata"]["uid"]
        victims = answers["preempt"][0][1]["NodeNameToMetaVictims"]["n1"]["Pods"]
        assert [each["UID"] for each in victims] == [low]
        assert (await world.client.get(PLAIN_NODES, "n1"))["metadata"]["resourceVersion"] == node
