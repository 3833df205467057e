"""Who is offline, and what becomes of requests: by table, and by random pods.

| container states | becomes |
|---|---|
| requests and limits of cpu and memory | batch resources in both; fractions rounded up |
| limits alone | the limit is the request, too |
| batch-cpu and cpu (a LimitRange's default) | batch-cpu as stated; cpu is left out |
| other resources | as they are |
| huge pages, or cpu for the whole pod | refused |
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corewise.colocation.offline import (
    ASKS_FOR_ONLINE_RESOURCES,
    IS_OFFLINE,
    offline_mark,
    online_requests,
    translated,
)
from corewise.kube.admission import operations_between
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, PRIORITY_CLASS, QOS_CLASS, QOS_LEVEL
from kubedouble.expressions import BOOLEAN, compile_expression
from kubedouble.patching.json_patch import json_patch

LEVELS = st.sampled_from(["-1", "-7", "0", "-0", "1", "BE", "LS", "", "x-1", "-01", "- 1"])
LABELS = st.fixed_dictionaries(
    {},
    optional={
        QOS_CLASS: st.sampled_from(["BE", "LS", "LSR", "be", ""]),
        PRIORITY_CLASS: st.sampled_from(["koord-batch", "koord-prod", "koord-free", ""]),
    },
)
ANNOTATIONS = st.fixed_dictionaries({}, optional={QOS_LEVEL: LEVELS})
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", BATCH_CPU, "x.io/y"]), st.just("1"), max_size=2)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
CONTAINER = st.fixed_dictionaries({"name": st.just("c")}, optional={"resources": RESOURCES})
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {},
            optional={"labels": LABELS, "annotations": ANNOTATIONS},
        ),
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(CONTAINER, min_size=1, max_size=2)},
            optional={
                "initContainers": st.lists(CONTAINER, max_size=2),
                "priority": st.sampled_from([0, 4999, 5000, 5999, 6000, -1]),
                "resources": RESOURCES,
            },
        ),
    }
)


@settings(max_examples=400, deadline=None)
@given(PODS)
def test_api_server_asks_about_pods_the_manager_changes(pod: dict[str, Any]) -> None:
    condition = (
        compile_expression(IS_OFFLINE, BOOLEAN),
        compile_expression(ASKS_FOR_ONLINE_RESOURCES, BOOLEAN),
    )
    asked = [each.evaluate({"object": pod}) for each in condition]
    assert asked == [bool(offline_mark(pod)), bool(online_requests(pod))]


@settings(max_examples=200, deadline=None)
@given(PODS)
def test_pod_is_translated_once_without_cpu_or_memory(pod: dict[str, Any]) -> None:
    before = deepcopy(pod)
    result = translated(pod)
    assert pod == before
    if result.problem:
        assert result.pod == pod
        return
    assert online_requests(result.pod) == []
    assert translated(result.pod).pod == result.pod
    operations = operations_between(pod, result.pod)
    patch = [{"op": each.op, "path": each.path, "value": each.value} for each in operations]
    assert json_patch(deepcopy(pod), patch) == result.pod


@pytest.mark.parametrize(
    ("stated", "wanted"),
    [
        (
            {"requests": {"cpu": "1.5", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1.5Gi"}},
            {
                "requests": {BATCH_CPU: "1500", BATCH_MEMORY: "1Gi"},
                "limits": {BATCH_CPU: "2000", BATCH_MEMORY: "1536Mi"},
            },
        ),
        (
            {"limits": {"cpu": "250m", "x.io/gpu": "1"}},
            {"limits": {BATCH_CPU: "250", "x.io/gpu": "1"}, "requests": {BATCH_CPU: "250"}},
        ),
        ({"requests": {"cpu": "0.0001", "memory": "1.5"}}, {"requests": {BATCH_CPU: "1", BATCH_MEMORY: "2"}}),
        (
            {"requests": {"cpu": "100m"}, "limits": {BATCH_CPU: "2000"}},
            {"requests": {BATCH_CPU: "2000"}, "limits": {BATCH_CPU: "2000"}},
        ),
        ({"claims": [{"name": "c"}]}, {"claims": [{"name": "c"}]}),
    ],
)
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_requests_become_batch_resources(field: str, stated: Any, wanted: Any) -> None:
    spec = {"containers": [], field: [{"name": "c", "resources": stated}]}
    result = translated({"spec": spec})
    assert result.problem == ""
    assert result.pod["spec"][field][0]["resources"] == wanted


def test_what_a_limit_range_added_is_named() -> None:
    resources = {"requests": {"cpu": "100m", BATCH_CPU: "2000"}}
    result = translated({"spec": {"containers": [{"name": "c", "resources": resources}]}})
    assert result.dropped == ("container c: requests.cpu 100m",)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"containers": [], "resources": {"requests": {"cpu": "1"}}}, "spec.resources"),
        ({"containers": [{"name": "c", "resources": {"limits": {"hugepages-2Mi": "1Gi"}}}]}, "huge pages"),
    ],
)
def test_pod_unfit_for_offline_is_unchanged_with_reason(spec: dict[str, Any], said: str) -> None:
    result = translated({"spec": spec})
    assert said in result.problem
    assert result.pod == {"spec": spec}
