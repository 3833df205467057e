"""What is recommended: only what was measured for long enough, in normalized CPUs, with its command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import ONE, Ratio
from corewise.views.page.recommended import request_of_containers
from corewise.views.recommendations import (
    WATCHED_SECONDS,
    Advice,
    NodeUse,
    PodUse,
    Recommendation,
    WaitingPod,
    Workload,
    recommend,
)
from corewise.workload.pods import Pod

WEB = Workload("Deployment", "team", "web")
POD = PodUse("team/web-1", "n1", WEB, ["main"], requested=4000, used=500, seconds=WATCHED_SECONDS)
BATCH = PodUse("team/sum-1", "n1", Workload("Deployment", "team", "sum"), ["main"], batch=2000, memory=2**30)
NODE = NodeUse("n1", raw=10_000, schedulable=20_000, requested=10_000, amplification=Ratio.parse("2.00"))
GIB = 2**30


def advice(
    *pods: PodUse,
    nodes: tuple[NodeUse, ...] = (),
    waiting: tuple[WaitingPod, ...] = (),
    suits: Collection[str] | None = None,
) -> list[Recommendation]:
    """Return the recommendations; ``suits`` are the nodes that suit every workload, None is all."""
    names = [each.name for each in nodes] if suits is None else suits
    return recommend(nodes, pods, waiting, {each.workload: names for each in pods})


UNUSED: list[tuple[str, PodUse, int | None]] = [
    ("used x 1.25, up to a tenth", POD, 700),
    ("never used: a tenth stays", replace(POD, used=0), 100),
    ("more than half is used", replace(POD, used=1700), None),
    ("watched too shortly", replace(POD, seconds=WATCHED_SECONDS - 1), None),
    ("not measured", replace(POD, used=None), None),
    ("its CPUs are its own", replace(POD, owns=True), None),
    ("a Job's template cannot change", replace(POD, workload=Workload("Job", "team", "web")), None),
    ("a static pod is a file", replace(POD, workload=Workload("Node", "team", "n1")), None),
    ("its containers do not run", replace(POD, runs=False), None),
    ("less than half a CPU to gain", replace(POD, requested=550, used=10), None),
]


@pytest.mark.parametrize(("pod", "wanted"), [case[1:] for case in UNUSED], ids=[case[0] for case in UNUSED])
def test_unused_request_is_lowered_to_what_was_used(pod: PodUse, wanted: int | None) -> None:
    found = advice(pod)
    if wanted is None:
        assert found == []
        return
    (one,) = found
    assert one.advice is Advice.UNUSED_REQUEST
    assert one.amount == pod.requested - wanted
    assert one.command == f"kubectl -n team set resources deployment/web --requests=cpu={wanted}m"


def test_busiest_pod_of_a_workload_decides_for_all() -> None:
    members = [replace(POD, name=f"team/web-{used}", used=used) for used in (100, 1000, 300)]
    (one,) = advice(*members)
    assert one.what == "Lower the CPU request of Deployment team/web from 4 to 1.3."
    assert one.why == "each of its 3 pods requests 4 normalized CPUs; the busiest used at most 1 in 5 minutes"
    assert one.amount == 3 * 2700
    assert advice(*members, replace(POD, used=3900)) == []


def test_pod_without_a_controller_is_resized_in_place() -> None:
    (one,) = advice(replace(POD, workload=Workload("", "team", "web-1")))
    words = shlex.split(one.command)
    assert words[:8] == ["kubectl", "-n", "team", "patch", "pod", "web-1", "--subresource", "resize"]
    (container,) = json.loads(words[-1])["spec"]["containers"]
    assert container == {"name": "main", "resources": {"requests": {"cpu": "700m"}}}
    (several,) = advice(replace(POD, containers=["main", "side"]))
    assert several.command == "kubectl -n team edit deployment/web"


@given(
    st.lists(st.tuples(st.integers(1, 64_000), st.integers(0, 64_000)), min_size=1, max_size=5),
)
def test_no_request_is_lowered_below_its_use(amounts: list[tuple[int, int]]) -> None:
    pods = [
        replace(POD, name=f"team/{place}", requested=asked, used=used)
        for place, (asked, used) in enumerate(amounts)
    ]
    for one in advice(*pods):
        wanted = int(one.command.rpartition("=")[2].removesuffix("m"))
        assert wanted >= max(used for _, used in amounts)
        assert wanted * 2 <= min(asked for asked, _ in amounts)
        assert one.amount == sum(asked - wanted for asked, _ in amounts)


def test_free_offer_says_how_many_more_pods_fit() -> None:
    nodes = (
        replace(NODE, offered=9000, offered_memory=100 * GIB),
        replace(NODE, name="n2", offered=5000, offered_memory=GIB),
        replace(NODE, name="n3", offered=1000, offered_memory=100 * GIB),
    )
    (one,) = advice(BATCH, nodes=nodes)
    assert one.advice is Advice.OFFER_UNREQUESTED
    assert (
        one.what == "4 more pods of Deployment team/sum could run now."
    )  # 3 on n1, and 1 on n2 by its memory
    assert one.why == "n1, n2 offer 12 normalized CPUs that no pod requests; each of its pods requests 2"
    assert one.amount == 8000
    assert one.command == "kubectl -n team scale deployment/sum --replicas=5"
    assert advice(BATCH, nodes=nodes, suits=()) == []
    (second,) = advice(BATCH, nodes=nodes, suits=["n2"])
    assert second.why.startswith("n2 offers 5 normalized CPUs that no pod requests")
    full = (replace(nodes[0], pods_left=1), *nodes[1:])
    assert advice(BATCH, nodes=full)[0].amount == 4000
    assert advice(replace(BATCH, workload=Workload("Job", "team", "sum")), nodes=nodes) == []


def test_pods_that_start_or_wait_count_among_replicas() -> None:
    nodes = (replace(NODE, offered=9000, offered_memory=100 * GIB),)
    starting, waiting = replace(BATCH, runs=False), replace(BATCH, node="", runs=False)
    (one,) = advice(BATCH, starting, waiting, nodes=nodes)
    assert one.what == "1 more pod of Deployment team/sum could run now."
    assert one.command == "kubectl -n team scale deployment/sum --replicas=4"


def test_waiting_offline_pod_that_fits_is_named() -> None:
    (one,) = advice(waiting=(WaitingPod("team/late", 2000, ["n2", "n1"]), WaitingPod("team/huge", 9000, [])))
    assert one.what == "Offline pod team/late could run now on n2."
    assert one.amount == 2000
    assert one.why == "it requests 2 normalized CPUs and waits; 2 nodes have room: n2, n1"
    assert one.command == "corewise explain pod team/late"
    (other,) = advice(waiting=(WaitingPod("team/late", 2000, ["n2"], "volcano"),))
    assert other.why.startswith(
        "it requests 2 normalized CPUs and waits for the scheduler volcano; 1 node has"
    )


TOO_FAR: list[tuple[str, NodeUse, str | None, str]] = [
    ("twice as busy as it can be", replace(NODE, used=10_000), "1.00", '{"cpu":1.00}'),
    ("a little too busy", replace(NODE, used=6000), "1.50", '{"cpu":1.50}'),
    ("busy enough", replace(NODE, used=5000), None, ""),
    ("not measured", NODE, None, ""),
    ("hardly requested: nothing is known", replace(NODE, used=9000, requested=3000), None, ""),
    ("it offers nothing", replace(NODE, used=9000, schedulable=0, requested=0), None, ""),
    ("its speed gives all of it", replace(NODE, used=10_000, normalization=Ratio.parse("2.00")), None, ""),
    (
        "memory stays, speed is not counted twice",
        replace(NODE, used=6000, normalization=Ratio.parse("1.20"), originals={"memory": "1.10"}),
        "1.50",
        '{"cpu":1.25,"memory":1.10}',
    ),
]


@pytest.mark.parametrize(
    ("node", "ratio", "original"), [case[1:] for case in TOO_FAR], ids=[case[0] for case in TOO_FAR]
)
def test_ratio_is_lowered_where_requests_would_not_fit(
    node: NodeUse, ratio: str | None, original: str
) -> None:
    found = advice(nodes=(node,))
    if ratio is None:
        assert found == []
        return
    (one,) = found
    assert one.advice is Advice.AMPLIFIED_TOO_FAR
    assert one.what.endswith(f"from 2.00 to {ratio}.")
    assert shlex.split(one.command)[4].partition("=")[2] == original


def test_largest_recommendation_comes_first() -> None:
    amounts = [
        each.amount
        for each in advice(
            POD, BATCH, nodes=(replace(NODE, used=10_000, offered=9000, offered_memory=9 * GIB),)
        )
    ]
    assert amounts == sorted(amounts, reverse=True)
    assert len(amounts) == 3


def test_records_name_their_unit_and_object() -> None:
    (one,) = advice(POD)
    assert one.record == {
        "name": "UnusedRequest team/web",
        "advice": "UnusedRequest",
        "kind": "Deployment",
        "object": "team/web",
        "what": one.what,
        "why": one.why,
        "amountCPUMilli": 3300,
        "command": one.command,
    }
    assert NODE.amplification >= ONE


def test_only_requests_of_regular_containers_can_be_lowered() -> None:
    main = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    sidecar = {"name": "log", "restartPolicy": "Always", "resources": {"requests": {"cpu": "4"}}}
    spec = {"containers": [main], "initContainers": [sidecar], "overhead": {"cpu": "250m"}}
    assert request_of_containers(msgspec.convert({"spec": spec}, Pod)) == 1000
    whole = {**spec, "resources": {"requests": {"cpu": "6"}}}
    assert request_of_containers(msgspec.convert({"spec": whole}, Pod)) == 0
