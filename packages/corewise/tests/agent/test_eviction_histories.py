"""Whatever the API server answers: never two pods in one cooldown, never a wrong one; and at last one goes.

A history is any sequence of samples, answers of every kind (also none, to an eviction that was or was not
carried out), budgets and policies that keep a pod, a watch that lags, pods that ignore their deletion, end or
come back under the same name, restarts of the agent, and jumps of the clock.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.offline_node import GIB, batch_container, offline_manifest
from corewise.agent.eviction import EvictionResult, Evictor, evict
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_pods import MarkedPod
from corewise.config.eviction import EvictionSettings
from corewise.kube.client import Client
from corewise.kube.errors import KubeError, TransportError, api_error
from corewise.quantities import ONE
from corewise.suppression.eviction import GONE_WITHIN, REFUSED_FOR, OfflineCandidate
from corewise.suppression.offer import Usage
from tally import step

SETTINGS = EvictionSettings(memory_threshold_percent=80, memory_lower_percent=70, cooldown_seconds=30)
INTERVAL, HOUR = 10, 3600
SHORT, ENOUGH = 95, 50
PRIORITIES = {"low": 5000, "mid": 5500, "high": 5999, "daemon": 1, "critical": 2_000_000_000}
PROTECTED = {"daemon", "critical"}
NAMES = st.sampled_from(sorted(PRIORITIES.keys() - PROTECTED))


def answer(code: int, message: str = "", *, wait: int = 0, cause: str = "") -> KubeError:
    """An error as the API server states it, and as the client raises it."""
    causes = [{"reason": cause, "message": message}] if cause else []
    details = {"causes": causes, "retryAfterSeconds": wait}
    status = {"kind": "Status", "message": message or f"HTTP {code}", "code": code, "details": details}
    return api_error(code, msgspec.json.encode(status))


BUDGET = answer(429, "the budget keep allows none", wait=10, cause="DisruptionBudget")
SEVERAL = answer(
    500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
POLICY = answer(403, "denied by a policy")
ANSWERS: dict[str, tuple[KubeError, EvictionResult]] = {
    "429 of a budget": (BUDGET, EvictionResult.BLOCKED),
    "500 of several budgets": (SEVERAL, EvictionResult.BLOCKED),
    "403": (POLICY, EvictionResult.FAILED),
    "400": (answer(400), EvictionResult.FAILED),
    "422": (answer(422), EvictionResult.FAILED),
    "404": (answer(404), EvictionResult.GONE),
    "409": (answer(409), EvictionResult.GONE),
    "500": (answer(500, "etcdserver: request timed out"), EvictionResult.UNKNOWN),
    "502": (answer(502), EvictionResult.UNKNOWN),
    "503 without a wait": (answer(503), EvictionResult.UNKNOWN),
    "504": (answer(504, "couldn't update PodDisruptionBudget", wait=10), EvictionResult.UNKNOWN),
    "cut off": (TransportError("cut"), EvictionResult.UNKNOWN),
    "429 of overload": (answer(429, wait=1), EvictionResult.UNAVAILABLE),
    "503 with a wait": (answer(503, wait=1), EvictionResult.UNAVAILABLE),
    "no connection": (TransportError("refused", sent=False), EvictionResult.UNAVAILABLE),
    "no credentials": (KubeError("token"), EvictionResult.UNAVAILABLE),
}
AWAY = [each for each, (_, result) in ANSWERS.items() if result is EvictionResult.UNAVAILABLE]
AWAY_ERRORS = [ANSWERS[each][0] for each in AWAY]
LOST = [each for each, (_, result) in ANSWERS.items() if result is EvictionResult.UNKNOWN]


def marked(name: str, uid: str, *, leaves: bool = False) -> MarkedPod:
    body = offline_manifest(name, batch_container("a", limit=1000), priority=PRIORITIES[name])
    body["metadata"] |= {"uid": uid}
    if leaves:
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if name == "daemon":
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
        body["metadata"]["ownerReferences"] = [owner]
    return MarkedPod(msgspec.convert(body, QuotaPod), "batch")


class World:
    """An API server with the pods of a node, and the node's evictor; the client of itself."""

    def __init__(self) -> None:
        self.now, self.wall = 1000.0, 1e9
        self.pods = {name: (f"{name}-0", False) for name in PRIORITIES}
        self.shown: list[MarkedPod] = []
        self.lags = False
        self.answer: tuple[KubeError | None, bool] = None, True
        self.kept: dict[str, KubeError] = {}
        self.answered: set[str] = set()
        self.deleted: list[tuple[float, str]] = []
        self.uids = 1
        self.restart()

    def restart(self) -> None:
        self.evictor = Evictor("n1")
        self.evictor.settings = SETTINGS
        self.answered.clear()
        self.sample(ENOUGH)

    async def evict(self, name: str, _namespace: str, *, uid: str, timeout: float) -> None:  # noqa: ASYNC109 - as the client's
        """Answer as the Eviction API, or as is told."""
        assert name not in PROTECTED
        error, is_done = self.answer
        if error is None or is_done:
            if name not in self.pods or self.pods[name][0] != uid:
                raise answer(404 if name not in self.pods else 409)
            if name in self.kept:
                raise self.kept[name]
            if not self.pods[name][1]:
                self.deleted.append((self.now, name))
            self.pods[name] = uid, True
        if error is not None:
            raise error

    def sample(self, percent: int, seconds: float = INTERVAL) -> None:
        """Take a sample, and act on it as the agent's loop does."""
        self.now, self.wall = self.now + seconds, self.wall + seconds
        if not self.lags:
            self.shown = [marked(name, uid, leaves=leaves) for name, (uid, leaves) in self.pods.items()]
        usage = Usage(0, 0, (), percent * GIB, 0, memory_total=100 * GIB)
        self.evictor.observe(self.now, usage, None, self.shown, ONE)
        while (verdict := self.evictor.due(self.now, self.shown, ONE)) is not None:
            assert verdict.pod is not None
            self.check_order(verdict.pod)
            result, why = asyncio.run(evict(cast("Client", self), verdict.pod))
            self.evictor.record(verdict, result, why, self.now, self.wall)
            if self.answer[0] not in AWAY_ERRORS:
                self.answered.add(verdict.pod.uid)
            if not result.passes_over:
                break

    def check_order(self, going: OfflineCandidate) -> None:
        """Whoever is of lower priority had an answer of its own, or goes already."""
        before = {
            each.pod.uid
            for each in self.shown
            if each.pod.metadata.name not in PROTECTED
            and each.pod.metadata.deletion_timestamp is None
            and each.pod.spec.priority < going.priority
        }
        assert before <= self.answered

    def run(self, operation: str, value: Any) -> None:
        step(FAULTS.get(operation))
        getattr(self, f"on_{operation}")(value)

    def on_sample(self, percent: int) -> None:
        self.sample(percent)

    def on_pause(self, seconds: int) -> None:
        self.sample(SHORT, seconds)

    def on_well(self, _value: None) -> None:
        self.answer, self.kept = (None, True), {}

    def on_away(self, error: str) -> None:
        self.answer = ANSWERS[error][0], False

    def on_lost(self, value: tuple[str, bool]) -> None:
        self.answer = ANSWERS[value[0]][0], value[1]

    def on_keep(self, value: tuple[str, KubeError]) -> None:
        self.kept[value[0]] = value[1]

    def on_lag(self, lags: bool) -> None:
        self.lags = lags

    def on_recreate(self, name: str) -> None:
        self.pods[name] = f"{name}-{self.uids}", False
        self.uids += 1

    def on_end(self, name: str) -> None:
        self.pods.pop(name, None)

    def on_restart(self, _value: None) -> None:
        self.restart()

    def on_clock(self, seconds: int) -> None:
        self.wall += seconds


OPERATIONS = st.one_of(
    *[st.tuples(st.just("sample"), st.sampled_from([SHORT, SHORT, SHORT, ENOUGH]))] * 4,
    st.tuples(st.just("pause"), st.sampled_from([30, 60, 120, HOUR])),
    st.tuples(st.just("well"), st.none()),
    st.tuples(st.just("away"), st.sampled_from(AWAY)),
    st.tuples(st.just("lost"), st.tuples(st.sampled_from(LOST), st.booleans())),
    st.tuples(st.just("keep"), st.tuples(NAMES, st.sampled_from([BUDGET, SEVERAL, POLICY]))),
    st.tuples(st.just("lag"), st.booleans()),
    st.tuples(st.just("recreate"), NAMES),
    st.tuples(st.just("end"), NAMES),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("clock"), st.sampled_from([-HOUR, HOUR])),
)
FAULTS = {
    "away": "API server away",
    "lost": "answer lost",
    "keep": "eviction refused",
    "lag": "watch lags",
    "recreate": "pod recreated",
    "restart": "restart",
    "clock": "clock jumps",
}


@given(operations=st.lists(OPERATIONS, max_size=40))
@settings(deadline=None, max_examples=60)
def test_no_answer_makes_a_wrong_pod_go(operations: list[tuple[str, Any]]) -> None:
    world = World()
    for operation, value in operations:
        world.run(operation, value)
    times = [at for at, _ in world.deleted]
    assert all(after - before >= SETTINGS.cooldown_seconds for before, after in pairwise(times))
    world.on_well(None)
    world.lags = False
    able = [name for name, (_, leaves) in world.pods.items() if name not in PROTECTED and not leaves]
    before = len(world.deleted)
    for _ in range(0, int(GONE_WITHIN + REFUSED_FOR + 2 * SETTINGS.cooldown_seconds), INTERVAL):
        world.sample(SHORT)
    assert not able or len(world.deleted) > before, "no one goes although all is well"


@pytest.mark.parametrize(("error", "result"), ANSWERS.values(), ids=ANSWERS)
def test_every_answer_has_one_result(error: KubeError, result: EvictionResult) -> None:
    world = World()
    world.answer = error, False
    pod = OfflineCandidate("default", "low", "low-0")
    assert asyncio.run(evict(cast("Client", world), pod))[0] is result


@pytest.mark.parametrize("error", AWAY)
def test_after_an_outage_the_lowest_priority_goes(error: str) -> None:
    """An hour without an API server, at any sample of which it may come back."""
    for samples in range(10):
        world = World()
        world.answer = ANSWERS[error][0], False
        world.sample(SHORT, HOUR)
        for _ in range(samples):
            world.sample(SHORT)
        world.answer = None, True
        world.sample(SHORT)
        assert [name for _, name in world.deleted] == ["low"]


@pytest.mark.parametrize("error", [SEVERAL, BUDGET, POLICY], ids=["several", "budget", "policy"])
def test_many_kept_pods_do_not_keep_the_others(error: KubeError) -> None:
    """Even if each time that a pod is passed over has ended by the next sample."""
    world = World()
    world.kept = {"low": error, "mid": error}
    for _ in range(4):
        world.sample(SHORT, REFUSED_FOR + 1)
    assert [name for _, name in world.deleted] == ["high"]


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("error", LOST)
def test_a_lost_answer_begins_the_cooldown(error: str, is_done: bool) -> None:
    """And a pod whose evictions are never answered does not keep the others."""
    world = World()
    world.lags = True
    world.answer = ANSWERS[error][0], is_done
    world.sample(SHORT, SETTINGS.cooldown_seconds)
    asked_at = world.now
    world.answer = None, True
    while world.now < asked_at + SETTINGS.cooldown_seconds:
        assert [name for _, name in world.deleted] == (["low"] if is_done else [])
        world.sample(SHORT)
    assert [name for _, name in world.deleted] == (["low", "mid"] if is_done else ["mid"])


def test_agent_in_a_crash_loop_evicts_no_pod() -> None:
    world = World()
    for _ in range(100):
        world.restart()
        for _ in range(2):
            world.sample(SHORT)
    assert world.deleted == []
