"""One trial: a service under a load, beside offline work held back in one way, in cgroups of its own.

A trial is refused if other work used more of the machine than :data:`MOST_OTHERS` while it ran. All its
processes end with it, and its cgroups are removed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np

from corewise.agent.objects import QuotaPod
from corewise.kernel.cgroups.layout import Layout, Version
from corewise.quantities import MILLI
from experiments.latency.arms import ARMS
from experiments.latency.figures import counts_of
from experiments.latency.programs import Programs, arrivals, read_requests, threads_ready, write_requests
from real_load.kubelet_tree import KubeletTree, offline_pod, online_pod

WARM_UP = 0.3
"""Seconds of requests that do not count."""
MOST_OTHERS = 0.05
"""CPUs that other work may use during a trial."""
_LEAD, _READY_WITHIN = 0.05, 20.0
_NANO = 1e9


class Case(msgspec.Struct, frozen=True):
    """What is measured in each arm: requests of ``size`` milliseconds at a part ``load`` of the node's CPUs.

    ``threads`` of the service for each CPU (0: one thread in all), ``pinned`` to the CPUs in turn.
    """

    size: float
    load: float
    antagonist: str
    work: str = "compute"
    threads: int = 1
    pinned: bool = False


class Trial(msgspec.Struct, frozen=True):
    """The outcome of one arm in one repetition.

    ``latencies``: counts of requests by :func:`figures.counts_of`, from the due time to the end.
    ``online`` and ``offline`` are CPUs used while requests counted, ``done`` is the offline work in its own
    unit. ``late``: the generator's p99 delay in milliseconds. ``others``: CPUs used by other work;
    ``stolen``: the part of CPU time that a hypervisor gave to others; ``mhz``: mean of the CPUs.
    """

    case: Case
    arm: str
    repetition: int
    seconds: float
    cpus: int
    latencies: dict[int, int]
    online: float
    offline: float
    done: int
    late: float
    others: float
    stolen: float
    mhz: float


@dataclass(frozen=True, slots=True)
class Bench:
    """The machine that trials run on. ``round_ns``: CPU time of a round, by kind of work."""

    layout: Layout
    cpus: Sequence[int]
    programs: Programs
    round_ns: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Reading:
    """Counters at one moment, in CPU seconds since any time."""

    at: float
    online: float
    offline: float
    ours: float
    all: float
    stolen: float


def run(bench: Bench, case: Case, arm_name: str, repetition: int, seconds: float) -> Trial:
    """Run one trial.

    Raises:
        SystemExit: if a program fails, or the service does not begin.
    """
    arm, cpus = ARMS[arm_name], len(bench.cpus)
    due = arrivals(_seed(case, repetition), WARM_UP + seconds, case.load * cpus * MILLI / case.size)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tree = stack.enter_context(KubeletTree(bench.layout, heavy=True))
        online, offline = online_pod("web", cpus), [offline_pod(f"batch-{cpu}", MILLI) for cpu in bench.cpus]
        for pod in (online, *offline):
            tree.start(pod)
        arm.apply(tree, offline, round(cpus * MILLI * (1 - case.load)))
        requests, work = directory / "requests", directory / "work"
        write_requests(requests, due)
        work.write_bytes(bytes(8 * cpus))
        antagonists = []
        if arm.offline:
            for index, pod in enumerate(offline):
                command = [str(bench.programs.antagonist), case.antagonist, str(work), str(index)]
                antagonists.append(_start(stack, [*command, str(arm.slice_ns)], tree, tree.container(pod)))
        rounds = max(1, round(case.size * 1e6 / bench.round_ns[case.work]))
        threads = max(1, case.threads * cpus)
        command = [str(bench.programs.service), "serve", str(requests), case.work, str(rounds), str(threads)]
        pins = [str(cpu) for cpu in bench.cpus] if case.pinned else []
        service = _start(stack, [*command, *pins], tree, tree.container(online))
        _wait_ready(service, requests, threads)
        began = time.monotonic() + _LEAD
        start = str(round(began * _NANO))
        generator = _start(stack, [str(bench.programs.service), "generate", str(requests), start], tree, "/")
        time.sleep(max(0.0, began + WARM_UP - time.monotonic()))
        before, done = _read(tree, online, generator.pid), _done(work)
        time.sleep(max(0.0, began + WARM_UP + seconds - time.monotonic()))
        after, done = _read(tree, online, generator.pid), _done(work) - done
        if any(each.poll() is not None for each in antagonists):
            raise SystemExit("offline work ended before the trial; its message is above")
        for program in (generator, service):
            if program.wait(timeout=60 + seconds * 10):
                raise SystemExit("a program of the trial failed; its message is above")
        times = read_requests(requests)
    counted = times[times["due"] >= WARM_UP * _NANO]
    due_at = counted["due"] + np.uint64(round(began * _NANO))
    passed = after.at - before.at
    return Trial(
        case=case,
        arm=arm_name,
        repetition=repetition,
        seconds=seconds,
        cpus=cpus,
        latencies=counts_of((counted["done"] - due_at) / 1e6),
        online=round((after.online - before.online) / passed, 4),
        offline=round((after.offline - before.offline) / passed, 4),
        done=done,
        late=round(float(np.quantile((counted["sent"] - due_at) / 1e6, 0.99)), 4),
        others=round(max(0.0, after.all - before.all - (after.ours - before.ours)) / passed, 4),
        stolen=round((after.stolen - before.stolen) / passed / cpus, 4),
        mhz=_megahertz(),
    )


def wait_quiet(bench: Bench, say: Callable[[str], None], within: float = 600.0) -> None:
    """Wait until other work uses little of the machine.

    Raises:
        SystemExit: if it does not within that many seconds.
    """
    until = time.monotonic() + within
    while (used := _others(bench.layout)) > MOST_OTHERS:
        if time.monotonic() > until:
            raise SystemExit(
                f"other work used {used:.2f} CPUs for {within:.0f} s: no trial runs on a busy machine"
            )
        say(f"waiting: other work uses {used:.2f} CPUs")


def _others(layout: Layout) -> float:
    before, began = _all_used(layout), time.monotonic()
    time.sleep(1.0)
    return (_all_used(layout) - before) / (time.monotonic() - began)


def _seed(case: Case, repetition: int) -> int:
    """One seed for all arms of a repetition, and for all antagonists: they share the arrivals."""
    return round(case.size * 1000) * 1_000_000 + round(case.load * 100) * 10_000 + repetition


def _start(stack: ExitStack, command: list[str], tree: KubeletTree, cgroup: str) -> subprocess.Popen[bytes]:
    """Start a program inside a cgroup; it ends with the trial."""
    files = [directory / "cgroup.procs" for directory in tree.process_directories(cgroup)]
    process = subprocess.Popen(command, preexec_fn=partial(_enter, files))  # noqa: PLW1509 - no threads here
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _enter(files: Sequence[Path]) -> None:
    for file in files:
        file.write_text(str(os.getpid()))


def _wait_ready(service: subprocess.Popen[bytes], requests: Path, threads: int) -> None:
    until = time.monotonic() + _READY_WITHIN
    while threads_ready(requests) < threads:
        if service.poll() is not None or time.monotonic() > until:
            raise SystemExit("the service did not begin; its message is above")
        time.sleep(0.01)


def _read(tree: KubeletTree, online: QuotaPod, generator: int) -> _Reading:
    usage = partial(_seconds_used, tree)
    stat = Path(f"/proc/{generator}/stat")
    sent = sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    own = resource.getrusage(resource.RUSAGE_SELF)
    return _Reading(
        at=time.monotonic(),
        online=usage(tree.container(online)),
        offline=usage(tree.best_effort),
        ours=usage(tree.root) + sent + own.ru_utime + own.ru_stime,
        all=_all_used(tree.layout),
        stolen=int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK"),
    )


def _seconds_used(tree: KubeletTree, cgroup: str) -> float:
    return tree.usage(cgroup) / _NANO


def _all_used(layout: Layout) -> float:
    """Return the CPU seconds of all tasks, as the root cgroup counts them."""
    if layout.version is Version.V1:
        return int((layout.mounts["cpuacct"] / "cpuacct.usage").read_text()) / _NANO
    return int((layout.cpu / "cpu.stat").read_text().split()[1]) / 1e6


def _done(work: Path) -> int:
    return int(np.frombuffer(work.read_bytes(), "<u8").sum())


def _megahertz() -> float:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    speeds = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    return round(fmean(speeds), 1) if speeds else 0.0
