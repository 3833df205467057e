"""Custom kinds: pruning, defaults, validation, and what of them merges how."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubedouble.errors import StatusError
from kubedouble.patching import apply, track_update
from kubedouble.schema.custom import custom_schema
from kubedouble.schema.normalization import normalize
from kubedouble.schema.validation import problems

JSON = dict[str, Any]
NOW = datetime(2024, 5, 1, tzinfo=UTC)
KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 5},
        "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "port": {"x-kubernetes-int-or-string": True},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[a-z]+$"}},
        "zones": {
            "type": "array",
            "maxItems": 3,
            **KEYED,
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "cost": {"type": "integer", "default": 7},
                },
            },
        },
        "maybe": {"type": "string", "nullable": True},
        "one": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
    },
}  # fmt: skip


def definition(schema: JSON | None, **version: Any) -> JSON:
    validation = {} if schema is None else {"schema": {"openAPIV3Schema": schema}}
    served = {"name": "v1", "served": True, "storage": True, **validation, **version}
    names = {"plural": "zoos", "kind": "Zoo"}
    return {"spec": {"group": "t.io", "names": names, "versions": [served]}}


STATUS = {"type": "object", "properties": {"n": {"type": "integer"}}}
ROOT = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
ZOO = custom_schema(definition(ROOT, subresources={"status": {}}), "v1")


def zoo(**spec: Any) -> JSON:
    return {"apiVersion": "t.io/v1", "kind": "Zoo", "metadata": {"name": "z"}, "spec": {"size": 1, **spec}}


def stored(obj: JSON) -> JSON:
    return normalize(obj, ZOO, field_validation="Strict")[0]


def mistyped(field: str, wanted: str, found: str) -> str:
    return f'Invalid value: "{found}": {field} in body must be of type {wanted}: "{found}"'


def faults(obj: JSON) -> dict[str, str]:
    return {each["field"]: each["message"] for each in problems(normalize(obj, ZOO)[0], None, ZOO)}


def test_unknown_fields_are_pruned_unless_schema_preserves_them() -> None:
    result, warnings = normalize(zoo(x=1, open={"y": {"z": 1}}, zones=[{"name": "n", "w": 1}]), ZOO)
    assert result["spec"]["open"] == {"y": {"z": 1}}
    assert "x" not in result["spec"]
    assert "w" not in result["spec"]["zones"][0]
    assert set(warnings) == {'unknown field "spec.x"', 'unknown field "spec.zones[0].w"'}
    with pytest.raises(StatusError) as caught:
        stored(zoo(x=1))
    assert caught.value.message.endswith('strict decoding error: unknown field "spec.x"')


def test_defaults_are_set_and_zeros_are_kept() -> None:
    spec = stored(zoo(labels={}, zones=[{"name": ""}], kind=None))["spec"]
    assert spec["kind"] == "a"
    assert spec["zones"] == [{"name": "", "cost": 7}]
    assert spec["labels"] == {}


def test_amounts_stay_as_they_were_written() -> None:
    assert stored(zoo(port="1000m"))["spec"]["port"] == "1000m"


def test_a_kind_without_a_schema_keeps_everything() -> None:
    schema = custom_schema(definition(None), "v1")
    obj = {**zoo(anything=[{"a": None}]), "more": 1}
    assert normalize(obj, schema, field_validation="Strict") == (obj, ())


def test_metadata_is_that_of_every_object() -> None:
    bad = {**zoo(), "metadata": {"name": "z", "labels": {"a": 1}}}
    with pytest.raises(StatusError):
        stored(bad)
    result, warnings = normalize({**zoo(), "metadata": {"name": "z", "foo": 1}}, ZOO)
    assert warnings == ('unknown field "metadata.foo"',)
    assert result["metadata"] == {"name": "z"}


BOTH = (
    'Invalid value: {"a":"x","b":"y"}: spec.one in body must validate one and only one schema (oneOf). '
    "Found 2 valid alternatives"
)


@pytest.mark.parametrize(
    ("obj", "field", "message"),
    [
        (zoo(size="1"), "spec.size", mistyped("spec.size", "integer", "string")),
        (zoo(size=True), "spec.size", mistyped("spec.size", "integer", "boolean")),
        (
            zoo(size=0),
            "spec.size",
            "Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (zoo(size=9), "spec.size", "Invalid value: 9: spec.size in body should be less than or equal to 5"),
        (zoo(kind="c"), "spec.kind", 'Unsupported value: "c": supported values: "a", "b"'),
        (
            zoo(labels={"k": "9"}),
            "spec.labels.k",
            "Invalid value: \"9\": spec.labels.k in body should match '^[a-z]+$'",
        ),
        (
            zoo(zones=[{"name": ""}]),
            "spec.zones[0].name",
            'Invalid value: "": spec.zones[0].name in body should be at least 1 chars long',
        ),
        (zoo(zones=[{}]), "spec.zones[0].name", "Required value"),
        (zoo(zones=[{"name": "a"}, {"name": "a"}]), "spec.zones[1]", 'Duplicate value: {"name":"a"}'),
        (zoo(zones=[{"name": n} for n in "abcd"]), "spec.zones", "Too many: 4: must have at most 3 items"),
        (zoo(port=1.5), "spec.port", mistyped("spec.port", "integer,string", "number")),
        (zoo(one={"a": "x", "b": "y"}), "spec.one", BOTH),
        ({**zoo(), "spec": {}}, "spec.size", "Required value"),
    ],
)
def test_values_are_held_to_the_schema(obj: JSON, field: str, message: str) -> None:
    assert faults(obj)[field] == message


def test_what_fits_the_schema_has_no_fault() -> None:
    good = zoo(size=5, kind="b", port=80, open={"a": [1]}, zones=[{"name": "x"}], maybe=None, one={"a": "x"})
    assert faults(good) == {}


def test_custom_lists_merge_as_their_schema_says() -> None:
    def applied(live: JSON | None, manager: str, *names: str) -> JSON:
        config = zoo(zones=[{"name": name} for name in names])
        return apply(live, config, manager=manager, force=False, schema=ZOO, now=NOW)

    both = applied(applied(None, "one", "a"), "two", "b")
    assert [zone["name"] for zone in both["spec"]["zones"]] == ["a", "b"]
    fields = both["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:zones"]
    assert fields == {'k:{"name":"a"}': {".": {}, "f:name": {}}}


def test_status_is_owned_through_its_endpoint_only() -> None:
    obj = track_update(None, {**zoo(), "status": {"n": 1}}, manager="m", schema=ZOO, now=NOW)
    (entry,) = obj["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {".": {}, "f:size": {}}}
    obj = {**obj, "metadata": {**obj["metadata"], "uid": "u"}}
    changed = track_update(
        obj, {**obj, "status": {"n": 2}}, manager="m", schema=ZOO, now=NOW, subresource="status"
    )
    assert changed["metadata"]["managedFields"][1]["fieldsV1"] == {"f:status": {"f:n": {}}}
