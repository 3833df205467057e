"""Amounts that no machine has, in every program that counts pods: the node is full, and nothing else happens.

kube-apiserver takes a request of any size, in any number of digits. Tried here: amounts around 2**63 milli,
and far beyond it, texts that are no quantity to corewise, many pods whose sum is too large, and zones.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.configuration import parse_amplification, parse_normalization
from corewise.engine import Cluster, Placement
from corewise.engine.amplified_cpu import Allocation
from corewise.engine.objects import ReportedTopology
from corewise.engine.reading import placement, pod_facts, read_node_facts
from corewise.planner.planner import plan
from corewise.quantities import LARGEST_AMOUNT, LARGEST_MILLI, bounded, largest, requested
from corewise.ratios.cluster import ClusterConfiguration
from corewise.ratios.nodes import demand_of_node
from corewise.vocabulary.metrics import LOOP_RESTARTS
from corewise.vocabulary.names import RESOURCE_STATUS
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod
from corewise_lab.plan_inputs import plan_from_dump
from engine.scenes import bind, cluster_of, cpuset, decide, node, numa_node, share
from manager.world import PODS_NAMESPACE, until
from node_records import recorded
from scheduler.program_world import PLAIN_PODS, NotBoundError, SchedulerWorld, pod_document

HUGE = (
    "9300000000000000",
    "9.3e15",
    "9223372036854775807",
    "18446744073709551616",
    "8Ei",
    "1e63",
    "1e64",
    "1e99",
    "9" * 200,
)
huge = st.sampled_from(HUGE) | st.integers(10**7, 10**60).map(str)
amounts = huge | st.integers(0, 64).map(str) | st.sampled_from(["100m", "-1", "much", "", "1.5Gi"])


def document(name: str, cpu: str, memory: str = "1", qos: str = "LSR", **annotations: str) -> dict[str, Any]:
    stated = {"cpu": cpu, "memory": memory}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"koordinator.sh/qosClass": qos},
            "annotations": annotations,
        },
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "c", "resources": {"requests": stated, "limits": stated}}],
            "overhead": {"cpu": cpu},
        },
        "status": {"containerStatuses": [{"name": "c", "allocatedResources": stated}]},
    }


def put(cluster: Cluster, pod: dict[str, Any]) -> None:
    placed = msgspec.convert(pod, Pod)
    cluster.put_pod(pod_facts(placed), placement(placed)[0])


@pytest.mark.parametrize("text", HUGE)
@pytest.mark.parametrize("qos", ["LSR", "LS"])
def test_bound_pod_requesting_beyond_any_machine_fills_node(text: str, qos: str) -> None:
    cluster = cluster_of(node("n", 32), node("free", 32))
    put(cluster, document("huge", text, qos=qos))
    assert decide(cluster, share("s", 0.001)).node == "free"
    assert decide(cluster, cpuset("c", 1)).node == "free"
    cluster.remove_pod("default/huge")
    assert cluster.snapshot().cpu_room.max() == 32_000


@pytest.mark.parametrize("text", HUGE)
def test_pod_beyond_any_machine_is_refused_with_reason(text: str) -> None:
    facts = pod_facts(msgspec.convert(document("p", text), Pod))
    assert facts.problem is not None
    assert facts.problem.reason is Reason.AMOUNT_TOO_LARGE
    assert facts.owned_by_class == LARGEST_MILLI
    assert decide(cluster_of(node("n", 32)), facts).node is None


@given(
    st.lists(st.tuples(amounts, amounts, st.sampled_from(["LSR", "LSE", "LS", ""])), max_size=4),
    amounts,
    st.sampled_from(["0-3", "", "8191", "x"]),
    st.sampled_from(["1.00", "1.50", "10.00"]),
)
def test_no_amount_of_pod_or_zones_raises_errors(
    pods: list[tuple[str, str, str]], in_zone: str, cpus: str, ratio: str
) -> None:
    cluster = cluster_of(numa_node("n", 16, 2, ratio))
    shares = [{"node": 0, "resources": {"cpu": in_zone, "memory": in_zone}}]
    status = json.dumps({"cpuset": cpus, "numaNodeResources": shares})
    for number, (cpu, memory, qos) in enumerate(pods):
        put(cluster, document(f"p{number}", cpu, memory, qos, **{RESOURCE_STATUS: status}))
        put(cluster, document(f"q{number}", cpu, memory, qos))
    for wanted in (share("s", 1, memory=1), cpuset("c", 2)):
        decide(cluster, wanted)
    for cpu, memory, qos in pods:
        decide(cluster, pod_facts(msgspec.convert(document("new", cpu, memory, qos), Pod)))
    for key in [f"default/{kind}{number}" for kind in "pq" for number in range(len(pods))]:
        cluster.remove_pod(key)
    assert isinstance(bind(cluster, cpuset("c", 2)), Placement)
    assert cluster.snapshot().requested_cpu.max() == 2000


def test_sums_over_many_pods_stay_within_a_column() -> None:
    cluster = cluster_of(node("n", 32))
    for number in range(2100):
        put(cluster, document(f"p{number}", "9300000000000000", "8Ei"))
    assert decide(cluster, share("s", 0.001)).node is None
    for number in range(2100):
        cluster.remove_pod(f"default/p{number}")
    assert decide(cluster, share("s", 32, memory=256)).node == "n"


@given(amounts, amounts, amounts, st.sampled_from(["1.00", "10.00", "999999.99"]))
def test_no_amount_of_node_or_zones_raises_errors(cpu: str, memory: str, zone: str, ratio: str) -> None:
    stated = {"cpu": cpu, "memory": memory, "pods": memory, "example.com/gpu": cpu}
    annotations = {} if ratio == "1.00" else recorded({"cpu": ("1m", cpu), "memory": ("1", memory)})
    read = msgspec.convert(
        {
            "metadata": {"name": "n", "annotations": annotations},
            "status": {"capacity": stated, "allocatable": stated},
        },
        Node,
    )
    resources = [
        {"name": name, "capacity": zone, "allocatable": zone, "available": zone} for name in ("cpu", "memory")
    ]
    zones = [{"name": f"node-{number}", "type": "Node", "resources": resources} for number in range(2)]
    reading = read_node_facts(read, msgspec.convert({"zones": zones}, ReportedTopology))
    cluster = cluster_of(reading.facts)
    put(cluster, document("p", cpu, memory))
    decide(cluster, share("s", 1, memory=1))


def test_impossible_node_amount_is_reported() -> None:
    read = msgspec.convert(
        {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "9.3e15", "memory": "1Gi"}}},
        Node,
    )
    reading = read_node_facts(read, None)
    assert [each.reason for each in reading.findings] == [Reason.AMOUNT_TOO_LARGE]
    assert reading.facts.allocatable["cpu"] == LARGEST_MILLI


@given(st.lists(st.tuples(amounts, amounts), max_size=4))
def test_manager_never_undercounts_what_a_pod_may_request(pods: list[tuple[str, str]]) -> None:
    listed = [msgspec.convert(document("p", *each), Pod) for each in pods]
    demand = demand_of_node(listed, None)
    if any(requested("cpu", cpu) == largest("cpu") for cpu, _ in pods):
        assert demand.requests["cpu"] >= LARGEST_MILLI
        assert demand.cpuset_milli >= LARGEST_MILLI


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=3))
def test_the_planner_plans_whatever_pods_request(
    tmp_path_factory: pytest.TempPathFactory, pods: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("dump") / "dump.json"
    stated = {"cpu": "8", "memory": "16Gi", "pods": "10"}
    status = {"capacity": stated, "allocatable": stated}
    items = [{"kind": "Node", "metadata": {"name": "n"}, "status": status}]
    items += [document(f"p{number}", *each, qos="LSR") for number, each in enumerate(pods)]
    path.write_text(json.dumps({"kind": "List", "items": items}))
    plain = ClusterConfiguration(parse_normalization("{}").value, parse_amplification("{}").value)
    outcome = plan(plan_from_dump(path), plain, Allocation.LEAST)
    for number, (cpu, _) in enumerate(pods):
        if requested("cpu", cpu) == largest("cpu"):
            assert outcome.unplaced[f"default/p{number}"].reason is Reason.AMOUNT_TOO_LARGE


@given(st.sampled_from(["cpu", "memory", "example.com/gpu"]), st.integers())
def test_bounds_keep_what_machines_have(resource: str, amount: int) -> None:
    most = LARGEST_MILLI if resource == "cpu" else LARGEST_AMOUNT
    assert bounded(resource, amount) == min(max(amount, 0), most)
    assert bounded(resource, most + 1) == (
        largest(resource).milli if resource == "cpu" else largest(resource).units
    )


async def test_huge_pod_never_breaks_the_view_or_binding(
    world: SchedulerWorld,
) -> None:
    await world.add_node("n1", 8)
    await world.add_node("n2", 8)
    bound = pod_document("huge", cpu="9300000000000000", qos="LSR")
    bound["spec"]["nodeName"] = "n1"
    await world.client.create(PLAIN_PODS, bound, PODS_NAMESPACE)
    for name in ("wanting", "next", "small"):
        cpu = "9300000000000000" if name == "wanting" else "1"
        await world.add_pod(name, cpu=cpu, qos="LSR")
    async with world.scheduler() as scheduler:
        assert scheduler.state.counted.cluster.node_of("apps/huge") == "n1"
        with pytest.raises(NotBoundError, match="more than any machine has"):
            await world.bind("wanting", "n2")
        with pytest.raises(NotBoundError, match="does not suit the pod"):
            await world.bind("next", "n1")
        await world.bind("small", "n2")
        await until(lambda: scheduler.state.counted.cluster.node_of("apps/small") == "n2")
        assert scheduler.metrics.value(LOOP_RESTARTS, "caches") == 0
        assert not list(scheduler.program.problems())
