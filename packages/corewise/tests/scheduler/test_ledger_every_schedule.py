"""Every schedule of two writers of the ledger and up to two faults: no CPU twice, no lasting entry.

The cluster and the promises are those of :mod:`scheduler.test_ledger_histories`. A schedule says which of the
two writers goes on, one request at a time, and where faults strike: a request is lost, or its answer, or it
arrives twice; a replica ends between any two steps, and its requests may arrive later; a replica's view is
behind by its last event, or by all from then on. Watches show everything at once otherwise. A pod is bound as
kube-scheduler sent it before anything happened, or as it is read.

What has no consequence is counted once: two replicas with the same work may change places; only versions of
one object are compared; a state of a node that a replica sees while it does nothing replaces the one before;
and a request that was given up, and names a version that is gone, is no longer in the network.

``make test`` tries some pairs, one of them with a fault, ``make explore EXHAUSTIVE=1`` all with two.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias
from unittest.mock import patch

import pytest

from corewise.kube.errors import TransportError
from corewise.kube.transport import Request
from corewise.scheduler import binding, executor
from corewise.scheduler.binding import Binder
from corewise.scheduler.collector import EXPIRY, LedgerCollector
from every_case import WHOLE, Stopwatch
from mutants import Mutant
from scheduler.test_ledger_histories import WORK, Histories, deliver_until, is_bound, placed
from schedules import Explored, Schedule, explore

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
NODE: Final = "n2"
"""With 4 CPUs; each pod wants 4."""
CURRENT, BY_ONE, BY_ALL = "current", "by one", "by all"
REPLICAS: Final = (0, 1)


class Cluster(Histories):
    """The cluster, with two writers, each of a replica."""

    def __init__(self, writers: tuple[str, str], faults: int) -> None:
        super().__init__()
        self.names = writers
        self.waiting = [0, 1]
        self.faults = faults
        self.lag = [CURRENT, CURRENT]
        self.told: list[list[Any]] = [[self.snapshot()], [self.snapshot()]]
        """What each replica knew when it began, and what it was told since: that is all of its memory."""
        self.fresh = [True, True]
        """Whether a replica has done nothing yet: then it knows what it sees, however that came about."""
        self.seen: set[str] | None = None
        """Takes the outline of the state after each step, if it is a set."""
        self.orders = ((0, 1), (1, 0)) if writers[0] == writers[1] else ((0, 1),)
        self.show()
        if "look after expiry" in writers:
            claim_expires(self)

    def show(self) -> None:
        """Let the replicas see what they are to see."""
        for number in REPLICAS:
            port = self.replicas[number].port
            keep = {CURRENT: 0, BY_ONE: 1}.get(self.lag[number], len(port.unseen))
            if (shown := len(port.unseen) - keep) > 0:
                for path, line in port.unseen[:shown]:
                    self.tell(number, path, json.loads(line))
                self.see(number, shown)

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """Return the objects that a new replica sees: of pods, the bound ones."""
        return {
            path: {name: each for name, each in objects.items() if path != PODS or is_bound(each)}
            for path, objects in self.server.objects.items()
        }

    def tell(self, number: int, path: str, event: dict[str, Any]) -> None:
        """Note a watch event. A replica goes on at answers only: in between, a node's last state counts."""
        told, name = self.told[number], event["object"]["metadata"]["name"]
        if self.fresh[number]:
            told[0][path].pop(name, None)
            if event["type"] != "DELETED":
                told[0][path][name] = event["object"]
            return
        if path == NODES and told[-1][:-1] == (path, name):
            told.pop()
        told.append((path, name, event))

    def state(self, lagging: int | None = None) -> object:
        """Return all that the future depends on but the faults left; ``lagging``: whose lag is to be chosen.

        Two replicas with the same work are alike: a state and its mirror image are one.
        """
        return lagging, min(canonical(self.seen_from(order)) for order in self.orders)

    def seen_from(self, order: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the state; the replicas are numbered in this order, and requests have none."""
        held = sorted((self.place_in(order, each), each.work, *asked_by(each.request)) for each in self.held)
        requests = [(*what, json.loads(body)) for *what, body in held]
        objects = self.server.objects[NODES], self.server.objects[PODS]
        ports = [self.replicas[number].port for number in order]
        unseen = [[(path, json.loads(line)) for path, line in port.unseen] for port in ports]
        known = [(self.told[number], self.lag[number], number in self.waiting) for number in order]
        return objects, requests, unseen, known

    def outline_from(self, order: tuple[int, ...]) -> object:
        """Return the objects, and the requests that a replica waits for, without what the replicas know."""
        objects, requests, *_ = self.seen_from(order)
        return objects, [each for each in requests if each[0] >= 0]

    def place_in(self, order: tuple[int, ...], held: Any) -> int:
        return order.index(self.replica_of(held)) if self.waits_for(held) else -1

    def waits_for(self, held: Any) -> bool:
        """Whether a replica still waits for an answer: it may have ended, or given up."""
        return self.replica_of(held) >= 0 and not held.answer.done()

    def replica_of(self, held: Any) -> int:
        return next((n for n in REPLICAS if held.port is self.replicas[n].port), -1)

    def options(self) -> dict[str, Callable[[], None]]:
        """Return the events that may come next, faults last."""
        options: dict[str, Callable[[], None]] = {}
        for number in self.waiting:
            for way, begin in WRITERS[self.names[number]].items():
                options[f"{way} on replica {number}"] = partial(self.start, number, way, begin)
        faults: dict[str, Callable[[], None]] = {}
        for place, held in enumerate(self.held):
            path = held.request.path.removeprefix("/api/v1/namespaces/default/").removeprefix("/api/v1/")
            sender = f"on replica {self.replica_of(held)}" if self.waits_for(held) else f"given up ({place})"
            what = f"{held.request.method} {path} of {held.work} {sender}"
            assert f"{what} arrives" not in options
            options[f"{what} arrives"] = partial(self.arrive, place, "delivered")
            for fate in self.fates(held):
                faults[f"{what}: {fate}"] = partial(self.arrive, place, fate)
        if not options:
            return {}
        for number in REPLICAS:
            faults[f"replica {number} ends"] = partial(self.crash, number)
        return options | (faults if self.faults else {})

    def fates(self, held: Any) -> tuple[str, ...]:
        """Return the faults of a request that make a difference."""
        if held.request.method == "GET":
            return ("lost",)
        return ("lost", *(("answer lost",) if self.waits_for(held) else ()), "delivered twice")

    def lags(self, number: int) -> dict[str, str]:
        """Return the ways in which a replica may fall behind: only if there is something to see."""
        if not self.faults or self.lag[number] != CURRENT or not self.replicas[number].port.unseen:
            return {}
        return {"": CURRENT, **{f"replica {number} lags {lag}": lag for lag in (BY_ONE, BY_ALL)}}

    def start(self, number: int, way: str, begin: Writer) -> None:
        self.waiting = [each for each in self.waiting if each != number]
        self.fresh[number] = False
        self.told[number].append(way)
        with work(way):
            begin(self, number)

    def arrive(self, place: int, fate: str) -> None:
        self.faults -= fate != "delivered"
        held = self.held[place]
        is_waited_for = self.waits_for(held)
        self.carry(place, fate)
        if is_waited_for:
            self.told[self.replica_of(held)].append((held.work, held.request.path, told_by(held.answer)))

    def bury(self) -> None:
        """Drop the requests whose senders gave up, and which the API server refuses whenever they arrive."""
        self.held[:] = [
            held
            for held in self.held
            if self.waits_for(held) or not self.server.refuses_for_good(held.request)
        ]

    def crash(self, number: int) -> None:
        self.faults -= 1
        port = self.replicas[number].port
        for held in [each for each in self.held if each.port is port and each.request.method == "GET"]:
            self.held.remove(held)  # it changes nothing, and nothing waits for its answer
        self.restart(number)
        self.told[number], self.fresh[number] = [self.snapshot()], True
        self.lag[number] = CURRENT

    def fall_back(self, number: int, how: str) -> None:
        self.faults -= how != CURRENT
        self.lag[number] = how

    def check(self) -> None:
        self.a_cpu_is_one_pods()
        self.the_fold_is_in_allocatable()
        if self.seen is not None:
            self.seen.add(min(canonical(self.outline_from(order)) for order in self.orders))


class ToldApart(Cluster):
    """The cluster whose states are counted once only if they are equal, to the faults that are left."""

    def tell(self, number: int, path: str, event: dict[str, Any]) -> None:
        super().tell(number, path, event)
        if not self.fresh[number]:
            self.told[number].append("it goes on")

    def bury(self) -> None:
        pass

    def state(self, lagging: int | None = None) -> object:
        return lagging, canonical(self.seen_from(REPLICAS)), self.faults


Writer: TypeAlias = Callable[[Cluster, int], None]


@contextmanager
def work(name: str) -> Iterator[None]:
    """Have the requests say what they are part of that follow from what is begun here."""
    token = WORK.set(name)
    try:
        yield
    finally:
        WORK.reset(token)


def asked_by(request: Request) -> tuple[str, str, bytes]:
    return request.method, request.path, request.body or b"null"


_VERSION: Final = re.compile(r'"resourceVersion": "(\d+)"(?:, "uid": "(\w[\w-]*)")?')
_ATTEMPT: Final = re.compile(r"\b0000[0-9a-f]{4}\b")


def canonical(state: object) -> str:
    """Return a state as text, without what nothing depends on.

    Versions of one object are numbered in their order, and attempts as the text names them: versions of two
    objects are never compared, and the names of attempts only for equality.
    """
    text = json.dumps(state, sort_keys=True)
    versions: defaultdict[str, set[int]] = defaultdict(set)
    for version, uid in _VERSION.findall(text):
        versions[uid].add(int(version))
    ranks = {
        uid: {number: rank for rank, number in enumerate(sorted(all_))} for uid, all_ in versions.items()
    }
    text = _VERSION.sub(lambda found: f"version {ranks[found[2] or ''][int(found[1])]} of {found[2]}", text)
    names: dict[str, str] = {}
    return _ATTEMPT.sub(lambda found: names.setdefault(found[0], f"attempt {len(names)}"), text)


def told_by(answer: asyncio.Future[bytes]) -> object:
    """Return the content of an answer, or the error that a replica has in its place."""
    error = answer.exception()
    if isinstance(error, TransportError):
        return "no answer"
    return repr(error) if error else json.loads(answer.result())


def bind(pod: str) -> dict[str, Writer]:
    """Return the ways to bind a pod: as it is read, and as kube-scheduler sent it at the start."""

    def created(cluster: Cluster) -> dict[str, Any]:
        return next(each for each in cluster.created if each["metadata"]["name"] == pod)

    def as_read(cluster: Cluster, number: int) -> None:
        cluster.ask(cluster.server.objects[PODS].get(pod, created(cluster)), NODE, number)

    def as_sent(cluster: Cluster, number: int) -> None:
        cluster.replicas[number].state.assumed.remember(placed(created(cluster)))
        cluster.ask(created(cluster), NODE, number)

    return {f"bind {pod}": as_read, f"bind {pod} as sent": as_sent}


def look(cluster: Cluster, number: int) -> None:
    cluster.look(number)


def replace_pod(cluster: Cluster, _number: int) -> None:
    """Delete p1 and create another pod of its name, as a user does."""
    cluster.server.put(PODS, cluster.server.objects[PODS]["p1"], "DELETED")
    cluster.create(4, 1)


WRITERS: Final[dict[str, dict[str, Writer]]] = {
    "bind p1": bind("p1"),
    "bind p2": bind("p2"),
    "look": {"look": look},
    "look after expiry": {"look after expiry": look},
    "replace p1": {"replace p1": replace_pod},
}
"""The writers, and the ways in which each may begin."""


def claim_expires(cluster: Cluster) -> None:
    """Have p1 claimed, its Binding in the network, and both replicas have waited for it long enough."""
    with work("the first bind p1"):
        cluster.ask(cluster.server.objects[PODS]["p1"], NODE, 0)
    late = deliver_until(cluster, "/binding")
    cluster.held.remove(late)
    for number in REPLICAS:
        cluster.show()
        cluster.look(number)
        while cluster.held:
            cluster.carry()
    cluster.pass_time(EXPIRY)
    cluster.held.append(late)
    cluster.show()
    cluster.fresh = [False, False]
    cluster.told = [["p1's claim has expired, its Binding is sent"], ["p1's claim has expired"]]


QUICK_PAIRS: Final = (
    ("bind p1", "look"),
    ("bind p1", "bind p2"),
    ("bind p1", "bind p1"),
    ("bind p1", "replace p1"),
)
PAIRS: Final = (
    *QUICK_PAIRS,
    ("bind p2", "look after expiry"),
    ("bind p1", "look after expiry"),
    ("look after expiry", "look after expiry"),
    ("replace p1", "look after expiry"),
)
COMPARED: Final = (*QUICK_PAIRS, ("bind p2", "look after expiry"))


def explored(
    pair: tuple[str, str], faults: int, *, kind: type[Cluster] = Cluster, seen: set[str] | None = None
) -> Explored:
    """Try every schedule of a pair; add to ``seen`` the outlines of all states."""

    def run(schedule: Schedule) -> None:
        numbers = count()
        with patch.object(binding, "token_hex", lambda _: f"{next(numbers):08x}"):
            cluster = kind(pair, faults)
            try:
                cluster.seen = seen
                play(cluster, schedule)
            finally:
                cluster.close()

    return explore(run)


def play(cluster: Cluster, schedule: Schedule) -> None:
    """Play one schedule to its end, and let everything settle; attempts are named in their order."""
    while options := cluster.options():
        choice = schedule.choose([*options], cluster.state, cluster.faults)
        [*options.values()][choice]()
        cluster.bury()
        for number in REPLICAS:
            if lags := cluster.lags(number):
                choice = schedule.choose([*lags], partial(cluster.state, number), cluster.faults)
                cluster.fall_back(number, [*lags.values()][choice])
        cluster.show()
        if not schedule.repeats:
            cluster.check()
    schedule.arrive_at(cluster.state(), cluster.faults)
    cluster.lag = [CURRENT, CURRENT]
    cluster.settle()
    cluster.check()


@pytest.mark.parametrize("pair", PAIRS if WHOLE else QUICK_PAIRS, ids=" and ".join)
def test_no_schedule_gives_a_cpu_twice(pair: tuple[str, str]) -> None:
    # That a Binding is still in the network when its claim has expired is a fault already.
    faults = 2 - ("look after expiry" in pair) if WHOLE else int(pair == ("bind p1", "look"))
    watch = Stopwatch(f"ledger: {' and '.join(pair)}, {faults} faults")
    found = explored(pair, faults)
    assert found.failure is None, found.failure
    watch.report(states=found.states, schedules=found.schedules)


@pytest.mark.skipif(not WHOLE, reason="takes minutes: make explore EXHAUSTIVE=1")
@pytest.mark.parametrize("pair", COMPARED, ids=" and ".join)
def test_states_counted_once_hide_no_outline(pair: tuple[str, str]) -> None:
    watch = Stopwatch(f"ledger: {' and '.join(pair)}, 1 fault, all states told apart")
    seen: set[str] = set()
    of_all: set[str] = set()
    found = explored(pair, 1, seen=seen), explored(pair, 1, kind=ToldApart, seen=of_all)
    assert [each.failure for each in found] == [None, None]
    assert seen == of_all
    watch.report(states=found[1].states, schedules=found[1].schedules, outlines=len(seen))


MUTANTS: Final[dict[str, tuple[Mutant, tuple[str, str], int]]] = {
    "a ledger is written over a newer one": (
        Mutant(executor, "body_of", '"resourceVersion": meta.resource_version}', "}"),
        ("bind p1", "bind p2"),
        0,
    ),
    "an entry that is never bound stays": (
        Mutant(LedgerCollector, "_tidy", "removed[uid] = owner, cause", "pass"),
        ("bind p1", "look"),
        1,
    ),
    "a claim expires and its pod is not changed": (
        Mutant(
            LedgerCollector,
            "_cause",
            "await self.executor.carry_out(FencePod(pod, self.clock.now()))",
            "pass",
        ),
        ("bind p2", "look after expiry"),
        1,
    ),
    "a Binding of CPUs names no version": (
        Mutant(executor, "body_of", 'metadata["resourceVersion"] = meta.resource_version', "pass"),
        ("bind p2", "look after expiry"),
        1,
    ),
    "an entry counts for a pod that has changed since": (
        Mutant(
            Binder,
            "_entered",
            'return name if version == pod.metadata.resource_version else ""',
            "return name",
        ),
        ("bind p1", "look after expiry"),
        0,
    ),
    "an attempt takes back the entry of another": (
        Mutant(Binder, "_given_up", " or owners[uid].bind not in mine", ""),
        ("bind p1", "bind p1"),
        1,
    ),
    "an attempt takes an entry that it found for its own": (
        Mutant(Binder, "_claim", "if before is None or before.bind in mine:", "if True:"),
        ("bind p1", "bind p1"),
        1,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_every_error_in_the_writers_is_found(name: str) -> None:
    mutant, pair, faults = MUTANTS[name]
    watch = Stopwatch(f"mutant of the ledger: {name}")
    with mutant.at_work():
        found = explored(pair, faults)
    assert found.failure is not None, "no schedule shows the error"
    history, _ = found.failure
    watch.report(history, schedules=found.schedules)
