"""Answers become typed values; a broken object is named and never hides the others."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kube.decoding import (
    Bookmark,
    EventType,
    Undecodable,
    WatchEvent,
    decode_event,
    decode_object,
    decode_page,
)
from corewise.kube.errors import APIError, DecodeError, Gone, KubeError, ServerError, api_error
from corewise.kube.objects import EMPTY, ObjectMeta, PartialObject
from corewise.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODE_RESOURCE_TOPOLOGIES,
    PODS,
    SECRETS,
    Resource,
)
from corewise.workload.nodes import WORKLOAD_NODES, Node
from corewise.workload.pods import WORKLOAD_PODS

ALL: list[Resource[Any]] = [
    WORKLOAD_NODES,
    WORKLOAD_PODS,
    CONFIG_MAPS,
    SECRETS,
    LEASES,
    EVENTS,
    NODE_RESOURCE_TOPOLOGIES,
    MUTATING_WEBHOOKS,
]
KEYS = st.sampled_from(
    ["metadata", "items", "spec", "status", "type", "object", "name", "labels", "data", "continue", "code"]
) | st.text(max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


def test_only_fields_that_are_used_are_kept() -> None:
    body = b'{"metadata":{"name":"n1","managedFields":[{}]},"status":{"images":[1],"capacity":{"cpu":"4"}}}'
    assert decode_object(WORKLOAD_NODES, body, "n1").status.capacity == {"cpu": "4"}


def test_absent_maps_share_one_immutable_empty_mapping() -> None:
    node = decode_object(WORKLOAD_NODES, b"{}", "")
    assert node.metadata.labels is EMPTY
    with pytest.raises(TypeError):
        node.metadata.labels["a"] = "b"  # type: ignore[index]


def test_defaults_are_left_out_of_what_is_sent() -> None:
    assert msgspec.json.encode(Node(metadata=ObjectMeta(name="n1"))) == b'{"metadata":{"name":"n1"}}'


def test_secret_values_decode_to_bytes_and_encode_base64() -> None:
    secret = decode_object(SECRETS, b'{"metadata":{"name":"s"},"data":{"key":"aGVsbG8="}}', "s")
    assert secret.data == {"key": b"hello"}
    assert msgspec.json.decode(msgspec.json.encode(secret))["data"] == {"key": "aGVsbG8="}


def test_nulls_that_go_programs_write_are_no_error() -> None:
    pod = b'{"metadata":{"name":"p","creationTimestamp":null},"spec":{"containers":[]}}'
    assert decode_object(PODS, pod, "p").metadata.creation_timestamp is None
    page = decode_page(WORKLOAD_NODES, b'{"metadata":{"resourceVersion":"1"},"items":null}')
    assert page.items == ()


def test_an_error_names_the_object_and_the_field() -> None:
    with pytest.raises(DecodeError, match=r"nodes n1: Expected `str`, got `int` - at `\$\.status\.capacity"):
        decode_object(WORKLOAD_NODES, b'{"status":{"capacity":{"cpu":4}}}', "nodes n1")


def test_broken_item_is_named_and_other_items_count() -> None:
    body = (
        b'{"metadata":{"resourceVersion":"7","continue":"more"},"items":['
        b'{"metadata":{"name":"n1"}},{"metadata":{"name":"n2","resourceVersion":"5"},"spec":3},{"metadata":{"name":"n3"}}]}'
    )
    page = decode_page(WORKLOAD_NODES, body)
    assert [item.metadata.name for item in page.items] == ["n1", "n3"]
    assert (page.resource_version, page.continue_token) == ("7", "more")
    (broken,) = page.undecodable
    assert (broken.name, broken.resource_version) == ("n2", "5")
    assert "$.spec" in broken.message


def test_metadata_alone_decodes_for_any_resource() -> None:
    partial = decode_object(
        PODS.typed(PartialObject), b'{"metadata":{"name":"p"},"spec":{"containers":4}}', "p"
    )
    assert partial == PartialObject(ObjectMeta(name="p"))


def test_a_resource_can_be_decoded_to_plain_dicts() -> None:
    plain = WORKLOAD_NODES.typed(dict[str, Any])
    assert decode_object(plain, b'{"anything":1}', "n") == {"anything": 1}
    assert decode_event(plain, b'{"type":"ADDED","object":{"a":1}}') == WatchEvent(EventType.ADDED, {"a": 1})


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_changes_carry_the_object(kind: str) -> None:
    line = f'{{"type":"{kind}","object":{{"metadata":{{"name":"n1"}}}}}}'.encode()
    assert decode_event(WORKLOAD_NODES, line) == WatchEvent(EventType[kind], Node(ObjectMeta(name="n1")))


def test_bookmark_carries_its_version_whatever_its_object() -> None:
    line = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"},"spec":{"containers":null}}}'
    assert decode_event(PODS, line) == Bookmark("12")
    assert decode_event(PODS.typed(PartialObject), line) == Bookmark("12")


@pytest.mark.parametrize("resource", [WORKLOAD_NODES, PODS.typed(PartialObject), PODS.typed(dict[str, Any])])
def test_an_error_event_of_code_410_is_gone(resource: Resource[Any]) -> None:
    line = (
        b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"too old resource version: 1 (9)","reason":"Expired","code":410}}'
    )
    with pytest.raises(Gone, match="too old resource version"):
        decode_event(resource, line)


def test_error_event_with_another_code_keeps_its_kind() -> None:
    with pytest.raises(ServerError, match="etcd"):
        decode_event(
            WORKLOAD_NODES, b'{"type":"ERROR","object":{"kind":"Status","message":"etcd is away","code":500}}'
        )


@pytest.mark.parametrize(
    "status",
    [
        b'{"kind":"Status","code":500,"message":"\xff\xfe"}',
        b'{"kind":"Status","code":500,"x":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"kind":"Status","code":500,"details":{"retryAfterSeconds":1e400}}',
        b'{"kind":"Status","code":500,"details":{"retryAfterSeconds":' + b"9" * 400 + b"}}",
        b"[]",
        b'"\xff"',
        b"null",
    ],
)
def test_any_error_event_content_is_an_api_error(status: bytes) -> None:
    with pytest.raises(APIError) as told:
        decode_event(WORKLOAD_NODES, b'{"type":"ERROR","object":' + status + b"}")
    assert told.value.retry_after is None


@given(st.binary(max_size=60))
def test_any_non_status_answer_is_an_api_error(body: bytes) -> None:
    for text in (body, b'{"kind":"Status","message":"' + body + b'"}', b"[" * 100_000 + body):
        assert api_error(500, text).code == 500


def test_undecodable_event_names_object_version_and_event_type() -> None:
    line = b'{"type":"MODIFIED","object":{"metadata":{"name":"n1","resourceVersion":"8"},"status":[]}}'
    bad = decode_event(WORKLOAD_NODES, line)
    assert isinstance(bad, Undecodable)
    assert (bad.name, bad.resource_version, bad.type) == ("n1", "8", EventType.MODIFIED)


def test_object_with_broken_metadata_is_still_reported() -> None:
    bad = decode_event(WORKLOAD_NODES, b'{"type":"ADDED","object":{"metadata":{"name":7}}}')
    assert isinstance(bad, Undecodable)
    assert bad.name == ""


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"type":"ADDED"}', b'{"type":"NEWS","object":{}}', b"\xff", b""]
)
def test_malformed_event_line_is_a_decode_error(line: bytes) -> None:
    with pytest.raises(DecodeError, match="watch of nodes"):
        decode_event(WORKLOAD_NODES, line)


@given(st.binary(max_size=200) | JSON.map(msgspec.json.encode), st.sampled_from(ALL))
def test_any_input_yields_a_value_or_typed_error(body: bytes, resource: Resource[Any]) -> None:
    for decode in (
        lambda: decode_object(resource, body, "it"),
        lambda: decode_page(resource, body),
        lambda: decode_event(resource, body),
    ):
        with suppress(KubeError):
            decode()


@given(JSON, st.sampled_from(ALL), st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]))
def test_any_event_yields_a_value_or_typed_error(content: object, resource: Resource[Any], kind: str) -> None:
    with suppress(KubeError):
        decode_event(resource, msgspec.json.encode({"type": kind, "object": content}))


def test_nesting_beyond_the_decoder_is_a_decode_error() -> None:
    deep = b'{"items":' * 100_000 + b"1" + b"}" * 100_000
    with pytest.raises(DecodeError):
        decode_page(WORKLOAD_NODES, deep)
