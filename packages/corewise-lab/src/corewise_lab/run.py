"""One run of the local cluster: corewise off and measured, on and measured, at rest, reported.

The two measurements see the same machines, pods and simulated time; what lies between is what the manager
did. When the nodes offer more CPU, the pod groups that fill a share of it grow, so that the second
measurement shows full nodes as the first did.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from corewise.amplification.policy import NAME as AMPLIFICATION
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.errors import KubeError
from corewise.scheduler.installation import Pods
from corewise.scheduler.marking import NAME as INTERFERENCE
from corewise.scheduler.policy import NAME as OWNED_CPUS
from corewise.views.text import count
from corewise.vocabulary.errors import first_error
from corewise.vocabulary.names import CONFIG_NAMESPACE
from corewise_lab import control_plane
from corewise_lab.cluster import LocalCluster, local_cluster
from corewise_lab.control_plane import ClusterError, LocalProgram, resident_memory, running
from corewise_lab.extender_calls import ExtenderCalls
from corewise_lab.kubelets import Periods
from corewise_lab.measurement import ClusterMeasurement, Colocation
from corewise_lab.metrics_server import metrics_server
from corewise_lab.node_memory import MemoryState, MemorySummary, summary
from corewise_lab.plan import Plan
from corewise_lab.report import Measurement, Rest, RunReport

if TYPE_CHECKING:
    from corewise.views.cluster_report import ClusterReport

_SETTLE_SECONDS = 120.0
_SHORTEST_REST = 0.5
"""Seconds; a count over less says nothing."""
_LONGEST_REST_OFF = 12.0
_SHARE_OF_REST_OFF = 0.25
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PROFILED = (
    "with corewise on, kube-scheduler asks corewise about pods that memory contention slows down or that "
    "cause it (set up by: corewise scheduler config --config FILE)"
)
_FIRST_ROUND = 1.1
"""Of a status period: by then every kubelet has had its turn."""


class RunListener(Protocol):
    """Gets the progress of a run."""

    def progress(self, text: str) -> None:
        """Show progress."""

    def waiting(self, text: str) -> None:
        """A wait makes no progress."""

    def started(self, plan: Plan) -> None:
        """The run has begun."""

    def loaded(self, pods: int, seconds: float) -> None:
        """Nodes and pods are in place."""

    def measured(self, snapshot: ClusterMeasurement, *, on: bool) -> None:
        """A measurement has been made."""

    def colocated(self, of: Mapping[str, Colocation], *, on: bool) -> None:
        """Take the measured CPU of online and offline pods beside each other, on nodes that have both."""

    def crowded(self, of: MemorySummary, pending: int, *, on: bool) -> None:
        """Take the measured contention for memory, and the number of pods without a node."""

    def at_rest(self, page: str) -> None:
        """All nodes and pods are in place; the cluster runs on. ``page``: the address of its web page."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run. ``duration`` is counted from the start; None is until ``stop``."""

    plan: Plan
    folder: control_plane.Folder
    duration: float | None = None
    periods: Periods = field(default_factory=Periods)
    settle_seconds: float = _SETTLE_SECONDS
    kubeconfig_out: Path | None = None
    """Where to write a copy of the administrator's kubeconfig."""
    with_cluster: bool = False
    """Whether the report has the cluster as ``corewise report`` reads it at the end."""


@dataclass
class _Clock:
    """Seconds since the run began, and the marks made on the way."""

    started: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    marks: dict[str, float] = field(default_factory=dict)

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() - self.started

    @asynccontextmanager
    async def timed(self, name: str) -> AsyncIterator[None]:
        before = self()
        yield
        self.marks[name] = self() - before


async def run(options: RunOptions, listener: RunListener, stop: asyncio.Event) -> RunReport:
    """Run the cluster until its time is over or ``stop`` is set, and report.

    Raises:
        ClusterError: if a process of the cluster died or did not come up.
        KubeError: if the API refused a part of the plan.
        BrokenPipeError: if the listener can no longer print.
    """
    try:
        return await _run(options, listener, stop)
    except BaseExceptionGroup as group:
        raise _first_cause(group, options.folder.path) from None
    except OSError as error:
        raise (_no_room(options.folder.path, error) if _is_no_room(error) else error) from None


def _first_cause(group: BaseExceptionGroup[BaseException], folder: Path) -> BaseException:
    """Return the error that a person can act on; the group itself if there is none, for that is a bug."""
    if known := first_error(group, ClusterError, KubeError, BrokenPipeError):
        return known
    no_room = group.subgroup(_is_no_room)
    return _no_room(folder, first_error(no_room, OSError) or no_room) if no_room else group


def _is_no_room(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def _no_room(folder: Path, error: BaseException) -> ClusterError:
    return ClusterError(f"cannot write to {folder}: {error}; make sure there is space, and start it again")


async def _run(options: RunOptions, listener: RunListener, stop: asyncio.Event) -> RunReport:
    clock = _Clock()
    listener.started(options.plan)
    listener.progress("starting the API server")
    async with (
        local_cluster(options.plan, options.folder, periods=options.periods) as cluster,
        AsyncExitStack() as stack,
    ):
        cluster.waits.tell, cluster.waits.show = listener.waiting, listener.progress
        return await _Run(options, listener, stop, clock, cluster, stack).report()


@dataclass
class _Run:
    """A run whose cluster is up."""

    options: RunOptions
    listener: RunListener
    stop: asyncio.Event
    clock: _Clock
    cluster: LocalCluster
    stack: AsyncExitStack
    programs: dict[str, LocalProgram] = field(default_factory=dict)

    async def _serve_page(self) -> str:
        """Serve the web page, and return where."""
        self.listener.progress("starting the web page")
        folder, address = self.options.folder, f"127.0.0.1:{control_plane.reserve_port()}"
        arguments = ("web", "--kubeconfig", str(folder.kubeconfig), "--listen", address)
        page = LocalProgram("web page", arguments, folder.log("web"), f"http://{address}")
        child = await self.stack.enter_async_context(control_plane.running_program(page))
        await control_plane.answers(child, page.url)
        return page.url

    async def report(self) -> RunReport:
        options, listener, clock, cluster = self.options, self.listener, self.clock, self.cluster
        await self._load()
        off = None
        if not cluster.was_on:
            off = await self._measure_off()
            listener.progress("turning corewise on: writing its configuration")
            await cluster.turn_on()
            if cluster.interference:
                listener.progress(
                    "placing the pods again: the scheduler now knows how much memory bandwidth they use"
                )
                await cluster.rearrange()
            await self._start_programs()
        unsettled = await self._bring_to_ratios()
        measured = await self._measure(on=True)
        memory = self._contention(on=True)
        colocation = await self._colocate(on=True)
        listener.at_rest("" if options.duration else await self._serve_page())
        async with running(cluster.simulations.run, cluster.metrics.run):
            rest = await self._rest_on()
        listener.progress("measuring what pods get once more")
        last = await cluster.snapshot()
        read = await self._read_cluster() if options.with_cluster else None
        changed = last.pods_by_node != measured.pods_by_node
        clock.marks["total"] = clock()
        counters = cluster.kubelets.counters
        resident = {name: child.memory() for name, child in cluster.children.items()}
        return RunReport(
            source=options.plan.source,
            notes=(*options.plan.notes, *([_PROFILED] if cluster.interference else [])),
            off=off,
            on=Measurement(
                measured if changed else last,
                colocation,
                memory,
                cluster.scheduler.pending,
                None if changed else rest,
            ),
            changed=changed,
            unsettled=tuple(unsettled),
            nodes_not_simulated=cluster.simulations.left_out,
            seconds=clock.marks,
            memory={**resident, "simulation": resident_memory(os.getpid())},
            failed_requests=counters.failures,
            last_failure=counters.last_failure,
            cluster=read,
        )

    async def _read_cluster(self) -> ClusterReport:
        from corewise.views.cluster_reading import read_report  # noqa: PLC0415 - slow to import, few want it

        source = f"local cluster, {self.options.plan.source}"
        self.listener.progress("counting the machines saved: all pods are placed again, twice")
        return await read_report(self.cluster.client, CONFIG_NAMESPACE, source, SYSTEM_CLOCK.now())

    async def _load(self) -> None:
        """Put nodes and pods in; the manager is there before, if this cluster was on when it was left."""
        options, cluster = self.options, self.cluster
        if options.kubeconfig_out is not None:
            await asyncio.to_thread(
                control_plane.copy_private, options.folder.kubeconfig, options.kubeconfig_out
            )
        if cluster.was_on:
            await self._start_programs()
        self.listener.progress(f"creating {count(len(cluster.machines), 'node')} and their pods")
        await cluster.load()
        self.clock.marks["load"] = self.clock()
        self.listener.loaded(len(cluster.pods), self.clock())

    async def _measure_off(self) -> Measurement:
        """Measure the cluster without corewise, and count its node writes at rest if there is time."""
        off = await self._measure(on=False)
        colocation = await self._colocate(on=False)
        seconds, duration = 1.0, self.options.duration
        if duration is not None:
            seconds = min(_LONGEST_REST_OFF, max(0.0, duration - self.clock()) * _SHARE_OF_REST_OFF)
        self.listener.progress("counting writes of nodes while nothing changes")
        rest = await self._rest(seconds)
        memory = self._contention(on=False)
        pending = self.cluster.scheduler.pending
        return Measurement(off, colocation, memory, pending, rest if rest.seconds >= _SHORTEST_REST else None)

    async def _measure(self, *, on: bool) -> ClusterMeasurement:
        """Measure the compute that pods get."""
        self.listener.progress(f"measuring what pods get, corewise {'on' if on else 'off'}")
        measured = await self.cluster.snapshot()
        self.listener.measured(measured, on=on)
        return measured

    async def _colocate(self, *, on: bool) -> Mapping[str, Colocation]:
        """Measure the CPU that online and offline pods get beside each other."""
        self.listener.progress("simulating nodes with offline pods")
        async with self.clock.timed("simulateOn" if on else "simulateOff"):
            beside = await self.cluster.simulations.measure(on=on)
        self.listener.colocated(beside, on=on)
        return beside

    def _contention(self, *, on: bool) -> Mapping[str, MemoryState]:
        """Measure the pods' contention for memory bandwidth and cache."""
        states = self.cluster.memory.states()
        if states:
            self.listener.crowded(summary(states.values()), self.cluster.scheduler.pending, on=on)
        return states

    async def _start_programs(self) -> None:
        """Start the manager and the scheduler: before kubelets do, where nodes are amplified already."""
        self.listener.progress("starting the manager and the scheduler")
        cluster, folder, manifests = self.cluster, self.options.folder, control_plane.shipped_manifests()
        scheduler = await self._scheduler_arguments()
        for kind, more in ((control_plane.MANAGER, ()), (control_plane.SCHEDULER, scheduler)):
            made = self.programs[kind] = control_plane.program(folder, manifests, kind, more=more)
            child = control_plane.running_program(made)
            cluster.children[kind] = await self.stack.enter_async_context(child)
        if cluster.was_on:
            await cluster.installed(AMPLIFICATION, self.programs[control_plane.MANAGER].url)
            await self._reach_scheduler()

    async def _scheduler_arguments(self) -> list[str]:
        """Return the arguments by which the scheduler gets the plan's file for it, and nodes' metrics."""
        plan, found = self.options.plan, list[str]()
        for namespace in plan.qos_namespaces:
            found += ["--restricted-qos-namespace", namespace]
        if plan.scheduler:
            file = self.options.folder.path / "scheduler.yaml"
            await asyncio.to_thread(file.write_text, plan.scheduler, encoding="utf-8")
            found += ["--config", str(file)]
        if settings := self.cluster.interference:
            server = metrics_server(settings, self.cluster.memory.states)
            found += ["--prometheus", await self.stack.enter_async_context(server)]
        return found

    async def _reach_scheduler(self) -> None:
        """Have the stand-in of kube-scheduler call the scheduler, for the pods that the plan needs."""
        cluster, url = self.cluster, self.programs[control_plane.SCHEDULER].url
        for policy in (OWNED_CPUS, *([INTERFERENCE] if cluster.interference else [])):
            await cluster.installed(policy, url)
        pods = Pods.PROFILED if cluster.interference else Pods.OWNED
        cluster.scheduler.extender = await cluster.waits.ending(
            "the scheduler's client certificate", ExtenderCalls.connect(cluster.client, [url], pods)
        )

    async def _bring_to_ratios(self) -> list[str]:
        """Wait for the manager, then let pods take what nodes offer now; return the nodes left over."""
        options, cluster = self.options, self.cluster
        self.listener.progress("corewise is on: the manager writes the ratios of the nodes")
        async with self.clock.timed("settle"):
            unsettled = await cluster.settle(timeout=options.settle_seconds)
        async with self.clock.timed("fill"):
            if cluster.scheduler.extender is None:
                await self._reach_scheduler()
            await cluster.try_rejected()
            await cluster.fill()
        return unsettled

    async def _rest_on(self) -> Rest | None:
        """Let the rest of the time pass, and count once every kubelet has reported since the change.

        Its first report after a change of amounts makes the kubelet their owner in managedFields, which is
        stored; after that, the node is at rest. None if the time does not suffice.
        """
        duration = self.options.duration
        left = None if duration is None else max(0.0, duration - self.clock())
        first_round = self.options.periods.status * _FIRST_ROUND
        if left is not None and left <= first_round:
            await self._rest(left)
            return None
        await self._rest(first_round)
        if self.stop.is_set():
            return None
        return await self._rest(None if left is None else left - first_round)

    async def _rest(self, seconds: float | None) -> Rest:
        """Let time pass and count the node writes in it."""
        now, cluster = self.clock, self.cluster
        counters = cluster.kubelets.counters
        started, patches, writes = now(), counters.status_patches, cluster.node_writes
        publications = cluster.agents.publications
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stop.wait()
        return Rest(
            now() - started,
            counters.status_patches - patches,
            cluster.node_writes - writes,
            cluster.agents.publications - publications,
        )
