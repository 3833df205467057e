"""Whatever a client sends, a write ends in an object or in a refusal, never in a crash."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubedouble.errors import StatusError
from kubedouble.patching import apply, json_patch, merge_patch, strategic_merge_patch, track_update
from kubedouble.resources import BUILT_IN
from kubedouble.schema.custom import custom_schema
from kubedouble.schema.kinds import builtin_schema
from kubedouble.schema.normalization import normalize
from kubedouble.schema.structure import Schema
from kubedouble.schema.validation import problems
from kubedouble.tables import render_table

JSON = dict[str, Any]
NOW = datetime(2024, 5, 1, tzinfo=UTC)
RESOURCES = {each.kind: each for each in BUILT_IN}
POD: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "uid": "u", "finalizers": ["a/b"]},
    "spec": {
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "env": [{"name": "E"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "k"}],
    },
}


def schema_of(kind: str) -> Schema:
    resource = RESOURCES[kind]
    schema = builtin_schema(resource.group, resource.version, kind)
    assert schema is not None
    return schema


PODS = schema_of("Pod")
NAMES = [
    "metadata",
    "spec",
    "status",
    "name",
    "containers",
    "ports",
    "containerPort",
    "env",
    "volumes",
    "labels",
    "finalizers",
    "resources",
    "limits",
    "requests",
    "cpu",
    "tolerations",
    "annotations",
    "capacity",
    "conditions",
    "type",
    "managedFields",
    "taints",
    "webhooks",
    "rules",
    "versions",
    "schema",
    "names",
    "openAPIV3Schema",
    "properties",
    "items",
    "subjects",
    "roleRef",
    "data",
    "template",
    "selector",
    "ownerReferences",
    "uid",
    "affinity",
    "creationTimestamp",
    "emptyDir",
    "clientConfig",
    "url",
]
DIRECTIVES = ["$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"]
scalars = (
    st.none() | st.booleans() | st.integers(-2, 2**33) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["c", "v", "1", "2Gi", "x y", "", "a/b", "https://[", "eA==", "2024-01-01T00:00:00Z"])
    | st.sampled_from(["delete", "replace", "merge", "object", "array"])
)  # fmt: skip
keys = st.sampled_from(NAMES + DIRECTIVES)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=14,
)
loose = st.dictionaries(keys, values, max_size=4)
listed = st.lists(loose | values, max_size=3)
below = st.fixed_dictionaries(
    {},
    optional={"containers": listed, "finalizers": listed, "volumes": listed, "conditions": listed,
              "taints": listed, "rules": listed, "resources": loose, "capacity": loose, "labels": loose,
              **dict.fromkeys(DIRECTIVES, listed | scalars)},
)  # fmt: skip
bodies = loose | st.fixed_dictionaries(
    {}, optional={"spec": below, "metadata": below, "status": below, "webhooks": listed, "rules": listed}
)
pointers = st.lists(st.sampled_from([*NAMES[:12], "0", "1", "-", "-1", "~1"]), max_size=5).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
operations = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": pointers},
        optional={"value": values, "from": pointers},
    ),
    max_size=4,
)


def written(obj: Any, schema: Schema, old: JSON | None = None) -> None:
    """Take an object through the steps of a write."""
    stored, _ = normalize(obj, schema, base=old, field_validation="Ignore")
    tracked = track_update(old, stored, manager="m", schema=schema, now=NOW)
    faults = problems(tracked, old, schema)
    assert all(each["message"] for each in faults)
    assert normalize(tracked, schema, base=tracked)[0] is tracked


@given(bodies, st.sampled_from(["strategic", "merge"]))
def test_any_patch_is_accepted_or_refused(patch: JSON, kind: str) -> None:
    try:
        obj = strategic_merge_patch(POD, patch, PODS) if kind == "strategic" else merge_patch(POD, patch)
        written(obj, PODS, normalize(POD, PODS)[0])
    except StatusError:
        return


@given(operations)
def test_operations_of_any_form_are_taken_or_refused(patch: list[JSON]) -> None:
    try:
        written(json_patch(POD, patch), PODS, normalize(POD, PODS)[0])
    except StatusError:
        return


@given(bodies, bodies, st.booleans())
def test_any_configuration_is_applied_or_refused(first: JSON, second: JSON, force: bool) -> None:
    head = {"apiVersion": "v1", "kind": "Pod"}
    obj: JSON | None = None
    for config in (first, second):
        try:
            obj = apply(obj, {**config, **head}, manager="m", force=force, schema=PODS, now=NOW)
            written(obj, PODS)
        except StatusError:
            continue


@given(st.sampled_from(sorted(RESOURCES)), bodies)
def test_any_object_is_accepted_and_shown_or_refused(kind: str, body: JSON) -> None:
    resource, schema = RESOURCES[kind], schema_of(kind)
    obj = {**body, "apiVersion": resource.api_version, "kind": kind}
    try:
        stored, _ = normalize(obj, schema, field_validation="Ignore")
    except StatusError:
        return
    problems(stored, None, schema, api_version=resource.api_version)
    named = {**stored, "metadata": {**stored.get("metadata", {}), "name": "n"}}
    render_table(resource, [named], now=NOW)


KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
ITEM = {"type": "object", "properties": {"name": {"type": "string"}}}
SPEC = {
    "type": "object",
    "properties": {
        "containers": {"type": "array", "items": ITEM, **KEYED},
        "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 3}},
    },
}
DOCUMENT = {
    "type": "object",
    "properties": {"spec": SPEC, "data": {"x-kubernetes-preserve-unknown-fields": True}},
}
CUSTOM = custom_schema(
    {"spec": {"group": "t.io", "names": {"plural": "zoos", "kind": "Zoo"},
              "versions": [{"name": "v1", "schema": {"openAPIV3Schema": DOCUMENT}}]}},
    "v1",
)  # fmt: skip


@given(bodies, bodies)
def test_any_custom_object_is_accepted_or_refused(first: JSON, second: JSON) -> None:
    head = {"apiVersion": "t.io/v1", "kind": "Zoo"}
    for config in (first, second):
        try:
            written({**config, **head}, CUSTOM)
            apply(None, {**config, **head}, manager="m", force=True, schema=CUSTOM, now=NOW)
        except StatusError:
            continue
