"""Flavors and images as files say them.

A flavor is ``{"name","vcpus","ram","disk","extra_specs":{}}``, an image ``{"properties":{}}``.

``ram`` is in MiB and ``disk`` in GiB, as OpenStack has them. Extra specs and properties are texts; numbers
and booleans are taken for what they look like, since clients print them so. What the texts mean, and which
amounts a guest can have, is decided by ``tracking``.
"""

from __future__ import annotations

from decimal import Decimal

from corewise.policy.decoding import Decoder, Parsed, Place, Severity, did_you_mean
from corewise.policy.json_text import read_json
from corewise.policy.json_tree import Members
from corewise.tracking.flavor import Flavor, Image

_EPHEMERAL = "OS-FLV-EXT-DATA:ephemeral"
_FLAVOR_KEYS = ("name", "vcpus", "ram", "disk", "swap", "ephemeral", _EPHEMERAL, "extra_specs")
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
_OTHER_IMAGE_KEYS = ("id", "name", "status", "min_disk", "min_ram", "disk_format", "container_format")
_LARGEST = 10**15


def parse_flavor(text: str) -> Parsed[Flavor]:
    """Read a flavor; every problem is told with its line and column."""
    decoder = Decoder(read_json(text))
    fields = decoder.fields(decoder.root, (*_FLAVOR_KEYS, *_OTHER_FLAVOR_KEYS))
    for key in _keys(decoder):
        if key.value not in _FLAVOR_KEYS and (key.value == "properties" or _means_extra_specs(key)):
            decoder.tell(key, 'extra specs stand in "extra_specs"; nothing that is here would count')
    if isinstance(decoder.root.value, Members):
        for name in ("vcpus", "ram"):
            if fields[name].value is None and decoder.is_complete:
                decoder.tell(fields[name], "is missing")
    elif not decoder.problems:
        decoder.tell(decoder.root, "must be an object {...}, not null")
    ephemeral = fields["ephemeral"] if fields["ephemeral"].value is not None else fields[_EPHEMERAL]
    flavor = Flavor(
        name=decoder.text(fields["name"]) or "",
        vcpus=_amount(decoder, fields["vcpus"]),
        ram=_amount(decoder, fields["ram"]),
        disk=_amount(decoder, fields["disk"]),
        ephemeral=_amount(decoder, ephemeral),
        swap=_amount(decoder, fields["swap"]),
        extra_specs=_texts(decoder, fields["extra_specs"]),
    )
    return decoder.finish(flavor)


def parse_image(text: str) -> Parsed[Image]:
    """Read the properties of an image; every problem is told with its line and column."""
    decoder = Decoder(read_json(text))
    fields = decoder.fields(decoder.root, (*_IMAGE_KEYS, *_OTHER_IMAGE_KEYS))
    for key in _keys(decoder):
        if str(key.value).startswith(("hw_", "trait:")):
            decoder.tell(key, 'properties stand in "properties"; nothing that is here would count')
    if fields["properties"].value is None and not decoder.problems:
        message = 'has no "properties": nothing is asked for by it'
        decoder.tell(decoder.root, message, Severity.WARNING)
    return decoder.finish(Image(_texts(decoder, fields["properties"])))


def _keys(decoder: Decoder) -> list[Place]:
    if not isinstance(decoder.root.value, Members):
        return []
    return [key for key, _ in decoder.entries(decoder.root)]


def _means_extra_specs(key: Place) -> bool:
    return bool(did_you_mean(str(key.value), ["extra_specs"]))


def _amount(decoder: Decoder, place: Place) -> int:
    if place.value == "":  # how clients print a flavor without swap
        return 0
    return decoder.whole(place, -_LARGEST, _LARGEST) or 0


def _texts(decoder: Decoder, place: Place) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in decoder.entries(place):
        text = _text(decoder, value)
        if text is not None:
            texts[str(key.value)] = text
    return texts


def _text(decoder: Decoder, place: Place) -> str | None:
    """Return a text, or what a number or a boolean looks like; None for null."""
    match place.value:
        case bool():
            return "true" if place.value else "false"
        case Decimal():
            return format(place.value.normalize(), "f")
        case _:
            return decoder.text(place)
