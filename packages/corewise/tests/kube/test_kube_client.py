"""What the client sends, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from corewise.kube.client import Client, PatchType
from corewise.kube.config import UserConfig
from corewise.kube.decoding import Bookmark, EventType, WatchEvent
from corewise.kube.errors import (
    AlreadyExists,
    APIError,
    BadRequest,
    Conflict,
    DecodeError,
    Forbidden,
    Gone,
    Invalid,
    LineTooLongError,
    NotFound,
    ServerError,
    Status,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from corewise.kube.objects import ObjectMeta
from corewise.kube.resources import CONFIG_MAPS, LEASES, PODS
from corewise.kube.watch import LONGEST_LINE
from corewise.workload.nodes import WORKLOAD_NODES, Node
from kube.fake_api import FakeAPI, InstantClock, event, fake_api, listing, node, refusal, reply, stream


@pytest.fixture
async def api() -> AsyncIterator[FakeAPI]:
    async with fake_api() as running:
        yield running


@pytest.fixture
async def client(api: FakeAPI) -> AsyncIterator[Client]:
    async with Client(api.config, clock=InstantClock()) as opened:
        yield opened


async def test_get_decodes_to_the_type_of_the_resource(api: FakeAPI, client: Client) -> None:
    api.answers(reply(node("n1", 4)))
    assert await client.get(WORKLOAD_NODES, "n1") == Node(ObjectMeta(name="n1", resource_version="4"))
    assert (api.seen[0].method, api.seen[0].path) == ("GET", "/api/v1/nodes/n1")
    assert api.seen[0].headers["Accept"] == "application/json"
    assert api.seen[0].headers["User-Agent"].startswith("corewise/")


async def test_quoted_paths_name_group_namespace_and_subresource(api: FakeAPI, client: Client) -> None:
    api.answers(reply({}))
    await client.get(LEASES, "a/b?c", "kube system")
    await client.patch(PODS, "p", {}, namespace="d", subresource="status")
    assert [seen.path for seen in api.seen] == [
        "/apis/coordination.k8s.io/v1/namespaces/kube%20system/leases/a%2Fb%3Fc",
        "/api/v1/namespaces/d/pods/p/status",
    ]


def test_needless_or_missing_namespace_is_a_bug() -> None:
    with pytest.raises(ValueError, match="nodes have no namespace"):
        WORKLOAD_NODES.path("n1", namespace="default")
    with pytest.raises(ValueError, match="pods 'p' needs a namespace"):
        PODS.path("p")


async def test_a_server_below_a_path_is_reached_there(api: FakeAPI) -> None:
    api.answers(reply({}))
    async with Client(replace(api.config, server=api.url + "/k8s/c1")) as client:
        await client.get(WORKLOAD_NODES, "n1")
    assert api.seen[0].path == "/k8s/c1/api/v1/nodes/n1"


async def test_list_follows_pages_and_keeps_selectors(api: FakeAPI, client: Client) -> None:
    api.answers(reply(listing(7, node("n1", 1), token="t+/=")), reply(listing(7, node("n2", 2))))
    found = await client.list(
        WORKLOAD_NODES, label_selector="a in (b,c)", field_selector="spec.x!=1", page_size=1
    )
    assert [item.metadata.name for item in found] == ["n1", "n2"]
    assert (found.resource_version, len(found), found.undecodable) == ("7", 2, ())
    first = {"labelSelector": "a in (b,c)", "fieldSelector": "spec.x!=1", "limit": "1"}
    assert [seen.query for seen in api.seen] == [first, first | {"continue": "t+/="}]


async def test_list_keeps_callers_objects_as_each_page_arrives(api: FakeAPI, client: Client) -> None:
    api.answers(reply(listing(7, node("n1", 1), token="t")), reply(listing(7, node("n2", 2))))
    held, pages = Node(metadata=ObjectMeta(name="held")), []

    def hold(item: Node) -> Node:
        pages.append((item.metadata.name, len(api.seen)))
        return held if item.metadata.name == "n1" else item

    found = await client.list(WORKLOAD_NODES, page_size=1, held=hold)
    assert found.items[0] is held
    assert [each.metadata.name for each in found] == ["held", "n2"]
    assert pages == [("n1", 1), ("n2", 2)], "before the next page is asked for"


async def test_expired_continue_token_restarts_list_with_larger_pages(api: FakeAPI, client: Client) -> None:
    api.answers(
        reply(listing(7, node("n1", 1), token="t")),
        refusal(410, "Expired", "The provided continue parameter is too old"),
        reply(listing(9, node("n2", 8), node("n3", 9))),
    )
    found = await client.list(WORKLOAD_NODES, page_size=1)
    assert [item.metadata.name for item in found] == ["n2", "n3"]
    assert [seen.query.get("limit") for seen in api.seen] == ["1", "1", "10"]


async def test_list_expired_even_with_larger_pages_is_gone(api: FakeAPI, client: Client) -> None:
    api.answers(refusal(410, "Expired"))
    with pytest.raises(Gone):
        await client.list(WORKLOAD_NODES)
    assert len(api.seen) == 2


async def test_create_states_what_the_struct_leaves_out(api: FakeAPI, client: Client) -> None:
    api.answers(reply(node("n1", 1), 201))
    await client.create(WORKLOAD_NODES, Node(ObjectMeta(name="n1")), field_manager="me", dry_run=True)
    seen = api.seen[0]
    assert seen.json == {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert seen.query == {"fieldManager": "me", "dryRun": "All"}
    assert seen.headers["Content-Type"] == "application/json"


async def test_replace_puts_to_the_subresource(api: FakeAPI, client: Client) -> None:
    api.answers(reply({}))
    await client.replace(WORKLOAD_NODES, "n1", {"status": {}}, subresource="status", field_manager="me")
    assert (api.seen[0].method, api.seen[0].path) == ("PUT", "/api/v1/nodes/n1/status")
    assert api.seen[0].json == {"apiVersion": "v1", "kind": "Node", "status": {}}


@pytest.mark.parametrize("kind", list(PatchType))
async def test_each_patch_is_sent_with_its_media_type(api: FakeAPI, client: Client, kind: PatchType) -> None:
    api.answers(reply({}))
    await client.patch(WORKLOAD_NODES, "n1", {"a": None}, type=kind, field_manager="me")
    seen = api.seen[0]
    assert seen.headers["Content-Type"] == kind.value
    expected: dict[str, Any] = {"a": None}
    if kind is PatchType.APPLY:
        expected |= {"apiVersion": "v1", "kind": "Node"}
    assert seen.json == expected


async def test_apply_needs_a_manager_and_can_be_forced(api: FakeAPI, client: Client) -> None:
    api.answers(reply({}))
    with pytest.raises(ValueError, match="needs a field_manager"):
        await client.patch(WORKLOAD_NODES, "n1", {}, type=PatchType.APPLY)
    await client.patch(WORKLOAD_NODES, "n1", {}, type=PatchType.APPLY, field_manager="me", force=True)
    assert api.seen[0].query == {"fieldManager": "me", "force": "true"}


async def test_bytes_are_sent_as_they_are(api: FakeAPI, client: Client) -> None:
    api.answers(reply({}))
    await client.patch(WORKLOAD_NODES, "n1", b'[ {"op":"test"} ]', type=PatchType.JSON)
    assert api.seen[0].body == b'[ {"op":"test"} ]'


async def test_delete_states_its_preconditions(api: FakeAPI, client: Client) -> None:
    api.answers(reply({}))
    await client.delete(PODS, "p", "d", uid="u", grace_period=0, dry_run=True)
    assert api.seen[0].json == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 0,
        "dryRun": ["All"],
    }


async def test_any_path_can_be_asked_for(api: FakeAPI, client: Client) -> None:
    api.answers(reply(b"ok"))
    assert await client.request("GET", "/readyz", params={"verbose": "1"}) == b"ok"
    assert (api.seen[0].path, api.seen[0].query) == ("/readyz", {"verbose": "1"})


async def test_another_user_goes_over_the_same_connections(api: FakeAPI, client: Client) -> None:
    api.answers(reply({}))
    async with client.as_user("system:node:n1", ["system:nodes", "b"], uid="7") as kubelet:
        await kubelet.get(WORKLOAD_NODES, "n1")
    await client.get(WORKLOAD_NODES, "n1")
    assert api.seen[0].headers["Impersonate-User"] == "system:node:n1"
    assert api.seen[0].headers["Impersonate-Uid"] == "7"
    assert api.seen[0].groups == ("system:nodes", "b")
    assert "Impersonate-User" not in api.seen[1].headers


async def test_the_configuration_may_impersonate(api: FakeAPI) -> None:
    api.answers(reply({}))
    config = replace(api.config, user=UserConfig(impersonate="bob", impersonate_groups=("g",)))
    async with Client(config) as client:
        await client.get(WORKLOAD_NODES, "n1")
    assert (api.seen[0].headers["Impersonate-User"], api.seen[0].groups) == ("bob", ("g",))


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Gone", Gone),
        (418, "", APIError),
        (422, "Invalid", Invalid),
        (500, "InternalError", ServerError),
    ],
)
async def test_each_refusal_has_its_error(
    api: FakeAPI, client: Client, code: int, reason: str, kind: type[APIError]
) -> None:
    api.answers(refusal(code, reason, "because"))
    with pytest.raises(APIError) as caught:
        await client.get(WORKLOAD_NODES, "n1")
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.status.reason) == (code, reason)
    assert str(caught.value) == "GET /api/v1/nodes/n1: because"


async def test_the_causes_of_an_invalid_object_are_kept(api: FakeAPI, client: Client) -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "must be positive", "field": "spec.x"}]
    api.answers(refusal(422, "Invalid", causes=causes, name="n1", kind="Node"))
    with pytest.raises(Invalid) as caught:
        await client.patch(WORKLOAD_NODES, "n1", {})
    (cause,) = caught.value.causes
    assert (cause.field, cause.message) == ("spec.x", "must be positive")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>\n <h1>Bad Gateway</h1>", "HTTP 418: <html> <h1>Bad Gateway</h1>"),
        (b"", "HTTP 418"),
        (b"\xff", "HTTP 418"),
    ],
)
async def test_an_answer_that_is_no_status_is_quoted(
    api: FakeAPI, client: Client, body: bytes, message: str
) -> None:
    api.answers(reply(body, 418))
    with pytest.raises(APIError, match=message):
        await client.get(WORKLOAD_NODES, "n1")


async def test_an_answer_that_is_no_node_is_named(api: FakeAPI, client: Client) -> None:
    api.answers(reply(b"hello"))
    with pytest.raises(DecodeError, match="nodes n1: JSON is malformed"):
        await client.get(WORKLOAD_NODES, "n1")


async def test_a_redirect_is_not_followed(api: FakeAPI, client: Client) -> None:
    api.answers(reply({}, 301, {"Location": "http://127.0.0.1:1/"}))
    with pytest.raises(APIError, match="HTTP 301"):
        await client.get(WORKLOAD_NODES, "n1")


async def test_using_a_client_before_opening_is_a_bug(api: FakeAPI) -> None:
    with pytest.raises(RuntimeError, match="not open"):
        await Client(api.config).get(WORKLOAD_NODES, "n1")


async def test_warnings_reach_the_callback(api: FakeAPI) -> None:
    heard: list[str] = []
    api.answers(reply({}, headers={"Warning": r'299 - "say \"no\"", 299 agent "again", 199 - "other"'}))
    async with Client(api.config, on_warning=heard.append) as client:
        await client.get(WORKLOAD_NODES, "n1")
    assert heard == ['say "no"', "again"]


async def test_each_warning_is_logged_once(
    api: FakeAPI, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    api.answers(reply({}, headers={"Warning": '299 - "v1 is deprecated"'}))
    await client.get(WORKLOAD_NODES, "n1")
    await client.get(WORKLOAD_NODES, "n1")
    assert [record.message for record in caplog.records] == ["the API server warns: v1 is deprecated"]


async def test_watch_requests_bookmarks_and_ends_cleanly(api: FakeAPI, client: Client) -> None:
    api.answers(stream(event("ADDED", node("n1", 5)), event("BOOKMARK", node("", 6))))
    seen = [
        item async for item in client.watch(WORKLOAD_NODES, "4", label_selector="a=b", timeout_seconds=60)
    ]
    assert seen == [
        WatchEvent(EventType.ADDED, Node(ObjectMeta(name="n1", resource_version="5"))),
        Bookmark("6"),
    ]
    assert api.seen[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "4",
        "labelSelector": "a=b",
        "timeoutSeconds": "60",
    }


async def test_watch_event_over_a_mebibyte_arrives_whole(api: FakeAPI, client: Client) -> None:
    big = event("ADDED", {"metadata": {"name": "c"}, "data": {"x": "y" * (2 << 20)}})
    api.answers(stream(*(big[start : start + 100_000] for start in range(0, len(big), 100_000))))
    (change,) = [item async for item in client.watch(CONFIG_MAPS, "1")]
    assert isinstance(change, WatchEvent)
    assert len(change.object.data["x"]) == 2 << 20


@pytest.mark.parametrize("cut", [True, False], ids=["connection cut", "stream ended"])
async def test_truncated_last_line_counts_as_a_cut_connection(
    api: FakeAPI, client: Client, cut: bool
) -> None:
    api.answers(
        stream(
            event("ADDED", node("n1", 5)), b'{"type":"ADDED","object":{"metadata":{"name":"n2"}}}', cut=cut
        )
    )
    watch = client.watch(WORKLOAD_NODES, "4")
    assert isinstance(await anext(watch), WatchEvent)
    with pytest.raises(TransportError):
        await anext(watch)


async def test_watch_line_beyond_cap_is_a_typed_error(api: FakeAPI, client: Client) -> None:
    api.answers(stream(*[b"x" * (1 << 20)] * (LONGEST_LINE >> 20), b"x", hang=True))
    with pytest.raises(LineTooLongError):
        async for _ in client.watch(WORKLOAD_NODES, "4"):
            pass


async def test_expired_version_is_gone_in_answers_and_events(api: FakeAPI, client: Client) -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    api.answers(refusal(410, "Expired"), stream(event("ERROR", status), hang=True))
    for _ in range(2):
        with pytest.raises(Gone):
            async for _ in client.watch(WORKLOAD_NODES, "4"):
                pass


async def test_watches_leave_connections_free_for_requests(api: FakeAPI) -> None:
    api.answers(*[stream(event("ADDED", node("n1", 5)), hang=True)] * 3, reply(node("n1", 5)))
    async with Client(api.config, connections=1) as client:
        watches = [client.watch(WORKLOAD_NODES, "4") for _ in range(3)]
        for watch in watches:
            await anext(watch)
        assert (await client.get(WORKLOAD_NODES, "n1")).metadata.name == "n1"
        for watch in watches:
            await watch.aclose()


async def test_too_many_requests_carries_when_to_come_back(api: FakeAPI, client: Client) -> None:
    api.answers(refusal(429, "TooManyRequests", headers={"Retry-After": "60"}))
    with pytest.raises(TooManyRequests) as caught:
        await client.get(WORKLOAD_NODES, "n1")
    assert caught.value.retry_after == 60
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("message", "hinted"),
    [
        (
            'nodes "a" is forbidden: User "system:node:a" cannot patch resource "nodes" at the cluster scope',
            True,
        ),
        ('nodes "a" is forbidden: admission webhook "x.example.com" denied the request', False),
    ],
)
def test_only_a_missing_permission_is_called_one(message: str, hinted: bool) -> None:
    refused = Forbidden(Status(code=403, message=message))
    assert ("lacks a permission" in refused.hint) is hinted
