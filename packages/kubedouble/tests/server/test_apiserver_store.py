"""The store: versions, history, indexes, subscriptions; held against a model that keeps everything."""

from __future__ import annotations

import errno
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kubedouble.store import Change, Expired, Key, Store, Subscription, Table

HISTORY = 8


def pod(namespace: str, name: str, node: str = "", **more: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name}, "spec": {"nodeName": node}, **more}


def names(table: Table, **selection: Any) -> list[Key]:
    return [stored.key for stored in table.scan(**selection)]


class Versions(RuleBasedStateMachine):
    """Random changes; the store must agree with a copy of every state there ever was."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(history=HISTORY)
        self.states: dict[int, dict[Key, Any]] = {self.store.version: {}}

    @rule(
        namespace=st.sampled_from("ab"), name=st.sampled_from("xyz"), node=st.sampled_from(["", "n1", "n2"])
    )
    def put(self, namespace: str, name: str, node: str) -> None:
        stored = self.store.put("pods", (namespace, name), pod(namespace, name, node))
        assert stored.version == self.store.version
        self._record({**self._latest(), (namespace, name): stored.object})

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        state = self._latest()
        if not state:
            return
        key = data.draw(st.sampled_from(sorted(state)))
        last = self.store.remove("pods", key)
        assert last.object["metadata"]["resourceVersion"] == str(self.store.version)
        self._record({other: obj for other, obj in state.items() if other != key})

    @rule()
    def change_another_kind(self) -> None:
        self.store.put("nodes", ("", "n1"), {"metadata": {"name": "n1"}})
        self._record(self._latest())

    @invariant()
    def lists_are_complete_and_in_order(self) -> None:
        table, state = self.store.table("pods"), self._latest()
        assert names(table) == sorted(state)
        assert names(table, namespace="a") == sorted(key for key in state if key[0] == "a")
        on_node = sorted(key for key, obj in state.items() if obj["spec"]["nodeName"] == "n1")
        assert names(table, fields={"spec.nodeName": "n1"}) == on_node

    @invariant()
    def the_past_is_as_it_was_or_expired(self) -> None:
        table = self.store.table("pods")
        for version, state in self.states.items():
            try:
                found = {stored.key: stored.object for stored in table.listed(version)[1]}
            except Expired:
                assert len([each for each in self.states if each > version]) > HISTORY
            else:
                assert found == state
                for after in state:
                    count, rest = table.listed(version, "a", after=after)
                    later = [key for key in sorted(state) if key[0] == "a" and key > after]
                    assert (count, [stored.key for stored in rest]) == (len(later), later)

    @invariant()
    def a_watch_from_any_remembered_version_leads_to_the_present(self) -> None:
        table = self.store.table("pods")
        for version, before in self.states.items():
            try:
                changes = table.since(version)
            except Expired:
                continue
            state = dict(before)
            for change in changes:
                if change.type == "DELETED":
                    del state[change.stored.key]
                else:
                    assert (change.type == "ADDED") == (change.stored.key not in state)
                    state[change.stored.key] = change.stored.object
            assert state == self._latest()

    def _latest(self) -> dict[Key, Any]:
        return self.states[max(self.states)]

    def _record(self, state: dict[Key, Any]) -> None:
        self.states[self.store.version] = state


TestVersions = Versions.TestCase


def test_every_change_in_store_has_its_own_version() -> None:
    store = Store()
    first = store.put("nodes", ("", "a"), {"metadata": {"name": "a"}})
    second = store.put("pods", ("x", "a"), pod("x", "a"))
    assert second.version == first.version + 1 == store.version


def test_stored_bytes_are_the_object_without_its_type() -> None:
    obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {}}
    stored = Store(version=4).put("nodes", ("", "a"), obj)
    assert msgspec.json.decode(stored.body) == {"metadata": {"name": "a", "resourceVersion": "5"}, "spec": {}}


def test_storing_leaves_the_callers_object_unchanged() -> None:
    obj = {"metadata": {"name": "a"}}
    Store().put("nodes", ("", "a"), obj)
    assert obj == {"metadata": {"name": "a"}}


def test_what_was_before_the_beginning_has_expired() -> None:
    store = Store()
    store.put("nodes", ("", "a"), {"metadata": {"name": "a"}})
    store.forget()
    assert store.table("nodes").since(store.version) == []
    assert store.table("pods").since(store.version) == []
    for storage in ("nodes", "pods", "leases"):
        with pytest.raises(Expired, match=r"too old resource version: 1 \(2\)"):
            store.table(storage).since(1)


def test_deleting_a_missing_object_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        Store().remove("nodes", ("", "a"))


def subscribe(table: Table, *scopes: tuple[str, ...]) -> list[Subscription]:
    subscriptions = [Subscription(lambda: None, limit=100) for _ in scopes]
    for scope, subscription in zip(scopes, subscriptions, strict=True):
        table.subscribe(scope, subscription)
    return subscriptions


def seen(subscription: Subscription) -> list[str]:
    return [change.stored.key[1] for change in subscription.pending]


def test_a_subscription_sees_its_scope_and_nothing_else() -> None:
    store = Store()
    table = store.table("pods")
    everything, namespace, one, node = subscribe(
        table, (), ("namespace", "a"), ("object", "a", "x"), ("field", "n1")
    )
    store.put("pods", ("a", "x"), pod("a", "x"))
    store.put("pods", ("a", "y"), pod("a", "y", "n1"))
    store.put("pods", ("b", "z"), pod("b", "z", "n2"))
    assert seen(everything) == ["x", "y", "z"]
    assert seen(namespace) == ["x", "y"]
    assert seen(one) == ["x"]
    assert seen(node) == ["y"]


def test_node_watcher_sees_pods_arrive_and_leave() -> None:
    store = Store()
    (node,) = subscribe(store.table("pods"), ("field", "n1"))
    store.put("pods", ("a", "x"), pod("a", "x"))
    store.put("pods", ("a", "x"), pod("a", "x", "n1"))
    store.put("pods", ("a", "x"), pod("a", "x", "n2"))
    assert [change.stored.object["spec"]["nodeName"] for change in node.pending] == ["n1", "n2"]


@given(watchers=st.integers(1, 300))
def test_change_is_offered_only_to_its_readers(watchers: int) -> None:
    """However many nodes' watchers there are, one pod's change is offered to that pod's node alone."""
    store = Store()
    offers: list[int] = []
    for number in range(watchers):
        subscription = Subscription(lambda number=number: offers.append(number), limit=9)  # type: ignore[misc]  # mypy: lambda default
        store.table("pods").subscribe(("field", f"n{number}"), subscription)
    store.put("pods", ("a", "x"), pod("a", "x", "n0"))
    assert offers == [0]


def test_an_unsubscribed_watcher_is_forgotten() -> None:
    store = Store()
    table = store.table("pods")
    (subscription,) = subscribe(table, ())
    table.unsubscribe((), subscription)
    table.unsubscribe((), subscription)
    store.put("pods", ("a", "x"), pod("a", "x"))
    assert not subscription.pending


def test_stalled_watcher_falls_behind_and_stays_within_limit() -> None:
    store = Store()
    subscription = Subscription(lambda: None, limit=3)
    store.table("pods").subscribe((), subscription)
    for number in range(5):
        store.put("pods", ("a", f"p{number}"), pod("a", f"p{number}"))
    assert subscription.behind
    assert seen(subscription) == ["p0", "p1", "p2"]


def test_listeners_hear_changes_in_order_even_nested_ones() -> None:
    store = Store()
    heard: list[str] = []

    def doubles(storage: str, change: Change) -> None:
        if change.stored.key[1] == "a":
            store.put(storage, ("", "b"), {"metadata": {"name": "b"}})

    store.listen(doubles)
    store.listen(lambda _, change: heard.append(change.stored.key[1]))
    store.put("nodes", ("", "a"), {"metadata": {"name": "a"}})
    store.put("nodes", ("", "c"), {"metadata": {"name": "c"}})
    assert heard == ["a", "b", "c"]


def test_raising_listener_hides_no_changes_from_others() -> None:
    store = Store()
    heard: list[str] = []

    def doubles(storage: str, change: Change) -> None:
        if change.stored.key[1] == "a":
            store.put(storage, ("", "b"), {"metadata": {"name": "b"}})

    def fails(_storage: str, change: Change) -> None:
        if change.stored.key[1] in {"a", "b"}:
            raise OSError(errno.ENOSPC, change.stored.key[1])

    store.listen(doubles)
    store.listen(fails)
    store.listen(lambda _, change: heard.append(change.stored.key[1]))
    with pytest.raises(OSError, match="b"):
        store.put("nodes", ("", "a"), {"metadata": {"name": "a"}})
    assert heard == ["a", "b"]
    store.put("nodes", ("", "c"), {"metadata": {"name": "c"}})
    assert heard == ["a", "b", "c"]


def test_change_that_cannot_be_recorded_does_not_happen() -> None:
    store = Store()
    (watcher,) = subscribe(store.table("nodes"), ())
    heard: list[str] = []
    recorded: list[str] = []

    def record(_storage: str, change: Change) -> None:
        if change.stored.key[1] == "full":
            raise OSError(errno.ENOSPC, "")
        assert not heard
        recorded.append(change.stored.key[1])

    store.record(record)
    store.listen(lambda _, change: heard.append(change.stored.key[1]))
    version = store.version
    with pytest.raises(OSError, match="28"):
        store.put("nodes", ("", "full"), {"metadata": {"name": "full"}})
    assert (store.version, len(store.table("nodes")), seen(watcher), heard) == (version, 0, [], [])
    store.put("nodes", ("", "a"), {"metadata": {"name": "a"}})
    assert (recorded, heard, seen(watcher)) == (["a"], ["a"], ["a"])
