"""The cache follows the cluster through cuts, refusals and nonsense, and tells what changed.

The server is a script of steps: what each list and each watch answers, in the order in which they must be
asked. A script that has ended waits forever; ``follow`` gives the cache an hour of virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kube.cache import SHORTEST_WATCH, Cache
from corewise.kube.client import Client
from corewise.kube.errors import (
    DecodeError,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    Status,
    TooManyRequests,
    TransportError,
)
from corewise.kube.transport import Request
from corewise.workload.nodes import WORKLOAD_NODES, Node
from corewise.workload.pods import WORKLOAD_PODS, Pod
from kube.fake_api import CONFIG, MemoryTransport, event, listing, node, seeded
from virtual_time import VirtualClock, run_virtual

CUT = TransportError("cut")
TOO_OLD = Gone(Status(code=410, message="too old"))
TOO_OLD_EVENT = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})


@dataclass(frozen=True)
class Lists:
    """A list is asked for."""

    answer: dict[str, Any] | KubeError


@dataclass(frozen=True)
class Watches:
    """A watch from ``version`` is asked for; it gives the chunks and then ends, or fails with ``error``."""

    version: str
    chunks: tuple[bytes, ...] = ()
    error: KubeError | None = None
    lasts: float = 10.0


@dataclass
class Followed:
    """The actions of a cache in an hour."""

    cache: Cache[Node]
    requests: list[Request] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)

    @property
    def versions(self) -> dict[Any, str]:
        return {key: item.metadata.resource_version for key, item in self.cache.items.items()}


def scripted(steps: Iterable[Lists | Watches]) -> MemoryTransport:
    left = list(steps)

    async def next_step(request: Request) -> Lists | Watches:
        if not left:
            await asyncio.Event().wait()
        step = left.pop(0)
        assert isinstance(step, Watches) == ("watch" in request.params), (
            f"{request} where {step} was expected"
        )
        return step

    async def send(request: Request) -> bytes:
        step = await next_step(request)
        assert isinstance(step, Lists)
        if isinstance(step.answer, KubeError):
            raise step.answer
        return msgspec.json.encode(step.answer)

    async def stream(request: Request) -> AsyncIterator[bytes]:
        step = await next_step(request)
        assert isinstance(step, Watches)
        assert request.params["resourceVersion"] == step.version
        for chunk in step.chunks:
            yield chunk
        await asyncio.sleep(step.lasts)
        if step.error:
            raise step.error

    return MemoryTransport(send, stream)


def describe(old: Node | None, new: Node | None) -> str:
    def version(item: Node | None) -> str:
        return f"{item.metadata.name}@{item.metadata.resource_version}" if item else "-"

    return f"{version(old)} > {version(new)}"


def follow(*steps: Lists | Watches, seconds: float = 3600.0) -> Followed:
    async def main() -> Followed:
        transport = scripted(steps)
        changes: list[str] = []
        cache = Cache(
            Client(CONFIG, transport=transport),
            WORKLOAD_NODES,
            on_change=lambda old, new: changes.append(describe(old, new)),
            clock=VirtualClock(),
            rng=seeded(),
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await cache.run()
        return Followed(cache, transport.requests, changes)

    return run_virtual(main())


def test_a_list_then_changes() -> None:
    followed = follow(
        Lists(listing(5, node("n1", 3), node("n2", 4))),
        Watches(
            "5",
            (
                event("ADDED", node("n3", 6)) + event("MODIFIED", node("n1", 7)),
                event("DELETED", node("n2", 8)),
            ),
        ),
        Watches("8"),
    )
    assert followed.versions == {"n1": "7", "n3": "6"}
    assert followed.cache.synced.is_set()
    assert followed.changes == ["- > n1@3", "- > n2@4", "- > n3@6", "n1@3 > n1@7", "n2@8 > -"]


def test_new_objects_are_prepared_before_they_count() -> None:
    async def main() -> list[str]:
        steps = (
            Lists(listing(5, node("n1", 1), node("n2", 2))),
            Watches("5", (event("MODIFIED", node("n1", 6)), event("DELETED", node("n2", 7))), error=TOO_OLD),
            Lists(listing(9, node("n1", 6), node("n3", 8))),
        )
        seen: list[str] = []

        async def prepare(new: Node) -> None:
            await asyncio.sleep(1)
            seen.append(f"{new.metadata.name}@{new.metadata.resource_version} {sorted(cache.items)}")

        cache = Cache(
            Client(CONFIG, transport=scripted(steps)),
            WORKLOAD_NODES,
            prepare=prepare,
            on_change=lambda old, new: seen.append(describe(old, new)),
            clock=VirtualClock(),
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(100):
                await cache.run()
        return seen

    assert run_virtual(main()) == [
        "n1@1 []",
        "n2@2 []",
        "- > n1@1",
        "- > n2@2",
        "n1@6 ['n1', 'n2']",
        "n1@1 > n1@6",
        "n2@7 > -",
        "n3@8 ['n1']",
        "- > n3@8",
    ]


def test_watch_that_ends_cleanly_resumes_without_a_list() -> None:
    followed = follow(
        Lists(listing(5)),
        Watches("5", (event("ADDED", node("n1", 6)),)),
        Watches("6", (event("BOOKMARK", node("", 9)),)),
        Watches("9", (event("ADDED", node("n2", 10)),)),
        Watches("10"),
    )
    assert followed.versions == {"n1": "6", "n2": "10"}


def test_watch_that_is_cut_resumes_without_a_list() -> None:
    followed = follow(
        Lists(listing(5)),
        Watches("5", (event("ADDED", node("n1", 6)), b'{"type":"ADD'), error=CUT),
        Watches("6", (event("ADDED", node("n2", 7)), b'{"type":"ADD')),
        Watches("7", (event("ADDED", node("n3", 8)),)),
    )
    assert followed.versions == {"n1": "6", "n2": "7", "n3": "8"}


@pytest.mark.parametrize(
    "too_old", [Watches("5", error=TOO_OLD), Watches("5", (TOO_OLD_EVENT,))], ids=["answer", "event"]
)
def test_expired_version_triggers_a_relist_that_reports_differences(too_old: Watches) -> None:
    followed = follow(
        Lists(listing(5, node("gone", 1), node("same", 2), node("new", 3))),
        too_old,
        Lists(listing(90, node("same", 2), node("new", 80), node("more", 81))),
        Watches("90"),
    )
    assert followed.versions == {"same": "2", "new": "80", "more": "81"}
    assert followed.changes[3:] == ["gone@1 > -", "new@3 > new@80", "- > more@81"]


def test_unchanged_object_keeps_its_identity() -> None:
    seen: list[Node] = []

    async def main() -> None:
        steps = (
            Lists(listing(5, node("n1", 1))),
            Watches("5", error=TOO_OLD),
            Lists(listing(6, node("n1", 1))),
        )
        cache = Cache(Client(CONFIG, transport=scripted(steps)), WORKLOAD_NODES, clock=VirtualClock())
        running = asyncio.create_task(cache.run())
        await cache.synced.wait()
        seen.append(cache.items["n1"])
        await asyncio.sleep(100)
        seen.append(cache.items["n1"])
        running.cancel()

    run_virtual(main())
    assert seen[0] is seen[1]


@pytest.mark.parametrize(
    "error",
    [CUT, Forbidden(Status(code=403)), DecodeError("rubbish"), TOO_OLD],
    ids=["cut", "forbidden", "rubbish", "gone"],
)
def test_no_error_of_a_list_ends_it(error: KubeError) -> None:
    # Gone is answered by a second list in the client itself.
    steps = [Lists(error)] * 20
    followed = follow(*steps, Lists(listing(5, node("n1", 1))), Watches("5"))
    assert followed.versions == {"n1": "1"}


def test_pauses_after_failures_grow_to_half_a_minute() -> None:
    followed = follow(*[Lists(CUT)] * 1000, seconds=600)
    # 0.5 + 1 + 2 + ... + 16 s, then 30 s each, all of them halved at most by chance.
    assert 20 <= len(followed.requests) <= 50


def test_retry_delay_from_server_is_obeyed_within_reason() -> None:
    busy = TooManyRequests(Status(code=429), retry_after=20.0)
    assert len(follow(*[Lists(busy)] * 1000, seconds=199).requests) == 10
    away = TooManyRequests(Status(code=429), retry_after=86_400.0)
    assert len(follow(*[Lists(away)] * 1000, seconds=299).requests) == 10


def test_last_error_is_kept_until_the_next_contact() -> None:
    failing = follow(Lists(CUT))
    assert failing.cache.last_error is CUT
    assert failing.cache.last_contact is None
    well = follow(Lists(CUT), Lists(listing(1)))
    assert well.cache.last_error is None
    assert well.cache.last_contact is not None


def test_reopened_watch_ends_an_outage_without_any_change() -> None:
    cut = Watches("5", error=CUT)
    quiet = follow(Lists(listing(5)), cut, Watches("5", lasts=10_000.0), seconds=200)
    assert quiet.cache.last_error is None
    relisted = follow(Lists(listing(5)), *[cut] * 5, Lists(listing(6)), seconds=200)
    assert "watch" not in relisted.requests[6].params, "a watch that is cut each time is no success"


def test_watches_that_end_immediately_cause_no_busy_loop() -> None:
    followed = follow(Lists(listing(5)), *[Watches("5", lasts=0.0)] * 10_000, seconds=60)
    assert len(followed.requests) < 250


def test_five_failures_in_a_row_list_again() -> None:
    followed = follow(
        Lists(listing(5, node("n1", 5))),
        *[Watches("5", error=CUT)] * 5,
        Lists(listing(2, node("n1", 2))),
        Watches("2"),
    )
    assert followed.versions == {"n1": "2"}


def test_watch_with_events_between_failures_is_not_relisted() -> None:
    talk = [Watches(str(5 + i), (event("BOOKMARK", node("", 6 + i)),), error=CUT) for i in range(20)]
    followed = follow(Lists(listing(5)), *talk, Watches("25"))
    assert followed.requests[-1].params["resourceVersion"] == "25"


def test_malformed_event_line_pauses_but_never_ends_watch() -> None:
    followed = follow(
        Lists(listing(5)),
        Watches("5", (event("ADDED", node("n1", 6)), b"rubbish\n")),
        Watches("6", (event("ADDED", node("n2", 7)),)),
        Watches("7"),
    )
    assert followed.versions == {"n1": "6", "n2": "7"}


def test_an_event_beyond_the_cap_lists_again() -> None:
    followed = follow(
        Lists(listing(5)),
        Watches("5", (b"x" * (17 << 20),)),
        Lists(listing(9, node("n1", 9))),
        Watches("9"),
    )
    assert followed.versions == {"n1": "9"}


BROKEN = {"spec": "no map"}


def test_undecodable_event_is_named_keeping_last_good_object() -> None:
    followed = follow(
        Lists(listing(5, node("n1", 1))),
        Watches("5", (event("MODIFIED", node("n1", 6, **BROKEN)), event("ADDED", node("n2", 7)))),
        Watches("7"),
    )
    assert followed.versions == {"n1": "1", "n2": "7"}
    assert list(followed.cache.problems) == ["n1"]
    assert "$.spec" in followed.cache.problems["n1"]


def test_undecodable_list_item_keeps_last_good_object() -> None:
    followed = follow(
        Lists(listing(5, node("n1", 1))),
        Watches("5", error=TOO_OLD),
        Lists(listing(9, node("n1", 8, **BROKEN), node("n2", 9, **BROKEN), node("n3", 9))),
        Watches("9"),
    )
    assert followed.versions == {"n1": "1", "n3": "9"}
    assert set(followed.cache.problems) == {"n1", "n2"}


def test_problem_ends_when_object_is_good_or_gone() -> None:
    broken = (event("MODIFIED", node("n1", 6, **BROKEN)), event("ADDED", node("n2", 7, **BROKEN)))
    mended = (event("MODIFIED", node("n1", 8)), event("DELETED", node("n2", 9, **BROKEN)))
    followed = follow(Lists(listing(5, node("n1", 1))), Watches("5", broken + mended), Watches("9"))
    assert followed.versions == {"n1": "8"}
    assert followed.cache.problems == {}


def test_deletion_of_an_undecodable_object_counts() -> None:
    followed = follow(
        Lists(listing(5, node("n1", 1))),
        Watches("5", (event("DELETED", node("n1", 6, **BROKEN)),)),
        Watches("6"),
    )
    assert followed.versions == {}
    assert followed.changes[-1] == "n1@1 > -"


def test_a_problem_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    again = tuple(event("MODIFIED", node("n1", version, **BROKEN)) for version in range(6, 20))
    follow(Lists(listing(5, node("n1", 1))), Watches("5", again), Watches("19"))
    assert len([record for record in caplog.records if "nodes n1 cannot be read" in record.message]) == 1


def test_watches_request_timeouts_of_five_to_ten_minutes() -> None:
    followed = follow(Lists(listing(5)), *[Watches("5")] * 50)
    seconds = {int(request.params["timeoutSeconds"]) for request in followed.requests[1:]}
    assert min(seconds) >= SHORTEST_WATCH
    assert max(seconds) < 2 * SHORTEST_WATCH
    assert len(seconds) > 10


def test_namespaced_objects_are_kept_by_namespace_and_name() -> None:
    pods = [{"metadata": {"namespace": space, "name": "p", "resourceVersion": "1"}} for space in ("a", "b")]

    async def main() -> Cache[Pod]:
        transport = scripted([Lists(listing(5, *pods))])
        cache = Cache(Client(CONFIG, transport=transport), WORKLOAD_PODS, clock=VirtualClock())
        running = asyncio.create_task(cache.run())
        await cache.synced.wait()
        running.cancel()
        return cache

    cache = run_virtual(main())
    assert set(cache.items) == {("a", "p"), ("b", "p")}
    assert cache.get("p", "b") is cache.items["b", "p"]
    assert cache.get("p", "c") is None


def test_exception_from_on_change_ends_the_run() -> None:
    def bug(old: object, new: object) -> None:
        raise ZeroDivisionError

    async def main() -> None:
        transport = scripted([Lists(listing(5, node("n1", 1)))])
        await Cache(
            Client(CONFIG, transport=transport), WORKLOAD_NODES, on_change=bug, clock=VirtualClock()
        ).run()

    with pytest.raises(ZeroDivisionError):
        run_virtual(main())


class World:
    """A cluster's history, from which a server answers truthfully, as far back as it remembers."""

    def __init__(self, forgets: int) -> None:
        self.forgets = forgets
        self.history: list[tuple[str, dict[str, Any]]] = []
        self.moved = asyncio.Condition()

    @property
    def version(self) -> int:
        return len(self.history)

    def state(self) -> dict[str, dict[str, Any]]:
        state: dict[str, dict[str, Any]] = {}
        for kind, item in self.history:
            if kind == "DELETED":
                del state[item["metadata"]["name"]]
            else:
                state[item["metadata"]["name"]] = item
        return state

    async def write(self, name: str, *, delete: bool) -> None:
        exists = name in self.state()
        if delete and not exists:
            return
        kind = "DELETED" if delete else "MODIFIED" if exists else "ADDED"
        self.history.append((kind, node(name, self.version + 1)))
        async with self.moved:
            self.moved.notify_all()


class Troubled:
    """Serves a ``World`` and fails as it is told: one mood for each request."""

    def __init__(self, world: World, moods: list[str]) -> None:
        self.world = world
        self.moods = moods

    def mood(self) -> str:
        return self.moods.pop(0) if self.moods else "well"

    async def send(self, request: Request) -> bytes:
        if self.mood() in {"cut", "rubbish"}:
            raise CUT
        return msgspec.json.encode(listing(self.world.version, *self.world.state().values()))

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        sent = int(request.params["resourceVersion"])
        mood = self.mood()
        if sent < self.world.version - self.world.forgets:
            yield TOO_OLD_EVENT
            return
        patience = 0 if mood == "ends" else 3
        while patience:
            while sent < self.world.version:
                kind, item = self.world.history[sent]
                line = event(kind, item)
                if mood in {"cut", "rubbish"} and patience == 1:
                    yield line[: len(line) // 2] + (b"\n" if mood == "rubbish" else b"")
                    raise CUT
                yield line
                sent += 1
            patience -= 1
            async with asyncio.timeout(100):
                async with self.world.moved:
                    await self.world.moved.wait()


MOODS = st.lists(st.sampled_from(["well", "cut", "ends", "rubbish"]), max_size=12)
WRITES = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 40)), max_size=25)


@given(MOODS, WRITES, st.integers(0, 5))
def test_cache_converges_to_the_cluster_whatever_happens(
    moods: list[str], writes: list[tuple[str, bool, int]], forgets: int
) -> None:
    async def main() -> None:
        world = World(forgets)
        troubled = Troubled(world, moods)
        told: dict[str, str] = {}

        def on_change(old: Node | None, new: Node | None) -> None:
            either = new or old
            assert either
            name = either.metadata.name
            assert (told.get(name) is None) == (old is None)
            if new:
                told[name] = new.metadata.resource_version
            else:
                del told[name]

        cache = Cache(
            Client(CONFIG, transport=MemoryTransport(troubled.send, quiet(troubled.stream))),
            WORKLOAD_NODES,
            on_change=on_change,
            clock=VirtualClock(),
            rng=seeded(),
        )
        running = asyncio.create_task(cache.run())
        for name, delete, pause in writes:
            await world.write(name, delete=delete)
            await asyncio.sleep(pause)
        await asyncio.sleep(3600)
        running.cancel()
        expected = {name: item["metadata"]["resourceVersion"] for name, item in world.state().items()}
        assert {key: item.metadata.resource_version for key, item in cache.items.items()} == expected
        assert told == expected

    run_virtual(main())


def quiet(stream: Callable[[Request], AsyncIterator[bytes]]) -> Callable[[Request], AsyncIterator[bytes]]:
    """A stream whose timeouts are its end in order."""

    async def quieted(request: Request) -> AsyncIterator[bytes]:
        try:
            async for chunk in stream(request):
                yield chunk
        except TimeoutError:
            return

    return quieted


def test_kind_that_is_not_served_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    missing = Lists(NotFound(Status(code=404, message="no such kind")))
    follow(*[missing] * 9, Lists(listing(5)), Watches("5", error=TOO_OLD), *[missing] * 9)
    told = [record.message.removeprefix("following nodes: ") for record in caplog.records]
    assert told == ["no such kind", "too old", "no such kind"]  # again, since it was there in between
