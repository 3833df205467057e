"""Measurements that mean nothing are refused; workers end by themselves."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest

import machine_trees
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
from corewise.kernel.machine import read_machine
from corewise.normalization.calibration import (
    Calibration,
)
from corewise.normalization.mix import KERNELS, Done
from corewise.topology import CPUSet

MILLI = 1_000_000


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


def test_single_all_and_sibling_cpus_are_measured(tmp_path: Path) -> None:
    run = FakeRun()
    found = measured(machine_trees.intel(tmp_path).root, run)
    assert {cpus for _, cpus in run.calls} == {"7", "0-15", "7,15"}
    assert len(run.calls) == 3 * 3 * len(KERNELS)
    assert (found.single_thread.cpus, found.all_cpus.cpus) == (1, 16)
    assert found.core_threads is not None
    assert found.core_threads.cpus == 2
    assert found.all_cpus.score == 500_000
    assert (found.hyper_thread_enabled, found.turbo_enabled, found.cores_alike) == (True, True, True)


def test_machine_without_sibling_threads_reports_nothing_about_them(tmp_path: Path) -> None:
    found = measured(machine_trees.big_little(tmp_path).root, FakeRun())
    assert found.core_threads is None
    assert not found.cores_alike
    assert set(situations(read_machine(tmp_path).host.topology)) == {"single", "all"}


def test_time_that_others_take_while_measuring_is_refused(tmp_path: Path) -> None:
    root = machine_trees.intel(tmp_path).root
    with pytest.raises(Unmeasurable, match=r"the workers lost 10\.0 % of their CPUs' time"):
        measured(root, FakeRun(cpu_shares=(Fraction(9, 10),)))
    assert measured(root, FakeRun(cpu_shares=(Fraction(98, 100),)))


def test_repeats_that_differ_too_much_are_refused(tmp_path: Path) -> None:
    root = machine_trees.intel(tmp_path).root
    with pytest.raises(Unmeasurable, match=r"the repeats differ by .* % with"):
        measured(root, FakeRun(speeds=(100, 150)))


def test_repeat_that_lost_time_is_run_again(tmp_path: Path) -> None:
    root = machine_trees.intel(tmp_path).root
    run = FakeRun(cpu_shares=(Fraction(1), Fraction(1, 2), Fraction(1)))
    found = measured(root, run)
    assert found.repeats == 3
    assert len(run.calls) == 4 * 3 * len(KERNELS)


def test_differing_repeats_are_extended_until_most_agree(tmp_path: Path) -> None:
    root = machine_trees.intel(tmp_path).root
    found = measured(root, FakeRun(speeds=(100,) * 3 + (150,) * 3 + (100,) * 30))
    assert found.repeats > 3
    assert found.all_cpus.score == 500_000


def test_busy_machine_and_too_little_memory_are_refused() -> None:
    check_idle(500)
    with pytest.raises(Unmeasurable, match=r"other work took 37\.5 %"):
        check_idle(3750)
    check_memory(None, 8)
    with pytest.raises(Unmeasurable, match="960 MiB of memory, 100 MiB are available"):
        check_memory(100 * 2**20, 8)


def test_worker_obeys_orders_and_reports_its_work() -> None:
    answers = io.StringIO()
    count = iter(range(10**9))
    serve([f"{Command('fsum', 0, MILLI)}\n"], answers, {"fsum": lambda: lambda: next(count)})
    ready, line = answers.getvalue().splitlines()
    done = Done.parse(line)
    assert ready == READY
    assert done.passes > 0
    assert done.elapsed >= MILLI


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_does_repeatable_work_in_one_call(name: str) -> None:
    one_pass = KERNELS[name].prepare()
    assert one_pass() == one_pass()


needs_affinity = pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins processes")


@needs_affinity
def test_pinned_workers_run_together_and_end_with_crew() -> None:
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
def test_cpu_that_refuses_pinning_is_named_in_error() -> None:
    with pytest.raises(WorkerError, match="CPU 60000"), crew(CPUSet.of([60000])):
        pass


@needs_affinity
def test_killed_worker_raises_an_error_naming_its_cpu() -> None:
    cpu = min(os.sched_getaffinity(0))
    with crew(CPUSet.of([cpu])) as workers:
        worker = workers._workers[cpu]
        worker.kill()
        worker.wait()
        with pytest.raises(WorkerError, match=f"CPU {cpu}"):
            workers.run("fsum", CPUSet.of([cpu]), MILLI)
