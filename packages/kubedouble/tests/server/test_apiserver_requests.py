"""How a request's path, verb and body are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedouble.bodies import decode_json, decode_yaml
from kubedouble.errors import StatusError
from kubedouble.requests import RequestInfo, parse


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "where"),
    [
        ("GET", "/api/v1/nodes", {}, "list", ("", "v1", "nodes", "", "", "")),
        ("GET", "/api/v1/nodes", {"watch": "true"}, "watch", ("", "v1", "nodes", "", "", "")),
        ("GET", "/api/v1/nodes", {"watch": "0"}, "list", ("", "v1", "nodes", "", "", "")),
        ("GET", "/api/v1/nodes", {"fieldSelector": "metadata.name=n1"}, "list",
         ("", "v1", "nodes", "", "", "n1")),
        ("GET", "/api/v1/nodes/n1", {}, "get", ("", "v1", "nodes", "", "", "n1")),
        ("HEAD", "/api/v1/nodes/n1", {}, "get", ("", "v1", "nodes", "", "", "n1")),
        ("PATCH", "/api/v1/nodes/n1/status", {}, "patch", ("", "v1", "nodes", "status", "", "n1")),
        ("DELETE", "/api/v1/nodes", {}, "deletecollection", ("", "v1", "nodes", "", "", "")),
        ("GET", "/api/v1/namespaces", {}, "list", ("", "v1", "namespaces", "", "", "")),
        ("GET", "/api/v1/namespaces/a", {}, "get", ("", "v1", "namespaces", "", "a", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, "update",
         ("", "v1", "namespaces", "finalize", "a", "a")),
        ("GET", "/api/v1/namespaces/a/pods", {}, "list", ("", "v1", "pods", "", "a", "")),
        ("POST", "/api/v1/namespaces/a/pods/p/binding", {}, "create",
         ("", "v1", "pods", "binding", "a", "p")),
        ("DELETE", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", {}, "delete",
         ("coordination.k8s.io", "v1", "leases", "", "a", "l")),
        ("PUT", "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies/n%31", {}, "update",
         ("topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", "", "", "n1")),
    ],
)  # fmt: skip
def test_a_path_names_a_resource(
    method: str, path: str, query: dict[str, str], verb: str, where: tuple[str, ...]
) -> None:
    assert parse(method, path, query) == RequestInfo(verb, path, *where)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/openapi/v2"]
)
def test_other_paths_have_no_resource_and_keep_method(path: str) -> None:
    assert parse("GET", path, {}) == RequestInfo("get", path)
    assert parse("POST", path, {}) == RequestInfo("post", path)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"1", b'{"a":', b"\xff\xfe", b"a: b: c", b"- 1", b"\t{"]
)
def test_body_other_than_object_is_a_bad_request(body: bytes) -> None:
    for decode in (decode_json, decode_yaml):
        with pytest.raises(StatusError) as refused:
            decode(body)
        assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


def decoded(decode: Callable[[bytes], dict[str, Any]], body: bytes) -> dict[str, Any] | int:
    try:
        return decode(body)
    except StatusError as refused:
        return refused.code


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_bad_request(body: bytes) -> None:
    for decode in (decode_json, decode_yaml):
        found = decoded(decode, body)
        assert isinstance(found, dict) or found == 400


def test_yaml_is_read_as_json_has_it() -> None:
    assert decode_yaml(b"a: 2024-01-01\nb: {c: [1, yes]}\n") == {"a": "2024-01-01", "b": {"c": [1, True]}}
