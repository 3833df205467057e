"""Reviews are read or refused with a reason; answers are what the API server takes."""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corewise.kube.admission import (
    Operation,
    OperationType,
    add,
    allow,
    decode_review,
    deny,
    merge_operations,
    pointer,
    remove,
    replace,
)
from corewise.kube.errors import DecodeError

REQUEST = {
    "uid": "705ab4f5",
    "kind": {"group": "", "version": "v1", "kind": "Node"},
    "resource": {"group": "", "version": "v1", "resource": "nodes"},
    "subResource": "status",
    "name": "n1",
    "operation": "UPDATE",
    "userInfo": {"username": "system:node:n1", "groups": ["system:nodes"], "extra": {"a": ["b"]}},
    "object": {"metadata": {"name": "n1"}},
    "oldObject": {"metadata": {"name": "n1"}},
    "dryRun": False,
    "options": {"kind": "UpdateOptions"},
}


def review(request: object = REQUEST, **fields: object) -> bytes:
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return msgspec.json.encode(envelope | fields)


def response(answer: bytes) -> dict[str, Any]:
    decoded = msgspec.json.decode(answer)
    assert (decoded["apiVersion"], decoded["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    return dict(decoded["response"])


def test_review_is_decoded_and_its_objects_stay_raw() -> None:
    request = decode_review(review())
    assert (request.uid, request.name, request.sub_resource) == ("705ab4f5", "n1", "status")
    assert request.operation is OperationType.UPDATE
    assert request.user_info.username == "system:node:n1"
    assert request.resource.resource == "nodes"
    assert bytes(request.object) == b'{"metadata":{"name":"n1"}}'


@pytest.mark.parametrize("absent", [{}, {"object": None}])
def test_an_object_that_is_absent_is_null(absent: dict[str, None]) -> None:
    request = {key: value for key, value in REQUEST.items() if key != "object"} | absent
    assert bytes(decode_review(review(request)).object) == b"null"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no AdmissionReview"),
        (b"[]", "no AdmissionReview"),
        (b"{}", "got neither apiVersion nor kind"),
        (review(apiVersion="admission.k8s.io/v1beta1"), "got admission.k8s.io/v1beta1 AdmissionReview"),
        (review(None), "no request"),
        (review(REQUEST | {"uid": ""}), "no request with a uid"),
        (review(REQUEST | {"operation": "EAT"}), "EAT"),
        (review({"uid": "u"}), "missing required field"),
    ],
)
def test_non_review_body_is_refused_with_a_reason(body: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_review(body)


@given(st.binary(max_size=200))
def test_any_body_yields_a_review_or_decode_error(body: bytes) -> None:
    with suppress(DecodeError):
        decode_review(body)


def test_yes() -> None:
    assert response(allow(decode_review(review()))) == {"uid": "705ab4f5", "allowed": True}


def test_allowed_response_carries_changes_warnings_and_audit_notes() -> None:
    answer = response(
        allow(
            decode_review(review()),
            patch=[add("/metadata/labels", {}), remove("/a")],
            warnings=["careful"],
            audit_annotations={"rule": "1"},
        )
    )
    assert answer["patchType"] == "JSONPatch"
    assert msgspec.json.decode(b64decode(answer["patch"])) == [
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "remove", "path": "/a"},
    ]
    assert answer["warnings"] == ["careful"]
    assert answer["auditAnnotations"] == {"rule": "1"}


def test_no_says_why() -> None:
    answer = response(deny(decode_review(review()), "ratio 0.99", code=422, reason="Invalid"))
    assert answer == {
        "uid": "705ab4f5",
        "allowed": False,
        "status": {"code": 422, "message": "ratio 0.99", "reason": "Invalid"},
    }


def test_warnings_can_stand_in_a_header() -> None:
    answer = response(allow(decode_review(review()), warnings=["a\r\nb\x00c", "x" * 300]))
    assert answer["warnings"] == ["a  b c", "x" * 255 + "…"]


def test_a_patch_may_set_null_and_test() -> None:
    operations = [replace("/a", None), Operation("test", "/b", 1)]
    assert msgspec.json.encode(operations) == (
        b'[{"op":"replace","path":"/a","value":null},{"op":"test","path":"/b","value":1}]'
    )


def test_pointers_are_escaped() -> None:
    assert pointer("metadata", "annotations", "a.io/b~c") == "/metadata/annotations/a.io~1b~0c"
    assert pointer("status", "conditions", 3) == "/status/conditions/3"


def test_merge_adds_missing_parents_and_skips_unchanged_values() -> None:
    document = {"metadata": {"name": "n1", "labels": {"a": "1", "b": "2"}}}
    changes = {
        "metadata": {"annotations": {"x/y": "z", "gone": None}, "labels": {"a": "1", "b": None, "c": None}}
    }
    assert merge_operations(document, changes) == [
        add("/metadata/annotations", {"x/y": "z"}),
        remove("/metadata/labels/b"),
    ]


KEYS = st.sampled_from(["a", "b", "c/d", "~e"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(KEYS, JSON, max_size=4)


def merged(document: Any, changes: Any) -> Any:
    """RFC 7386, as it stands there."""
    if not isinstance(changes, dict):
        return changes
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def applied(document: Any, operations: list[Operation]) -> Any:
    """RFC 6902 for operations on members of objects."""
    document = deepcopy(document)
    for operation in operations:
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation.path.split("/")[1:]
        ]
        target = document
        for part in parents:
            target = target[part]
        if operation.op == "remove":
            del target[last]
        else:
            target[last] = operation.value
    return document


@given(DOCUMENTS, DOCUMENTS)
@example({"a": [False, True]}, {"a": [0, True]})
def test_the_operations_do_what_the_merge_patch_says(
    document: dict[str, Any], changes: dict[str, Any]
) -> None:
    operations = merge_operations(document, changes)
    expected = merged(document, changes)
    assert msgspec.json.encode(applied(document, operations), order="sorted") == msgspec.json.encode(
        expected, order="sorted"
    )


@given(DOCUMENTS)
def test_merging_a_document_into_itself_removes_only_nulls(document: dict[str, Any]) -> None:
    assert all(operation.op == "remove" for operation in merge_operations(document, document))
