"""The agent's own code in a closed loop with the plant: a step, a ramp and a square wave of online load.

One simulated machine, without hyper-threading unless told otherwise, so that a CPU is a CPU and the load is
a share of the machine: four online pods without a limit, each asking for a share of the CPUs, and offline
pods that would use all of it. The agent looks every interval, in virtual time, from when nothing was ever
bounded. Samples are taken after each look; those of the ``WARM_UP`` are left out.

    run = run_loop(folder, STEP, suppressed(OPTION_1))
    figures(run)                                    # corewise.simulation.closed_loop

What holds offline pods back may be something else than the agent (:mod:`corewise.simulation.holders`), to be
compared with.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from corewise.agent.objects import QuotaPod
from corewise.config.colocation import SuppressionMode, SuppressionSettings
from corewise.manager.objects import DemandingPod
from corewise.quantities import Bytes
from corewise.simulation.closed_loop import Sample, Series
from corewise.simulation.cpu_models import CATALOGUE
from corewise.simulation.holders import Begin, Held
from corewise.simulation.load import Load, Shape
from corewise.simulation.machine_files import MachineFiles
from corewise.simulation.machines import Machine
from corewise.simulation.node_simulation import INTERVAL, NodeSimulation
from corewise.simulation.pod_cgroups import make_cgroups
from corewise.simulation.pod_status import running_status
from corewise.simulation.pods import manifest

WARM_UP = 200.0
OPTION_1 = SuppressionSettings()
OPTION_2 = SuppressionSettings(mode=SuppressionMode.PER_POD_QUOTA)
_MEMORY = Bytes(64 << 30)
_ONLINE_PODS = 4
_EPOCH = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Course:
    """What online load, a share of the machine, does over ``seconds``; phases begin at ``jumps``."""

    name: str
    title: str
    load: Load
    jumps: tuple[float, ...]
    seconds: float


STEP = Course(
    "step", "a step from 20 % to 70 %, and back", Load(0.2, 0.7, 600.0, Shape.SQUARE), (300.0, 600.0), 900.0
)
RAMP = Course(
    "ramp", "a ramp from 10 % to 80 % in 600 s", Load(0.1, 0.8, 600.0, Shape.RAMP), (WARM_UP,), 900.0
)
SQUARE = Course(
    "square",
    "a square wave between 20 % and 70 %, 300 s a period",
    Load(0.2, 0.7, 300.0, Shape.SQUARE),
    (450.0, 600.0, 750.0, 900.0),
    1050.0,
)
COURSES = (STEP, RAMP, SQUARE)


@dataclass(frozen=True, slots=True)
class Bench:
    """The machine and its pods. ``offline_milli`` is the batch CPU of each offline pod."""

    cpus: int = 16
    model: str = "Neoverse-N1"
    hyper_threading: bool = False
    offline_pods: int = 10
    offline_milli: int = 2000

    @property
    def machine(self) -> Machine:
        return Machine("n1", CATALOGUE[self.model], self.cpus, _MEMORY, self.hyper_threading)


@dataclass
class _Bed:
    """A machine made ready."""

    bench: Bench
    course: Course
    folder: Path
    root: Path = field(init=False)
    pods: list[DemandingPod] = field(default_factory=list)
    quota_pods: list[QuotaPod] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = MachineFiles(self.folder).make(self.bench.machine)
        for number in range(_ONLINE_PODS):
            self._start(self._online(number), "Burstable")
        for number in range(self.bench.offline_pods):
            body = manifest(
                f"batch-{number}", cpu_milli=self.bench.offline_milli, memory=1 << 30, offline=True, node="n1"
            )
            self._start(body, "BestEffort")

    def _online(self, number: int) -> dict[str, Any]:
        """Return a pod that asks for its part of 3/4 of the CPUs, and wants its part of the load."""
        milli = self.bench.cpus * 750 // _ONLINE_PODS
        speed = self.bench.machine.speed or 1.0
        scale = self.bench.cpus * 1000 / milli / _ONLINE_PODS * speed
        load = replace(self.course.load, low=self.course.load.low * scale, high=self.course.load.high * scale)
        return manifest(f"web-{number}", cpu_milli=milli, memory=1 << 30, limited=False, node="n1", load=load)

    def _start(self, body: dict[str, Any], qos: str) -> None:
        metadata = {**body["metadata"], "uid": f"uid-{body['metadata']['name']}"}
        body = {**body, "metadata": metadata, "status": {"phase": "Running", "qosClass": qos}}
        pod = msgspec.convert(body, DemandingPod)
        status = running_status(pod, host="10.0.0.1", address="10.0.0.1", now=_EPOCH)
        self.pods.append(pod)
        self.quota_pods.append(msgspec.convert({**body, "status": {**body["status"], **status}}, QuotaPod))
        make_cgroups(self.root, pod)


def run_loop(
    folder: Path, course: Course, begin: Begin, *, bench: Bench | None = None, interval: float = INTERVAL
) -> Series:
    """Run a course on a machine made below ``folder``, and return the series of samples.

    Raises:
        ValueError: if the course is shorter than the warm-up.
    """
    bed = _Bed(bench or Bench(), course, folder)
    machine = bed.bench.machine
    holder = begin(bed.root, machine, bed.quota_pods)
    held = Held()

    def look(now: float) -> None:
        nonlocal held
        held = holder.look(now)

    simulation = NodeSimulation(machine, bed.root, bed.pods, agent=look, interval=interval)
    samples = []
    for _ in itertools.takewhile(lambda _: simulation.now < course.seconds, itertools.count()):
        simulation.begin_account()
        simulation.advance(interval)
        if simulation.now >= WARM_UP - interval:
            samples.append(_sample(bed.bench, simulation, held))
    if not samples:
        raise ValueError(f"{course.name} takes {course.seconds:g} s, all of them warm-up")
    step = OPTION_1.adjust_step.of(machine.allocatable_milli)
    return Series(machine.cpus, step, course.jumps, tuple(samples))


def _sample(bench: Bench, simulation: NodeSimulation, held: Held) -> Sample:
    account = simulation.account
    whole = bench.cpus * 1000
    target = held.target if held.target is not None else held.quota
    return Sample(
        at=simulation.now,
        quota=held.quota,
        target=whole if target is None else target,
        online_wanted=account.online_alone / account.seconds,
        work=sum(account.work.values()) / account.seconds,
        work_alone=sum(account.work_alone.values()) / account.seconds,
        offline=account.offline / account.seconds,
        offline_wanted=bench.offline_pods * bench.offline_milli / 1000,
    )
