"""The schemas of the built-in kinds, read from the field tables, and found by group, version and kind.

The notation of the field tables::

    @ io.k8s.api.core.v1                   the package of what follows
    Toleration atomic: key string;         a type; `atomic`: owned as a whole; `kind`: has apiVersion, kind
      operator? string; value string       its fields, separated by semicolons

A field is ``name`` with marks, a type, and attributes:

* marks: ``!`` required, ``+`` not required, yet always present, ``?`` a pointer (zeros are kept);
* types: ``string``, ``int32``, ``int64``, ``float``, ``bool``, ``quantity``, ``int-or-string``, ``time``,
  ``microtime``, ``bytes``, ``any``, a type's name, ``[T]`` a list, ``{T}`` a map from strings;
  ``T(a|b)`` allows only these values;
* attributes: ``map=a,b`` a list whose items these keys tell apart (and strategic merge patch by the first,
  unless ``merge=key`` or ``nomerge`` says otherwise), ``set``, ``merge``, ``retainKeys``, ``atomic``,
  ``=value`` default.

A type's name is looked up in its own package first, then in all; there it is unique.

Source: the published API description of Kubernetes (k8s.io/api), without fields behind alpha feature gates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import msgspec

from kubedouble.schema import cluster_fields, pod_fields
from kubedouble.schema.descriptions import DESCRIPTIONS
from kubedouble.schema.structure import ANYTHING, Field, Schema, Shape

_FIELD = re.compile(
    r"(?P<name>[\w$-]+)(?P<marks>[!+?]*) (?P<type>[^\s(]+)(?:\((?P<enum>[^)]*)\))?(?P<more>(?: \S+)*)"
)
_SCALARS = {
    "string": Shape.STRING,
    "int32": Shape.INTEGER,
    "int64": Shape.INTEGER,
    "float": Shape.NUMBER,
    "bool": Shape.BOOLEAN,
    "quantity": Shape.QUANTITY,
    "int-or-string": Shape.INT_OR_STRING,
    "time": Shape.TIME,
    "microtime": Shape.MICRO_TIME,
    "bytes": Shape.BYTES,
}
_TYPE_META = ("apiVersion string", "kind string")


def parse_types(text: str, descriptions: Mapping[str, str]) -> dict[str, Schema]:
    """Return the schemas of all types in the text, by full name."""
    bodies: dict[str, list[str]] = {}
    types: dict[str, Schema] = {}
    package = full = ""
    for line in filter(None, text.split("\n")):
        if line.startswith("@ "):
            package = line[2:]
        elif line.startswith(" "):
            bodies[full].append(line)
        else:
            head, _, body = line.partition(":")
            name, *marks = head.split()
            full = f"{package}.{name}"
            about = descriptions.get(full) or descriptions.get(name, "")
            types[full] = Schema(Shape.OBJECT, full, about, atomic="atomic" in marks)
            bodies[full] = [*(f"{field};" for field in _TYPE_META if "kind" in marks), body]
    reader = _Reader(types, descriptions)
    for full, lines in bodies.items():
        reader.fill(types[full], "".join(lines))
    return types


class _Reader:
    def __init__(self, types: Mapping[str, Schema], descriptions: Mapping[str, str]) -> None:
        self._types = types
        self._descriptions = descriptions
        self._short = {full.rpartition(".")[2]: full for full in types}

    def fill(self, schema: Schema, body: str) -> None:
        for text in filter(None, (part.strip() for part in body.split(";"))):
            match = _FIELD.fullmatch(text)
            if match is None:
                raise ValueError(f"{schema.name}: not a field: {text!r}")
            schema.fields[match["name"]] = self._field(schema, match)

    def _field(self, owner: Schema, match: re.Match[str]) -> Field:
        marks, attributes = match["marks"], match["more"].split()
        settings = dict(attribute.partition("=")[::2] for attribute in attributes if "=" in attribute[1:])
        keys = tuple(settings["map"].split(",")) if "map" in settings else ()
        merge_key = settings.get("merge") or (keys[0] if keys and "nomerge" not in attributes else "")
        strategies = {"merge"} if merge_key or "merge" in attributes else set()
        default = next((attribute[1:] for attribute in attributes if attribute.startswith("=")), None)
        schema = self._schema(
            match["type"],
            package=owner.name.rpartition(".")[0],
            list_type="map" if keys else "set" if "set" in attributes else "atomic",
            keys=keys,
            enum=tuple((match["enum"] or "").split("|")) if match["enum"] else (),
            atomic="atomic" in attributes,
        )
        return Field(
            schema,
            required="!" in marks,
            present="+" in marks,
            pointer="?" in marks,
            default=None if default is None else _default(default, schema),
            merge_strategies=frozenset(strategies | ({"retainKeys"} & set(attributes))),
            merge_key=merge_key,
            description=self._about(owner, match["name"], schema),
        )

    def _schema(
        self,
        text: str,
        package: str,
        list_type: str = "atomic",
        keys: tuple[str, ...] = (),
        enum: tuple[str, ...] = (),
        *,
        atomic: bool = False,
    ) -> Schema:
        if text.startswith("["):
            return Schema(Shape.LIST, items=self._schema(text[1:-1], package), list_type=list_type, keys=keys)
        if text.startswith("{"):
            return Schema(Shape.MAP, items=self._schema(text[1:-1], package), atomic=atomic)
        if text == "any":
            return ANYTHING
        if text in _SCALARS:
            return Schema(_SCALARS[text], bits=32 if text == "int32" else 64, enum=enum)
        own = f"{package}.{text}"
        return self._types[own if own in self._types else self._short[text]]

    def _about(self, owner: Schema, name: str, schema: Schema) -> str:
        short = owner.name.rpartition(".")[2]
        found = self._descriptions.get(f"{short}.{name}") or self._descriptions.get(f"*.{name}", "")
        return found or schema.description


def _default(text: str, schema: Schema) -> object:
    if schema.shape in {Shape.STRING, Shape.QUANTITY}:
        return text.strip('"')
    return msgspec.json.decode(text)


META = "io.k8s.apimachinery.pkg.apis.meta.v1"
PACKAGES = {
    "": "io.k8s.api.core",
    "apps": "io.k8s.api.apps",
    "admissionregistration.k8s.io": "io.k8s.api.admissionregistration",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "autoscaling": "io.k8s.api.autoscaling",
    "batch": "io.k8s.api.batch",
    "authentication.k8s.io": "io.k8s.api.authentication",
    "authorization.k8s.io": "io.k8s.api.authorization",
    "coordination.k8s.io": "io.k8s.api.coordination",
    "events.k8s.io": "io.k8s.api.events",
    "networking.k8s.io": "io.k8s.api.networking",
    "scheduling.k8s.io": "io.k8s.api.scheduling",
    "policy": "io.k8s.api.policy",
    "rbac.authorization.k8s.io": "io.k8s.api.rbac",
}
"""API group -> the package its types are published in."""


@cache
def all_types() -> dict[str, Schema]:
    """Return the schema of every built-in type, by its full name."""
    return parse_types(cluster_fields.TYPES + pod_fields.TYPES, DESCRIPTIONS)


@cache
def builtin_schema(group: str, version: str, kind: str) -> Schema | None:
    """Return the schema of a built-in kind; None if there is no such kind."""
    schema = all_types().get(f"{PACKAGES.get(group)}.{version}.{kind}")
    return schema if schema is not None and "kind" in schema.fields else None


def delete_options() -> Schema:
    """Return the schema of a delete's body."""
    return all_types()[f"{META}.DeleteOptions"]


def object_meta() -> Schema:
    """Return the schema of ``metadata``."""
    return all_types()[f"{META}.ObjectMeta"]
