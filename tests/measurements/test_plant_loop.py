"""The agent's own code in a closed loop with the plant: it comes to rest, and online work does not pay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from corewise.config.colocation import SuppressionSettings
from corewise.quantities import Share
from corewise_lab.load import Load
from experiments.suppression_proof.closed_loop import (
    COURSES,
    OPTION_1,
    OPTION_2,
    RAMP,
    SQUARE,
    STEP,
    Bench,
    Course,
    Figures,
    Sample,
    Series,
    figures,
    run_loop,
)
from experiments.suppression_proof.holders import Begin, counting_offline, nobody, suppressed

RATIO = 0.60
OPTIONS = {"option 1": OPTION_1, "option 2": OPTION_2}
HYPER_THREADS = Bench(model="AMD EPYC 9654 96-Core Processor", hyper_threading=True)
QUIET = Course("quiet", "a steady 30 %", Load(0.3, 0.3), (400.0,), 700.0)


class Loops:
    """Runs of this module, each made once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._series: dict[tuple[Course, str], Series] = {}

    def series(self, course: Course, option: str) -> Series:
        key = course, option
        if key not in self._series:
            folder = self._folder / f"{course.name} {option}"
            self._series[key] = run_loop(folder, course, suppressed(OPTIONS[option]))
        return self._series[key]

    def figures(self, course: Course, option: str) -> Figures:
        return figures(self.series(course, option))


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Loops:
    return Loops(tmp_path_factory.mktemp("loops"))


def last(run: Series) -> Sample:
    return run.samples[-1]


def idle_share(run: Series) -> float:
    """Return the share of CPU that offline pods got, of the CPU that online pods left, in the end."""
    end = last(run)
    return end.offline / (run.cpus - end.online_wanted)


def test_quota_reaches_its_target_within_steps_and_stays(
    loops: Loops,
) -> None:
    for phase in loops.figures(STEP, "option 1").phases:
        assert phase.settled_in_time
        assert phase.expected == 3, "a change of 4.8 CPUs in steps of 1.6"
        assert phase.reversals == 0
        assert phase.swing <= 0.01 * loops.series(STEP, "option 1").cpus * 1000


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.name)
def test_online_work_keeps_95_percent_of_its_throughput(loops: Loops, course: Course, option: str) -> None:
    assert loops.figures(course, option).online_slowdown < 0.05


@pytest.mark.parametrize("course", [STEP, SQUARE], ids=lambda course: course.name)
def test_quota_follows_each_jump_in_time_without_reversing(loops: Loops, course: Course) -> None:
    found = loops.figures(course, "option 1")
    assert len(found.phases) == len(course.jumps)
    for phase in found.phases:
        assert phase.settled_in_time
        assert phase.reversals == 0
        assert phase.overshoot <= 20, "milli-CPU"


def test_quota_stays_within_a_step_along_a_ramp(loops: Loops) -> None:
    run = loops.series(RAMP, "option 1")
    assert all(sample.quota is not None for sample in run.samples)
    assert all(abs((sample.quota or 0) - sample.target) <= run.step for sample in run.samples)
    assert loops.figures(RAMP, "option 1").phases[0].reversals == 0


def test_offline_pods_get_the_ratio_of_online_leftovers(loops: Loops) -> None:
    assert idle_share(loops.series(STEP, "option 1")) == pytest.approx(RATIO, abs=0.01)
    assert idle_share(loops.series(RAMP, "option 1")) == pytest.approx(RATIO, abs=0.01)


@pytest.mark.parametrize("course", [STEP, SQUARE], ids=lambda course: course.name)
def test_pod_quotas_come_to_rest_after_each_jump(loops: Loops, course: Course) -> None:
    for phase in loops.figures(course, "option 2").phases:
        assert phase.settling is not None
        assert phase.settling <= 60, "seconds, six looks"
        assert (phase.reversals, phase.swing) == (0, 0)


def test_lowerable_pod_quotas_keep_node_between_its_thresholds(
    loops: Loops,
) -> None:
    run = loops.series(STEP, "option 2")
    for sample in run.samples[-20:]:
        utilization = (sample.online_wanted + sample.offline) / run.cpus
        assert 0.4 - 0.02 <= utilization <= 0.8 + 0.02


def test_under_a_steady_load_the_quota_stands_still(tmp_path: Path) -> None:
    run = run_loop(tmp_path, QUIET, suppressed(OPTION_1))
    quotas = [sample.quota or 0 for sample in run.samples[-10:]]
    assert max(quotas) - min(quotas) <= 5, "milli-CPU: the last bit of a counter"


@pytest.mark.parametrize(("step", "adjustments"), [(Share(500), 6), (Share(2500), 2), (Share(10_000), 1)])
def test_any_step_settles_in_time(tmp_path: Path, step: Share, adjustments: int) -> None:
    run = run_loop(tmp_path, STEP, suppressed(SuppressionSettings(adjust_step=step)))
    own = replace(run, step=step.of(run.cpus * 1000))
    for phase in figures(own).phases:
        assert phase.settled_in_time
        assert phase.expected <= adjustments
        assert phase.reversals == 0


def test_unrestrained_offline_pods_get_all_that_is_left(tmp_path: Path) -> None:
    run = run_loop(tmp_path, STEP, nobody)
    assert idle_share(run) == pytest.approx(1.0)
    assert figures(run).writes == 0


@pytest.mark.parametrize("gently", [True, False])
def test_counting_offline_as_used_gives_37_percent_idle(tmp_path: Path, *, gently: bool) -> None:
    run = run_loop(tmp_path, STEP, counting_offline(gently=gently))
    assert idle_share(run) == pytest.approx(RATIO / (1 + RATIO), abs=0.01)


def test_such_a_formula_without_smoothing_and_steps_swings(tmp_path: Path) -> None:
    phases = figures(run_loop(tmp_path, STEP, counting_offline(gently=False))).phases
    assert all(phase.reversals >= 3 for phase in phases)
    assert all(phase.overshoot > 1000 for phase in phases)


def test_formula_on_hyper_threads_never_settles_unlike_agent(tmp_path: Path) -> None:
    begins = {"formula": counting_offline(gently=False), "agent": suppressed(OPTION_1)}
    runs = {
        name: run_loop(tmp_path / name, STEP, begin, bench=HYPER_THREADS) for name, begin in begins.items()
    }
    busy = {name: figures(run).phases[0] for name, run in runs.items()}
    assert busy["formula"].reversals > 10
    assert busy["formula"].swing > 500, "milli-CPU, in the last third"
    assert (busy["agent"].reversals, busy["agent"].settled_in_time) == (0, True)
    assert busy["agent"].swing < 50


@pytest.mark.parametrize("option", OPTIONS)
def test_loop_settles_on_hyper_threads_despite_offline_slowdown(tmp_path: Path, option: str) -> None:
    run = run_loop(tmp_path, STEP, suppressed(OPTIONS[option]), bench=HYPER_THREADS)
    found = figures(run)
    assert found.online_slowdown < 0.05
    for phase in found.phases:
        assert phase.settling is not None
        assert phase.reversals == 0


def test_the_same_course_gives_the_same_series(tmp_path: Path, loops: Loops) -> None:
    again: Begin = suppressed(OPTION_1)
    assert run_loop(tmp_path, SQUARE, again) == loops.series(SQUARE, "option 1")


def test_course_that_is_all_warm_up_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"quiet takes 100 s, all of them warm-up"):
        run_loop(tmp_path, replace(QUIET, seconds=100.0), nobody)
