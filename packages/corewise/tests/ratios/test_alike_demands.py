"""Pods alike are reckoned once: a node's demand is what its pods reckoned one by one come to."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from corewise.quantities import Quantity
from corewise.ratios.alike import Demands, RequestingPod
from corewise.ratios.nodes import demand_of_node
from corewise.topology import CPUSet
from corewise.vocabulary.names import CPU_MANAGER_POLICY, QOS_CLASS, RESOURCE_STATUS
from corewise.vocabulary.owned_cpus import CPUOwner, print_owned_cpus
from corewise.workload.pods import Pod

AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "10m", "0.5", "1", "2", "3", "x"]),
        "memory": st.sampled_from(["1Gi", "1500"]),
        "nvidia.com/gpu": st.just("1"),
    },
)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
NAMES = st.sampled_from(["a", "b"])
CONTAINER = st.fixed_dictionaries(
    {"name": NAMES},
    optional={"resources": RESOURCES, "restartPolicy": st.just("Always"), "image": st.just("x")},
)
GRANTED = st.fixed_dictionaries(
    {"name": NAMES},
    optional={"allocatedResources": st.none() | AMOUNTS, "resources": st.none() | RESOURCES},
)
CONDITION = st.fixed_dictionaries(
    {"type": st.sampled_from(["PodResizePending", "Ready"])},
    optional={"reason": st.sampled_from(["Infeasible", "Deferred"]), "lastTransitionTime": st.none()},
)
CLAIMS = st.sampled_from(["{", '{"cpuset":"0"}', '{"cpuset":"1-2"}'])
POD = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "name": NAMES,
                "uid": st.sampled_from(["1", "2", "3", ""]),
                "labels": st.fixed_dictionaries(
                    {"app": NAMES}, optional={QOS_CLASS: st.sampled_from(["LS", "LSR", "LSE"])}
                ),
                "annotations": st.fixed_dictionaries(
                    {},
                    optional={RESOURCE_STATUS: CLAIMS},
                ),
            },
        ),
        "spec": st.fixed_dictionaries(
            {"nodeName": st.just("n")},
            optional={
                "containers": st.none() | st.lists(CONTAINER, max_size=2),
                "initContainers": st.none() | st.lists(CONTAINER, max_size=2),
                "overhead": st.none() | AMOUNTS,
                "resources": RESOURCES,
            },
        ),
    },
    optional={
        "status": st.fixed_dictionaries(
            {},
            optional={
                "phase": st.sampled_from(["Running", "Succeeded"]),
                "qosClass": st.sampled_from(["Guaranteed", "Burstable"]),
                "containerStatuses": st.none() | st.lists(GRANTED, max_size=2),
                "initContainerStatuses": st.none() | st.lists(GRANTED, max_size=2),
                "conditions": st.none() | st.lists(CONDITION, max_size=2),
            },
        )
    },
)
OWNERS = {"1": CPUOwner("ns/a", CPUSet.parse("4-5"), request=3), "9": CPUOwner("ns/b", CPUSet.parse("6"))}
LEDGERS = st.sampled_from([{}, print_owned_cpus(OWNERS)])


RUNS_WITH = {"name": "a", "resources": {"requests": {"cpu": "2"}}}
RESIZED = {
    "metadata": {},
    "spec": {"nodeName": "n", "containers": [{"name": "a", "resources": {"requests": {"cpu": "3"}}}]},
    "status": {
        "containerStatuses": [RUNS_WITH],
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
    },
}


@example([RESIZED, {**RESIZED, "status": {"containerStatuses": [RUNS_WITH]}}], {}, "none")
@given(st.lists(POD, max_size=6), LEDGERS, st.sampled_from(["static", "none"]))
def test_demand_is_that_of_pods_one_by_one(pods: list[Any], ledger: Any, policy: str) -> None:
    where = ({CPU_MANAGER_POLICY: f'{{"policy":"{policy}"}}'}, ledger, Quantity.of_milli(8000))
    demands = Demands()
    expected = demand_of_node(msgspec.convert(pods, list[Pod]), *where)
    for _ in range(2):
        assert demands.of_node(msgspec.convert(pods, list[RequestingPod]), *where) == expected
