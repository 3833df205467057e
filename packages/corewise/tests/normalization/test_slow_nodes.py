"""Slow nodes are found among their peers, and healthy ones are left alone, whatever the noise.

| noise of a score | node is slower by | found |
|---|---|---|
| 0.5 % | 8 % | with the second score |
| 3 % | 8 % to 30 % | in a fleet of 100 nodes within the 100 days of the test |
| 3 % | 0 % | never in 10,000 node-days, in each of three fleets |
| any | 40 % on one day | never |
| 15 % of a run, 1 run a day | 0 % | never |
| 9.3 % of a run, 1 run a day | 30 % | within 30 days |

The days of a fleet are simulated: scores are those of its model, less what a node lacks, times normal noise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corewise.normalization.evaluation import Evaluation
from corewise.normalization.fleet import ScoredNode
from corewise.normalization.mix import KERNELS
from corewise.normalization.slow_nodes import Peers, ScoreHistory, SlowNodes, deviations, peers_of
from normalization.fleets import FAST, SLOW, report, scored

START = datetime(2026, 11, 1, 3, tzinfo=UTC)
SCORE = 1_000_000


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def node(name: str, score: int, number: int, model: str = FAST, **changes: Any) -> ScoredNode:
    return scored(name, score, model, measured=day(number).isoformat(), **changes)


class Simulation:
    """A fleet whose nodes are measured each day; ``slower``: by how much, and from which day on."""

    def __init__(self, seed: int, *, noise: float, size: int = 100) -> None:
        self.random, self.noise = random.Random(seed), noise  # noqa: S311 - a fleet, no secret
        self.names = [f"n{at}" for at in range(size)]
        self.slower: dict[str, tuple[float, int]] = {}
        self.history, self.verdict = ScoreHistory(), SlowNodes({})
        self.found: dict[str, int] = {}
        """The day on which each node was first called slow."""

    @property
    def marked(self) -> Collection[str]:
        return self.verdict.slow.keys() | self.verdict.unchanged

    def score(self, name: str, number: int) -> int:
        lacks, since = self.slower.get(name, (0.0, 0))
        true = SCORE * (1 - lacks) if number >= since else SCORE
        return round(true * (1 + self.random.gauss(0, self.noise)))

    def run(self, days: range, scores: Mapping[str, Mapping[int, int]] = {}) -> None:
        for number in days:
            nodes = [
                node(name, scores.get(name, {}).get(number, self.score(name, number)), number)
                for name in self.names
            ]
            self.history.take(nodes, day(number))
            self.verdict = self.history.judge(self.marked)
            for name in self.marked:
                self.found.setdefault(name, number)


@pytest.mark.parametrize("seed", range(3))
def test_noisy_fleet_has_no_false_slow_node(seed: int) -> None:
    fleet = Simulation(seed, noise=0.03)
    fleet.run(range(100))
    assert fleet.found == {}


@pytest.mark.parametrize("seed", range(3))
def test_noisy_fleet_names_exactly_its_slow_nodes(seed: int) -> None:
    fleet = Simulation(seed, noise=0.03)
    slow = fleet.random.sample(fleet.names, 2)
    for name in slow:
        fleet.slower[name] = (fleet.random.uniform(0.08, 0.30), fleet.random.randrange(60))
    fleet.run(range(100))
    assert fleet.found.keys() == set(slow) == set(fleet.marked)


def test_precise_scores_tell_with_the_second_one() -> None:
    fleet = Simulation(1, noise=0.005)
    fleet.slower = {"n3": (0.08, 0)}
    fleet.run(range(1))
    assert fleet.found == {}
    fleet.run(range(1, 2))
    assert fleet.found == {"n3": 1}
    slow = fleet.verdict.slow["n3"]
    assert (slow.scores, slow.peers, slow.model) == (2, 99, FAST)
    assert 750 < slow.slower < 850
    assert slow.message.endswith(
        f' slower than the median of 99 other nodes with "{FAST}", over its last 2 scores'
    )


@pytest.mark.parametrize("noise", [0.002, 0.01, 0.03])
def test_one_bad_day_marks_no_node(noise: float) -> None:
    fleet = Simulation(2, noise=noise)
    fleet.run(range(60), {"n5": {30: SCORE * 6 // 10}})
    assert fleet.found == {}


def test_node_four_percent_slower_is_not_marked() -> None:
    fleet = Simulation(3, noise=0.005)
    fleet.slower = {"n5": (0.04, 0)}
    fleet.run(range(60))
    assert fleet.found == {}


@pytest.mark.parametrize(("noise", "most"), [(0.005, 2), (0.03, 15)])
def test_repaired_node_is_no_longer_slow(noise: float, most: int) -> None:
    fleet = Simulation(4, noise=noise)
    fleet.slower = {"n5": (0.15, 0)}
    fleet.run(range(40))
    assert set(fleet.marked) == {"n5"}
    fleet.slower = {}
    fleet.run(range(40, 40 + most))
    assert set(fleet.marked) == set()
    fleet.run(range(40 + most, 80))
    assert set(fleet.marked) == set()


def test_restart_keeps_marks_until_scores_say_otherwise() -> None:
    fleet = Simulation(5, noise=0.005)
    fleet.slower = {"n5": (0.10, 0)}
    fleet.run(range(10))
    fleet.history = ScoreHistory()
    fleet.run(range(10, 11))
    assert set(fleet.marked) == {"n5"}
    fleet.slower = {}
    fleet.run(range(11, 14))
    assert set(fleet.marked) == set()


def test_scores_of_one_day_count_once() -> None:
    history = ScoreHistory()
    for hour in range(10):
        moment = START + timedelta(hours=hour)
        scores = [SCORE] * 40 + [SCORE * 9 // 10]
        history.take(
            [scored(f"n{at}", score, measured=moment.isoformat()) for at, score in enumerate(scores)], moment
        )
        assert not history.judge().slow


def windows(history: ScoreHistory, days: int, since: Callable[[int], str]) -> None:
    """Let 40 nodes and a slow one report a score each day, whose oldest run was at ``since``."""
    for number in range(days):
        scores = {f"n{at}": SCORE for at in range(40)} | {"slow": SCORE * 8 // 10}
        nodes = [
            node(name, score, number, measured_since=since(number), runs=10) for name, score in scores.items()
        ]
        history.take(nodes, day(number))


@pytest.mark.parametrize(("days", "counted"), [(10, 1), (11, 2), (20, 2), (21, 3)])
def test_scores_that_share_runs_count_once(days: int, counted: int) -> None:
    history = ScoreHistory()
    windows(history, days, lambda number: day(number - 9).isoformat())
    found = history.judge().slow
    assert [each.scores for each in found.values()] == [counted] * (counted > 1)


def test_scores_without_their_oldest_run_count_once() -> None:
    history = ScoreHistory()
    windows(history, 30, lambda _number: "")
    assert not history.judge().slow
    assert history.relative_speeds()["slow"] == pytest.approx(0.8)


def measured_rarely(seed: int, *, noise: float, days: int, slower: float = 0) -> Mapping[str, int]:
    """Return when nodes with one run a day were first called slow; 30 nodes, ``slower`` is n0."""
    chance, history = random.Random(seed), ScoreHistory()  # noqa: S311 - a fleet, no secret
    known = {f"n{at}": Evaluation(report(0, time="", measured="", runs=0)) for at in range(30)}
    found: dict[str, int] = {}
    for number in range(days):
        for name, evaluation in known.items():
            speed = (1 - slower * (name == "n0")) * (1 + chance.gauss(0, noise))
            run = dict.fromkeys(KERNELS, round(10_000 * speed))
            known[name] = evaluation.with_run(run, day(number).isoformat())
        reports = [(name, each.report(day(number).isoformat())) for name, each in known.items()]
        history.take([ScoredNode(name, each) for name, each in reports if each.runs >= 5], day(number))
        for name in history.judge().slow:
            found.setdefault(name, number)
    return found


def test_rarely_measured_healthy_nodes_are_not_slow() -> None:
    assert measured_rarely(1, noise=0.15, days=100) == {}


def test_rarely_measured_slow_node_is_found() -> None:
    found = measured_rarely(1, noise=0.093, days=40, slower=0.3)
    assert found.keys() == {"n0"}
    assert found["n0"] <= 30


@pytest.mark.parametrize(("nodes", "compared"), [(4, 0), (5, 5)])
def test_node_needs_four_peers(nodes: int, compared: int) -> None:
    assert len(deviations([node(f"n{at}", SCORE, 0) for at in range(nodes)], day(0))) == compared


@pytest.mark.parametrize(
    "other", [{"cpu_model": SLOW}, {"turbo_enabled": False}, {"mix": 2}, {"python": "3.13"}, {"zlib": "1.2"}]
)
def test_peers_share_model_settings_and_toolchain(other: dict[str, Any]) -> None:
    peers = [node(f"n{at}", SCORE, 0) for at in range(5)]
    apart = [node(f"other{at}", SCORE // 2, 0, **other) for at in range(5)]
    found = deviations([*peers, *apart], day(0))
    assert {each.slower for each in found.values()} == {0}


def test_deviation_is_from_the_median_of_the_others() -> None:
    scores = [900, 1000, 1000, 1010, 1020]
    found = deviations([node(f"n{at}", score, 0) for at, score in enumerate(scores)], day(0))
    assert [each.slower for each in found.values()] == [1044, 49, 49, -100, -200]


def test_peers_have_median_count_and_difference() -> None:
    scores = [900, 1000, 1000, 1010, 1020]
    nodes = [node(f"n{at}", score, 0) for at, score in enumerate(scores)]
    assert peers_of("n0", nodes, day(0)) == Peers(4, 1005, 1044)
    assert peers_of("n4", nodes, day(0)) == Peers(4, 1000, -200)
    assert peers_of("other", nodes, day(0)) is None
    assert peers_of("n0", nodes[:4], day(0)) is None


def test_small_group_waits_for_enough_scores() -> None:
    fleet = Simulation(6, noise=0.005, size=5)
    fleet.slower = {"n0": (0.2, 0)}
    fleet.run(range(40))
    assert set(fleet.found) == {"n0"}
    assert fleet.found["n0"] >= 5


@pytest.mark.parametrize("seed", range(20))
def test_small_noisy_group_has_no_false_slow_node(seed: int) -> None:
    fleet = Simulation(seed, noise=0.03, size=5)
    fleet.run(range(100))
    assert fleet.found == {}


def test_old_score_is_not_judged() -> None:
    nodes = [node(f"n{at}", SCORE, 0) for at in range(5)]
    assert len(deviations(nodes, day(6))) == 5
    assert not deviations(nodes, day(8))


def test_node_whose_clock_was_ahead_is_judged_again() -> None:
    history = ScoreHistory()
    for number in range(10):
        peers = [node(f"n{at}", SCORE, number) for at in range(10)]
        slow = node("slow", SCORE * 9 // 10, number + 1000 * (number == 0))
        history.take([*peers, slow], day(number))
    assert set(history.judge().slow) == {"slow"}


def test_node_that_cannot_be_compared_loses_its_mark() -> None:
    fleet = Simulation(7, noise=0.005)
    fleet.slower = {"n5": (0.10, 0)}
    fleet.run(range(5))
    assert set(fleet.marked) == {"n5"}
    fleet.names = ["n5", "n6"]
    fleet.run(range(5, 6))
    assert set(fleet.marked) == set()


def test_relative_speed_is_that_of_the_last_score() -> None:
    history = ScoreHistory()
    scores = [900, 1000, 1000, 1000, 1000]
    history.take([node(f"n{at}", score, 0) for at, score in enumerate(scores)], day(0))
    assert history.relative_speeds()["n0"] == pytest.approx(0.9)
