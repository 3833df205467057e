"""What kube-scheduler sends and reads, byte by byte: k8s.io/kube-scheduler/extender/v1."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from corewise.engine.reading import pod_facts
from corewise.scheduler.extender import (
    Arguments,
    ArgumentsError,
    Filtered,
    decode_arguments,
    encode_error,
    encode_filtered,
)
from corewise.scheduler.node_names import SentNames

# As Go marshals a pod in ExtenderArgs: empty structs and null times are there.
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u", "creationTimestamp": None},
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        "nodeSelector": {"zone": "a"},
    },
    "status": {"phase": "Pending", "qosClass": "Burstable"},
}


def arguments(**members: Any) -> Arguments:
    return decode_arguments(json.dumps({"Pod": POD, "Nodes": None, "NodeNames": None, **members}).encode())


def filtered(
    sent: Arguments,
    *names: str,
    failed: Mapping[str, str] | None = None,
    unresolvable: Mapping[str, str] | None = None,
) -> Filtered:
    suits = np.array([name in names for name in sent.names])
    return Filtered(suits, sent.names.only(suits), failed or {}, unresolvable or {})


def test_empty_list_as_written_by_go_is_read() -> None:
    """A Go slice without elements is null where its field has no omitempty, as that of containers."""
    empty = {**POD, "spec": {"containers": None, "initContainers": None, "tolerations": None}}
    assert pod_facts(arguments(Pod=empty, NodeNames=["a"]).pod).requests == {}


def test_node_cache_capable_extender_is_sent_names() -> None:
    sent = arguments(NodeNames=["a", "b"])
    assert sent.pod.metadata.name == "p"
    assert [each.name for each in sent.pod.spec.containers or ()] == ["c"]
    assert (list(sent.names), sent.nodes) == (["a", "b"], None)
    answer = json.loads(encode_filtered(sent, filtered(sent, "b", failed={"a": "why"})))
    assert answer == {
        "Nodes": None,
        "NodeNames": ["b"],
        "FailedNodes": {"a": "why"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


@pytest.mark.parametrize("case", [str.lower, str.upper, str.swapcase])
def test_keys_are_case_insensitive_as_in_go(case: Callable[[str], str]) -> None:
    document = {"Pod": POD, "Nodes": None, "NodeNames": ["a"]}
    sent = decode_arguments(json.dumps({case(key): value for key, value in document.items()}).encode())
    assert (sent.pod.metadata.name, list(sent.names), sent.nodes) == ("p", ["a"], None)
    node = {"metadata": {"name": "a"}}
    whole = {case("Pod"): POD, case("Nodes"): {"items": [node]}}
    assert list(decode_arguments(json.dumps(whole).encode()).names) == ["a"]


def test_whole_nodes_are_passed_back_as_they_came() -> None:
    nodes = [
        {"metadata": {"name": name}, "spec": {}, "status": {"images": [{"sizeBytes": 1}]}} for name in "ab"
    ]
    sent = arguments(Nodes={"metadata": {}, "items": nodes})
    assert list(sent.names) == ["a", "b"]
    answer = json.loads(encode_filtered(sent, filtered(sent, "a", unresolvable={"b": "never"})))
    assert answer["Nodes"] == {"metadata": {}, "items": [nodes[0]]}
    assert answer["NodeNames"] is None
    assert answer["FailedAndUnresolvableNodes"] == {"b": "never"}


def test_no_remaining_nodes_give_empty_list_not_null() -> None:
    sent = arguments(NodeNames=["a"])
    answer = json.loads(encode_filtered(sent, filtered(sent, failed={"a": "why"})))
    assert answer["NodeNames"] == []


@pytest.mark.parametrize(
    ("members", "wrong"),
    [
        ({}, "name no nodes"),
        ({"NodeNames": []}, "name no nodes"),
        ({"Nodes": {"items": []}}, "name no nodes"),
        ({"Nodes": {"items": None}}, "name no nodes"),
        ({"NodeNames": [""]}, "without a name"),
        ({"Nodes": {"items": [{"metadata": {}}]}}, "without a name"),
        ({"NodeNames": ["a"], "Pod": None}, "without a Pod"),
        ({"NodeNames": ["a"], "Pod": {}}, "without a Pod"),
        ({"NodeNames": ["a"], "Pod": 7}, "no ExtenderArgs"),
        ({"NodeNames": "a"}, "no ExtenderArgs"),
        ({"Nodes": {"items": [7]}}, "no ExtenderArgs"),
    ],
)
def test_arguments_that_cannot_be_answered_say_why(members: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ArgumentsError, match=wrong):
        arguments(**members)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{", b"\xff", b'{"pod":{},"nodenames":["a"]}', b"[" * 9999]
)
def test_body_without_valid_arguments_has_its_own_error(body: bytes) -> None:
    with pytest.raises(ArgumentsError):
        decode_arguments(body)


def test_an_error_is_a_result_with_nothing_else() -> None:
    answer = json.loads(encode_error("why"))
    assert answer.pop("Error") == "why"
    assert set(answer) == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes"}
    assert set(answer.values()) == {None}


def test_scores_are_a_list_of_hosts() -> None:
    for names in (["a"], ["a", "bcd", "", "e"], ["a", 'b",', "c\\", "日本"]):
        scores = [10, 0, 10, 9][: len(names)]
        hosts = [{"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)]
        written = SentNames.of(names).scored(np.array(scores))
        assert written == json.dumps(hosts, separators=(",", ":"), ensure_ascii=False).encode()
