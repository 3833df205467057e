"""The server of the page: who is answered, with which headers, and what a stream sends."""

from __future__ import annotations

import asyncio
import io
import json
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession
from yarl import URL

from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.resources import NAMESPACES
from corewise.prometheus.exposition import Exposition
from corewise.service.health import REMEMBERED_SECONDS, TokenAccess
from corewise.service.http_servers import WEB, Listener
from corewise.service.options import Address
from corewise.views.top_data import LostConnection
from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.metrics import METRICS
from corewise.vocabulary.names import CONFIG_NAME
from corewise.web.server import HEADERS, PageServer
from corewise.web.streams import Feed
from kubedouble.authentication import User, service_account
from service.test_service_access import Scene, rbac, scene

MEBIBYTE = "x" * 2**20


@dataclass
class FakeViews:
    """Rows by name, and one document. A row stays the same object until it is put again."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    lost: LostConnection | None = None
    reads: int = 0
    trial_began: asyncio.Event = field(default_factory=asyncio.Event)
    trial_ended: asyncio.Event = field(default_factory=asyncio.Event)
    names = ("nodes",)

    def put(self, name: str, **values: Any) -> None:
        self.rows[name] = {"name": name, **values}

    def table(self, name: str, namespace: str = "") -> Mapping[str, Any]:
        if namespace:
            return {"rows": [], "total": None, "remarks": [f"the pods of {namespace}"]}
        if name not in {"nodes", "pods", "problems"}:
            raise LookupError(f"there is no table {name}")
        self.reads += 1
        return {"rows": list(self.rows.values()), "total": {"nodes": len(self.rows)}, "remarks": []}

    def summary(self) -> Mapping[str, Any]:
        return {"recommendations": len(self.rows)}

    async def document(self, kind: str, name: str) -> Mapping[str, Any]:
        if (kind, name) == ("nodes", "no such node"):
            raise LookupError(f"there is no node {name}")
        if kind == "hosts":
            raise OperationalError("the ledger of h1 cannot be read")
        return {kind: name, "waiting": "for other/pod"} if name == "team/p" else {kind: name}

    async def what_if(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if not body:
            raise ValueError("say what is to be changed")
        if "slow" in body:
            self.trial_began.set()
            try:
                await asyncio.sleep(10)
            finally:
                self.trial_ended.set()
        if "long" in body:
            raise OperationalError("it takes too long")
        return {"plan": dict(body)}


@dataclass
class Page:
    views: FakeViews
    server: PageServer
    address: Address
    session: ClientSession

    def url(self, path: str) -> str:
        return f"http://{self.address}{path}"

    async def events(self, path: str, count: int) -> AsyncIterator[tuple[str, Any]]:
        """Yield that many events of a stream."""
        async with self.session.get(self.url(f"/api/stream/{path}")) as answer:
            for _ in range(count):
                yield await next_event(answer)


async def next_event(answer: ClientResponse) -> tuple[str, Any]:
    name = ""
    async with asyncio.timeout(10):
        async for line in answer.content:
            text = line.decode().strip()
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                return name, json.loads(text.removeprefix("data: "))
    raise AssertionError("the stream ended")


@asynccontextmanager
async def served(views: FakeViews, access: TokenAccess | None = None) -> AsyncIterator[Page]:
    server = PageServer(
        views,
        views,
        lambda: views.lost,
        {"version": "1"},
        SYSTEM_CLOCK,
        hosts={"127.0.0.1"},
        configuration=("config", CONFIG_NAME),
        access=access,
    )
    metrics = Exposition(METRICS)
    listener = Listener(WEB, Address("127.0.0.1", 0), server.routes, metrics, headers=HEADERS)
    tasks = [asyncio.create_task(listener.run()), asyncio.create_task(server.feeds.run())]
    await listener.listening.wait()
    async with ClientSession() as session:
        yield Page(views, server, listener.address, session)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    views = FakeViews()
    views.put("a", cpu=1)
    views.put("b", cpu=2)
    async with served(views) as found:
        yield found


async def test_every_answer_has_the_headers_that_exclude_others(page: Page) -> None:
    for path in ("/", "/nodes/n", "/api/session", "/api/tables/nodes", "/api/tables/none", "/assets/none"):
        async with page.session.get(page.url(path)) as answer:
            shown = {name: answer.headers.get(name) for name in HEADERS}
            assert shown == HEADERS | {"Cache-Control": shown["Cache-Control"]}
            assert "Set-Cookie" not in answer.headers
    async with page.session.get(page.url("/api/session"), headers={"Host": "x.example"}) as answer:
        assert answer.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize("host", ["x.example", "127.0.0.1.x.example", "", "[::2]", "["])
async def test_a_host_header_of_another_name_is_refused(page: Page, host: str) -> None:
    async with page.session.get(page.url("/api/tables/nodes"), headers={"Host": host}) as answer:
        assert answer.status == 421
        assert "Host header" in await answer.text()


@pytest.mark.parametrize(
    ("path", "status", "shown"),
    [
        ("/api/session", 200, {"version": "1", "views": ["nodes"]}),
        ("/api/nodes/a%2Fb", 200, {"nodes": "a/b"}),
        ("/api/pods/default/p", 200, {"pods": "default/p"}),
        ("/api/pods/team%252Db/p", 200, {"pods": "team%2Db/p"}),
        ("/api/tables/none", 404, {"message": "there is no table none"}),
        ("/api/nodes/no such node", 404, {"message": "there is no node no such node"}),
        ("/api/hosts/h1", 502, {"message": "the ledger of h1 cannot be read"}),
        ("/api/stream/tables/none", 404, {"message": "there is no table none"}),
    ],
)
async def test_views_are_json(page: Page, path: str, status: int, shown: Any) -> None:
    async with page.session.get(URL(page.url(path), encoded="%" in path)) as answer:
        assert (answer.status, await answer.json()) == (status, shown)


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/api/what-if", {}, '{"ratio": 2}', 200),
        ("/api/what-if", {}, "{}", 400),
        ("/api/what-if", {}, '{"long": 1}', 503),
        ("/api/what-if", {}, "[", 400),
        ("/api/what-if", {}, '{"a": ' + "[" * 500 + "]" * 500 + "}", 400),
        ("/api/what-if", {}, '{"a": ' + "[" * 50_000 + "]" * 50_000 + "}", 400),
        ("/api/what-if", {"Content-Type": "text/plain"}, '{"ratio": 2}', 415),
        ("/api/what-if", {"Origin": "http://x.example"}, '{"ratio": 2}', 403),
        ("/api/what-if", {"Origin": "http://["}, '{"ratio": 2}', 403),
        ("/api/what-if", {}, '"' + "x" * WEB.max_body + '"', 413),
        ("/api/tables/nodes", {}, "{}", 405),
    ],
)
async def test_only_this_page_may_post_and_only_plans(
    page: Page, path: str, headers: dict[str, str], body: str, status: int
) -> None:
    sent = {"Content-Type": "application/json", **headers}
    async with page.session.post(page.url(path), data=io.BytesIO(body.encode()), headers=sent) as answer:
        assert answer.status == status
    async with page.session.delete(page.url(path)) as answer:
        assert answer.status == 405


async def test_changes_run_singly_and_closing_the_page_cancels(page: Page) -> None:
    url = page.url("/api/what-if")

    async def post(change: str, session: ClientSession) -> int:
        async with session.post(url, json={change: 1}) as answer:
            return answer.status

    async with ClientSession() as other:
        slow = asyncio.create_task(post("slow", other))
        async with asyncio.timeout(10):
            await page.views.trial_began.wait()
            assert await post("ratio", page.session) == 429
            slow.cancel()
            await page.views.trial_ended.wait()
            assert await post("ratio", page.session) == 200


async def test_stream_sends_everything_first_and_then_changed_rows(page: Page) -> None:
    async with page.session.get(page.url("/api/stream/tables/nodes")) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        kind, data = await next_event(answer)
        assert (kind, [row["name"] for row in data["rows"]]) == ("all", ["a", "b"])
        page.views.put("b", cpu=3)
        page.views.put("c", cpu=4)
        del page.views.rows["a"]
        page.server.feeds.changed()
        kind, data = await next_event(answer)
        assert kind == "change"
        assert data == {
            "rows": [{"name": "b", "cpu": 3}, {"name": "c", "cpu": 4}],
            "gone": ["a"],
            "total": {"nodes": 2},
            "remarks": [],
        }


async def test_lost_cluster_is_reported_and_return_resends_everything(page: Page) -> None:
    async with page.session.get(page.url("/api/stream/tables/nodes")) as answer:
        assert (await next_event(answer))[0] == "all"
        page.views.lost = LostConnection("connection refused", 7)
        page.server.feeds.changed()
        assert await next_event(answer) == ("lost", {"message": "connection refused", "seconds": 7})
        page.views.lost = None
        page.server.feeds.changed()
        assert (await next_event(answer))[0] == "all"


async def test_unchanged_document_ends_its_loss_when_read_again(page: Page) -> None:
    failures: list[str] = []

    async def document(kind: str, name: str) -> Mapping[str, Any]:
        if failures:
            raise OperationalError(failures.pop())
        return {kind: name}

    page.views.document = document  # type: ignore[method-assign]
    async with page.session.get(page.url("/api/stream/nodes/a")) as answer:
        assert (await next_event(answer))[0] == "all"
        failures.append("no answer")
        assert await next_event(answer) == ("lost", {"message": "no answer", "seconds": 0})
        assert await next_event(answer) == ("all", {"nodes": "a"})


async def test_what_many_pages_show_is_made_once(page: Page) -> None:
    streams = [page.events("tables/nodes", 2) for _ in range(20)]
    for stream in streams:
        assert (await anext(stream))[0] == "all"
    before = page.views.reads
    page.views.put("c", cpu=5)
    page.server.feeds.changed()
    for stream in streams:
        assert (await anext(stream))[0] == "change"
    assert page.views.reads - before <= 3  # one for the change; a tick or two may have looked too


async def test_two_pages_opening_one_document_together_follow_it(page: Page) -> None:
    shown = {"cpu": 1}

    async def document(kind: str, name: str) -> Mapping[str, Any]:
        await asyncio.sleep(0.05)
        return {kind: name, **shown}

    page.views.document = document  # type: ignore[method-assign]
    async with (
        page.session.get(page.url("/api/stream/nodes/a")) as one,
        page.session.get(page.url("/api/stream/nodes/a")) as other,
    ):
        assert [(await next_event(each))[1]["cpu"] for each in (one, other)] == [1, 1]
        shown["cpu"] = 2
        page.server.feeds.changed()
        assert [(await next_event(each))[1]["cpu"] for each in (one, other)] == [2, 2]


async def test_slow_page_gets_full_resend_instead_of_queue() -> None:
    views = FakeViews()
    views.put("a", cpu=0)

    async def read() -> Mapping[str, Any]:
        return views.table("nodes")

    feed = Feed(read)
    await feed.refresh()
    slow = feed.events(feed.join())
    assert (await anext(slow)).startswith(b"event: all")
    for number in range(1000):
        views.put("a", cpu=number)
        await feed.refresh()
    assert [len(each.pending or []) for each in feed._readers] == [0]
    last = await anext(slow)
    assert last.startswith(b"event: all")
    assert b'"cpu":999' in last
    views.put("a", cpu=1)
    await feed.refresh()
    assert (await anext(slow)).startswith(b"event: change")


async def grant(world: Scene, account: str, rules: list[dict[str, Any]], namespace: str = "") -> str:
    """Allow an account of namespace team something, in one namespace or in all; return its token."""
    role = {"metadata": {"name": account}, "rules": rules}
    binding = {
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account},
        "subjects": [{"kind": "ServiceAccount", "namespace": "team", "name": account}],
    }
    bindings = replace(rbac("rolebindings", "RoleBinding"), namespaced=True)
    await world.client.create(rbac("clusterroles", "ClusterRole"), role)
    if namespace:
        await world.client.create(bindings, binding, namespace)
    else:
        await world.client.create(rbac("clusterrolebindings", "ClusterRoleBinding"), binding)
    return world.token(service_account("team", account))


@asynccontextmanager
async def read_by_nobody(page: Page) -> AsyncIterator[Feed]:
    """Yield the feed of a page that takes one MiB at a time, and reads nothing of it."""
    page.views.put("a", text=MEBIBYTE)
    _, asking = await asyncio.open_connection(page.address.host, page.address.port, limit=1024)
    try:
        asking.write(b"GET /api/stream/tables/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        async with asyncio.timeout(60):
            while not page.server.feeds._feeds:  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.01)
            (feed,) = page.server.feeds._feeds.values()
            yield feed
    finally:
        asking.close()
        with suppress(ConnectionError):
            await asking.wait_closed()


async def update(page: Page, feed: Feed, number: int) -> None:
    page.views.put("a", text=f"{number}{MEBIBYTE}")
    await feed.refresh()
    await asyncio.sleep(0.01)


async def test_page_reading_nothing_costs_no_memory(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corewise.web.server._WRITE_WITHIN", 600.0)
    async with read_by_nobody(page) as feed:
        tracemalloc.start()
        try:
            for number in range(60):
                await update(page, feed, number)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert feed.is_read
    assert peak < 20 * len(MEBIBYTE)


async def test_page_reading_nothing_is_disconnected(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corewise.web.server._WRITE_WITHIN", 0.2)
    async with read_by_nobody(page) as feed:
        number = 0
        while feed.is_read:  # until what the kernel takes for the page is full, and for 0.2 s
            number += 1
            await update(page, feed, number)
    assert number > 0


async def test_what_if_requires_permission_to_read_shown_configuration(tmp_path: Path) -> None:
    lists = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}
    reads = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    async with scene(tmp_path) as world, served(FakeViews(), world.access) as page:
        for account, rules, status in (
            ("lists", [lists], 403),
            ("reads-another", [lists, {**reads, "resourceNames": ["another"]}], 403),
            ("reads-it", [lists, {**reads, "resourceNames": [CONFIG_NAME]}], 200),
            ("reads-only", [reads], 403),
        ):
            headers = {"Authorization": f"Bearer {await grant(world, account, rules)}"}
            async with page.session.post(
                page.url("/api/what-if"), json={"ratio": 2}, headers=headers
            ) as answer:
                assert answer.status == status
                if account == "lists":
                    assert f"may not get configmaps {CONFIG_NAME} in config" in await answer.text()


async def test_neighbors_are_for_callers_who_list_pods(tmp_path: Path) -> None:
    reads = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    async with scene(tmp_path) as world, served(FakeViews(), world.access) as page:
        await world.client.create(NAMESPACES, {"metadata": {"name": "team"}})
        own = await grant(world, "own", [reads], "team")
        every = await grant(world, "every", [{**reads, "verbs": ["get", "list"]}])
        for token, waiting in ((own, None), (every, "for other/pod"), (own, None)):
            headers = {"Authorization": f"Bearer {token}"}
            async with page.session.get(page.url("/api/pods/team/p"), headers=headers) as answer:
                assert await answer.json() == {"pods": "team/p", "waiting": waiting}
            async with page.session.get(page.url("/api/stream/pods/team/p"), headers=headers) as answer:
                assert (await next_event(answer))[1]["waiting"] == waiting


async def test_with_tokens_each_view_requires_its_own_permissions(tmp_path: Path) -> None:
    async with scene(tmp_path) as world:
        rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
        viewer = await grant(world, "viewer", rules)
        admin = world.token(User("root", ("system:masters",)))
        async with served(FakeViews(), world.access) as page:

            async def status(path: str, token: str = "") -> int:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                async with page.session.get(page.url(path), headers=headers) as answer:
                    return answer.status

            assert await status("/") in {200, 503}  # no one's secret; 503 where it is not built
            paths = [
                "/api/tables/nodes",
                "/api/stream/tables/none",
                "/api/tables/pods",
                "/api/tables/problems",
            ]
            assert [await status(path) for path in paths] == [401] * 4
            assert [await status(path, "nonsense") for path in paths] == [401] * 4
            assert [await status(path, viewer) for path in paths] == [200, 403, 403, 403]
            assert [await status(path, admin) for path in paths] == [200, 404, 200, 200]
            both = await grant(world, "both", [{**rules[0], "resources": ["nodes", "pods"]}])
            assert [await status(path, both) for path in paths] == [200, 404, 200, 403]
            kinds = ["nodes", "pods", "namespaces"]
            every = await grant(world, "every", [{**rules[0], "resources": kinds}])
            assert await status("/api/tables/problems", every) == 200
            assert await status("/api/nodes/n", viewer) == 403  # it says whose pods are there
            assert await status("/api/pods/team/p", viewer) == 403
            await world.client.create(NAMESPACES, {"metadata": {"name": "team"}})
            some = await grant(world, "some", [{**rules[0], "resources": ["pods"]}], "team")
            one = "tables/pods?namespace="
            assert [await status(f"/api/{one}{name}", some) for name in ("team", "other", "")] == [
                200,
                403,
                403,
            ]
            sent = {"Authorization": f"Bearer {some}"}
            async with page.session.get(page.url("/api/tables/pods"), headers=sent) as answer:
                assert "ask for a namespace whose pods it may list: ?namespace=NAME" in await answer.text()
            async with page.session.get(page.url(f"/api/stream/{one}team"), headers=sent) as answer:
                assert (await next_event(answer))[1]["remarks"] == ["the pods of team"]
            headers = {"Authorization": f"Bearer {viewer}"}
            async with page.session.get(page.url("/api/stream/tables/nodes"), headers=headers) as answer:
                assert (await next_event(answer))[0] == "all"
                await world.client.delete(rbac("clusterrolebindings", "ClusterRoleBinding"), "viewer")
                world.clock.skip(REMEMBERED_SECONDS)
                page.views.put("new")
                page.server.feeds.changed()
                with pytest.raises(AssertionError, match="the stream ended"):
                    await next_event(answer)
            assert await status("/api/pods/team/p", admin) == 200
