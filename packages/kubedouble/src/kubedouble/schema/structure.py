"""The structural schema of a kind: what every field is, and how lists and maps of it merge.

One ``Schema`` describes one JSON value. Objects have named fields; a ``Field`` owns what belongs to the
place and not to the type: whether it is required, its default, its strategic-merge directives. Schemas of
recursive types (JSONSchemaProps) contain themselves, so equality is identity, and ``fields`` is filled
after construction.

``list_type`` is the API's ``x-kubernetes-list-type``: a *map* list has items told apart by ``keys``, a
*set* holds unique scalars, an *atomic* list is one value. ``atomic`` says the same of an object or a map.
Source: kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Shape(Enum):
    """The type of a JSON value in the API."""

    OBJECT = "object"
    MAP = "map"
    LIST = "list"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    QUANTITY = "quantity"
    INT_OR_STRING = "int-or-string"
    TIME = "time"
    MICRO_TIME = "micro-time"
    BYTES = "bytes"
    ANY = "any"


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The schema of one JSON value.

    Attributes:
        name: the type's name as the API publishes it, such as ``io.k8s.api.core.v1.PodSpec``; empty if
        inline.
        fields: what an object has, by name.
        items: what a list or map holds; of a custom object, what its unnamed fields are.
        bits: 32 or 64, of an integer.
        preserve_unknown: fields not named here are kept instead of refused.
        enum: the values allowed, if they are few.
        status_subresource: whether a custom kind has one.
        document: the OpenAPI text this schema was made from (custom resources).
    """

    shape: Shape
    name: str = ""
    description: str = ""
    fields: dict[str, Field] = field(default_factory=dict)
    items: Schema | None = None
    list_type: str = "atomic"
    keys: tuple[str, ...] = ()
    atomic: bool = False
    bits: int = 64
    preserve_unknown: bool = False
    nullable: bool = False
    enum: tuple[Any, ...] = ()
    status_subresource: bool = False
    document: Mapping[str, Any] | None = None

    def child(self, key: str) -> Schema | None:
        """Return the schema under a key of an object or map; None if nothing is known about it."""
        place = self.fields.get(key)
        return place.schema if place is not None else self.items

    @property
    def has_status(self) -> bool:
        """Whether status is written through an endpoint of its own."""
        return self.status_subresource if self.custom else "status" in self.fields

    @property
    def custom(self) -> bool:
        """Whether this is (part of) a custom resource."""
        return self.document is not None


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A named place in an object.

    Attributes:
        required: the API publishes it as required; a scalar that is absent is printed as its zero.
        present: a struct that is always there: an object without it reads as ``{}`` in its place.
        pointer: a zero (``false``, ``0``, ``""``) differs from absence, and is kept.
        default: the JSON value written when the field is absent; None for no default.
        merge_strategies: ``merge`` and ``retainKeys`` of strategic merge patch.
        merge_key: the field by which strategic merge patch tells the items of this list apart.
    """

    schema: Schema
    required: bool = False
    present: bool = False
    pointer: bool = False
    default: Any = None
    merge_strategies: frozenset[str] = frozenset()
    merge_key: str = ""
    description: str = ""


ANYTHING = Schema(Shape.ANY, preserve_unknown=True, atomic=True)
"""A value of a built-in kind that may be any JSON; it is owned as a whole."""
