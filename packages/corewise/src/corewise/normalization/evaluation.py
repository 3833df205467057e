"""Decides when a node measures its own CPUs, on which CPU, and whether a run counts. Pure.

*When.* Time is divided into slots of 5 s, 240 of them a cycle of 20 minutes. In each cycle a node has one
slot, found by a hash of its name and the cycle's number. So no node has to know the others, 1 of 240 nodes
measures at a time on average, and two that share a slot in one cycle hardly share the next. A run begins
only if the node was nearly idle in the minute before (:func:`refusal`), and only so often that all runs of a
day together take no longer than allowed (:func:`pause_after`).

*Where.* One CPU of a core whose threads were all idle in that minute (:func:`choose_cpu`): not of the core of
CPU 0, which serves interrupts, and not one that a pod owns. The other threads of the core stay idle, so a
score is that of a whole core with one thread, at the turbo that the processor grants to few busy cores.

*What counts.* A run in which the worker lost CPU time, the core's other threads worked, or the node became
busy is thrown away (:func:`disturbance`). So is one in which a hypervisor took time, the processor got too
hot, or a CPU quota held the worker back: those are no property of the CPU model.

Rates are passes per CPU time of the worker, not per elapsed time: what interrupts take does not count.

*What the score is of.* The runs of the last day, so that the scores of two days share no run and can be
compared as independent ones, and a fault is in all runs after a day. Where there are fewer than
:data:`FEWEST_RUNS`, it is of so many, and the report says how old they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from corewise.normalization.calibration import UNKNOWN_MODEL, percent, rate, scored
from corewise.normalization.mix import MEMORY_PER_WORKER, Done
from corewise.topology import CPUSet, Topology
from corewise.vocabulary.evaluation_report import EvaluationReport
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

SLOT = 5
SLOTS = 240
CYCLE = SLOT * SLOTS
"""Seconds, except for the number of slots in a cycle."""

LOOKED_BACK = 60.0
"""Seconds before a slot in which the node must have been idle."""

MOST_BUSY = 2000
MOST_PRESSURE = 500
MOST_BUSY_CORE = 500
MOST_STOLEN = 100
"""Basis points, of the minute before: CPU usage of the node; time in which a task waited for a CPU; usage of
the core to measure; time that a hypervisor gave to others."""

MOST_BUSY_MEANWHILE = 4000
MOST_PRESSURE_MEANWHILE = 1000
MOST_BUSY_SIBLING = 500
MOST_STOLEN_MEANWHILE = 500
"""Basis points, while one kernel runs: usage of the other cores; time in which a task waited for a CPU; usage
of the measured core's other threads; time that a hypervisor gave to others. The kernel counts in ticks: one
of the 33 of that time is 300."""

DEFAULT_MINUTES = 2
KERNEL_NANOSECONDS = 333_000_000
"""Of each of the six kernels in a run."""

MOST_RUNS = 60
"""The most runs whose median is the score, the newest ones."""

FEWEST_RUNS = 10
"""The runs of a score where fewer were made in the last day: the newest ones, however old.

Of 10 runs, 3 that something slowed down change neither the median nor the spread by much.
"""

A_DAY = timedelta(days=1)

ENOUGH_RUNS = 5
"""Runs of this agent, from which on the score of the agent before is not needed."""

_MINUTES_A_DAY = 24 * 60


def slot_of(node: str, cycle: int) -> int:
    """Return the number of a node's slot in a cycle."""
    digest = hashlib.blake2b(f"{node} {cycle}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % SLOTS


def next_slot(node: str, after: float) -> float:
    """Return when the node's first slot begins that is not before ``after``: seconds since 1970."""
    cycle = int(after // CYCLE)
    while (start := cycle * CYCLE + slot_of(node, cycle) * SLOT) < after:
        cycle += 1
    return float(start)


def pause_after(seconds: float, minutes: float) -> float:
    """Return the seconds from one run to the next, so that all runs of a day take so many minutes at most."""
    return seconds * _MINUTES_A_DAY / minutes


@dataclass(frozen=True, slots=True)
class NodeMinute:
    """The minute before a slot. ``busy``, ``pressure`` and ``stolen`` are in basis points.

    ``pressure`` is None where the kernel does not tell, ``memory`` (bytes that a worker can get) where it is
    not known. ``heated`` counts how often a processor was slowed down because of its temperature.
    ``starting`` names a pod that is starting.
    """

    model: str
    cores_alike: bool
    busy: int
    stolen: int
    pressure: int | None = None
    heated: int = 0
    memory: int | None = None
    starting: str = ""


def refusal(minute: NodeMinute) -> Finding | None:
    """Return the reason that the node does not measure in its slot; None if it does."""
    if minute.model.strip() in {"", UNKNOWN_MODEL}:
        return Finding(Reason.EVALUATION_MODEL_UNKNOWN, "the kernel does not name the CPU model")
    if not minute.cores_alike:
        return Finding(Reason.EVALUATION_CORES_DIFFER, "the cores are of several kinds")
    if minute.stolen > MOST_STOLEN:
        message = f"a hypervisor gave {percent(minute.stolen)} of the CPU time to others in the last minute"
        return Finding(Reason.EVALUATION_STEAL_TIME, f"{message}; up to {percent(MOST_STOLEN)} is tolerated")
    if minute.heated:
        message = f"the processor got too hot and slowed down {minute.heated} times in the last minute"
        return Finding(Reason.EVALUATION_THERMAL_THROTTLING, message)
    if minute.memory is not None and minute.memory < MEMORY_PER_WORKER:
        message = f"the worker needs {MEMORY_PER_WORKER >> 20} MiB, {minute.memory >> 20} MiB are available"
        return Finding(Reason.EVALUATION_MEMORY_MISSING, message)
    return _busyness(minute)


def _busyness(minute: NodeMinute) -> Finding | None:
    if minute.busy > MOST_BUSY:
        message = f"the node used {percent(minute.busy)} of its CPUs in the last minute"
        return Finding(Reason.EVALUATION_NODE_BUSY, f"{message}; it measures below {percent(MOST_BUSY)}")
    if minute.pressure is not None and minute.pressure > MOST_PRESSURE:
        message = f"tasks waited for a CPU in {percent(minute.pressure)} of the last minute"
        return Finding(Reason.EVALUATION_NODE_BUSY, f"{message}; it measures below {percent(MOST_PRESSURE)}")
    if minute.starting:
        return Finding(Reason.EVALUATION_POD_STARTING, f"pod {minute.starting} is starting")
    return None


def choose_cpu(topology: Topology, busy: Mapping[int, int], allowed: CPUSet, owned: CPUSet) -> int | Finding:
    """Return the CPU to measure on: the last thread of the core that was idlest in the minute before.

    ``busy`` is the usage of each CPU in basis points, ``allowed`` are the CPUs that the agent may use,
    ``owned`` those of pods.
    """
    candidates = {
        number: max(busy.get(cpu, _UNKNOWN) for cpu in cpus)
        for number, cpus in topology.cores.items()
        if 0 not in cpus and cpus.isdisjoint(owned) and not cpus.isdisjoint(allowed)
    }
    idle = {number: used for number, used in candidates.items() if used <= MOST_BUSY_CORE}
    if not idle:
        usable = f"the {len(candidates)} cores that the agent may use and no pod owns"
        message = f"none of {usable} was idle in the last minute" if candidates else _NO_CORE
        return Finding(Reason.EVALUATION_NO_IDLE_CORE, message)
    chosen = min(idle, key=lambda number: (idle[number], -number))
    return max(topology.cores[chosen] & allowed)


_UNKNOWN = 10_000
_NO_CORE = "beside that of CPU 0 there is no core that the agent may use and no pod owns"


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """What happened on the node while a kernel ran. Shares are in basis points.

    ``gave_way``: the worker lost CPU time to others and stopped. ``others`` is the usage of the other cores,
    ``siblings`` that of the core's other threads. ``throttled``: a CPU quota held the worker back.
    """

    gave_way: bool = False
    others: int = 0
    siblings: int = 0
    pressure: int = 0
    stolen: int = 0
    heated: int = 0
    throttled: bool = False


def disturbance(seen: Meanwhile, cpu: int) -> Finding | None:
    """Return the reason that a run ends and does not count; None if it goes on."""
    if seen.throttled:
        return Finding(Reason.EVALUATION_CGROUP_THROTTLED, "the agent's CPU limit held the worker back")
    if seen.stolen > MOST_STOLEN_MEANWHILE:
        message = f"a hypervisor gave {percent(seen.stolen)} of CPU {cpu}'s time to others during the run"
        return Finding(Reason.EVALUATION_STEAL_TIME, message)
    if seen.heated:
        return Finding(
            Reason.EVALUATION_THERMAL_THROTTLING, "the processor got too hot and slowed down during the run"
        )
    for share, most, message in (
        (10_000 * seen.gave_way, 0, f"other work wanted CPU {cpu}"),
        (seen.siblings, MOST_BUSY_SIBLING, f"other work ran on the core of CPU {cpu}"),
        (seen.others, MOST_BUSY_MEANWHILE, f"the other cores became busy ({percent(seen.others)})"),
        (
            seen.pressure,
            MOST_PRESSURE_MEANWHILE,
            f"tasks waited for a CPU {percent(seen.pressure)} of the time",
        ),
    ):
        if share > most:
            return Finding(Reason.EVALUATION_INTERRUPTED, message)
    return None


Rates = Mapping[str, int]
"""The rate of each kernel in one run."""


def rates_of(done: Mapping[str, Done]) -> Rates:
    """Return the rates of a run, by the CPU time that the worker got."""
    return {name: rate([replace(each, elapsed=each.cpu)]) for name, each in done.items()}


@dataclass(frozen=True, slots=True)
class TimedRun:
    """A run that counts, and its time (RFC 3339)."""

    rates: Rates
    time: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is known of a node: the runs of this agent on ``machine``, and ``before``, the report it found.

    ``machine`` is a report without scores and times: the CPU, its settings, and what it was measured with.
    ``runs`` are those of the score, the newest last.
    """

    machine: EvaluationReport
    runs: Sequence[TimedRun] = ()
    before: EvaluationReport | None = field(default=None)

    def on(self, machine: EvaluationReport) -> Evaluation:
        """Return the runs that are of this machine: none, if anything of it has changed."""
        return self if machine == self.machine else Evaluation(machine, before=self.before)

    def with_run(self, run: Rates, measured: str) -> Evaluation:
        """Return this with one more run that counts; ``measured`` is its time (RFC 3339)."""
        runs, now = [*self.runs, TimedRun(run, measured)][-MOST_RUNS:], datetime.fromisoformat(measured)
        # A clock that was set back leaves runs in the future: they are as far away as old ones.
        of_the_day = [each for each in runs if abs(now - datetime.fromisoformat(each.time)) < A_DAY]
        return replace(self, runs=of_the_day if len(of_the_day) >= FEWEST_RUNS else runs[-FEWEST_RUNS:])

    def report(self, time: str, finding: Finding | None = None) -> EvaluationReport:
        """Return the report; ``finding`` is why the node cannot be measured now."""
        reason, message = ("", "") if finding is None else (str(finding.reason), finding.message)
        return msgspec.structs.replace(self._scores(), time=time, reason=reason, message=message)

    def _scores(self) -> EvaluationReport:
        before = self.before
        kept = before is not None and machine_of(before) == self.machine and before.runs > 0
        if before is not None and kept and len(self.runs) < min(ENOUGH_RUNS, before.runs):
            return before
        if not self.runs:
            return self.machine
        score = scored(1, [each.rates for each in self.runs])
        return msgspec.structs.replace(
            self.machine,
            score=score.score,
            integer=score.integer,
            float=score.float,
            memory=score.memory,
            spread=score.spread,
            runs=len(self.runs),
            measured=self.runs[-1].time,
            measured_since=min(self.runs, key=lambda each: datetime.fromisoformat(each.time)).time,
        )


def machine_of(report: EvaluationReport) -> EvaluationReport:
    """Return a report without scores and times."""
    return msgspec.structs.replace(
        report,
        time="",
        score=0,
        integer=0,
        float=0,
        memory=0,
        spread=0,
        runs=0,
        measured="",
        measured_since="",
        reason="",
        message="",
    )
