"""JSON Patch, merge patch and strategic merge patch: the RFCs' own examples, Kubernetes' rules, and laws."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedouble.errors import StatusError
from kubedouble.patching import json_equal, json_patch, merge_patch, strategic_merge_patch
from kubedouble.schema.kinds import builtin_schema

JSON = dict[str, Any]


def schema_of(kind: str) -> Any:
    return builtin_schema("", "v1", kind)


# RFC 6902, appendix A; document, patch, result.
@pytest.mark.parametrize(
    ("document", "operations", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
        ({"f": ["a", "b"]}, [{"op": "add", "path": "/f/1", "value": "x"}], {"f": ["a", "x", "b"]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
        ({"f": [1, 2, 3]}, [{"op": "move", "from": "/f/0", "path": "/f/2"}], {"f": [2, 3, 1]}),
        ({"baz": 1}, [{"op": "test", "path": "/baz", "value": 1}], {"baz": 1}),
        ({"a": 1}, [{"op": "add", "path": "/b", "value": {"c": {}}}], {"a": 1, "b": {"c": {}}}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"a/b": 1}, [{"op": "replace", "path": "/a~1b", "value": 2}], {"a/b": 2}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["x"]}], {"foo": ["bar", ["x"]]}),
        ({"foo": None}, [{"op": "test", "path": "/foo", "value": None}], {"foo": None}),
        ({"l": [1, 2]}, [{"op": "remove", "path": "/l/-1"}], {"l": [1]}),
        ({}, [{"op": "test", "path": "/a", "value": None}], {}),
        ({}, [{"op": "replace", "path": "", "value": {"a": 1}}], {"a": 1}),
    ],
)  # fmt: skip
def test_operations_do_what_the_rfc_says(document: JSON, operations: list[JSON], result: JSON) -> None:
    before = copy.deepcopy(document)
    assert json_patch(document, operations) == result
    assert document == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/none"}, {"op": "replace", "path": "/none", "value": 1},
        {"op": "add", "path": "/none/x", "value": 1}, {"op": "add", "path": "/a/b", "value": 1},
        {"op": "test", "path": "/a", "value": 2}, {"op": "test", "path": "/a", "value": True},
        {"op": "remove", "path": "/l/2"}, {"op": "add", "path": "/l/4", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1}, {"op": "remove", "path": "/l/-"},
        {"op": "move", "from": "/none", "path": "/x"}, {"op": "copy", "path": "/x"},
        {"op": "add", "path": "a", "value": 1}, {"op": "add", "path": "/b"}, {"op": "jump", "path": "/a"},
        {"op": "remove", "path": ""}, {"path": "/a"}, {"op": "add", "value": 1},
    ],
)  # fmt: skip
def test_operation_that_does_not_fit_fails_whole_patch(operation: JSON) -> None:
    document = {"a": 1, "l": [1, 2]}
    with pytest.raises(StatusError) as caught:
        json_patch(document, [{"op": "add", "path": "/new", "value": 1}, operation])
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message == "the server rejected our request due to an error in our request"
    assert document == {"a": 1, "l": [1, 2]}


@pytest.mark.parametrize(
    ("patch", "code"), [({}, 400), ("x", 400), ([1], 400), (None, 400), ([{}] * 10_001, 413)]
)
def test_what_is_no_patch_is_a_bad_request(patch: Any, code: int) -> None:
    with pytest.raises(StatusError) as caught:
        json_patch({}, patch)
    assert caught.value.code == code


def test_copied_value_is_independent_of_its_source() -> None:
    operations = [
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/y", "value": 2},
    ]
    assert json_patch({"a": {}}, operations) == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}


def test_a_patch_shares_what_it_does_not_touch() -> None:
    document: JSON = {"spec": {"a": 1}, "status": {"b": {"c": 1}, "d": {}}}
    operations = [{"op": "replace", "path": "/status/b/c", "value": 2}]
    for result in (json_patch(document, operations), merge_patch(document, {"status": {"b": {"c": 2}}})):
        assert result["spec"] is document["spec"]
        assert result["status"]["d"] is document["status"]["d"]
    strategic = strategic_merge_patch(document, {"status": {"b": {"c": 2}}}, schema_of("Node"))
    assert strategic["spec"] is document["spec"]


# RFC 7386, appendix A: the cases of objects.
@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}), ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}), ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}), ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}), ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)  # fmt: skip
def test_merging_does_what_the_rfc_says(document: JSON, patch: JSON, result: JSON) -> None:
    assert merge_patch(document, patch) == result


def test_a_merge_patch_is_an_object() -> None:
    patches: list[Any] = [[], "x", None, 1]
    for patch in patches:
        with pytest.raises(StatusError):
            merge_patch({}, patch)
        with pytest.raises(StatusError):
            strategic_merge_patch({}, patch, schema_of("Pod"))


values = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=10,
)
documents = st.dictionaries(st.text(max_size=2), values, max_size=4)


def difference(old: JSON, new: JSON) -> JSON:
    """Return the merge patch that makes one document of another."""
    patch: JSON = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            if below := difference(before, value):
                patch[key] = below
        elif key not in old or not json_equal(before, value):
            patch[key] = value
    return patch


@given(documents, documents)
def test_patch_between_two_documents_turns_one_into_other(old: JSON, new: JSON) -> None:
    before = copy.deepcopy(old)
    assert merge_patch(old, difference(old, new)) == new
    assert old == before
    assert merge_patch(new, {}) == new


@given(documents, documents)
def test_replacing_by_operations_makes_the_one_the_other(old: JSON, new: JSON) -> None:
    def pointer(key: str) -> str:
        return "/" + key.replace("~", "~0").replace("/", "~1")

    operations = [{"op": "remove", "path": pointer(key)} for key in old]
    operations += [{"op": "add", "path": pointer(key), "value": value} for key, value in new.items()]
    before = copy.deepcopy(old)
    assert json_patch(old, operations) == new
    assert old == before


CONTAINERS = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}}


@pytest.mark.parametrize(
    ("patch", "names"),
    [
        ([{"name": "b", "image": "9"}], ["a", "b"]),
        ([{"name": "c", "image": "3"}], ["c", "a", "b"]),
        ([{"name": "a", "$patch": "delete"}], ["b"]),
        ([{"name": "c"}, {"$patch": "replace"}], ["c"]),
        ([{"name": "b"}, {"name": "a"}], ["b", "a"]),
        ([], ["a", "b"]),
    ],
)
def test_containers_merge_by_name_with_new_ones_first(patch: list[JSON], names: list[str]) -> None:
    before = copy.deepcopy(CONTAINERS)
    result = strategic_merge_patch(CONTAINERS, {"spec": {"containers": patch}}, schema_of("Pod"))
    assert [each["name"] for each in result["spec"]["containers"]] == names
    assert before == CONTAINERS


def test_merged_container_keeps_what_the_patch_omits() -> None:
    patch = {"spec": {"containers": [{"name": "b", "command": ["x"], "image": None}]}}
    result = strategic_merge_patch(CONTAINERS, patch, schema_of("Pod"))
    assert result["spec"]["containers"][1] == {"name": "b", "command": ["x"]}


def test_taints_and_tolerations_are_replaced_as_a_whole() -> None:
    node = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    result = strategic_merge_patch(
        node, {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, schema_of("Node")
    )
    assert result["spec"]["taints"] == [{"key": "b", "effect": "NoExecute"}]


def test_node_conditions_merge_by_type_in_requested_order() -> None:
    node = {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}}
    patch = {"status": {
        "$setElementOrder/conditions": [{"type": "B"}, {"type": "A"}],
        "conditions": [{"type": "A", "status": "False"}],
    }}  # fmt: skip
    result = strategic_merge_patch(node, patch, schema_of("Node"))
    assert result == {
        "status": {"conditions": [{"type": "B", "status": "True"}, {"type": "A", "status": "False"}]}
    }


def test_item_only_on_the_server_keeps_its_place() -> None:
    pod = {"spec": {"containers": [{"name": "sidecar"}, {"name": "a"}, {"name": "b"}]}}
    patch = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    result = strategic_merge_patch(pod, patch, schema_of("Pod"))
    assert [each["name"] for each in result["spec"]["containers"]] == ["sidecar", "b", "a"]


def test_finalizers_merge_as_a_set_and_directives_delete() -> None:
    obj = {"metadata": {"finalizers": ["a/a", "b/b"]}}
    added = strategic_merge_patch(obj, {"metadata": {"finalizers": ["c/c"]}}, schema_of("Node"))
    assert added["metadata"]["finalizers"] == ["c/c", "a/a", "b/b"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"]}}
    assert strategic_merge_patch(obj, patch, schema_of("Node"))["metadata"]["finalizers"] == ["b/b"]


def test_retained_keys_change_the_kind_of_a_volume() -> None:
    pod = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {
        "spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}
    }
    result = strategic_merge_patch(pod, patch, schema_of("Pod"))
    assert result["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        ({"$patch": "replace", "a": "1"}, {"a": "1"}),
        ({"$patch": "delete"}, {}),
        ({"a": None, "b": "2"}, {"b": "2", "z": "0"}),
    ],
)
def test_an_object_may_be_replaced_emptied_or_merged(patch: JSON, result: JSON) -> None:
    obj = {"data": {"a": "9", "z": "0"}}
    assert strategic_merge_patch(obj, {"data": patch}, schema_of("ConfigMap"))["data"] == result


def test_nulls_and_directives_in_new_parts_are_dropped() -> None:
    patch = {
        "spec": {
            "affinity": {"nodeAffinity": None},
            "volumes": [{"name": "x", "$patch": "delete"}, {"name": "y"}],
        }
    }
    assert strategic_merge_patch({}, patch, schema_of("Pod")) == {
        "spec": {"affinity": {}, "volumes": [{"name": "y"}]}
    }


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"spec": {"containers": [{"image": "x"}]}}, 500),
        ({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}}, 500),
        ({"spec": {"containers": [{"name": "a", "$patch": "explode"}]}}, 500),
        ({"spec": {"$patch": "explode"}}, 500),
        ({"spec": {"containers": [{"name": "a", "$retainKeys": "x"}]}}, 400),
        ({"spec": {"containers": [{"name": "a", "$retainKeys": ["name"], "image": "x"}]}}, 400),
        ({"spec": {"$setElementOrder/containers": "x"}}, 400),
        ({"spec": {"$deleteFromPrimitiveList/containers": "x"}}, 400),
        ({"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}}, 500),
    ],
)
def test_malformed_directives_are_refused(patch: JSON, code: int) -> None:
    with pytest.raises(StatusError) as caught:
        strategic_merge_patch(CONTAINERS, patch, schema_of("Pod"))
    assert caught.value.code == code


names = st.lists(st.sampled_from("abcdef"), unique=True)


@given(names, names)
def test_merged_list_has_unique_items_in_patch_order(server: list[str], patch: list[str]) -> None:
    pod = {"spec": {"containers": [{"name": name} for name in server]}}
    wanted = {"spec": {"containers": [{"name": name, "image": "x"} for name in patch]}}
    merged = strategic_merge_patch(pod, wanted, schema_of("Pod"))["spec"].get("containers", [])
    result = [each["name"] for each in merged]
    assert sorted(result) == sorted({*server, *patch})
    assert [name for name in result if name in patch] == patch
    assert [name for name in result if name not in patch] == [name for name in server if name not in patch]
