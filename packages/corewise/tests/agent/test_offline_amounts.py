"""Amounts of offline pods that no machine has: the pod is left alone and reported, and others are counted."""

from __future__ import annotations

import msgspec
import pytest

from agent.fake_node import container, pod
from agent.offline_node import batch_container, offline_manifest, offline_pod
from corewise.agent.kubelet import NO_POLICY
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_pods import NodePods, PodTable
from corewise.kernel.cgroups.layout import Driver, PodCgroups
from corewise.quantities import LARGEST_MILLI
from corewise.vocabulary.names import BATCH_CPU, QOS_CLASS

NAMES = PodCgroups(Driver.SYSTEMD, "/kubepods.slice")
HUGE = ("9300000000000000", "18446744073709551616", "1e64", "9" * 200)


def sort(*pods: QuotaPod) -> NodePods:
    return PodTable().sort(pods, NAMES, NO_POLICY)


@pytest.mark.parametrize("text", HUGE)
def test_offline_pod_requesting_impossible_amounts_is_left_alone(text: str) -> None:
    huge = batch_container("a")
    huge["resources"]["requests"][BATCH_CPU] = text
    found = sort(
        msgspec.convert(offline_manifest("huge", huge), QuotaPod),
        offline_pod("good", batch_container("a", limit=500)),
    )
    assert [each.name for each in found.offline] == ["default/good"]
    assert "(AmountTooLarge)" in found.problems["default/huge"]


@pytest.mark.parametrize("text", HUGE)
def test_impossibly_many_owned_cpus_are_not_offered(text: str) -> None:
    found = sort(pod("owner", container("a", request=text), labels={QOS_CLASS: "LSR"}))
    assert [each.requested for each in found.pinned] == [LARGEST_MILLI]
