"""Scores and ratios are exact; measurements that mean nothing are refused; workers end by themselves."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.agent.calibration import (
    MeasurementPlan,
    Unmeasurable,
    WorkerError,
    check_idle,
    check_memory,
    crew,
    measure,
    situations,
)
from corewise.agent.calibration_worker import READY, Command, serve
from corewise.config.configuration import parse_normalization
from corewise.config.node_configs import RatioField
from corewise.kernel.machine import read_machine
from corewise.normalization.calibration import (
    Calibration,
    IncomparableError,
    Score,
    decoded,
    geometric_mean,
    rate,
    ratio_model,
    scored,
)
from corewise.normalization.mix import KERNELS, Done
from corewise.quantities import ONE, Ratio
from corewise.topology import CPUSet
from kernel import machine_trees

MILLI = 1_000_000


def result(
    model: str, score: int, *, threads: bool = True, turbo: bool = True, cpus: int = 8, python: str = "3.13.1"
) -> Calibration:
    of_all = Score(cpus, score, score, score, score, 10)
    return Calibration(
        cpu_model=model,
        hyper_thread_enabled=threads,
        turbo_enabled=turbo,
        online_cpus=8,
        single_thread=Score(1, score * 2, score, score, score, 10),
        all_cpus=of_all,
        repeats=5,
        python=python,
        zlib="1.3",
    )


def ratios(*results: Calibration) -> dict[str, dict[str, str]]:
    found = ratio_model(results).ratios
    return {model: {field.value: str(ratio) for field, ratio in of.items()} for model, of in found.items()}


def test_the_slowest_is_one_and_the_others_are_exact_hundredths() -> None:
    assert ratios(result("A", 100), result("B", 125), result("C", 333)) == {
        "A": {"hyperThreadTurboEnabledRatio": "1.00"},
        "B": {"hyperThreadTurboEnabledRatio": "1.25"},
        "C": {"hyperThreadTurboEnabledRatio": "3.33"},
    }


def test_halves_of_a_hundredth_go_to_the_even_one() -> None:
    found = ratios(result("A", 1000), result("B", 1005), result("C", 1015))
    assert [list(of.values()) for of in found.values()] == [["1.00"], ["1.00"], ["1.02"]]


def test_settings_of_one_model_come_together_and_unmeasured_ones_are_not_guessed() -> None:
    found = ratios(
        result("A", 100, threads=True, turbo=False),
        result("A", 160, threads=False, turbo=False),
        result("A", 180, threads=False, turbo=True),
    )
    assert found == {
        "A": {"baseRatio": "1.60", "hyperThreadEnabledRatio": "1.00", "turboEnabledRatio": "1.80"}
    }


def test_of_conflicting_results_the_median_counts_and_a_warning_tells() -> None:
    model = ratio_model([result("A", 100), result("B", 200), result("B", 240), result("B", 210)])
    assert str(model.ratios["B"][RatioField.HYPER_THREADING_TURBO]) == "2.10"
    assert model.warnings == (
        '3 results of "B" (hyperThreadTurboEnabledRatio) give from 2.00 to 2.40: the median counts',
    )
    agreeing = ratio_model([result("A", 10_000), result("B", 20_000), result("B", 20_001)])
    assert agreeing.warnings == ()


def test_an_even_number_of_results_counts_with_its_exact_middle() -> None:
    assert ratios(result("A", 100), result("B", 200), result("B", 205))["B"] == {
        "hyperThreadTurboEnabledRatio": "2.02"
    }


def test_what_makes_results_less_comparable_is_told() -> None:
    warnings = ratio_model([result("A", 100, python="3.11.7"), result("B", 100, cpus=4)]).warnings
    assert warnings[0].startswith("measured with several versions of Python (3.11.7, 3.13.1)")
    assert '"B": only 4 of 8 CPUs were measured' in warnings[1]
    assert "says nothing about other models" in ratio_model([result("A", 100)]).warnings[0]


REFUSED = {
    "no result": [],
    "above 5.00": [result("A", 100), result("B", 501)],
    "names no CPU model": [result("unknown", 100)],
    "has no score": [result("A", 0)],
    "cannot be compared": [result("A", 100), msgspec.structs.replace(result("B", 100), mix=2)],
}


@pytest.mark.parametrize("why", REFUSED)
def test_results_that_give_no_ratios_are_refused(why: str) -> None:
    with pytest.raises(IncomparableError, match=why):
        ratio_model(REFUSED[why])


RESULTS = st.lists(
    st.builds(
        result,
        st.sampled_from(['A "quoted" CPU', "B", "C"]),
        st.integers(10_000, 50_000),
        threads=st.booleans(),
        turbo=st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@given(RESULTS)
def test_every_model_is_configuration_without_problems_and_has_a_one(results: list[Calibration]) -> None:
    model = ratio_model(results)
    parsed = parse_normalization(model.json())
    assert parsed.value is not None
    assert parsed.problems == ()
    assert parsed.value.cluster.ratio_model == model.ratios
    every = [ratio for of in model.ratios.values() for ratio in of.values()]
    assert min(every) == ONE
    assert all(f": {ratio}" in model.json() for ratio in every)


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=6))
def test_the_geometric_mean_is_exact(numbers: list[int]) -> None:
    mean, product = geometric_mean(numbers), 1
    for number in numbers:
        product *= number
    assert mean ** len(numbers) <= product < (mean + 1) ** len(numbers)


def test_a_rate_is_passes_in_a_thousand_seconds_and_the_mean_of_all_workers() -> None:
    assert rate([Done(10, 10**9, 10**9)]) == 10_000
    assert rate([Done(10, 10**9, 0), Done(20, 10**9, 0)]) == 15_000


def test_a_score_is_the_median_run_and_one_bad_run_of_five_is_no_matter() -> None:
    runs = [dict.fromkeys(KERNELS, each) for each in (1000, 1010, 1020, 1030, 5)]
    score = scored(4, runs)
    assert (score.cpus, score.score, score.integer) == (4, 1010, 1010)
    assert score.spread == 20 * 10_000 // 1010


def test_a_result_survives_its_line_of_json() -> None:
    one = result("A", 100)
    line = msgspec.json.encode(one)
    assert b"\n" not in line
    assert decoded(line) == [one]
    assert decoded(line + b"\n\n" + line + b"\n") == [one, one]
    assert decoded(msgspec.json.format(line, indent=2)) == [one]


BAD = [b"", b"{}", b"[]", b"\xff", b'{"format":"corewise.io/calibration/v2"}', b"{}\n{}\n"]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_result_is_an_error(text: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
        decoded(text)


class FakeRun:
    """Workers that get a part of their CPU's time in each repeat, at speeds of the caller's making."""

    def __init__(
        self, *, cpu_shares: tuple[Fraction, ...] = (Fraction(1),), speeds: tuple[int, ...] = (100,)
    ) -> None:
        self.calls: list[tuple[str, str]] = []
        self._shares = cpu_shares
        self._speeds = speeds

    def __call__(self, kernel: str, cpus: CPUSet, duration: int) -> Mapping[int, Done]:
        speed = self._speeds[len(self.calls) // len(KERNELS) % len(self._speeds)]
        share = self._shares[min(len(self.calls) // len(KERNELS) // 3, len(self._shares) - 1)]
        self.calls.append((kernel, str(cpus)))
        return {cpu: Done(speed, duration, int(duration * share)) for cpu in cpus}


def measured(root: Path, run: FakeRun, repeats: int = 3) -> Calibration:
    machine = read_machine(root)
    return measure(machine, machine.host.topology, run, MeasurementPlan(repeats, 200 * MILLI), lambda _: None)


def test_one_cpu_all_cpus_and_the_threads_of_a_core_are_measured(tmp_path: Path) -> None:
    run = FakeRun()
    found = measured(machine_trees.intel(tmp_path).root, run)
    assert {cpus for _, cpus in run.calls} == {"7", "0-15", "7,15"}
    assert len(run.calls) == 3 * 3 * len(KERNELS)
    assert (found.single_thread.cpus, found.all_cpus.cpus) == (1, 16)
    assert found.core_threads is not None
    assert found.core_threads.cpus == 2
    assert found.all_cpus.score == 500_000
    assert (found.hyper_thread_enabled, found.turbo_enabled, found.cores_alike) == (True, True, True)


def test_without_threads_that_share_a_core_there_is_nothing_to_say_about_them(tmp_path: Path) -> None:
    found = measured(machine_trees.big_little(tmp_path).root, FakeRun())
    assert found.core_threads is None
    assert not found.cores_alike
    assert set(situations(read_machine(tmp_path).host.topology)) == {"single", "all"}


def test_time_that_others_take_while_measuring_is_refused(tmp_path: Path) -> None:
    root = machine_trees.intel(tmp_path).root
    with pytest.raises(Unmeasurable, match=r"did not get 10\.0 % of their CPUs' time"):
        measured(root, FakeRun(cpu_shares=(Fraction(9, 10),)))
    assert measured(root, FakeRun(cpu_shares=(Fraction(98, 100),)))


def test_repeats_that_differ_too_much_are_refused(tmp_path: Path) -> None:
    root = machine_trees.intel(tmp_path).root
    with pytest.raises(Unmeasurable, match=r"the repeats differ by .* % with"):
        measured(root, FakeRun(speeds=(100, 150)))


def test_a_repeat_in_which_time_was_lost_is_done_again(tmp_path: Path) -> None:
    root = machine_trees.intel(tmp_path).root
    run = FakeRun(cpu_shares=(Fraction(1), Fraction(1, 2), Fraction(1)))
    found = measured(root, run)
    assert found.repeats == 3
    assert len(run.calls) == 4 * 3 * len(KERNELS)


def test_repeats_that_differ_are_followed_by_more_until_most_agree(tmp_path: Path) -> None:
    root = machine_trees.intel(tmp_path).root
    found = measured(root, FakeRun(speeds=(100,) * 3 + (150,) * 3 + (100,) * 30))
    assert found.repeats > 3
    assert found.all_cpus.score == 500_000


def test_a_busy_machine_and_too_little_memory_are_refused() -> None:
    check_idle(500)
    with pytest.raises(Unmeasurable, match=r"other work took 37\.5 %"):
        check_idle(3750)
    check_memory(None, 8)
    with pytest.raises(Unmeasurable, match="960 MiB of memory, 100 MiB are available"):
        check_memory(100 * 2**20, 8)


def test_a_worker_does_as_told_and_says_what_it_did() -> None:
    answers = io.StringIO()
    count = iter(range(10**9))
    serve([f"{Command('fsum', 0, MILLI)}\n"], answers, {"fsum": lambda: next(count)})
    ready, line = answers.getvalue().splitlines()
    done = Done.parse(line)
    assert ready == READY
    assert done.passes > 0
    assert done.elapsed >= MILLI


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_does_work_in_one_call_that_can_be_repeated(name: str) -> None:
    one_pass = KERNELS[name].prepare()
    assert one_pass() == one_pass()


needs_affinity = pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins processes")


@needs_affinity
def test_workers_run_pinned_at_the_same_time_and_end_with_the_crew() -> None:
    cpus = CPUSet.of(sorted(os.sched_getaffinity(0))[:2])
    with crew(cpus) as workers:
        pids = [worker.pid for worker in workers._workers.values()]
        assert [os.sched_getaffinity(pid) for pid in pids] == [{cpu} for cpu in cpus]
        done = workers.run("fsum", cpus, 20 * MILLI)
    assert set(done) == set(cpus)
    assert all(each.passes > 0 and each.elapsed >= 20 * MILLI for each in done.values())
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@needs_affinity
def test_a_cpu_that_cannot_be_pinned_to_is_an_error_that_names_it() -> None:
    with pytest.raises(WorkerError, match="CPU 60000"), crew(CPUSet.of([60000])):
        pass


@needs_affinity
def test_a_worker_that_is_killed_is_an_error_that_names_its_cpu() -> None:
    cpu = min(os.sched_getaffinity(0))
    with crew(CPUSet.of([cpu])) as workers:
        worker = workers._workers[cpu]
        worker.kill()
        worker.wait()
        with pytest.raises(WorkerError, match=f"CPU {cpu}"):
            workers.run("fsum", CPUSet.of([cpu]), MILLI)


def test_the_json_of_a_model_is_plain() -> None:
    text = ratio_model([result("A", 100), result("B", 120)]).json()
    assert json.loads(text)["ratioModel"]["B"] == {"hyperThreadTurboEnabledRatio": 1.2}
    assert str(Ratio(120)) in text
