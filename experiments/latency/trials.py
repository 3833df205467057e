"""One trial: a service under a load, beside offline work held back in one way, in cgroups of its own.

A trial is refused if other work used more of the CPUs than :data:`MOST_OTHERS` while it ran. All its
processes end with it, and its cgroups are removed.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np
import numpy.typing as npt

from corewise.agent.objects import QuotaPod
from corewise.kernel.cgroups.layout import Layout
from corewise.quantities import MILLI
from experiments.latency import scheduler
from experiments.latency.arms import ALONE, ARMS, Arm
from experiments.latency.evaluating import waiting_agent
from experiments.latency.figures import counts_of
from experiments.latency.programs import (
    Programs,
    arrivals,
    read_header,
    read_requests,
    write_requests,
    write_start,
)
from real_load.kubelet_tree import PERIOD, KubeletTree, offline_pod, online_pod

WARM_UP = 0.3
"""Seconds of requests that do not count."""
TAIL = 0.1
"""Seconds of requests after those that count: these end under the same load."""
MOST_OTHERS = 0.025
"""The part of the CPUs that other work may use during a trial."""
MEMORY = "/dev/shm"  # noqa: S108 - a file system in memory, with a directory of our own in it
_LEAD, _READY_WITHIN = 0.05, 20.0
_NANO, _MICRO = 1e9, 1e6


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
    ``online``, ``sending`` and ``offline`` are CPUs used by the service, the generator and offline work while
    requests counted, ``done`` is the offline work in its own unit. ``others``: CPUs used by other
    work; ``stolen``: the part of CPU time that a hypervisor gave to others; ``mhz``: mean of the CPUs.
    ``waiting``: how many of the service's threads waited for a CPU on average; ``pressure``: the part of time
    in which one of them did, as the kernel tells of their cgroup (0 on cgroup v1, which does not).
    """

    case: Case
    arm: str
    repetition: int
    seconds: float
    cpus: int
    latencies: dict[int, int]
    online: float
    sending: float
    offline: float
    done: int
    others: float
    stolen: float
    mhz: float
    waiting: float = 0.0
    pressure: float = 0.0


@dataclass(frozen=True, slots=True)
class Bench:
    """The machine that trials run on.

    ``round_ns``: CPU time of a round, by kind of work. ``request_ms``: CPU time of a request, sending and
    waking included, by its size.
    """

    layout: Layout
    cpus: Sequence[int]
    programs: Programs
    round_ns: dict[str, float]
    request_ms: dict[float, float]


class Header(msgspec.Struct, frozen=True):
    """The first line of a file of trials: the machine, and what :class:`Bench` has of it."""

    machine: str
    round_ns: dict[str, float]
    request_ms: dict[float, float]


@contextmanager
def before_all_others(layout: Layout) -> Iterator[None]:
    """Let this process run whenever it wants to, so that offline work does not hold up the experiment.

    It sleeps while requests count. What it starts does not inherit this.
    """
    (layout.cpu / "cgroup.procs").write_text(str(os.getpid()))
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@dataclass(frozen=True, slots=True)
class _Reading:
    """Counters at one moment, in CPU seconds since any time."""

    at: float
    online: float
    sending: float
    offline: float
    ours: float
    busy: float
    stolen: float
    waited: float
    pressed: float


@dataclass(frozen=True, slots=True)
class Served:
    """The requests that count, and the counters before and after them.

    ``due``: seconds after the first that could count; ``latencies``: milliseconds from then to the end.
    """

    due: npt.NDArray[np.float64]
    latencies: npt.NDArray[np.float64]
    before: _Reading
    after: _Reading
    done: int

    def used(self, counter: str) -> float:
        """Return the growth of a counter of CPU seconds, for each second."""
        grown: float = getattr(self.after, counter) - getattr(self.before, counter)
        return round(grown / (self.after.at - self.before.at), 4)

    @property
    def others(self) -> float:
        """The CPUs that other work used."""
        return max(0.0, round(self.used("busy") - self.used("ours"), 4))


def run(bench: Bench, case: Case, arm_name: str, repetition: int, seconds: float) -> Trial:
    """Run one trial.

    Raises:
        SystemExit: if a program fails, or the service does not begin.
    """
    cpus = len(bench.cpus)
    rate = case.load * cpus * MILLI / bench.request_ms[case.size]
    due = arrivals(seed_of(case, repetition), WARM_UP + seconds + TAIL, rate)
    served = serve(bench, case, arm_name, due, seconds)
    return Trial(
        case=case,
        arm=arm_name,
        repetition=repetition,
        seconds=seconds,
        cpus=cpus,
        latencies=counts_of(served.latencies),
        online=served.used("online"),
        sending=served.used("sending"),
        offline=served.used("offline"),
        done=served.done,
        others=served.others,
        stolen=round(served.used("stolen") / cpus, 4),
        mhz=_megahertz(),
        waiting=served.used("waited"),
        pressure=served.used("pressed"),
    )


def serve(bench: Bench, case: Case, arm_name: str, due: npt.NDArray[np.uint64], seconds: float) -> Served:
    """Serve requests at these times; those of ``seconds`` after the warm-up count.

    Raises:
        SystemExit: if a program fails, or the service does not begin.
    """
    arm, cpus = ARMS[arm_name], len(bench.cpus)
    with ExitStack() as stack:
        stack.enter_context(scheduler.changed(arm.scheduler))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY)))
        tree = stack.enter_context(KubeletTree(bench.layout, heavy=True))
        online, offline = online_pod("web", cpus), [offline_pod(f"batch-{cpu}", MILLI) for cpu in bench.cpus]
        for pod in (online, *offline):
            tree.start(pod)
        arm.apply(tree, offline, round(cpus * MILLI * (1 - case.load)))
        agent = stack.enter_context(waiting_agent(arm.evaluates, tree)) if arm.evaluates else None
        requests, work = directory / "requests", directory / "work"
        write_requests(requests, due)
        work.write_bytes(bytes(8 * cpus))
        places = list(_places(tree, arm, offline))
        free = bench.cpus[: max(1, round(cpus * (1 - case.load)))]
        antagonists = []
        for index, place in enumerate(places):
            kind = case.antagonist if arm.offline else "spin"
            command = [str(bench.programs.antagonist), kind, str(work), str(index), str(arm.slice_ns)]
            on = free if arm.confined else bench.cpus
            antagonists.append(_start(stack, command, tree, place, on, policy=arm.policy))
        if arm.offline and arm.period > PERIOD:
            time.sleep(random.random() * arm.period / _MICRO)  # noqa: S311 - any phase
        rounds = max(1, round(case.size * 1e6 / bench.round_ns[case.work]))
        threads = max(1, case.threads * cpus)
        arguments = [
            requests,
            case.work,
            rounds,
            threads,
            int(case.pinned),
            bench.layout.cpu / "cgroup.procs",
            *bench.cpus,
        ]
        command = [str(bench.programs.service), "serve", *map(str, arguments)]
        service = _start(stack, command, tree, tree.container(online), bench.cpus)
        generator = _wait_ready(service, requests, threads + cpus)
        began = time.monotonic() + _LEAD
        write_start(requests, round(began * _NANO))
        time.sleep(max(0.0, began + WARM_UP - time.monotonic()))
        read = partial(_read, tree, bench.cpus, online, places if arm.offline else ())
        before, done = read((service.pid, generator)), _done(work)
        if agent:
            agent.begin()
        time.sleep(max(0.0, began + WARM_UP + seconds - time.monotonic()))
        if agent:
            agent.wait()
        after, done = read((service.pid, generator)), _done(work) - done
        if any(each.poll() is not None for each in antagonists):
            raise SystemExit("offline work ended before the trial; its message is above")
        if service.wait(timeout=60 + seconds * 10):
            raise SystemExit("the service failed; its message is above")
        times = read_requests(requests)
    counted = times[(times["due"] >= WARM_UP * _NANO) & (times["due"] < (WARM_UP + seconds) * _NANO)]
    latencies = (counted["done"] - (counted["due"] + np.uint64(round(began * _NANO)))) / 1e6
    return Served(counted["due"] / _NANO - WARM_UP, latencies, before, after, done)


def _places(tree: KubeletTree, arm: Arm, pods: Sequence[QuotaPod]) -> Iterator[str]:
    """Yield the cgroup of each program that runs beside the service."""
    for index, pod in enumerate(pods):
        if arm.at_root:
            yield tree.at_root(f"batch-{index}")
        elif arm.offline:
            yield tree.container(pod)
        elif arm.awake:
            place = tree.beside(f"awake-{index}")
            tree.file(place, "cpu.idle").write_text("1")
            yield place


def with_request_ms(bench: Bench, work: str, threads: int, sizes: Sequence[float]) -> Bench:
    """Return the bench with the CPU time of a request of each size, as the service alone takes it."""
    for size in sizes:
        bench = replace(bench, request_ms={**bench.request_ms, size: size})
        trial = run(bench, Case(size, 0.5, "-", work, threads), ALONE, 0, 1.0)
        served = sum(trial.latencies.values()) / trial.seconds
        cost = round((trial.online + trial.sending) * MILLI / served, 4)
        bench = replace(bench, request_ms={**bench.request_ms, size: cost})
    return bench


def wait_quiet(bench: Bench, say: Callable[[str], None], within: float = 600.0) -> None:
    """Wait until other work uses little of the machine.

    Raises:
        SystemExit: if it does not within that many seconds.
    """
    until = time.monotonic() + within
    while (used := _others(bench.cpus)) > MOST_OTHERS * len(bench.cpus):
        if time.monotonic() > until:
            raise SystemExit(
                f"other work used {used:.2f} CPUs for {within:.0f} s: no trial runs on a busy machine"
            )
        say(f"waiting: other work uses {used:.2f} CPUs")


def _others(cpus: Sequence[int]) -> float:
    before, began = sum(_idle_and_stolen(cpus)), time.monotonic()
    time.sleep(1.0)
    return len(cpus) - (sum(_idle_and_stolen(cpus)) - before) / (time.monotonic() - began)


def seed_of(case: Case, repetition: int) -> int:
    """Return one seed for all arms of a repetition, and for all antagonists: they share the arrivals."""
    return round(case.size * 1000) * 1_000_000 + round(case.load * 100) * 10_000 + repetition


def _start(
    stack: ExitStack,
    command: list[str],
    tree: KubeletTree,
    cgroup: str,
    cpus: Sequence[int],
    *,
    policy: int = os.SCHED_OTHER,
) -> subprocess.Popen[bytes]:
    """Start a program inside a cgroup, on these CPUs; it ends with the trial."""
    files = [directory / "cgroup.procs" for directory in tree.process_directories(cgroup)]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    process = subprocess.Popen(command, preexec_fn=partial(_enter, files, cpus, policy))  # noqa: PLW1509 - no threads here
    stack.callback(process.wait)
    stack.callback(process.kill)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def _enter(files: Sequence[Path], cpus: Sequence[int], policy: int) -> None:
    os.sched_setaffinity(0, cpus)
    os.sched_setscheduler(0, policy, os.sched_param(0))
    for file in files:
        file.write_text(str(os.getpid()))


def _wait_ready(service: subprocess.Popen[bytes], requests: Path, threads: int) -> int:
    """Wait until all threads are ready, and return the generator's process id."""
    until = time.monotonic() + _READY_WITHIN
    while (found := read_header(requests))[0] < threads:
        if service.poll() is not None or time.monotonic() > until:
            raise SystemExit("the service did not begin; its message is above")
        time.sleep(0.01)
    return found[1]


def _read(
    tree: KubeletTree,
    cpus: Sequence[int],
    online: QuotaPod,
    offline: Sequence[str],
    processes: tuple[int, int],
) -> _Reading:
    """Read the counters; ``offline``: its cgroups, ``processes``: the service and its generator."""
    usage = partial(_seconds_used, tree)
    outside = sum(usage(each) for each in offline if not each.startswith(f"{tree.root}/"))
    service, generator = (_ran_and_waited(each) for each in processes)
    sending = generator[0]
    pressure = tree.file(tree.container(online), "cpu.pressure")
    pressed = int(pressure.read_text().split("total=")[1].split()[0]) / _MICRO if pressure.exists() else 0.0
    own = resource.getrusage(resource.RUSAGE_SELF)
    at = time.monotonic()
    idle, stolen = _idle_and_stolen(cpus)
    return _Reading(
        at=at,
        online=usage(tree.container(online)),
        sending=sending,
        offline=sum(map(usage, offline)),
        ours=usage(tree.root) + outside + sending + own.ru_utime + own.ru_stime,
        busy=len(cpus) * at - idle - stolen,
        stolen=stolen,
        waited=service[1],
        pressed=pressed,
    )


def _ran_and_waited(process: int) -> tuple[float, float]:
    """Return the seconds that a process's threads ran, and that they waited for a CPU."""
    read = [file.read_text().split() for file in Path(f"/proc/{process}/task").glob("*/schedstat")]
    return sum(int(each[0]) for each in read) / _NANO, sum(int(each[1]) for each in read) / _NANO


def _seconds_used(tree: KubeletTree, cgroup: str) -> float:
    return tree.usage(cgroup) / _NANO


def _idle_and_stolen(cpus: Sequence[int]) -> tuple[float, float]:
    """Return the CPU seconds that these CPUs were idle, and that a hypervisor gave to others."""
    names = {f"cpu{cpu}" for cpu in cpus}
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    ticks = [[int(each) for each in line[1:]] for line in lines if line[0] in names]
    idle, stolen = sum(each[3] + each[4] for each in ticks), sum(each[7] for each in ticks)
    return idle / os.sysconf("SC_CLK_TCK"), stolen / os.sysconf("SC_CLK_TCK")


def _done(work: Path) -> int:
    return int(np.frombuffer(work.read_bytes(), "<u8").sum())


def _megahertz() -> float:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    speeds = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    return round(fmean(speeds), 1) if speeds else 0.0
