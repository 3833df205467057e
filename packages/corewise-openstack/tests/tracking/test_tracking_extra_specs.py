"""Each extra spec and image property about CPUs, memory pages or NUMA is served, or says that it is not."""

from __future__ import annotations

import re

import pytest

from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.tracking import Flavor, GuestRequest, Image, translate
from corewise_openstack.tracking.extra_specs import SPECS, SpecRow, Support

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
NOVA_34_KEYS = """
    accel:device_profile aggregate_instance_extra_specs:KEY capabilities:KEY group_policy hide_hypervisor_id
    hw:boot_menu hw:cpu_cores hw:cpu_dedicated_mask hw:cpu_max_cores hw:cpu_max_sockets hw:cpu_max_threads
    hw:cpu_policy hw:cpu_realtime hw:cpu_realtime_mask hw:cpu_sockets hw:cpu_thread_policy hw:cpu_threads
    hw:emulator_threads_policy hw:ephemeral_encryption hw:ephemeral_encryption_format hw:hide_hypervisor_id
    hw:locked_memory hw:mem_encryption hw:mem_encryption_model hw:mem_page_size hw:numa_cpus.N hw:numa_mem.N
    hw:numa_nodes hw:pci_numa_affinity_policy hw:pmem hw:pmu hw:redirected_usb_ports hw:serial_port_count
    hw:sound_model hw:tpm_model hw:tpm_secret_security hw:tpm_version hw:usb_model hw:vif_multiqueue_enabled
    hw:viommu_model hw:virtio_packed_ring hw:watchdog_action hw_rng:allowed hw_rng:rate_bytes
    hw_rng:rate_period hw_video:ram_max_mb os:secure_boot pci_passthrough:alias quota:cpu_limit
    quota:cpu_period quota:cpu_quota quota:cpu_reservation quota:cpu_shares quota:cpu_shares_level
    quota:cpu_shares_share quota:disk_io_limit quota:disk_read_bytes_sec quota:vif_inbound_average
    quota:vif_limit resources[N]:CLASS trait[N]:TRAIT vmware:hw_version vmware:storage_policy

    hw_architecture hw_auto_disk_config hw_boot_menu hw_cdrom_bus hw_cpu_cores hw_cpu_max_cores
    hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_policy hw_cpu_realtime_mask hw_cpu_sockets
    hw_cpu_thread_policy hw_cpu_threads hw_device_id hw_disk_bus hw_disk_type hw_emulation_architecture
    hw_ephemeral_encryption hw_ephemeral_encryption_format hw_ephemeral_encryption_secret_uuid
    hw_firmware_stateless hw_firmware_type hw_floppy_bus hw_input_bus hw_ipxe_boot hw_locked_memory
    hw_machine_type hw_maxphysaddr_bits hw_maxphysaddr_mode hw_mem_encryption hw_mem_encryption_model
    hw_mem_page_size hw_numa_cpus.N hw_numa_mem.N hw_numa_nodes hw_pci_numa_affinity_policy hw_pmu
    hw_pointer_model hw_qemu_guest_agent hw_redirected_usb_ports hw_rescue_bus hw_rescue_device hw_rng_model
    hw_scsi_model hw_serial_port_count hw_sound_model hw_time_hpet hw_tpm_model hw_tpm_version hw_usb_model
    hw_video_model hw_video_ram hw_vif_model hw_vif_multiqueue_enabled hw_viommu_model hw_virtio_packed_ring
    hw_vm_mode hw_watchdog_action img_hide_hypervisor_id os_distro os_require_quiesce os_secure_boot os_type
"""
"""What Nova's own lists name, those of images without most of img_* and os_*, which say nothing of hosts."""
ABOUT_CPUS_OR_MEMORY = re.compile(
    r"cpu|numa|[:_]mem_|pmem|pmu|maxphysaddr|emulator|locked_memory|pci_passthrough|^aggregate|^capabilities"
    r"|^group_policy|^resources|^trait"
)
NODES = {"numa_cpus.0": "0", "numa_cpus.1": "1-3", "numa_mem.0": "512", "numa_mem.1": "512"}


def stated(row: SpecRow, key: str) -> dict[str, str]:
    """The row's key with a value; a served one as it counts."""
    if row.support is not Support.SERVED:
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
WARNED = [(row, kind) for row in SPECS for kind in ("flavor", "image") if row.support is not Support.SERVED]


@pytest.mark.parametrize(("row", "kind"), [each for each in SERVED if getattr(*each)])
def test_served_specs_change_the_request_without_warning(row: SpecRow, kind: str) -> None:
    beside = BESIDE.get(row.flavor, {})
    own = stated(row, getattr(row, kind))
    made = translated(beside | own, {}) if kind == "flavor" else translated(beside, own)
    plain = translate(Flavor("f", 4, 1024, extra_specs=beside))
    assert made.warnings == ()
    assert made != plain


@pytest.mark.parametrize(("row", "kind"), [each for each in WARNED if getattr(*each)])
def test_unserved_specs_warn_or_are_refused_when_strict(row: SpecRow, kind: str) -> None:
    own = stated(row, getattr(row, kind))
    pair: tuple[dict[str, str], dict[str, str]] = (own, {}) if kind == "flavor" else ({}, own)
    (warning,) = translated(*pair).warnings
    assert warning.reason is Reason.EXTRA_SPEC_UNSERVED
    assert next(iter(own)) in warning.message
    assert warning.message.endswith(row.about)
    refused = translate(Flavor("f", 4, 1024, extra_specs=pair[0]), Image(pair[1]), strict=True)
    assert refused == Finding(warning.reason, warning.message)


def test_aggregate_specs_are_served_where_aggregates_are_known() -> None:
    specs = {"aggregate_instance_extra_specs:pinned": "true"}
    made = translate(Flavor("f", 4, 1024, extra_specs=specs), aggregates=True, strict=True)
    assert isinstance(made, GuestRequest), made
    assert (made.warnings, made.aggregate_specs) == ((), {"pinned": "true"})


@pytest.mark.parametrize("key", NOVA_34_KEYS.split())
def test_nova_keys_about_cpus_or_memory_are_listed(key: str) -> None:
    known = {row.flavor for row in SPECS} | {row.image for row in SPECS}
    if ABOUT_CPUS_OR_MEMORY.search(key):
        assert key in known
    else:
        pair = ({}, {key: "1"}) if key.startswith(("hw_", "img_", "os_")) else ({key: "1"}, {})
        assert translated(*pair, strict=True).warnings == ()


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
def test_misspelled_key_is_reported_with_the_nearest_match(
    specs: dict[str, str], properties: dict[str, str], message: str
) -> None:
    (warning,) = translated(specs, properties).warnings
    assert warning.reason is Reason.EXTRA_SPEC_UNKNOWN
    assert message in warning.message


@pytest.mark.parametrize(
    ("specs", "properties"),
    [
        ({"hw:mem_page_size": ""}, {}),
        ({"owner": "team-a"}, {"cpu_arch": "x86_64"}),
    ],
)
def test_custom_and_empty_keys_are_left_alone(specs: dict[str, str], properties: dict[str, str]) -> None:
    assert translated(specs, properties, strict=True).warnings == ()
