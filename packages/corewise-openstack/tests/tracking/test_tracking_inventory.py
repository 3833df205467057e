"""What a host offers to Placement, row by row of the table, and what is then written."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from corewise.topology import CPUSet
from corewise_openstack.actions import WriteInventories, WriteTraits
from corewise_openstack.tracking import (
    Compat,
    HostFacts,
    HostOffer,
    HostOptions,
    check_options,
    next_write,
    offer,
)
from corewise_openstack.vocabulary.placement import Inventory, Provider
from tracking.hosts import DOCUMENT, facts, facts_of, topology

NEW = Provider("p-1", "n1", 0)
MEMORY = Inventory(total=1024, max_unit=1024)
D, S = {"cpu_dedicated_set": "2-17"}, {"cpu_shared_set": "18-47"}
P, R = {"vcpu_pin_set": "4-19"}, {"reserved_host_cpus": "2"}


def offered(
    options: dict[str, str],
    compat: Compat = Compat.SPEC,
    provider: Provider | None = None,
    host: HostFacts | None = None,
) -> HostOffer:
    host = host or facts()
    settings = check_options(HostOptions(**options), host, (), compat).settings
    assert settings is not None
    return offer(settings, host, provider)


def vcpu(total: int, ratio: str = "4.0", reserved: int = 0) -> Inventory:
    return Inventory(total=total, max_unit=total, reserved=reserved, allocation_ratio=Decimal(ratio))


def pcpu(total: int) -> Inventory:
    return Inventory(total=total, max_unit=total)


def test_documented_host_offers_16_pcpu_and_eightfold_vcpu() -> None:
    found = offered(D | S | {"cpu_allocation_ratio": "8.0"}, host=facts_of(DOCUMENT))
    assert found.inventories == {
        "VCPU": Inventory(
            total=30, reserved=0, min_unit=1, max_unit=30, step_size=1, allocation_ratio=Decimal("8.0")
        ),
        "PCPU": Inventory(
            total=16, reserved=0, min_unit=1, max_unit=16, step_size=1, allocation_ratio=Decimal("1.0")
        ),
    }
    assert found.traits == {"HW_CPU_HYPERTHREADING"}


@pytest.mark.parametrize(
    ("options", "spec", "nova"),
    [
        ({}, {"VCPU": vcpu(48)}, {"VCPU": vcpu(48)}),
        (R, {"VCPU": vcpu(48, reserved=2)}, {"VCPU": vcpu(48, reserved=2)}),
        (S, {"VCPU": vcpu(30)}, {"VCPU": vcpu(30)}),
        (D, {"PCPU": pcpu(16)}, {"PCPU": pcpu(16)}),
        (D | S, {"VCPU": vcpu(30), "PCPU": pcpu(16)}, {"VCPU": vcpu(30), "PCPU": pcpu(16)}),
        (P, {"VCPU": vcpu(16), "PCPU": pcpu(16)}, {"VCPU": vcpu(16)}),
        (P | R, {"VCPU": vcpu(16, reserved=2), "PCPU": pcpu(16)}, {"VCPU": vcpu(16, reserved=2)}),
        (P | S, {"VCPU": vcpu(16), "PCPU": pcpu(16)}, {"VCPU": vcpu(16)}),
        (P | S | R, {"VCPU": vcpu(16), "PCPU": pcpu(16)}, {"VCPU": vcpu(16, reserved=2)}),
        (P | D, {"VCPU": vcpu(2), "PCPU": pcpu(16)}, None),
        (P | D | S, {"VCPU": vcpu(30), "PCPU": pcpu(16)}, None),
        (D | S | R, {"VCPU": vcpu(30), "PCPU": pcpu(16)}, None),
    ],
)
def test_inventories_follow_the_table(
    options: dict[str, str], spec: dict[str, Inventory], nova: dict[str, Inventory] | None
) -> None:
    assert offered(options).inventories == spec
    if nova is None:
        assert check_options(HostOptions(**options), facts(), (), Compat.NOVA).settings is None
    else:
        assert offered(options, Compat.NOVA).inventories == nova


def test_ratio_prefers_option_then_provider_then_initial_value() -> None:
    provider = replace(NEW, inventories={"VCPU": vcpu(48, "16.0")})
    assert offered({}, provider=provider).inventories["VCPU"].allocation_ratio == Decimal("16.0")
    stated = {"cpu_allocation_ratio": "8.0", "initial_cpu_allocation_ratio": "2.0"}
    assert offered(stated, provider=provider).inventories["VCPU"].allocation_ratio == Decimal("8.0")
    initial = {"initial_cpu_allocation_ratio": "2.0"}
    assert offered(initial, provider=NEW).inventories["VCPU"].allocation_ratio == Decimal("2.0")


def test_the_ratio_never_applies_to_dedicated_cpus() -> None:
    provider = replace(NEW, inventories={"PCPU": replace(pcpu(16), allocation_ratio=Decimal("2.0"))})
    found = offered(D | {"cpu_allocation_ratio": "8.0"}, provider=provider)
    assert found.inventories["PCPU"].allocation_ratio == 1


def test_amount_reserved_in_placement_stays_with_its_total() -> None:
    own = replace(NEW, inventories={"VCPU": vcpu(30, reserved=3), "PCPU": replace(pcpu(16), reserved=1)})
    found = offered(D | S, provider=own).inventories
    assert (found["VCPU"].reserved, found["PCPU"].reserved) == (3, 1)
    legacy = replace(NEW, inventories={"VCPU": vcpu(48, reserved=3)})
    assert offered(D | S, provider=legacy).inventories["VCPU"].reserved == 0


def test_amount_reserved_by_the_option_goes_with_it() -> None:
    settings = check_options(HostOptions(**S), facts()).settings
    assert settings is not None
    provider = replace(NEW, inventories={"VCPU": vcpu(30, reserved=2)})
    for by_option, reserved in ((True, 0), (False, 2)):
        found = offer(settings, facts(), provider, reserved_by_option=by_option)
        assert found.inventories == {"VCPU": vcpu(30, reserved=reserved)}


@pytest.mark.parametrize(
    ("threads", "traits"), [(1, set()), (2, {"HW_CPU_HYPERTHREADING"}), (4, {"HW_CPU_HYPERTHREADING"})]
)
def test_trait_is_set_exactly_on_multithreaded_cores(threads: int, traits: set[str]) -> None:
    assert offered({}, host=facts_of(topology(cores=4, threads=threads))).traits == traits


def test_one_core_with_two_online_threads_is_enough() -> None:
    machine = topology(cores=4)
    assert facts_of(machine.within(CPUSet.parse("0-1,2,4,6"))).hyper_threading
    assert not facts_of(machine.within(CPUSet.parse("0,2,4,6"))).hyper_threading


def test_inventories_then_traits_are_written_and_then_nothing() -> None:
    provider = replace(NEW, inventories={"MEMORY_MB": MEMORY}, traits=frozenset({"CUSTOM_GOLD"}))
    found = offered(D | S, provider=provider)
    first = next_write(provider, found)
    assert isinstance(first, WriteInventories)
    assert first.inventories == {"MEMORY_MB": MEMORY, "VCPU": vcpu(30), "PCPU": pcpu(16)}
    assert first.generation == 0
    assert first.why == "the host offers VCPU 30 x 4.0, PCPU 16 x 1.0, Placement has neither VCPU nor PCPU"
    provider = replace(provider, inventories=first.inventories, generation=1)
    second = next_write(provider, found)
    assert isinstance(second, WriteTraits)
    assert second.traits == {"CUSTOM_GOLD", "HW_CPU_HYPERTHREADING"}
    assert second.generation == 1
    assert next_write(replace(provider, traits=second.traits), found) is None


def test_empty_class_and_outdated_trait_are_removed() -> None:
    provider = replace(
        NEW,
        inventories={"VCPU": vcpu(48), "PCPU": pcpu(4)},
        traits=frozenset({"HW_CPU_HYPERTHREADING", "CUSTOM_GOLD"}),
    )
    found = offered(S, provider=provider, host=facts(hyper_threading=False))
    write = next_write(provider, found)
    assert isinstance(write, WriteInventories)
    assert write.inventories == {"VCPU": vcpu(30)}
    after = next_write(replace(provider, inventories=write.inventories), found)
    assert isinstance(after, WriteTraits)
    assert after.traits == {"CUSTOM_GOLD"}
