"""The agent's own code in a closed loop with the plant, and figures that say how well the loop behaved.

One simulated machine, without hyper-threading by default, so that a CPU is a CPU and the load is a share of
the machine: four online pods without a limit, each requesting a share of the CPUs, and offline pods that
would use all of it. The online load is a step, a ramp or a square wave. The agent looks every interval, in
virtual time, beginning with nothing limited. Samples are taken after each look; those of the ``WARM_UP`` are
left out.

    run = run_loop(folder, STEP, suppressed(OPTION_1))
    figures(run)

Something else than the agent may hold back the offline pods (:mod:`experiments.suppression_proof.holders`),
for comparison.

The same figures are taken of the plant (simulated nodes) and of real kernels, by the same function, so that
they may be compared. A *phase* is the time between two jumps of the online load; a ramp is one phase. For
each phase, with ``q`` the quota after each tick and ``t`` the target that the last half of the phase has in
its middle:

    settled at     the first tick from which on  |q - t| <= step  for the rest of the phase
    adjustments    changes of q up to there; expected of them is  ceil(|t - q before the phase| / step)
    overshoot      how far q went beyond t, coming from where it was before the phase
    reversals      how often q turned around by more than ``NOISE`` of the machine
    swing          largest less smallest q after the first 2/3 of the phase: what never comes to rest

and over the whole series:

    offline lost   sum of (min(what offline wanted, CPUs - what online wanted) - what offline got), in CPU s
    offline late   the part of it that a quota at its target would not have lost
    online slowdown   1 - work done beside offline pods / work done alone

The amounts are measured, not made: they may be binary floats; quotas and targets are whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from corewise.agent.objects import QuotaPod
from corewise.config.colocation import SuppressionMode, SuppressionSettings
from corewise.quantities import Bytes
from corewise.workload.pods import Pod
from corewise_lab.kubelet_status import running_status
from corewise_lab.load import Load, Shape
from corewise_lab.machine_files import MachineFiles
from corewise_lab.machines import CATALOG, Machine
from corewise_lab.node_cgroups import make_cgroups
from corewise_lab.node_simulation import INTERVAL, NodeSimulation
from corewise_lab.pods import manifest
from experiments.suppression_proof.holders import Begin, Held

NOISE = 0.02
"""Turns of the quota that are smaller than this part of the machine are the measured load's own."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One tick. CPU and work are averages since the sample before; quota and target are what it set.

    ``at`` is in seconds; ``quota`` (None is no bound) and ``target`` in milli-CPU; ``wanted`` and ``offline``
    in CPUs. ``work`` and ``work_alone`` are what online pods did and what they do without offline pods, per
    second, in one unit, whichever it is.
    """

    at: float
    quota: int | None
    target: int
    online_wanted: float
    work: float
    work_alone: float
    offline: float
    offline_wanted: float


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one run, its first one taken before the first jump at ``jumps`` (seconds)."""

    cpus: int
    step: int
    """The largest adjustment, in milli-CPU."""

    jumps: tuple[float, ...]
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """The quota's response to one jump: seconds, counts, milli-CPU. ``settling`` is None if it never did."""

    settling: float | None
    adjustments: int
    expected: int
    overshoot: int
    reversals: int
    swing: int

    @property
    def settled_in_time(self) -> bool:
        """Whether it settled with no more adjustments than the change is steps."""
        return self.settling is not None and self.adjustments <= self.expected


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run. CPU is in CPU seconds, ``farthest`` in milli-CPU, the shares are 0 to 1."""

    phases: tuple[Phase, ...]
    writes: int
    farthest: int
    """The largest distance of quota and target at any tick but those of the first phase."""

    offline_got: float
    offline_lost: float
    offline_late: float
    online_slowdown: float
    idle_used: float
    """The part of what online left that offline got."""


def figures(series: Series) -> Figures:
    """Return the figures of a run.

    Raises:
        ValueError: if a phase, or the time before the first jump, has no sample.
    """
    phases = _phases(series)
    later = [sample for phase in phases[1:] for sample in phase]
    spans = [(after, after.at - before.at) for before, after in pairwise(series.samples)]
    quotas = [_bounded(series, sample) for sample in series.samples]
    got = math.fsum(sample.offline * seconds for sample, seconds in spans)
    lost = math.fsum(_lost(series, sample) * seconds for sample, seconds in spans)
    return Figures(
        phases=tuple(
            _phase(series, jump, before[-1], phase)
            for jump, (before, phase) in zip(series.jumps, pairwise(phases), strict=True)
        ),
        writes=_changes(quotas),
        farthest=max((abs(_bounded(series, sample) - sample.target) for sample in later), default=0),
        offline_got=got,
        offline_lost=lost,
        offline_late=math.fsum(_late(series, *pair) for pair in pairwise(series.samples)),
        online_slowdown=_slowdown(spans),
        idle_used=got / (got + lost) if got + lost else 0.0,
    )


def _phases(series: Series) -> list[list[Sample]]:
    """Return the samples before the first jump, and those of each phase."""
    bounds = [-math.inf, *series.jumps, math.inf]
    phases = [[s for s in series.samples if start < s.at <= end] for start, end in pairwise(bounds)]
    if not all(phases):
        raise ValueError("there is no sample between two jumps, or before the first or after the last one")
    return phases


def _phase(series: Series, jump: float, before: Sample, phase: Sequence[Sample]) -> Phase:
    start = _bounded(series, before)
    quotas = [_bounded(series, sample) for sample in phase]
    target = round(median(sample.target for sample in phase[len(phase) // 2 :]))
    away = [index for index, quota in enumerate(quotas) if abs(quota - target) > series.step]
    settled = away[-1] + 1 if away else 0
    beyond = (target - quota if start >= target else quota - target for quota in quotas)
    rest = quotas[len(quotas) * 2 // 3 :]
    return Phase(
        settling=phase[settled].at - jump if settled < len(phase) else None,
        adjustments=_changes([start, *quotas[: settled + 1]]),
        expected=math.ceil(abs(target - start) / series.step),
        overshoot=max(0, *beyond),
        reversals=_reversals([start, *quotas], round(NOISE * series.cpus * 1000)),
        swing=max(rest) - min(rest),
    )


def _changes(quotas: Sequence[int]) -> int:
    return sum(before != after for before, after in pairwise(quotas))


def _reversals(quotas: Sequence[int], noise: int) -> int:
    """Count the turning points that are more than ``noise`` away from the one before."""
    turns, heading, extreme = 0, 0, quotas[0]
    for quota in quotas:
        if heading * (quota - extreme) > 0 or (not heading and abs(quota - extreme) > noise):
            heading, extreme = (1 if quota > extreme else -1), quota
        elif abs(quota - extreme) > noise:
            turns, heading, extreme = turns + 1, -heading, quota
    return turns


def _bounded(series: Series, sample: Sample) -> int:
    return series.cpus * 1000 if sample.quota is None else sample.quota


def _lost(series: Series, sample: Sample) -> float:
    left = max(0.0, series.cpus - sample.online_wanted)
    return max(0.0, min(sample.offline_wanted, left) - sample.offline)


def _late(series: Series, before: Sample, after: Sample) -> float:
    """Return the CPU seconds that offline lost because the quota was below its target."""
    short = (before.target - _bounded(series, before)) / 1000
    return max(0.0, min(short, _lost(series, after))) * (after.at - before.at)


def _slowdown(spans: Sequence[tuple[Sample, float]]) -> float:
    alone = math.fsum(sample.work_alone * seconds for sample, seconds in spans)
    return 1 - math.fsum(sample.work * seconds for sample, seconds in spans) / alone if alone else 0.0


WARM_UP = 200.0
OPTION_1 = SuppressionSettings()
OPTION_2 = SuppressionSettings(mode=SuppressionMode.PER_POD_QUOTA)
_MEMORY = Bytes(64 << 30)
_ONLINE_PODS = 4
_EPOCH = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Course:
    """The course of online load, a share of the machine, over ``seconds``; phases begin at ``jumps``."""

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
        return Machine("n1", CATALOG[self.model], self.cpus, _MEMORY, self.hyper_threading)


@dataclass
class _Bed:
    """A machine made ready."""

    bench: Bench
    course: Course
    folder: Path
    root: Path = field(init=False)
    pods: list[Pod] = field(default_factory=list)
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
        pod = msgspec.convert(body, Pod)
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
