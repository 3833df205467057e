"""What a kubelet stand-in computes and sends: raw amounts, fresh heartbeats, and the difference only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import Bytes, RawMilli
from corewise.vocabulary.names import BATCH_CPU
from corewise_lab.kubelet_status import (
    StatusPatch,
    admit,
    compute_status,
    has_changed,
    strategic_difference,
)
from corewise_lab.machines import CATALOG, Machine
from kubedouble.patching import strategic_merge_patch
from kubedouble.schema.kinds import builtin_schema

MACHINE = Machine(
    name="n1",
    model=CATALOG["Neoverse-N1"],
    cpus=8,
    memory=Bytes(32 << 30),
    hyper_threading=False,
    turbo=False,
    sockets=2,
    reserved_cpu=RawMilli(250),
    reserved_memory=Bytes(1 << 30),
)
THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z"
KINDS = ("MemoryPressure", "DiskPressure", "PIDPressure")


def status(
    cached: StatusPatch | None = None, *, now: str = THEN, pressure: tuple[str, ...] = ()
) -> StatusPatch:
    return compute_status(cached or {}, MACHINE, address="10.0.0.1", now=now, pressure=pressure)


def condition(of: StatusPatch, kind: str) -> dict[str, Any]:
    return next(each for each in of["conditions"] if each["type"] == kind)


def test_the_first_status_states_the_machine() -> None:
    first = status()
    assert first["capacity"]["cpu"] == "8"
    assert first["allocatable"]["cpu"] == "7750m"
    assert first["allocatable"]["memory"] == f"{31 << 20}Ki"
    assert condition(first, "Ready")["status"] == "True"


def test_raw_amounts_are_recomputed_on_an_amplified_node() -> None:
    amplified = status()
    amplified["capacity"] |= {"cpu": "16"}
    amplified["allocatable"] |= {"cpu": "15500m"}
    again = status(amplified, now=NOW)
    assert (again["capacity"]["cpu"], again["allocatable"]["cpu"]) == ("8", "7750m")
    assert has_changed(amplified, again)


def test_unknown_resources_are_copied_from_capacity_to_allocatable() -> None:
    stored = status()
    stored["capacity"] |= {"example.com/card": "4"}
    assert status(stored)["allocatable"]["example.com/card"] == "4"


def test_heartbeats_alone_are_no_change() -> None:
    assert not has_changed(status(), status(status(), now=NOW))


def test_amounts_written_otherwise_are_no_change() -> None:
    stored = status()
    stored["capacity"] |= {"cpu": "8000m", "memory": "32Gi"}
    assert not has_changed(stored, status(stored))


def test_only_conditions_that_change_get_new_transition_times() -> None:
    pressed = status(status(), now=NOW, pressure=("MemoryPressure",))
    assert condition(pressed, "MemoryPressure")["status"] == "True"
    assert condition(pressed, "MemoryPressure")["lastTransitionTime"] == NOW
    assert condition(pressed, "Ready")["lastTransitionTime"] == THEN
    assert has_changed(status(), pressed)


def test_conditions_of_others_are_left_alone() -> None:
    stored = status()
    stored["conditions"].insert(0, {"type": "NetworkUnavailable", "status": "False"})
    assert status(stored, now=NOW)["conditions"][0] == {"type": "NetworkUnavailable", "status": "False"}


def test_patch_holds_the_difference_and_the_condition_order() -> None:
    amplified = status()
    amplified["capacity"] |= {"cpu": "16"}
    patch = strategic_difference(amplified, status(amplified, now=NOW))
    assert patch["capacity"] == {"cpu": "8"}
    assert patch.keys() == {"capacity", "conditions", "$setElementOrder/conditions"}
    assert [each["type"] for each in patch["$setElementOrder/conditions"]] == [*KINDS, "Ready"]
    assert patch["conditions"][0] == {"type": "MemoryPressure", "lastHeartbeatTime": NOW}


amounts = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["8", "16", "12500m"]), "memory": st.sampled_from(["32Gi", "64Gi"])},
    optional={"example.com/card": st.just("4")},
)
conditions = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from([*KINDS, "Ready", "NetworkUnavailable"]),
            "status": st.sampled_from(["True", "False"]),
        },
        optional={"lastHeartbeatTime": st.sampled_from([THEN, NOW]), "reason": st.just("x")},
    ),
    unique_by=lambda each: str(each["type"]),
)
addresses = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("InternalIP"), "address": st.sampled_from(["10.0.0.1", "10.0.0.2"])}
    ),
    max_size=2,
    unique_by=lambda each: str(each["address"]),
)
statuses = st.fixed_dictionaries(
    {},
    optional={
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": conditions,
        "addresses": addresses,
        "nodeInfo": st.fixed_dictionaries({"bootID": st.sampled_from(["a", "b"])}),
    },
)


@given(statuses, st.sampled_from([(), ("DiskPressure",)]))
def test_api_server_applies_the_patch_as_kubelet_intended(
    cached: StatusPatch, pressure: tuple[str, ...]
) -> None:
    wanted = status(cached, now=NOW, pressure=pressure)
    patch = {"status": strategic_difference(cached, wanted)}
    schema = builtin_schema("", "v1", "Node")
    assert schema
    assert strategic_merge_patch({"status": cached}, patch, schema) == {"status": wanted}


@given(statuses)
def test_no_difference_makes_no_patch(cached: StatusPatch) -> None:
    assert strategic_difference(cached, cached) == {}


OFFER = {"cpu": "2500m", "memory": "4Gi", "pods": "3"}


def need_of(cpu: int, memory: int) -> dict[str, int]:
    return {"cpu": cpu, "memory": memory}


@pytest.mark.parametrize(
    ("need", "used", "pods", "reason"),
    [
        ((500, 1), (2000, 0), 1, None),
        ((501, 1), (2000, 0), 1, "OutOfcpu"),
        ((1, 1), (0, 4 << 30), 1, "OutOfmemory"),
        ((0, 0), (0, 0), 3, "OutOfpods"),
        ((0, 0), (9000, 9 << 30), 2, None),
    ],
)
def test_pod_is_admitted_if_every_requested_resource_fits(
    need: tuple[int, int], used: tuple[int, int], pods: int, reason: str | None
) -> None:
    rejection = admit(need_of(*need), [need_of(*used), *[need_of(0, 0)] * (pods - 1)], OFFER)
    assert (rejection.reason if rejection else None) == reason


@pytest.mark.parametrize(
    ("wanted", "offered", "reason"),
    [
        (400, {BATCH_CPU: "1000"}, None),
        (401, {BATCH_CPU: "1000"}, f"OutOf{BATCH_CPU}"),
        (401, {}, None),
    ],
)
def test_pod_is_admitted_by_batch_cpu_where_offered(
    wanted: int, offered: dict[str, str], reason: str | None
) -> None:
    batch = ({**need_of(1000, 1 << 30), BATCH_CPU: 500}, {**need_of(1000, 0), BATCH_CPU: 100})
    rejection = admit({**need_of(0, 0), BATCH_CPU: wanted}, batch, OFFER | offered)
    assert (rejection.reason if rejection else None) == reason


def test_refusal_names_resource_and_amounts_as_kubelet_does() -> None:
    rejection = admit(need_of(1000, 0), [need_of(2000, 0)], OFFER)
    assert rejection
    assert rejection.message.endswith("resource: cpu, requested: 1000, used: 2000, capacity: 2500")
