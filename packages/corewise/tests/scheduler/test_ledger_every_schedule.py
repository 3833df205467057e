"""Every schedule of two writers of the ledger and up to two faults: no CPU twice, no lasting entry.

The cluster and the promises are those of :mod:`scheduler.test_ledger_histories`. A schedule says which of the
two writers goes on, one request at a time, and where faults strike: a request is lost, or its answer, or it
arrives twice; a replica ends between any two steps, and its requests may arrive later; a replica's view is
behind by its last event, or by all from then on. Watches show everything at once otherwise.

``make test`` tries some pairs, one of them with a fault, ``make explore EXHAUSTIVE=1`` all with two.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final
from unittest.mock import patch

import pytest

from corewise.kube.errors import TransportError
from corewise.scheduler import binding, executor
from corewise.scheduler.binding import Binder
from corewise.scheduler.collector import EXPIRY, LedgerCollector
from every_case import WHOLE, Stopwatch
from mutants import Mutant
from scheduler.test_ledger_histories import Histories, deliver_until, is_bound
from schedules import Explored, Schedule, explore

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
        self.fresh = [True, True]
        """Whether a replica has done nothing yet: then it knows what it sees, however that came about."""
        self.orders = ((0, 1), (1, 0)) if writers[0] == writers[1] else ((0, 1),)
        self.show()
        if "look after expiry" in writers:
            claim_expires(self)
        self.show()

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
        if not self.fresh[number]:
            self.told[number].append((path, event))
            return
        seen = self.told[number][0][path]
        name = event["object"]["metadata"]["name"]
        seen.pop(name, None)
        if event["type"] != "DELETED":
            seen[name] = event["object"]

    def state(self) -> object:
        """Return all that the future depends on: a replica's memory is what it was told.

        Two replicas with the same work are alike: a state and its mirror image are one.
        """
        return min(canonical(self.seen_from(order)) for order in self.orders)

    def seen_from(self, order: tuple[int, ...]) -> object:
        """Return the state; the replicas are numbered in this order, and requests have none."""
        held = sorted(
            (self.place_in(order, each), each.request.method, each.request.path, each.request.body or b"null")
            for each in self.held
        )
        requests = [(*what, json.loads(body)) for *what, body in held]
        ports = [self.replicas[number].port for number in order]
        unseen = [[(path, json.loads(line)) for path, line in port.unseen] for port in ports]
        known = [(self.told[number], self.lag[number], number in self.waiting) for number in order]
        return self.server.objects, requests, unseen, known, self.faults

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
            options[f"{self.names[number]} on replica {number}"] = partial(self.start, number)
        faults: dict[str, Callable[[], None]] = {}
        for place, held in enumerate(self.held):
            path = held.request.path.removeprefix("/api/v1/")
            number = self.replica_of(held)
            sender = f"of {number}" if self.waits_for(held) else f"that was given up ({place})"
            what = f"{held.request.method} {path} {sender}"
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

    def start(self, number: int) -> None:
        self.waiting = [each for each in self.waiting if each != number]
        self.fresh[number] = False
        self.told[number].append(self.names[number])
        WRITERS[self.names[number]](self, number)

    def arrive(self, place: int, fate: str) -> None:
        self.faults -= fate != "delivered"
        held = self.held[place]
        is_waited_for = self.waits_for(held)
        self.carry(place, fate)
        if is_waited_for:
            self.told[self.replica_of(held)].append((held.request.path, told_by(held.answer)))

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


def bind(pod: str) -> Callable[[Cluster, int], None]:
    """Return the writer that binds a pod, if it is there."""

    def begin(cluster: Cluster, number: int) -> None:
        found = next((each for each in cluster.created if each["metadata"]["name"] == pod), None)
        assert found is not None
        cluster.ask(cluster.server.objects[PODS].get(pod, found), NODE, number)

    return begin


def look(cluster: Cluster, number: int) -> None:
    cluster.look(number)


def replace_pod(cluster: Cluster, _number: int) -> None:
    """Delete p1 and create another pod of its name, as a user does."""
    cluster.server.put(PODS, cluster.server.objects[PODS]["p1"], "DELETED")
    cluster.create(4, 1)


WRITERS: Final[dict[str, Callable[[Cluster, int], None]]] = {
    "bind p1": bind("p1"),
    "bind p2": bind("p2"),
    "look": look,
    "look after expiry": look,
    "replace p1": replace_pod,
}


def claim_expires(cluster: Cluster) -> None:
    """Have p1 claimed, its Binding in the network, and both replicas have waited for it long enough."""
    cluster.ask(cluster.server.objects[PODS]["p1"], NODE, 0)
    cluster.fresh = [False, False]
    cluster.told[0].append("p1 is to be bound")
    late = deliver_until(cluster, "/binding")
    cluster.held.remove(late)
    for number in REPLICAS:
        cluster.show()
        cluster.look(number)
        while cluster.held:
            cluster.carry()
    cluster.pass_time(EXPIRY)
    cluster.held.append(late)


QUICK_PAIRS: Final = (
    ("bind p1", "look"),
    ("bind p1", "bind p2"),
    ("bind p1", "bind p1"),
    ("bind p1", "replace p1"),
)
PAIRS: Final = (
    *QUICK_PAIRS,
    ("bind p2", "look after expiry"),
    ("look after expiry", "look after expiry"),
    ("bind p1", "look after expiry"),
)


def explored(pair: tuple[str, str], faults: int, *, stop_at_failure: bool = True) -> Explored:
    def run(schedule: Schedule) -> None:
        numbers = count()
        cluster = Cluster(pair, faults)
        try:
            with patch.object(binding, "token_hex", lambda _: f"{next(numbers):08x}"):
                play(cluster, schedule)
        finally:
            cluster.close()

    return explore(run, stop_at_failure=stop_at_failure)


def play(cluster: Cluster, schedule: Schedule) -> None:
    """Play one schedule to its end, and let everything settle; attempts are named in their order."""
    while options := cluster.options():
        choice = schedule.choose([*options], cluster.state())
        [*options.values()][choice]()
        for number in REPLICAS:
            if lags := cluster.lags(number):
                choice = schedule.choose([*lags], (number, cluster.state()))
                cluster.fall_back(number, [*lags.values()][choice])
        cluster.show()
        cluster.check()
    schedule.arrive_at(cluster.state())
    cluster.lag = [CURRENT, CURRENT]
    cluster.settle()


@pytest.mark.parametrize("pair", PAIRS if WHOLE else QUICK_PAIRS, ids=" and ".join)
def test_no_schedule_gives_a_cpu_twice(pair: tuple[str, str]) -> None:
    # That a Binding is still in the network when its claim has expired is a fault already.
    faults = 2 - ("look after expiry" in pair) if WHOLE else int(pair == ("bind p1", "look"))
    watch = Stopwatch(f"ledger: {' and '.join(pair)}, {faults} faults")
    found = explored(pair, faults)
    assert found.failure is None, found.failure
    watch.report(states=found.states, schedules=found.schedules)


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
QUICK: Final = tuple(MUTANTS)[:2]


@pytest.mark.parametrize("name", MUTANTS if WHOLE else QUICK)
def test_every_error_in_the_writers_is_found(name: str) -> None:
    mutant, pair, faults = MUTANTS[name]
    watch = Stopwatch(f"mutant of the ledger: {name}")
    with mutant.at_work():
        found = explored(pair, faults)
    assert found.failure is not None, "no schedule shows the error"
    history, _ = found.failure
    watch.report(history, schedules=found.schedules)
