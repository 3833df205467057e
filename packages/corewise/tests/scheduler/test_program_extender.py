"""The extender over HTTPS, in a cluster of the local API server."""

from __future__ import annotations

from typing import Any

import pytest

from corewise.vocabulary.metrics import EXTENDER_REQUESTS
from corewise.vocabulary.names import AMPLIFICATION_RATIO, RESOURCE_SPEC
from manager.world import eventually
from scheduler.program_world import PLAIN_NODES, SchedulerWorld, caller, pod_document

UNKNOWN_POLICY = '{"requiredCPUBindPolicy": "Anyhow"}'


def args(pod: dict[str, Any], *names: str) -> dict[str, Any]:
    return {"Pod": pod, "Nodes": None, "NodeNames": list(names)}


async def test_filter_and_prioritize_answer_from_what_is_bound(world: SchedulerWorld) -> None:
    """32 CPUs at ratio 2 with cpuset 32: another cpuset 32 does not fit, nor does a share of 1."""
    for name in ("full", "free"):
        await world.add_node(name, 32, "2.00")
    await world.add_pod("owner", cpu="32", qos="LSR")
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        await world.bind("owner", "full")
        assert await world.cpus("owner") == "0-31"
        pod = pod_document("p", cpu="32", qos="LSR")
        status, answer = await call("filter", args(pod, "full", "free", "unheard-of"))
        assert status == 200
        assert answer["NodeNames"] == ["free"]
        assert answer["FailedNodes"] == {"full": "not enough free CPUs"}
        assert answer["FailedAndUnresolvableNodes"] == {"unheard-of": "corewise does not know this node yet"}
        assert not answer["Error"]
        share = pod_document("s", cpu="1")
        _, answer = await call("filter", args(share, "free", "full"))
        assert answer["FailedNodes"] == {"full": "Insufficient amplified cpu"}
        status, scores = await call("prioritize", args(share, "full", "free", "unheard-of"))
        assert status == 200
        assert [each["Host"] for each in scores] == ["full", "free", "unheard-of"]
        assert [each["Score"] > 0 for each in scores] == [False, True, False]
        assert all(0 <= each["Score"] <= 10 for each in scores)


async def test_whole_nodes_are_judged_by_known_state_only(
    world: SchedulerWorld,
) -> None:
    await world.add_node("n1", 4)
    node = await world.client.get(PLAIN_NODES, "n1")
    boast = {**node, "status": {"allocatable": {"cpu": "1000"}}}
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        sent = {"Pod": pod_document("p", cpu="4"), "Nodes": {"metadata": {}, "items": [node]}}
        _, answer = await call("filter", sent)
        assert answer["Nodes"]["items"] == [node]
        sent = {"Pod": pod_document("p", cpu="5"), "Nodes": {"metadata": {}, "items": [boast]}}
        _, answer = await call("filter", sent)
        assert answer["Nodes"]["items"] == []
        assert answer["FailedNodes"] == {"n1": "Insufficient amplified cpu"}


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"cpu": "2500m", "qos": "LSR"}, "the requested CPUs must be integer"),
        (
            {
                "cpu": "2",
                "qos": "LSR",
                "annotations": {RESOURCE_SPEC: UNKNOWN_POLICY},
            },
            "'Anyhow' is not a CPU bind policy",
        ),
        ({"cpu": "2", "qos": "LSR", "annotations": {RESOURCE_SPEC: "{"}}, "cannot be read"),
    ],
)
async def test_unfollowable_pod_fits_nowhere_and_is_reported(
    world: SchedulerWorld, form: dict[str, Any], why: str
) -> None:
    await world.add_node("n1", 8)
    pod = await world.add_pod("p", **form)
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        _, answer = await call("filter", args(pod, "n1"))
        assert answer["NodeNames"] == []
        assert why in answer["FailedAndUnresolvableNodes"]["n1"]
        await call("filter", args(pod, "n1"))
        message = await world.told("NoNodeSuits")
        assert message.startswith("0/1 nodes are available: 1 ")
        assert why in message
        assert scheduler.events.held_back == 1


async def test_a_pod_without_requests_fits_everywhere(world: SchedulerWorld) -> None:
    await world.add_node("n1", 1)
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        _, answer = await call("filter", args(pod_document("p", cpu=None), "n1"))
        assert answer["NodeNames"] == ["n1"]


async def test_garbage_ratio_refuses_only_cpuset_pods(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.client.patch(PLAIN_NODES, "n1", {"metadata": {"annotations": {AMPLIFICATION_RATIO: "lots"}}})
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        _, answer = await call("filter", args(pod_document("p", cpu="8"), "n1"))
        assert answer["NodeNames"] == ["n1"]
        _, answer = await call("filter", args(pod_document("p", cpu="8", qos="LSR"), "n1"))
        text = "the node's amplification ratio cannot be read"
        assert answer["FailedAndUnresolvableNodes"] == {"n1": text}


async def test_invalid_arguments_are_an_error_with_a_reason(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        for verb in ("filter", "prioritize"):
            for body in (b"{", b"", args({}, "n1"), args(pod_document("p"))):
                status, answer = await call(verb, body)
                assert status == 400
                assert answer["Error"].startswith("corewise scheduler: ")
            assert scheduler.metrics.value(EXTENDER_REQUESTS, verb, "malformed") == 4
        status, answer = await call("filter", args(pod_document("p"), "n1"))
        assert (status, answer["NodeNames"]) == (200, ["n1"])


async def test_a_follower_is_ready_and_answers_too(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    async with (
        world.scheduler(leader_elect=True, identity="first") as first,
        world.scheduler(leader_elect=True, identity="second") as second,
    ):
        for scheduler in (first, second):
            async with caller(scheduler) as call:
                _, answer = await call("filter", args(pod_document("p"), "n1"))
                assert answer["NodeNames"] == ["n1"]
                status, _ = await call("prioritize", args(pod_document("p"), "n1"))
                assert status == 200


async def test_before_everything_is_listed_it_answers_an_error(world: SchedulerWorld) -> None:
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        scheduler.state.pods.synced.clear()
        _, answer = await call("filter", args(pod_document("p"), "n1"))
        assert answer["Error"] == "corewise scheduler: pods have not been listed yet"
        assert list(scheduler.program.problems()) == ["pods have not been listed yet"]


async def test_explain_tells_the_last_decisions_with_their_numbers(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.add_node("n2", 2)
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        await call("filter", args({**pod_document("p", cpu="4"), "kind": "Pod"}, "n1", "n2"))
        await call("filter", args(pod_document("q"), "n1"))
        _, answer = await call("explain")
        assert [each["pod"] for each in answer["decisions"]] == ["default/q", "default/p"]
        _, answer = await call("explain?pod=default/p&nodes=all")
        (decision,) = answer["decisions"]
        assert decision["outcome"] == "1 of 2 nodes suit it"
        assert set(decision["secondsSinceHeard"]) == {"nodes", "pods", "noderesourcetopologies"}
        told = {each["node"]: each for each in decision["nodes"]}
        assert told["n1"]["suits"]
        assert told["n1"]["scores"]
        (verdict,) = told["n2"]["verdicts"]
        assert verdict["reason"] == "AmplifiedCPUInsufficient"
        assert verdict["inputs"]["needed"] == 4000
        assert "2 of 2 are left" in verdict["message"]
        _, answer = await call("explain?pod=default/p&nodes=n1")
        assert [each["node"] for each in answer["decisions"][0]["nodes"]] == ["n1"]


async def test_nodes_that_arrive_change_or_leave_count_immediately(world: SchedulerWorld) -> None:
    async with world.scheduler() as scheduler, caller(scheduler) as call:

        async def suits() -> bool:
            _, answer = await call("filter", args(pod_document("p", cpu="4"), "n1"))
            return bool(answer["NodeNames"])

        async def does_not() -> bool:
            return not await suits()

        assert not await suits()
        await world.add_node("n1", 4)
        await eventually(suits)
        status = {"status": {"allocatable": {"cpu": "2"}}}
        await world.client.patch(PLAIN_NODES, "n1", status, subresource="status")
        await eventually(does_not)
        await world.client.patch(
            PLAIN_NODES, "n1", {"status": {"allocatable": {"cpu": "4"}}}, subresource="status"
        )
        await eventually(suits)
        await world.client.delete(PLAIN_NODES, "n1")
        await eventually(does_not)
