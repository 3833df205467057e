"""A view that is behind the cluster says so, and loses nothing of what its listener could not take in.

the listener raises       stale until a later run has delivered the change again
nothing runs the cache    stale
the API server refuses    stale after a minute without an answer
the API server is silent  stale after the longest watch and a minute
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kube.cache import RELIST_AFTER, SHORTEST_WATCH, STALE_AFTER, Cache
from corewise.kube.client import Client
from corewise.kube.errors import Forbidden, KubeError, NotFound, Status, TransportError
from corewise.kube.transport import Request
from corewise.workload.nodes import WORKLOAD_NODES, Node
from kube.fake_api import CONFIG, MemoryTransport, event, listing, node, seeded
from kube.test_kube_cache import TOO_OLD_EVENT, Lists, Watches, scripted
from virtual_time import VirtualClock, run_virtual

DAY = 86400.0


class Listener:
    """Follows the cache by what it is told; raises where ``fails`` says so, before it takes the change in."""

    def __init__(self, fails: Callable[[str], bool]) -> None:
        self.fails = fails
        self.known: dict[str, str] = {}
        self.heard: list[str] = []

    def __call__(self, old: Node | None, new: Node | None) -> None:
        changed = new or old
        assert changed is not None
        self.heard.append(changed.metadata.name)
        if self.fails(changed.metadata.name):
            raise ZeroDivisionError
        if new is None:
            del self.known[changed.metadata.name]
        else:
            self.known[new.metadata.name] = new.metadata.resource_version


def cache_of(*steps: Lists | Watches, listener: Listener | None = None) -> Cache[Node]:
    client = Client(CONFIG, transport=scripted(steps))
    return Cache(client, WORKLOAD_NODES, on_change=listener, clock=VirtualClock(), rng=seeded())


async def run_for(cache: Cache[Node], seconds: float) -> str:
    """Run the cache; return whether it is stale at the end of that, still running."""
    task = asyncio.create_task(cache.run())
    await asyncio.sleep(seconds)
    stale = cache.stale()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return stale


def test_change_that_raised_is_redelivered_after_all_others() -> None:
    poisoned = ["n1"]
    listener = Listener(lambda name: name in poisoned)
    cache = cache_of(
        Lists(listing(5, node("n0", 3))),
        Watches("5", (event("ADDED", node("n1", 6)),)),
        Lists(listing(7, node("n0", 3), node("n1", 6), node("n2", 7))),
        Lists(listing(8, node("n0", 3), node("n1", 6), node("n2", 7))),
        Watches("8", lasts=DAY),
        listener=listener,
    )

    async def main() -> None:
        for known in ({"n0": "3"}, {"n0": "3", "n2": "7"}):
            with pytest.raises(ZeroDivisionError):
                await cache.run()
            assert listener.known == known
            assert cache.stale() == (
                "the view of nodes is stale: a change of n1 could not be taken in (see the log)"
            )
        poisoned.clear()
        assert not await run_for(cache, 1.0)

    run_virtual(main())
    assert listener.known == {"n0": "3", "n1": "6", "n2": "7"}
    assert listener.heard == ["n0", "n1", "n2", "n1", "n1"]


def test_removal_that_raised_is_redelivered() -> None:
    failures = iter([False, True])
    listener = Listener(lambda _name: next(failures, False))
    cache = cache_of(
        Lists(listing(5, node("n1", 3))),
        Watches("5", (event("DELETED", node("n1", 6)),)),
        Lists(listing(7)),
        Watches("7", lasts=DAY),
        listener=listener,
    )

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await cache.run()
        assert listener.known == {"n1": "3"}
        assert not await run_for(cache, 1.0)

    run_virtual(main())
    assert listener.known == {}


states = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 3), max_size=4)


@given(st.lists(states, min_size=1, max_size=5), st.lists(st.booleans(), max_size=30))
def test_listener_reaches_cluster_state_whenever_it_raises(
    lists: list[dict[str, int]], raising: list[bool]
) -> None:
    """Every list gives the next state, the last one forever; watches are too old until there is no next."""
    failures = iter(raising)
    listener = Listener(lambda _name: next(failures, False))
    given = 0

    async def send(_request: Request) -> bytes:
        nonlocal given
        given += 1
        items = (node(name, version) for name, version in lists[min(given, len(lists)) - 1].items())
        return msgspec.json.encode(listing(100 + given, *items))

    async def stream(_request: Request) -> AsyncIterator[bytes]:
        await asyncio.sleep(1.0 if given < len(lists) else DAY)
        yield TOO_OLD_EVENT

    cache = Cache(
        Client(CONFIG, transport=MemoryTransport(send, stream)),
        WORKLOAD_NODES,
        on_change=listener,
        clock=VirtualClock(),
        rng=seeded(),
    )

    async def supervised() -> None:
        while True:
            with suppress(ZeroDivisionError):
                await cache.run()
            copy = {str(name): item.metadata.resource_version for name, item in cache.items.items()}
            assert copy == listener.known or cache.stale() or not cache.synced.is_set()
            await asyncio.sleep(1.0)

    async def main() -> None:
        task = asyncio.create_task(supervised())
        await asyncio.sleep(300.0)
        assert not task.done()
        assert cache.stale() == ""
        task.cancel()

    run_virtual(main())
    assert listener.known == {name: str(version) for name, version in lists[-1].items()}


@pytest.mark.parametrize(
    ("error", "stale"),
    [
        (Forbidden(Status(code=403, message="no")), "the view of nodes is 62 s old: "),
        (TransportError("refused"), "the view of nodes is 62 s old: "),
        (NotFound(Status(code=404, message="no such resource")), ""),
    ],
)
def test_watch_failing_for_a_minute_makes_view_stale(error: KubeError, stale: str) -> None:
    refusals: list[Lists | Watches] = [Watches("5", error=error, lasts=0.0) for _ in range(RELIST_AFTER)]
    cache = cache_of(Lists(listing(5, node("n1", 3))), *refusals, *[Lists(error)] * 100)

    async def main() -> None:
        task = asyncio.create_task(cache.run())
        await asyncio.sleep(STALE_AFTER - 1)
        assert not cache.stale()
        await asyncio.sleep(3.0)
        assert cache.stale().startswith(stale)
        assert bool(cache.stale()) == bool(stale)
        assert cache.silence == pytest.approx(STALE_AFTER + 2)
        task.cancel()

    run_virtual(main())


def test_server_silent_beyond_watch_lifetime_makes_view_stale() -> None:
    cache = cache_of(Lists(listing(5, node("n1", 3))), Watches("5", lasts=DAY))
    longest = 2 * SHORTEST_WATCH + STALE_AFTER
    assert not run_virtual(run_for(cache, longest - 1))
    cache = cache_of(Lists(listing(5, node("n1", 3))), Watches("5", lasts=DAY))
    assert "the API server is silent" in run_virtual(run_for(cache, longest + 1))


def test_unfollowed_view_is_stale_but_unlisted_is_not() -> None:
    cache = cache_of(Lists(listing(5)), Watches("5", lasts=DAY), Watches("5", lasts=DAY))
    assert not cache.stale()

    async def main() -> None:
        assert not await run_for(cache, 1.0)
        assert cache.stale() == "the view of nodes is stale: nothing follows them (see the log)"
        assert not await run_for(cache, 1.0)

    run_virtual(main())
