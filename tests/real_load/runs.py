"""One run of a scenario with real processes: what online and offline pods got in every second.

The processes of the online pod follow the scenario's curve, one on each CPU of the machine, at slots spread
evenly; those of offline pods always want more, one in each pod, on whichever CPU. Whatever holds offline pods
back has its tick each second, in real time, right after the counters have been read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from corewise.agent.objects import QuotaPod
from experiments.suppression_proof.closed_loop import Sample, Series
from experiments.suppression_proof.holders import Held
from real_load.crew import Crew, Curve, Worker
from real_load.kubelet_tree import KubeletTree
from real_load.scenarios import WARM_UP, Scenario
from real_load.spinner import SLOT

_NANO = 1_000_000_000
_FULL = ((0.0, 1.0),)


def cpus_here() -> tuple[int, ...]:
    """Return the CPUs that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


class Holder(Protocol):
    """Something that holds offline pods back."""

    def tick(self, now: float) -> Held: ...


class Nobody:
    """Holds no one back."""

    def tick(self, now: float) -> Held:
        return Held()


@dataclass(frozen=True, slots=True)
class Second:
    """One second of a run: work done in it, CPUs of offline pods, and what came of the tick at its end."""

    at: int
    work: float
    offline: float
    held: Held


@dataclass(frozen=True, slots=True)
class Node:
    """The real node of a run; online and offline pods are there."""

    tree: KubeletTree
    online: QuotaPod
    offline: Sequence[QuotaPod]
    cpus: Sequence[int]

    def run(self, scenario: Scenario, holder: Holder | None, *, lead: float = 0.5) -> list[Second]:
        """Run a scenario with offline pods, or without if ``holder`` is None."""
        began = time.monotonic() + lead
        with Crew() as crew:
            online = self._start_online(crew, scenario.curve, began)
            if holder:
                self._start_offline(crew, began)
            return self._follow(crew, online, scenario.seconds, began, holder or Nobody())

    def _start_online(self, crew: Crew, curve: Curve, began: float) -> list[Worker]:
        starts = [began + SLOT * index / len(self.cpus) for index in range(len(self.cpus))]
        return [
            self._start(crew, self.online, curve, start, cpu)
            for start, cpu in zip(starts, self.cpus, strict=True)
        ]

    def _start_offline(self, crew: Crew, began: float) -> list[Worker]:
        return [self._start(crew, pod, _FULL, began) for pod in self.offline]

    def _start(self, crew: Crew, pod: QuotaPod, curve: Curve, began: float, cpu: int | None = None) -> Worker:
        directories = self.tree.process_directories(self.tree.container(pod))
        return crew.start(directories, curve, began, cpu)

    def _follow(
        self, crew: Crew, online: Sequence[Worker], seconds: int, began: float, holder: Holder
    ) -> list[Second]:
        rows = []
        time.sleep(max(0.0, began - time.monotonic()))
        before = self._counters(crew, online)
        holder.tick(before[0])
        for number in range(1, seconds + 1):
            time.sleep(max(0.0, began + number - time.monotonic()))
            after = self._counters(crew, online)
            held = holder.tick(after[0])
            work, lent = (
                (now - then) / (after[0] - before[0]) for now, then in zip(after[1:], before[1:], strict=True)
            )
            rows.append(Second(number, work, lent / _NANO, held))
            before = after
        return rows

    def _counters(self, crew: Crew, online: Sequence[Worker]) -> tuple[float, int, int]:
        """Return the time, work done by online pods, and CPU time of offline pods."""
        lent = self.tree.usage(self.tree.best_effort)
        return time.monotonic(), crew.done(online), lent


def series(
    cpus: int, scenario: Scenario, rows: Sequence[Second], alone: Sequence[Second], step: int
) -> Series:
    """Join a run with one of online work alone to what figures are taken of; the warm-up is left out.

    Where nothing is aimed at (option 2), the target is where the quota comes to rest.
    """
    samples = [
        Sample(
            at=float(row.at),
            quota=row.held.quota,
            target=_rest(cpus, scenario, rows, row) if row.held.target is None else row.held.target,
            online_wanted=cpus * scenario.mean(row.at - 1, row.at),
            work=row.work,
            work_alone=lone.work,
            offline=row.offline,
            offline_wanted=float(cpus),
        )
        for row, lone in zip(rows, alone, strict=True)
    ]
    return Series(cpus, step, scenario.jumps, tuple(samples[WARM_UP:]))


def _rest(cpus: int, scenario: Scenario, rows: Sequence[Second], row: Second) -> int:
    """Return the last quota of the phase that a row is in, or what there is without one."""
    end = next((jump for jump in scenario.jumps if row.at <= jump), rows[-1].at)
    quota = next(each.held.quota for each in reversed(rows) if each.at <= end)
    return cpus * 1000 if quota is None else quota
