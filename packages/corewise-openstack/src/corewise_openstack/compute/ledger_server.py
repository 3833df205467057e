"""The agent serves its host's ledger over HTTPS, so that schedulers need no shared directory.

A claim is decided here: under the lock of the ledger, on its current state, by the function that a scheduler
runs on a ledger of its own (:func:`~corewise_openstack.compute.scheduling.take`); and the agent, not the
scheduler, asks Placement. So a scheduler that dies after its request leaves nothing behind: the claim is
finished, or, if the agent dies too, settled by its next pass.

Callers show a certificate that an authority of ``--client-ca`` has signed. Whoever has one may claim and
release every CPU of this host, but none of other hosts: a claim names this host's provider, and beside it at
most one that hosts share, of disk.

A move (:mod:`corewise_openstack.compute.moving`) needs two ledgers at a time, so its scheduler runs it, with
the locks of both: it may record steps of one guest's move, and each is checked here against what others hold.

Claims and releases run one at a time, in a thread of their own with a Placement client of its own; requests
that wait for the lock have threads of their own, and a limit. Reading waits for neither.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

import msgspec
from aiohttp import web

import corewise
from corewise.service import http_servers
from corewise.service.certificates import CertificateKeeper, FileCertificates, ServingContext
from corewise.service.http_servers import (
    Certified,
    Listener,
    RefusalCause,
    RefusedError,
    Route,
    read_body,
    when_lost,
)
from corewise.service.logs import fields
from corewise.service.options import Address, OptionsError
from corewise.service.program import Loop, Program
from corewise.topology import LARGEST_CPU
from corewise.vocabulary import metrics
from corewise.vocabulary.errors import UNREADABLE, OperationalError, unreadable_text
from corewise.vocabulary.exit_codes import ExitCode
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.beside_nova import MARK
from corewise_openstack.compute.errors import FileUnusable, GuestExists, LedgerBusy
from corewise_openstack.compute.hosts import (
    OPTIONS,
    TOPOLOGY,
    ComputeHost,
    Hosts,
    options_in,
    read_host,
)
from corewise_openstack.compute.ledger import Change, GuestClaim, HostRecord
from corewise_openstack.compute.ledger_api import (
    CLAIMS,
    GUESTS,
    HOST,
    LOCK,
    ClaimAnswer,
    FailureAnswer,
    HostAnswer,
    LedgerPatch,
)
from corewise_openstack.compute.moving import refuse_other_changes
from corewise_openstack.compute.offers import CPU_CLASSES
from corewise_openstack.compute.options import ComputeOptions
from corewise_openstack.compute.placement import PlacementOffers
from corewise_openstack.compute.scheduling import is_unsettled, refusal_of, release, settle, take
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_writes import Patience
from corewise_openstack.tracking import HostOptions
from corewise_openstack.vocabulary.placement import MEMORY_MB, PCPU

T = TypeVar("T")
_log = logging.getLogger(__name__)
_PATCH = msgspec.json.Decoder(LedgerPatch)
_CLAIM = msgspec.json.Decoder(GuestClaim)
_OF_A_HOST = frozenset({*CPU_CLASSES, MEMORY_MB})
"""What only a host has: a guest may hold disk of a provider that hosts share."""

_LONGEST_LOCK = 300.0
"""Seconds; then the next one gets the ledger, and the command that had it fails, and may be repeated."""

_MOST_WAITING = 8
"""Requests that wait for the lock at a time, each in a thread of its own; further ones are refused."""

_ENCODER = msgspec.json.Encoder()
_Mark = tuple[float | None, ...]
"""Times of the host's files: while they are the same, so is the host."""

_STATUSES = {
    ExitCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ExitCode.REFUSED: HTTPStatus.CONFLICT,
    ExitCode.CONFLICT: HTTPStatus.CONFLICT,
}
"""Status of an answer by the exit code of the error; every other error may be over later: 503."""


class _Held:
    """The lock of the ledger while a connection, ``owner``, has it."""

    def __init__(self, owner: object, host: ComputeHost) -> None:
        self.owner = owner
        self.host = host
        self.change: Change
        self._stack = ExitStack()
        self.is_locked = False

    def lock(self) -> None:
        self.change = self._stack.enter_context(self.host.ledger.changing())
        self.is_locked = True

    def release(self) -> None:
        """Release the lock, if it is not released yet."""
        self.is_locked = False
        self._stack.close()


class LedgerServer:
    """Serves one host's ledger. ``client`` is its own: no other code uses it."""

    def __init__(
        self, options: ComputeOptions, client: PlacementClient, program: Program, *, patience: Patience
    ) -> None:
        if options.listen is None or options.state_dir is None:
            raise OptionsError("a ledger is served from --state-dir, at --listen")
        self._name = options.name
        self._folder: Path = options.state_dir
        self._compat = options.compat
        self._client = client
        self._offers = PlacementOffers(client, patience=patience)
        self._metrics = program.metrics
        self._clock = program.clock
        self._known: tuple[_Mark, ComputeHost, HostOptions, bytes] | None = None
        self._worker = ThreadPoolExecutor(1, "claims")
        self._lockers = ThreadPoolExecutor(_MOST_WAITING, "locks")
        self._waiting: set[Future[None]] = set()
        self._serving = ServingContext(demand=False)  # so that a caller without one is told what to do
        self._keeper = CertificateKeeper(
            FileCertificates(options.tls_cert, options.tls_key),
            self._serving,
            options.client_ca,
            metrics=program.metrics,
            heartbeats=program.heartbeats,
            clock=program.clock,
        )
        guard = Certified("show a client certificate that an authority of the agent's --client-ca has signed")
        self.listener = Listener(
            http_servers.LEDGER,
            options.listen,
            [
                Route("GET", HOST, self._answering(self._read), guard),
                Route("POST", CLAIMS, self._answering(self._claim), guard),
                Route("DELETE", GUESTS, self._answering(self._release), guard),
                Route("POST", LOCK, self._answering(self._lock), guard),
                Route("PATCH", LOCK, self._answering(self._change), guard),
                Route("DELETE", LOCK, self._answering(self._unlock), guard),
            ],
            program.metrics,
            tls=lambda: self._serving.context,
        )
        self._held: _Held | None = None
        for result in ("claimed", "repeated", "released", "step"):
            self._metrics.count(metrics.COMPUTE_CLAIMS, result, by=0)

    async def prepare(self) -> None:
        """Load the certificate.

        Raises:
            OptionsError: if there is none that can be served.
        """
        await self._keeper.begin()

    @property
    def address(self) -> Address:
        return self.listener.address

    def loops(self) -> Iterator[Loop]:
        yield "certificates", self._keeper.run
        yield "ledger", self.listener.run

    def problems(self) -> Iterator[str]:
        """Yield the reason why schedulers are not answered, if they are not."""
        if problem := self._serving.problem(self._clock.now()):
            yield problem

    def _answering(self, work: Callable[[web.BaseRequest, bytes], Awaitable[object]]) -> http_servers.Handler:
        """Return a handler that answers with what ``work`` returns, or with the error that prevents it."""

        async def handle(request: web.BaseRequest) -> web.Response:
            body = await read_body(request)
            try:
                answer = await work(request, body)
            except OperationalError as error:
                if request.method != "GET":
                    self._metrics.count(metrics.COMPUTE_CLAIMS, error.reason or type(error).__name__)
                return _failed(error)
            return web.json_response(body=_ENCODER.encode(answer or {}))

        return handle

    async def _read(self, _request: web.BaseRequest, _body: bytes) -> HostAnswer:
        return await asyncio.to_thread(self._described)

    async def _claim(self, _request: web.BaseRequest, body: bytes) -> ClaimAnswer:
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._claimed, body)

    async def _release(self, request: web.BaseRequest, _body: bytes) -> None:
        guest = request.path.removeprefix(GUESTS)
        await asyncio.get_running_loop().run_in_executor(self._worker, self._released, guest)

    async def _lock(self, request: web.BaseRequest, _body: bytes) -> HostRecord:
        """Lock the ledger for a connection, with every claim settled."""
        host, _, _ = await asyncio.to_thread(self._host)
        if is_unsettled(host):
            await asyncio.get_running_loop().run_in_executor(self._worker, self._settle, host)
        held = _Held(request.protocol, host)
        await self._locking(held)
        when_lost(request, held.release)
        asyncio.get_running_loop().call_later(_LONGEST_LOCK, held.release)
        self._held = held
        if is_unsettled(host):
            held.release()
            raise LedgerBusy(
                f"the outcome of a claim on host {self._name} is not known yet",
                hint="see whether Placement answers its agent, and run the command again",
            )
        return held.change.host

    async def _locking(self, held: _Held) -> None:
        """Wait for the lock, in a thread that nothing but locks waits in.

        Raises:
            LedgerBusy: if enough requests wait already, or the lock is not to be had.
        """
        if len(self._waiting) >= _MOST_WAITING:
            raise LedgerBusy(
                f"{_MOST_WAITING} requests wait already to lock the ledger of host {self._name}",
                hint="wait until they have had it, and run the command again",
            )
        waiting = self._lockers.submit(held.lock)
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)
        try:
            await asyncio.wrap_future(waiting)
        except asyncio.CancelledError:
            waiting.add_done_callback(
                lambda _: held.release()
            )  # the thread still gets the lock, and gives it back
            raise

    async def _change(self, request: web.BaseRequest, body: bytes) -> None:
        """Record a step of a move."""
        held = self._held_by(request)
        try:
            patch = _PATCH.decode(body)
        except UNREADABLE as error:
            raise _unusable(f"the step cannot be read: {unreadable_text(error)}") from error
        for guest, record in patch.guests.items():
            if record is not None and (wrong := record.impossible_number()):
                raise _unusable(f"the step's guest {guest[:40]!r}: {wrong}")
        before = held.change.host.guests
        after = {uuid: each for uuid, each in {**before, **patch.guests}.items() if each is not None}
        refuse_other_changes(held.host, before, after)
        held.change.write(after)  # not in a thread: the lock might be released meanwhile
        self._metrics.count(metrics.COMPUTE_CLAIMS, "step")
        _log.info("step of a move: %s", ", ".join(patch.guests), extra=fields(host=self._name))

    async def _unlock(self, request: web.BaseRequest, _body: bytes) -> None:
        self._held_by(request).release()

    def _held_by(self, request: web.BaseRequest) -> _Held:
        if self._held is None or self._held.owner is not request.protocol or not self._held.is_locked:
            raise LedgerBusy(f"this connection has not locked the ledger of host {self._name}")
        return self._held

    def _described(self) -> HostAnswer:
        host, options, machine = self._host()
        if is_unsettled(host) and not (self._held and self._held.is_locked):
            self._worker.submit(self._settle, host)
        reported = host.last_report()
        return HostAnswer(
            self._name,
            msgspec.Raw(machine),
            options,
            self._compat,
            msgspec.Raw(_ENCODER.encode(host.ledger.read())),
            None if host.nova_cpus is None else str(host.nova_cpus),
            None if reported is None else max(0.0, time.time() - reported),
            corewise.__version__,
        )

    def _settle(self, host: ComputeHost) -> None:
        """Find out what became of claims that broke off; the next pass does so too, if this fails."""
        try:
            with host.ledger.changing() as change:
                settle(change, self._offers)
        except OperationalError as error:
            _log.warning("%s", error.log_text, extra=fields(host=self._name, reason=error.reason))

    def _claimed(self, body: bytes) -> ClaimAnswer:
        try:
            claim = _CLAIM.decode(body)
        except UNREADABLE as error:
            raise _unusable(f"the claim cannot be read: {unreadable_text(error)}") from error
        _check(claim)
        host, _, _ = self._host()
        ours = self._of_this_host(claim, host)
        if isinstance(ours, Finding):
            return self._refused(claim, ours)
        result = "claimed"
        try:
            taken = take(host, self._offers, ours)
        except GuestExists:
            record = host.guests().get(ours.guest)
            if record is None or (record.cpus, record.resources) != (
                ours.cpus,
                ours.allocations[ours.provider],
            ):
                raise
            taken, result = record, "repeated"
        if isinstance(taken, Finding):
            return self._refused(claim, taken)
        self._metrics.count(metrics.COMPUTE_CLAIMS, result)
        _log.info(
            "guest %s: CPUs %s", result, taken.pins.cpus, extra=fields(host=self._name, guest=claim.guest)
        )
        return ClaimAnswer(taken)

    def _of_this_host(self, claim: GuestClaim, host: ComputeHost) -> GuestClaim | Finding:
        """Return a claim with this host's provider, which a scheduler without a Placement does not know."""
        provider = self._client.find_provider(host.name)
        if provider is None:
            return Finding(Reason.HOST_UNKNOWN, f"the Placement of its agent has no provider {host.name}")
        own, allocations = provider.uuid, dict(claim.allocations)
        if not claim.provider and "" in allocations:
            allocations = {own: allocations[""]}
        elif claim.provider != own or own not in allocations:
            message = f"its agent claims CPUs of its provider {own}, not of {claim.provider or 'none'}"
            return Finding(Reason.HOST_UNKNOWN, message)
        for each, of_it in allocations.items():
            if each != own and _OF_A_HOST & of_it.keys():
                message = f"its agent claims CPUs of its provider {own}, not of {each}"
                return Finding(Reason.HOST_UNKNOWN, message)
        amounts = allocations[own]
        # The fallback counts guest CPUs, as VCPU: the emulator's own CPU is not among them.
        owned = claim.cpus.host_cpus if PCPU in amounts else claim.cpus.dedicated
        if sum(amounts.get(name, 0) for name in CPU_CLASSES) < owned:
            raise _unusable(f"the claim is for fewer CPUs than the {owned} that the guest owns")
        refusal = refusal_of(host.name, host, provider.traits)
        return refusal or msgspec.structs.replace(claim, provider=own, allocations=allocations)

    def _refused(self, claim: GuestClaim, refusal: Finding) -> ClaimAnswer:
        self._metrics.count(metrics.COMPUTE_CLAIMS, refusal.reason)
        found = fields(host=self._name, guest=claim.guest, reason=refusal.reason)
        _log.info("guest refused: %s", refusal.message, extra=found)
        return ClaimAnswer(None, refusal)

    def _released(self, guest: str) -> None:
        host, _, _ = self._host()
        if guest not in host.guests():
            return  # it was released already, and the answer was lost
        release(host, Hosts({host.name: host}, {}), self._offers, guest)
        self._metrics.count(metrics.COMPUTE_CLAIMS, "released")
        _log.info("guest released", extra=fields(host=self._name, guest=guest))

    def _host(self) -> tuple[ComputeHost, HostOptions, bytes]:
        """Return the host as its last pass left it, its options, and its machine as the file has it.

        Raises:
            ComputeError: if a file cannot be used, or there is none yet.
        """
        mark = tuple(_time(self._folder / name) for name in (TOPOLOGY, OPTIONS, MARK))
        if mark[0] is None:
            raise FileUnusable("the agent has not completed its first pass", hint="try again in a minute")
        known = self._known
        if known is None or known[0] != mark:
            host = read_host(self._folder, self._compat, self._name)
            text = (self._folder / TOPOLOGY).read_bytes()
            known = self._known = mark, host, options_in(self._folder / OPTIONS), text
        return known[1:]


def _check(claim: GuestClaim) -> None:
    """Refuse a claim that no scheduler makes.

    Raises:
        RefusedError: if it is one.
    """
    try:
        is_uuid = str(uuid.UUID(claim.guest)) == claim.guest
    except ValueError:
        is_uuid = False
    if not is_uuid:
        raise _unusable(f"the claim's guest {claim.guest[:40]!r} is not a UUID")
    if claim.cpus.vcpus > LARGEST_CPU + 1:
        raise _unusable(f"the claim's vcpus {claim.cpus.vcpus} is not between 1 and {LARGEST_CPU + 1}")
    if not claim.cpus.is_consistent:
        raise _unusable("the claim's CPUs contradict each other: nodes must divide them, as the policy says")


def _unusable(why: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, RefusalCause.BODY, why)


def _time(file: Path) -> float | None:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _failed(error: OperationalError) -> web.Response:
    answer = FailureAnswer(str(error), error.hint, error.reason, error.exit_code)
    status = _STATUSES.get(error.exit_code, HTTPStatus.SERVICE_UNAVAILABLE)
    return web.json_response(body=_ENCODER.encode(answer), status=status)
