"""The fields of a Pod's metadata and spec, and how a strategic merge patch merges their lists.

``pod_schema.json`` holds every type by its name; tools/generate.py writes it from the field tables of
kubedouble, the local API server.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache

import msgspec


class FieldShape(StrEnum):
    """What a JSON value is to the API."""

    OBJECT = "object"
    MAP = "map"
    LIST = "list"
    STRING = "string"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    QUANTITY = "quantity"
    INT_OR_STRING = "int-or-string"
    TIME = "time"
    ANY = "any"


class PodField(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value in a pod."""

    shape: FieldShape
    type: str = ""
    """Of an object."""
    items: PodField | None = None
    """The values of a list or a map."""
    bits: int = 64
    """Of an integer."""
    merge: bool = False
    """A patch merges this list into the pod's; it replaces other lists."""
    merge_key: str = ""
    """The field that tells the items of a merged list apart; none if they are scalars."""

    @property
    def fields(self) -> Mapping[str, PodField]:
        """The fields of an object."""
        return _types()[self.type] if self.type else {}


POD = PodField(FieldShape.OBJECT, "Pod")


@cache
def _types() -> dict[str, dict[str, PodField]]:
    from importlib.resources import files  # noqa: PLC0415 - slow, and few profiles have a patch

    text = files("corewise.config").joinpath("pod_schema.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, PodField]])
