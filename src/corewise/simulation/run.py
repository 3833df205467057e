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
from typing import Protocol

from corewise.kube.errors import KubeError
from corewise.quantities import Bytes
from corewise.service.program import first_error
from corewise.simulation import control_plane
from corewise.simulation.cluster import LocalCluster, local_cluster
from corewise.simulation.control_plane import ClusterError, resident_memory, running
from corewise.simulation.kubelets import Periods
from corewise.simulation.measurement import Colocation, Snapshot
from corewise.simulation.node_memory import MemoryState, MemorySummary, summary
from corewise.simulation.plan import Plan
from corewise.simulation.report import Report, Rest

_SETTLE_SECONDS = 120.0
_SHORTEST_REST = 0.5
"""Seconds; a count over less says nothing."""
_LONGEST_REST_OFF = 12.0
_SHARE_OF_REST_OFF = 0.25
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FIRST_ROUND = 1.1
"""Of a status period: by then every kubelet has had its turn."""


class Listener(Protocol):
    """Who is told how a run goes."""

    def progress(self, text: str) -> None:
        """What is going on right now."""

    def started(self, plan: Plan) -> None:
        """The run has begun."""

    def loaded(self, pods: int, seconds: float) -> None:
        """Nodes and pods are there."""

    def measured(self, snapshot: Snapshot, *, on: bool) -> None:
        """A measurement has been made."""

    def colocated(self, of: Mapping[str, Colocation], *, on: bool) -> None:
        """What online and offline pods get beside each other has been measured, on nodes that have both."""

    def crowded(self, of: MemorySummary, pending: int, *, on: bool) -> None:
        """Contention for memory has been measured, with so many pods without a node."""

    def at_rest(self) -> None:
        """Everything is in its place; the cluster runs on."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What to run. ``duration`` is counted from the start; None is until ``stop``."""

    plan: Plan
    folder: control_plane.Folder
    duration: float | None = None
    periods: Periods = field(default_factory=Periods)
    settle_seconds: float = _SETTLE_SECONDS
    kubeconfig_out: Path | None = None
    """Where the administrator's kubeconfig is wanted too."""


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


async def run(options: RunOptions, listener: Listener, stop: asyncio.Event) -> Report:
    """Run the cluster until its time is over or ``stop`` is set, and report.

    Raises:
        ClusterError: if a process of the cluster died or did not come up.
        KubeError: if the API refused a part of the plan.
        BrokenPipeError: if nobody reads any more what the listener prints.
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
    return ClusterError(f"cannot write to {folder}: {error}; see that there is room, and start it again")


async def _run(options: RunOptions, listener: Listener, stop: asyncio.Event) -> Report:
    clock = _Clock()
    listener.started(options.plan)
    listener.progress("starting the API server, then nodes and pods")
    async with (
        local_cluster(options.plan, options.folder, periods=options.periods) as cluster,
        AsyncExitStack() as stack,
    ):
        await _load(cluster, options, listener, clock, stack)
        off, rest_off, beside_off, memory_off, pending_off = None, None, None, None, 0
        if not cluster.was_on:
            off, beside_off, rest_off = await _measure_off(cluster, options, listener, clock, stop)
            memory_off, pending_off = _contention(cluster, listener, on=False), cluster.scheduler.pending
            await cluster.turn_on()
            await _start_manager(cluster, options, stack)
        unsettled = await _bring_to_ratios(cluster, options, listener, clock)
        listener.measured(await cluster.snapshot(), on=True)
        memory_on = _contention(cluster, listener, on=True)
        beside_on = await _colocate(cluster, listener, clock, on=True)
        listener.at_rest()
        async with running(cluster.living.run):
            rest_on = await _rest_on(cluster, options, clock, stop)
        clock.marks["total"] = clock()
        counters = cluster.kubelets.counters
        return Report(
            source=options.plan.source,
            notes=options.plan.notes,
            off=off,
            on=await cluster.snapshot(),
            unsettled=tuple(unsettled),
            rest_off=rest_off,
            rest_on=rest_on,
            colocation_off=beside_off,
            colocation_on=beside_on,
            memory_off=memory_off,
            memory_on=memory_on,
            pending_off=pending_off,
            nodes_not_simulated=cluster.living.left_out,
            seconds=clock.marks,
            memory=_memory(cluster),
            pods_rejected=counters.pods_rejected,
            pods_pending=cluster.scheduler.pending,
            failed_requests=counters.failures,
            last_failure=counters.last_failure,
        )


async def _load(
    cluster: LocalCluster, options: RunOptions, listener: Listener, clock: _Clock, stack: AsyncExitStack
) -> None:
    """Put nodes and pods in; the manager is there before, if this cluster was on when it was left."""
    if options.kubeconfig_out is not None:
        await asyncio.to_thread(control_plane.copy_private, options.folder.kubeconfig, options.kubeconfig_out)
    if cluster.was_on:
        await _start_manager(cluster, options, stack)
    await cluster.load()
    clock.marks["load"] = clock()
    listener.loaded(len(cluster.pods), clock())


async def _measure_off(
    cluster: LocalCluster, options: RunOptions, listener: Listener, clock: _Clock, stop: asyncio.Event
) -> tuple[Snapshot, Mapping[str, Colocation], Rest | None]:
    """Measure the cluster as it is without corewise, and count its node writes at rest, if there is time."""
    off = await cluster.snapshot()
    listener.measured(off, on=False)
    beside = await _colocate(cluster, listener, clock, on=False)
    rest = await _rest(cluster, _rest_off_seconds(options, clock()), stop)
    return off, beside, rest if rest.seconds >= _SHORTEST_REST else None


async def _colocate(
    cluster: LocalCluster, listener: Listener, clock: _Clock, *, on: bool
) -> Mapping[str, Colocation]:
    """Measure what online and offline pods get beside each other."""
    listener.progress("simulating nodes with offline pods")
    async with clock.timed("simulateOn" if on else "simulateOff"):
        beside = await cluster.living.measure(on=on)
    listener.colocated(beside, on=on)
    return beside


def _contention(cluster: LocalCluster, listener: Listener, *, on: bool) -> Mapping[str, MemoryState]:
    """Measure what pods cost each other in memory bandwidth and cache."""
    states = cluster.memory.states()
    if states:
        listener.crowded(summary(states.values()), cluster.scheduler.pending, on=on)
    return states


async def _start_manager(cluster: LocalCluster, options: RunOptions, stack: AsyncExitStack) -> None:
    """Start the manager; where nodes are amplified already, it has to be there before their kubelets are."""
    manifests = control_plane.shipped_manifests()
    manager = await stack.enter_async_context(control_plane.manager(options.folder, manifests))
    cluster.children["manager"] = manager.child
    if cluster.was_on:
        await cluster.webhook_installed(manager.webhook_url)


async def _bring_to_ratios(
    cluster: LocalCluster, options: RunOptions, listener: Listener, clock: _Clock
) -> list[str]:
    """Wait for the manager, then let the pods take what the nodes offer now. Returns the nodes left over."""
    listener.progress("corewise is on; the manager brings the nodes to their ratios")
    async with clock.timed("settle"):
        unsettled = await cluster.settle(timeout=options.settle_seconds)
    async with clock.timed("fill"):
        if options.plan.scheduler and not cluster.was_on:
            listener.progress("pods are placed anew, by what the scheduler knows of memory")
            await cluster.rearrange()
        await cluster.fill()
    return unsettled


def _rest_off_seconds(options: RunOptions, spent: float) -> float:
    if options.duration is None:
        return 1.0
    return min(_LONGEST_REST_OFF, max(0.0, options.duration - spent) * _SHARE_OF_REST_OFF)


async def _rest_on(
    cluster: LocalCluster, options: RunOptions, clock: _Clock, stop: asyncio.Event
) -> Rest | None:
    """Let the rest of the time pass, and count once every kubelet has reported since the change.

    Its first report after a change of amounts makes the kubelet their owner in managedFields, which is
    stored; after that, the node is at rest. None if the time does not suffice.
    """
    left = None if options.duration is None else max(0.0, options.duration - clock())
    first_round = options.periods.status * _FIRST_ROUND
    if left is not None and left <= first_round:
        await _rest(cluster, left, stop)
        return None
    await _rest(cluster, first_round, stop)
    if stop.is_set():
        return None
    return await _rest(cluster, None if left is None else left - first_round, stop)


async def _rest(cluster: LocalCluster, seconds: float | None, stop: asyncio.Event) -> Rest:
    """Let time pass and count the node writes in it."""
    now = asyncio.get_running_loop().time
    counters = cluster.kubelets.counters
    started, patches, writes = now(), counters.status_patches, cluster.node_writes
    publications = cluster.agents.publications
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return Rest(
        now() - started,
        counters.status_patches - patches,
        cluster.node_writes - writes,
        cluster.agents.publications - publications,
    )


def _memory(cluster: LocalCluster) -> dict[str, Bytes | None]:
    children = {name: child.memory() for name, child in cluster.children.items()}
    return {**children, "simulation": resident_memory(os.getpid())}
