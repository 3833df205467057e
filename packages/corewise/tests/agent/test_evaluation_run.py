"""One measurement by a real child process on this kernel, and how it gives way."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from corewise.agent.calibration import WorkerError, idle_worker
from corewise.agent.calibration_worker import Command, carry_out, lost_too_much
from corewise.agent.cgroups import restore
from corewise.agent.evaluation_run import KernelBench, pressure_share
from corewise.kernel import idle_start
from corewise.kernel.cgroups.idle import NAME, IdleCgroup
from corewise.kernel.cgroups.layout import Version, find_layout
from corewise.kernel.cpu_conditions import CPUConditions
from corewise.kernel.errors import KernelError, Missing
from corewise.kernel.idle_start import BUSY, LAUNCHER, RELEASE, idle_command
from corewise.kernel.machine import read_machine
from corewise.kernel.usage import CPUTime
from corewise.normalization.mix import KERNELS
from corewise.topology import CPUSet, Topology
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from kernel.cgroup_writes import layout_here

MILLI = 1_000_000
SHORT = 20 * MILLI
CPU = max(os.sched_getaffinity(0)) if sys.platform == "linux" else 0
DISTURBED = {Reason.EVALUATION_INTERRUPTED, Reason.EVALUATION_STEAL_TIME}
"""What a machine that does other work may say of a run."""

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has SCHED_IDLE")
needs_launcher = pytest.mark.skipif(
    not LAUNCHER.exists(), reason="not built here: no compiler when the package was installed"
)


@pytest.mark.parametrize(
    ("elapsed", "cpu", "lost"),
    [
        (1_000_000, 1_000_000, False),
        (1_000_000, 500_000, False),
        (1_000_000, 400_000, True),
        (300 * MILLI, 294 * MILLI, False),
        (300 * MILLI, 290 * MILLI, True),
    ],
)
def test_half_a_millisecond_and_interrupts_are_tolerated(elapsed: int, cpu: int, lost: bool) -> None:
    assert lost_too_much(elapsed, cpu) is lost


@pytest.mark.parametrize("undisturbed", [0, 1, 5])
def test_a_worker_without_the_cpu_stops_at_once(undisturbed: int) -> None:
    """``undisturbed``: the passes, the one that warms up included, before other work takes the CPU."""
    command = Command("fsum", 0, 10_000 * MILLI)
    pauses = itertools.chain([0.0] * undisturbed, itertools.repeat(0.02))
    done = carry_out(command, lambda: lambda: time.sleep(next(pauses)), idle=True)
    assert done.elapsed < command.duration
    assert lost_too_much(done.elapsed, done.cpu)


def test_pressure_is_relative_to_time() -> None:
    def at(ticks: int, pressure: int | None) -> CPUConditions:
        return CPUConditions({3: CPUTime(0, ticks)}, pressure, 0)

    cpus = CPUSet.of([3])
    assert pressure_share(at(100, 5_000_000), at(200, 5_050_000), cpus) == 500
    assert pressure_share(at(100, None), at(200, 50), cpus) == 0
    assert pressure_share(at(100, 0), at(100, 50), cpus) == 0


@needs_launcher
def test_an_idle_worker_has_the_lowest_policy() -> None:
    started: list[int] = []
    with idle_worker(CPU, started.append, 60.0, trial=0) as worker:
        (process,) = started
        assert os.sched_getscheduler(process) == os.SCHED_IDLE
        assert os.sched_getaffinity(process) == {CPU}
        assert worker.run("fsum", CPUSet.of([CPU]), MILLI)[CPU].cpu > 0
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@needs_launcher
def test_a_cpu_of_this_machine_is_measured() -> None:
    topology = read_machine().host.topology
    bench = KernelBench(Path("/"), duration=SHORT, patience=60.0)
    assert CPU in bench.allowed()
    found = bench.measure(topology, CPU, Event())
    if isinstance(found, Finding):
        assert found.reason in DISTURBED
    else:
        assert set(found) == set(KERNELS)
        assert all(each.passes > 0 and 0 < each.cpu <= each.elapsed for each in found.values())
    try:
        place = find_layout().cpu / NAME
    except KernelError:
        return
    assert not place.exists()


class RefusingPlace:
    """A cgroup that the kernel moves nothing into, as from within a cgroup namespace."""

    def __init__(self) -> None:
        self.refused: list[int] = []
        self.removed = 0

    def take(self, process: int) -> None:
        self.refused.append(process)
        raise Missing("/corewise-evaluation/cgroup.procs", "cannot write: ENOENT", code=2)

    def remove(self) -> None:
        self.removed += 1


@needs_launcher
def test_a_refused_cgroup_does_not_end_the_run() -> None:
    place = RefusingPlace()
    bench = KernelBench(Path("/"), duration=SHORT, patience=60.0, place=place)
    found = bench.measure(read_machine().host.topology, CPU, Event())
    assert (len(place.refused), place.removed) == (1, 1)
    assert not isinstance(found, Finding) or found.reason in DISTURBED


@pytest.fixture
def busy_cpu() -> Iterator[None]:
    """Another program that computes on the CPU."""
    burn = f"import os; os.sched_setaffinity(0, {{{CPU}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", burn]) as busy:
        try:
            yield
        finally:
            busy.kill()


@needs_launcher
@pytest.mark.usefixtures("busy_cpu")
def test_a_busy_cpu_interrupts_the_run() -> None:
    topology = read_machine().host.topology
    found = KernelBench(Path("/"), duration=10_000 * MILLI, patience=2.0).measure(topology, CPU, Event())
    assert isinstance(found, Finding)
    assert found.reason in DISTURBED


@needs_launcher
def test_a_stopping_agent_ends_the_run() -> None:
    stop = Event()
    stop.set()
    found = KernelBench(Path("/"), duration=SHORT, patience=60.0).measure(
        read_machine().host.topology, CPU, stop
    )
    assert isinstance(found, Finding)
    assert found.reason is Reason.EVALUATION_INTERRUPTED


@needs_launcher
def test_a_cpu_that_refuses_pinning_is_a_failure() -> None:
    with pytest.raises(WorkerError, match="CPU 60000"), idle_worker(60000, lambda _: None, 60.0):
        pass


def test_a_missing_launcher_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_start, "LAUNCHER", Path("/nowhere/idle_start"))
    found = KernelBench(Path("/"), place=RefusingPlace()).measure(Topology(()), CPU, Event())
    assert isinstance(found, Finding)
    assert found.reason is Reason.EVALUATION_FAILED
    assert "/nowhere/idle_start cannot be started: No such file or directory" in found.message


CGROUPS = "open('/proc/self/cgroup').read()"
FIRST_LINE = f"import os; print(os.sched_getscheduler(0), os.sched_getaffinity(0), {CGROUPS})"
SHOW_FIRST_LINE = idle_command(CPU, 0, MILLI, [sys.executable, "-c", FIRST_LINE])


@needs_launcher
def test_a_program_begins_idle_and_pinned() -> None:
    shown = subprocess.run(SHOW_FIRST_LINE, input=RELEASE, capture_output=True, text=True, check=True).stdout
    assert shown.startswith(f"{os.SCHED_IDLE} {{{CPU}}} ")


@needs_launcher
def test_a_program_waits_until_it_is_released() -> None:
    done = subprocess.run(SHOW_FIRST_LINE, input="", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")


@needs_launcher
@pytest.mark.usefixtures("busy_cpu")
def test_no_program_starts_on_a_busy_cpu() -> None:
    command = idle_command(CPU, 60_000 * MILLI, MILLI, [sys.executable, "-c", FIRST_LINE])
    done = subprocess.run(command, input=RELEASE, capture_output=True, text=True, check=True)
    assert done.stdout == f"{BUSY}\n"


# All tests that use the cgroup of this name on the real kernel are in this file: one worker runs them.
LAYOUT = layout_here(Version.V1, Version.V2, needs=("cpu",))


@pytest.mark.skipif(LAYOUT is None, reason="needs root and a writable cgroup hierarchy with cpu")
def test_a_real_process_is_moved_and_leaves_nothing() -> None:
    assert LAYOUT is not None
    cgroup = IdleCgroup(LAYOUT)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        cgroup.take(process.pid)
        place = LAYOUT.cpu / NAME
        assert place.joinpath("cgroup.procs").read_text().split() == [str(process.pid)]
        assert place.joinpath("cpu.idle").read_text() == "1\n"
        cgroup.remove()
        assert place.exists()
        process.kill()
        process.wait()
        cgroup.remove()
        assert not place.exists()


@needs_launcher
@pytest.mark.skipif(LAYOUT is None, reason="needs root and a writable cgroup hierarchy with cpu")
def test_a_program_begins_in_its_cgroup() -> None:
    assert LAYOUT is not None
    cgroup = IdleCgroup(LAYOUT)
    with subprocess.Popen(
        SHOW_FIRST_LINE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        cgroup.take(process.pid)
        shown, _ = process.communicate(RELEASE)
    cgroup.remove()
    assert f":/{NAME}\n" in shown


@pytest.mark.skipif(LAYOUT is None, reason="needs root and a writable cgroup hierarchy with cpu")
def test_restore_removes_what_a_killed_agent_left(tmp_path: Path) -> None:
    assert LAYOUT is not None
    (LAYOUT.cpu / NAME).mkdir()
    restore(Path("/"), tmp_path)
    assert not (LAYOUT.cpu / NAME).exists()
