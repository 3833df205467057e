"""Nodes with reports of their agents, for the tests of what people see of offline pods."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from corewise.kube.clock import rfc3339
from corewise.vocabulary.names import OFFLINE_REPORT, OVERSUBSCRIPTION
from corewise.vocabulary.offline_report import MemoryReport, OfferState, OfflineReport, SuppressionReport
from corewise.vocabulary.reasons import Reason

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
GIB = 2**30

STEPPING = SuppressionReport(
    mode="besteffort-quota",
    reason=Reason.SUPPRESSION_STEPPED_DOWN,
    why="from 5.6 to 4.0 of 2.5 CPUs, by at most 1.6",
    quota_milli=4000,
    target_milli=2500,
    step_milli=1600,
    repaired=2,
)
REPORT = OfflineReport(
    time="2026-11-21T02:59:48Z",
    interval_seconds=10,
    state=OfferState.FRESH,
    ratio="0.60",
    normalization_ratio="1.50",
    allocatable_milli=16_000,
    node_milli=13_000,
    online_milli=10_000,
    offline_milli=3_000,
    pinned_milli=1_900,
    offered_milli=2_500,
    raw_offer_milli=2_460,
    memory=MemoryReport(allocatable=64 * GIB, online=20 * GIB, offline=4 * GIB, offered=26 * GIB),
    samples=10,
    missing=0,
    native_best_effort=2,
    offline_pods=5,
    limited_by=Reason.OFFER_LESS_PINNED,
    suppression=STEPPING,
    online=[4_000] * 6 + [10_000] * 4,
    offline=[6_000] * 6 + [3_000] * 4,
)
"""Of a node whose online work has grown a minute ago: offline pods are being squeezed."""

AT_TARGET = msgspec.structs.replace(
    STEPPING, reason=Reason.SUPPRESSION_AT_TARGET, why="at the offer", quota_milli=8_400, target_milli=8_400
)
CALM = msgspec.structs.replace(
    REPORT,
    node_milli=3_500,
    online_milli=2_000,
    offline_milli=1_500,
    pinned_milli=0,
    offered_milli=8_400,
    raw_offer_milli=8_400,
    native_best_effort=0,
    offline_pods=2,
    limited_by=Reason.OFFER_FROM_IDLE,
    suppression=AT_TARGET,
    online=[2_000] * 10,
    offline=[1_500] * 10,
)
"""Of a node on which offline pods have all they can use."""


def changed(report: OfflineReport, **values: Any) -> OfflineReport:
    """Return the report with other values; ``suppression`` as a mapping changes that part."""
    part = values.get("suppression")
    if isinstance(part, Mapping):
        assert report.suppression
        values["suppression"] = msgspec.structs.replace(report.suppression, **part)
    return msgspec.structs.replace(report, **values)


def aged(report: OfflineReport, seconds: int, now: datetime = NOW) -> OfflineReport:
    """Return the report as if its sample had been taken so long ago."""
    return changed(report, time=(now - timedelta(seconds=seconds)).isoformat())


def heartbeat(at: datetime | None = None) -> dict[str, str]:
    """Return a Node's condition that its kubelet has just written, or wrote at a time."""
    return {"type": "Ready", "status": "True", "lastHeartbeatTime": rfc3339(at or datetime.now(UTC))}


def labeled(report: OfflineReport | None) -> dict[str, Any]:
    """Return the metadata of a Node with oversubscription on, and a report or none."""
    annotations = {} if report is None else {OFFLINE_REPORT: report.encode()}
    return {"labels": {OVERSUBSCRIPTION: "true"}, "annotations": annotations}
