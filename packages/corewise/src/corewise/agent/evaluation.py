"""Measures this node's CPUs now and then, and shows the result on its NodeResourceTopology.

The counters are read a minute before the node's slot (:mod:`corewise.normalization.evaluation`), and again at
the slot. If the node was nearly idle in between, a run follows (:mod:`corewise.agent.evaluation_run`). The
report changes after each run, and when a slot passes without one for another reason than the last.
:mod:`corewise.agent.topology_report` writes it to the NodeResourceTopology, and again if it is missing there.
After a restart it also tells when the last run was, so that restarts do not add runs.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from corewise.agent.evaluation_run import Bench, pressure_share
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.topology_report import TOPOLOGIES
from corewise.agent.watched import Watched
from corewise.kernel.cpu_conditions import CPUConditions, read_conditions, read_identity
from corewise.kernel.host_files import HostFiles
from corewise.kernel.machine import MachineReading, read_machine
from corewise.kernel.usage import busy_share, read_memory_available, stolen_share
from corewise.kube.client import Client
from corewise.kube.clock import Clock, rfc3339
from corewise.kube.errors import KubeError, NotFound
from corewise.normalization.evaluation import (
    LOOKED_BACK,
    Evaluation,
    NodeMinute,
    choose_cpu,
    next_slot,
    pause_after,
    rates_of,
    refusal,
)
from corewise.normalization.mix import VERSION, Done
from corewise.prometheus.exposition import Exposition
from corewise.service.logs import fields
from corewise.service.program import Heartbeats
from corewise.topology import CPUSet
from corewise.vocabulary import metrics
from corewise.vocabulary.evaluation_report import EvaluationReport, decode
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import CPU_EVALUATION
from corewise.vocabulary.reasons import Reason

NAME = "evaluation"
MEASURED = "measured"
"""The outcome of a run that counts; that of others is the reason code."""

_STARTING_FOR = 60.0
_UNREADY_FOR = 600.0
"""Seconds: a container is starting for so long; and a pod without the condition Ready, after it was bound."""

_LONG_SILENCE = 300.0
_OTHER_KERNEL = Finding(Reason.OTHER_KERNEL, "the files below --root have another boot ID than this kernel")
_NO_COUNTERS = Finding(Reason.HOST_FILE_UNREADABLE, "/proc/stat cannot be read")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Slot:
    """The outcome of a slot, and the seconds that the node was measured for."""

    outcome: Mapping[str, Done] | Finding
    machine: EvaluationReport
    seconds: float = 0.0


class EvaluationLoop:
    """The loop of one agent. ``bench`` is None where the files below the root are of another kernel.

    ``show`` is called with the annotation that the node is to have.
    """

    def __init__(
        self,
        local: LocalNode,
        watched: Watched,
        client: Client,
        *,
        show: Callable[[str], None],
        root: Path,
        bench: Bench | None,
        minutes: float,
        metrics: Exposition,
        clock: Clock,
    ) -> None:
        self._local = local
        self._watched = watched
        self._client = client
        self._show = show
        self._root = root
        self._bench = bench
        self._minutes = minutes
        self._metrics = metrics
        self._clock = clock
        self._before: EvaluationReport | None = None
        self._known: Evaluation | None = None
        self._due: float | None = None
        self._said: Reason | None = None

    async def run(self, heartbeats: Heartbeats) -> None:
        """Use each slot of the node until canceled.

        Called again after a crash, it goes on from what it knows: the API may have an older report.
        """
        await self._watched.synced()
        if self._due is None:
            self._before = await self._stated(heartbeats)
            if self._before is not None:
                self._show(self._before.encode())
            self._due = self._due_after(self._before)
        while True:
            now, wait = self._clock.now().timestamp(), self._due - self._clock.monotonic()
            slot = next_slot(self._local.name, now + max(LOOKED_BACK, wait))
            heartbeats.beat(NAME, slot - now + _LONG_SILENCE)
            await self._clock.sleep(slot - now - LOOKED_BACK)
            began = self._read()
            await self._clock.sleep(LOOKED_BACK)
            self._take(await self._use_slot(began))

    async def _stated(self, heartbeats: Heartbeats) -> EvaluationReport | None:
        """Return the report of the agent before this one, once the API server answers."""
        while True:
            heartbeats.beat(NAME, _LONG_SILENCE)
            try:
                topology = await self._client.get(TOPOLOGIES, self._local.name)
            except NotFound:
                return None
            except KubeError:
                await self._clock.sleep(LOOKED_BACK)
            else:
                annotations = (topology.get("metadata") or {}).get("annotations") or {}
                return decode(annotations.get(CPU_EVALUATION, ""))

    def _due_after(self, before: EvaluationReport | None) -> float:
        """Return the time before which a new agent does not measure: monotonic, in seconds."""
        last, now = 0.0 if before is None else _seconds(before.time), self._clock.now().timestamp()
        return self._clock.monotonic() - max(0.0, now - last) + pause_after(_A_RUN, self._minutes)

    async def _use_slot(self, began: CPUConditions | None) -> _Slot:
        reading = await asyncio.to_thread(read_machine, self._root)
        cpu = self._cpu_or_finding(began, reading)
        machine = machine_report(reading, self._root)
        if isinstance(cpu, Finding):
            return _Slot(cpu, machine)
        if self._bench is None:
            return _Slot(_OTHER_KERNEL, machine)
        stop, start = Event(), self._clock.monotonic()
        try:
            outcome = await asyncio.to_thread(self._bench.measure, reading.host.topology, cpu, stop)
        finally:
            stop.set()
            ended = self._clock.monotonic()
            self._due = start + pause_after(ended - start, self._minutes)
        return _Slot(outcome, machine, ended - start)

    def _cpu_or_finding(self, began: CPUConditions | None, reading: MachineReading) -> int | Finding:
        """Return the CPU to measure on, or why none is measured."""
        ended, topology = self._read(), reading.host.topology
        if self._bench is None:
            return _OTHER_KERNEL
        if began is None or ended is None:
            return _NO_COUNTERS
        now = self._clock.now().timestamp()
        available = [read_memory_available(HostFiles(self._root)), self._bench.memory_left()]
        known = [each for each in available if each is not None]
        minute = NodeMinute(
            model=reading.cpu.facts.model,
            cores_alike=not reading.host.kinds,
            busy=busy_share(began.times, ended.times, topology.cpus),
            stolen=stolen_share(began.times, ended.times, topology.cpus),
            pressure=pressure_share(began, ended, topology.cpus),
            heated=max(0, ended.heated - began.heated),
            memory=min(known) if known else None,
            starting=starting_pod(self._watched.pods, now),
        )
        refused = refusal(minute)
        if refused is not None:
            return refused
        busy = {cpu: busy_share(began.times, ended.times, CPUSet.of([cpu])) for cpu in topology.cpus}
        return choose_cpu(topology, busy, self._bench.allowed(), self._owned())

    def _owned(self) -> CPUSet:
        """Return the CPUs that pods own, by their claims or by kubelet's CPU manager."""
        manager = self._local.cpu_manager()
        exclusive = CPUSet.of(cpu for cpus in manager.exclusive.values() for cpu in cpus)
        return self._local.pins.division.owned | exclusive

    def _take(self, slot: _Slot) -> None:
        """Count and report the outcome of a slot."""
        now, outcome = self._clock.now(), slot.outcome
        if self._known is None:
            self._known = Evaluation(slot.machine, before=self._before)
        self._known = self._known.on(slot.machine)
        finding = outcome if isinstance(outcome, Finding) else None
        if not isinstance(outcome, Finding):
            self._known = self._known.with_run(rates_of(outcome), rfc3339(now))
        self._metrics.count(metrics.EVALUATION_RUNS, MEASURED if finding is None else str(finding.reason))
        report = self._known.report(rfc3339(now), finding)
        scores: dict[tuple[str, ...], float] = {}
        if report.score:
            scores[report.cpu_model,] = float(report.score)
        self._metrics.replace(metrics.EVALUATION_SCORE, scores)
        log.info(
            "evaluation: %s",
            f"score {report.score}, {report.runs} runs" if finding is None else finding.message,
            extra=fields(node=self._local.name, reason="" if finding is None else finding.reason),
        )
        said = None if finding is None else finding.reason
        if slot.seconds or said is not self._said:
            self._said = said
            self._show(report.encode())

    def _read(self) -> CPUConditions | None:
        return read_conditions(HostFiles(self._root))


_A_RUN = 4.0
"""Seconds that a run takes, the start of the child included; a run that has been made counts as it was."""


def machine_report(reading: MachineReading, root: Path) -> EvaluationReport:
    """Return the report of a machine without scores: what they depend on."""
    facts, identity = (
        reading.cpu.facts,
        read_identity(HostFiles(root), min(reading.host.topology.cpus, default=0)),
    )
    return EvaluationReport(
        time="",
        cpu_model=facts.model,
        vendor_id=facts.vendor,
        hyper_thread_enabled=facts.hyper_threading,
        turbo_enabled=facts.turbo,
        online_cpus=len(reading.host.topology.cpus),
        frequency=identity.frequency,
        kernel=identity.kernel,
        microcode=identity.microcode,
        architecture=platform.machine(),
        python=platform.python_version(),
        zlib=zlib.ZLIB_RUNTIME_VERSION,
        mix=VERSION,
    )


def starting_pod(pods: Iterable[QuotaPod], now: float) -> str:
    """Return the name of a pod that is starting, "" if none is; ``now`` in seconds since 1970.

    That is one with a container that has run for less than a minute, or without the condition Ready in the
    first ten minutes after it was bound. A pod that is still not ready then does not start any more.
    """
    return min((pod.name for pod in pods if not pod.has_ended and _is_starting(pod, now)), default="")


def _is_starting(pod: QuotaPod, now: float) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    if not ready and now - _seconds(pod.bound_at) < _UNREADY_FOR:
        return True
    running = [each.state.running for each in pod.status.all_containers if each.state.running]
    return any(now - _seconds(each.get("startedAt") or "") < _STARTING_FOR for each in running)


def _seconds(time: str) -> float:
    """Return a time of the API in seconds since 1970; 0 if it is none."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
