"""The pods of a node: use and request in one unit, the quota in the node's CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from corewise.kube.objects import ObjectMeta, ResourceRequirements
from corewise.quantities import Ratio
from corewise.views.page.node_pods import NodeFigures, pod_records
from corewise.views.pod_table import row_of
from corewise.vocabulary.interference_report import InterferenceReport, WaitingReport
from corewise.vocabulary.names import (
    BATCH_CPU,
    NORMALIZATION_RATIO,
    NORMALIZE_CPUSET,
    QOS_CLASS,
    RESOURCE_STATUS,
    WORKLOAD_RATIOS,
)
from corewise.vocabulary.qos import QoSRules
from corewise.workload.pods import ClaimedResource, ClaimStatus, Container, Pod, PodSpec, PodStatus

RULES = QoSRules(frozenset({"default"}))
FAST = {
    NORMALIZATION_RATIO: "2.00",
    WORKLOAD_RATIOS: '[{"name":"vector","selector":{"matchExpressions":[{"key":"app","operator":"In",'
    '"values":["vector"]}]},"ratio":"2.50"}]',
}


def pod(name: str, limits: Mapping[str, str], qos: str = "Burstable", **meta: Any) -> Pod:
    container = Container("main", ResourceRequirements(limits=limits, requests=limits))
    return Pod(
        ObjectMeta(name, "default", uid=name, **meta),
        PodSpec("n1", containers=(container,)),
        PodStatus("Running", qos),
    )


SHARED = pod("shared", {"cpu": "3"})
FREE = Pod(
    ObjectMeta("free", "default", uid="free"),
    PodSpec("n1", containers=(Container("main"),)),
    PodStatus("Running", "BestEffort"),
)
OFFLINE = pod("offline", {BATCH_CPU: "3000"}, "BestEffort")
OFFLINE_VECTOR = pod("offline", {BATCH_CPU: "3000"}, "BestEffort", labels={"app": "vector"})
OWNER = pod(
    "owner",
    {"cpu": "2"},
    "Guaranteed",
    labels={QOS_CLASS: "LSE"},
    annotations={RESOURCE_STATUS: '{"cpuset":"0-1"}'},
)
NORMALIZED = pod(
    "owner",
    {"cpu": "2"},
    "Guaranteed",
    labels={QOS_CLASS: "LSE"},
    annotations={RESOURCE_STATUS: '{"cpuset":"0","requestedCPUs":2}', NORMALIZE_CPUSET: "true"},
)
NORMALIZED_VECTOR = pod(
    "owner",
    {"cpu": "2"},
    "Guaranteed",
    labels={QOS_CLASS: "LSE", "app": "vector"},
    annotations=NORMALIZED.metadata.annotations,
)
VECTOR = pod("vector", {"cpu": "3"}, labels={"app": "vector"})
CLAIMED = Pod(
    VECTOR.metadata,
    VECTOR.spec,
    PodStatus(
        "Running",
        "Burstable",
        node_allocatable_resource_claim_statuses=(ClaimStatus(direct=(ClaimedResource("cpu"),)),),
    ),
)


def records(
    *pods: Pod,
    used: Mapping[str, int] | None = None,
    report: InterferenceReport | None = None,
    owned: int = 200,
) -> list[dict[str, Any]]:
    node = NodeFigures(FAST, Ratio(owned), RULES, used or {}, report)
    return pod_records([(each, row_of(each, RULES)) for each in pods], node)


@pytest.mark.parametrize(
    ("of", "work", "limit", "quota", "used"),
    [
        (SHARED, "online", 3000, 1500, 2000),
        (OFFLINE, "offline", 3000, 1500, 2000),
        (OFFLINE_VECTOR, "offline", 3000, 1500, 2000),
        (OWNER, "CPU owner", 2000, None, 1000),
        (FREE, "online", None, None, 2000),
        (NORMALIZED, "CPU owner", 2000, None, 2000),
        (NORMALIZED_VECTOR, "CPU owner", 2000, None, 2000),
        (VECTOR, "online", 3000, 1200, 2500),
        (CLAIMED, "online", 3000, 3000, 2000),
    ],
)
def test_quota_is_raw_and_use_is_normalized(
    of: Pod, work: str, limit: int | None, quota: int | None, used: int
) -> None:
    (record,) = records(of, used={f"default/{of.metadata.name}": 1000})
    assert record["work"] == work
    assert (record["limitCPUMilli"], record["quotaRawCPUMilli"]) == (limit, quota)
    assert (record["usedRawCPUMilli"], record["usedCPUMilli"]) == (1000, used)


@pytest.mark.parametrize(("owned", "used"), [(200, 2000), (150, 1500), (100, 1000)])
def test_owner_counts_by_what_divides_owned_cpus(owned: int, used: int) -> None:
    (record,) = records(NORMALIZED, used={"default/owner": 1000}, owned=owned)
    assert record["usedCPUMilli"] == used


def test_owners_come_first_and_offline_pods_last() -> None:
    shown = records(OFFLINE, FREE, SHARED, OWNER)
    assert [each["name"] for each in shown] == [
        "default/owner",
        "default/free",
        "default/shared",
        "default/offline",
    ]
    assert {each["usedCPUMilli"] for each in shown} == {None}


def test_throttling_is_what_the_agent_reports() -> None:
    waiting = WaitingReport(
        pod="default/shared", uid="shared", reason="OwnQuotaThrottles", used=1.0, waited=0.1, throttled=0.4
    )
    report = InterferenceReport(time="", watched=2, pods=[waiting])
    free, shared = records(SHARED, FREE, report=report)
    assert (shared["throttled"], shared["waited"], shared["waits"]) == (0.4, 0.1, "OwnQuotaThrottles")
    assert (free["throttled"], free["waited"], free["waits"]) == (0.0, 0.0, None)
    unsure = InterferenceReport(time="", watched=2, unknown=1, pods=[waiting])
    assert records(FREE, report=unsure)[0]["throttled"] is None
    early = InterferenceReport(time="2026-01-01T00:00:59Z", watched=2)
    new = msgspec.structs.replace(FREE, scheduled_at="2026-01-01T00:00:00Z")
    assert records(new, report=early)[0]["throttled"] is None
    assert records(FREE)[0]["throttled"] is None
