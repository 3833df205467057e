"""Label and field selectors: the grammar and the meaning that Kubernetes documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedouble.errors import StatusError
from kubedouble.resources import Registry, ResourceInfo
from kubedouble.selectors import field_value, parse, parse_labels

LABELS = {"app": "web", "tier": "front", "cores": "8", "empty": ""}


def resource(plural: str, group: str = "") -> ResourceInfo:
    found = Registry().find(group, "v1", plural)
    assert found
    return found


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", True), ("app=web", True), ("app==web", True), ("app = web", True), ("app=db", False),
        ("app!=db", True), ("app!=web", False), ("absent!=x", True), ("absent=x", False),
        ("app in (web,db)", True), ("app in ( web , db )", True), ("app in (db)", False),
        ("app notin (db)", True), ("app notin (web)", False), ("absent notin (x)", True),
        ("app", True), ("absent", False), ("!absent", True), ("!app", False), ("! absent", True),
        ("cores>4", True), ("cores>8", False), ("cores<9", True), ("app>1", False), ("absent<1", False),
        ("empty=", True), ("app=", False), ("app in (,web)", True),
        ("app=web,tier=front", True), ("app=web,tier=back", False), ("app in (web),!absent,cores>1", True),
        ("example.com/role=a", False), ("!example.com/role", True),
    ],
)  # fmt: skip
def test_labels_are_selected_as_documented(selector: str, selected: bool) -> None:
    assert all(requirement(LABELS) for requirement in parse_labels(selector)) is selected


@pytest.mark.parametrize(
    "selector",
    ["app in web", "=web", "app=web tier=front", "app in (a", "!!app", ",", "app>x", "app>" + "9" * 5000],
)
def test_a_malformed_label_selector_is_a_bad_request(selector: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_labels(selector)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


def outcome(labels: str, fields: str) -> bool | int:
    try:
        return parse(resource("pods"), labels, fields).matches({"metadata": {"labels": LABELS}})
    except StatusError as refused:
        return refused.code


@given(st.text(max_size=40))
def test_any_text_is_a_selector_or_bad_request(text: str) -> None:
    assert outcome(text, "") in {True, False, 400}
    assert outcome("", text) in {True, False, 400}


@pytest.mark.parametrize(
    ("plural", "selector", "obj", "selected"),
    [
        ("pods", "spec.nodeName=n1", {"spec": {"nodeName": "n1"}}, True),
        ("pods", "spec.nodeName=", {"spec": {}}, True),
        ("pods", "spec.nodeName!=", {"spec": {"nodeName": "n1"}}, True),
        ("pods", "status.phase!=Failed,spec.nodeName==n1", {"spec": {"nodeName": "n1"}}, True),
        ("pods", "metadata.name=a", {}, True),
        ("pods", "metadata.name=b", {}, False),
        ("pods", "metadata.name=a,metadata.name=b", {}, False),
        ("nodes", "spec.unschedulable=true", {"spec": {"unschedulable": True}}, True),
        ("nodes", "spec.unschedulable=false", {"spec": {}}, True),
        ("events", "involvedObject.name=n1,involvedObject.kind=Node",
         {"involvedObject": {"name": "n1", "kind": "Node"}}, True),
        ("events", "type=Warning", {"type": "Normal"}, False),
        ("secrets", "type=Opaque", {"type": "Opaque"}, True),
    ],
)  # fmt: skip
def test_fields_are_selected_as_documented(
    plural: str, selector: str, obj: dict[str, object], selected: bool
) -> None:
    stored = {"metadata": {"name": "a", "namespace": "x"}, **obj}
    assert parse(resource(plural), "", selector).matches(stored) is selected


@pytest.mark.parametrize(
    ("plural", "selector"),
    [("pods", "spec.containers=x"), ("configmaps", "data=x"), ("nodes", "metadata.namespace=x"),
     ("pods", "spec.nodeName"), ("pods", "metadata.labels.app=web")],
)  # fmt: skip
def test_unsupported_field_selector_is_a_bad_request(plural: str, selector: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse(resource(plural), "", selector)
    assert refused.value.code == 400


def test_newer_events_are_selected_by_their_own_names() -> None:
    events = resource("events", "events.k8s.io")
    stored = {"metadata": {"name": "a"}, "involvedObject": {"name": "n1"}, "reportingComponent": "example"}
    assert parse(events, "", "regarding.name=n1,reportingController=example").matches(stored)
    assert field_value("events", stored, "involvedObject.name") == "n1"


def test_an_escaped_value_is_taken_as_written() -> None:
    assert parse(resource("pods"), "", r"spec.nodeName=a\,b\=c").matches(
        {"metadata": {}, "spec": {"nodeName": "a,b=c"}}
    )
