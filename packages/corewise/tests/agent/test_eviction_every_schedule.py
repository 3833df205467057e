"""Every place of up to two faults in a shortage of memory: never two pods in one cooldown, and one goes.

The API server, the watch and the promises are those of :mod:`agent.test_eviction_histories`. Samples are
short of memory throughout; each may be struck: the answer to an eviction is lost, after it was carried out or
before; the API server is away; the agent dies before the sample, or between the eviction and its own note of
it; the watch falls behind, for one sample or for all from then on; a pod ends, or another gets its name.

``make test`` tries one fault, ``make explore EXHAUSTIVE=1`` two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Final

import pytest

from agent.test_eviction_histories import ANSWERS, ENOUGH, INTERVAL, PROTECTED, SETTINGS, SHORT, World
from corewise.agent.eviction import Evictor
from corewise.suppression import eviction as decision
from corewise.suppression.eviction import GONE_WITHIN, REFUSED_FOR
from every_case import WHOLE, Stopwatch
from mutants import Mutant
from schedules import Explored, Schedule, explore

FAULTS: Final = 2 if WHOLE else 1
SAMPLES: Final = 9 if WHOLE else 7
ALL_IS_WELL: Final = "a sample"


class Died(BaseException):
    """The agent is gone from one moment to the next."""


class Shortage(World):
    """A node that is short of memory, and its agent."""

    dies = False
    lags_once = False

    async def evict(self, name: str, _namespace: str, *, uid: str, timeout: float) -> None:  # noqa: ASYNC109 - as the client's
        await super().evict(name, _namespace, uid=uid, timeout=timeout)
        if self.dies:
            self.dies = False
            raise Died

    def begin_again(self) -> None:
        """Start another agent, which knows nothing of the one before."""
        self.evictor = Evictor("n1")
        self.evictor.settings = SETTINGS
        self.answered.clear()

    def faults(self) -> dict[str, Callable[[], None]]:
        faults = {
            f"{error}, {'done' if done else 'not done'}": partial(self.on_lost, (error, done))
            for error in ("502", "cut off")
            for done in (True, False)
        }
        faults |= {error: partial(self.on_away, error) for error in ("no connection", "429 of overload")}
        faults |= {
            f"{error} for low": partial(self.on_keep, ("low", ANSWERS[error][0]))
            for error in ("429 of a budget", "403")
        }
        return faults | {
            "the agent dies before": self.begin_again,
            "the agent dies after the eviction": partial(setattr, self, "dies", True),
            "the watch lags for one sample": partial(setattr, self, "lags_once", True),
            "the watch lags": partial(setattr, self, "lags", True),
            "low ends": partial(self.on_end, "low"),
            "another pod gets low's name": partial(self.on_recreate, "low"),
            "there is enough memory": partial(self.sample, ENOUGH),
        }

    def struck_sample(self) -> None:
        lagged, self.lags = self.lags, self.lags or self.lags_once
        try:
            self.sample(SHORT)
        except Died:
            self.begin_again()
        if self.lags_once:
            self.lags, self.lags_once = lagged, False
        self.answer = None, True


def play(schedule: Schedule, faults: int) -> None:
    """Play one schedule."""
    world, left = Shortage(), faults
    for _ in range(SAMPLES):
        options = world.faults() if left else {}
        choice = schedule.choose([ALL_IS_WELL, *options], lambda: tuple(schedule.taken))
        if choice:
            left -= 1
            [*options.values()][choice - 1]()
        world.struck_sample()
        times = [at for at, _ in world.deleted]
        near = [
            after - before for before, after in pairwise(times) if after - before < SETTINGS.cooldown_seconds
        ]
        assert not near, f"two pods went within {near[0]:.0f} s"
    world.on_well(None)
    world.lags = world.dies = False
    able = [name for name, (_, leaves) in world.pods.items() if name not in PROTECTED and not leaves]
    before = len(world.deleted)
    for _ in range(0, int(GONE_WITHIN + REFUSED_FOR + 2 * SETTINGS.cooldown_seconds), INTERVAL):
        world.sample(SHORT)
    assert not able or len(world.deleted) > before, "no one goes although all is well"


def explored(faults: int) -> Explored:
    return explore(lambda schedule: play(schedule, faults))


def test_no_fault_makes_two_pods_go_at_once() -> None:
    watch = Stopwatch(f"eviction, {FAULTS} faults")
    found = explored(FAULTS)
    assert found.failure is None, found.failure
    watch.report(states=found.states, schedules=found.schedules)


MUTANTS: Final = {
    "the cooldown is not kept": Mutant(
        decision, "_obstacle", "if now - state.last_at < settings.cooldown_seconds:", "if False:"
    ),
    "a lost answer begins no cooldown": Mutant(
        Evictor,
        "record",
        "self._state.with_eviction(now).with_refusal(cooled",
        "self._state.with_refusal(now",
    ),
    "a pod that does not go keeps all others for good": Mutant(
        decision, "_obstacle", "or now - state.waiting_since < GONE_WITHIN", "or True"
    ),
    "an agent that starts evicts at once": Mutant(
        Evictor, "observe", "EvictionState(last_at=now)", "EvictionState(last_at=now - 3600)"
    ),
}


NEED_TWO_FAULTS: Final = ("a lost answer begins no cooldown", "an agent that starts evicts at once")


@pytest.mark.parametrize("name", [each for each in MUTANTS if WHOLE or each not in NEED_TWO_FAULTS])
def test_every_error_in_the_eviction_is_found(name: str) -> None:
    watch = Stopwatch(f"mutant of the eviction: {name}")
    with MUTANTS[name].at_work():
        found = explored(1 + (name in NEED_TWO_FAULTS))
    assert found.failure is not None, "no schedule shows the error"
    history, _ = found.failure
    watch.report([each for each in history if each != ALL_IS_WELL], schedules=found.schedules)
