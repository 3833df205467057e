"""The bind verb in a cluster of the local API server: pods get CPUs and are bound, or are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from corewise.kube.errors import api_error
from corewise.kube.resources import MUTATING_WEBHOOKS
from corewise.scheduler import binding
from corewise.scheduler.binding import Wanted
from corewise.scheduler.installation import FORMER_GATE
from corewise.scheduler.program import Scheduler
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import print_cpu_topology
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.metrics import BIND_CONFLICTS, BIND_REFUSALS, EXTENDER_REQUESTS
from corewise.vocabulary.names import (
    CPU_TOPOLOGY,
    NUMA_POLICY,
    OWNED_CPUS,
    OWNED_CPUS_RESOURCE,
    OWNED_MILLI_CPU,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
)
from corewise.vocabulary.owned_cpus import read_owned_cpus
from corewise.vocabulary.reasons import Reason
from engine.scenes import arrangement
from manager.world import PODS_NAMESPACE, eventually, until
from scheduler.program_world import (
    PLAIN_NODES,
    PLAIN_PODS,
    Interrupted,
    NotBoundError,
    SchedulerWorld,
    caller,
    pod_document,
)

FIRST_HALF, SECOND_HALF = "0-1,4-5", "2-3,6-7"
"""The CPUs of the first two and of the last two of four cores."""


def bound(scheduler: Scheduler, name: str) -> bool:
    """Whether the watch has shown a pod bound."""
    pod = scheduler.state.pods.get(name, PODS_NAMESPACE)
    return pod is not None and bool(pod.spec.node_name)


async def test_each_cpuset_pod_is_bound_with_own_cpus(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    async with world.scheduler():
        for name in ("a", "b"):
            pod = await world.add_pod(name, cpu="4", qos="LSR")
            await world.bind(name, "n1", uid=pod["metadata"]["uid"])
        taken = [CPUSet.parse(await world.cpus(name) or "") for name in ("a", "b")]
        assert [len(each) for each in taken] == [4, 4]
        assert taken[0].isdisjoint(taken[1])
        assert (await world.pod("a"))["spec"]["nodeName"] == "n1"
        assert await world.ledger("n1") == {"a": str(taken[0]), "b": str(taken[1])}


async def test_kube_scheduler_binds_by_the_bind_verb(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    pod = await world.add_pod("p", cpu="8", qos="LSR")
    late = await world.add_pod("late", cpu="1", qos="LSR")
    async with world.scheduler() as scheduler, caller(scheduler) as call:

        def binding(of: dict[str, Any], **changes: str) -> dict[str, str]:
            meta = of["metadata"]
            names = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"]}
            return {**names, "Node": "n1", **changes}

        assert await call("bind", binding(pod)) == (200, {"Error": ""})
        assert await world.cpus("p") == "0-7"
        assert await call("bind", binding(pod)) == (200, {"Error": ""}), "it is bound there already"
        status, answer = await call("bind", {key.lower(): value for key, value in binding(late).items()})
        assert status == 200
        assert "node n1 does not suit the pod: needs 1 CPUs of its own, 0 are free" in answer["Error"]
        status, answer = await call("bind", binding(late, Node=""))
        assert (status, answer["Error"]) == (
            400,
            "corewise scheduler: ExtenderBindingArgs need PodName, PodNamespace, PodUID and Node",
        )
        assert (await call("bind", b"[]"))[0] == 400
        counted = [
            scheduler.metrics.value(EXTENDER_REQUESTS, "bind", outcome)
            for outcome in ("answered", "refused", "malformed")
        ]
        assert counted == [2, 1, 2]


async def test_a_refusal_is_written_for_the_pods_owner(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8, "2.00")
    for name, cpus in (("first", "8"), ("late", "4")):
        await world.add_pod(name, cpu=cpus, qos="LSR")
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        await world.bind("first", "n1")
        with pytest.raises(NotBoundError) as refusal:
            await world.bind("late", "n1")
        text = (
            "node n1 does not suit the pod: needs 4 CPUs of its own, 0 are free; the pod will be tried again"
        )
        assert text in str(refusal.value)
        assert "nodeName" not in (await world.pod("late"))["spec"]
        assert scheduler.metrics.value(BIND_REFUSALS, "NotEnoughCPUs") == 1
        _, explained = await call("explain?pod=apps/late")
        assert explained["decisions"][0]["outcome"].startswith("refused, NotEnoughCPUs: node n1")


async def test_share_pod_is_counted_without_annotation_or_entry(
    world: SchedulerWorld,
) -> None:
    await world.add_node("n1", 8)
    for name, cpu in (("a", "6"), ("b", "3")):
        await world.add_pod(name, cpu=cpu)
    async with world.scheduler():
        await world.bind("a", "n1")
        assert await world.cpus("a") is None
        assert await world.ledger("n1") == {}
        with pytest.raises(NotBoundError, match="2 of 8 are left"):
            await world.bind("b", "n1")


async def test_two_hundred_racing_binds_bind_exactly_what_fits(
    world: SchedulerWorld,
) -> None:
    """64 CPUs: of 200 pods with 4 CPUs of their own, 16 are bound."""
    await world.add_node("n1", 64)
    names = [f"p{number}" for number in range(200)]
    for name in names:
        await world.add_pod(name, cpu="4", qos="LSR")
    async with world.scheduler() as one, world.scheduler() as other:
        replicas = [one, other] * 100

        async def bind_it(name: str, scheduler: Scheduler) -> Finding | None:
            """Try again as kube-scheduler does, while the Node changes too often."""
            while True:
                answer = await scheduler.binder.bind(Wanted(PODS_NAMESPACE, name, "n1"))
                if answer is None or answer.reason not in {Reason.NODE_CHANGING, Reason.BINDING_FAILED}:
                    return answer

        results = await asyncio.gather(*map(bind_it, names, replicas))
        pods = {
            each["metadata"]["name"]: each for each in await world.client.list(PLAIN_PODS, PODS_NAMESPACE)
        }
        in_place = [name for name in names if pods[name]["spec"].get("nodeName") == "n1"]
        assert [name for name, each in zip(names, results, strict=True) if each is None] == in_place
        assert len(in_place) == 16
        claims = [json.loads(pods[name]["metadata"]["annotations"][RESOURCE_STATUS]) for name in in_place]
        cpus = [cpu for claim in claims for cpu in CPUSet.parse(claim["cpuset"])]
        assert sorted(cpus) == list(range(64))
        stated = {name: claim["cpuset"] for name, claim in zip(in_place, claims, strict=True)}
        assert await world.ledger("n1") == stated
        refused = [each for each in results if each is not None]
        assert {each.reason for each in refused} == {Reason.NOT_ENOUGH_CPUS}
        await until(lambda: not any(each.state.counted.cluster.unbound_entries for each in (one, other)))
        for scheduler in (one, other):
            ledger = scheduler.state.counted.cluster.ledger("n1")
            assert ledger
            assert not ledger.free
            assert not ledger.conflicts


async def test_what_cannot_be_bound_leaves_no_entry(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="8", qos="LSR")
    async with world.scheduler():
        for name, node, uid, text in (
            ("p", "n2", "", "corewise does not know node n2 yet; the pod will be tried again"),
            ("p", "n1", "0000", "pod apps/p was deleted, and another has its name"),
            ("nobody", "n1", "", "pod apps/nobody no longer exists"),
        ):
            with pytest.raises(NotBoundError, match=text):
                await world.bind(name, node, uid=uid)
        assert await world.ledger("n1") == {}


async def test_bound_or_deleting_pod_is_not_bound_again(world: SchedulerWorld) -> None:
    for node in ("n1", "n2"):
        await world.add_node(node, 8)
    for name in ("bound", "leaving"):
        await world.add_pod(name, cpu="2", qos="LSR")
    meta = {"metadata": {"finalizers": ["test.corewise.io/stay"]}}
    await world.client.patch(PLAIN_PODS, "leaving", meta, namespace=PODS_NAMESPACE)
    async with world.scheduler():
        await world.bind("bound", "n1")
        await world.bind("bound", "n1")
        with pytest.raises(NotBoundError, match="is bound to node n1 already"):
            await world.bind("bound", "n2")
        await world.client.delete(PLAIN_PODS, "leaving", PODS_NAMESPACE, grace_period=0)
        with pytest.raises(NotBoundError, match="is being deleted"):
            await world.bind("leaving", "n1")
        assert list(await world.ledger("n1")) == ["bound"]
        assert await world.ledger("n2") == {}


async def test_node_changed_before_the_write_is_chosen_again(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    await world.add_node("n1", 8)
    for name in ("a", "b"):
        await world.add_pod(name, cpu="4", qos="LSR")
    async with world.scheduler() as one, world.scheduler() as other:

        async def overtake() -> None:
            await world.bind("b", "n1", by=other)

        interrupted.before["PATCH /api/v1/nodes/n1/status"] = overtake
        await world.bind("a", "n1", by=one)
        assert one.metrics.value(BIND_CONFLICTS) == 1
        assert await world.ledger("n1") == {"b": FIRST_HALF, "a": SECOND_HALF}
        assert (await world.cpus("a"), await world.cpus("b")) == (SECOND_HALF, FIRST_HALF)


async def test_pod_changed_before_binding_is_reread_keeping_cpus(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler():

        async def label() -> None:
            body = {"metadata": {"labels": {"changed": "yes"}}}
            await world.client.patch(PLAIN_PODS, "p", body, namespace=PODS_NAMESPACE)

        interrupted.before["/pods/p/binding"] = label
        await world.bind("p", "n1")
        assert await world.cpus("p") == FIRST_HALF
        assert await world.ledger("n1") == {"p": FIRST_HALF}


async def test_entry_goes_when_pod_is_deleted_or_rebound(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    for node in ("n1", "n2"):
        await world.add_node(node, 8)
    for name in ("deleted", "elsewhere"):
        await world.add_pod(name, cpu="4", qos="LSR")
    async with world.scheduler():

        async def delete() -> None:
            await world.client.delete(PLAIN_PODS, "deleted", PODS_NAMESPACE, grace_period=0)

        async def bind_elsewhere() -> None:
            await world.bind_past("elsewhere", "n2")

        for name, step in (("deleted", delete), ("elsewhere", bind_elsewhere)):
            interrupted.before[f"/pods/{name}/binding"] = step
            with pytest.raises(NotBoundError, match=r"no longer exists|is bound to node n2 already"):
                await world.bind(name, "n1")
            assert await world.ledger("n1") == {}


async def test_refused_binding_removes_its_entry(world: SchedulerWorld, interrupted: Interrupted) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:

        async def refuse() -> None:
            raise api_error(403, b'{"kind":"Status","message":"not today","code":403}')

        interrupted.before["/pods/p/binding"] = refuse
        with pytest.raises(NotBoundError, match="not today; the pod will be tried again"):
            await world.bind("p", "n1")
        assert scheduler.metrics.value(BIND_REFUSALS, Reason.BINDING_FAILED) == 1
        assert await world.ledger("n1") == {}
        await world.bind("p", "n1")


async def test_unanswered_binding_keeps_entry_and_next_reuses_cpus(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    await world.add_node("n1", 8)
    for name in ("p", "other"):
        await world.add_pod(name, cpu="4", qos="LSR")
    async with world.scheduler() as one, world.scheduler() as other:

        async def lose() -> None:
            raise api_error(500, b"")

        interrupted.before["/pods/p/binding"] = lose
        with pytest.raises(NotBoundError, match="HTTP 500"):
            await world.bind("p", "n1", by=one)
        assert await world.ledger("n1") == {"p": FIRST_HALF}
        await world.bind("other", "n1", by=other)
        assert await world.cpus("other") == SECOND_HALF, "the entry keeps its CPUs"
        await world.bind("p", "n1", by=other)
        assert await world.cpus("p") == FIRST_HALF


@asynccontextmanager
async def too_slow(interrupted: Interrupted, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Hold the write of n1's ledger back until the block ends, and let the calls within it end early.

    An attempt is over once it writes, and not before, however late it begins.
    """
    writing, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        writing.set()
        await go_on.wait()

    interrupted.before["PATCH /api/v1/nodes/n1/status"] = hold
    with monkeypatch.context() as early:
        early.setattr(binding, "DEADLINE", 0.2)
        early.setattr(binding, "_is_over", lambda _: writing.is_set())
        yield
        await writing.wait()
    go_on.set()


async def test_late_call_goes_on_where_it_stopped(
    world: SchedulerWorld, interrupted: Interrupted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is written although the call has ended, and no Binding is sent; the next call sends it."""
    for node in ("n1", "n2"):
        await world.add_node(node, 8)
    pod = await world.add_pod("p", cpu="4", qos="LSR")
    uid, arguments = pod["metadata"]["uid"], {"Pod": pod, "NodeNames": ["n1"]}
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        await eventually(partial(suits, call, arguments))
        async with too_slow(interrupted, monkeypatch):
            with pytest.raises(NotBoundError, match=r"not bound within 1\.8 s"):
                await world.bind("p", "n1", uid=uid)
            assert await world.ledger("n1") == {}
        await until(lambda: not scheduler.binder.late)
        assert await world.ledger("n1") == {"p": FIRST_HALF}
        assert await world.cpus("p") is None
        for asked, suitable in ((["n2", "n1"], ["n1"]), (["n2"], ["n2"]), (["n1"], ["n1"])):
            _, answer = await call("filter", {"Pod": pod, "NodeNames": asked})
            assert answer["NodeNames"] == suitable, "the node that keeps CPUs for the pod, if it suits"
        needless = ("GET /api/v1/namespaces", "PATCH /api/v1/nodes")
        interrupted.before |= dict.fromkeys(needless, partial(pytest.fail, "a needless request"))
        await world.bind("p", "n1", uid=uid)
        interrupted.before.clear()
        assert await world.cpus("p") == FIRST_HALF


async def test_late_call_writes_again_for_a_changed_pod(
    world: SchedulerWorld, interrupted: Interrupted, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler() as scheduler:
        async with too_slow(interrupted, monkeypatch):
            with pytest.raises(NotBoundError, match="not bound within"):
                await world.bind("p", "n1")
        await until(lambda: not scheduler.binder.late)
        first = await entry_name(world)
        changed = {"metadata": {"labels": {"changed": "yes"}}}
        await world.client.patch(PLAIN_PODS, "p", changed, namespace=PODS_NAMESPACE)
        await world.bind("p", "n1")
        assert await world.cpus("p") == FIRST_HALF
        assert await entry_name(world) != first


async def entry_name(world: SchedulerWorld) -> str:
    """Return the name of the one entry in n1's ledger."""
    annotations = (await world.client.get(PLAIN_NODES, "n1"))["metadata"]["annotations"]
    (owner,) = read_owned_cpus(annotations).owners.values()
    return owner.bind


async def test_pod_sent_without_a_version_is_read(world: SchedulerWorld, interrupted: Interrupted) -> None:
    """The API server refuses no Binding without a version."""
    await world.add_node("n1", 8)
    pod = await world.add_pod("p", cpu="4", qos="LSR")
    metadata = {**pod["metadata"], "resourceVersion": ""}
    reads: list[str] = []

    async def read() -> None:
        reads.append("p")

    async with world.scheduler() as scheduler, caller(scheduler) as call:
        await eventually(partial(suits, call, {"Pod": {**pod, "metadata": metadata}, "NodeNames": ["n1"]}))
        interrupted.before[f"GET /api/v1/namespaces/{PODS_NAMESPACE}/pods/p"] = read
        await world.bind("p", "n1", uid=pod["metadata"]["uid"])
        assert reads == ["p"]


async def suits(call: Any, arguments: dict[str, Any]) -> bool:
    """Whether a node suits a pod."""
    _, answer = await call("filter", arguments)
    return bool(answer["NodeNames"])


async def test_binding_with_a_lost_answer_is_a_success(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    """Sent again by the client, the Binding is refused: the pod is bound by then, to that node."""
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    async with world.scheduler():

        async def conflict() -> None:
            raise api_error(409, b"")

        interrupted.after["/pods/p/binding"] = conflict
        await world.bind("p", "n1")
        assert await world.ledger("n1") == {"p": FIRST_HALF}


async def test_node_with_damaged_ledger_refuses_all_bindings(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    await world.add_pod("p", cpu="4", qos="LSR")
    await world.add_pod("share", cpu="4")
    damage = {"metadata": {"annotations": {OWNED_CPUS: "no ledger", OWNED_MILLI_CPU: "1000"}}}
    await world.client.patch(PLAIN_NODES, "n1", damage)
    async with world.scheduler() as scheduler:
        with pytest.raises(NotBoundError, match="the node's ledger of owned CPUs is damaged"):
            await world.bind("p", "n1")
        assert scheduler.metrics.value(BIND_REFUSALS, Reason.OWNED_CPUS_DAMAGED) == 1
        await world.bind("share", "n1")


async def test_the_request_for_owned_cpus_is_no_obstacle(world: SchedulerWorld) -> None:
    """No node offers it: it only makes kube-scheduler ask the extender."""
    await world.add_node("n1", 8)
    document = pod_document("p", cpu="2", qos="LSR")
    for kind in ("requests", "limits"):
        document["spec"]["containers"][0]["resources"][kind][OWNED_CPUS_RESOURCE] = "2"
    pod = await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        _, answer = await call("filter", {"Pod": pod, "NodeNames": ["n1"]})
        assert answer["NodeNames"] == ["n1"]
        await world.bind("p", "n1")
        assert await world.cpus("p") == "0,4"


async def test_pods_own_cpu_claim_before_binding_is_ignored(
    world: SchedulerWorld,
) -> None:
    await world.add_node("n1", 8)
    boast = {RESOURCE_STATUS: '{"cpuset":"0-7"}'}
    await world.add_pod("p", cpu="1", annotations=boast)
    async with world.scheduler() as scheduler:
        await world.bind("p", "n1")
        assert await world.cpus("p") == ""
        await until(lambda: bound(scheduler, "p"))
        ledger = scheduler.state.counted.cluster.ledger("n1")
        assert ledger
        assert len(ledger.free) == 8


async def test_nonexistent_or_taken_cpus_count_as_conflicts(world: SchedulerWorld) -> None:
    await world.add_node("n1", 4)
    for name, cpus, count in (("a", "0-1", "2"), ("b", "1-2", "2"), ("c", "64", "1"), ("d", "zero", "1")):
        claim = {RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
        document = pod_document(name, cpu=count, qos="LSR" if name != "d" else "", annotations=claim)
        document["spec"]["nodeName"] = "n1"
        await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)
    async with world.scheduler(leader_elect=True, identity="follower") as scheduler:
        await until(lambda: all(bound(scheduler, name) for name in "abcd"))
        assert scheduler.state.counted.conflicts == 2
        await world.add_pod("p", cpu="2", qos="LSR")
        with pytest.raises(NotBoundError, match="0 are free"):
            await world.bind("p", "n1")


async def test_numa_policy_node_writes_all_amounts_per_zone(
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
    async with world.scheduler():
        zones_of = {}
        for name in ("a", "b"):
            await world.bind(name, "n1")
            status = json.loads((await world.pod(name))["metadata"]["annotations"][RESOURCE_STATUS])
            (share,) = status["numaNodeResources"]
            assert share["resources"]["cpu"] == "3"
            zones_of[name] = share["node"]
        assert set(zones_of.values()) == {0, 1}
        with pytest.raises(NotBoundError, match="no room within the NUMA nodes"):
            await world.bind("c", "n1")


async def test_every_replica_answers_and_knows_others_grants(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    for name in ("a", "b", "c"):
        await world.add_pod(name, cpu="4", qos="LSR")
    async with (
        world.scheduler(leader_elect=True, identity="first") as first,
        world.scheduler(leader_elect=True, identity="second") as second,
    ):
        await until(lambda: first.program.leading.is_set() or second.program.leading.is_set())
        await world.bind("a", "n1", by=first)
        await world.bind("b", "n1", by=second)
        taken = [CPUSet.parse(await world.cpus(name) or "") for name in ("a", "b")]
        assert taken[0] | taken[1] == CPUSet.parse("0-7")
        with pytest.raises(NotBoundError, match="0 are free"):
            await world.bind("c", "n1", by=second)
        async with caller(second) as call:
            _, answer = await call("filter", {"Pod": await world.pod("c"), "NodeNames": ["n1"]})
        assert answer["FailedNodes"]


async def test_deleted_pod_returns_its_cpus(world: SchedulerWorld) -> None:
    await world.add_node("n1", 8)
    for name in ("a", "b"):
        await world.add_pod(name, cpu="8", qos="LSR")
    async with world.scheduler():
        await world.bind("a", "n1")
        await world.client.delete(PLAIN_PODS, "a", PODS_NAMESPACE, grace_period=0)

        async def takes_it() -> bool:
            try:
                await world.bind("b", "n1")
            except NotBoundError:
                return False
            return True

        await eventually(takes_it)
        assert await world.cpus("b") == "0-7"


async def test_cpus_whose_list_exceeds_annotation_are_not_granted(
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
        with pytest.raises(NotBoundError, match="1000 CPUs so scattered"):
            await world.bind("scattered", "n1")
        assert scheduler.metrics.value(BIND_REFUSALS, "CPUsTooScattered") == 1
        assert await world.ledger("n1") == {}
        await world.bind("whole", "n1")
        assert await world.cpus("whole") == "0-999"


async def test_leader_removes_the_gate_of_an_older_version(world: SchedulerWorld) -> None:
    gate = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": FORMER_GATE}}
    plain = MUTATING_WEBHOOKS.typed(dict[str, Any])
    await world.client.create(plain, gate)
    async with world.scheduler():

        async def gone() -> bool:
            return not await world.client.list(plain)

        await eventually(gone)


async def test_pending_bind_is_finished_when_the_scheduler_exits(
    world: SchedulerWorld, interrupted: Interrupted
) -> None:
    await world.add_node("n1", 8)
    pod = await world.add_pod("p", cpu="4", qos="LSR")
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        reached.set()
        await go_on.wait()

    interrupted.before["/pods/p/binding"] = hold
    names = {"PodName": "p", "PodNamespace": PODS_NAMESPACE, "PodUID": pod["metadata"]["uid"], "Node": "n1"}
    async with asyncio.TaskGroup() as group, world.scheduler() as scheduler, caller(scheduler) as call:
        answer = group.create_task(call("bind", names))
        await reached.wait()
        asyncio.get_running_loop().call_later(0.3, go_on.set)
        group.create_task(_end(scheduler))
        assert await answer == (200, {"Error": ""})
    assert await world.cpus("p") == FIRST_HALF


async def _end(scheduler: Scheduler) -> None:
    """Cancel the loops that serve, as the program's end does."""
    for task in asyncio.all_tasks():
        if task.get_name() == "webhooks":
            task.cancel()
    await until(lambda: not scheduler.service.listening)
