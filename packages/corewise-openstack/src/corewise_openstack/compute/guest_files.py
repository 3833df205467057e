"""Flavors, images, providers and guests, read from files.

A flavor is ``{"name","vcpus","ram","disk","extra_specs":{}}``, an image ``{"properties":{}}``, or what
``openstack flavor show -f json`` and ``openstack image show -f json`` print; there a flavor's extra specs are
called ``properties``. ``ram`` is in MiB and ``disk`` in GiB, as in OpenStack. Extra specs and properties are
texts; numbers and booleans are read as the text they look like, since clients print them so. ``tracking``
decides what the texts mean.

To plan an upgrade without a Placement, a provider is Placement's answers about its inventories and its
allocations in one object::

    {"inventories": {"VCPU": {"total": 48, ...}}, "resource_provider_generation": 7,
     "allocations": {"<guest>": {"resources": {"VCPU": 8}}}}

and guests are those of the host::

    {"<guest>": {"pinnedCPUs": "2-9", "sharedCPUs": 0, "emulatorCPU": null, "threadPolicy": "isolate"}}
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from corewise.config.decoding import Decoder, Parsed, Place, did_you_mean
from corewise.config.json_text import Items, Members, read_json
from corewise.topology import CPUSet, CPUSetError
from corewise.vocabulary.errors import UNREADABLE, unreadable_text
from corewise_openstack.compute.errors import FileUnusable
from corewise_openstack.tracking import HostedGuest
from corewise_openstack.tracking.flavor import Flavor, Image
from corewise_openstack.vocabulary.guests import ThreadPolicy
from corewise_openstack.vocabulary.placement import Consumer, Inventory, Provider, ProviderUse

_EPHEMERAL = "OS-FLV-EXT-DATA:ephemeral"
_FLAVOR_KEYS = ("name", "vcpus", "ram", "disk", "swap", "ephemeral", _EPHEMERAL, "extra_specs", "properties")
_OTHER_FLAVOR_KEYS = (
    "id",
    "description",
    "rxtx_factor",
    "links",
    "access_project_ids",
    "os-flavor-access:is_public",
    "OS-FLV-DISABLED:disabled",
)
_IMAGE_KEYS = ("properties",)
_OTHER_IMAGE_KEYS = (
    *("id", "name", "status", "min_disk", "min_ram", "disk_format", "container_format", "checksum", "size"),
    *(
        "created_at",
        "updated_at",
        "virtual_size",
        "visibility",
        "protected",
        "owner",
        "tags",
        "file",
        "schema",
    ),
)
_LARGEST = 10**15


def parse_flavor(text: str) -> Parsed[Flavor]:
    """Read a flavor; each problem has its line and column."""
    decoder = Decoder(read_json(text))
    fields = decoder.fields(decoder.root, (*_FLAVOR_KEYS, *_OTHER_FLAVOR_KEYS))
    for key in _keys(decoder):
        if key.value not in _FLAVOR_KEYS and did_you_mean(str(key.value), ["extra_specs"]):
            decoder.error(key, 'extra specs belong in "extra_specs"; here they are ignored')
    if isinstance(decoder.root.value, Members):
        for name in ("vcpus", "ram"):
            if fields[name].value is None and decoder.is_complete:
                decoder.error(fields[name], "is missing")
    elif not decoder.problems:
        decoder.error(decoder.root, "must be an object {...}, not null")
    specs = "extra_specs" if fields["properties"].value is None else "properties"
    if specs == "properties" and fields["extra_specs"].value is not None:
        decoder.error(fields["extra_specs"], 'is beside "properties", which means the same: keep one')
    ephemeral = fields["ephemeral"] if fields["ephemeral"].value is not None else fields[_EPHEMERAL]
    flavor = Flavor(
        name=decoder.text(fields["name"]) or "",
        vcpus=_amount(decoder, fields["vcpus"]),
        ram=_amount(decoder, fields["ram"]),
        disk=_amount(decoder, fields["disk"]),
        ephemeral=_amount(decoder, ephemeral),
        swap=_amount(decoder, fields["swap"]),
        extra_specs=_texts(decoder, fields[specs]),
    )
    return decoder.finish(flavor)


def parse_image(text: str) -> Parsed[Image]:
    """Read the properties of an image; each problem has its line and column."""
    decoder = Decoder(read_json(text))
    fields = decoder.fields(decoder.root, (*_IMAGE_KEYS, *_OTHER_IMAGE_KEYS))
    for key in _keys(decoder):
        if str(key.value).startswith(("hw_", "trait:")):
            decoder.error(key, 'properties belong in "properties"; here they are ignored')
    if fields["properties"].value is None and not decoder.problems:
        message = 'has no "properties", so it requests nothing'
        decoder.warn(decoder.root, message)
    return decoder.finish(
        Image(_texts(decoder, fields["properties"], nested_too=True))  # such as "locations"
    )


def _keys(decoder: Decoder) -> list[Place]:
    if not isinstance(decoder.root.value, Members):
        return []
    return [key for key, _ in decoder.entries(decoder.root)]


def _amount(decoder: Decoder, place: Place) -> int:
    if place.value == "":  # how clients print a flavor without swap
        return 0
    return decoder.whole(place, -_LARGEST, _LARGEST) or 0


def _texts(decoder: Decoder, place: Place, *, nested_too: bool = False) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in decoder.entries(place):
        match value.value:  # a number or a boolean counts as it looks
            case bool() as flag:
                text: str | None = "true" if flag else "false"
            case Decimal() as number:
                text = format(number.normalize(), "f")
            case Items() | Members() if nested_too:
                text = None
            case _:
                text = decoder.text(value)
        if text is not None:
            texts[str(key.value)] = text
    return texts


OFFLINE = "offline"
"""Stands for a provider's uuid that is not known."""


_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_LARGEST_RATIO = Decimal("3.4e38")
"""Placement keeps ratios as single floats."""

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
    except UNREADABLE as error:
        raise FileUnusable(
            f"{source} is not a provider as Placement describes it: {unreadable_text(error)}"
        ) from None
    for name, each in read.inventories.items():
        ratio = each.allocation_ratio
        if not ratio.is_finite() or not 0 <= ratio <= _LARGEST_RATIO:
            raise FileUnusable(f"{source}: the allocation_ratio of {name} is {ratio}, not a number from 0 up")
    inventories = {
        name: Inventory(**msgspec.structs.asdict(each) | {"max_unit": each.max_unit or each.total})
        for name, each in read.inventories.items()
    }
    provider = Provider(OFFLINE, host, read.resource_provider_generation, inventories, read.traits)
    consumers = tuple(
        Consumer(uuid, 0, "", "", {OFFLINE: dict(held.resources)}) for uuid, held in read.allocations.items()
    )
    return ProviderUse(provider, consumers)


def parse_guests(text: str, source: str) -> tuple[HostedGuest, ...]:
    """Read the guests of a host.

    Raises:
        FileUnusable: if the text is not what it should be.
    """
    try:
        read = msgspec.json.decode(text, type=dict[str, _Guest])
        return tuple(
            HostedGuest(
                uuid,
                guest.name,
                pinned=CPUSet.parse(guest.pinned_cpus),
                shared=guest.shared_cpus,
                emulator=CPUSet() if guest.emulator_cpu is None else CPUSet.of((guest.emulator_cpu,)),
                thread_policy=guest.thread_policy,
            )
            for uuid, guest in read.items()
        )
    except (*UNREADABLE, CPUSetError) as error:
        hint = 'write {"<guest>": {"pinnedCPUs": "2-9", "threadPolicy": "isolate"}}'
        raise FileUnusable(
            f"{source} does not describe guests: {unreadable_text(error)}", hint=hint
        ) from None
