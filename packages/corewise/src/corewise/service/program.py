"""The common frame of programs: supervised loops with heartbeats, health server, leadership, orderly end.

A loop is a coroutine function that runs until canceled. An operational error is the loop's own business; a
bug crashes the loop, and the supervisor logs the traceback, counts, waits a little longer each time, and
starts the loop again. A wrong option (an address that is taken) ends the program. This is the only place of a
program that catches every exception.

A program owns one ``Program``, makes its parts with its clock, metrics and heartbeats, and runs its loops:

    async def run(self):
        await self.program.run(self._loops(), main=self._lead())

A signal ends it by canceling that. A program behind a Service first says that it is not ready and goes on
answering for a while, until every node of the cluster has heard of it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import corewise
from corewise.kube.cache import Caches
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.election import Elector, Terms
from corewise.prometheus.exposition import Exposition
from corewise.service.health import HealthServer, TokenAccess
from corewise.service.logs import fields
from corewise.service.options import Address, OptionsError, ReplicaOptions
from corewise.vocabulary import metrics
from corewise.vocabulary.errors import first_error
from corewise.vocabulary.metrics import exported_by

T = TypeVar("T")
Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]
log = logging.getLogger(__name__)

DRAIN = 5.0
"""Seconds; kube-proxy and kube-apiserver follow a change of endpoints within one or two."""
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 60.0


@dataclass(slots=True)
class Heartbeats:
    """The last heartbeat of each named loop, and the silence after which it counts as stuck."""

    clock: Clock
    _beats: dict[str, tuple[float, float]] = field(default_factory=dict)

    def beat(self, name: str, limit: float) -> None:
        """Note that the loop lives and will beat again within ``limit`` seconds."""
        self._beats[name] = (self.clock.monotonic(), limit)

    def stop(self, name: str) -> None:
        """Expect no more beats: the loop has ended in order."""
        self._beats.pop(name, None)

    def stuck(self) -> dict[str, float]:
        """Return the loops that have been silent for too long, with the seconds of their silence."""
        now = self.clock.monotonic()
        return {name: now - beat for name, (beat, limit) in self._beats.items() if now - beat > limit}

    def problems(self) -> Iterator[str]:
        return (f"loop {name} has been silent for {age:.0f} s" for name, age in self.stuck().items())


@dataclass(frozen=True, slots=True)
class Supervisor:
    """Runs loops, restarting those that crash."""

    clock: Clock
    metrics: Exposition

    async def run(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """Run the loop until it returns or is canceled."""
        self.metrics.count(metrics.LOOP_RESTARTS, name, by=0)  # increase() misses what begins at 1
        wait = _FIRST_WAIT
        while True:
            started = self.clock.monotonic()
            try:
                await loop()
            except OptionsError:
                raise
            except Exception:
                log.exception("loop crashed: this is a bug", extra=fields(loop=name, restart_in=wait))
                self.metrics.count(metrics.LOOP_RESTARTS, name)
            else:
                return
            await self.clock.sleep(wait)
            lived = self.clock.monotonic() - started - wait
            wait = _FIRST_WAIT if lived > _LONGEST_WAIT else min(wait * 2, _LONGEST_WAIT)


class Program:
    """The parts that are the same in every program; ``exporter`` is its name in the table of metrics.

    ``node`` is the node that it is for, if it is for one.

    ``stopping`` is set by whoever is about to end the program; ``leading`` while this replica leads.
    """

    def __init__(
        self, exporter: str, clock: Clock, stopping: asyncio.Event | None = None, *, node: str = ""
    ) -> None:
        self.clock = clock
        self.metrics = Exposition(exported_by(exporter), node=node)
        self.metrics.set(metrics.BUILD_INFO, 1, exporter, corewise.__version__)
        self.metrics.set(metrics.START_TIME, clock.now().timestamp())
        self.heartbeats = Heartbeats(clock)
        self.supervisor = Supervisor(clock, self.metrics)
        self.stopping = stopping or asyncio.Event()
        self.leading = asyncio.Event()
        self.health: HealthServer | None = None
        self._ready: Callable[[], Iterable[str]] = tuple
        self._publish: Callable[[], None] = lambda: None
        self._caches = Caches()

    def expose(
        self,
        listen: Address | None,
        *,
        ready: Callable[[], Iterable[str]],
        publish: Callable[[], None] = lambda: None,
        caches: Caches | None = None,
        access: TokenAccess | None = None,
    ) -> None:
        """Set the content of health and metrics, and serve them at ``listen`` if there is an address.

        ``ready`` says what else stands in the way of work; ``publish`` sets the metrics that are computed
        when somebody reads them. ``access``: who reads metrics needs a token that it accepts.
        """
        self._ready, self._publish, self._caches = ready, publish, caches or Caches()
        if listen:
            self.health = HealthServer(
                listen,
                alive=self.heartbeats.problems,
                ready=self.problems,
                text=self.metrics_text,
                metrics=self.metrics,
                access=access,
            )

    def problems(self) -> Iterator[str]:
        """Yield the reasons that the program is not ready."""
        if self.stopping.is_set():
            yield "this replica is stopping"
        yield from self._caches.problems()
        yield from self._ready()

    def metrics_text(self) -> bytes:
        self._publish()
        self.metrics.set(metrics.TASKS, len(asyncio.all_tasks()))
        for name, cache in self._caches.items():
            self.metrics.set(metrics.CACHE_OBJECTS, len(cache.items), name)
            self.metrics.set(metrics.CACHE_STALE, bool(cache.stale()), name)
            if (silence := cache.silence) is not None:
                self.metrics.set(metrics.CACHE_SILENCE, silence, name)
        return self.metrics.text()

    async def run(self, loops: Iterable[Loop], main: Coroutine[Any, Any, T] | None = None) -> T | None:
        """Run the program: the health server and what ``supervise`` is given."""
        health: list[Loop] = [("health", self.health.run)] if self.health else []
        return await self.supervise([*health, *loops], main)

    async def supervise(self, loops: Iterable[Loop], main: Coroutine[Any, Any, T] | None = None) -> T | None:
        """Run supervised loops until canceled, or until ``main`` has returned; return what it returns.

        Raises:
            OptionsError: if an option turns out to be wrong.
        """
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self.supervisor.run(name, loop), name=name) for name, loop in loops
                ]
                if main is None:
                    return None
                try:
                    return await main
                finally:
                    for task in tasks:
                        task.cancel()
        except ExceptionGroup as errors:
            wrong = first_error(errors, OptionsError)
            if wrong is None:
                raise
            raise OptionsError(str(wrong)) from errors

    async def elect(
        self,
        work: Callable[[], Coroutine[None, None, None]],
        client: Client,
        options: ReplicaOptions,
        *,
        lease: str,
        terms: Terms,
    ) -> None:
        """Do the work whenever this replica holds the lease; at once if no leader is elected."""
        if not options.elects_leader:
            await work()
            return
        elector = Elector(
            client,
            namespace=options.namespace,
            name=lease,
            identity=options.identity,
            terms=terms,
            clock=self.clock,
            owner=lease,
        )
        await self.supervisor.run("election", lambda: elector.run(work))

    @contextmanager
    def leads(self) -> Iterator[None]:
        """Show, until the block ends, that this replica leads."""
        self.leading.set()
        self.metrics.set(metrics.LEADER, 1)
        try:
            yield
        finally:
            self.leading.clear()
            self.metrics.set(metrics.LEADER, 0)


async def run_until_signal(
    work: Coroutine[Any, Any, T], *, stopping: asyncio.Event | None = None, drain: float = 0.0
) -> T | None:
    """Run until the work is done, or SIGTERM or SIGINT cancels it; then return None.

    SIGTERM sets ``stopping`` and cancels after ``drain`` seconds, SIGINT at once.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    stopping = stopping or asyncio.Event()

    def stop(after: float) -> None:
        stopping.set()
        loop.call_later(after, task.cancel)

    loop.add_signal_handler(signal.SIGINT, stop, 0.0)
    loop.add_signal_handler(signal.SIGTERM, stop, drain)
    try:
        return await task
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise
        return None


def on_stop_signals(stop: Callable[[], object], *, hangup: bool = False) -> None:
    """Have SIGINT and SIGTERM call ``stop`` instead of ending the process.

    With ``hangup``, SIGHUP too, unless it is ignored (``nohup``).
    """
    hangs_up = hangup and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hangs_up else [])):
        asyncio.get_running_loop().add_signal_handler(number, stop)


def freeze_gc() -> None:
    """Exempt what the caches hold from garbage collection: walking it would stall what is served."""
    gc.collect()
    gc.freeze()
