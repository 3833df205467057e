"""Request bodies in protobuf: what kubectl sends, and what anybody might."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedouble.bodies import decode_protobuf
from kubedouble.errors import StatusError

MAGIC = b"k8s\0"


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, message: bytes) -> bytes:
    type_meta = text(1, api_version) + text(2, kind)
    return MAGIC + text(1, type_meta) + text(2, message) + text(3, "") + text(4, "")


def test_a_config_map_as_go_writes_it() -> None:
    """Go writes empty texts, zero numbers and an empty time; JSON has none of them."""
    entries = text(2, text(1, "key") + text(2, "value")) + text(2, text(1, "empty"))
    metadata = text(1, "one") + text(2, "") + text(3, "ns") + number(7, 0) + text(8, b"")
    message = text(1, metadata + text(11, text(1, "a") + text(2, "b"))) + entries
    assert decode_protobuf(body("v1", "ConfigMap", message)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "one", "namespace": "ns", "labels": {"a": "b"}},
        "data": {"key": "value", "empty": ""},
    }


def test_bytes_become_base64_and_times_text() -> None:
    metadata = text(1, "s") + text(8, number(1, 1_767_225_600) + number(2, 0))
    message = text(1, metadata) + text(2, text(1, "k") + text(2, b"\x00\xff")) + text(3, "Opaque")
    decoded = decode_protobuf(body("v1", "Secret", message))
    assert decoded["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert (decoded["data"], decoded["type"]) == ({"k": "AP8="}, "Opaque")


def test_zero_behind_a_pointer_is_meant() -> None:
    options = number(1, 0) + text(2, text(1, "uid"))
    message = text(1, text(1, "pod")) + text(2, options)
    decoded = decode_protobuf(body("policy/v1", "Eviction", message))
    assert decoded["deleteOptions"] == {"gracePeriodSeconds": 0, "preconditions": {"uid": "uid"}}


def test_lists_of_texts_and_of_messages() -> None:
    rules = [text(1, "get") + text(1, "list") + text(2, "") + text(3, "nodes"), text(5, "/metrics")]
    message = text(1, text(1, "r")) + b"".join(text(2, rule) for rule in rules)
    decoded = decode_protobuf(body("rbac.authorization.k8s.io/v1", "ClusterRole", message))
    assert decoded["rules"] == [
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["nodes"]},
        {"nonResourceURLs": ["/metrics"]},
    ]


def test_unknown_fields_are_passed_over() -> None:
    message = text(1, text(1, "one")) + number(90, 7) + varint(91 << 3 | 1) + b"12345678"
    assert decode_protobuf(body("v1", "Namespace", message))["metadata"] == {"name": "one"}


def test_delete_options_go_by_any_version() -> None:
    decoded = decode_protobuf(body("coordination.k8s.io/v1", "DeleteOptions", number(1, 5)))
    assert decoded["gracePeriodSeconds"] == 5


def test_unread_pod_template_field_is_refused_not_lost() -> None:
    container = (
        text(1, "main")
        + text(2, "nginx")
        + text(5, "")
        + text(8, text(2, text(1, "cpu") + text(2, text(1, "2"))))
    )
    template = text(1, text(8, "")) + text(2, text(2, container) + number(11, 0))
    spec = number(1, 2) + text(3, template) + text(4, text(1, "")) + number(5, 0)
    whole = text(1, text(1, "web")) + text(2, spec) + text(3, number(1, 0))
    decoded = decode_protobuf(body("apps/v1", "Deployment", whole))
    read = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "2"}}}
    assert decoded["spec"] == {
        "replicas": 2,
        "template": {"metadata": {}, "spec": {"containers": [read]}},
        "strategy": {},
    }
    affinity = text(1, text(1, "web")) + text(2, text(3, text(2, text(18, text(1, "x")))))
    with pytest.raises(StatusError) as refusal:
        decode_protobuf(body("apps/v1", "Deployment", affinity))
    assert "does not read field 18 of a pod as protobuf: send application/json" in refusal.value.message


def test_other_kinds_are_refused_with_a_way_out() -> None:
    with pytest.raises(StatusError) as refusal:
        decode_protobuf(body("apps/v1", "DaemonSet", b""))
    assert refusal.value.code == 415
    assert "does not read DaemonSet of apps/v1 as protobuf: send application/json" in refusal.value.message


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{}",
        MAGIC + b"\x0a\x05ab",
        MAGIC + b"\xff" * 11,
        MAGIC + b"\x0b",
        MAGIC + b"\x02\x00",
        body("v1", "ConfigMap", number(1, 7)),
        body("v1", "ConfigMap", text(1, text(1, b"\xff"))),
        body("v1", "ConfigMap", text(1, text(7, "x"))),
        body("v1", "ConfigMap", text(1, text(8, number(1, 1 << 62)))),
    ],
    ids=[
        "empty",
        "JSON",
        "cut off",
        "endless",
        "wire type",
        "field 0",
        "no message",
        "no UTF-8",
        "no number",
        "no time",
    ],
)
def test_malformed_protobuf_body_is_a_bad_request(broken: bytes) -> None:
    with pytest.raises(StatusError) as refusal:
        decode_protobuf(broken)
    assert refusal.value.code == 400


def attempt(data: bytes) -> Any:
    try:
        return decode_protobuf(data)
    except StatusError as refusal:
        return refusal


@given(st.binary())
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for kind in ("ConfigMap", "Secret"):
        outcome = attempt(body("v1", kind, data))
        assert isinstance(outcome, dict) or outcome.code == 400
