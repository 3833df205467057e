"""One run on real cgroups: a node of one or two CPUs, its pods, and the agent's watch over them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec

from corewise.agent.cgroups import NodeCgroups
from corewise.agent.interference.neighbors import NeighborSampler
from corewise.agent.interference.waiting import Verdict, WaitWatch
from corewise.agent.objects import QuotaPod
from corewise.agent.quota_targets import targets_of
from corewise.interference.antagonist import Wait, judge
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Layout, QOSClass, find_layout, find_pod_cgroups
from corewise.kernel.cgroups.waits import WaitSource
from corewise.kernel.host_files import HostFiles
from corewise.kernel.usage import BusyTime, read_cpu_times
from corewise.kernel.writing.journal import MemoryLog
from corewise.quantities import ONE, Microseconds
from corewise.topology import CPUSet
from experiments.antagonist.scenarios import ANTAGONIST, VICTIM, Load, Scenario

PARENT = "corewise-antagonist"
LENGTH = 30
"""Seconds from the beginning of the antagonist until the run is over."""
SOURCES = (WaitSource.PRESSURE, WaitSource.TASKS)
_WEIGHT = "65536"
"""Of the parent. Other work takes little from the node's CPUs, and counts as processes outside pods."""
_PERIOD = Microseconds(100_000)
_TICK, _NANO = 10_000_000, 1_000_000_000
_STEP = 0.05


class Named(msgspec.Struct, frozen=True):
    """An antagonist that was named, and how many seconds after it began; less than 0: before it did."""

    name: str
    after: float
    share: float
    slowdown: float


class Seen(msgspec.Struct):
    """The first neighbor named for each pod, and the last reason of the victim's verdict."""

    named: dict[str, Named] = msgspec.field(default_factory=dict)
    reason: str = ""

    def note(self, verdicts: Mapping[str, Verdict], after: float) -> None:
        for each in verdicts.values():
            judgment, pod = each.judgment, each.judgment.pod
            if judgment.antagonist and pod not in self.named:
                suspect = judgment.suspects[0]
                share, slowdown = round(suspect.share, 3), round(suspect.slowdown, 3)
                self.named[pod] = Named(judgment.antagonist, after, share, slowdown)
            if pod == VICTIM:
                self.reason = str(judgment.reason)


class Outcome(msgspec.Struct):
    """A run: what the agent saw by each source of waits. ``outside``: CPUs used by processes outside pods."""

    scenario: Scenario
    seen: dict[str, Seen]
    outside: float = 0.0


class Programs(msgspec.Struct, frozen=True):
    """The compiled programs."""

    load: Path
    antagonist: Path


def _pod(name: str, request: int, limit: int = 0) -> QuotaPod:
    short = name.partition("/")[2]
    resources = {"requests": {"cpu": f"{request}m"}, "limits": {"cpu": f"{limit}m"} if limit else {}}
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    body: dict[str, Any] = {
        "metadata": {"name": short, "namespace": "default", "uid": f"uid-{short}"},
        "spec": {"containers": [{"name": "main", "resources": resources}]},
        "status": {
            "phase": "Running",
            "qosClass": QOSClass.BURSTABLE.value,
            "containerStatuses": [{"name": "main", "containerID": f"containerd://{short}", "state": running}],
        },
    }
    return msgspec.convert(body, QuotaPod)


class Node:
    """The cgroups and processes of one run; leaving it ends and removes them."""

    def __init__(self, scenario: Scenario, cpus: CPUSet, programs: Programs, directory: Path) -> None:
        self.layout: Layout = find_layout()
        self._programs = programs
        self._cpus = cpus
        self._counters = directory / "done"
        self._counters.write_bytes(bytes(64))
        self.root = f"/{PARENT}/node-{'-'.join(map(str, sorted(cpus)))}"
        self._mounts = [self.layout.mounts[each] for each in ("cpu", "cpuacct", "cpuset")]
        if self.layout.unified is not None:
            self._mounts.append(self.layout.unified)
        self._made: list[Path] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._antagonists: list[subprocess.Popen[bytes]] = []
        self._runs = False
        self.pods: dict[str, QuotaPod] = {}
        self.scenario = scenario

    def __enter__(self) -> Self:
        burstable = f"{self.root}/kubepods/burstable"
        for cgroup in (f"/{PARENT}", self.root, f"{self.root}/kubepods", burstable):
            self._make(cgroup)
        (self.layout.cpu / PARENT / "cpu.shares").write_text(_WEIGHT)
        self._names = find_pod_cgroups(CgroupFiles(self.layout), self.root)
        shares = 0
        scenario = self.scenario
        for load in (scenario.victim, *scenario.neighbors):
            shares += self._start(load.name, load.request, load.limit, self._load_command(load))
        if scenario.antagonist:
            command = [str(self._programs.antagonist), scenario.kind, str(self._counters), "0"]
            shares += self._start(
                ANTAGONIST, scenario.request, 0, command, copies=scenario.cpus, stopped=True
            )
        else:
            shares += self._start(ANTAGONIST, scenario.request, 0, ["sleep", "1000"])
        (self.layout.cpu / burstable[1:] / "cpu.shares").write_text(str(shares))
        return self

    def __exit__(self, *_exception: object) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for directory in reversed(self._made):
            for _ in range(200):
                try:
                    directory.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    if directory.name == PARENT:  # another node is in it
                        break
                    time.sleep(0.02)
                else:
                    break

    def watch(self, length: float = LENGTH) -> Outcome:
        """Let the agent watch the pods until it has named somebody by every source, or the time is over.

        ``length``: seconds from the beginning of the antagonist until then.
        """
        began, before = time.monotonic(), self._used_outside()
        outcome = Outcome(self.scenario, {source: Seen() for source in SOURCES})
        with ExitStack() as stack:
            watches = {source: self._watch_of(source, stack) for source in SOURCES}
            due = dict.fromkeys(SOURCES, began)
            while (now := time.monotonic()) < began + self.scenario.begins + length:
                self._signal(now - began)
                for source in (each for each in SOURCES if now >= due[each]):
                    due[source] = now + watches[source].look(now, time.time(), self.pods.values())
                    since = time.monotonic() - began - self.scenario.begins
                    outcome.seen[source].note(watches[source].verdicts, round(since, 1))
                if all(VICTIM in each.named for each in outcome.seen.values()):
                    break
                time.sleep(_STEP)
        outcome.outside = round((self._used_outside() - before) / (time.monotonic() - began), 3)
        return outcome

    def cost(self, looks: int) -> dict[str, tuple[float, float]]:
        """Return the CPU seconds of one look at all pods, and of judging one of them, by source."""
        costs = {}
        victim = self.pods[VICTIM].uid
        requests = dict.fromkeys((pod.uid for pod in self.pods.values()), 0.1)
        for source in SOURCES:
            with ExitStack() as stack:
                sampler = self._watch_of(source, stack).sampler
                sampler.sample(time.monotonic(), self.pods.values())
                began, found = time.process_time(), []
                for _ in range(looks):
                    time.sleep(_STEP)
                    found.append(sampler.sample(time.monotonic(), self.pods.values()))
                reading = (time.process_time() - began) / looks
                waits = [replace(each, seconds=1.0) for each in found if each is not None]
                waits = [replace(each, waits={**each.waits, victim: Wait(1.0)}) for each in waits]
                began = time.process_time()
                for _ in range(looks):
                    judge(victim, waits, requests)
                costs[str(source)] = reading, (time.process_time() - began) / looks
        return costs

    def _watch_of(self, source: WaitSource, stack: ExitStack) -> WaitWatch:
        cgroups = NodeCgroups(Path("/"), self.root, MemoryLog(), now=time.time)
        stack.callback(cgroups.close)
        return WaitWatch(NeighborSampler(Path("/"), cgroups, busy=self._busy, only=source))

    def _used_outside(self) -> float:
        """Return the CPU seconds of processes outside the pods on the node's CPUs, since any time."""
        busy = self._busy()
        used = int((self.layout.mounts["cpuacct"] / self.root[1:] / "cpuacct.usage").read_text())
        return 0.0 if busy is None else (busy.busy - used) / _NANO

    def _signal(self, at: float) -> None:
        """Let the antagonist run or pause, as the scenario has it."""
        on, off = self.scenario.pauses or (1.0, 0.0)
        since = at - self.scenario.begins
        runs = since >= 0 and since % (on + off) < on
        if runs is not self._runs:
            self._runs = runs
            for process in self._antagonists:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGCONT if runs else signal.SIGSTOP)

    def _busy(self) -> BusyTime | None:
        times = read_cpu_times(HostFiles("/"))
        if times is None:
            return None
        return BusyTime(
            sum((times[cpu].busy - times[cpu].stolen) * _TICK for cpu in self._cpus), len(self._cpus)
        )

    def _load_command(self, load: Load) -> list[str]:
        arguments = (load.threads, load.part, load.period, self.scenario.seed * 100 + len(self.pods))
        return [str(self._programs.load), *map(str, arguments)]

    def _start(
        self,
        name: str,
        request: int,
        limit: int,
        command: list[str],
        *,
        copies: int = 1,
        stopped: bool = False,
    ) -> int:
        """Make the cgroups of a pod with kubelet's quotas and weights, and start its processes."""
        pod = self.pods[name] = _pod(name, request, limit)
        shares = max(2, request * 1024 // 1000)
        container = ""
        for target in targets_of(pod, pod.spec, self._names):
            self._make(target.cgroup)
            directory = self.layout.cpu / target.cgroup[1:]
            quota = target.quota(_PERIOD, ONE)
            if quota is not None:
                (directory / "cpu.cfs_quota_us").write_text(str(quota))
            (directory / "cpu.shares").write_text(str(shares))
            container = target.cgroup if target.container else container
        files = [mount / container[1:] / "cgroup.procs" for mount in self._mounts]
        for _ in range(copies):
            process = subprocess.Popen(command, preexec_fn=partial(_enter, files))  # noqa: PLW1509 - no threads
            self._processes.append(process)
            if stopped:
                self._antagonists.append(process)
                os.killpg(process.pid, signal.SIGSTOP)
        return shares

    def _make(self, cgroup: str) -> None:
        for mount in self._mounts:
            directory = mount / cgroup[1:]
            with suppress(FileExistsError):
                directory.mkdir()
            self._made.append(directory)
            if mount == self.layout.mounts["cpuset"]:
                (directory / "cpuset.mems").write_text((mount / "cpuset.mems").read_text())
                text = str(self._cpus) if cgroup != f"/{PARENT}" else (mount / "cpuset.cpus").read_text()
                (directory / "cpuset.cpus").write_text(text)


def _enter(files: list[Path]) -> None:
    os.setpgid(0, 0)
    for file in files:
        file.write_text(str(os.getpid()))
