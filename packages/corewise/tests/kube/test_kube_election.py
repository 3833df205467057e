"""At most one replica leads at any moment, whatever the network does; one that goes is soon replaced."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corewise.kube.client import Client
from corewise.kube.election import Elector, Terms
from corewise.kube.errors import AlreadyExists, Conflict, NotFound, Status, TransportError
from corewise.kube.transport import Request
from kube.fake_api import CONFIG, MemoryTransport, seeded
from tally import fault, step
from virtual_time import VirtualClock, run_virtual


@dataclass
class LeaseServer:
    """Keeps one Lease, checks versions, and can be away, slow, or lose its answers."""

    lease: dict[str, Any] | None = None
    writes: int = 0
    away: set[str] = field(default_factory=set)
    loses_answers: set[str] = field(default_factory=set)
    delay: float = 0.01

    def transport(self, who: str) -> MemoryTransport:
        async def send(request: Request) -> bytes:
            await asyncio.sleep(self.delay)
            if who in self.away:
                raise TransportError("away")
            answer = self._serve(request)
            await asyncio.sleep(self.delay)
            if who in self.loses_answers:
                raise TransportError("lost")
            return msgspec.json.encode(answer)

        return MemoryTransport(send)

    def _serve(self, request: Request) -> dict[str, Any]:
        body = msgspec.json.decode(request.body) if request.body else {}
        if request.method == "POST":
            if self.lease is not None:
                raise AlreadyExists(Status(code=409))
            return self._store(body["spec"])
        if self.lease is None:
            raise NotFound(Status(code=404))
        if request.method == "PATCH":
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise Conflict(Status(code=409))
            return self._store(self.lease["spec"] | body["spec"])
        return self.lease

    def _store(self, spec: dict[str, Any]) -> dict[str, Any]:
        self.writes += 1
        self.lease = {"metadata": {"name": "l", "resourceVersion": str(self.writes)}, "spec": spec}
        return self.lease

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease
        return dict(self.lease["spec"])


@dataclass
class Replica:
    """One candidate; ``led`` are the times from when until when its work ran."""

    server: LeaseServer
    name: str
    led: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.transport = self.server.transport(self.name)
        self.elector = Elector(
            Client(CONFIG, transport=self.transport),
            namespace="ns",
            name="l",
            identity=self.name,
            clock=VirtualClock(),
            rng=seeded(self.name),
        )

    async def work(self) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        assert self.elector.is_leader.is_set()
        try:
            await asyncio.Event().wait()
        finally:
            self.led.append((start, loop.time()))

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.elector.run(self.work))


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_first_candidate_creates_and_renews_a_missing_lease() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        running = one.start()
        await asyncio.sleep(60)
        assert one.elector.is_leader.is_set()
        assert server.spec == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.010000Z",
            "renewTime": server.spec["renewTime"],
            "leaseTransitions": 0,
        }
        assert server.spec["renewTime"] >= "2026-01-01T00:00:57"
        await stop(running)
        assert len(one.led) == 1

    run_virtual(main())


def test_undisturbed_leader_sends_one_patch_per_retry_period() -> None:
    async def main() -> None:
        one = Replica(LeaseServer(), "one")
        running = one.start()
        await asyncio.sleep(60)
        methods = [request.method for request in one.transport.requests]
        assert methods[:2] == ["GET", "POST"]
        assert set(methods[2:]) == {"PATCH"}
        assert 28 <= len(methods[2:]) <= 30
        await stop(running)

    run_virtual(main())


def test_canceled_leader_hands_over_at_once() -> None:
    async def main() -> None:
        server = LeaseServer()
        one, two = Replica(server, "one"), Replica(server, "two")
        first = one.start()
        await asyncio.sleep(10)
        second = two.start()
        await asyncio.sleep(10)
        await stop(first)
        assert server.spec["holderIdentity"] == ""
        assert server.spec["leaseDurationSeconds"] == 1
        await asyncio.sleep(5)
        assert two.elector.is_leader.is_set()
        assert server.spec["leaseTransitions"] == 1
        assert server.spec["acquireTime"] > "2026-01-01T00:00:20"
        assert two.elector.leader == "two"
        await stop(second)

    run_virtual(main())


def test_vanished_leader_is_replaced_when_its_lease_expires() -> None:
    async def main() -> None:
        server = LeaseServer()
        one, two = Replica(server, "one"), Replica(server, "two")
        first, second = one.start(), two.start()
        await asyncio.sleep(30)
        leader, other = (one, two) if one.elector.is_leader.is_set() else (two, one)
        server.away.add(leader.name)
        await asyncio.sleep(9)
        assert not other.elector.is_leader.is_set()
        await asyncio.sleep(15)
        assert other.elector.is_leader.is_set()
        assert not leader.elector.is_leader.is_set()
        ((_, ended),) = leader.led
        assert ended <= 30 + 10 + 0.1
        await stop(first, second)

    run_virtual(main())


def test_short_api_server_outage_does_not_cost_leadership() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        running = one.start()
        await asyncio.sleep(10)
        server.away.add("one")
        await asyncio.sleep(5)
        server.away.clear()
        await asyncio.sleep(10)
        assert one.led == []
        assert one.elector.is_leader.is_set()
        await stop(running)

    run_virtual(main())


def test_a_lost_answer_does_not_cost_the_lead() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        running = one.start()
        await asyncio.sleep(10)
        server.loses_answers.add("one")
        await asyncio.sleep(3)
        server.loses_answers.clear()
        await asyncio.sleep(20)
        assert one.led == []
        await stop(running)

    run_virtual(main())


def test_hanging_request_does_not_keep_leader_beyond_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        running = one.start()
        await asyncio.sleep(10)
        server.delay = 10_000.0
        await asyncio.sleep(12)
        ((_, ended),) = one.led
        assert ended <= 20
        await stop(running)

    run_virtual(main())
    assert "could not be renewed within 10 s" in caplog.text, "no one took it, so it was not lost to anybody"


def test_lease_age_is_measured_locally_not_from_timestamps() -> None:
    async def main() -> None:
        server = LeaseServer()
        server._store(
            {"holderIdentity": "dead", "leaseDurationSeconds": 40, "renewTime": "1999-01-01T00:00:00.000000Z"}
        )
        one = Replica(server, "one")
        running = one.start()
        await asyncio.sleep(39)
        assert not one.elector.is_leader.is_set()
        assert one.elector.leader == "dead"
        await asyncio.sleep(6)
        assert one.elector.is_leader.is_set()
        assert server.spec["leaseTransitions"] == 1
        await stop(running)

    run_virtual(main())


def test_lease_taken_by_force_ends_leaders_work_immediately() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        running = one.start()
        await asyncio.sleep(10)
        server._store(server.spec | {"holderIdentity": "usurper"})
        await asyncio.sleep(2.5)
        assert len(one.led) == 1
        assert not one.elector.is_leader.is_set()
        await stop(running)
        assert server.spec["holderIdentity"] == "usurper"

    run_virtual(main())


def test_work_that_ends_ends_the_run_and_releases() -> None:
    async def nothing() -> None:
        pass

    async def main() -> None:
        server = LeaseServer()
        await Replica(server, "one").elector.run(nothing)
        assert server.spec["holderIdentity"] == ""

    run_virtual(main())


def test_exception_in_work_propagates_and_lease_is_released() -> None:
    async def bug() -> None:
        raise ZeroDivisionError

    server = LeaseServer()

    async def main() -> None:
        await Replica(server, "one").elector.run(bug)

    with pytest.raises(ExceptionGroup) as caught:
        run_virtual(main())
    assert caught.group_contains(ZeroDivisionError)
    assert server.spec["holderIdentity"] == ""


def test_release_without_a_server_does_not_delay_exit() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        running = one.start()
        await asyncio.sleep(10)
        server.delay = 10_000.0
        before = asyncio.get_running_loop().time()
        await stop(running)
        assert asyncio.get_running_loop().time() - before <= 5

    run_virtual(main())


@pytest.mark.parametrize("terms", [(10, 10, 2), (15, 10, 9), (15, 2, 2), (15, 10, 0)])
def test_terms_that_could_give_two_leaders_are_refused(terms: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="does not hold"):
        Terms(*terms)


TROUBLE = st.lists(
    st.tuples(
        st.sampled_from(["one", "two", "three"]),
        st.sampled_from(["away", "back", "loses", "keeps", "stop", "start"]),
        st.floats(0, 30, allow_nan=False),
    ),
    max_size=20,
)


@settings(deadline=None, max_examples=60)
@given(TROUBLE)
def test_never_two_leaders_and_one_in_the_end(trouble: list[tuple[str, str, float]]) -> None:
    async def main() -> None:
        server = LeaseServer()
        replicas = {name: Replica(server, name) for name in ("one", "two", "three")}
        running = {name: replica.start() for name, replica in replicas.items()}
        for name, what, pause in trouble:
            step()
            await act(server, replicas, running, name, what)
            await asyncio.sleep(pause)
        server.away.clear()
        server.loses_answers.clear()
        for name in replicas:
            await act(server, replicas, running, name, "start")
        await asyncio.sleep(60)
        assert sum(replica.elector.is_leader.is_set() for replica in replicas.values()) == 1
        await stop(*running.values())
        spans = sorted(span for replica in replicas.values() for span in replica.led)
        assert all(ended <= began for (_, ended), (began, _) in pairwise(spans))

    run_virtual(main())


async def act(
    server: LeaseServer,
    replicas: dict[str, Replica],
    running: dict[str, asyncio.Task[None]],
    name: str,
    what: str,
) -> None:
    match what:
        case "away":
            fault("partition")
            server.away.add(name)
        case "back":
            server.away.discard(name)
        case "loses":
            fault("lost answer")
            server.loses_answers.add(name)
        case "keeps":
            server.loses_answers.discard(name)
        case "stop":
            fault("replica stopped")
            await stop(running[name])
        case _ if running[name].done():
            running[name] = replicas[name].start()
