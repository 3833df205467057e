"""The offline planner: where the pods of a trace and of a dump go, and what two configurations make of them.

Trace of three nodes (32, 96 with 8 GPUs, and 7 CPUs) and these pods:

    ls       12 CPUs, 1 GPU          CPUShare, goes where GPUs are
    sure     2 CPUs, Guaranteed      CPUSet
    part     1.5 CPUs, Guaranteed    CPUShare
    be       4 CPUs, BE              offline: batch-cpu, placed last
    picky    1 CPU, needs a V100     nowhere
    huge     200 CPUs                nowhere; at ratio 2.50 on the large node
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from corewise.config.configuration import parse_amplification, parse_normalization
from corewise.engine.amplified_cpu import Allocation
from corewise.engine.objects import ReportedTopology
from corewise.planner.inputs import PlanInput, PlannedNode, arrangement
from corewise.planner.planner import PlanOutcome, compare, configured, plan
from corewise.ratios.cluster import ClusterConfiguration
from corewise.scheduler.policy import policy_binding
from corewise.topology import CPUSet
from corewise.vocabulary import names
from corewise.vocabulary.names import CPU_BASIC_INFO
from corewise.vocabulary.owned_cpus import CPUOwner, print_owned_cpus
from corewise.vocabulary.qos import QoSRules
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import Node
from corewise_lab.plan import InputError
from corewise_lab.plan_inputs import plan_from_dump, plan_from_openb

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,131072,0,\nn1,96000,393216,8,P100\nn2,7000,1024,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "be,4000,1024,0,0,,BE,Failed,0,10,1\n"
    "ls,12000,16384,1,1000,P100|T4,LS,Running,1,10,5\n"
    "sure,2000,512,0,0,,Guaranteed,Running,2,10,2\n"
    "part,1500,512,0,0,,Guaranteed,Pending,3,10,2\n"
    "picky,1000,512,0,0,V100,LS,Running,4,10,4\n"
    "huge,200000,1,0,0,,LS,Running,5,10,3\n"
)


def trace(folder: Path, pods: str = PODS) -> PlanInput:
    (folder / "nodes.csv").write_text(NODES)
    (folder / "pods.csv").write_text(pods)
    return plan_from_openb(folder / "nodes.csv", folder / "pods.csv")


def configuration(amplification: str = "{}", normalization: str = "{}") -> ClusterConfiguration:
    return ClusterConfiguration(
        parse_normalization(normalization).value, parse_amplification(amplification).value
    )


def amplified(ratio: str) -> ClusterConfiguration:
    return configuration(f'{{"enable":true,"resourceAmplificationRatio":{{"cpu":{ratio}}}}}')


def placed(
    given: PlanInput, policy: ClusterConfiguration, allocation: Allocation = Allocation.LEAST
) -> PlanOutcome:
    return plan(given, policy, allocation)


def test_all_trace_pods_are_read_with_their_kind(tmp_path: Path) -> None:
    pods = {pod.key.removeprefix("default/"): pod for pod in trace(tmp_path).pods}
    assert list(pods) == ["be", "ls", "sure", "part", "picky", "huge"]
    assert pods["be"].requests == {"kubernetes.io/batch-cpu": 4000, "kubernetes.io/batch-memory": 1 << 30}
    assert {name: pod.owned_by_class for name, pod in pods.items() if pod.owned_by_class} == {"sure": 2000}
    assert pods["ls"].requests["openb/gpu-milli"] == 1000


def test_every_pod_has_a_node_or_a_reason(tmp_path: Path) -> None:
    outcome = placed(trace(tmp_path), configuration())
    assert outcome.placed == {
        "default/ls": "n1",
        "default/sure": "n0",
        "default/part": "n0",
        "default/be": "n1",
    }
    assert {pod: why.reason for pod, why in outcome.unplaced.items()} == {
        "default/picky": Reason.NODE_AFFINITY_MISMATCH,
        "default/huge": Reason.RESOURCE_INSUFFICIENT,
    }
    assert outcome.by_reason["Insufficient cpu"] == 1
    assert (outcome.nodes, outcome.nodes_used, outcome.owned) == (3, 2, 2000)
    assert (outcome.raw, outcome.schedulable, outcome.promised) == (135_000, 135_000, 15_500)


def test_room_gained_by_amplification_is_reported_as_difference(tmp_path: Path) -> None:
    given = trace(tmp_path)
    plain, large = placed(given, configuration()), placed(given, amplified("2.5"))
    assert large.placed["default/huge"] == "n1"
    assert (large.raw, large.schedulable) == (135_000, 337_500)
    assert large.requested == 12_000 + 2_500 * 2 + 1_500 + 200_000
    assert large.overcommitted == 1
    assert large.worst is not None
    assert large.worst[0] == "n1"
    difference = compare(plain, large)
    assert difference.differs
    assert (difference.gained, difference.lost, difference.ratios_changed) == (("default/huge",), (), 3)
    assert not compare(plain, placed(given, configuration())).differs
    memory = placed(given, configuration('{"enable":true,"resourceAmplificationRatio":{"memory":1.5}}'))
    assert memory.ratios["n1"] == {"cpu": "1.00", "memory": "1.50"}
    assert compare(plain, memory).ratios_changed == 3


def test_faster_model_offers_more_through_normalization(tmp_path: Path) -> None:
    given = trace(tmp_path)
    text = '{"enable":true,"defaultRatio":1.20}'
    outcome = placed(given, configuration(normalization=text))
    assert {each["cpu"] for each in outcome.ratios.values()} == {"1.20"}
    assert outcome.schedulable == 135_000 * 12 // 10


def test_most_allocated_packs_pods_on_fewer_nodes(tmp_path: Path) -> None:
    header, *_ = PODS.splitlines()
    pods = "\n".join(
        [header, *(f"p{number},1000,64,0,0,,LS,Running,{number},9,9" for number in range(6)), ""]
    )
    given = trace(tmp_path, pods)
    assert placed(given, configuration(), Allocation.LEAST).nodes_used > 1
    assert placed(given, configuration(), Allocation.MOST).nodes_used == 1


def test_offline_pods_share_only_what_online_pods_leave(tmp_path: Path) -> None:
    header, *_ = PODS.splitlines()
    rows = [f"on{number},7000,1,0,0,,LS,Running,1,9,9" for number in range(2)]
    rows += [f"off{number},1000,1,0,0,,BE,Running,0,9,9" for number in range(200)]
    outcome = placed(trace(tmp_path, "\n".join([header, *rows, ""])), configuration())
    offline = [pod for pod in outcome.placed if pod.startswith("default/off")]
    free = (
        [32 - 7, 96 - 7, 7]
        if "n2" not in {outcome.placed["default/on0"], outcome.placed["default/on1"]}
        else []
    )
    assert free, "online pods go where most is left"
    assert len(offline) == sum(cpus * 60 // 100 for cpus in free)


def test_duplicate_pod_is_reported_with_its_row(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"pods.csv, line 8, column 'name': pod 'ls' is there twice"):
        trace(tmp_path, PODS + "ls,1,1,0,0,,LS,Running,1,1,1\n")


def dumped(folder: Path, *items: dict[str, Any]) -> PlanInput:
    path = folder / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": list(items)}))
    return plan_from_dump(path)


def dumped_node(
    name: str, cpu: str, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations, "labels": {"zone": name}},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def dumped_pod(
    name: str, cpu: str, *, qos: str = "LS", phase: str = "Running", **spec: Any
) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "labels": {"koordinator.sh/qosClass": qos}},
        "spec": {"containers": [container], **spec},
        "status": {"phase": phase},
    }


def test_normalized_owners_own_by_the_planned_ratio(tmp_path: Path) -> None:
    """8 normalized CPUs are 8 physical ones before, 4 at ratio 2.00; plain owners own 8 either way."""
    normalized, plain = dumped_pod("normalized", "8", qos="LSR"), dumped_pod("plain", "8", qos="LSR")
    normalized["metadata"]["annotations"] = {names.NORMALIZE_CPUSET: "true"}
    facts = {CPU_BASIC_INFO: '{"cpuModel":"Fast"}'}
    topology = {"kind": "NodeResourceTopology", "metadata": {"name": "a", "annotations": facts}}
    given = dumped(tmp_path, dumped_node("a", "32"), topology, normalized, plain)
    before = plan(given, configuration(), Allocation.LEAST)
    twice = configuration(normalization='{"enable":true,"ratioModel":{"Fast":{"baseRatio":2.00}}}')
    after = plan(given, twice, Allocation.LEAST)
    assert (before.owned, before.requested) == (16_000, 16_000)
    assert (after.owned, after.requested) == (12_000, 4_000 * 2 + 8_000 * 2)
    more = configuration('{"enable":true,"resourceAmplificationRatio":{"cpu":1.50}}')
    outcome = plan(given, more, Allocation.LEAST)
    assert (outcome.owned, outcome.requested) == (16_000, 24_000), "the user's own ratio normalizes nothing"


def test_dump_pods_are_placed_again_where_allowed(tmp_path: Path) -> None:
    given = dumped(
        tmp_path,
        dumped_node("a", "8"),
        dumped_node("b", "16", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
        dumped_pod("plain", "2", nodeName="b"),
        dumped_pod("gone", "2", phase="Succeeded"),
        dumped_pod("tolerant", "2", tolerations=[{"operator": "Exists"}]),
        dumped_pod("bound", "1", nodeSelector={"zone": "a"}, affinity=None),
        dumped_pod("owner", "4", qos="LSR"),
        dumped_pod("half", "2500m", qos="LSR"),
    )
    outcome = placed(given, configuration())
    assert outcome.placed == {"ns/plain": "a", "ns/tolerant": "b", "ns/bound": "a", "ns/owner": "a"}
    assert {pod: why.reason for pod, why in outcome.unplaced.items()} == {"ns/half": Reason.CPUS_NOT_INTEGER}
    assert outcome.owned == 4000
    assert "assumed to be cores of two threads: 2" in given.notes[0]


@pytest.mark.parametrize(
    ("rules", "node"), [(None, "a"), (QoSRules(frozenset({"ns"})), "a"), (QoSRules(), None)]
)
def test_lse_is_planned_as_its_scheduler_does(
    tmp_path: Path, rules: QoSRules | None, node: str | None
) -> None:
    """``rules``: those that the dump's policy binding states; None: it has no binding in it."""
    installed = [policy_binding(rules)] if rules else []
    given = dumped(tmp_path, dumped_node("a", "8"), dumped_pod("owner", "4", qos="LSE"), *installed)
    assert placed(given, configuration()).placed.get("ns/owner") == node


@pytest.mark.parametrize("ratio", ["1.00", "2.00"])
def test_pods_in_the_ledger_are_planned_once(tmp_path: Path, ratio: str) -> None:
    running = dumped_pod("owner", "6", qos="LSR", nodeName="a")
    running["metadata"]["uid"] = "u1"
    ledger = print_owned_cpus({"u1": CPUOwner("ns/owner", CPUSet.parse("0-5"))})
    node = dumped_node("a", "8", {name: text for name, text in ledger.items() if text})
    outcome = placed(dumped(tmp_path, node, running), amplified(ratio))
    assert (outcome.placed, outcome.owned) == ({"ns/owner": "a"}, 6000)


def test_amplified_node_is_planned_from_its_raw_amounts(tmp_path: Path) -> None:
    annotations = {
        "node.koordinator.sh/resource-amplification-ratio": '{"cpu":2.00}',
        "node.corewise.io/resource-amplification-ratio-original": "{}",
        names.RECORD_GENERATION: "1",
        **{names.recorded_raw(field, "cpu"): "32" for field in ("capacity", "allocatable")},
        **{names.recorded_applied(field, "cpu"): "64" for field in ("capacity", "allocatable")},
    }
    given = dumped(tmp_path, dumped_node("a", "64", annotations))
    plain = placed(given, configuration())
    assert (plain.raw, plain.schedulable, plain.ratios) == (32_000, 32_000, {"a": {"cpu": "1.00"}})
    assert placed(given, amplified("1.5")).schedulable == 48_000


def test_a_dump_has_its_own_configuration(tmp_path: Path) -> None:
    config = {
        "kind": "ConfigMap",
        "metadata": {"name": "slo-controller-config"},
        "data": {"resource-amplification-config": "{}"},
    }
    other = {"kind": "ConfigMap", "metadata": {"name": "other"}, "data": {"x": "y"}}
    assert dumped(tmp_path, dumped_node("a", "1"), other, config).config == config["data"]
    assert dumped(tmp_path, dumped_node("a", "1"), other).config == {}


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "no nodes in it"),
        ([{"kind": "Node", "metadata": "x"}], r"items\[0\] \(Node \?\)"),
        (
            [dumped_node("a", "1"), {"kind": "Pod", "metadata": {"name": "p"}, "spec": 7}],
            r"items\[1\] \(Pod p\)",
        ),
    ],
)
def test_dump_error_is_reported_with_its_place(
    tmp_path: Path, items: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        dumped(tmp_path, *items)


def test_cores_spread_over_numa_nodes_and_over_sockets() -> None:
    machine = arrangement(16, 2, 4, 2)
    assert {number: str(cpus) for number, cpus in machine.numa_nodes.items()} == {
        0: "0-1,8-9",
        1: "2-3,10-11",
        2: "4-5,12-13",
        3: "6-7,14-15",
    }
    assert {number: str(cpus) for number, cpus in machine.sockets.items()} == {0: "0-3,8-11", 1: "4-7,12-15"}
    assert len(arrangement(7, 2, 1, 1).cores) == 4


def described(number: int, **changes: Any) -> PlannedNode:
    """Return a node like all others but for its name, and for these changes."""
    labels = {"kubernetes.io/hostname": f"n{number}", **changes.get("labels", {})}
    meta = {"name": f"n{number}", "labels": labels}
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", **changes.get("amounts", {})}
    given = {
        "metadata": {**meta, "annotations": {"csi": f"id-{number}", **changes.get("annotations", {})}},
        "spec": changes.get("spec", {}),
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    topology = {
        "metadata": {
            "annotations": {
                "bootID": str(number),
                CPU_BASIC_INFO: CPU_FACTS.replace("Fast", "Slow"),
                **changes.get("stated", {}),
            }
        },
        **changes.get("topology", {}),
    }
    return PlannedNode(
        msgspec.convert(given, Node),
        msgspec.convert(topology, ReportedTopology),
        arrangement(8, changes.get("threads", 2), 1, 1),
    )


CPUS = {"name": "cpu", "allocatable": "8", "capacity": "8", "available": "8"}
ZONE = {"name": "node-0", "type": "Node", "resources": [CPUS]}
CPU_FACTS = '{"cpuModel": "Fast", "hyperThreadEnabled": true, "turboEnabled": true}'
RATIO = "node.koordinator.sh/resource-amplification-ratio"
KINDS: list[dict[str, Any]] = [
    {},
    {"labels": {"pool": "dense"}},
    {"labels": {"node.koordinator.sh/cpu-normalization-enabled": "false"}},
    {"labels": {"node.koordinator.sh/numa-topology-policy": "SingleNUMANode"}},
    {"annotations": {RATIO: '{"cpu":3}'}},
    {"annotations": {RATIO: "?"}},
    {"annotations": {"node.corewise.io/memory-bandwidth": "100GB/s"}},
    {"amounts": {"cpu": "16"}},
    {"amounts": {"gpu": "1"}},
    {"spec": {"unschedulable": True}},
    {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
    {"stated": {CPU_BASIC_INFO: CPU_FACTS}},
    {"stated": {"kubelet.koordinator.sh/cpu-manager-policy": '{"policy":"static","reservedCPUs":"0"}'}},
    {"topology": {"zones": [ZONE]}},
    {"topology": {"topologyPolicies": ["RestrictedPodLevel"]}},
    {"threads": 1},
]


def test_nodes_that_differ_materially_are_decided_individually() -> None:
    entry = '{"nodeSelector":{"matchLabels":{"pool":"dense"}},"resourceAmplificationRatio":{"cpu":2}}'
    policy = configuration(
        f'{{"enable":true,"resourceAmplificationRatio":{{"cpu":1.5}},"nodeConfigs":[{entry}]}}',
        '{"enable":true,"defaultRatio":1.1,"ratioModel":{"Fast":{"hyperThreadTurboEnabledRatio":1.3}}}',
    )
    nodes = [described(number, **KINDS[number % len(KINDS)]) for number in range(2 * len(KINDS))]
    together = configured(nodes, policy)
    assert together == [each for node in nodes for each in configured([node], policy)]
    assert [each.facts.name for each in together] == [node.name for node in nodes]
    assert {each.facts.labels["kubernetes.io/hostname"] for each in together} == {node.name for node in nodes}
    first = [replace(each.facts, name="", labels={}) for each in together[: len(KINDS)]]
    assert [kind for number, kind in enumerate(KINDS) if first[number] in first[:number]] == []


DATA = os.environ.get("COREWISE_TEST_DATA", "")


@pytest.mark.skipif(not DATA, reason="COREWISE_TEST_DATA names the folder of the openb trace")
def test_all_8152_trace_pods_have_node_or_reason() -> None:
    folder = Path(DATA)
    given = plan_from_openb(folder / "openb_node_list_all_node.csv", folder / "openb_pod_list_default.csv")
    outcome = placed(given, configuration())
    assert (len(given.nodes), len(given.pods)) == (1523, 8152)
    assert len(outcome.placed) + len(outcome.unplaced) == 8152
    assert outcome.overcommitted == 0
    assert len(outcome.placed) > 7500
    more = placed(given, amplified("1.5"))
    assert len(more.placed) > len(outcome.placed)
