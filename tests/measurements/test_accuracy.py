"""The accuracy of ratios, on made-up runs of made-up CPUs; and a short real run of what is installed here."""

from __future__ import annotations

import math
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from corewise.kernel.machine import read_machine
from corewise.normalization.mix import KERNELS, Done
from corewise.topology import CPUSet
from experiments.accuracy import report
from experiments.accuracy.errors import STEPS, Comparison, by_model, spread, weights_grid
from experiments.accuracy.measuring import (
    TRIES,
    Sampler,
    TooDisturbedError,
    installed,
    machine_of,
    take,
    workers,
)
from experiments.accuracy.programs import PROGRAMS, MissingProgramError, Program
from experiments.accuracy.records import Machine, MeasuredRun, Series, add_run, cpu_numbers, read_runs

STEADY = (1.0, 0.99, 1.01, 1.0, 1.0)
FAST: Mapping[str, float] = dict.fromkeys(KERNELS, 2.0)


def rates(speed: float, repetitions: Sequence[float] = STEADY) -> tuple[int, ...]:
    return tuple(round(1_000_000 * speed * each) for each in repetitions)


def made_up(
    model: str,
    kernels: Mapping[str, float] | float = 1.0,
    programs: Sequence[float] = (1.0,) * 20,
    *,
    version: str = "1",
) -> MeasuredRun:
    """A run on a CPU that does not exist; speeds are relative to one that does not, either."""
    speeds = kernels if isinstance(kernels, Mapping) else dict.fromkeys(KERNELS, kernels)
    return MeasuredRun(
        taken="2000-01-01",
        machine=Machine(model=model, cpus=4),
        python="3.11.0",
        zlib="1",
        seconds=1.0,
        kernels={name: rates(speeds[name]) for name in KERNELS},
        programs={f"p{at}": Series(version, rates(speed)) for at, speed in enumerate(programs)},
    )


def test_program_gaining_as_the_mix_has_no_error() -> None:
    comparison = Comparison([made_up("A"), made_up("B", 2.0, (2.0,) * 20)])
    assert comparison.pairs == [("A", "B")]
    assert comparison.errors.max() == pytest.approx(0.0, abs=1e-9)
    assert comparison.of_all(0.5).value == pytest.approx(0.0, abs=1e-9)


def test_error_is_the_log_of_both_ratios() -> None:
    gains = (1.5, *(2.0,) * 18, 3.0)
    comparison = Comparison([made_up("A"), made_up("B", 2.0, gains)])
    assert comparison.of_program("p0", 0.5).value == pytest.approx(100 * math.log(2.0 / 1.5), rel=1e-5)
    assert comparison.of_program("p19", 0.5).value == pytest.approx(100 * math.log(3.0 / 2.0), rel=1e-5)
    assert comparison.of_all(0.5).value == pytest.approx(0.0, abs=1e-9)
    assert comparison.of_all(0.95).value > 20


def test_interval_holds_the_figure_and_grows_with_spread() -> None:
    steady = Comparison([made_up("A"), made_up("B", 2.0, (2.1,) * 20)]).of_program("p0", 0.5)
    wide = {"p0": Series("1", rates(2.1, (0.8, 0.9, 1.0, 1.1, 1.2)))}
    shaken = made_up("B", 2.0, (2.1,) * 20)
    shaken = msgspec.structs.replace(shaken, programs={**shaken.programs, **wide})
    unsteady = Comparison([made_up("A"), shaken]).of_program("p0", 0.5)
    for figure in (steady, unsteady):
        assert figure.low <= figure.value <= figure.high
    assert unsteady.high - unsteady.low > 3 * (steady.high - steady.low)


def test_same_data_give_the_same_report() -> None:
    runs = [made_up("A"), made_up("B", 2.0, (2.1,) * 20), made_up("C", 1.5, (1.4,) * 20)]
    assert report.accuracy(runs) == report.accuracy(runs)


def test_runs_of_one_model_count_by_their_median() -> None:
    runs = [made_up("A"), *(made_up("B", speed, (2.0,) * 20) for speed in (1.0, 2.0, 9.0))]
    comparison = Comparison(runs)
    assert [len(of) for of in comparison.models.values()] == [1, 3]
    assert comparison.errors.max() == pytest.approx(0.0, abs=1e-9)


def test_programs_of_different_versions_are_not_compared() -> None:
    runs = [made_up("A"), made_up("B", 2.0, (9.0,) * 20, version="2"), made_up("C", 2.0, (2.0,) * 20)]
    comparison = Comparison(runs)
    assert [comparison.compared(name) for name in comparison.programs] == [1] * 20
    assert comparison.of_all(0.95).value == pytest.approx(0.0, abs=1e-9)
    assert comparison.best_weights().p95 == pytest.approx(0.0, abs=1e-9)


def test_best_ratio_bounds_what_any_mix_can_reach() -> None:
    alike = Comparison([made_up("A"), made_up("B", 3.0, (2.0,) * 20)])
    assert alike.of_all(0.5).value > 40
    assert alike.of_best_ratios(0.5) == pytest.approx(0.0, abs=1e-9)
    apart = Comparison([made_up("A"), made_up("B", 2.0, (1.0,) * 10 + (4.0,) * 10)])
    assert apart.of_best_ratios(0.95) == pytest.approx(100 * math.log(2), rel=1e-4)
    assert apart.of_best_ratios(0.95) <= apart.of_all(0.95).value


def test_command_needs_nothing_of_the_lab() -> None:
    code = "import sys, experiments.accuracy.command; print('corewise_lab' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_best_weights_find_the_kernel_that_predicts() -> None:
    """Programs gain what deflate gains; the other kernels gain differently, so that equal weights mislead."""
    runs = []
    for model, speed in (("A", 1.0), ("B", 2.0), ("C", 3.0)):
        others = {name: 1.0 + 0.1 * at * (speed - 1) for at, name in enumerate(KERNELS)}
        runs.append(made_up(model, {**others, "deflate": speed}, (speed,) * 20))
    comparison = Comparison(runs)
    best = comparison.best_weights()
    assert comparison.of_all(0.5).value > 10
    assert best.weights["deflate"] == 1.0
    assert best.p95 == pytest.approx(0.0, abs=1e-6)
    assert best.left_out_p95 == pytest.approx(0.0, abs=1e-6)


def test_leaving_one_out_is_never_better() -> None:
    gains = [1.0 + at / 10 for at in range(20)]
    runs = [made_up("A"), made_up("B", {name: 1 + at for at, name in enumerate(KERNELS)}, gains)]
    best = Comparison(runs).best_weights()
    assert best.left_out_median >= best.median - 1e-9


def test_weights_add_up_and_include_the_mix() -> None:
    grid = weights_grid(len(KERNELS))
    assert grid.sum(axis=1) == pytest.approx(1.0)
    assert len(grid) == math.comb(STEPS + len(KERNELS) - 1, STEPS)
    assert [1 / len(KERNELS)] * len(KERNELS) in grid.round(12).tolist() or any(
        row == pytest.approx([1 / len(KERNELS)] * len(KERNELS)) for row in grid
    )


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([], "at least 2 CPU models, and the data have none"),
        ([made_up("A"), made_up("A")], "the data have those of A alone"),
        ([made_up("A", programs=(1.0,) * 19), made_up("B", programs=(1.0,) * 19)], "the data have 19"),
        ([made_up("A"), made_up("B", version="2")], "the data have 0"),
        ([made_up("A"), msgspec.structs.replace(made_up("B"), mix=0)], "those of A alone"),
    ],
    ids=["no data", "one model", "few programs", "other versions", "another mix"],
)
def test_report_refuses_a_figure_of_too_little(runs: list[MeasuredRun], said: str) -> None:
    text = report.accuracy(runs)
    assert text.startswith("No figure: ")
    assert said in text
    assert "|" not in text


def test_report_names_models_and_judges_the_goal() -> None:
    good = report.accuracy([made_up("A"), made_up("B", 2.0, (2.0,) * 20)])
    assert "20 programs, 1 pair of 2 CPU models: A; B." in good
    assert [
        line.split(" | ")[-1] for line in good.splitlines() if line.startswith(("| median", "| p95"))
    ] == [
        "yes |",
        "yes |",
    ]
    bad = report.accuracy([made_up("A"), made_up("B", 2.0, (3.0,) * 20)])
    assert "| 2 % | no |" in bad
    assert "| 6 % | no |" in bad
    assert bad.count("\n| p") >= 20


def test_report_of_more_pairs_counts_them_by_program() -> None:
    runs = [made_up("A"), made_up("B", 2.0, (2.0,) * 20), made_up("C", 3.0, (3.0,) * 20, version="2")]
    text = report.accuracy(runs)
    assert "3 pairs of 3 CPU models" in text
    assert "| p0 | 1 | 0.0 % (" in text, text


def test_models_that_hide_their_name_are_told_apart() -> None:
    first = Machine(model="Xeon", family=6, number=143, stepping=8, cpus=2)
    second = msgspec.structs.replace(first, number=207)
    threads = msgspec.structs.replace(first, hyper_threading=True, turbo=True)
    runs = [msgspec.structs.replace(made_up("x"), machine=each) for each in (first, second, threads)]
    assert list(by_model(runs)) == [
        "Xeon (family 6, model 143, stepping 8)",
        "Xeon (family 6, model 143, stepping 8), HT, turbo on",
        "Xeon (family 6, model 207, stepping 2)".replace("stepping 2", "stepping 8"),
    ]


CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 207
model name\t: Intel(R) Xeon(R) Processor
stepping\t: 2
microcode\t: 0x1
flags\t\t: fpu hypervisor avx512f

processor\t: 1
cpu family\t: 9
"""


def test_machine_is_read_from_cpuinfo() -> None:
    machine = machine_of(read_machine(), CPUINFO)
    assert (machine.family, machine.number, machine.stepping, machine.microcode) == (6, 207, 2, "0x1")
    assert machine.hypervisor
    assert cpu_numbers("processor\t: 0\nBogoMIPS\t: 50.00\n") == {"processor": "0", "BogoMIPS": "50.00"}


def test_run_is_read_back_as_it_was_added(tmp_path: Path) -> None:
    runs = [made_up("A"), made_up("B", 2.0)]
    for run in runs:
        add_run(tmp_path / "runs.jsonl", run)
    assert read_runs([tmp_path / "runs.jsonl"]) == runs
    (tmp_path / "broken").write_text("{}\n")
    with pytest.raises(SystemExit, match="cannot be read as runs"):
        read_runs([tmp_path / "broken"])


def test_spread_is_of_the_middle_half() -> None:
    assert spread([100] * 20) == 0.0
    assert spread([90, 95, 100, 105, 110]) == pytest.approx(10.0)


class Disturbed:
    """Workers of which every sample for which ``lost`` says so has lost half of its CPU time."""

    def __init__(self, lost: Sequence[bool]) -> None:
        self.lost = list(lost)

    def run(self, _name: str, cpus: CPUSet, duration: int) -> Mapping[int, Done]:
        cpu = duration // 2 if self.lost and self.lost.pop(0) else duration
        return {each: Done(10, duration, cpu) for each in cpus}


def test_disturbed_sample_is_taken_again() -> None:
    sampler = Sampler(Disturbed([True, False]).run, CPUSet.parse("0-1"), 1_000_000)
    assert sampler.sample("deflate") == 10 * 1000 * 1_000_000_000 // 1_000_000
    assert sampler.disturbed == 1


def test_sampler_waits_before_another_try() -> None:
    waits: list[int] = []
    run = Disturbed([True, True, False]).run
    sampler = Sampler(run, CPUSet.parse("0"), 1_000_000, lambda: waits.append(sampler.disturbed))
    assert sampler.sample("deflate")
    assert waits == [1, 2]


def test_busy_machine_ends_the_run_early() -> None:
    sampler = Sampler(Disturbed([True] * 1000).run, CPUSet.parse("0"), 1_000_000)
    with pytest.raises(TooDisturbedError, match="more than half of all samples"):
        take(sampler, ["gather", "copy"], 6, lambda _done: None)


def test_run_with_too_few_samples_gives_no_data() -> None:
    undisturbed_then_not = [False] * 3 + [True] * TRIES * 3
    sampler = Sampler(Disturbed(undisturbed_then_not).run, CPUSet.parse("0"), 1_000_000)
    with pytest.raises(TooDisturbedError, match="too few samples of gather"):
        take(sampler, ["gather"], 6, lambda _done: None)


def test_every_name_is_in_each_repetition() -> None:
    asked: list[str] = []

    def run(name: str, cpus: CPUSet, duration: int) -> Mapping[int, Done]:
        asked.append(name)
        return {each: Done(1, duration, duration) for each in cpus}

    names = [*KERNELS, "zstd", "gcc"]
    found = take(Sampler(run, CPUSet.parse("0"), 1000), names, 3, lambda _done: None)
    assert [len(each) for each in found.values()] == [3] * len(names)
    repetitions = [asked[at : at + len(names)] for at in range(0, len(asked), len(names))]
    assert all(sorted(each) == sorted(names) for each in repetitions)
    assert len({tuple(each) for each in repetitions}) > 1, "in an order of its own"


def test_missing_program_is_skipped_with_a_reason() -> None:
    def missing() -> str:
        raise MissingProgramError("the command cc is not installed")

    def broken() -> str:
        raise OSError("no space")

    sound = PROGRAMS["sorted"]
    programs: dict[str, Program] = {
        "sorted": sound,
        "missing": replace(sound, version=missing),
        "broken": replace(sound, version=broken),
    }
    versions, skipped = installed(programs)
    assert versions == {"sorted": f"CPython {platform.python_version()}"}
    assert skipped == {
        "missing": "the command cc is not installed",
        "broken": "it does not run: no space",
    }


def test_programs_are_many_and_of_many_kinds() -> None:
    assert len(PROGRAMS) >= 30
    assert len({each.kind for each in PROGRAMS.values()}) >= 10
    assert not PROGRAMS.keys() & KERNELS.keys()
    assert not [name for name in PROGRAMS if " " in name], "commands to workers are words"


def test_worker_does_passes_of_kernel_and_program() -> None:
    cpu = CPUSet.of([min(read_machine().host.topology.cpus)])
    with workers(cpu, ["compile"]) as crew:
        for name in ("product", "compile"):
            (done,) = crew.run(name, cpu, 1_000_000).values()
            assert done.passes >= 1
            assert done.elapsed >= 1_000_000
