"""The quota that the page shows of a pod is the one that the agent writes."""

from __future__ import annotations

from typing import Any

import pytest

from agent.fake_node import container, pod
from corewise.views.page.documents import quota_record
from corewise.vocabulary.names import NORMALIZATION_RATIO
from corewise.vocabulary.qos import DEFAULT_RULES

CLAIMS = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c", "direct": [{"name": "cpu"}]}]}


@pytest.mark.parametrize(
    ("status", "sharing", "quota"), [({}, "CPUShare pod", 50_000), (CLAIMS, "not a CPUShare pod", 100_000)]
)
def test_page_divides_no_quota_with_claimed_cpu(status: dict[str, Any], sharing: str, quota: int) -> None:
    web = pod("web", container("a", "1"), status=status)
    record = quota_record(web, {NORMALIZATION_RATIO: "2.00"}, DEFAULT_RULES, owns=False)
    assert record["sharing"] == sharing
    assert record["containers"] == [{"name": "a", "limitCPUMilli": 1000, "quotaMicroseconds": quota}]
