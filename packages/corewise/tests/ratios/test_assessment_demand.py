"""What pods demand of their node."""

from __future__ import annotations

import pytest

from corewise.kube.objects import ResourceRequirements
from corewise.ratios.nodes import demand_of, demand_of_node, view_of
from corewise.vocabulary.names import (
    CPU_MANAGER_POLICY,
    RESOURCE_STATUS,
)
from corewise.workload.nodes import Node, NodeStatus
from corewise.workload.pods import Container, Pod, PodSpec


def pod(cpu: str, **annotations: str) -> Pod:
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": cpu}))
    bare = Pod(spec=PodSpec(node_name="n1", containers=(container,)))
    if not annotations:
        return bare
    meta = type(bare.metadata)(annotations=annotations, labels={"koordinator.sh/qosClass": "LSR"})
    return Pod(metadata=meta, spec=bare.spec)


def test_requests_are_summed_and_owned_cpus_told_apart() -> None:
    owner = pod("2", **{RESOURCE_STATUS: '{"cpuset":"0-1"}'})
    demand = demand_of_node([pod("500m"), owner], None)
    assert demand.requests["cpu"] == 2500
    assert demand.cpuset_milli == 2000


DEEP = '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cpuset":"a-b"}', '{"cpuset":7}', pytest.param(DEEP, id="deep")]
)
def test_an_unreadable_cpuset_owns_nothing(text: str) -> None:
    assert demand_of(pod("2", **{RESOURCE_STATUS: text})).exclusive_cpus == frozenset()


@pytest.mark.parametrize("text", ["", "static", '{"policy":"none"}', '{"policy":1}'])
def test_only_a_readable_static_policy_is_one(text: str) -> None:
    assert demand_of_node([pod("2")], {CPU_MANAGER_POLICY: text}).cpuset_milli == 0


def test_view_sums_its_demand_once_however_often_needed() -> None:
    asked: list[str] = []

    def pods() -> list[Pod]:
        asked.append("pods")
        return []

    node = Node(status=NodeStatus(allocatable={"cpu": "4"}))
    view = view_of(node, None, pods)
    assert (view.free_cpu(), view.demand().requests["cpu"]) == (4000, 0)
    assert asked == ["pods"]
