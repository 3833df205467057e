"""A guest goes to another host, or to another size: two claims, until the move is confirmed or reverted.

========== ============================================================ ===========================
phase      Placement                                                    ledgers
========== ============================================================ ===========================
(claiming) the migration may hold the new claim                         new: the migration's
claimed    the guest holds the old claim, the migration the new one,    old: guest, new: migration,
           or already as below                                          or old: migration
moved      the guest holds the new claim, the migration the old one     old: migration, new: guest
confirming the migration's claim is being released                      either
reverting  the guest gets the old claim, the new one is being released  either
========== ============================================================ ===========================

Then the guest has one claim, and one entry, again. The old claim and the new one may be on one host (a
resize in place): their CPUs are different as long as both are held.

The destination's ledger has the phase, and what the guest holds on either side; an ending is written there
before it begins. Every step sets a state, whatever was there before, and may be repeated. So after a kill
between any two steps the same command, given again, finishes the move; ``revert`` undoes it from everywhere
but ``confirming``. The two claims change hands in one request. No CPU is free in between: both ledgers hold
it, under either name. The ledgers of both hosts are locked throughout, in the order of their names, so that
two moves never wait for each other.

A guest whose host is down is evacuated in the same way. The old claim is held until that is confirmed: the
host may come back, and the guest with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from dataclasses import replace as replaced

from msgspec.structs import replace

from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.aggregates import Aggregate, memberships
from corewise_openstack.compute.errors import (
    GuestNotMoving,
    GuestUnknown,
    HostUnknown,
    MoveRefused,
    SourceAlive,
)
from corewise_openstack.compute.hosts import ComputeHost, Hosts
from corewise_openstack.compute.ledger import (
    Change,
    GuestClaim,
    GuestRecord,
    Guests,
    GuestState,
    HostDemands,
    MovePhase,
    MoveRecord,
    record_of,
)
from corewise_openstack.compute.moved_claims import claim_there, tie_to_source, unsuited_traits
from corewise_openstack.compute.offers import Allocations, Offers, refuse_other_placement
from corewise_openstack.compute.scheduling import (
    HOST_TIMEOUT,
    UNCERTAIN,
    demanding_traits,
    refusal_of,
    settle,
    silence,
)
from corewise_openstack.guest_pinning.placement import place
from corewise_openstack.openstack.errors import OpenStackError
from corewise_openstack.tracking import GuestRequest
from corewise_openstack.vocabulary.placement import Provider


@dataclass(frozen=True, slots=True)
class WantedMove:
    """A guest is to go to a host. ``migration`` is the UUID of a consumer that does not exist yet.

    ``request``: what it is resized to, with the flavor's name; None keeps its size. ``evacuate``: its host
    must be down. ``aggregates``: those that are known; without them the guest's demands on the aggregates of
    its host are not checked.
    """

    guest: str
    destination: str
    migration: str
    request: GuestRequest | None = None
    flavor: str = ""
    evacuate: bool = False
    pack: bool = False
    aggregates: Sequence[Aggregate] | None = None


@dataclass(frozen=True, slots=True)
class _Ledgers:
    """The locked ledgers of a move, which are one for a resize in place."""

    source: Change
    destination: Change

    @property
    def in_place(self) -> bool:
        return self.source is self.destination


class GuestMover:
    """Moves guests between hosts. For one thread at a time; several may work on the same hosts."""

    def __init__(
        self,
        offers: Offers,
        hosts: Hosts,
        *,
        host_timeout: float = HOST_TIMEOUT,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._offers = offers
        self._hosts = hosts
        self._host_timeout = host_timeout
        self._now = now

    def begin(self, wanted: WantedMove) -> tuple[MoveRecord, GuestRecord] | Finding:
        """Claim the new host, and give the guest that claim; or go on with a move that broke off.

        Raises:
            GuestUnknown: if no ledger, or Placement, knows the guest.
            GuestMoving: if it is on its way to another host or size, or back.
            SourceAlive: if it is to be evacuated from a host that is not down.
            ComputeError, OpenStackError: what else prevents it; the same call finishes it.
        """
        unfinished = self._hosts.move_of(wanted.guest)
        source = self._known(unfinished.source) if unfinished else self._source(wanted.guest)
        destination = self._known(wanted.destination)
        with self._locked(source, destination) as ledgers:
            move = self._hosts.move_of(wanted.guest)
            if move is None:
                claimed = self._claim(ledgers, source, destination, wanted)
                if isinstance(claimed, Finding):
                    return claimed
                move = claimed
            elif move.phase in _ENDING or not _continues(wanted, move, ledgers):
                self._hosts.refuse_moving(wanted.guest)
            move = self._swapped(ledgers, move)
            return move, ledgers.destination.host.guests[wanted.guest]

    def confirm(self, guest: str) -> MoveRecord:
        """Release the guest's old claim.

        Raises:
            GuestNotMoving: if it is not being moved.
            GuestMoving: if it has not moved yet, or is on its way back.
            PlacementNotNamed: if its claims are in another Placement.
            ComputeError, OpenStackError: what else prevents it; the same call finishes it.
        """
        with self._unfinished(guest) as (ledgers, move):
            if move.phase in {MovePhase.CLAIMED, MovePhase.REVERTING}:
                self._hosts.refuse_moving(guest)
            _write_phase(ledgers, move, guest, MovePhase.CONFIRMING)
            self._offers.release(move.migration)
            if not ledgers.in_place:
                ledgers.source.write(_without(ledgers.source, move.migration))
            left = _without(ledgers.destination, move.migration)
            ledgers.destination.write({**left, guest: replace(left[guest], move=None)})
            return move

    def revert(self, guest: str) -> MoveRecord:
        """Give the guest its old claim back, and release the new one; raises as ``confirm``."""
        with self._unfinished(guest) as (ledgers, move):
            if move.phase is MovePhase.CONFIRMING:
                self._hosts.refuse_moving(guest)
            before = ledgers.destination.host.guests
            is_swapped = guest in before and before[guest].move is not None
            _write_phase(ledgers, move, guest if is_swapped else move.migration, MovePhase.REVERTING)
            self._offers.assign(move, move.before, {})
            old = ledgers.source.host.guests.get(move.migration)
            if ledgers.in_place:
                left = _without(ledgers.source, move.migration)
                if is_swapped and old is not None:  # its domain may have the CPUs of the other size
                    left[guest] = replace(old, move=None, applied=False)
                ledgers.source.write(left)
                return move
            if old is not None:
                left = _without(ledgers.source, move.migration)
                ledgers.source.write({**left, guest: replace(old, move=None)})
            ledgers.destination.write(_without(ledgers.destination, guest if is_swapped else move.migration))
            return move

    def _source(self, guest: str) -> ComputeHost:
        source = self._hosts.having(guest)
        if source is None:
            self._hosts.raise_unusable()
            raise GuestUnknown(f"no host has a guest {guest}")
        return source

    def _known(self, name: str) -> ComputeHost:
        if name in self._hosts.unusable:
            raise self._hosts.unusable[name]
        if name not in self._hosts.known:
            hint = f"there are {', '.join(self._hosts.known)}"
            raise HostUnknown(f"there is no host {name}", hint=hint)
        return self._hosts.known[name]

    @contextmanager
    def _unfinished(self, guest: str) -> Iterator[tuple[_Ledgers, MoveRecord]]:
        found = self._hosts.move_of(guest)
        if found is None:
            self._hosts.raise_unusable()
            raise GuestNotMoving(f"guest {guest} is not being moved", hint=Reason.GUEST_NOT_MOVING.fix)
        with self._locked(self._known(found.source), self._known(found.destination)) as ledgers:
            move = self._hosts.move_of(guest)
            if move is None:  # it broke off before it was claimed, or somebody else has finished it
                raise GuestNotMoving(
                    f"guest {guest} is no longer being moved", hint=Reason.GUEST_NOT_MOVING.fix
                )
            there = ledgers.destination.host.guests
            claimed = there.get(move.migration) or there[guest]
            refuse_other_placement(guest, claimed.provider, move.destination, self._offers)
            yield ledgers, move

    @contextmanager
    def _locked(self, source: ComputeHost, destination: ComputeHost) -> Iterator[_Ledgers]:
        """Lock both ledgers, settled: a claim that broke off has been made, or its entry is gone."""
        with ExitStack() as stack:
            names = sorted({source.name, destination.name})
            changes = {name: stack.enter_context(self._hosts.known[name].ledger.changing()) for name in names}
            for change in changes.values():
                settle(change, self._offers)
            yield _Ledgers(changes[source.name], changes[destination.name])

    def _claim(
        self, ledgers: _Ledgers, source: ComputeHost, destination: ComputeHost, wanted: WantedMove
    ) -> MoveRecord | Finding:
        """Enter the migration in the ledger, and claim for it; or leave everything as it was, and say why."""
        guest = wanted.guest
        record = ledgers.source.host.guests.get(guest)
        before = self._offers.held(guest)
        if record is None or before is None:
            who = f"host {source.name} no longer has" if record is None else "Placement has no allocations of"
            raise GuestUnknown(f"{who} guest {guest}")
        demands = record.demands
        if wanted.request is not None:
            demands = replace(demands, specs=dict(wanted.request.aggregate_specs))
            demands = demanding_traits(demands, wanted.request.query)
        provider = self._provider(source, destination, wanted, demands)
        if isinstance(provider, Finding):
            return provider
        there = ledgers.destination.host.guests
        cpus = record.cpus if wanted.request is None else wanted.request.cpus
        legacy = destination.settings.legacy
        after = self._after(ledgers, record, before, demands, provider, legacy=legacy, request=wanted.request)
        if isinstance(after, Finding):
            return replaced(after, message=f"host {destination.name}: {after.message}")
        pins = place(destination.ledger_with(there), cpus, pack=wanted.pack)
        if isinstance(pins, Finding):
            return replaced(pins, message=f"host {destination.name}: {pins.message}")
        names = source.name, destination.name
        move = MoveRecord(guest, wanted.migration, *names, MovePhase.CLAIMED, before, after)
        flavor = wanted.flavor or record.flavor
        claim = GuestClaim(move.migration, cpus, move.after, provider.uuid, flavor, demands=demands)
        made = record_of(claim, pins)
        ledgers.destination.write({**there, move.migration: replace(made, move=move)})
        try:
            refused = self._offers.claim_move(move)
        except UNCERTAIN:
            raise  # the claim may have been made: the entry stays, and is settled later
        except OpenStackError:
            ledgers.destination.write(there)
            raise
        if refused is not None:
            ledgers.destination.write(there)
            return Finding(Reason.CLAIM_LOST, f"host {destination.name}: {refused}")
        ledgers.destination.write({**there, move.migration: replace(made, move=move, state=GuestState.HELD)})
        return move

    def _provider(
        self, source: ComputeHost, destination: ComputeHost, wanted: WantedMove, demands: HostDemands
    ) -> Provider | Finding:
        """Return the destination's provider, or why the guest does not go there."""
        source.refuse_cpus_of_nova()
        self._offers.refuse_guest_of_nova(wanted.guest)
        if wanted.evacuate:
            self._refuse_alive(source)
        if source is destination and wanted.request is None:
            return Finding(Reason.GUEST_EXISTS, f"guest {wanted.guest} is on host {source.name} already")
        provider = self._offers.provider(destination.name)
        if provider is None:
            return Finding(Reason.HOST_UNKNOWN, f"Placement has no provider {destination.name}")
        if wanted.aggregates is not None:
            member_of = tuple(memberships(demands, wanted.aggregates))
            outside = self._offers.outside(destination.name, member_of)
            if outside is not None:
                message = f"host {destination.name} is not in what the guest demands: {outside.demand}"
                return Finding(Reason.HOST_OUTSIDE_AGGREGATES, message)
        refusal = refusal_of(destination.name, destination, provider.traits)
        return refusal or silence(destination, self._now(), self._host_timeout) or provider

    def _after(
        self,
        ledgers: _Ledgers,
        record: GuestRecord,
        before: Allocations,
        demands: HostDemands,
        provider: Provider,
        *,
        legacy: bool,
        request: GuestRequest | None,
    ) -> Allocations | Finding:
        """Return the allocations after the move, or a refusal because of other providers or traits."""
        own = record.provider
        if own not in before:
            found = self._offers.provider(ledgers.source.host.name)
            own = found.uuid if found is not None else own
        others = {uuid: held for uuid, held in before.items() if uuid != own}
        relations = self._offers.relations((own, provider.uuid, *others)) if others else {}
        if not ledgers.in_place:
            tie = tie_to_source(own, others, provider.uuid, relations)
            if tie is not None:
                return tie
        cpus = record.cpus if request is None else request.cpus
        kept = frozenset[str]().union(*(relations[uuid].traits for uuid in others))
        unsuited = unsuited_traits(demands, cpus, provider, kept, legacy=legacy)
        return unsuited or claim_there(request, cpus, before.get(own) or record.resources, others, provider)

    def _refuse_alive(self, source: ComputeHost) -> None:
        if silence(source, self._now(), self._host_timeout) is None:
            last = source.last_report()
            seen = "has never reported" if last is None else f"reported {self._now() - last:.0f} s ago"
            raise SourceAlive(
                f"host {source.name} is not known to be down: its agent {seen}", hint=Reason.SOURCE_ALIVE.fix
            )

    def _swapped(self, ledgers: _Ledgers, move: MoveRecord) -> MoveRecord:
        """Have guest and migration change claims; nothing is left to do of a guest that has moved."""
        if move.phase is MovePhase.MOVED:
            return move
        guest, migration = move.guest, move.migration
        self._offers.assign(move, move.after, move.before)
        move = replace(move, phase=MovePhase.MOVED)
        new = replace(ledgers.destination.host.guests[migration], move=move)
        old = ledgers.source.host.guests.get(guest)
        if ledgers.in_place:
            assert old is not None  # noqa: S101 - both entries are in one ledger, which changes in one step
            ledgers.source.write(
                {**ledgers.source.host.guests, guest: new, migration: replace(old, move=move)}
            )
            return move
        if old is not None:
            ledgers.source.write({**_without(ledgers.source, guest), migration: replace(old, move=move)})
        ledgers.destination.write({**_without(ledgers.destination, migration), guest: new})
        return move


def refuse_other_changes(host: ComputeHost, before: Guests, after: Guests) -> None:
    """Check a step of a move that a scheduler wants recorded: it concerns one guest, and takes free CPUs.

    Raises:
        MoveRefused: if that is not so.
    """
    changed = [uuid for uuid in {**before, **after} if before.get(uuid) != after.get(uuid)]
    records = [each for uuid in changed for each in (before.get(uuid), after.get(uuid)) if each is not None]
    moves = {(each.move.guest, each.move.migration) for each in records if each.move is not None}
    if len(moves) != 1 or not set(changed) <= set(next(iter(moves))):
        raise MoveRefused(f"{', '.join(changed)}: these changes are not a step of the move of one guest")
    ledger = host.ledger_with({uuid: each for uuid, each in before.items() if uuid not in changed})
    held = [before[uuid].pins for uuid in changed if uuid in before]
    for uuid in changed:
        if uuid not in after:
            continue
        pins = after[uuid].pins
        if pins in held:  # the entry only changes its name
            held.remove(pins)
            ledger = ledger.found(uuid, pins)
            continue
        pinned = ledger.pin(uuid, pins)
        if isinstance(pinned, Finding):
            raise MoveRefused(f"guest {uuid}: {pinned.message}")
        ledger = pinned


_ENDING = frozenset({MovePhase.CONFIRMING, MovePhase.REVERTING})


def _continues(wanted: WantedMove, move: MoveRecord, ledgers: _Ledgers) -> bool:
    """Whether an unfinished move leads to what is wanted: the same host, CPUs, flavor and amounts."""
    if move.destination != wanted.destination:
        return False
    keys = (move.guest, move.migration) if move.phase is MovePhase.MOVED else (move.migration, move.guest)
    new = ledgers.destination.host.guests[keys[0]]
    there = ledgers.source.host.guests
    old = there.get(keys[1]) or there.get(move.migration)
    if wanted.request is None:
        return not ledgers.in_place and (old is None or (new.cpus, new.flavor) == (old.cpus, old.flavor))
    elsewhere = {name for uuid, held in move.after.items() if uuid != new.provider for name in held}
    own = {name: amount for name, amount in new.resources.items() if name not in elsewhere}
    queries = [each.resources for each in (wanted.request.query, wanted.request.fallback) if each is not None]
    asked = [{name: each[name] for name in each if name not in elsewhere} for each in queries]
    flavor = wanted.flavor or (new if old is None else old).flavor
    return (new.cpus, new.flavor) == (wanted.request.cpus, flavor) and own in asked


def _without(change: Change, uuid: str) -> dict[str, GuestRecord]:
    return {each: record for each, record in change.host.guests.items() if each != uuid}


def _write_phase(ledgers: _Ledgers, move: MoveRecord, key: str, phase: MovePhase) -> None:
    """Record what is about to be done, in the destination's entry."""
    guests = ledgers.destination.host.guests
    announced = replace(guests[key], move=replace(move, phase=phase))
    ledgers.destination.write({**guests, key: announced})
