"""The OpenAPI documents: whole, consistent, and the same in every form that clients ask for."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedouble import openapi_protobuf as protobuf
from kubedouble.openapi import OpenAPI
from kubedouble.resources import BUILT_IN, ResourceInfo
from kubedouble.schema.custom import custom_schema
from kubedouble.schema.kinds import all_types, builtin_schema
from kubedouble.schema.structure import Schema

JSON = dict[str, Any]
GVK = "x-kubernetes-group-version-kind"
PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
ZOO = ResourceInfo("t.io", "v1", "zoos", "zoo", "Zoo", namespaced=True, custom=True)
DOCUMENT: JSON = {
    "type": "object",
    "description": "A zoo.",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "default": 2}}},
        "any": {"x-kubernetes-preserve-unknown-fields": True, "type": "object"},
        "both": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
}
DEFINITION = {
    "spec": {
        "group": "t.io",
        "names": {"plural": "zoos", "kind": "Zoo"},
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": DOCUMENT}}],
    }
}


def schema_of(resource: ResourceInfo) -> Schema:
    if resource.custom:
        return custom_schema(DEFINITION, resource.version)
    schema = builtin_schema(resource.group, resource.version, resource.kind)
    assert schema is not None
    return schema


def served(*more: ResourceInfo) -> OpenAPI:
    known = {each: schema_of(each) for each in (*BUILT_IN, *more)}
    return OpenAPI(lambda: known, known.__getitem__)


@pytest.fixture(scope="module")
def api() -> OpenAPI:
    return served(ZOO)


def read(api: OpenAPI, path: str) -> JSON:
    answer = api.answer(path, "application/json")
    assert answer is not None
    assert answer.content_type == "application/json"
    return msgspec.json.decode(answer.body, type=JSON)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_every_reference_of_version_2_leads_somewhere(api: OpenAPI) -> None:
    document = read(api, "/openapi/v2")
    assert {f"#/definitions/{name}" for name in document["definitions"]} >= set(references(document))


def test_every_v3_document_is_self_contained_and_hashed(api: OpenAPI) -> None:
    index = read(api, "/openapi/v3")["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/t.io/v1"} <= index.keys()
    for place, entry in index.items():
        path, _, query = entry["serverRelativeURL"].partition("?")
        assert path == f"/openapi/v3/{place}"
        answer = api.answer(path, "*/*")
        assert answer is not None
        assert query == f"hash={answer.etag}"
        document = read(api, path)
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert known >= set(references(document)), place


def test_every_kind_is_marked_with_its_supported_patches(api: OpenAPI) -> None:
    document = read(api, "/openapi/v2")
    for resource in (*BUILT_IN, ZOO):
        mark = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        assert any(mark in each.get(GVK, ()) for each in document["definitions"].values()), mark
        patches = [
            each["patch"] for each in document["paths"].values() if each.get("patch", {}).get(GVK) == mark
        ]
        assert bool(patches) == ("patch" in resource.verbs)
        for patch in patches:
            assert {"dryRun", "fieldValidation"} <= {each["name"] for each in patch["parameters"]}
            strategic = "application/strategic-merge-patch+json" in patch["consumes"]
            assert strategic is not resource.custom


def test_lists_say_how_they_merge(api: OpenAPI) -> None:
    definitions = read(api, "/openapi/v2")["definitions"]
    ports = definitions["io.k8s.api.core.v1.Container"]["properties"]["ports"]
    assert ports["x-kubernetes-list-type"] == "map"
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["x-kubernetes-patch-strategy"] == "merge"
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"
    volumes = definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["volumes"]
    assert volumes["x-kubernetes-patch-strategy"] == "merge,retainKeys"


def test_custom_kind_is_published_as_its_definition_says(api: OpenAPI) -> None:
    new = read(api, "/openapi/v3/apis/t.io/v1")["components"]["schemas"]["io.t.v1.Zoo"]
    assert new["properties"]["spec"] == DOCUMENT["properties"]["spec"]
    assert new["properties"]["both"] == DOCUMENT["properties"]["both"]
    old = read(api, "/openapi/v2")["definitions"]["io.t.v1.Zoo"]
    assert old["properties"]["spec"]["properties"]["size"] == {"type": "integer", "minimum": 1}
    assert old["properties"]["any"] == {}
    assert old["properties"]["both"] == {"x-kubernetes-int-or-string": True}
    assert {"apiVersion", "kind", "metadata"} <= old["properties"].keys()


def test_documents_are_cached_until_a_kind_is_added() -> None:
    known = {each: schema_of(each) for each in BUILT_IN}
    api = OpenAPI(lambda: known, known.__getitem__)
    first = api.answer("/openapi/v2", "")
    assert api.answer("/openapi/v2", "") is first
    assert api.answer("/openapi/v3/apis/t.io/v1", "") is None
    known[ZOO] = schema_of(ZOO)
    assert api.answer("/openapi/v2", "") is not first
    assert api.answer("/openapi/v3/apis/t.io/v1", "") is not None


@pytest.mark.parametrize("path", ["/openapi", "/openapi/v4", "/openapi/v3/api/v9", "/openapi/v2/x", "/"])
def test_nothing_else_is_there(api: OpenAPI, path: str) -> None:
    assert api.answer(path, "") is None


def test_every_kind_and_node_field_is_explained() -> None:
    types = all_types()
    for name in ("Node", "NodeSpec", "NodeStatus", "ConfigMap", "Lease", "Pod"):
        full = next(each for each in types if each.endswith(f".v1.{name}"))
        assert types[full].description or name.endswith("Spec")
    for name, place in types["io.k8s.api.core.v1.NodeStatus"].fields.items():
        if name in {"capacity", "allocatable", "conditions", "addresses", "nodeInfo"}:
            assert place.description


def fields_of(body: bytes) -> dict[int, list[Any]]:
    """Read a protobuf message: field number -> its values."""
    fields: dict[int, list[Any]] = {}
    at = 0
    while at < len(body):
        tag, at = number_at(body, at)
        kind = tag & 7
        value: Any
        if kind == 0:
            value, at = number_at(body, at)
        else:
            size, at = (8, at) if kind == 1 else number_at(body, at)
            value, at = body[at : at + size], at + size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def number_at(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def named(body: bytes) -> dict[str, dict[int, list[Any]]]:
    entries = [fields_of(each) for each in fields_of(body)[1]]
    return {entry[1][0].decode(): fields_of(entry[2][0]) for entry in entries}


@pytest.mark.parametrize("accept", [PROTOBUF, PROTOBUF.replace("@v1", ".v1"), f"{PROTOBUF}, */*"])
def test_binary_document_matches_the_json_one(api: OpenAPI, accept: str) -> None:
    answer = api.answer("/openapi/v2", accept)
    assert answer is not None
    assert answer.content_type == PROTOBUF.replace("@v1", ".v1")
    document = fields_of(answer.body)
    assert document[1] == [b"2.0"]
    expected = read(api, "/openapi/v2")
    definitions = named(document[9][0])
    assert definitions.keys() == expected["definitions"].keys()
    for name, schema in definitions.items():
        wanted = expected["definitions"][name]
        assert [each.decode() for each in schema.get(19, ())] == wanted.get("required", [])
        properties = named(schema[25][0]) if 25 in schema else {}
        assert properties.keys() == wanted.get("properties", {}).keys(), name
        extensions = {fields_of(each)[1][0].decode() for each in schema.get(31, ())}
        assert extensions == {key for key in wanted if key.startswith("x-")}
    paths = [fields_of(each) for each in fields_of(document[8][0])[2]]
    assert {each[1][0].decode() for each in paths} == expected["paths"].keys()


@given(st.integers(0, 2**64 - 1), st.integers(1, 5000))
def test_numbers_read_back_as_written(value: int, number: int) -> None:
    assert number_at(protobuf._varint(value), 0) == (value, len(protobuf._varint(value)))
    assert fields_of(protobuf._integer(number, value)) == {number: [value]}


@given(st.integers(1, 5000), st.text())
def test_texts_read_back_as_written(number: int, value: str) -> None:
    assert fields_of(protobuf._text(number, value) + protobuf._double(1, 0.5))[number][0] == value.encode()
