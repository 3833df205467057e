"""What is written into a NodeResourceTopology, what is left to others, and when nothing is written."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import machine_trees
from corewise.agent.topology_report import NO_DEMAND, TopologyReport, ZoneDemand, topology_change, zone_demand
from corewise.config.facts import CPUFacts, parse_cpu_basic_info
from corewise.kernel.machine import MachineReading, read_machine
from corewise.kube.client import Client, PatchType
from corewise.kube.config import load_config
from corewise.kube.errors import Conflict
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES
from corewise.quantities import ONE, AmplifiedMilli, Bytes, Quantity, Ratio
from corewise.topology import Topology
from corewise.vocabulary.names import (
    CPU_BASIC_INFO,
    CPU_EVALUATION,
    CPU_RATIO_APPLIED,
    MACHINE_RAW_ALLOCATABLE,
    MACHINE_RAW_CAPACITY,
)
from corewise_lab.control_plane import apply
from kubedouble import LocalAPIServer
from kubedouble.patching.json_patch import merge_patch
from shipped import definition

MODEL = "Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz"
HALF = Ratio(150)
KIBI = 1024
USABLE_0 = 197_000_000 - 1024 * 2048 - 4 * 1048576

Object = dict[str, Any]


@pytest.fixture(scope="module")
def intel(tmp_path_factory: pytest.TempPathFactory) -> MachineReading:
    return read_machine(machine_trees.intel(tmp_path_factory.mktemp("intel")).root)


def report_of(machine: MachineReading, ratio: Ratio = HALF, uid: str = "u1") -> TopologyReport:
    return TopologyReport("n1", uid, machine.cpu, machine.host, ratio)


def created(report: TopologyReport) -> Object:
    change = topology_change(report, None)
    assert change is not None
    assert change.create
    return change.body


def after(report: TopologyReport, existing: Object) -> Object:
    """Return the object after the change; it must be enough, and not touch what it was given."""
    before = copy.deepcopy(existing)
    change = topology_change(report, existing)
    assert existing == before
    assert change is not None
    assert not change.create
    result = merge_patch(existing, change.body)
    assert topology_change(report, result) is None
    return result


def amounts(zone: Object) -> dict[str, tuple[str, str, str]]:
    return {r["name"]: (r["capacity"], r["allocatable"], r["available"]) for r in zone["resources"]}


def test_new_object_states_facts_ratio_owner_and_zones(
    intel: MachineReading,
) -> None:
    body = created(report_of(intel))
    metadata = body["metadata"]
    assert metadata["name"] == "n1"
    assert metadata["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}]
    annotations = metadata["annotations"]
    facts = parse_cpu_basic_info(annotations[CPU_BASIC_INFO])
    assert facts == CPUFacts(MODEL, hyper_threading=True, turbo=True, l3_mask="7ff", vendor="GenuineIntel")
    assert json.loads(annotations[MACHINE_RAW_CAPACITY]) == {"cpu": "16", "memory": "395000000Ki"}
    assert annotations[CPU_RATIO_APPLIED] == "1.50"
    assert [(zone["name"], zone["type"]) for zone in body["zones"]] == [
        ("node-0", "Node"),
        ("node-1", "Node"),
    ]
    cpu, memory = amounts(body["zones"][0]).values()
    assert cpu == ("12", "12", "12")
    assert {Quantity.parse(each).units for each in memory} == {USABLE_0 * KIBI}


def test_nothing_is_written_where_nothing_differs(intel: MachineReading) -> None:
    assert topology_change(report_of(intel), created(report_of(intel))) is None


def test_equal_amounts_in_another_notation_are_no_change(intel: MachineReading) -> None:
    body = created(report_of(intel))
    for zone in body["zones"]:
        zone["resources"][0] |= {"capacity": 12, "allocatable": "12000m", "available": "12.0"}
    info = json.loads(body["metadata"]["annotations"][CPU_BASIC_INFO])
    body["metadata"]["annotations"][CPU_BASIC_INFO] = json.dumps(dict(reversed(info.items())))
    assert topology_change(report_of(intel), body) is None


def test_new_ratio_and_its_zones_share_one_patch(intel: MachineReading) -> None:
    existing = created(report_of(intel)) | {}
    existing["metadata"]["resourceVersion"] = "7"
    change = topology_change(report_of(intel, Ratio(115)), existing)
    assert change is not None
    assert change.body["metadata"] == {"annotations": {CPU_RATIO_APPLIED: "1.15"}, "resourceVersion": "7"}
    assert amounts(change.body["zones"][1])["cpu"] == ("9200m", "9200m", "9200m")
    assert change.why == f"differs: {CPU_RATIO_APPLIED}, zones"


def test_what_others_own_is_kept(intel: MachineReading) -> None:
    existing = created(report_of(intel, ONE))
    gpu = {"name": "nvidia.com/gpu", "capacity": 2, "allocatable": 2, "available": 1}
    existing["zones"][0]["resources"].insert(0, gpu)
    existing["zones"][0] |= {
        "costs": [{"name": "node-1", "value": 21}],
        "attributes": [{"name": "a", "value": "b"}],
    }
    socket = {"name": "socket-0", "type": "Socket", "resources": [gpu]}
    named_alike = {"name": "node-0", "type": "Die", "resources": [gpu]}
    existing["zones"] += [socket, named_alike]
    existing["metadata"]["annotations"]["kubelet.koordinator.sh/cpu-manager-policy"] = "{}"
    existing["metadata"]["ownerReferences"].append(
        {"kind": "Other", "name": "x", "uid": "u9", "apiVersion": "v1"}
    )
    existing["attributes"] = [{"name": "topologyManagerPolicy", "value": "none"}]
    result = after(report_of(intel), existing)
    zone = result["zones"][0]
    assert zone["resources"][0] == gpu
    assert [resource["name"] for resource in zone["resources"]] == ["nvidia.com/gpu", "cpu", "memory"]
    assert zone["costs"] == [{"name": "node-1", "value": 21}]
    assert zone["attributes"] == [{"name": "a", "value": "b"}]
    assert result["zones"][2:] == [socket, named_alike]
    assert result["metadata"]["annotations"]["kubelet.koordinator.sh/cpu-manager-policy"] == "{}"
    assert len(result["metadata"]["ownerReferences"]) == 2
    assert result["attributes"] == existing["attributes"]


def test_zones_of_removed_numa_nodes_keep_others_resources(intel: MachineReading) -> None:
    existing = created(report_of(intel))
    gpu = {"name": "nvidia.com/gpu", "capacity": "2", "allocatable": "2", "available": "2"}
    cpu = {"name": "cpu", "capacity": "2", "allocatable": "2", "available": "2"}
    existing["zones"].insert(0, {"name": "node-7", "type": "Node", "resources": [cpu, gpu]})
    existing["zones"].append({"name": "node-8", "type": "Node", "resources": [cpu]})
    zones = after(report_of(intel), existing)["zones"]
    assert [zone["name"] for zone in zones] == ["node-7", "node-0", "node-1"]
    assert zones[0]["resources"] == [gpu]


def test_object_of_another_creator_becomes_owned_by_node(intel: MachineReading) -> None:
    existing: Object = {"metadata": {"name": "n1"}, "topologyPolicies": ["SingleNUMANode"], "zones": []}
    result = after(report_of(intel), existing)
    assert result["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert result["topologyPolicies"] == ["SingleNUMANode"]
    assert len(result["zones"]) == 2


def test_recreated_node_replaces_its_predecessor_as_owner(intel: MachineReading) -> None:
    result = after(report_of(intel, uid="u2"), created(report_of(intel)))
    assert [owner["uid"] for owner in result["metadata"]["ownerReferences"]] == ["u2"]


def test_nulls_for_lists_and_maps_are_empty(intel: MachineReading) -> None:
    existing: Object = {"metadata": {"annotations": None, "ownerReferences": None}, "zones": None}
    assert len(after(report_of(intel), existing)["zones"]) == 2


def test_an_unreadable_annotation_is_written_anew(intel: MachineReading) -> None:
    existing = created(report_of(intel))
    existing["metadata"]["annotations"][CPU_BASIC_INFO] = "{" * 20
    assert json.loads(after(report_of(intel), existing)["metadata"]["annotations"][CPU_BASIC_INFO])


def test_facts_that_could_not_be_read_are_omitted(intel: MachineReading) -> None:
    cpu = replace(intel.cpu, turbo=None, l3_mask=None)
    host = replace(intel.host, memory_total=None, memory={})
    body = created(TopologyReport("n1", "u1", cpu, host, ONE))
    info = json.loads(body["metadata"]["annotations"][CPU_BASIC_INFO])
    assert set(info) == {"cpuModel", "hyperThreadEnabled", "vendorID"}
    assert json.loads(body["metadata"]["annotations"][MACHINE_RAW_CAPACITY]) == {"cpu": "16"}
    assert [list(amounts(zone)) for zone in body["zones"]] == [["cpu"], ["cpu"]]


def test_kubelet_leftover_is_reported_with_its_record_generation(intel: MachineReading) -> None:
    known = replace(report_of(intel), allocatable={"cpu": "15500m"}, generation="7")
    annotations = created(known)["metadata"]["annotations"]
    assert json.loads(annotations[MACHINE_RAW_CAPACITY])["generation"] == "7"
    assert json.loads(annotations[MACHINE_RAW_ALLOCATABLE]) == {"cpu": "15500m"}
    later = after(replace(known, generation="8"), created(known))["metadata"]["annotations"]
    assert json.loads(later[MACHINE_RAW_CAPACITY])["generation"] == "8"


def test_kubelet_leftover_is_removed_when_no_longer_known(intel: MachineReading) -> None:
    known = replace(report_of(intel), allocatable={"cpu": "15500m"})
    unknown = after(report_of(intel), created(known))
    assert MACHINE_RAW_ALLOCATABLE not in unknown["metadata"]["annotations"]


def test_a_missing_evaluation_is_written_again(intel: MachineReading) -> None:
    known = replace(report_of(intel), evaluation='{"time":"t"}')
    existing = created(known)
    assert topology_change(known, existing) is None
    assert topology_change(report_of(intel), existing) is None  # before its first slot an agent knows none
    del existing["metadata"]["annotations"][CPU_EVALUATION]
    assert after(known, existing)["metadata"]["annotations"][CPU_EVALUATION] == '{"time":"t"}'


def test_offline_cpus_and_memory_only_nodes_count_nothing(tmp_path: Path) -> None:
    offline = read_machine(machine_trees.offline(tmp_path / "a").root)
    zones = created(report_of(offline, ONE))["zones"]
    assert [amounts(zone)["cpu"][0] for zone in zones] == ["6", "7"]
    memory_only = read_machine(machine_trees.sub_numa(tmp_path / "b").root)
    zones = created(report_of(memory_only, ONE))["zones"]
    assert [amounts(zone)["cpu"][0] for zone in zones] == ["4", "4", "0"]


DEMAND = [
    # annotation, (milli-CPU, bytes) of node 0 and 1 under ratio 1.50
    ('{"cpuset":"0-1,8"}', (4500, 0), (0, 0)),
    ('{"cpuset":"3-4"}', (1500, 0), (1500, 0)),
    ('{"numaNodeResources":[{"node":1,"resources":{"cpu":"2500m","memory":"1Gi"}}]}', (0, 0), (2500, 2**30)),
    (
        '{"cpuset":"0","numaNodeResources":[{"node":0,"resources":{"cpu":1,"memory":1024}}]}',
        (1500, 1024),
        (0, 0),
    ),
    ('{"cpuset":"400"}', (0, 0), (0, 0)),
    ('{"cpuset":"0-"}', (0, 0), (0, 0)),
    ('{"cpuset":7}', (0, 0), (0, 0)),
    ('{"numaNodeResources":[{"node":0,"resources":{"cpu":"a lot"}}]}', (0, 0), (0, 0)),
    ('{"numaNodeResources":[{"node":0,"resources":{"cpu":"-3"}}]}', (0, 0), (0, 0)),
    ("{}", (0, 0), (0, 0)),
    ("not JSON", (0, 0), (0, 0)),
]


@pytest.mark.parametrize(("annotation", "node_0", "node_1"), DEMAND)
def test_pods_take_from_zones_what_their_placement_states(
    intel: MachineReading, annotation: str, node_0: tuple[int, int], node_1: tuple[int, int]
) -> None:
    demand = zone_demand([annotation], intel.host.topology, HALF)
    found = [demand.get(node, NO_DEMAND) for node in (0, 1)]
    assert [(each.cpu, each.memory) for each in found] == [node_0, node_1]


def test_available_is_allocatable_less_what_placed_pods_take(intel: MachineReading) -> None:
    statuses = [
        '{"cpuset":"0-1"}',
        '{"cpuset":"2","numaNodeResources":[{"node":0,"resources":{"memory":"1Gi"}}]}',
    ]
    demand = zone_demand(statuses, intel.host.topology, HALF)
    zones = created(replace(report_of(intel), demand=demand))["zones"]
    assert amounts(zones[0])["cpu"] == ("12", "12", "7500m")
    free = [Quantity.parse(each).units for each in amounts(zones[0])["memory"]]
    assert free[1] - free[2] == 2**30
    assert amounts(zones[1])["cpu"] == ("12", "12", "12")


def test_available_is_never_below_nothing(intel: MachineReading) -> None:
    demand = {0: ZoneDemand(AmplifiedMilli(99_000), Bytes(2**60))}
    zone = created(replace(report_of(intel), demand=demand))["zones"][0]
    assert [each[2] for each in amounts(zone).values()] == ["0", "0"]


@given(st.text(max_size=60))
def test_no_annotation_breaks_the_sum(text: str) -> None:
    zone_demand([text], Topology(()), HALF)


RESOURCES = st.fixed_dictionaries(
    {"name": st.sampled_from(["cpu", "memory", "gpu"])},
    optional=dict.fromkeys(
        ("capacity", "allocatable", "available"), st.sampled_from(["12", 12, "12000m", "?", "1Gi"])
    ),
)
ZONES = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["node-0", "node-1", "node-9", "node-x", "s0"]),
            "type": st.sampled_from(["Node", "Die"]),
        },
        optional={"resources": st.lists(RESOURCES, max_size=4), "costs": st.just([])},
    ),
    max_size=4,
)


@given(ZONES, st.integers(100, 500))
def test_one_change_settles_any_zones_keeping_others_resources(
    intel: MachineReading, zones: list[Object], ratio: int
) -> None:
    report = report_of(intel, Ratio(ratio))
    existing = created(report) | {"zones": zones}
    change = topology_change(report, existing)
    result = merge_patch(existing, change.body) if change else existing
    assert topology_change(report, result) is None

    def foreign(of: list[Object]) -> list[Object]:
        own = {"cpu", "memory"}
        return [
            {**zone, "resources": kept}
            for zone in of
            if (
                kept := [
                    r for r in zone.get("resources", []) if zone["type"] != "Node" or r["name"] not in own
                ]
            )
            or zone["type"] != "Node"
        ]

    assert [z for z in foreign(result["zones"]) if z["name"] != "node-x"] == [
        z for z in foreign(zones) if z["name"] != "node-x"
    ]


async def test_api_server_accepts_the_report_and_reports_conflicts(
    api_server: LocalAPIServer, tmp_path: Path, intel: MachineReading
) -> None:
    resource = NODE_RESOURCE_TOPOLOGIES.typed(dict)
    api_server.write_kubeconfig(tmp_path / "kubeconfig")
    async with Client(load_config(str(tmp_path / "kubeconfig"))) as client:
        await apply(client, definition("noderesourcetopologies.topology.node.k8s.io"))
        uid = (await client.create(NODES, {"metadata": {"name": "n1"}})).metadata.uid
        stored = await client.create(resource, created(report_of(intel, ONE, uid)))
        assert topology_change(report_of(intel, ONE, uid), stored) is None
        change = topology_change(report_of(intel, HALF, uid), stored)
        assert change is not None
        patched = await client.patch(resource, "n1", change.body, type=PatchType.MERGE)
        assert topology_change(report_of(intel, HALF, uid), patched) is None
        with pytest.raises(Conflict):
            await client.patch(resource, "n1", change.body, type=PatchType.MERGE)
