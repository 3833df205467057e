"""The upgrade of a host: who is given PCPU instead of VCPU.

The host is the document's: 24 cores of two neighboring threads, dedicated 2-17, shared 18-47.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.tracking import (
    Compat,
    HostedGuest,
    HostOptions,
    ReshapePlan,
    check_options,
    offer,
    plan_reshape,
)
from corewise_openstack.vocabulary.guests import ThreadPolicy
from corewise_openstack.vocabulary.placement import Consumer, Inventory, Provider, ProviderUse
from tracking.hosts import DOCUMENT, facts_of

NEW = {"cpu_dedicated_set": "2-17", "cpu_shared_set": "18-47", "cpu_allocation_ratio": "8.0"}
LEGACY = {"VCPU": Inventory(total=48, max_unit=48, allocation_ratio=Decimal("4.0"))}
PROVIDER = Provider("p-1", "n1", 7, LEGACY)
MEMORY = {"MEMORY_MB": 2048}


def consumer(uuid: str, **held: int) -> Consumer:
    return Consumer(uuid, 3, "project", "user", {"p-1": {**held, **MEMORY}})


def guest(uuid: str, pinned: str = "", shared: int = 0, **more: ThreadPolicy | CPUSet) -> HostedGuest:
    return HostedGuest(uuid, uuid, CPUSet.parse(pinned), shared, **more)  # type: ignore[arg-type]


def planned(
    guests: list[HostedGuest],
    consumers: list[Consumer],
    *,
    compat: Compat = Compat.SPEC,
    options: dict[str, str] | None = None,
    provider: Provider = PROVIDER,
) -> ReshapePlan | Finding | None:
    facts = facts_of(DOCUMENT)
    settings = check_options(HostOptions(**(NEW if options is None else options)), facts, (), compat).settings
    assert settings is not None
    use = ProviderUse(provider, tuple(consumers))
    return plan_reshape(
        use, guests, settings, offer(settings, facts, provider), topology=DOCUMENT, compat=compat
    )


PINNED = guest("pinned", "2-5", thread_policy=ThreadPolicy.PREFER)
ISOLATED = guest("isolated", "6,8", thread_policy=ThreadPolicy.ISOLATE)
FLOATING = guest("floating", shared=6)
MIXED = guest("mixed", "10-11", shared=3)
ALL = [PINNED, ISOLATED, FLOATING, MIXED]
HELD = [
    consumer("pinned", VCPU=4),
    consumer("isolated", VCPU=2),
    consumer("floating", VCPU=6),
    consumer("mixed", VCPU=5),
]


def plan(compat: Compat = Compat.SPEC) -> ReshapePlan:
    found = planned(ALL, HELD, compat=compat)
    assert isinstance(found, ReshapePlan)
    return found


def test_pinned_guests_get_pcpu_and_others_keep_vcpu() -> None:
    found = plan()
    after = {move.guest.uuid: dict(move.after) for move in found.moves}
    assert after == {
        "pinned": {"PCPU": 4, **MEMORY},
        "isolated": {"PCPU": 4, **MEMORY},
        "mixed": {"PCPU": 2, "VCPU": 3, **MEMORY},
    }
    assert dict(found.before) == LEGACY
    assert {name: each.total for name, each in found.after.items()} == {"VCPU": 30, "PCPU": 16}


def test_siblings_of_isolated_guests_are_uncounted_beside_nova() -> None:
    after = {move.guest.uuid: move.after["PCPU"] for move in plan(Compat.NOVA).moves}
    assert after == {"pinned": 4, "isolated": 2, "mixed": 2}


def test_one_request_carries_inventories_and_all_moving_guests() -> None:
    action = plan().action
    (provider,) = action.providers
    assert (provider.uuid, provider.generation) == ("p-1", 7)
    assert provider.inventories["PCPU"].total == 16
    assert [(each.uuid, each.generation) for each in action.consumers] == [
        ("pinned", 3),
        ("isolated", 3),
        ("mixed", 3),
    ]
    assert action.consumers[0].allocations == {"p-1": {"PCPU": 4, **MEMORY}}
    assert action.reason is Reason.GUESTS_RESHAPED


def test_allocations_of_other_providers_and_classes_are_kept() -> None:
    elsewhere = replace(HELD[0], allocations={**HELD[0].allocations, "disk": {"DISK_GB": 10}})
    found = planned([PINNED], [elsewhere])
    assert isinstance(found, ReshapePlan)
    assert found.action.consumers[0].allocations == {
        "p-1": {"PCPU": 4, **MEMORY},
        "disk": {"DISK_GB": 10},
    }


def test_a_second_run_finds_nothing_to_do() -> None:
    found = plan()
    moved = {each.uuid: each for each in found.action.consumers}
    consumers = [moved.get(each.uuid, each) for each in HELD]
    (provider,) = found.action.providers
    assert planned(ALL, consumers, provider=replace(provider, generation=8)) is None


def test_host_without_dedicated_set_or_guests_is_skipped() -> None:
    assert planned(ALL, HELD, options={"vcpu_pin_set": "2-17"}) is None
    assert planned(ALL, HELD, options={}) is None
    assert planned(ALL, HELD, options={"cpu_shared_set": "18-47"}) is None
    assert planned([FLOATING], HELD) is None
    assert planned([], HELD) is None


def test_guest_already_on_pcpu_stays_while_neighbors_move() -> None:
    both = replace(PROVIDER, inventories={**LEGACY, "PCPU": Inventory(total=16, max_unit=16)})
    found = planned([PINNED, ISOLATED], [consumer("pinned", PCPU=4), HELD[1]], provider=both)
    assert isinstance(found, ReshapePlan)
    assert [move.guest.uuid for move in found.moves] == ["isolated"]


def test_cpu_of_isolated_emulator_threads_is_counted() -> None:
    emulating = guest("pinned", "2-5", emulator=CPUSet.parse("6"))
    found = planned([emulating], [HELD[0]])
    assert isinstance(found, ReshapePlan)
    assert found.moves[0].after["PCPU"] == 5
    beside_nova = planned([emulating], [HELD[0]], compat=Compat.NOVA)
    assert isinstance(beside_nova, ReshapePlan)
    assert beside_nova.moves[0].after["PCPU"] == 4


def test_siblings_outside_the_dedicated_set_do_not_count() -> None:
    edge = guest("isolated", "17", thread_policy=ThreadPolicy.ISOLATE)
    found = planned([edge], [consumer("isolated", VCPU=1)], options={**NEW, "cpu_dedicated_set": "3-17"})
    assert isinstance(found, ReshapePlan)
    assert found.moves[0].after["PCPU"] == 2
    found = planned([edge], [consumer("isolated", VCPU=1)], options={**NEW, "cpu_dedicated_set": "17"})
    assert isinstance(found, ReshapePlan)
    assert found.moves[0].after["PCPU"] == 1


def test_pcpu_beyond_the_host_is_refused_before_sending() -> None:
    found = planned([PINNED], [HELD[0]], options={**NEW, "cpu_dedicated_set": "2-4"})
    assert isinstance(found, Finding)
    assert found.reason is Reason.RESHAPE_EXCEEDS_INVENTORY
    assert found.message == "the pinned guests of the host need 4 PCPU, and it would offer 3"


def test_vcpu_that_a_named_guest_keeps_is_kept() -> None:
    dedicated_only = {"cpu_dedicated_set": "2-17"}
    for keeping, held in ((FLOATING, HELD[2]), (MIXED, HELD[3])):
        found = planned([PINNED, keeping], [HELD[0], held], options=dedicated_only)
        assert isinstance(found, Finding)
        assert found.reason is Reason.GUEST_NEEDS_SHARED_CPUS
        assert found.message.endswith(f"guests that share CPUs hold it: {keeping.uuid}")
    assert isinstance(planned([PINNED], [HELD[0]], options=dedicated_only), ReshapePlan)


def test_guest_with_mismatched_amount_moves_with_a_warning() -> None:
    found = planned([PINNED], [consumer("pinned", VCPU=8)])
    assert isinstance(found, ReshapePlan)
    assert found.moves[0].after == {"PCPU": 4, **MEMORY}
    (warning,) = found.warnings
    assert warning.reason is Reason.RESHAPE_AMOUNT_UNEXPECTED
    assert warning.message == "guest pinned (pinned) holds 8 VCPU and has 4 CPUs"


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6),
    st.sampled_from(Compat),
)
def test_nothing_is_lost_and_second_run_changes_nothing(
    shapes: list[tuple[int, int]], compat: Compat
) -> None:
    guests, consumers, next_cpu = [], [], 2
    for number, (pinned, shared) in enumerate(shapes):
        if pinned + shared == 0 or next_cpu + pinned > 18:
            continue
        cpus = CPUSet.of(range(next_cpu, next_cpu + pinned))
        next_cpu += pinned
        guests.append(HostedGuest(str(number), pinned=cpus, shared=shared))
        consumers.append(consumer(str(number), VCPU=pinned + shared))
    found = planned(guests, consumers, compat=compat)
    assert not isinstance(found, Finding)
    if found is None:
        assert not any(each.pinned for each in guests)
        return
    moved = {each.uuid: each for each in found.action.consumers}
    for each in guests:
        held = moved.get(each.uuid, consumers[[g.uuid for g in guests].index(each.uuid)]).allocations["p-1"]
        assert (held.get("PCPU", 0), held.get("VCPU", 0)) == (len(each.pinned), each.shared)
    after = [moved.get(each.uuid, each) for each in consumers]
    assert planned(guests, after, compat=compat, provider=found.action.providers[0]) is None
