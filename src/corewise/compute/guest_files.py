"""Flavors and images as files say them: ``{"name","vcpus","ram","disk","extra_specs":{}}``, ``{"properties":{}}``.

``ram`` is in MiB and ``disk`` in GiB, as OpenStack has them. Extra specs and properties are texts; numbers and
booleans are taken for what they look like, since clients print them so. What the texts mean is decided by
``tracking``.
"""

from __future__ import annotations

from decimal import Decimal

from corewise.policy.decoding import Decoder, Parsed, Place, Severity
from corewise.policy.json_text import read_json
from corewise.tracking.request import Flavor

_FLAVOR_KEYS = ("name", "vcpus", "ram", "disk", "extra_specs")
_OTHER_FLAVOR_KEYS = ("id", "description", "swap", "rxtx_factor", "is_public", "ephemeral", "links")
_IMAGE_KEYS = ("properties",)
_OTHER_IMAGE_KEYS = ("id", "name", "status", "min_disk", "min_ram", "disk_format", "container_format")
_MOST_VCPUS = 65536
_LARGEST_AMOUNT = 2**31 - 1
"""What Placement can count to."""


def parse_flavor(text: str) -> Parsed[Flavor]:
    """Read a flavor; every problem is told with its line and column."""
    decoder = Decoder(read_json(text))
    fields = decoder.fields(decoder.root, (*_FLAVOR_KEYS, *_OTHER_FLAVOR_KEYS))
    for name in ("vcpus", "ram"):
        if fields[name].value is None and not decoder.root.is_empty:
            decoder.tell(fields[name], "is missing")
    flavor = Flavor(
        name=decoder.text(fields["name"]) or "",
        vcpus=decoder.whole(fields["vcpus"], 1, _MOST_VCPUS) or 1,
        memory_mb=decoder.whole(fields["ram"], 0, _LARGEST_AMOUNT) or 0,
        disk_gb=decoder.whole(fields["disk"], 0, _LARGEST_AMOUNT) or 0,
        extra_specs=_texts(decoder, fields["extra_specs"]),
    )
    return decoder.finish(flavor)


def parse_image(text: str) -> Parsed[dict[str, str]]:
    """Read the properties of an image; every problem is told with its line and column."""
    decoder = Decoder(read_json(text))
    fields = decoder.fields(decoder.root, (*_IMAGE_KEYS, *_OTHER_IMAGE_KEYS))
    if fields["properties"].value is None and not decoder.problems:
        message = 'has no "properties": nothing is asked for by it'
        decoder.tell(decoder.root, message, Severity.WARNING)
    return decoder.finish(_texts(decoder, fields["properties"]))


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
