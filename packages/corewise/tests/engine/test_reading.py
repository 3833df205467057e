"""What the engine reads of API objects, good and bad; nothing that they state is an error.

Pods
    LSR, 4 CPUs                                owns 4 everywhere
    LSR, 2.5 CPUs                              fits nowhere: the requested CPUs must be integer
    LSR, contradicting bind policies           fits nowhere
    Guaranteed, containers of 2 and 1          owns 3 where kubelet runs the static CPU manager
    LS, 4 CPUs                                 owns none
    no requests                                takes one pod
    a resource-status that cannot be read      counts by its requests, and is told

Nodes
    ratio garbage                              no ratio
    ratio 1.50 annotated, 2.00 recorded        2.00, until status says otherwise
    a reservation of CPUs                      they are never given out, with those of kubelet
    a reservation that cannot be read          no CPUs are given out, and is told
    zones that are not the node's              no zones
    unknown NUMA policy                        None, and is told
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.engine import NodeFacts, NodeRequirement, PodFacts, Toleration, Zone
from corewise.engine.objects import ReportedTopology
from corewise.engine.reading import NodeReading, holds_resources, placement, pod_facts, read_node_facts
from corewise.quantities import LARGEST_AMOUNT, ONE, Ratio
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import (
    BindPolicy,
    CPUBinding,
    NumaPolicy,
    parse_cpu_topology,
    print_cpu_topology,
)
from corewise.vocabulary.qos import ANY_NAMESPACE, QoSRules
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod
from node_records import recorded
from pinning.machines import machine

GIB = 1 << 30
SPEC = "scheduling.koordinator.sh/resource-spec"
STATUS = "scheduling.koordinator.sh/resource-status"
NUMA_SPEC = "scheduling.koordinator.sh/numa-topology-spec"
RATIO = "node.koordinator.sh/resource-amplification-ratio"
RESERVATION = "node.koordinator.sh/reservation"


def pod(
    *requests: str,
    qos: str = "",
    limits: bool = False,
    annotations: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    containers = [
        {
            "name": f"c{number}",
            "resources": {
                "requests": {"cpu": cpu, "memory": "1Gi"},
                "limits": {"cpu": cpu, "memory": "1Gi"} if limits else {},
            },
        }
        for number, cpu in enumerate(requests)
    ]
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    meta = {"name": "p", "namespace": "ns", "labels": labels, "annotations": annotations or {}}
    document = {"metadata": meta, "spec": {"containers": containers, **spec}, "status": status or {}}
    return msgspec.convert(document, Pod)


def test_a_cpushare_pod_owns_nothing() -> None:
    facts = pod_facts(pod("4", qos="LS"))
    assert facts == PodFacts("ns/p", {"cpu": 4000, "memory": GIB}, labels={"koordinator.sh/qosClass": "LS"})


def test_a_cpuset_pod_owns_what_it_requests_everywhere() -> None:
    facts = pod_facts(
        pod("3", "1", qos="LSR", annotations={SPEC: '{"requiredCPUBindPolicy":"SpreadByPCPUs"}'})
    )
    assert (facts.owned_by_class, facts.owned_if_static, facts.problem) == (4000, 0, None)
    assert facts.binding == CPUBinding(BindPolicy.SPREAD_BY_PCPUS, required=True)


@pytest.mark.parametrize("qos", ["LSR", "LSE"])
def test_a_cpuset_pod_must_request_whole_cpus(qos: str) -> None:
    facts = pod_facts(pod("2500m", qos=qos), ANY_NAMESPACE)
    assert facts.problem is not None
    assert facts.problem.reason is Reason.CPUS_NOT_INTEGER
    assert facts.problem.message.startswith("the requested CPUs must be integer: 2500m")


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({SPEC: "{"}, Reason.RESOURCE_SPEC_INVALID),
        ({SPEC: '{"preferredCPUBindPolicy":"ConstrainedBurst"}'}, Reason.CONSTRAINED_BURST_NOT_SERVED),
        ({SPEC: '{"requiredCPUBindPolicy":"ConstrainedBurst"}'}, Reason.CONSTRAINED_BURST_NOT_SERVED),
        ({NUMA_SPEC: '{"numaTopologyPolicy":"Tight"}'}, Reason.RESOURCE_SPEC_INVALID),
    ],
)
def test_cpuset_pod_with_impossible_request_has_a_problem(
    annotations: dict[str, str], reason: Reason
) -> None:
    facts = pod_facts(pod("2", qos="LSR", annotations=annotations))
    assert facts.problem is not None
    assert facts.problem.reason is reason


def test_bind_policy_is_ignored_for_non_owning_pod() -> None:
    assert pod_facts(pod("2", qos="LS", annotations={SPEC: "{"})).problem is None


def test_guaranteed_pod_owns_whole_cpus_kubelet_gives() -> None:
    facts = pod_facts(pod("2", "1", limits=True))
    assert (facts.owned_by_class, facts.owned_if_static) == (0, 3000)
    assert facts.owned(static_cpu_manager=True) == 3000
    assert facts.owned(static_cpu_manager=False) == 0
    assert pod_facts(pod("2", "500m", limits=True)).owned_if_static == 2000
    assert pod_facts(pod("2", status={"qosClass": "Burstable"}, limits=True)).owned_if_static == 0


def test_pod_without_requests_takes_only_its_slot() -> None:
    assert pod_facts(msgspec.convert({"metadata": {"name": "p"}, "spec": {}}, Pod)).requests == {}


def test_every_resource_is_counted_as_kubernetes_counts_it() -> None:
    spec = {
        "containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "1"}}}],
        "initContainers": [
            {"name": "i", "resources": {"requests": {"cpu": "3", "kubernetes.io/batch-cpu": "500"}}}
        ],
        "overhead": {"cpu": "250m", "memory": "bad"},
    }
    facts = pod_facts(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod))
    assert facts.requests == {
        "cpu": 3250,
        "nvidia.com/gpu": 2,
        "kubernetes.io/batch-cpu": 500,
        "memory": LARGEST_AMOUNT,
    }


def test_selector_affinity_and_tolerations_say_where_pod_goes() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
    ]
    preferred = [{"weight": 7, "preference": terms[1]}, {"weight": 1, "preference": {}}]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    constraints = pod_facts(
        pod(
            "1",
            nodeSelector={"disk": "ssd"},
            affinity={"nodeAffinity": affinity},
            tolerations=[{"operator": "Exists"}, {"key": "gpu", "value": "x", "effect": "NoSchedule"}],
        )
    ).constraints
    assert constraints.selector == (NodeRequirement("disk", "In", ("ssd",)),)
    assert constraints.affinity == (
        (NodeRequirement("zone", "In", ("a", "b")),),
        (NodeRequirement("metadata.name", "In", ("n",), field=True),),
    )
    assert constraints.preferred == ((7, constraints.affinity[1]), (1, ()))
    assert constraints.tolerations == (
        Toleration("", "Exists"),
        Toleration("gpu", "Equal", "x", "NoSchedule"),
    )


def test_a_bound_pod_is_where_its_status_says() -> None:
    text = '{"cpuset":"0-3","numaNodeResources":[{"node":1,"resources":{"cpu":"4","memory":"1Gi"}}]}'
    where, finding = placement(pod("4", qos="LSR", annotations={STATUS: text}, nodeName="n"))
    assert (where.node, where.cpus, finding) == ("n", CPUSet.parse("0-3"), None)
    assert where.zones == {1: {"cpu": 4000, "memory": GIB}}


def test_unreadable_resource_status_is_reported_and_names_nothing() -> None:
    where, finding = placement(pod("4", annotations={STATUS: '{"cpuset":"x-y"}'}, nodeName="n"))
    assert where.cpus == CPUSet()
    assert finding is not None
    assert finding.reason is Reason.RESOURCE_STATUS_INVALID
    assert finding.message.startswith("ns/p: ")


@pytest.mark.parametrize(
    ("cpu", "qos", "reason"),
    [
        ("4", "", Reason.CLAIM_WITHOUT_CLASS),
        ("4", "LS", Reason.CLAIM_WITHOUT_CLASS),
        ("10m", "LSR", Reason.CLAIM_NOT_REQUESTED),
        ("5", "LSR", Reason.CLAIM_NOT_REQUESTED),
        ("4", "LSE", Reason.QOS_CLASS_NOT_ALLOWED),
    ],
)
def test_claim_the_agent_disbelieves_names_nothing_here_either(cpu: str, qos: str, reason: Reason) -> None:
    where, finding = placement(pod(cpu, qos=qos, annotations={STATUS: '{"cpuset":"0-3"}'}, nodeName="n"))
    assert where.cpus == CPUSet()
    assert finding is not None
    assert finding.reason is reason


def test_lse_pod_fits_nowhere_unless_its_namespace_allows() -> None:
    facts = pod_facts(pod("4", qos="LSE"))
    assert facts.problem is not None
    assert facts.problem.reason is Reason.QOS_CLASS_NOT_ALLOWED
    assert facts.owned_by_class == 0
    allowed = pod_facts(pod("4", qos="LSE"), QoSRules(frozenset({"ns"})))
    assert (allowed.problem, allowed.owned_by_class) == (None, 4000)


def test_bound_unfinished_pods_hold_resources() -> None:
    assert holds_resources(pod("1", nodeName="n"))
    assert not holds_resources(pod("1"))
    assert not holds_resources(pod("1", nodeName="n", status={"phase": "Succeeded"}))


def read(
    *,
    cpus: int = 32,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    amplified: str = "",
    topology: dict[str, Any] | None = None,
    **spec: Any,
) -> NodeReading:
    amounts = {"cpu": amplified or str(cpus), "memory": "64Gi", "pods": "110", "bad": "many"}
    node = {
        "metadata": {"name": "n", "labels": labels or {}, "annotations": annotations or {}},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    stated = None if topology is None else msgspec.convert(topology, ReportedTopology)
    return read_node_facts(msgspec.convert(node, Node), stated)


def nrt(
    annotations: dict[str, str] | None = None, zones: dict[str, str] | None = None, **rest: Any
) -> dict[str, Any]:
    amounts = ("capacity", "allocatable", "available")
    return {
        "metadata": {"name": "n", "annotations": annotations or {}},
        "zones": [
            {"name": name, "type": "Node", "resources": [{"name": "cpu", **dict.fromkeys(amounts, cpu)}]}
            for name, cpu in (zones or {}).items()
        ],
        **rest,
    }


def test_a_plain_node_is_read_as_it_is() -> None:
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    reading = read(labels={"zone": "a"}, unschedulable=True, taints=taints)
    facts = reading.facts
    assert facts.allocatable == {"cpu": 32_000, "memory": 64 * GIB, "pods": 110}
    assert (facts.labels, facts.unschedulable, facts.ratio) == ({"zone": "a"}, True, ONE)
    assert [taint.key for taint in facts.taints] == ["gpu"]
    assert (facts.topology, facts.zones, facts.static_cpu_manager) == (None, (), False)
    assert reading.findings == ()


@pytest.mark.parametrize("text", ["", "{", '{"cpu":"1.5"x}', '{"cpu":0.5}', '{"cpu":99999}', "[]"])
def test_a_ratio_that_cannot_be_read_is_none(text: str) -> None:
    assert read(annotations={RATIO: text}).facts.ratio is None


@pytest.mark.parametrize(
    ("applied", "stated", "ratio"),
    [
        (None, "10", "10.00"),
        (None, "12", "1.00"),
        ("64", "12", "2.00"),
        ("384", "12", "12.00"),
        ("384", "50", "12.00"),
        ("384", "11", "12.00"),
    ],
)
def test_large_ratio_counts_once_it_was_applied(applied: str | None, stated: str, ratio: str) -> None:
    """Above 10.00 the manager's option decides, and its record shows how."""
    record = recorded({"cpu": ("32", applied)}) if applied else {}
    found = read(annotations={**record, RATIO: f'{{"cpu":{stated}}}'}, amplified=applied or "32")
    assert found.facts.ratio == Ratio.parse(ratio)


def test_while_a_ratio_changes_the_larger_one_counts() -> None:
    record = recorded({"cpu": ("32", "64")})
    assert read(annotations=record, amplified="64").facts.ratio == Ratio(200)
    assert read(annotations={**record, RATIO: '{"cpu":1.5}'}, amplified="64").facts.ratio == Ratio(200)
    assert read(annotations={**record, RATIO: '{"cpu":2.5}'}, amplified="64").facts.ratio == Ratio(250)
    assert read(annotations={RATIO: '{"cpu":1.5,"memory":1.2}'}).facts.ratio == Ratio(150)


def test_topology_gives_cpu_manager_and_cpu_arrangement() -> None:
    arrangement = machine(cores=4)
    manager = '{"policy":"static","options":{"full-pcpus-only":"true"},"reservedCPUs":"0,4"}'
    facts = read(
        topology=nrt(
            {
                "kubelet.koordinator.sh/cpu-manager-policy": manager,
                "node.koordinator.sh/cpu-topology": print_cpu_topology(arrangement),
            }
        )
    ).facts
    assert facts.static_cpu_manager
    assert facts.full_cores_only
    assert facts.reserved == CPUSet.parse("0,4")
    assert facts.topology == arrangement


@pytest.mark.parametrize(
    ("text", "reserved", "told"),
    [
        ('{"reservedCPUs":"1-2,5"}', "0-2,5", True),
        (
            '{"reservedCPUs":"3","resources":{"cpu":"4"},"applyPolicy":"ReservedCPUsOnly"}',
            "0,3",
            False,
        ),
        ('{"resources":{"cpu":"2"}}', "0,4", True),
        ('{"resources":{"cpu":"2500m"}}', "0-1,4", True),
        ('{"resources":{"cpu":3},"applyPolicy":"Default"}', "0-1,4", True),
        ('{"resources":{"cpu":"100"}}', "0-7", True),
        ('{"resources":{"memory":"2Gi"}}', "0", True),
        ("{}", "0", False),
        ("", "0", False),
    ],
)
def test_cpus_that_the_annotation_reserves_join_kubelets(text: str, reserved: str, told: bool) -> None:
    topology = nrt(
        {
            "kubelet.koordinator.sh/cpu-manager-policy": '{"policy":"none","reservedCPUs":"0"}',
            "node.koordinator.sh/cpu-topology": print_cpu_topology(machine(cores=4)),
        }
    )
    reading = read(annotations={RESERVATION: text}, topology=topology)
    assert reading.facts.reserved == CPUSet.parse(reserved)
    assert [each.reason for each in reading.findings] == [Reason.NAME_NOT_SERVED] * told
    assert reading.facts.reservation_known


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "null",
        '{"reservedCPUs":"4-2"}',
        '{"reservedCPUs":"x"}',
        '{"reservedcpus":"0-3"}',
        '{"reservedCPUs":"0","applyPolicy":"Sometimes"}',
        '{"resources":{"cpu":"many"}}',
        '{"resources":{"cpu":"-1"}}',
        '{"reservedCPUs":"' + "0," * 2100 + '"}',
    ],
)
def test_an_unreadable_reservation_is_told_and_unknown(text: str) -> None:
    reading = read(annotations={RESERVATION: text})
    assert not reading.facts.reservation_known
    assert [each.reason for each in reading.findings] == [Reason.NODE_RESERVATION_INVALID]
    assert reading.findings[0].message.startswith(f"n: annotation {RESERVATION}")


@pytest.mark.parametrize(
    ("value", "whole_cores", "told"),
    [
        ("FullPCPUsOnly", True, False),
        ("None", False, False),
        ("SpreadByPCPUs", False, True),
        ("fullpcpusonly", False, True),
    ],
)
def test_the_nodes_cpu_bind_policy(value: str, whole_cores: bool, told: bool) -> None:
    reading = read(labels={"node.koordinator.sh/cpu-bind-policy": value})
    assert reading.facts.full_cores_only is whole_cores
    assert [each.reason for each in reading.findings] == [Reason.NAME_NOT_SERVED] * told


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({"node.koordinator.sh/numa-allocate-strategy": "MostAllocated"}, {}),
        ({}, {"volcano.sh/oversubscription-types": "cpu"}),
        ({}, {"node.koordinator.sh/reservation": '{"resources":{"cpu":"4"}}'}),
        ({}, {"node.koordinator.sh/reservation": '{"reservedCPUs":"0-3"}'}),
    ],
)
def test_names_on_nodes_that_mean_nothing_are_told(
    labels: dict[str, str], annotations: dict[str, str]
) -> None:
    [finding] = read(labels=labels, annotations=annotations).findings
    [name] = {**labels, **annotations}
    assert finding.reason is Reason.NAME_NOT_SERVED
    assert finding.message.startswith(f"n: {name} of ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"detail":[{"id":0}]}',
        '{"detail":[{"id":-1,"core":0,"socket":0,"node":0}]}',
        '{"detail":[{"id":0,"core":0,"socket":0,"node":0},{"id":0,"core":1,"socket":0,"node":0}]}',
    ],
)
def test_impossible_cpu_arrangement_is_reported_and_unknown(text: str) -> None:
    reading = read(topology=nrt({"node.koordinator.sh/cpu-topology": text}))
    assert reading.facts.topology is None
    assert [each.reason for each in reading.findings] == [Reason.CPU_TOPOLOGY_INVALID]


def test_cores_numbered_within_their_socket_are_told_apart() -> None:
    cpus = [
        {"id": number, "core": number % 2, "socket": number // 2, "node": number // 2} for number in range(4)
    ]
    arrangement = parse_cpu_topology(json.dumps({"detail": cpus}))
    assert not isinstance(arrangement, str)
    assert len(arrangement.cores) == 4


@pytest.mark.parametrize(
    ("zones", "applied", "known"),
    [
        ({"node-0": "16", "node-1": "16"}, "1.00", (Zone(0, 16_000), Zone(1, 16_000))),
        ({"node-1": "24", "node-0": "24"}, "1.50", (Zone(0, 16_000), Zone(1, 16_000))),
        ({"node-0": "16", "node-1": "16", "node-2": "0"}, "1.00", (Zone(0, 16_000), Zone(1, 16_000))),
        ({f"node-{number}": "500m" for number in range(64)}, "1.00", ()),
        ({"node-0": "16"}, "1.00", ()),
        ({"node-0": "16", "node-1": "32"}, "1.00", ()),
        ({"node-0": "16", "rack": "16"}, "1.00", ()),
        ({"node-0": "16", "node-1": "16"}, "often", ()),
        ({"node-0": "16", "node-1": "16"}, "0.50", ()),
        ({"node-0": "16", "node-1": "much"}, "1.00", ()),
        ({}, "1.00", ()),
    ],
)
def test_zones_count_only_if_they_match_the_node(
    zones: dict[str, str], applied: str, known: tuple[Zone, ...]
) -> None:
    stated = nrt({"node.koordinator.sh/cpu-amplification-ratio-applied": applied}, zones)
    assert read(topology=stated).facts.zones == known


@pytest.mark.parametrize(
    ("label", "policies", "policy"),
    [
        ("", ["None"], NumaPolicy.NONE),
        ("", ["SingleNUMANodePodLevel"], NumaPolicy.SINGLE_NUMA_NODE),
        ("", ["BestEffortContainerLevel"], NumaPolicy.BEST_EFFORT),
        ("", ["Unheard"], NumaPolicy.NONE),
        ("Restricted", ["SingleNUMANodePodLevel"], NumaPolicy.RESTRICTED),
    ],
)
def test_numa_policy_comes_from_label_or_else_topology(
    label: str, policies: list[str], policy: NumaPolicy
) -> None:
    labels = {"node.koordinator.sh/numa-topology-policy": label} if label else {}
    reading = read(labels=labels, topology=nrt(topologyPolicies=policies))
    assert (reading.facts.numa_policy, reading.findings) == (policy, ())


@pytest.mark.parametrize(
    ("policy", "count", "found"),
    [
        ("Restricted", 8, []),
        ("Restricted", 16, [Reason.NUMA_ZONES_UNUSABLE]),
        ("BestEffort", 16, [Reason.NUMA_ZONES_UNUSABLE]),
        ("SingleNUMANode", 16, []),
    ],
)
def test_too_many_zones_for_sets_are_reported(policy: str, count: int, found: list[Reason]) -> None:
    stated = nrt(zones={f"node-{number}": str(32 // count) for number in range(count)})
    reading = read(labels={"node.koordinator.sh/numa-topology-policy": policy}, topology=stated)
    assert [each.reason for each in reading.findings] == found
    assert len(reading.facts.zones) == count


def test_unknown_numa_policy_counts_as_none_and_reported() -> None:
    reading = read(labels={"node.koordinator.sh/numa-topology-policy": "Tight"})
    assert reading.facts.numa_policy is NumaPolicy.NONE
    assert [each.reason for each in reading.findings] == [Reason.NUMA_POLICY_UNKNOWN]


texts = st.text(max_size=40)


def test_pods_differing_in_one_thing_are_not_confused() -> None:
    """Pods that state the same are read once: everything that is read must tell them apart."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
    made = [
        pod("4"),
        pod("5"),
        pod("4", qos="LSR"),
        pod("4", qos="LSR", annotations={SPEC: '{"requiredCPUBindPolicy":"FullPCPUs"}'}),
        pod("4", annotations={NUMA_SPEC: '{"numaTopologyPolicy":"Restricted"}'}),
        pod("4", tolerations=[{"operator": "Exists"}]),
        pod("4", nodeSelector={"zone": "a"}),
        pod("4", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}),
        pod("4", limits=True, status={"qosClass": "Guaranteed"}),
        pod("4", overhead={"cpu": "2"}),
    ]
    read = [pod_facts(each, ANY_NAMESPACE) for each in made]
    assert all(one != other for one, other in combinations(read, 2))
    assert [pod_facts(each, ANY_NAMESPACE) for each in made] == read


@given(st.dictionaries(st.sampled_from([SPEC, STATUS, NUMA_SPEC]), texts), texts)
def test_nothing_that_a_pod_states_is_an_error(annotations: dict[str, str], cpu: str) -> None:
    stated = pod("1", qos="LSR", annotations=annotations, nodeName="n")
    assert isinstance(pod_facts(stated), PodFacts)
    placement(stated)
    pod_facts(pod(cpu, qos="LSE"))


@given(
    st.dictionaries(st.sampled_from([RATIO, *recorded({"cpu": ("", "")})]), texts),
    st.dictionaries(
        st.sampled_from(
            [
                "node.koordinator.sh/cpu-topology",
                "kubelet.koordinator.sh/cpu-manager-policy",
                "node.koordinator.sh/cpu-amplification-ratio-applied",
            ]
        ),
        texts,
    ),
    st.dictionaries(texts, texts, max_size=2),
)
def test_nothing_that_a_node_states_is_an_error(
    annotations: dict[str, str], stated: dict[str, str], zones: dict[str, str]
) -> None:
    assert isinstance(read(annotations=annotations, topology=nrt(stated, zones)).facts, NodeFacts)
