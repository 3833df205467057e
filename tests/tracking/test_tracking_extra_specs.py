"""Each extra spec and image property about CPUs, memory pages or NUMA is served, or says that it is not."""

from __future__ import annotations

import pytest

from corewise.tracking import Flavor, GuestRequest, Image, RequestRefusal, translate
from corewise.tracking.extra_specs import SPECS, SpecRow, Support
from corewise.vocabulary.reasons import Reason

VALUES = {
    "hw:cpu_policy": "dedicated",
    "hw:cpu_thread_policy": "require",
    "hw:emulator_threads_policy": "isolate",
    "hw:cpu_realtime": "yes",
    "hw:cpu_realtime_mask": "^0",
    "hw:numa_nodes": "2",
    "hw:cpu_dedicated_mask": "1-2",
    "group_policy": "isolate",
}
BESIDE = {
    "hw:cpu_thread_policy": {"hw:cpu_policy": "dedicated"},
    "hw:emulator_threads_policy": {"hw:cpu_policy": "dedicated"},
    "hw:cpu_realtime": {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "share"},
    "hw:cpu_realtime_mask": {"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "yes"},
    "hw:cpu_dedicated_mask": {"hw:cpu_policy": "mixed"},
    "hw:numa_cpus.N": {"hw:numa_nodes": "2"},
    "hw:numa_mem.N": {"hw:numa_nodes": "2"},
    "group_policy": {"resources1:CUSTOM_A": "1", "resources2:CUSTOM_B": "1"},
}
NODES = {"numa_cpus.0": "0", "numa_cpus.1": "1-3", "numa_mem.0": "512", "numa_mem.1": "512"}


def stated(row: SpecRow, key: str) -> dict[str, str]:
    """The row's key with a value; a served one as it counts."""
    if row.support is Support.WARNED:
        return {key.replace("KEY", "ssd"): "2"}
    match key.replace("hw_", "hw:"):
        case "hw:numa_cpus.N" | "hw:numa_mem.N":
            return {f"{key[:3]}{name}": value for name, value in NODES.items()}
        case "resources[N]:CLASS":
            return {"resources1:CUSTOM_A": "3"}
        case "trait[N]:TRAIT" | "trait:TRAIT":
            return {"trait:CUSTOM_T": "required"}
        case known:
            return {key: VALUES[known]}


def translated(specs: dict[str, str], properties: dict[str, str], *, strict: bool = False) -> GuestRequest:
    made = translate(Flavor("f", 4, 1024, extra_specs=specs), Image(properties), strict=strict)
    assert isinstance(made, GuestRequest), made
    return made


SERVED = [(row, kind) for row in SPECS for kind in ("flavor", "image") if row.support is Support.SERVED]
WARNED = [(row, kind) for row in SPECS for kind in ("flavor", "image") if row.support is Support.WARNED]


@pytest.mark.parametrize(("row", "kind"), [each for each in SERVED if getattr(*each)])
def test_what_is_served_changes_the_request_and_gives_no_warning(row: SpecRow, kind: str) -> None:
    beside = BESIDE.get(row.flavor, {})
    own = stated(row, getattr(row, kind))
    made = translated(beside | own, {}) if kind == "flavor" else translated(beside, own)
    plain = translate(Flavor("f", 4, 1024, extra_specs=beside))
    assert made.warnings == ()
    assert made != plain


@pytest.mark.parametrize(("row", "kind"), [each for each in WARNED if getattr(*each)])
def test_what_is_not_served_says_what_is_not_guaranteed_or_is_refused(row: SpecRow, kind: str) -> None:
    own = stated(row, getattr(row, kind))
    pair: tuple[dict[str, str], dict[str, str]] = (own, {}) if kind == "flavor" else ({}, own)
    (warning,) = translated(*pair).warnings
    assert warning.reason is Reason.EXTRA_SPEC_UNSERVED
    assert next(iter(own)) in warning.message
    assert warning.message.endswith(row.about)
    refused = translate(Flavor("f", 4, 1024, extra_specs=pair[0]), Image(pair[1]), strict=True)
    assert refused == RequestRefusal(warning.reason, warning.message)


@pytest.mark.parametrize(
    ("specs", "properties", "message"),
    [
        (
            {"hw:cpu_polcy": "dedicated"},
            {},
            'flavor extra spec hw:cpu_polcy = dedicated means nothing: did you mean "hw:cpu_policy"?',
        ),
        (
            {},
            {"hw_cpu_polcy": "dedicated"},
            'image property hw_cpu_polcy = dedicated means nothing: did you mean "hw_cpu_policy"?',
        ),
        ({"hw:numa_xyz_abcdef": "1"}, {}, "flavor extra spec hw:numa_xyz_abcdef = 1 means nothing"),
        ({"hw_cpu_policy": "dedicated"}, {}, 'did you mean "hw:cpu_policy"?'),
    ],
)
def test_a_misspelt_key_is_named_with_the_nearest_known_one(
    specs: dict[str, str], properties: dict[str, str], message: str
) -> None:
    (warning,) = translated(specs, properties).warnings
    assert warning.reason is Reason.EXTRA_SPEC_UNKNOWN
    assert message in warning.message


@pytest.mark.parametrize(
    ("specs", "properties"),
    [
        ({"hw:boot_menu": "true", "hw:watchdog_action": "reset", "hw:tpm_version": "2.0"}, {}),
        ({"hw_rng:allowed": "true", "hw:vif_multiqueue_enabled": "true", "capabilities:cpu_info": "x"}, {}),
        ({"hw:mem_page_size": ""}, {"hw_disk_bus": "virtio", "hw_vif_model": "virtio", "os_type": "linux"}),
    ],
)
def test_keys_about_other_things_are_left_alone(specs: dict[str, str], properties: dict[str, str]) -> None:
    assert translated(specs, properties, strict=True).warnings == ()
