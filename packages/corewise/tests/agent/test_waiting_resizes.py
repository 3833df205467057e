"""Quotas of a pod whose resize waits, by an agent that never saw the spec before it.

Kubelet gave container a 1 CPU, and b 0.5.

journal  cgroups                        status of the containers   quotas
-------  -----------------------------  -------------------------  ----------------------------------
nothing  kubelet's                      kubelet's                  divided
nothing  kubelet's                      divided, as NRI answered   divided
nothing  divided                        kubelet's                  as they are
nothing  any                            without limits             as they are: base unknown
nothing  any                            a resize is in progress    as they are: the status may be old
nothing  unlimited                      kubelet's                  unlimited: kubelet enforces no limits
base     as left                        any                        the journal's base divided
base     resized by kubelet meanwhile   any                        kubelet's divided
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.fake_node import FakeNode, container, pod
from agent.test_agent_enforcement import WEB, Kept, expected
from corewise.agent.objects import QuotaPod
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.journal import MemoryLog
from corewise.quantities import Microseconds

KUBELETS = {"a": "1", "b": "500m"}
DIVIDED = {"a": "666m", "b": "333m"}
IN_PROGRESS = {"type": "PodResizeInProgress", "status": "True"}


def waiting(limits: dict[str, str] | None = None, *conditions: dict[str, str], **status: Any) -> QuotaPod:
    """WEB while its resize to 9 CPUs waits; ``limits`` are those in the status of its containers."""
    infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    web = pod("web", container("a", "9"), container("b", "9"))
    statuses = [
        {**msgspec.to_builtins(each), "resources": {"limits": {"cpu": limits[each.name]}}}
        if limits
        else msgspec.to_builtins(each)
        for each in web.status.container_statuses
    ]
    return pod(
        "web",
        container("a", "9"),
        container("b", "9"),
        status={"containerStatuses": statuses, "conditions": [infeasible, *conditions], **status},
    )


@pytest.fixture(params=Version)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> FakeNode:
    node = FakeNode(tmp_path, request.param)
    node.start(WEB)
    return node


def test_new_agent_divides_what_kubelet_gave(node: FakeNode) -> None:
    kept = Kept(node)
    for _ in range(2):
        assert not kept.cycle([waiting(KUBELETS)]).problems
        assert kept.quotas(WEB) == expected(node, 150)
    kept.cycle([waiting(KUBELETS)], 100)
    assert kept.quotas(WEB) == expected(node, 100)


def test_status_without_limits_leaves_the_cgroups(node: FakeNode) -> None:
    """Go writes an empty map as null, too."""
    status = msgspec.to_builtins(waiting(KUBELETS).status)
    for each in status["containerStatuses"]:
        each["resources"] = {"requests": None, "limits": None}
    Kept(node).cycle([pod("web", container("a", "9"), container("b", "9"), status=status)])
    assert [node.quota(WEB, name) for name in "ab"] == [66_667, 33_334]


def test_unseen_spec_does_not_count(node: FakeNode) -> None:
    unseen = waiting(KUBELETS, conditions=[], observedGeneration=1)
    unseen = msgspec.structs.replace(unseen, metadata=msgspec.structs.replace(unseen.metadata, generation=2))
    Kept(node).cycle([unseen])
    assert Kept(node).quotas(WEB) == expected(node, 150)


def test_divided_record_is_not_divided_again(node: FakeNode) -> None:
    kept = Kept(node)
    quotas = {**expected(node, 150), "": 150_000 if node.version is Version.V1 else 100_000}
    for _ in range(2):
        kept.cycle([waiting(DIVIDED)])
        assert kept.quotas(WEB) == quotas


def test_divided_cgroups_are_not_divided_again_without_journal(node: FakeNode) -> None:
    Kept(node).cycle([WEB])
    assert not Kept(node).cycle([waiting(KUBELETS)]).written
    assert Kept(node).quotas(WEB) == expected(node, 150)


@pytest.mark.parametrize("is_divided", [False, True])
@pytest.mark.parametrize("unknown", [waiting(), waiting(KUBELETS, IN_PROGRESS)])
def test_quota_that_nobody_states_is_left_alone(node: FakeNode, unknown: QuotaPod, is_divided: bool) -> None:
    if is_divided:
        Kept(node).cycle([WEB])
    assert not Kept(node).cycle([unknown]).written


def test_unenforced_limits_stay_unlimited(node: FakeNode) -> None:
    for name in ("", "a", "b"):
        node.write(WEB, name, None)
    assert not Kept(node).cycle([waiting(KUBELETS)]).written


@pytest.mark.parametrize("limits", [None, KUBELETS, DIVIDED])
def test_journal_gives_the_base_after_a_restart(node: FakeNode, limits: dict[str, str] | None) -> None:
    log = MemoryLog()
    Kept(node, log).cycle([WEB])
    for ratio in (200, 120, 100):
        kept = Kept(node, log)
        kept.cycle([waiting(limits)], ratio)
        assert {name: kept.quotas(WEB)[name] for name in "ab"} == {
            name: expected(node, ratio)[name] for name in "ab"
        }
        assert kept.node.quota(WEB) in {expected(node, ratio)[""], 150_000}
        assert kept.quotas(WEB)[""] == expected(node, ratio)[""] or node.version is Version.V1


@pytest.mark.parametrize("limit", [400, 3000])
@pytest.mark.parametrize("in_progress", [False, True])
def test_resize_while_no_agent_ran_counts(node: FakeNode, limit: int, in_progress: bool) -> None:
    log = MemoryLog()
    Kept(node, log).cycle([WEB])
    node.write(WEB, "", 50_000 + limit * 100)
    node.write(WEB, "a", limit * 100)
    conditions = [IN_PROGRESS] if in_progress else []
    kept = Kept(node, log)
    kept.cycle([waiting({"a": f"{limit}m", "b": "500m"}, *conditions)], 200)
    assert (node.quota(WEB, "a"), node.quota(WEB, "b")) == (limit * 50, 25_000)
    if node.version is Version.V2:
        assert node.quota(WEB) == 25_000 + limit * 50


def test_container_restarted_while_resize_waits_is_divided_once(node: FakeNode) -> None:
    kept = Kept(node)
    node.write(WEB, "a", 66_667)
    _, plain_id = waiting().status.container_statuses[0].container_id.split("://")
    kept.reconciler.answered[plain_id] = Microseconds(100_000)
    for _ in range(2):
        kept.cycle([waiting(DIVIDED)])
        assert node.quota(WEB, "a") == 66_667


def test_settled_resize_is_followed(node: FakeNode) -> None:
    kept = Kept(node)
    kept.cycle([waiting(DIVIDED)])
    kept.cycle([WEB], 200)
    assert kept.quotas(WEB) == expected(node, 200)


def test_pod_that_stops_sharing_regains_its_quota(node: FakeNode) -> None:
    kept = Kept(node)
    kept.cycle([waiting(KUBELETS)])
    claims = [{"resourceClaimName": "c", "direct": [{"name": "cpu", "quantity": "1"}]}]
    kept.cycle([waiting(KUBELETS, nodeAllocatableResourceClaimStatuses=claims)])
    assert kept.quotas(WEB) == expected(node, 100)
