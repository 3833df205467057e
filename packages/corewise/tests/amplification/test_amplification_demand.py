"""What pods request, and whether they still fit after a change of ratio.

Requests (cpu; milli-CPU)
    containers 500, 250                                               750
    ... init container 900                                            900: the largest moment
    ... sidecar 100                                                   850: it runs beside them
    ... sidecar 100, then init container 900                          1000
    ... init container 900, then sidecar 100                          900
    pod level 600                                                     600, whatever the containers say
    overhead 50                                                       + 50
    a resize from 500 to 250 that kubelet has not made yet            500
    finished pods                                                     nothing

CPUs that are owned
    resource-status 0-3 and 2-5 (two pods)                            6: distinct CPUs
    LSR, 4 CPUs, no resource-status                                   4
    LSR, 2500m                                                        none
    Guaranteed, containers of 2 and 500m, static CPU manager          2
    the same without the static CPU manager                           none

Fit, 32 raw CPUs                          change        verdict
    share 48                              2.00 -> 1.50  safe: 48 <= 48
    share 48                              2.00 -> 1.49  refused: 48 > 47.68; smallest safe 1.50
    share 16, owned 16                    2.00 -> 1.00  safe: 32 <= 32
    share 24, owned 16                    2.00 -> 1.00  refused: 40 > 32; smallest safe 1.50
    owned 33                              2.00 -> 1.00  refused: no ratio is safe
    share 999                             1.00 -> 2.00  safe: a raise is not refused
    memory                                likewise, in bytes, without owned CPUs
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import (
    ContainerDemand,
    Misfit,
    NodeAmounts,
    NodeDemand,
    PodDemand,
    allows_unsafe_change,
    amplified,
    busy_raise,
    effective_ratios,
    misfits,
    node_demand,
    pod_requests,
    raw_amounts,
)
from corewise.quantities import ONE, Quantity, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason
from node_records import recorded


def container(cpu: str, *, sidecar: bool = False, allocated: str | None = None) -> ContainerDemand:
    granted = {} if allocated is None else {"cpu": Quantity.parse(allocated)}
    return ContainerDemand({"cpu": Quantity.parse(cpu)}, granted, restarts_always=sidecar)


def pod(*containers: ContainerDemand, init: tuple[ContainerDemand, ...] = (), **rest: Any) -> PodDemand:
    return PodDemand("ns/pod", containers, init, **rest)


TWO = (container("500m"), container("250m"))


@pytest.mark.parametrize(
    ("demand", "milli"),
    [
        (pod(*TWO), 750),
        (pod(*TWO, init=(container("900m"),)), 900),
        (pod(*TWO, init=(container("100m", sidecar=True),)), 850),
        (pod(*TWO, init=(container("100m", sidecar=True), container("900m"))), 1000),
        (pod(*TWO, init=(container("900m"), container("100m", sidecar=True))), 900),
        (pod(*TWO, requests={"cpu": Quantity.parse("600m")}), 600),
        (pod(*TWO, overhead={"cpu": Quantity.parse("50m")}), 800),
        (pod(*TWO, requests={"memory": Quantity.parse("1Gi")}), 750),
        (pod(container("250m", allocated="500m")), 500),
        (pod(), 0),
    ],
)
def test_requests_are_counted_as_kubernetes_counts_them(demand: PodDemand, milli: int) -> None:
    assert pod_requests(demand)["cpu"].milli == milli


def test_finished_pods_do_not_count() -> None:
    pods = [pod(*TWO, phase=phase) for phase in ("Running", "Pending", "Succeeded", "Failed", "")]
    assert node_demand(pods).requests == {"cpu": 2250, "memory": 0}


def lsr(cpu: str, **rest: Any) -> PodDemand:
    return pod(container(cpu), labels={names.QOS_CLASS: "LSR"}, **rest)


def test_cpus_named_by_several_pods_are_owned_once() -> None:
    named = [lsr("4", exclusive_cpus=frozenset(cpus)) for cpus in ({0, 1, 2, 3}, {2, 3, 4, 5})]
    assert node_demand(named).cpuset_milli == 6000


def test_unassigned_cpuset_pod_owns_whole_cpus_it_requests() -> None:
    assert node_demand([lsr("4")]).cpuset_milli == 4000
    assert node_demand([lsr("2500m")]).cpuset_milli == 0
    assert node_demand([lsr("4", phase="Failed")]).cpuset_milli == 0
    assert node_demand([pod(container("4"), labels={names.QOS_CLASS: "LS"})]).cpuset_milli == 0


def test_static_cpu_manager_gives_guaranteed_pods_whole_cpus() -> None:
    guaranteed = pod(
        container("2"),
        container("500m"),
        init=(container("1", sidecar=True), container("4")),
        qos_class="Guaranteed",
    )
    assert node_demand([guaranteed], static_cpu_manager=True).cpuset_milli == 3000
    assert node_demand([guaranteed]).cpuset_milli == 0
    burstable = pod(container("2"), qos_class="Burstable")
    assert node_demand([burstable], static_cpu_manager=True).cpuset_milli == 0


def change(old: str, new: str, *, requested: int, owned: int = 0, raw: int = 32) -> Misfit | None:
    found = misfits(
        old={"cpu": Ratio.parse(old)},
        new={"cpu": Ratio.parse(new)},
        raw_allocatable={"cpu": Quantity.of_milli(raw * 1000)},
        demand=NodeDemand({"cpu": requested * 1000}, owned * 1000),
    )
    return found[0] if found else None


def test_ratio_at_which_pods_just_fit_is_safe() -> None:
    assert change("2.00", "1.50", requested=48) is None


def test_refusal_names_the_numbers_and_smallest_safe_ratio() -> None:
    found = change("2.00", "1.49", requested=48)
    assert found is not None
    assert found.message == (
        "cpu: the node's pods request 48 CPUs, but at ratio 1.49 allocatable would be 47.68 CPUs; "
        "the smallest safe ratio is 1.50"
    )


def test_owned_cpus_count_amplified() -> None:
    assert change("2.00", "1.00", requested=32, owned=16) is None
    found = change("2.00", "1.00", requested=40, owned=16)
    assert found is not None
    assert found.smallest_safe == Ratio(150)
    found = change("2.00", "1.49", requested=40, owned=16)
    assert found is not None
    assert (found.requested, found.allocatable) == (Quantity.parse("47840m"), Quantity.parse("47680m"))
    assert "16 CPUs of CPUSet pods" in found.message


def test_owned_cpus_beyond_the_raw_are_never_safe() -> None:
    found = change("2.00", "1.00", requested=33, owned=33)
    assert found is not None
    assert found.smallest_safe is None
    assert "no ratio is safe" in found.message
    assert change("2.00", "1.00", requested=32, owned=32) is None


def test_owned_cpus_beyond_requests_count_as_requests_alone() -> None:
    assert change("2.00", "1.00", requested=20, owned=40) is None


@pytest.mark.parametrize(("old", "new"), [("1.00", "2.00"), ("1.50", "1.50")])
def test_raised_or_unchanged_ratio_is_accepted_when_full(old: str, new: str) -> None:
    assert change(old, new, requested=999) is None


def test_removing_a_ratio_is_lowering_it_to_one() -> None:
    gib = 1 << 30
    found = misfits(
        old={"cpu": Ratio(200), "memory": Ratio(150)},
        new={},
        raw_allocatable={"cpu": Quantity.parse("32"), "memory": Quantity.parse("64Gi")},
        demand=NodeDemand({"cpu": 32000, "memory": 70 * gib}),
    )
    assert [(each.resource, each.smallest_safe) for each in found] == [("memory", Ratio(110))]
    assert "request 70 GiB, but at ratio 1.00 allocatable would be 64 GiB" in found[0].message


shares = st.integers(0, 200_000)
owned = st.integers(0, 64)
raws = st.integers(1, 64_000)


@given(share=shares, cpus=owned, raw=raws, new=st.integers(100, 999))
def test_ratios_below_the_smallest_safe_are_unsafe(share: int, cpus: int, raw: int, new: int) -> None:
    demand = NodeDemand({"cpu": share + cpus * 1000}, cpus * 1000)

    def unsafe(hundredths: int) -> tuple[Misfit, ...]:
        return misfits(
            old={"cpu": Ratio(10**9)},
            new={"cpu": Ratio(hundredths)},
            raw_allocatable={"cpu": Quantity.of_milli(raw)},
            demand=demand,
        )

    found = unsafe(new)
    if not found:
        return
    smallest = found[0].smallest_safe
    if smallest is None:
        assert raw <= cpus * 1000
        return
    assert smallest > Ratio(new)
    assert not unsafe(smallest.hundredths)
    assert unsafe(smallest.hundredths - 1)


@given(share=shares, cpus=owned, raw=raws, ratio=st.integers(100, 999))
def test_accepted_changes_keep_owned_cpus_within_raw_ones(
    share: int, cpus: int, raw: int, ratio: int
) -> None:
    allowed = not misfits(
        old={"cpu": Ratio(1000)},
        new={"cpu": Ratio(ratio)},
        raw_allocatable={"cpu": Quantity.of_milli(raw)},
        demand=NodeDemand({"cpu": share + cpus * 1000}, cpus * 1000),
    )
    assert not allowed or cpus * 1000 <= raw


def test_change_is_checked_against_recorded_raw_amounts() -> None:
    raw, applied = {"cpu": Quantity.parse("8")}, {"cpu": Quantity.parse("16")}
    before = {
        names.AMPLIFICATION_RATIO: '{"cpu":2.00}',
        **recorded({"cpu": ("8", "16")}),
    }
    status = NodeAmounts(applied, {**applied, "memory": Quantity.parse("1Gi")})
    demand = NodeDemand({"cpu": 10_000, "memory": 0})
    removed = {name: text for name, text in before.items() if name != names.AMPLIFICATION_RATIO}

    def check(after: dict[str, str]) -> tuple[Misfit, ...]:
        old, new = effective_ratios(before), effective_ratios(after)
        raw_allocatable = raw_amounts(status, before).allocatable
        return misfits(old=old, new=new, raw_allocatable=raw_allocatable, demand=demand)

    found = check(removed)
    assert [(each.allocatable, each.smallest_safe) for each in found] == [(raw["cpu"], Ratio(125))]
    unreadable = before | {names.AMPLIFICATION_RATIO: "?"}
    assert check(unreadable) == ()
    assert check(before) == ()


@pytest.mark.parametrize(("requested", "safe"), [(1, False), (0, True)])
def test_without_a_raw_amount_no_decrease_is_safe(requested: int, safe: bool) -> None:
    found = misfits(
        old={"cpu": Ratio(200)}, new={}, raw_allocatable={}, demand=NodeDemand({"cpu": requested})
    )
    assert (found == ()) is safe
    assert all("may be amplified already" in each.message for each in found)


def test_only_the_word_true_allows_an_unsafe_change() -> None:
    assert allows_unsafe_change({names.ALLOW_UNSAFE_CHANGE: "true"})
    assert not allows_unsafe_change({names.ALLOW_UNSAFE_CHANGE: "yes"})
    assert not allows_unsafe_change({})


@pytest.mark.parametrize(
    ("old", "new", "usage", "warned"),
    [
        ("1.00", "1.50", 61, True),
        ("1.00", "1.50", 60, False),
        ("1.00", "1.50", None, False),
        ("1.50", "1.50", 99, False),
        ("1.50", "1.00", 99, False),
    ],
)
def test_raising_the_ratio_of_a_busy_node_warns(old: str, new: str, usage: int | None, warned: bool) -> None:
    found = busy_raise(old={"cpu": Ratio.parse(old)}, new={"cpu": Ratio.parse(new)}, cpu_usage_percent=usage)
    assert (found is not None) is warned
    assert found is None or found.reason is Reason.RAISE_ON_BUSY_NODE


def test_an_amount_without_a_ratio_is_itself() -> None:
    assert amplified("cpu", Quantity.parse("1500u"), ONE) == Quantity.parse("1500u")
