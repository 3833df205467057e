"""Every program counts the same request of a pod.

| pod                                    | cpu in milli-CPU                             |
|----------------------------------------|----------------------------------------------|
| a request, with or without a limit     | the request                                  |
| a limit alone                          | the limit                                    |
| init containers                        | the larger of starting and running           |
| a sidecar                              | beside the containers                        |
| requests of the pod level              | those, instead of the containers'            |
| overhead                               | on top                                       |
| a container being resized              | the largest of wanted, actual and allocated  |
| a resize that is infeasible            | the larger of actual and allocated           |
| a null list, as Go marshals it         | nothing                                      |
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from corewise.agent.objects import QUOTA_PODS
from corewise.amplification import node_demand
from corewise.engine.reading import pod_facts
from corewise.kube.decoding import decode_object
from corewise.ratios.nodes import demand_of
from corewise.workload.pods import WORKLOAD_PODS


def container(request: str = "", limit: str = "", **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": request} if request else {}, "limits": {"cpu": limit} if limit else {}}
    return {"name": "c", "resources": resources, **more}


def actual(request: str, **more: Any) -> dict[str, Any]:
    """The status of a container that runs with a request, as kubelet states it since 1.32."""
    return {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": request}}, **more}]}


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
GRANTED = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}
POD_LEVEL = {"requests": {"cpu": "4"}}
CASES: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
    "request": (500, {"containers": [container("500m")]}, {}),
    "request and limit": (500, {"containers": [container("500m", "2")]}, {}),
    "limit": (2000, {"containers": [container("", "2")]}, {}),
    "limit of an init container": (
        3000,
        {"containers": [container("1")], "initContainers": [container("", "3")]},
        {},
    ),
    "sidecar": (
        3000,
        {"containers": [container("1")], "initContainers": [container("", "2", restartPolicy="Always")]},
        {},
    ),
    "pod level": (4000, {"containers": [container("1")], "resources": POD_LEVEL}, {}),
    "overhead": (1250, {"containers": [container("1")], "overhead": {"cpu": "250m"}}, {}),
    "resize to less": (3000, {"containers": [container("1")]}, actual("3")),
    "resize to more": (3000, {"containers": [container("3")]}, actual("1")),
    "infeasible": (2000, {"containers": [container("1000")]}, {**actual("2"), **INFEASIBLE}),
    "infeasible, allocated": (
        3000,
        {"containers": [container("1000")]},
        {**actual("2", allocatedResources={"cpu": "3"}), **INFEASIBLE},
    ),
    "infeasible, nothing known": (4000, {"containers": [container("4")]}, INFEASIBLE),
    "resize, allocated": (3000, {"containers": [container("1", "2")]}, GRANTED),
    "null": (1000, {"containers": [container("1")], "initContainers": None, "overhead": None}, {}),
}


@pytest.mark.parametrize(("milli", "spec", "status"), CASES.values(), ids=CASES)
def test_all_programs_count_the_same_request(
    milli: int, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    metadata = {"name": "p", "namespace": "team", "uid": "u"}
    body = msgspec.json.encode({"metadata": metadata, "spec": {"nodeName": "n1", **spec}, "status": status})
    pod = decode_object(WORKLOAD_PODS, body, "p")
    manager = node_demand([demand_of(pod)]).requests["cpu"]
    scheduler = pod_facts(pod).requests["cpu"]
    agent = decode_object(QUOTA_PODS, body, "p").cpu_request
    assert (manager, scheduler, agent) == (milli, milli, milli)


def test_an_unreadable_request_fits_nowhere() -> None:
    body = msgspec.json.encode({"spec": {"containers": [container("no amount")]}})
    pod = decode_object(WORKLOAD_PODS, body, "p")
    counted = node_demand([demand_of(pod)]).requests["cpu"]
    assert counted == pod_facts(pod).requests["cpu"] == decode_object(QUOTA_PODS, body, "p").cpu_request
    assert pod_facts(pod).problem is not None
