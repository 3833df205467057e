"""The instrument that measures what offline work costs online services: its figures, and short trials."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from corewise.kernel.cgroups.layout import Version
from experiments.latency import command, pictures, wave
from experiments.latency.arms import AGAIN, ALONE, ARMS
from experiments.latency.figures import counts_of, mean, quantile, ratio, stacked
from experiments.latency.programs import arrivals, build, calibrate, square_wave
from experiments.latency.tables import relative
from experiments.latency.trace import waits_of
from experiments.latency.trials import Bench, Case, Header, Trial, before_all_others, run
from kernel.cgroup_writes import layout_here
from real_load.runs import cpus_here
from tools.bench.table import machine

CASE = Case(size=1.0, load=0.2, antagonist="spin")


def test_quantiles_of_counts_are_half_a_percent_off() -> None:
    latencies = np.random.default_rng(1).exponential(3.0, 20_000)
    counts = stacked([counts_of(latencies)])
    for part in (0.5, 0.99, 0.999):
        exact = np.sort(latencies)[int(np.ceil(part * len(latencies))) - 1]
        assert quantile(counts, part)[0] == pytest.approx(exact, rel=0.0051)


def test_arms_of_one_distribution_do_not_differ() -> None:
    rng = np.random.default_rng(2)
    one, other = (stacked([counts_of(rng.exponential(1.0, 2000)) for _ in range(20)]) for _ in range(2))
    found = ratio(one, other, 0.99)
    assert found.low < 1 < found.high
    assert found.high - found.low < 0.2


def test_an_arm_twice_as_slow_shows_as_two() -> None:
    latencies = np.random.default_rng(3).exponential(1.0, 5000)
    one, twice = (stacked([counts_of(latencies * factor)] * 5) for factor in (1, 2))
    assert ratio(twice, one, 0.99).value == pytest.approx(2, rel=0.011)


def test_an_interval_of_one_repetition_is_the_figure() -> None:
    found = mean([0.5])
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_arrivals_are_the_same_for_a_seed() -> None:
    due = arrivals(7, 10.0, 500.0)
    assert (due == arrivals(7, 10.0, 500.0)).all()
    assert len(due) == pytest.approx(5000, rel=0.05)
    assert (np.diff(due.astype(np.int64)) >= 0).all()
    assert due[-1] == 10e9


def test_a_wave_has_both_rates_by_turns() -> None:
    due = square_wave(7, 16.3, (200.0, 700.0), turn=4.0, begins=0.3) / 1e9
    found = [((due >= begin) & (due < begin + 4)).sum() / 4 for begin in (0.3, 4.3, 8.3, 12.3)]
    assert found == pytest.approx([200, 700, 200, 700], rel=0.1)
    assert (due < 0.3).sum() == pytest.approx(60, rel=0.4)
    assert due[-1] == 16.3


def test_picture_of_a_wave_shows_median_and_jumps() -> None:
    runs = [wave.Run(ALONE, each, [0.1 * each, 3.0], [900, 900], 0.0, 0.0) for each in (1, 2, 9)]
    text = pictures.of_wave(wave.Wave("a machine", 0.1, (0.2, 0.7), 0.5, 0.5, runs))
    assert "windows of 0.5 s; the load jumps between 20% and 70%" in text
    assert text.count('class="jump"') == 1
    assert '<polyline points="56.0,236.0 864.0,76.2" class="idle"/>' in text, (
        "0.2 ms is the median and the bottom"
    )


TRACE = """\
   antagonist-31 [000] d..2. 10.000100: sched_switch: prev_comm=x prev_pid=9 prev_prio=120 prev_state=S ==> \
next_comm=antagonist next_pid=31 next_prio=120
       <idle>-0  [001] d..2. 10.000200: sched_switch: prev_comm=y prev_pid=8 prev_prio=120 prev_state=S ==> \
next_comm=swapper/1 next_pid=0 next_prio=120
      service-50 [001] dN.4. 10.001000: sched_wakeup: comm=service pid=40 prio=120 target_cpu=000
   antagonist-31 [000] d..2. 10.003500: sched_switch: prev_comm=a prev_pid=31 prev_prio=120 prev_state=R ==> \
next_comm=service next_pid=40 next_prio=120
      service-50 [001] dN.4. 10.004000: sched_wakeup: comm=service pid=50 prio=89 target_cpu=001
"""


def test_causes_of_waits_are_found_in_a_trace() -> None:
    waits = waits_of(TRACE.splitlines())
    assert dict(waits.by_cause) == {("offline", "idle"): [pytest.approx(2.5)]}
    assert "| offline | idle | 100.0% | 2.500 | 2.500 | 1 |" in waits.table(longer_than=1.0)


def _trial(arm: str, p99: float, repetition: int) -> Trial:
    latencies = counts_of(np.full(100, p99))
    return Trial(CASE, arm, repetition, 2.0, 2, latencies, 0.5, 0.01, 1.2, 10, 0.0, 0.0, 2400.0)


def test_each_arm_is_compared_with_its_own_pairs() -> None:
    trials = [_trial(ALONE, 2.0, 0), _trial(ALONE, 4.0, 1), _trial(AGAIN, 2.0, 0), _trial("idle", 4.0, 1)]
    rows = {line.split(" | ")[3]: line.split(" | ")[4:] for line in relative(trials).splitlines()[2:]}
    assert rows["idle"][0] == "1"
    assert rows["idle"][3] == rows[AGAIN][3] == "1.00 (1.00-1.00)"
    assert rows["idle"][5] == "80% |"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    layout = layout_here(Version.V1, Version.V2)
    if layout is None:
        pytest.skip("needs root and a writable cgroup hierarchy with cpu and memory")
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    programs = build(tmp_path_factory.mktemp("programs"))
    round_ns = {"compute": calibrate(programs, "compute")}
    with before_all_others(layout):
        yield Bench(layout, cpus_here(), programs, round_ns, request_ms={CASE.size: CASE.size})


@pytest.mark.parametrize("arm", [ALONE, "evaluation", "idle", "option 1", "idle pods, long slice"])
def test_every_request_is_served_and_nothing_left(bench: Bench, arm: str) -> None:
    trial = run(bench, CASE, arm, 0, 0.3)
    due = arrivals(1_000_000_000 + 200_000, 0.7, CASE.load * len(bench.cpus) * 1000)
    assert sum(trial.latencies.values()) == ((due >= 0.3e9) & (due < 0.6e9)).sum()
    # a request is a number of rounds, and clocks may run faster than when rounds were timed
    assert quantile(stacked([trial.latencies]), 0.5)[0] >= CASE.size * 0.8
    assert (trial.offline > 0, trial.done > 0) == (ARMS[arm].offline, ARMS[arm].offline)
    assert not [*bench.layout.cpu.glob(f"corewise-load-{os.getpid()}-*")]


def test_a_short_wave_counts_requests_by_window(bench: Bench) -> None:
    found = wave.run(replace(bench, request_ms={wave.SIZE: wave.SIZE}), "weights", 0, 2 * wave.WINDOW)
    assert len(found.p99) == len(found.requests) == 2
    assert min(found.p99) >= wave.SIZE * 0.99
    assert found.offline > 0


def test_trials_without_offline_work_are_refused(bench: Bench) -> None:
    with pytest.raises(SystemExit, match="offline work ended before the trial"):
        run(bench, Case(size=1.0, load=0.2, antagonist="unknown"), "idle", 0, 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table", "missing"], "cannot be read as a file of trials"),
        (["run", "missing/new"], "there is no such folder"),
        (["wave", "missing/new"], "there is no such folder"),
        (["pictures", "trials", "wave", "--out", "missing"], "there is no such folder"),
        (["pictures", "trials", "wave", "--out", "."], "cannot be read as a file of trials"),
        (["run", "new", "--sizes", "abc"], "not a list of numbers"),
        (["run", "new", "--loads", "0"], "not above 0"),
        (["run", "new", "--antagonists", "unknown"], "no offline work named 'unknown'"),
        (["run", "new", "--arms", "unknown"], "no arm named 'unknown'"),
    ],
)
def test_wrong_arguments_are_refused_with_the_reason(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["latency", *arguments])
    with pytest.raises(SystemExit) as refused:
        command.main()
    assert message in f"{refused.value} {capsys.readouterr().err}"
    assert not [*tmp_path.iterdir()]


def test_trials_of_another_machine_are_not_added_to(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trials"
    file.write_bytes(msgspec.json.encode(Header("another", bench.round_ns, {})) + b"\n")
    monkeypatch.setattr(sys, "argv", ["latency", "run", str(file)])
    with pytest.raises(SystemExit, match="is of another machine"):
        command.main()


def test_sizes_that_a_file_lacks_are_refused(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trials"
    header = Header(machine(), bench.round_ns, {1.0: 1.1})
    file.write_bytes(msgspec.json.encode(header) + b"\n")
    monkeypatch.setattr(sys, "argv", ["latency", "run", str(file), "--sizes", "1,5"])
    with pytest.raises(SystemExit, match="begun with compute work and requests of 1 ms"):
        command.main()
