"""Figures of a closed loop, for series whose figures can be told by looking at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from experiments.suppression_proof.closed_loop import Phase, Sample, Series, figures

QUIET = Sample(
    at=0.0,
    quota=8000,
    target=8000,
    online_wanted=2.0,
    work=200.0,
    work_alone=200.0,
    offline=8.0,
    offline_wanted=10.0,
)


def series(quotas: Sequence[int | None], target: int = 5000, **changed: float) -> Series:
    """Ten CPUs, steps of one: a second at rest, then a jump, then a tick a second with these quotas."""
    after = [
        replace(QUIET, at=2.0 + index, quota=quota, target=target, **changed)
        for index, quota in enumerate(quotas)
    ]
    return Series(cpus=10, step=1000, jumps=(1.0,), samples=(QUIET, replace(QUIET, at=1.0), *after))


@pytest.mark.parametrize(
    ("quotas", "phase"),
    [
        pytest.param([7000, 6000, 5000, 5000], Phase(2.0, 2, 3, 0, 0, 0), id="step by step onto the target"),
        pytest.param([5000] * 4, Phase(1.0, 1, 3, 0, 0, 0), id="at once"),
        pytest.param([4000, 3000, 5000, 5000], Phase(3.0, 3, 3, 2000, 1, 0), id="beyond it and back"),
        pytest.param([7000, 7000, 6000, 5000], Phase(3.0, 2, 3, 0, 0, 1000), id="late"),
        pytest.param([8000] * 4, Phase(None, 0, 3, 0, 0, 0), id="never"),
        pytest.param(
            [5000, 5000, 5000, 9000], Phase(None, 2, 3, 0, 1, 4000), id="there, and away again at the end"
        ),
        pytest.param([3000, 7000] * 3, Phase(None, 6, 3, 2000, 5, 4000), id="around it forever"),
    ],
)
def test_phase_reports_when_quota_settled_and_whether_stably(quotas: list[int | None], phase: Phase) -> None:
    assert figures(series(quotas)).phases == (phase,)


def test_settling_in_time_allows_one_adjustment_per_step() -> None:
    phases = [
        figures(series(quotas)).phases[0]
        for quotas in ([7000, 6000, 5000], [7500, 7000, 6500, 6400, 6000, 5000], [8000] * 3)
    ]
    assert [phase.settled_in_time for phase in phases] == [True, False, False]


def test_reversals_of_the_load_are_not_the_quotas() -> None:
    assert figures(series([5000, 5150, 4980, 5100])).phases[0].reversals == 0


def test_no_bound_counts_as_the_whole_machine() -> None:
    done = figures(series([None, None], target=8000))
    assert (done.phases[0].swing, done.farthest, done.writes) == (0, 2000, 1)


def test_offline_loss_separates_unmet_demand_from_late_quota() -> None:
    done = figures(series([5000, 5000, 5000], target=6000, offline=5.0, online_wanted=2.0))
    assert done.offline_got == pytest.approx(8.0 + 3 * 5.0)
    assert done.offline_lost == pytest.approx(3 * 3.0)
    assert done.offline_late == pytest.approx(2 * 1.0)
    assert done.idle_used == pytest.approx(23 / 32)


def test_what_offline_did_not_want_is_not_lost() -> None:
    done = figures(series([5000, 5000], target=6000, offline=1.0, offline_wanted=1.0))
    assert (done.offline_lost, done.offline_late) == (0.0, 0.0)


def test_online_slowdown_is_work_lost_versus_running_alone() -> None:
    done = figures(series([5000, 5000], work=180.0))
    assert done.online_slowdown == pytest.approx(1 - (200 + 2 * 180) / 600)


def test_writes_are_counted_over_the_whole_series() -> None:
    assert figures(series([7000, 7000, 6000, None])).writes == 3


def test_jump_without_samples_on_both_sides_is_refused() -> None:
    with pytest.raises(ValueError, match="no sample"):
        figures(replace(series([5000]), jumps=(1.0, 7.0)))
