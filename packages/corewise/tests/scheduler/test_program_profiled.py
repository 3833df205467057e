"""Pods with a stake in interference, in the whole scheduler: /interference/..., marks, counterweights.

| | |
|---|---|
| score | tenths of the best possible one, not stretched over the nodes: 36 of 100 is 4 |
| a pod asked about | weighs on the best node, until the watch shows it elsewhere, or for five seconds |
| the file changes | the policy says so at once; without any type at stake there is none |
| a pod that slipped through | is counted, once, when it is seen bound |
| victims that are gone, and that averages include | no more are named for the pod, on any node |
| an annotation that cannot be read | is no concern of interference: the pod is placed, and preempts |
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from corewise.kube.client import PatchType
from corewise.kube.errors import NotFound
from corewise.kube.resources import MUTATING_POLICIES, MUTATING_POLICY_BINDINGS
from corewise.scheduler.marking import NAME
from corewise.scheduler.profiled import GUESSED_FOR
from corewise.scheduler.program import Scheduler
from corewise.vocabulary import metrics
from corewise.vocabulary.names import INTERFERENCE_RESOURCE, NUMA_SPEC
from kubedouble.server import NEW_IN_1_36, serve
from manager.world import PODS_NAMESPACE, eventually, small_cluster, until
from scheduler.program_world import PLAIN_PODS, SchedulerWorld, caller
from scheduler.test_program_interference import FILE, Known, a_stream, quick, scheduling
from scheduler.test_program_preemption import asked

_quick = quick
NODES = ("n1", "n2", "n3")
BARE = FILE.replace("memorybandwidth: 60", "memorybandwidth: 0").replace("5GB/s", "0.5GB/s")
"""No type has anything at stake."""


@pytest.fixture
def known() -> Known:
    return Known(
        used={"n1": 20, "n2": 60, "n3": 99},
        capacity=dict.fromkeys(NODES, 100),
        available=dict.fromkeys(NODES, 32),
    )


@pytest.fixture(autouse=True)
async def nodes(world: SchedulerWorld) -> None:
    for name in NODES:
        await world.add_node(name, 8)


def question(name: str, *nodes: str, uid: str = "") -> dict[str, Any]:
    pod = a_stream(name)
    pod["metadata"] |= {"namespace": PODS_NAMESPACE, "uid": uid or f"uid-of-{name}"}
    return {"Pod": pod, "NodeNames": list(nodes or NODES)}


def weights(scheduler: Scheduler) -> dict[str, float]:
    """The counterweights of the nodes, in GB/s."""
    snapshot = scheduler.state.counted.cluster.snapshot()
    here = snapshot.counterweights.at(scheduler.reloader.active.now(), snapshot.size).memory_bandwidth
    return {name: round(here[row] / 1e9, 1) for name, row in snapshot.index.items() if here[row]}


async def test_score_is_tenths_of_the_best_possible(
    world: SchedulerWorld, known: Known, tmp_path: Path
) -> None:
    points = FILE.replace("  window", "  points: [10, 3.6, 1]\n  window")
    async with scheduling(world, known, tmp_path, points) as scheduler, caller(scheduler) as call:
        _, answer = await call("interference/filter", question("p"))
        assert answer["NodeNames"] == ["n1", "n2"]
        assert answer["FailedNodes"] == {"n3": "Insufficient free memory bandwidth"}
        _, scores = await call("interference/prioritize", question("p", "n1", "n2"))
        assert {each["Host"]: each["Score"] for each in scores} == {"n1": 10, "n2": 4}


async def test_pod_asked_about_weighs_where_it_will_go(
    world: SchedulerWorld, known: Known, tmp_path: Path
) -> None:
    async with scheduling(world, known, tmp_path) as scheduler, caller(scheduler) as call:
        await call("interference/prioritize", question("first"))
        await call("interference/filter", question("second", "n2"))
        assert weights(scheduler) == {"n1": 5, "n2": 5}
        await call("interference/prioritize", question("first"))
        assert weights(scheduler) == {"n1": 5, "n2": 5}, "asked again, it weighs once"
        requested = scheduler.state.counted.cluster.snapshot().requested_cpu
        assert not requested.any(), "and nothing of it but its profile"
        world.clock.skip(GUESSED_FOR)
        scheduler.state.assumed.expire()
        assert weights(scheduler) == {}


async def test_the_watch_moves_a_guess_to_the_truth(
    world: SchedulerWorld, known: Known, tmp_path: Path
) -> None:
    async with scheduling(world, known, tmp_path) as scheduler, caller(scheduler) as call:
        made = await world.client.create(PLAIN_PODS, a_stream("p"), PODS_NAMESPACE)
        await call("interference/prioritize", question("p", uid=made["metadata"]["uid"]))
        assert weights(scheduler) == {"n1": 5}
        await world.bind_past("p", "n2")
        await until(lambda: weights(scheduler) == {"n2": 5})
        await call("interference/prioritize", question("p", uid=made["metadata"]["uid"]))
        assert weights(scheduler) == {"n2": 5}, "a late question about a bound pod moves nothing"
        world.clock.skip(GUESSED_FOR)
        scheduler.state.assumed.expire()
        assert "n2" in weights(scheduler)


async def test_restarted_scheduler_has_each_weight_once(
    world: SchedulerWorld, known: Known, tmp_path: Path
) -> None:
    async with scheduling(world, known, tmp_path) as scheduler, caller(scheduler) as call:
        for name in ("p", "q"):
            made = await world.client.create(PLAIN_PODS, a_stream(name), PODS_NAMESPACE)
            await call("interference/prioritize", question(name, uid=made["metadata"]["uid"]))
        await world.bind_past("p", "n2")
    async with scheduling(world, known, tmp_path) as scheduler:
        assert weights(scheduler) == {"n2": 5}, "of a guess nothing is left, of a bound pod all"


async def test_unreadable_numa_policy_keeps_no_node_away(
    world: SchedulerWorld, known: Known, tmp_path: Path
) -> None:
    """kube-scheduler places the same pod without a profile."""
    known.values["used"] = {"n1": 20, "n2": 60, "n3": 88}
    async with scheduling(world, known, tmp_path) as scheduler, caller(scheduler) as call:
        victim = await world.client.create(PLAIN_PODS, a_stream("victim"), PODS_NAMESPACE)
        await world.bind_past("victim", "n3")
        await until(lambda: weights(scheduler) == {"n3": 5})
        body = question("p")
        body["Pod"]["metadata"]["annotations"] = {NUMA_SPEC: "single"}
        body["Pod"]["spec"]["priority"] = 10
        _, answer = await call("interference/filter", body)
        assert answer["NodeNames"] == ["n1", "n2"]
        assert answer["FailedNodes"] == {"n3": "Insufficient free memory bandwidth"}
        _, scores = await call("interference/prioritize", body)
        assert max(scores, key=lambda each: each["Score"])["Host"] == "n1"
        uid = victim["metadata"]["uid"]
        _, answer = await call("interference/preempt", asked(body["Pod"], n3=[uid]))
        assert answer["NodeNameToMetaVictims"]["n3"]["Pods"] == [{"UID": uid}]


async def test_victims_are_named_once_while_averages_follow(
    world: SchedulerWorld, known: Known, tmp_path: Path
) -> None:
    """Of 100 GB/s 5 are free, and the pod needs more than 10: each of two pods uses 5."""
    known.values["used"] = {"n1": 99, "n2": 95, "n3": 95}
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    uids = {}
    for name, node in (("a", "n2"), ("b", "n2"), ("c", "n3"), ("d", "n3")):
        made = await world.client.create(PLAIN_PODS, a_stream(name), PODS_NAMESPACE)
        uids[name] = made["metadata"]["uid"]
        await world.bind_past(name, node)
        since = {"status": {"conditions": [condition]}}
        await world.client.patch(
            PLAIN_PODS,
            name,
            since,
            type=PatchType.STRATEGIC,
            namespace=PODS_NAMESPACE,
            subresource="status",
        )
    async with scheduling(world, known, tmp_path) as scheduler, caller(scheduler) as call:

        async def victims(**status: str) -> dict[str, set[str]]:
            pod = {**question("p")["Pod"], "status": status}
            pod["spec"]["priority"] = 10
            _, answer = await call("interference/preempt", asked(pod, n2=[], n3=[]))
            found = answer["NodeNameToMetaVictims"]
            return {node: {pod["UID"] for pod in each["Pods"]} for node, each in found.items()}

        assert await victims() == {"n2": {uids["a"], uids["b"]}, "n3": {uids["c"], uids["d"]}}
        for name in ("c", "d"):
            await world.client.delete(PLAIN_PODS, name, PODS_NAMESPACE, grace_period=0)
        await until(lambda: not scheduler.state.counted.cluster.pods_on("n3"))
        assert await victims(nominatedNodeName="n3") == {}
        assert await victims() == {"n2": {uids["a"], uids["b"]}}, "another pod has waited nowhere"
        known.values["used"] = {"n1": 99, "n2": 95, "n3": 99}

        async def more() -> bool:
            return await victims(nominatedNodeName="n3") == {"n2": {uids["a"], uids["b"]}}

        world.clock.skip(360)
        await eventually(more)


async def is_marked(world: SchedulerWorld, name: str) -> bool:
    made = await world.client.create(PLAIN_PODS, a_stream(name), PODS_NAMESPACE)
    requests: dict[str, str] = made["spec"]["containers"][0]["resources"]["requests"]
    return requests.get(INTERFERENCE_RESOURCE) == "0"


def paths(scheduler: Scheduler) -> set[str]:
    gauge = metrics.INTERFERENCE_PATH
    return {path for path in ("policy", "webhook") if scheduler.metrics.value(gauge, path) == 1}


async def test_policy_follows_the_file(world: SchedulerWorld, known: Known, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    async with scheduling(world, known, tmp_path, BARE) as scheduler:
        assert not await is_marked(world, "before")
        file.write_text(FILE)
        await until(lambda: paths(scheduler) == {"policy"})
        assert await is_marked(world, "during")
        file.write_text(FILE.replace("stream:", "other:"))

        async def follows() -> bool:
            (policy,) = [
                each
                for each in await world.client.list(MUTATING_POLICIES.typed(dict))
                if each["metadata"]["name"] == NAME
            ]
            return '"other"' in policy["spec"]["matchConditions"][0]["expression"]

        await eventually(follows)
        assert not await is_marked(world, "of-another-type")
        file.write_text("scoring: MostAllocated\n")
        await until(lambda: paths(scheduler) == set())
        for resource in (MUTATING_POLICIES, MUTATING_POLICY_BINDINGS):
            with pytest.raises(NotFound):
                await world.client.get(resource.typed(dict), NAME)


async def test_pods_that_slipped_through_are_counted(
    world: SchedulerWorld, known: Known, tmp_path: Path
) -> None:
    await world.client.create(PLAIN_PODS, a_stream("old"), PODS_NAMESPACE)
    await world.bind_past("old", "n1")
    await world.client.create(PLAIN_PODS, a_stream("early"), PODS_NAMESPACE)
    async with scheduling(world, known, tmp_path) as scheduler:
        await until(lambda: paths(scheduler) == {"policy"})
        assert await is_marked(world, "marked")
        for name in ("early", "marked"):
            await world.bind_past(name, "n1")
        cluster = scheduler.state.counted.cluster
        await until(lambda: len(cluster.pods_on("n1")) == 3)
        assert scheduler.metrics.value(metrics.INTERFERENCE_MISSED) == 1


@pytest.fixture
async def older(tmp_path: Path) -> AsyncIterator[SchedulerWorld]:
    """An API server as of Kubernetes 1.35: it serves no mutating admission policies."""
    async with serve(without=NEW_IN_1_36) as server, small_cluster(server, tmp_path) as cluster:
        yield SchedulerWorld(cluster.server, cluster.client, cluster.administrator)


@pytest.mark.parametrize("away", ["schedule", "wait"])
async def test_older_servers_ask_the_webhook(
    older: SchedulerWorld, known: Known, tmp_path: Path, away: str
) -> None:
    text = FILE.replace("  window", f"  whileAway: {away}\n  window")
    tried = count()

    async def is_asked() -> bool:
        return await is_marked(older, f"p{next(tried)}")

    for name in NODES:
        await older.add_node(name, 8)
    async with scheduling(older, known, tmp_path, text) as scheduler:
        await until(lambda: paths(scheduler) == {"webhook"})
        await eventually(is_asked)
    assert not await is_marked(older, "away"), "failurePolicy Ignore: it is created unmarked"
