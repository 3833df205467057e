"""A provider and its guests as files say them, for planning an upgrade without a Placement.

The provider is what Placement answers about its inventories and its allocations, in one object::

    {"inventories": {"VCPU": {"total": 48, ...}}, "resource_provider_generation": 7,
     "allocations": {"<guest>": {"resources": {"VCPU": 8}}}}

Guests are what their host shows::

    {"<guest>": {"pinnedCPUs": "2-9", "sharedCPUs": 0, "emulatorCPU": null, "threadPolicy": "isolate"}}
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from corewise.compute.errors import FileUnusable
from corewise.policy.guests import ThreadPolicy
from corewise.policy.placement import Consumer, Inventory, Provider, ProviderUse
from corewise.topology import CPUSet, CPUSetError
from corewise.tracking import HostedGuest

OFFLINE = "offline"
"""What stands for a provider's uuid where nobody has told it."""


_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class _Inventory(msgspec.Struct, forbid_unknown_fields=True):
    total: _Positive
    reserved: _Amount = 0
    min_unit: _Positive = 1
    max_unit: _Positive | None = None
    step_size: _Positive = 1
    allocation_ratio: Decimal = Decimal(1)


class _Resources(msgspec.Struct):
    resources: dict[str, _Positive]


class _Provider(msgspec.Struct):
    inventories: dict[str, _Inventory]
    allocations: dict[str, _Resources] = {}
    resource_provider_generation: _Amount = 0
    traits: frozenset[str] = frozenset()


class _Guest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    name: str = ""
    pinned_cpus: str = msgspec.field(name="pinnedCPUs", default="")
    shared_cpus: _Amount = msgspec.field(name="sharedCPUs", default=0)
    emulator_cpu: _Amount | None = msgspec.field(name="emulatorCPU", default=None)
    thread_policy: ThreadPolicy | None = None


def parse_provider(text: str, host: str, source: str) -> ProviderUse:
    """Read a provider and who holds what of it.

    Raises:
        FileUnusable: if the text is not what Placement answers.
    """
    try:
        read = msgspec.json.decode(text, type=_Provider)
    except msgspec.MsgspecError as error:
        raise FileUnusable(f"{source} is not a provider as Placement tells of it: {error}") from None
    inventories = {name: _inventory(each) for name, each in read.inventories.items()}
    provider = Provider(OFFLINE, host, read.resource_provider_generation, inventories, read.traits)
    consumers = tuple(
        Consumer(uuid, 0, "", "", {OFFLINE: dict(held.resources)}) for uuid, held in read.allocations.items()
    )
    return ProviderUse(provider, consumers)


def _inventory(read: _Inventory) -> Inventory:
    most = read.total if read.max_unit is None else read.max_unit
    return Inventory(
        read.total, most, read.reserved, read.min_unit, read.step_size, allocation_ratio=read.allocation_ratio
    )


def parse_guests(text: str, source: str) -> tuple[HostedGuest, ...]:
    """Read the guests of a host.

    Raises:
        FileUnusable: if the text is not what it should be.
    """
    try:
        read = msgspec.json.decode(text, type=dict[str, _Guest])
        return tuple(_hosted(uuid, guest) for uuid, guest in read.items())
    except (msgspec.MsgspecError, CPUSetError) as error:
        hint = 'write {"<guest>": {"pinnedCPUs": "2-9", "threadPolicy": "isolate"}}'
        raise FileUnusable(f"{source} does not tell of guests: {error}", hint=hint) from None


def _hosted(uuid: str, guest: _Guest) -> HostedGuest:
    emulator = CPUSet() if guest.emulator_cpu is None else CPUSet.of((guest.emulator_cpu,))
    pinned = CPUSet.parse(guest.pinned_cpus)
    return HostedGuest(uuid, guest.name, pinned, guest.shared_cpus, emulator, guest.thread_policy)
