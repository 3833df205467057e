"""Who owns which field: server-side apply and the tracking of updates, as a real API server does them."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubedouble.errors import StatusError
from kubedouble.patching import apply, json_equal, track_update
from kubedouble.patching.fields import difference, intersection, paths, union
from kubedouble.patching.ownership import MAX_UPDATERS
from kubedouble.schema.kinds import builtin_schema
from kubedouble.schema.structure import Schema

JSON = dict[str, Any]
NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
LAST = "kubectl.kubernetes.io/last-applied-configuration"


def schema_of(kind: str) -> Schema:
    schema = builtin_schema("", "v1", kind)
    assert schema is not None
    return schema


CONFIG_MAP, POD, NODE = (schema_of(kind) for kind in ("ConfigMap", "Pod", "Node"))


def config(data: JSON | None = None, **metadata: Any) -> JSON:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}}
    return obj if data is None else {**obj, "data": data}


def created(obj: JSON, manager: str = "creator", schema: Schema = CONFIG_MAP) -> JSON:
    obj = {**obj, "metadata": {**obj["metadata"], "uid": "u"}}
    return track_update(None, obj, manager=manager, schema=schema, now=NOW)


def updated(old: JSON, new: JSON, manager: str = "writer", **options: Any) -> JSON:
    return track_update(old, new, manager=manager, **{"schema": CONFIG_MAP, "now": LATER, **options})


def applied(live: JSON | None, obj: JSON, manager: str = "me", **options: Any) -> JSON:
    options = {"force": False, "schema": CONFIG_MAP, "now": LATER, **options}
    result = apply(live, obj, manager=manager, **options)
    return {**result, "metadata": {**result["metadata"], "uid": "u"}}


def owned(obj: JSON) -> dict[tuple[str, str], JSON]:
    entries = obj["metadata"].get("managedFields", ())
    return {(each["manager"], each["operation"]): each["fieldsV1"] for each in entries}


def conflicts(live: JSON, obj: JSON, manager: str = "me", **options: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        applied(live, obj, manager, **options)
    return caught.value


def test_creator_owns_its_fields_except_the_object_identity() -> None:
    obj = created(
        config({"a": "1"}, labels={"x": "y"}, generation=1, creationTimestamp="2024-01-01T00:00:00Z")
    )
    assert owned(obj) == {
        ("creator", "Update"): {
            "f:data": {".": {}, "f:a": {}},
            "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
        }
    }
    entry = obj["metadata"]["managedFields"][0]
    assert (entry["time"], entry["apiVersion"], entry["fieldsType"]) == (
        "2024-05-01T12:00:00Z",
        "v1",
        "FieldsV1",
    )


def test_lists_are_owned_by_key_or_whole() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {}, "spec": {
        "containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}], "command": ["x"]}],
        "tolerations": [{"key": "t"}]}}  # fmt: skip
    assert owned(created(pod, schema=POD))["creator", "Update"] == {
        "f:spec": {
            "f:containers": {".": {}, 'k:{"name":"c"}': {
                ".": {}, "f:name": {}, "f:command": {},
                "f:ports": {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': {
                    ".": {}, "f:containerPort": {}, "f:protocol": {}}},
            }},
            "f:tolerations": {},
        }
    }  # fmt: skip


def test_a_changed_field_passes_to_who_changed_it() -> None:
    old = created(config({"a": "1", "b": "1"}))
    new = updated(old, {**old, "data": {"a": "2", "b": "1"}})
    assert owned(new) == {
        ("creator", "Update"): {"f:data": {".": {}, "f:b": {}}},
        ("writer", "Update"): {"f:data": {"f:a": {}}},
    }


def test_unchanged_write_touches_no_entry_and_no_time() -> None:
    old = created(config({"a": "1"}))
    assert updated(old, copy.deepcopy(old), manager="creator") == old
    assert updated(old, {**old, "metadata": {**old["metadata"], "resourceVersion": "9"}})["metadata"][
        "managedFields"
    ] == old["metadata"]["managedFields"]  # fmt: skip


def test_update_keeps_absent_managed_fields_and_empty_resets() -> None:
    old = created(config({"a": "1"}))
    bare = {key: value for key, value in old["metadata"].items() if key != "managedFields"}
    assert owned(updated(old, {**old, "metadata": bare})) == owned(old)
    resets: list[list[JSON]] = [[], [{}]]
    for reset in resets:
        assert owned(updated(old, {**old, "metadata": {**bare, "managedFields": reset}})) == {}


def test_unreadable_entries_are_treated_as_not_sent() -> None:
    old = created(config({"a": "1"}))
    entry = old["metadata"]["managedFields"][0]
    bad: list[Any] = ["x", {**entry, "operation": "Steal"}, {**entry, "fieldsType": "FieldsV2"},
           {**entry, "fieldsV1": {"nonsense": {}}}, {**entry, "apiVersion": ""}]  # fmt: skip
    for each in bad:
        sent = {**old, "metadata": {**old["metadata"], "managedFields": [each]}}
        assert owned(updated(old, sent)) == owned(old)


def test_updates_never_start_tracking_an_untracked_object() -> None:
    old = config({"a": "1"}, uid="u")
    assert "managedFields" not in updated(old, {**old, "data": {"a": "2"}})["metadata"]


def test_status_endpoint_has_its_own_owners_without_spec() -> None:
    metadata = {"name": "n", "labels": {"a": "b"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": {}}
    old = created(node, "kubelet", NODE)
    new = {**old, "spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "1"}}}
    result = updated(old, new, "kubelet", schema=NODE, subresource="status")
    _, entry = result["metadata"]["managedFields"]
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {"f:status": {"f:capacity": {".": {}, "f:cpu": {}}}}


def test_of_many_updaters_the_oldest_become_one() -> None:
    obj = created(config({str(at): "0" for at in range(MAX_UPDATERS + 4)}))
    for at in range(MAX_UPDATERS + 4):
        data = {**obj["data"], str(at): "1"}
        obj = updated(obj, {**obj, "data": data}, f"m{at:02}", now=NOW + timedelta(minutes=at + 1))
    entries = obj["metadata"]["managedFields"]
    assert len(entries) == MAX_UPDATERS
    assert entries[0]["manager"] == "ancient-changes"
    everything: JSON = {}
    for entry in entries:
        everything = union(everything, entry["fieldsV1"])
    assert len(list(paths(everything))) == MAX_UPDATERS + 4 + 1


def test_applying_creates_what_is_not_there() -> None:
    obj = applied(None, config({"a": "1"}))
    assert obj["data"] == {"a": "1"}
    assert owned(obj) == {("me", "Apply"): {"f:data": {"f:a": {}}}}


def test_applying_the_same_again_changes_nothing_at_all() -> None:
    obj = applied(None, config({"a": "1"}))
    assert apply(obj, config({"a": "1"}), manager="me", force=False, schema=CONFIG_MAP, now=LATER) is obj


def test_field_left_out_of_next_apply_is_removed() -> None:
    obj = applied(None, config({"a": "1", "b": "2"}, labels={"x": "y"}))
    obj = applied(obj, config({"a": "1"}))
    assert obj["data"] == {"a": "1"}
    assert not obj["metadata"].get("labels")


def test_object_identity_survives_pruning() -> None:
    identity = {"generation": 3, "creationTimestamp": "2024-01-01T00:00:00Z", "resourceVersion": "7"}
    obj = applied(None, config({"a": "1"}, labels={"x": "y"}))
    obj = {**obj, "metadata": {**obj["metadata"], **identity}}
    metadata = applied(obj, config({"a": "1"}))["metadata"]
    assert identity.items() <= metadata.items()
    assert metadata["name"] == "c"
    assert "labels" not in metadata


def test_a_field_that_someone_else_owns_too_stays() -> None:
    obj = applied(None, config({"a": "1", "b": "2"}))
    obj = applied(obj, config({"b": "2"}), "other")
    assert owned(obj)["other", "Apply"] == {"f:data": {"f:b": {}}}
    obj = applied(obj, config({"a": "1"}))
    assert obj["data"] == {"a": "1", "b": "2"}


def test_value_owned_by_another_conflicts_in_servers_words() -> None:
    obj = created(config({"a": "1", "b": "1"}), "kubectl-create")
    error = conflicts(obj, config({"a": "2"}))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "kubectl-create" using v1: .data.a'
    cause = {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "kubectl-create" using v1',
        "field": ".data.a",
    }
    assert error.details == {"causes": [cause]}
    several = conflicts(applied(obj, config({"b": "1"}), "other"), config({"a": "2", "b": "2"}))
    assert several.message == (
        'Apply failed with 3 conflicts: conflicts with "kubectl-create" using v1:\n- .data.a\n- .data.b\n'
        'conflicts with "other":\n- .data.b'
    )


def test_force_takes_the_field() -> None:
    obj = applied(created(config({"a": "1"})), config({"a": "2"}), force=True)
    assert obj["data"] == {"a": "2"}
    assert owned(obj)["creator", "Update"] == {"f:data": {}}
    assert owned(obj)["me", "Apply"] == {"f:data": {"f:a": {}}}


def test_data_before_the_first_apply_has_an_owner() -> None:
    obj = config({"a": "1"}, uid="u")
    assert 'conflict with "before-first-apply" using v1' in conflicts(obj, config({"a": "2"})).message
    assert owned(applied(obj, config({"b": "2"})))["before-first-apply", "Update"] == {
        "f:data": {".": {}, "f:a": {}}
    }


def test_kubectl_takes_over_what_it_applied_client_side() -> None:
    text = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}'
    obj = created(config({"a": "1"}, annotations={LAST: text}), "kubectl-client-side-apply")
    assert conflicts(obj, config({"a": "2"}), "someone").code == 409
    result = applied(obj, config({"a": "2"}), "kubectl")
    assert result["data"] == {"a": "2"}
    assert '"data":{"a":"2"}' in result["metadata"]["annotations"][LAST]


def test_kubectl_does_not_take_what_changed_since() -> None:
    text = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}'
    obj = created(config({"a": "9"}, annotations={LAST: text}), "someone")
    assert ".data.a" in conflicts(obj, config({"a": "2"}), "kubectl").message


def test_containers_merge_by_name_in_the_order_applied() -> None:
    kind = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}

    def pod(*names: str) -> JSON:
        return {**kind, "spec": {"containers": [{"name": name, "image": name} for name in names]}}

    obj = applied(None, pod("a", "b"), schema=POD)
    obj = applied(obj, pod("c", "b"), "other", schema=POD)
    assert [each["name"] for each in obj["spec"]["containers"]] == ["a", "c", "b"]
    obj = applied(obj, pod("a"), schema=POD)
    assert [each["name"] for each in obj["spec"]["containers"]] == ["a", "c", "b"]
    obj = applied(obj, {**kind, "spec": {}}, "other", schema=POD)
    assert [each["name"] for each in obj["spec"]["containers"]] == ["a"]


def test_a_configuration_brings_no_managed_fields() -> None:
    error = conflicts(created(config()), config({"a": "1"}, managedFields=[]))
    assert (error.code, error.message) == (400, "metadata.managedFields must be nil")


def test_unknown_field_of_a_kind_cannot_be_applied() -> None:
    error = conflicts(created(config()), {**config({}), "foo": 1})
    where = "failed to create typed patch object (/c; /v1, Kind=ConfigMap)"
    assert (error.code, error.message) == (500, f"{where}: .foo: field not declared in schema")


def test_an_item_without_its_key_is_refused() -> None:
    kind = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    error = conflicts(created(config()), {**kind, "spec": {"containers": [{"image": "x"}]}}, schema=POD)
    assert error.code == 500
    assert error.message == (
        "failed to create typed patch object (/p; /v1, Kind=Pod): element 0: associative list with keys has "
        'an element that omits all key fields ["name"] (and doesn\'t have default values for any key fields)'
    )


def test_applied_label_keeps_the_updaters_other_labels() -> None:
    obj = created(config(None, labels={"x": "1"}))
    obj = applied(obj, config(None, labels={"y": "2"}))
    assert obj["metadata"]["labels"] == {"x": "1", "y": "2"}
    obj = applied(obj, config(None))
    assert obj["metadata"]["labels"] == {"x": "1"}


keys = st.sampled_from("abcd")
data = st.dictionaries(keys, st.sampled_from("12"), max_size=4)


@given(
    st.lists(st.tuples(st.sampled_from(["apply", "update"]), st.sampled_from(["p", "q"]), data), max_size=8)
)
def test_forced_apply_always_wins_and_records_its_fields(steps: list[tuple[str, str, JSON]]) -> None:
    obj = created(config({"a": "0"}))
    for how, who, wanted in steps:
        before = copy.deepcopy(obj)
        if how == "apply":
            new = applied(obj, config(wanted), who, force=True)
            assert wanted.items() <= new.get("data", {}).items()
            again = applied(new, config(wanted), who)
            assert again == new
            fields = {element for path in paths(owned(new).get((who, "Apply"), {})) for element in path}
            assert {f"f:{key}" for key in wanted} == fields - {"f:data"}
        else:
            new = updated(obj, {**obj, "data": wanted}, who)
            assert new["data"] == wanted
            assert updated(new, copy.deepcopy(new), who) == new
        assert obj == before
        obj = new


@given(data, data)
def test_field_wanted_by_one_apply_vanishes_with_it(first: JSON, second: JSON) -> None:
    obj = applied(applied(None, config(first)), config(second))
    assert (obj.get("data") or {}) == second


@given(data, data, data)
def test_two_appliers_never_remove_what_the_other_wants(mine: JSON, yours: JSON, later: JSON) -> None:
    obj = applied(applied(None, config(mine)), config(yours), "you", force=True)
    result = applied(obj, config(later), force=True)
    for key in yours:
        assert key in result["data"]


elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
nodes: st.SearchStrategy[JSON] = st.recursive(
    st.just({}),
    lambda inner: (
        st.dictionaries(elements, inner, min_size=1, max_size=3)
        | st.dictionaries(elements, inner, min_size=1, max_size=3).map(lambda node: {".": {}, **node})
    ),
    max_leaves=6,
)
sets = st.dictionaries(elements, nodes, max_size=3)


def members(fields: JSON) -> set[tuple[str, ...]]:
    return set(paths(fields))


@given(sets, sets, sets)
def test_sets_of_fields_behave_as_sets(a: JSON, b: JSON, c: JSON) -> None:
    before = copy.deepcopy((a, b, c))
    assert members(union(a, b)) == members(a) | members(b)
    assert members(intersection(a, b)) == members(a) & members(b)
    assert members(difference(a, b)) == members(a) - members(b)
    assert json_equal(union(a, union(b, c)), union(union(a, b), c))
    assert json_equal(union(difference(a, b), intersection(a, b)), a)
    assert union(a, a) is a
    assert difference(a, {}) is a
    assert (a, b, c) == before
