"""Curves of load: what processes follow is what figures are worked out from."""

from __future__ import annotations

import pytest

from real_load import spinner
from real_load.scenarios import SCENARIOS, WARM_UP, Scenario

each = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


@each
def test_processes_follow_the_curve_that_the_scenario_states(scenario: Scenario) -> None:
    text = ",".join(f"{at:g}:{load:g}" for at, load in scenario.curve)
    curve = spinner.points(text)
    for tenth in range(1, scenario.seconds * 10, 2):
        seconds = tenth / 10 + 0.05
        assert spinner.load_at(curve, seconds) == pytest.approx(scenario.load_at(seconds))


@each
def test_phases_begin_at_each_jump_and_after_warmup(scenario: Scenario) -> None:
    corners = [at for at, _ in scenario.curve]
    twice = {at for at in corners if corners.count(at) > 1}
    assert set(scenario.jumps) == twice or not twice
    assert min(scenario.jumps) > WARM_UP
    assert max(scenario.jumps) < scenario.seconds


@each
def test_mean_of_a_second_matches_its_curve(scenario: Scenario) -> None:
    for second in range(scenario.seconds):
        parts = [scenario.load_at(second + (part + 0.5) / 100) for part in range(100)]
        assert scenario.mean(second, second + 1) == pytest.approx(sum(parts) / 100)


def test_process_holds_first_and_last_loads_of_curve() -> None:
    curve = spinner.points("2:0.5,4:1")
    assert [spinner.load_at(curve, at) for at in (0, 2, 3, 4, 9)] == [0.5, 0.5, 0.75, 1.0, 1.0]
