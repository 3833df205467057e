"""Which quota each cgroup of a pod has. All cases:

pod                                             pod cgroup          container cgroup
----------------------------------------------  ------------------  -------------------------------------
every container limited                         sum of limits       its limit
a container without limit                       unlimited           limited ones: their limit
init container needing more than all others     the init's          its limit
sidecar (init, restartPolicy Always)            counts in the sum   its limit
overhead                                        on top              not touched by it
pod-level limit                                 the pod-level's     its own, else the pod-level's
no limit at all                                 unlimited           unlimited

Each divided by the ratio, at least 1000 us; on v1 the pod's at least the largest base of a container.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.fake_node import container, pod
from corewise.agent.kubelet import NO_POLICY, UNKNOWN_POLICY, CPUManager
from corewise.agent.objects import QuotaPod
from corewise.agent.quota_targets import spec_in_force, targets_of
from corewise.agent.quotas import Sharing, divided, sharing_of, undivided
from corewise.kernel.cgroups.layout import Driver, PodCgroups
from corewise.kernel.errors import UnsafeName
from corewise.quantities import Microseconds, Ratio
from corewise.vocabulary.names import QOS_CLASS
from corewise.vocabulary.qos import DEFAULT_RULES

NAMES = PodCgroups(Driver.SYSTEMD, "/kubepods.slice")
PERIOD = Microseconds(100_000)
SIDECAR = {"restartPolicy": "Always"}


def quotas(
    of: QuotaPod, ratio: int = 100, *, v1: bool = False, period: int = PERIOD
) -> dict[str, int | None]:
    return {
        target.container: divided(target, Microseconds(period), Ratio(ratio), above_bases=v1).quota
        for target in targets_of(of, of.spec, NAMES)
    }


CASES: list[tuple[str, QuotaPod, int, dict[str, int | None]]] = [
    ("one container", pod("p", container("a", "1")), 120, {"": 83_334, "a": 83_334}),
    ("two CPUs", pod("p", container("a", "2")), 120, {"": 166_667, "a": 166_667}),
    ("divides evenly", pod("p", container("a", "2300m")), 115, {"": 200_000, "a": 200_000}),
    ("never below the kernel's floor", pod("p", container("a", "10m")), 120, {"": 1000, "a": 1000}),
    (
        "several containers",
        pod("p", container("a", "1"), container("b", "500m")),
        150,
        {"": 100_000, "a": 66_667, "b": 33_334},
    ),
    (
        "one without limit",
        pod("p", container("a", "1"), container("b", request="1")),
        200,
        {"": None, "a": 50_000, "b": None},
    ),
    ("no limit at all", pod("p", container("a")), 200, {"": None, "a": None}),
    (
        "a large init container",
        pod("p", container("a", "1"), init=[container("i", "4")]),
        200,
        {"": 200_000, "a": 50_000, "i": 200_000},
    ),
    (
        "a sidecar counts with the containers, and with the init containers after it",
        pod("p", container("a", "1"), init=[container("s", "1", **SIDECAR), container("i", "3")]),
        200,
        {"": 200_000, "a": 50_000, "s": 50_000, "i": 150_000},
    ),
    (
        "overhead is the pod's",
        pod("p", container("a", "1"), overhead={"cpu": "250m"}),
        125,
        {"": 100_000, "a": 80_000},
    ),
    (
        "a pod-level limit is the pod's and that of who has none",
        pod("p", container("a", "1"), container("b"), resources={"limits": {"cpu": "3"}}),
        150,
        {"": 200_000, "a": 66_667, "b": 200_000},
    ),
]


@pytest.mark.parametrize(("of", "ratio", "expected"), [each[1:] for each in CASES], ids=[e[0] for e in CASES])
def test_quotas_are_kubelets_divided_by_the_ratio(
    of: QuotaPod, ratio: int, expected: dict[str, int | None]
) -> None:
    assert quotas(of, ratio) == expected


def test_the_period_is_that_of_the_cgroup() -> None:
    assert quotas(pod("p", container("a", "1")), 150, period=20_000) == {"": 13_334, "a": 13_334}


def test_v1_pod_keeps_room_for_undivided_container_restarts() -> None:
    several = pod("p", container("a", "1"), container("b", "2"), container("c", "1"))
    assert quotas(several, 200, v1=True) == {"": 200_000, "a": 50_000, "b": 100_000, "c": 50_000}
    assert quotas(several, 150, v1=True)[""] == 266_667


LIMITS = st.sampled_from(["", "1m", "10m", "100m", "333m", "1", "1500m", "2", "7", "64"])


@given(
    limits=st.lists(LIMITS, min_size=1, max_size=4),
    init=st.lists(st.tuples(LIMITS, st.booleans()), max_size=3),
    pod_level=LIMITS,
    overhead=LIMITS,
    ratio=st.integers(100, 500),
    v1=st.booleans(),
    period=st.sampled_from([1000, 10_000, 100_000, 1_000_000]),
)
def test_container_quota_never_exceeds_its_pod_or_kubelet(
    limits: list[str],
    init: list[tuple[str, bool]],
    pod_level: str,
    overhead: str,
    ratio: int,
    v1: bool,
    period: int,
) -> None:
    spec: dict[str, Any] = {"resources": {"limits": {"cpu": pod_level}}} if pod_level else {}
    if overhead:
        spec["overhead"] = {"cpu": overhead}
    of = pod(
        "p",
        *(container(f"c{index}", limit) for index, limit in enumerate(limits)),
        init=[
            container(f"i{index}", limit, **(SIDECAR if sidecar else {}))
            for index, (limit, sidecar) in enumerate(init)
        ],
        **spec,
    )
    bases, now = quotas(of, period=period), quotas(of, ratio, v1=v1, period=period)
    for name, base in bases.items():
        quota = now[name]
        assert (quota is None) == (base is None)
        if quota is not None and base is not None:
            assert 1000 <= quota <= base
            assert quota * ratio >= base * 100
            bound = now[""]
            assert bound is None or pod_level or quota <= bound
            if v1 and bound is not None and name and not pod_level:
                assert base <= bound


def test_the_way_back_is_kubelets_own_quota() -> None:
    for target in targets_of(
        pod("p", container("a", "1500m")), pod("p", container("a", "1500m")).spec, NAMES
    ):
        back = undivided(target, PERIOD, "why")
        assert (back.quota, back.base) == (150_000, 150_000)


def test_cgroups_are_those_of_running_containers() -> None:
    of = pod("p", container("a", "1"), container("b", "1"), init=[container("i", "1")])
    ended = of.status.init_container_statuses[0]
    assert ended.runs
    status = {
        "initContainerStatuses": [{"name": "i", "containerID": "containerd://x", "state": {"terminated": {}}}]
    }
    of = pod("p", container("a", "1"), container("b", "1"), init=[container("i", "1")], status=status)
    of_pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poduid_p.slice"
    assert [target.cgroup for target in targets_of(of, of.spec, NAMES)] == [
        of_pod,
        f"{of_pod}/cri-containerd-pa.scope",
        f"{of_pod}/cri-containerd-pb.scope",
    ]


@pytest.mark.parametrize("bad", ["../../evil", "a/b", "", "x" * 300])
def test_container_id_that_could_escape_is_refused(bad: str) -> None:
    status = {
        "containerStatuses": [{"name": "a", "containerID": f"containerd://{bad}", "state": {"running": {}}}]
    }
    of = pod("p", container("a", "1"), status=status)
    with pytest.raises(UnsafeName):
        list(targets_of(of, of.spec, NAMES))


SHARINGS: list[tuple[str, str, str, CPUManager, Sharing]] = [
    ("", "default", "Guaranteed", NO_POLICY, Sharing.SHARE),
    ("LS", "default", "Burstable", NO_POLICY, Sharing.SHARE),
    *((qos, "kube-system", "Burstable", NO_POLICY, Sharing.EXEMPT) for qos in ("SYSTEM", "BE")),
    *((qos, "kube-system", "Burstable", NO_POLICY, Sharing.SHARE) for qos in ("LSE", "LSR")),
    ("LSR", "default", "Guaranteed", NO_POLICY, Sharing.SHARE),
    ("LSR", "default", "Guaranteed", CPUManager("static", frozenset({"u"})), Sharing.EXEMPT),
    ("LSE", "default", "Guaranteed", NO_POLICY, Sharing.SHARE),
    ("SYSTEM", "default", "Guaranteed", NO_POLICY, Sharing.SHARE),
    ("", "default", "Guaranteed", CPUManager("static", frozenset({"u"})), Sharing.EXEMPT),
    ("", "default", "Guaranteed", CPUManager("static", frozenset({"other"})), Sharing.SHARE),
    ("", "default", "Guaranteed", UNKNOWN_POLICY, Sharing.UNCERTAIN),
    ("", "default", "", UNKNOWN_POLICY, Sharing.UNCERTAIN),
    ("", "default", "Burstable", UNKNOWN_POLICY, Sharing.SHARE),
    ("LSR", "default", "Guaranteed", UNKNOWN_POLICY, Sharing.UNCERTAIN),
]


@pytest.mark.parametrize(("qos_class", "namespace", "qos", "manager", "expected"), SHARINGS)
def test_who_owns_cpus_is_not_normalized(
    qos_class: str, namespace: str, qos: str, manager: CPUManager, expected: Sharing
) -> None:
    counts = DEFAULT_RULES.class_of({QOS_CLASS: qos_class}, namespace)
    assert sharing_of(counts, "u", qos, manager, owns=False) is expected


@pytest.mark.parametrize(
    ("qos_class", "owns", "expected"),
    [
        ("LSR", True, Sharing.OWNS),
        ("LSE", True, Sharing.OWNS),
        ("LSR", None, Sharing.UNCERTAIN),
        ("LSE", None, Sharing.UNCERTAIN),
        ("LS", None, Sharing.SHARE),
    ],
)
@pytest.mark.parametrize("manager", [NO_POLICY, CPUManager("static")])
def test_only_owners_by_accepted_claims_are_not_normalized(
    qos_class: str, owns: bool | None, expected: Sharing, manager: CPUManager
) -> None:
    assert sharing_of(qos_class, "u", "Guaranteed", manager, owns=owns) is expected


PENDING = {"conditions": [{"type": "PodResizePending", "status": "True"}]}


@pytest.mark.parametrize(
    ("status", "generation", "settled"),
    [
        ({}, 0, True),
        ({"conditions": [{"type": "PodResizePending", "status": "False"}]}, 0, True),
        ({"conditions": [{"type": "PodResizeInProgress", "status": "True"}]}, 0, True),
        (PENDING, 0, False),
        ({"resize": "Infeasible"}, 0, False),
        ({"resize": "InProgress"}, 0, True),
        ({"observedGeneration": 3}, 3, True),
        ({"observedGeneration": 2}, 3, False),
        ({"observedGeneration": 0}, 3, True),
    ],
)
def test_resize_counts_once_kubelet_has_accepted_it(
    status: dict[str, Any], generation: int, settled: bool
) -> None:
    of = pod("p", container("a", "2"), status=status)
    metadata = msgspec.structs.replace(of.metadata, generation=generation)
    of = msgspec.structs.replace(of, metadata=metadata)
    before = pod("p", container("a", "1")).spec
    assert spec_in_force(of, before) == (of.spec if settled else before)
    assert spec_in_force(of, None) == (of.spec if settled else None)
