"""From flavor and image to the query: every rule, and every request that is refused.

Amounts are those of a flavor with 8 vcpus, 1024 MiB and no disk.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.tracking import Compat, Flavor, GuestRequest, Image, translate
from corewise_openstack.tracking.request import STANDARD_CLASSES
from corewise_openstack.vocabulary.guests import CPUPolicy, EmulatorThreads, ThreadPolicy

SMT = "HW_CPU_HYPERTHREADING"


def flavor(*, vcpus: int = 8, ram: int = 1024, disk: int = 0, ephemeral: int = 0, swap: int = 0) -> Flavor:
    return Flavor("f", vcpus, ram, disk, ephemeral, swap)


PLAIN = flavor()
Specs = dict[str, str]


def asked(
    specs: Specs, image: Specs | None = None, *, base: Flavor = PLAIN, compat: Compat = Compat.SPEC
) -> GuestRequest | Finding:
    return translate(replace(base, extra_specs=specs), Image(image or {}), compat=compat)


def request(specs: Specs, image: Specs | None = None, base: Flavor = PLAIN) -> GuestRequest:
    answer = asked(specs, image, base=base)
    assert isinstance(answer, GuestRequest), answer
    return answer


def query(specs: Specs, image: Specs | None = None, base: Flavor = PLAIN) -> str:
    return str(request(specs, image, base).query)


def refusal(specs: Specs, image: Specs | None = None, base: Flavor = PLAIN) -> Finding:
    answer = asked(specs, image, base=base)
    assert isinstance(answer, Finding), answer
    return answer


DEDICATED = {"hw:cpu_policy": "dedicated"}
MIXED = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-2"}


@pytest.mark.parametrize(
    ("specs", "sent"),
    [
        ({}, "limit=1000&resources=MEMORY_MB:1024,VCPU:8"),
        ({"resources:VCPU": "8"}, "limit=1000&resources=MEMORY_MB:1024,VCPU:8"),
        ({"hw:cpu_policy": "shared"}, "limit=1000&resources=MEMORY_MB:1024,VCPU:8"),
        ({"resources:PCPU": "8"}, "limit=1000&resources=MEMORY_MB:1024,PCPU:8"),
        (DEDICATED, "limit=1000&resources=MEMORY_MB:1024,PCPU:8"),
        (
            {"resources:PCPU": "8", f"trait:{SMT}": "forbidden"},
            f"limit=1000&required=!{SMT}&resources=MEMORY_MB:1024,PCPU:8",
        ),
        (
            DEDICATED | {"hw:cpu_thread_policy": "isolate"},
            f"limit=1000&required=!{SMT}&resources=MEMORY_MB:1024,PCPU:8",
        ),
    ],
)
def test_documented_flavors_send_the_same_in_both_forms(specs: Specs, sent: str) -> None:
    assert query(specs) == sent


@pytest.mark.parametrize(
    ("specs", "sent"),
    [
        (DEDICATED | {"hw:cpu_thread_policy": "require"}, f"required={SMT}&resources=MEMORY_MB:1024,PCPU:8"),
        (DEDICATED | {"hw:cpu_thread_policy": "prefer"}, "resources=MEMORY_MB:1024,PCPU:8"),
        (MIXED, "resources=MEMORY_MB:1024,PCPU:3,VCPU:5"),
        (MIXED | {"hw:emulator_threads_policy": "isolate"}, "resources=MEMORY_MB:1024,PCPU:4,VCPU:5"),
        (DEDICATED | {"hw:emulator_threads_policy": "isolate"}, "resources=MEMORY_MB:1024,PCPU:9"),
        (DEDICATED | {"hw:emulator_threads_policy": "share"}, "resources=MEMORY_MB:1024,PCPU:8"),
        (
            {"resources:PCPU": "9", "hw:emulator_threads_policy": "isolate"},
            "resources=MEMORY_MB:1024,PCPU:9",
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0-1"},
            "resources=MEMORY_MB:1024,PCPU:6,VCPU:2",
        ),
        ({"resources:MEMORY_MB": "0"}, "resources=VCPU:8"),
        ({"resources:MEMORY_MB": "512"}, "resources=MEMORY_MB:512,VCPU:8"),
        ({"resources:PCPU": "0"}, "resources=MEMORY_MB:1024,VCPU:8"),
        ({"resources:VCPU": "0", "resources:PCPU": "8"}, "resources=MEMORY_MB:1024,PCPU:8"),
        (DEDICATED | {"resources:VCPU": "0"}, "resources=MEMORY_MB:1024,PCPU:8"),
        ({"resources:CUSTOM_GOLD": "2"}, "resources=CUSTOM_GOLD:2,MEMORY_MB:1024,VCPU:8"),
        (
            {"trait:CUSTOM_B": "required", "trait:CUSTOM_A": "forbidden", "trait:CUSTOM_C": "required"},
            "required=CUSTOM_B,CUSTOM_C,!CUSTOM_A&resources=MEMORY_MB:1024,VCPU:8",
        ),
        ({"quota:cpu_shares": "10", "hide_hypervisor_id": "true"}, "resources=MEMORY_MB:1024,VCPU:8"),
    ],
)  # fmt: skip
def test_a_flavor_sends(specs: Specs, sent: str) -> None:
    assert query(specs) == f"limit=1000&{sent}"


@pytest.mark.parametrize(
    ("specs", "sent"),
    [
        (
            {"resources1:PCPU": "8", "trait1:CUSTOM_A": "required"},
            "limit=1000&required1=CUSTOM_A&resources=MEMORY_MB:1024&resources1=PCPU:8",
        ),
        (
            {"resources_CPUS:PCPU": "8", "trait_CPUS:CUSTOM_A": "forbidden"},
            "limit=1000&required_CPUS=!CUSTOM_A&resources=MEMORY_MB:1024&resources_CPUS=PCPU:8",
        ),
        (
            {"resources1:VCPU": "4", "resources2:VCPU": "4", "group_policy": "isolate"},
            "group_policy=isolate&limit=1000&resources=MEMORY_MB:1024&resources1=VCPU:4&resources2=VCPU:4",
        ),
        (
            {
                "resources_NET:CUSTOM_PORT": "1",
                "resources_GPU:VGPU": "1",
                "resources:MEMORY_MB": "0",
                "group_policy": "none",
            },
            "group_policy=none&limit=1000&resources=VCPU:8&resources_GPU=VGPU:1&resources_NET=CUSTOM_PORT:1",
        ),
    ],
)
def test_numbered_and_named_groups_follow_the_same_rules(specs: Specs, sent: str) -> None:
    assert query(specs) == sent


def test_disk_sums_local_disk_and_rounds_swap_up() -> None:
    base = flavor(disk=10, ephemeral=5, swap=1025)
    assert query({}, base=base) == "limit=1000&resources=DISK_GB:17,MEMORY_MB:1024,VCPU:8"


@pytest.mark.parametrize("image_policy", [None, "dedicated", "shared", "mixed"])
def test_a_dedicated_flavor_wins_over_any_image(image_policy: str | None) -> None:
    image = {"hw_cpu_policy": image_policy} if image_policy else {}
    assert query(DEDICATED, image) == "limit=1000&resources=MEMORY_MB:1024,PCPU:8"


@pytest.mark.parametrize(
    ("specs", "image", "policy"),
    [
        ({}, "dedicated", CPUPolicy.DEDICATED),
        ({}, "shared", CPUPolicy.SHARED),
        ({"hw:cpu_dedicated_mask": "0"}, "mixed", CPUPolicy.MIXED),
        (MIXED, "shared", CPUPolicy.MIXED),
        (MIXED, "mixed", CPUPolicy.MIXED),
        ({"hw:cpu_policy": "shared"}, "shared", CPUPolicy.SHARED),
    ],
)
def test_image_may_set_the_policy_where_flavor_allows(specs: Specs, image: str, policy: CPUPolicy) -> None:
    assert request(specs, {"hw_cpu_policy": image}).cpus.policy is policy


@pytest.mark.parametrize(
    ("ours", "theirs"), [("shared", "dedicated"), ("shared", "mixed"), ("mixed", "dedicated")]
)
def test_image_exceeding_what_the_flavor_allows_is_refused(ours: str, theirs: str) -> None:
    found = refusal({"hw:cpu_policy": ours, "hw:cpu_dedicated_mask": "0"}, {"hw_cpu_policy": theirs})
    assert found.reason is Reason.CPU_POLICY_CONFLICT
    assert found.message == (
        f"image property hw_cpu_policy = {theirs}, "
        f"which flavor extra spec hw:cpu_policy = {ours} does not allow"
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "policy"),
    [
        (None, None, None),
        (None, "isolate", ThreadPolicy.ISOLATE),
        ("prefer", "isolate", ThreadPolicy.PREFER),
        ("prefer", "require", ThreadPolicy.PREFER),
        ("isolate", None, ThreadPolicy.ISOLATE),
        ("isolate", "isolate", ThreadPolicy.ISOLATE),
        ("require", "require", ThreadPolicy.REQUIRE),
        ("isolate", "require", Reason.THREAD_POLICY_CONFLICT),
        ("isolate", "prefer", Reason.THREAD_POLICY_CONFLICT),
        ("require", "prefer", Reason.THREAD_POLICY_CONFLICT),
        ("require", "isolate", Reason.THREAD_POLICY_CONFLICT),
    ],
)
def test_thread_policies_of_flavor_and_image(
    ours: str | None, theirs: str | None, policy: ThreadPolicy | Reason | None
) -> None:
    specs = DEDICATED | ({"hw:cpu_thread_policy": ours} if ours else {})
    answer = asked(specs, {"hw_cpu_thread_policy": theirs} if theirs else {})
    if isinstance(policy, Reason):
        assert isinstance(answer, Finding)
        assert answer.reason is policy
    else:
        assert isinstance(answer, GuestRequest)
        assert answer.cpus.thread_policy is policy


@pytest.mark.parametrize(
    ("specs", "reason"),
    [
        ({"hw:cpu_policy": "dedicatd"}, Reason.CPU_POLICY_UNKNOWN),
        ({"hw:cpu_policy": "Dedicated"}, Reason.CPU_POLICY_UNKNOWN),
        (DEDICATED | {"hw:cpu_thread_policy": "share"}, Reason.THREAD_POLICY_UNKNOWN),
        (DEDICATED | {"hw:emulator_threads_policy": "pin"}, Reason.EMULATOR_POLICY_UNKNOWN),
        (DEDICATED | {"resources:PCPU": "8"}, Reason.CPU_POLICY_WITH_RESOURCES),
        (DEDICATED | {"resources:VCPU": "8"}, Reason.CPU_POLICY_WITH_RESOURCES),
        (DEDICATED | {"resources1:PCPU": "8"}, Reason.CPU_POLICY_WITH_RESOURCES),
        (DEDICATED | {"resources_X:PCPU": "8"}, Reason.CPU_POLICY_WITH_RESOURCES),
        (DEDICATED | {"resources:PCPU": "0"}, Reason.CPU_POLICY_WITH_RESOURCES),
        ({"hw:cpu_policy": "shared", "resources:VCPU": "8"}, Reason.CPU_POLICY_WITH_RESOURCES),
        (MIXED | {"resources:VCPU": "0"}, Reason.CPU_POLICY_WITH_RESOURCES),
        ({"resources:PCPU": "8", "resources:VCPU": "8"}, Reason.MIXED_CPU_RESOURCES),
        ({"resources1:PCPU": "8", "resources_B:VCPU": "1"}, Reason.MIXED_CPU_RESOURCES),
        ({"resources:PCPU": "7"}, Reason.PCPU_COUNT_MISMATCH),
        ({"resources1:PCPU": "4", "resources2:PCPU": "5"}, Reason.PCPU_COUNT_MISMATCH),
        ({"resources:PCPU": "8", "hw:emulator_threads_policy": "isolate"}, Reason.PCPU_COUNT_MISMATCH),
        ({"resources:VCPU": "0"}, Reason.NO_CPU_REQUESTED),
        ({"resources:VCPU": "0", "resources:PCPU": "0"}, Reason.NO_CPU_REQUESTED),
        ({"resources:VCPU": "0", "resources:CUSTOM_BAREMETAL": "1"}, Reason.NO_CPU_REQUESTED),
        ({"hw:cpu_thread_policy": "isolate"}, Reason.THREAD_POLICY_WITHOUT_PINNING),
        ({"hw:cpu_thread_policy": "prefer"}, Reason.THREAD_POLICY_WITHOUT_PINNING),
        ({"resources:VCPU": "8", "hw:cpu_thread_policy": "require"}, Reason.THREAD_POLICY_WITHOUT_PINNING),
        ({f"trait:{SMT}": "forbidden"}, Reason.TRAIT_WITHOUT_PINNING),
        ({f"trait1:{SMT}": "required", "resources1:VCPU": "8"}, Reason.TRAIT_WITHOUT_PINNING),
        (
            DEDICATED | {"hw:cpu_thread_policy": "isolate", f"trait:{SMT}": "forbidden"},
            Reason.THREAD_POLICY_WITH_TRAIT,
        ),
        (
            {"resources:PCPU": "8", "hw:cpu_thread_policy": "prefer", f"trait_A:{SMT}": "required"},
            Reason.THREAD_POLICY_WITH_TRAIT,
        ),
        ({"hw:emulator_threads_policy": "isolate"}, Reason.EMULATOR_POLICY_WITHOUT_PINNING),
        ({"hw:cpu_policy": "mixed"}, Reason.MIXED_WITHOUT_MASK),
        ({"hw:cpu_policy": "mixed", "hw:cpu_realtime_mask": "0"}, Reason.MIXED_WITHOUT_MASK),
        (MIXED | {"hw:cpu_dedicated_mask": "^0-7"}, Reason.DEDICATED_MASK_EMPTY),
        (MIXED | {"hw:cpu_dedicated_mask": "3,^3"}, Reason.DEDICATED_MASK_EMPTY),
        (MIXED | {"hw:cpu_dedicated_mask": ","}, Reason.DEDICATED_MASK_EMPTY),
        (MIXED | {"hw:cpu_dedicated_mask": "0-7"}, Reason.DEDICATED_MASK_FULL),
        (MIXED | {"hw:cpu_dedicated_mask": "^9"}, Reason.DEDICATED_MASK_OUTSIDE),
        (MIXED | {"hw:cpu_dedicated_mask": "7-8"}, Reason.DEDICATED_MASK_OUTSIDE),
        (MIXED | {"hw:cpu_dedicated_mask": "a"}, Reason.DEDICATED_MASK_MALFORMED),
        (MIXED | {"hw:cpu_dedicated_mask": "-1"}, Reason.DEDICATED_MASK_MALFORMED),
        (DEDICATED | {"hw:cpu_dedicated_mask": "0-2"}, Reason.DEDICATED_MASK_WITHOUT_MIXED),
        ({"hw:cpu_dedicated_mask": "0-2"}, Reason.DEDICATED_MASK_WITHOUT_MIXED),
        (
            MIXED | {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "0-1"},
            Reason.MIXED_WITH_TWO_MASKS,
        ),
        (DEDICATED | {"hw:cpu_realtime": "yes"}, Reason.REALTIME_MASK_INVALID),
        (DEDICATED | {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "8"}, Reason.REALTIME_MASK_INVALID),
        (DEDICATED | {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "x"}, Reason.REALTIME_MASK_INVALID),
        (DEDICATED | {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": ","}, Reason.REALTIME_MASK_INVALID),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:emulator_threads_policy": "share"},
            Reason.REALTIME_MASK_INVALID,
        ),
        ({"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}, Reason.REALTIME_WITHOUT_PINNING),
        ({"resources:VCPU": "-1"}, Reason.RESOURCE_AMOUNT_INVALID),
        ({"resources:VCPU": "2147483648"}, Reason.RESOURCE_AMOUNT_INVALID),
        ({"resources:VCPU": "9" * 5000}, Reason.RESOURCE_AMOUNT_INVALID),
        ({"resources:VCPU": "2.5"}, Reason.RESOURCE_AMOUNT_INVALID),
        ({"resources:VCPU": ""}, Reason.RESOURCE_AMOUNT_INVALID),
        ({"resources:VCPU": "٣"}, Reason.RESOURCE_AMOUNT_INVALID),
        ({"resources1:VCPU": "2147483647", "resources2:VCPU": "1"}, Reason.RESOURCE_AMOUNT_INVALID),
        ({"trait:CUSTOM_A": "maybe"}, Reason.TRAIT_INVALID),
        ({"trait:CUSTOM&limit=1": "required"}, Reason.TRAIT_INVALID),
        ({"group_policy": "all"}, Reason.GROUP_POLICY_INVALID),
        ({"trait1:CUSTOM_A": "required"}, Reason.GROUP_WITHOUT_RESOURCES),
        ({"hw:numa_nodes": "3"}, Reason.GUEST_NUMA_INVALID),
        ({"hw:numa_nodes": "0"}, Reason.GUEST_NUMA_INVALID),
        ({"hw:numa_nodes": "two"}, Reason.GUEST_NUMA_INVALID),
    ],
)  # fmt: skip
def test_a_flavor_is_refused_with_its_own_reason(specs: Specs, reason: Reason) -> None:
    found = refusal(specs)
    assert (found.reason, found.message[-1] != ".", len(found.message) < 300) == (reason, True, True)


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (
            {"hw:cpu_policy": "dedicatd"},
            'flavor extra spec hw:cpu_policy = dedicatd means nothing: did you mean "dedicated"?',
        ),
        (
            {"hw:cpu_policy": "exclusive"},
            "flavor extra spec hw:cpu_policy = exclusive means nothing: write shared, dedicated or mixed",
        ),
        (
            {"resources:PCPU": "8", "resources:VCPU": "2"},
            "2 VCPU and 8 PCPU cannot be requested explicitly in the same request",
        ),
        (
            {"resources:PCPU": "6"},
            "6 PCPU are requested, and flavor f has 8 vcpus",
        ),
        (
            {"resources:VCPU": "-1"},
            "flavor extra spec resources:VCPU = -1 is not a whole number from 0 to 2147483647",
        ),
        (
            MIXED | {"hw:cpu_dedicated_mask": "7-9"},
            "flavor extra spec hw:cpu_dedicated_mask = 7-9 names guest CPUs 8-9; flavor f has CPUs 0-7",
        ),
        (
            {f"trait:{SMT}": "forbidden"},
            f"trait {SMT}=forbidden needs dedicated CPUs, and the guest has none",
        ),
    ],
)
def test_a_refusal_says_what_stands_where(specs: Specs, message: str) -> None:
    assert refusal(specs).message == message


@pytest.mark.parametrize(
    "base",
    [
        flavor(vcpus=0), flavor(vcpus=-1), flavor(vcpus=2**31), flavor(vcpus=65537), flavor(ram=-1),
        flavor(ram=2**31), flavor(disk=-1), flavor(disk=2**40), flavor(swap=-5), flavor(ephemeral=-1),
    ],
)  # fmt: skip
def test_flavor_with_negative_or_huge_amounts_is_refused(base: Flavor) -> None:
    assert refusal({}, base=base).reason is Reason.FLAVOR_INVALID


def test_unknown_class_is_skipped_with_a_naming_warning() -> None:
    found = request({"resources:VCPUS": "4", "resources:CUSTOM_lower": "1"})
    assert str(found.query) == "limit=1000&resources=MEMORY_MB:1024,VCPU:8"
    assert [each.reason for each in found.warnings] == [Reason.RESOURCE_CLASS_UNKNOWN] * 2
    assert found.warnings[1].message == (
        "flavor extra spec resources:VCPUS = 4: it is not requested, since there is no such resource class: "
        'did you mean "VCPU"?'
    )


def test_unknown_trait_is_left_for_placement_to_judge() -> None:
    assert query({"trait:NO_SUCH_TRAIT": "required"}).startswith("limit=1000&required=NO_SUCH_TRAIT&")


def test_image_traits_join_the_unnamed_group() -> None:
    image = {"trait:HW_CPU_X86_AVX2": "required", "trait:CUSTOM_SLOW": "forbidden", "os_distro": "debian"}
    assert query({"resources1:VCPU": "8"}, image) == (
        "limit=1000&required=HW_CPU_X86_AVX2,!CUSTOM_SLOW&resources=MEMORY_MB:1024&resources1=VCPU:8"
    )


def test_trait_flavor_requires_and_image_forbids_is_refused() -> None:
    found = refusal({"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_A": "forbidden"})
    assert found.reason is Reason.TRAIT_CONFLICT


def test_groups_without_a_policy_send_none_and_warn() -> None:
    found = request({"resources1:VCPU": "4", "resources2:VCPU": "4"})
    assert found.query.group_policy == "none"
    assert [each.reason for each in found.warnings] == [Reason.GROUP_POLICY_ASSUMED]


def test_vcpu_differing_from_vcpus_is_sent_with_warning() -> None:
    found = request({"resources:VCPU": "4"})
    assert str(found.query) == "limit=1000&resources=MEMORY_MB:1024,VCPU:4"
    assert [each.reason for each in found.warnings] == [Reason.VCPU_COUNT_MISMATCH]


@pytest.mark.parametrize(
    ("specs", "image", "fallback"),
    [
        (DEDICATED, {}, "limit=1000&resources=MEMORY_MB:1024,VCPU:8"),
        ({}, {"hw_cpu_policy": "dedicated"}, "limit=1000&resources=MEMORY_MB:1024,VCPU:8"),
        (
            DEDICATED | {"hw:cpu_thread_policy": "isolate", "trait:CUSTOM_A": "required"},
            {},
            "limit=1000&required=CUSTOM_A&resources=MEMORY_MB:1024,VCPU:8",
        ),
        (
            DEDICATED | {"hw:emulator_threads_policy": "isolate"},
            {},
            "limit=1000&resources=MEMORY_MB:1024,VCPU:8",
        ),
        ({"resources:PCPU": "8"}, {}, None),
        (MIXED, {}, None),
        ({}, {}, None),
        ({"hw:cpu_policy": "shared"}, {}, None),
    ],
)  # fmt: skip
def test_only_legacy_dedicated_policy_falls_back_to_vcpu(
    specs: Specs, image: Specs, fallback: str | None
) -> None:
    found = request(specs, image)
    assert (None if found.fallback is None else str(found.fallback)) == fallback
    assert not found.fallback_always


def test_beside_nova_the_fallback_is_always_asked_for() -> None:
    found = asked(DEDICATED, compat=Compat.NOVA)
    assert isinstance(found, GuestRequest)
    assert found.fallback_always
    without = asked({"resources:PCPU": "8"}, compat=Compat.NOVA)
    assert isinstance(without, GuestRequest)
    assert not without.fallback_always


def test_guest_promises_follow_from_the_policies() -> None:
    cpus = request(MIXED | {"hw:emulator_threads_policy": "isolate", "hw:numa_nodes": "2"}).cpus
    assert (cpus.policy, cpus.dedicated, cpus.host_cpus) == (CPUPolicy.MIXED, 3, 4)
    assert [(str(node.cpus), str(node.dedicated), node.memory_mb) for node in cpus.nodes] == [
        ("0-3", "0-2", 512),
        ("4-7", "", 512),
    ]
    assert cpus.emulator is EmulatorThreads.ISOLATE
    trait = request({"resources:PCPU": "8", f"trait:{SMT}": "required"}).cpus
    assert trait.thread_policy is ThreadPolicy.REQUIRE
    assert trait.policy is CPUPolicy.DEDICATED


def test_only_pinned_guests_have_numa_nodes_by_default() -> None:
    (node,) = request(DEDICATED).cpus.nodes
    assert node.dedicated == node.cpus == CPUSet.parse("0-7")
    assert request({}).cpus.nodes == ()
    assert len(request({"hw:numa_nodes": "2"}).cpus.nodes) == 2
    assert len(request({}, {"hw_numa_nodes": "4"}).cpus.nodes) == 4


UNEVEN = {
    "hw:numa_nodes": "2", "hw:numa_cpus.0": "0-5", "hw:numa_mem.0": "768", "hw:numa_cpus.1": "6,7",
    "hw:numa_mem.1": "256",
}  # fmt: skip


def test_numa_nodes_may_have_own_cpus_and_memory() -> None:
    nodes = request(DEDICATED | UNEVEN).cpus.nodes
    assert [(str(node.cpus), node.memory_mb) for node in nodes] == [("0-5", 768), ("6-7", 256)]


@pytest.mark.parametrize(
    "change",
    [
        {"hw:numa_cpus.1": "5-7"}, {"hw:numa_cpus.1": "6"}, {"hw:numa_cpus.1": "6-8"},
        {"hw:numa_cpus.1": "b"}, {"hw:numa_cpus.1": ""}, {"hw:numa_mem.1": "255"},
        {"hw:numa_mem.1": "-1"}, {"hw:numa_mem.1": ""},
        {"hw:numa_nodes": "1"}, {"hw:numa_nodes": "4"}, {"hw:numa_nodes": "999"},
        {"hw:numa_mem.0": "", "hw:numa_mem.1": ""},
    ],
)  # fmt: skip
def test_numa_nodes_with_wrong_sums_are_refused(change: Specs) -> None:
    assert refusal(DEDICATED | UNEVEN | change).reason is Reason.GUEST_NUMA_INVALID


def test_numa_nodes_from_flavor_and_image_are_refused() -> None:
    found = refusal({"hw:numa_nodes": "2"}, {"hw_numa_nodes": "2"})
    assert found.reason is Reason.GUEST_NUMA_INVALID


def test_image_realtime_mask_overrides_the_flavor_mask() -> None:
    specs = DEDICATED | {"hw:cpu_realtime": "true", "hw:cpu_realtime_mask": "^0"}
    assert str(request(specs, {"hw_cpu_realtime_mask": "^0-3"}).cpus.realtime) == "4-7"
    everything = DEDICATED | {"hw:cpu_realtime": "1", "hw:emulator_threads_policy": "share"}
    assert str(request(everything).cpus.realtime) == "0-7"
    assert request(DEDICATED | {"hw:cpu_realtime": "no"}).cpus.realtime == CPUSet()


def test_the_limit_may_be_left_out() -> None:
    found = translate(flavor(), limit=None)
    assert isinstance(found, GuestRequest)
    assert str(found.query) == "resources=MEMORY_MB:1024,VCPU:8"


KEYS = (
    "hw:cpu_policy", "hw:cpu_thread_policy", "hw:cpu_dedicated_mask", "hw:emulator_threads_policy",
    "hw:cpu_realtime", "hw:cpu_realtime_mask", "hw:numa_nodes", "resources:VCPU", "resources:PCPU",
    "resources1:PCPU", "resources_A:VCPU", "resources:MEMORY_MB", f"trait:{SMT}", "trait1:CUSTOM_A",
    "trait:CUSTOM_A", "group_policy",
)  # fmt: skip
VALUES = (
    "dedicated", "shared", "mixed", "isolate", "require", "prefer", "share", "yes", "0-2", "^1", "8", "9",
    "0", "4", "required", "forbidden", "none", "",
)  # fmt: skip


@given(
    specs=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=5),
    image=st.dictionaries(
        st.sampled_from([key.replace("hw:", "hw_") for key in KEYS]), st.sampled_from(VALUES), max_size=2
    ),
)
def test_query_asks_for_cpus_promised_to_the_guest(specs: Specs, image: Specs) -> None:
    answer = asked(specs, image)
    if isinstance(answer, Finding):
        return
    asked_for, cpus = answer.query.resources, answer.cpus
    assert asked_for.get("PCPU", 0) == cpus.host_cpus
    assert cpus.is_consistent
    if answer.fallback is not None:
        assert answer.fallback.resources["VCPU"] >= cpus.host_cpus
    assert asked_for.get("PCPU", 0) or asked_for.get("VCPU", 0)
    if cpus.policy is CPUPolicy.MIXED:
        assert asked_for["VCPU"] == cpus.vcpus - cpus.dedicated
    if cpus.nodes:
        assert sum(node.memory_mb for node in cpus.nodes) == 1024


@given(
    specs=st.dictionaries(st.sampled_from(KEYS), st.text(max_size=8), max_size=4),
    vcpus=st.integers(-3, 300),
    ram=st.integers(-3, 3000),
)
def test_any_text_is_a_query_or_a_refusal(specs: Specs, vcpus: int, ram: int) -> None:
    answer = asked(specs, base=flavor(vcpus=vcpus, ram=ram))
    if isinstance(answer, GuestRequest):
        assert all(character.isascii() and character.isprintable() for character in str(answer.query))


def test_standard_classes_match_os_resource_classes() -> None:
    published = pytest.importorskip("os_resource_classes", reason="os-resource-classes is not installed")
    assert set(published.STANDARDS) == STANDARD_CLASSES
