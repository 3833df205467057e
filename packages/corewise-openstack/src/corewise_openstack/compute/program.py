"""The host agent: one pass per interval, each from the whole state; canceling ends it.

A pass reads the host, settles what a dead scheduler left, and reports to Placement what the host offers. It
writes only what differs, so the agent may run and be restarted at any time. While Placement or libvirt cannot
be reached, or the options of a running agent have become wrong, Placement keeps what was written last; the
agent logs the problem once, and goes on when it is over. Wrong options at its start end it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import corewise
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.service.logs import fields
from corewise.service.program import Program
from corewise.topology import CPUSet
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import COMPUTE
from corewise.vocabulary.reasons import Reason
from corewise_openstack.actions import Reshape, WriteInventories, WriteTraits
from corewise_openstack.compute.adoption import LedgerChangeKind
from corewise_openstack.compute.errors import ComputeError
from corewise_openstack.compute.executor import executor_of
from corewise_openstack.compute.host_state import HostState, read_state
from corewise_openstack.compute.ledger_server import LedgerServer
from corewise_openstack.compute.offering import PlacementWrite
from corewise_openstack.compute.options import ComputeOptions
from corewise_openstack.openstack.errors import LibvirtError, OpenStackError, PlacementError
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_writes import PATIENCE, Patience
from corewise_openstack.vocabulary.placement import PCPU, VCPU

_log = logging.getLogger(__name__)
_LONG_SILENCE = 6
_SLOWEST_PASS = 300.0
"""Seconds; each request to a Placement that does not answer is given up after 60."""

_DONE = "done"
_KINDS = {Reshape: "reshape", WriteInventories: "inventories", WriteTraits: "traits"}


@dataclass(frozen=True, slots=True)
class Passed:
    """The state that one pass saw, and its writes.

    ``written``: they were made. A dry run, and a check beside Nova, only return them.
    """

    state: HostState
    writes: Sequence[PlacementWrite]
    written: bool


Blocking = Callable[[Callable[[], Passed]], Awaitable[Passed]]


def run_pass(
    options: ComputeOptions, client: PlacementClient | None, *, patience: Patience = PATIENCE
) -> Passed:
    """Report to Placement what the host offers, once; without a client, return what a new host would need.

    Raises:
        ComputeError, OpenStackError: what prevents it.
    """
    return HostAgent(options, client, patience=patience).once()


class HostAgent:
    """The agent of one host. ``blocking`` runs a pass, which blocks, in a thread.

    ``claims`` is the client with which schedulers' requests are carried out, beside the passes.
    """

    def __init__(
        self,
        options: ComputeOptions,
        client: PlacementClient | None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        patience: Patience = PATIENCE,
        blocking: Blocking = asyncio.to_thread,
        claims: PlacementClient | None = None,
    ) -> None:
        self.options = options
        self._clock = clock
        self._blocking = blocking
        self._executor = executor_of(options, client, patience)
        self.program = Program(COMPUTE, clock)
        self.metrics = self.program.metrics
        for kind in LedgerChangeKind:
            self.metrics.count(metrics.COMPUTE_LEDGER_CHANGES, kind, by=0)
        self._problem: tuple[Reason, str] | None = None
        self._passes = 0
        self._warned: set[str] = set()
        self.server: LedgerServer | None = None
        if options.listen is not None and claims is not None:
            self.server = LedgerServer(options, claims, self.program, patience=patience)
        self.program.expose(options.metrics_listen, ready=self._problems)

    def once(self, now: float = 0.0) -> Passed:
        """Run one pass; ``now`` are seconds that only grow.

        Raises:
            ComputeError, OpenStackError: what prevents it.
        """
        state = read_state(self.options, self._executor, now)
        return Passed(state, self._executor.carry_out(state.files, state.offering), self._executor.writes)

    async def run(self) -> None:
        """Run until canceled.

        Raises:
            ComputeError: if the host's files or options cannot be used at the start.
            OptionsError: if an address cannot be listened on, or no certificate can be served.
        """
        if self.server is not None:
            await self.server.prepare()
        _log.info("corewise compute %s begins", corewise.__version__, extra=fields(host=self.options.name))
        try:
            await self._pass()
        except (PlacementError, LibvirtError) as error:  # a problem of the host itself ends the agent
            self._report_problem(error.reason, error.log_text)
        served = self.server.loops() if self.server is not None else ()
        await self.program.run([("report", self._keep), *served])

    def _problems(self) -> Iterable[str]:
        if self._problem is not None:
            yield f"{self._problem[0]}: {self._problem[1]}"
        elif not self._passes:
            yield "no pass has been completed yet"
        if self.server is not None:
            yield from self.server.problems()

    async def _keep(self) -> None:
        while True:
            self.program.heartbeats.beat("report", self.options.interval * _LONG_SILENCE + _SLOWEST_PASS)
            await self._clock.sleep(self.options.interval)
            try:
                await self._pass()
            except ComputeError as error:
                self._report_problem(error.reason, str(error))
            except OpenStackError as error:
                self._report_problem(error.reason, error.log_text)

    async def _pass(self) -> None:
        passed = await self._blocking(functools.partial(self.once, self._clock.monotonic()))
        self._passes += 1
        self.metrics.count(metrics.COMPUTE_PASSES, _DONE)
        if self._problem is not None:
            _log.info("no longer a problem: %s", self._problem[0], extra=fields(host=self.options.name))
            self._problem = None
        self._record(passed)

    def _report_problem(self, reason: Reason, message: str) -> None:
        """Count a problem, and log it once until it changes or is over."""
        self.metrics.count(metrics.COMPUTE_PASSES, reason)
        if self._problem != (reason, message):
            _log.warning("%s: %s", reason, message, extra=fields(host=self.options.name))
            self._problem = (reason, message)

    def _record(self, passed: Passed) -> None:
        name = self.options.name
        for write in passed.writes if passed.written else ():
            self.metrics.count(metrics.COMPUTE_WRITES, _KINDS[type(write)])
            _log.info(
                "%s", write.why, extra=fields(host=name, reason=write.reason, write=_KINDS[type(write)])
            )
        state = passed.state
        for change in state.changes:
            self.metrics.count(metrics.COMPUTE_LEDGER_CHANGES, change.kind)
            _log.info("%s", change.message, extra=fields(host=name, guest=change.guest, reason=change.reason))
        warnings = set(state.warning_lines)
        if self.options.checks_only:
            differs = "Placement differs from nova.conf"
            warnings |= {f"{each.reason}: {differs}: {each.why}" for each in passed.writes}
        for warning in sorted(warnings - self._warned):
            _log.warning("%s", warning, extra=fields(host=name))
        self._warned = warnings
        twice = CPUSet.of(cpu for each in state.conflicts for cpu in each.cpus)
        self.metrics.set(metrics.COMPUTE_CPUS_TWICE, len(twice))
        ledger = state.ledger
        unapplied = {*ledger.unapplied, *ledger.refused, *ledger.unfinished}
        self.metrics.set(metrics.COMPUTE_GUESTS_UNAPPLIED, len(unapplied))
        offering = state.offering
        cpus = {VCPU: offering.settings.shared, PCPU: offering.settings.dedicated}
        self.metrics.replace(metrics.COMPUTE_CPUS, {(kind,): len(each) for kind, each in cpus.items()})
        self.metrics.set(metrics.COMPUTE_GUESTS, len(offering.guests))
        held = CPUSet.of(cpu for guest in offering.guests for cpu in guest.pinned | guest.emulator)
        self.metrics.set(metrics.COMPUTE_CPUS_HELD, len(held))
