"""What the options of a host come to, and every way in which they are wrong.

The host has CPUs 0-47. D, S, P, R are cpu_dedicated_set, cpu_shared_set, vcpu_pin_set, reserved_host_cpus.
"""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.topology import CPUSet
from corewise.vocabulary.reasons import Reason
from corewise_openstack.tracking import Checked, Compat, HostedGuest, HostOptions, HostSettings, check_options
from corewise_openstack.vocabulary.guests import CPUPolicy
from tracking.hosts import facts

SPEC, NOVA = Compat.SPEC, Compat.NOVA


Options = dict[str, str]


def checked(options: Options, compat: Compat = SPEC, guests: tuple[HostedGuest, ...] = ()) -> Checked:
    return check_options(HostOptions(**options), facts(), guests, compat)


def settings(options: Options, compat: Compat = SPEC) -> HostSettings:
    found = checked(options, compat)
    assert found.settings is not None, found.errors
    assert not found.errors
    return found.settings


D, S, P = {"cpu_dedicated_set": "2-17"}, {"cpu_shared_set": "18-47"}, {"vcpu_pin_set": "4-19"}
R = {"reserved_host_cpus": "2"}


@pytest.mark.parametrize(
    ("options", "compat", "shared", "dedicated", "pinnable", "legacy"),
    [
        ({}, SPEC, "0-47", "", "0-47", True),
        ({}, NOVA, "0-47", "", "0-47", True),
        (S, SPEC, "18-47", "", "", False),
        (S, NOVA, "18-47", "", "", False),
        (D, SPEC, "", "2-17", "2-17", False),
        (D, NOVA, "", "2-17", "2-17", False),
        (D | S, SPEC, "18-47", "2-17", "2-17", False),
        (D | S, NOVA, "18-47", "2-17", "2-17", False),
        (P, SPEC, "4-19", "4-19", "4-19", True),
        (P, NOVA, "4-19", "", "4-19", True),
        (P | S, SPEC, "4-19", "4-19", "4-19", True),
        (P | S, NOVA, "4-19", "", "4-19", True),
        (P | D, SPEC, "18-19", "2-17", "2-17", False),
        (P | D | S, SPEC, "18-47", "2-17", "2-17", False),
    ],
)
def test_the_cpus_behind_each_class_follow_the_table(
    options: Options, compat: Compat, shared: str, dedicated: str, pinnable: str, legacy: bool
) -> None:
    found = settings(options, compat)
    assert (str(found.shared), str(found.dedicated)) == (shared, dedicated)
    assert (str(found.pinnable), found.legacy) == (pinnable, legacy)


@pytest.mark.parametrize("options", [P | D, P | D | S])
def test_pin_set_with_dedicated_cpus_fails_beside_nova(options: Options) -> None:
    (error,) = checked(options, NOVA).errors
    assert error.reason is Reason.PIN_SET_FORBIDDEN
    assert str(error) == (
        "[DEFAULT] vcpu_pin_set = 4-19: it cannot stand beside [compute] cpu_dedicated_set: unset it"
    )


@pytest.mark.parametrize("options", [D | R, S | R, D | S | R])
def test_reserved_cpus_with_new_options_warn_or_fail(
    options: Options,
) -> None:
    found = checked(options)
    assert found.settings is not None
    assert found.settings.reserved == 0
    assert Reason.RESERVED_CPUS_IGNORED in {each.reason for each in found.warnings}
    (error,) = checked(options, NOVA).errors
    assert error.reason is Reason.RESERVED_CPUS_FORBIDDEN
    assert str(error).startswith("[DEFAULT] reserved_host_cpus = 2: it cannot stand beside")


def test_reserved_cpus_beside_a_pin_set_require_nova() -> None:
    found = checked(P | S | R, NOVA)
    assert found.settings is not None
    assert (found.settings.reserved, str(found.settings.shared)) == (2, "4-19")
    spec = checked(P | S | R)
    assert spec.settings is not None
    assert spec.settings.reserved == 0
    assert Reason.RESERVED_CPUS_IGNORED in {each.reason for each in spec.warnings}


@pytest.mark.parametrize("text", ["0", "0.0", " 0.00 "])
def test_zero_allocation_ratio_means_unset_as_in_nova(text: str) -> None:
    found = settings({"cpu_allocation_ratio": text})
    assert (found.ratio, found.initial_ratio) == (None, Decimal("4.0"))


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize("options", [R, P | R])
def test_reserved_cpus_alone_count_but_are_deprecated(options: Options, compat: Compat) -> None:
    found = checked(options, compat)
    assert found.settings is not None
    assert found.settings.reserved == 2
    assert Reason.RESERVED_CPUS_DEPRECATED in {each.reason for each in found.warnings}


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        ({}, []),
        (D | S, []),
        (P, [Reason.PIN_SET_DEPRECATED]),
        (P | S, [Reason.PIN_SET_DEPRECATED, Reason.SHARED_SET_FOR_EMULATOR_ONLY]),
        (P | D, [Reason.PIN_SET_DEPRECATED]),
        (P | D | S, [Reason.PIN_SET_IGNORED]),
        (P | D | S | R, [Reason.PIN_SET_IGNORED, Reason.RESERVED_CPUS_IGNORED]),
        ({"reserved_host_cpus": "0"}, []),
    ],
)
def test_warnings(options: Options, reasons: list[Reason]) -> None:
    assert [each.reason for each in checked(options).warnings] == reasons


def test_shared_set_beside_pin_set_serves_emulator_threads() -> None:
    assert settings(P | S).emulator == CPUSet.parse("18-47")
    assert settings(P).emulator == CPUSet()


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-4", "0-4"),
        ("0,2", "0,2"),
        ("0-7,^2", "0-1,3-7"),
        ("^2-3,0-7", "0-1,4-7"),
        (" 0 - 3 , ^ 1 ", "0,2-3"),
    ],
)
def test_cpu_sets_are_read_in_every_notation(text: str, cpus: str) -> None:
    assert str(settings({"cpu_dedicated_set": text}).dedicated) == cpus


@pytest.mark.parametrize("unset", ["", "  "])
def test_empty_text_counts_as_an_unset_option(unset: str) -> None:
    assert checked(dict.fromkeys(HostOptions.__dataclass_fields__, unset)) == checked({})


@pytest.mark.parametrize("option", ["cpu_dedicated_set", "cpu_shared_set", "vcpu_pin_set"])
@pytest.mark.parametrize(
    ("text", "reason", "why"),
    [
        ("-1", Reason.CPU_SET_MALFORMED, "'-1' is not a CPU or a range of CPUs: write 3, 0-3, ^2 or ^2-3"),
        ("0,1-", Reason.CPU_SET_MALFORMED, "'1-' is not a CPU or a range of CPUs: write 3, 0-3, ^2 or ^2-3"),
        (
            "1-2-3",
            Reason.CPU_SET_MALFORMED,
            "'1-2-3' is not a CPU or a range of CPUs: write 3, 0-3, ^2 or ^2-3",
        ),
        ("0,5-2", Reason.CPU_SET_MALFORMED, "'5-2' runs backwards: write 2-5"),
        ("^", Reason.CPU_SET_MALFORMED, "'^' is not a CPU or a range of CPUs: write 3, 0-3, ^2 or ^2-3"),
        ("a", Reason.CPU_SET_MALFORMED, "'a' is not a CPU or a range of CPUs: write 3, 0-3, ^2 or ^2-3"),
        ("0-99999", Reason.CPU_SET_MALFORMED, "'0-99999' goes beyond CPU 8191"),
        ("^0", Reason.CPU_SET_LEAVES_NOTHING, "'^0' leaves no CPU"),
        ("0-3,^0-3", Reason.CPU_SET_LEAVES_NOTHING, "'0-3,^0-3' leaves no CPU"),
        (",", Reason.CPU_SET_LEAVES_NOTHING, "it names no CPU"),
        ("46-48", Reason.CPUS_NOT_PRESENT, "the host has no CPU 48: it has CPUs 0-47"),
        ("0,48-51", Reason.CPUS_NOT_PRESENT, "the host has no CPUs 48-51: it has CPUs 0-47"),
    ],
)
def test_bad_set_is_reported_with_option_and_reason(option: str, text: str, reason: Reason, why: str) -> None:
    found = checked({option: text})
    assert found.settings is None
    (error,) = found.errors
    group = "DEFAULT" if option == "vcpu_pin_set" else "compute"
    assert (error.reason, str(error)) == (reason, f"[{group}] {option} = {text}: {why}")


def test_overlapping_sets_are_reported_with_their_common_cpus() -> None:
    (error,) = checked({"cpu_dedicated_set": "2-17", "cpu_shared_set": "16-47"}).errors
    assert error.reason is Reason.CPU_SETS_OVERLAP
    assert str(error) == (
        "[compute] cpu_dedicated_set = 2-17: CPUs 16-17 are in [compute] cpu_shared_set = 16-47 too: "
        "the sets must be disjoint"
    )


def test_offline_cpus_are_refused_unless_dedicated_with_powermanagement() -> None:
    half_off = facts(online="0-23")

    def found(**options: str) -> Checked:
        return check_options(HostOptions(**options), half_off)

    (error,) = found(cpu_dedicated_set="20-25").errors
    assert str(error) == "[compute] cpu_dedicated_set = 20-25: CPUs 24-25 are offline"
    assert error.reason is Reason.CPUS_NOT_ONLINE
    managed = found(cpu_dedicated_set="20-25", cpu_power_management="true")
    assert managed.settings is not None
    assert str(managed.settings.dedicated) == "20-25"
    (error,) = found(cpu_shared_set="24", cpu_power_management="true").errors
    assert str(error) == "[compute] cpu_shared_set = 24: CPU 24 is offline"


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *itertools.product(
            ["cpu_allocation_ratio", "initial_cpu_allocation_ratio"],
            ["-1", "1e3", "NaN", "8,0", "x", "1000000"],
        ),
        ("initial_cpu_allocation_ratio", "0.0"),
    ],
)
def test_a_bad_ratio_is_told(option: str, text: str) -> None:
    (error,) = checked({option: text}).errors
    assert error.reason is Reason.ALLOCATION_RATIO_INVALID
    assert str(error).startswith(f"[DEFAULT] {option} = {text}: a ratio is a decimal number above 0")


@pytest.mark.parametrize("text", ["-1", "2.5", "x", "49"])
def test_a_bad_number_of_reserved_cpus_is_told(text: str) -> None:
    (error,) = checked({"reserved_host_cpus": text}).errors
    assert error.reason is Reason.RESERVED_CPUS_INVALID
    assert error.value == text


def test_a_bad_flag_is_told() -> None:
    (error,) = checked({"cpu_power_management": "maybe"}).errors
    assert str(error) == "[libvirt] cpu_power_management = maybe: write true or false"


def test_all_errors_are_told_at_once() -> None:
    found = checked({"cpu_dedicated_set": "a", "cpu_shared_set": "46-60", "cpu_allocation_ratio": "x"})
    assert [each.reason for each in found.errors] == [
        Reason.CPU_SET_MALFORMED,
        Reason.CPUS_NOT_PRESENT,
        Reason.ALLOCATION_RATIO_INVALID,
    ]


def test_an_ignored_pin_set_may_say_anything() -> None:
    assert settings(D | S | {"vcpu_pin_set": "nonsense"}).shared == CPUSet.parse("18-47")


UNPINNED = HostedGuest("u-1", "web", shared=4)
PINNED = HostedGuest("u-2", "db", pinned=CPUSet.parse("2-5"))
MIXED = HostedGuest("u-3", "vnf", pinned=CPUSet.parse("2"), shared=3)
OUTSIDE = HostedGuest("u-4", "old", pinned=CPUSet.parse("16-19"))


@pytest.mark.parametrize(
    ("guest", "options", "reason"),
    [
        (UNPINNED, D, Reason.GUEST_NEEDS_SHARED_CPUS),
        (UNPINNED, S, None),
        (UNPINNED, D | S, None),
        (UNPINNED, P, None),
        (UNPINNED, {}, None),
        (PINNED, S, Reason.GUEST_NEEDS_DEDICATED_CPUS),
        (PINNED, D, None),
        (PINNED, D | S, None),
        (PINNED, {}, None),
        (MIXED, D, Reason.GUEST_NEEDS_BOTH_KINDS),
        (MIXED, S, Reason.GUEST_NEEDS_BOTH_KINDS),
        (MIXED, {}, Reason.GUEST_NEEDS_BOTH_KINDS),
        (MIXED, D | S, None),
    ],
)
def test_guests_without_cpus_keep_the_agent_from_starting(
    guest: HostedGuest, options: Options, reason: Reason | None
) -> None:
    found = checked(options, guests=(guest,))
    assert [each.reason for each in found.errors] == ([reason] if reason else [])
    assert all(guest.label in each.why for each in found.errors)


def test_guest_pinned_outside_the_set_is_warned_about() -> None:
    found = checked(D, guests=(OUTSIDE, PINNED))
    assert found.settings is not None
    (warning,) = found.warnings
    assert warning.reason is Reason.GUEST_PINNED_OUTSIDE
    assert str(warning) == (
        "[compute] cpu_dedicated_set = 2-17: guest old (u-4) is pinned to CPUs 16-19, "
        "of which 18-19 are not in the set"
    )


def test_guest_policy_follows_from_its_resources() -> None:
    policies = [guest.policy for guest in (UNPINNED, PINNED, MIXED)]
    assert policies == [CPUPolicy.SHARED, CPUPolicy.DEDICATED, CPUPolicy.MIXED]


def test_options_are_picked_from_what_a_file_says() -> None:
    values = {
        ("compute", "cpu_dedicated_set"): "2-17",
        ("DEFAULT", "cpu_allocation_ratio"): "8.0",
        ("libvirt", "cpu_power_management"): "true",
        ("DEFAULT", "cpu_dedicated_set"): "1",
        ("DEFAULT", "host"): "n1",
    }
    assert HostOptions.of(values) == HostOptions(
        cpu_dedicated_set="2-17", cpu_allocation_ratio="8.0", cpu_power_management="true"
    )


@given(st.dictionaries(st.sampled_from(sorted(HostOptions.__dataclass_fields__)), st.text(max_size=12)))
def test_any_text_gives_either_settings_or_errors(options: Options) -> None:
    found = checked(options)
    assert (found.settings is None) == bool(found.errors)
    if found.settings is not None and not found.settings.legacy:
        assert found.settings.shared.isdisjoint(found.settings.dedicated)
