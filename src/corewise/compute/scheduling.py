"""From a guest's request to CPUs of a host: query, filter, weigh, claim, pin, record.

1. Placement is asked once for hosts that have enough of everything; if it finds none (compat nova: always),
   the fallback is asked for legacy hosts, which count pinned guests as VCPU.
2. Hosts are weighed by what their ledgers say is free.
3. The best is looked at first: its ledger says whether the guest's CPUs fit into its NUMA nodes by its thread
   policy. A host that its ledger refuses costs nothing more, and the next is looked at.
4. With the ledger of the host locked, CPUs are chosen on its current state, entered as ``claiming``, claimed
   in Placement, and entered as held. The same function on the same state filters and chooses, so the choice
   cannot fail unless another scheduler was faster. A claim that is refused takes the entry back, and the next
   host is tried; whatever dies in between, the next holder of the ledger settles what was left.

A guest that is ``claiming`` while nobody holds the ledger belongs to a scheduler that died: a scheduler holds
the ledger from before it enters a guest until Placement has answered. What became of the claim stands in
Placement.

A guest that is deleted goes from Placement first: repeating a delete that broke off finishes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from corewise.compute.errors import GuestExists, GuestUnknown, LedgerUnusable
from corewise.compute.hosts import ComputeHost, Hosts
from corewise.compute.ledger import Change, GuestRecord, Guests, GuestState, record_of
from corewise.compute.offers import Candidate, Offers
from corewise.compute.verdicts import (
    NoValidHost,
    Placed,
    Scores,
    Weighed,
    fallen_in_fit,
    fallen_in_stages,
    weighed,
)
from corewise.openstack.errors import AnswerError, OpenStackError, PlacementDown, ServerError
from corewise.pinning import GuestLedger, GuestPins, Refusal, place
from corewise.tracking import GuestRequest
from corewise.vocabulary.placement import VCPU
from corewise.vocabulary.reasons import Reason


def settle(change: Change, offers: Offers) -> Mapping[str, bool]:
    """Ask for every guest that is ``claiming`` whether it has been claimed: it becomes held, or goes.

    Returns whether each was claimed.
    """
    guests = dict(change.host.guests)
    claimed = {
        uuid: offers.holds(uuid, guest.provider)
        for uuid, guest in guests.items()
        if guest.state is GuestState.CLAIMING
    }
    for uuid, holds in claimed.items():
        if holds:
            guests[uuid] = replace(guests[uuid], state=GuestState.HELD)
        else:
            del guests[uuid]
    change.write(guests)
    return claimed


def is_unsettled(host: ComputeHost) -> bool:
    """Whether a scheduler is at work on a host, or has died there."""
    return any(guest.state is GuestState.CLAIMING for guest in host.guests().values())


def pin(
    host: ComputeHost, request: GuestRequest, *, guest: str | None, flavor: str = "", pack: bool = False
) -> GuestPins | Refusal:
    """Choose CPUs on what the ledger says, and enter the guest there if it has a name.

    Raises:
        GuestExists: if the host has a guest of this name.
        LedgerUnusable: if the ledger cannot be read or written.
    """
    if guest is None:
        return place(host.ledger_with(host.guests()), request.cpus, pack=pack)
    with host.ledger.changing() as change:
        guests = change.host.guests
        if guest in guests:
            raise GuestExists(f"guest {guest} is on host {host.name} already")
        pins = place(host.ledger_with(guests), request.cpus, pack=pack)
        if isinstance(pins, GuestPins):
            record = record_of(request.cpus, pins, request.query.resources, flavor=flavor)
            change.write({**guests, guest: replace(record, state=GuestState.HELD)})
        return pins


@dataclass(frozen=True, slots=True)
class Wanted:
    """A guest that is to be placed. ``pack``: on the fullest host and NUMA nodes, not the emptiest."""

    guest: str
    request: GuestRequest
    flavor: str = ""
    pack: bool = False


@dataclass(frozen=True, slots=True)
class Offered:
    """A host that a query has found. ``by_fallback``: it counts pinned guests as VCPU."""

    candidate: Candidate
    by_fallback: bool


_Refused = tuple[Offered, Refusal]


UNCERTAIN = (PlacementDown, AnswerError, ServerError)
"""After these nobody knows whether Placement did what it was asked."""


class Scheduler:
    """Places guests on hosts. For one thread at a time; several may work on the same hosts and Placement."""

    def __init__(self, offers: Offers, hosts: Hosts, *, scores: Scores | None = None) -> None:
        self._offers = offers
        self._hosts = hosts
        self._scores = scores
        self._ledgers: dict[str, tuple[Guests, GuestLedger]] = {}
        """The guests of each host, and what they came to, when they were last looked at."""
        self._damaged: dict[str, LedgerUnusable] = {}

    def schedule(self, wanted: Wanted) -> Placed | NoValidHost:
        """Find a host for a guest, claim it and pin the guest.

        Raises:
            GuestExists: if it has a host already.
            LedgerUnusable: if the ledger of the chosen host cannot be written; nothing is claimed then.
            PlacementError: what Placement refuses for other reasons than that somebody was faster.
        """
        self._look()
        if self._is_placed(wanted.guest):
            raise GuestExists(f"guest {wanted.guest} has a host already")
        offers, refusals = self._usable(self._found(wanted.request))
        order = self._weighed(offers, wanted)
        lost: dict[str, Refusal] = {}
        for each in order:
            offered = offers[each.host]
            refusal = self._refusal(offered, wanted)
            taken = refusal or self._take(offered, wanted)
            if isinstance(taken, GuestRecord):
                left = tuple(host for host in order if host.host not in refusals)
                return Placed(wanted.guest, each.host, taken, offered.by_fallback, left, lost)
            refusals[each.host] = offered, taken
            lost |= {} if refusal else {each.host: taken}
        return self._no_valid_host(wanted.request, refusals.values())

    def delete(self, guest: str) -> str | None:
        """Give back all that a guest holds; return its host, None if only Placement knew of it.

        Raises:
            GuestUnknown: if nobody knows it.
            ComputeError: if it may be on a host whose ledger or files cannot be used.
        """
        host = self._hosts.having(guest)
        if host is None:
            self._hosts.raise_unusable()
            if not self._offers.release(guest):
                raise GuestUnknown(f"no host has a guest {guest}")
            return None
        with host.ledger.changing() as change:
            self._offers.release(guest)
            change.write({uuid: each for uuid, each in change.host.guests.items() if uuid != guest})
        return host.name

    def _found(self, request: GuestRequest) -> Sequence[Offered]:
        """Ask for hosts; each comes once, and by the fallback only if the query did not find it."""
        found = [Offered(each, by_fallback=False) for each in self._offers.candidates(request.query)]
        if request.fallback is not None and (request.fallback_always or not found):
            more = self._offers.candidates(request.fallback)
            found += [Offered(each, by_fallback=True) for each in more if self._may_be_legacy(each.host)]
        return found

    def _may_be_legacy(self, host: str) -> bool:
        """Whether a host that the fallback found counts: an upgraded one would reject the guest."""
        known = self._hosts.known.get(host)
        return known is None or known.settings.legacy

    def _usable(self, found: Iterable[Offered]) -> tuple[dict[str, Offered], dict[str, _Refused]]:
        """Return the hosts whose ledgers can be read, and the others."""
        offers: dict[str, Offered] = {}
        refusals: dict[str, _Refused] = {}
        for offered in found:
            name = offered.candidate.host
            if name in offers or name in refusals:
                continue
            if name in self._damaged:
                refusals[name] = offered, Refusal(self._damaged[name].reason, str(self._damaged[name]))
            elif name not in self._ledgers:
                refusals[name] = offered, self._unknown(name)
            else:
                offers[name] = offered
        return offers, refusals

    def _look(self) -> None:
        """Look into all ledgers, once for each guest that is to be placed."""
        self._damaged.clear()
        for host in self._hosts.known.values():
            try:
                self._ledger(host)
            except LedgerUnusable as error:
                self._damaged[host.name] = error

    def _ledger(self, host: ComputeHost) -> GuestLedger:
        """Return who holds which CPU of a host, made anew only if its guests have changed."""
        guests = host.guests()
        known = self._ledgers.get(host.name)
        if known is None or known[0] is not guests:
            known = self._ledgers[host.name] = guests, host.ledger_with(guests)
        return known[1]

    def _refusal(self, offered: Offered, wanted: Wanted) -> Refusal | None:
        """Say why a host cannot take a guest, if it cannot."""
        host = self._hosts.known[offered.candidate.host]
        chosen = _chosen(host, self._ledger(host), wanted)
        if isinstance(chosen, Refusal) and is_unsettled(host):
            with host.ledger.changing() as change:
                settle(change, self._offers)
            chosen = _chosen(host, self._ledger(host), wanted)
        return chosen if isinstance(chosen, Refusal) else None

    def _unknown(self, host: str) -> Refusal:
        problem = self._hosts.unusable.get(host)
        if problem is not None:
            return Refusal(problem.reason, str(problem))
        return Refusal(Reason.HOST_UNKNOWN, f"nothing is known of the CPUs of host {host}")

    def _weighed(self, offers: Mapping[str, Offered], wanted: Wanted) -> Sequence[Weighed]:
        """Order hosts: for guests with CPUs of their own by the CPUs that nobody owns, else by VCPU left."""
        if wanted.request.cpus.host_cpus:
            free = {host: _unowned(self._ledgers[host][1]) for host in offers}
        else:
            free = {host: each.candidate.free.get(VCPU, 0) for host, each in offers.items()}
        return weighed(free, self._scores, pack=wanted.pack)

    def _no_valid_host(self, request: GuestRequest, refused: Collection[_Refused]) -> NoValidHost:
        """Explain by counts: what the query does not find fell at a part of it, others at their CPUs."""
        hosts, stages = self._offers.stages(request.query)
        found = [refusal for offered, refusal in refused if not offered.by_fallback]
        legacy = [refusal for offered, refusal in refused if offered.by_fallback]
        fallen = [*fallen_in_stages(hosts, stages, len(found)), *fallen_in_fit(found)]
        fallen += fallen_in_fit(legacy, by_fallback=True)
        return NoValidHost(hosts, tuple(fallen), tuple(refusal.message for _, refusal in refused))

    def _take(self, offered: Offered, wanted: Wanted) -> GuestRecord | Refusal:
        """Choose, enter, claim, and enter as held; or leave everything as it was, and say why."""
        candidate = offered.candidate
        host = self._hosts.known[candidate.host]
        with host.ledger.changing() as change:
            settle(change, self._offers)
            before = change.host.guests
            if wanted.guest in before:
                raise GuestExists(f"guest {wanted.guest} has come to host {host.name} meanwhile")
            chosen = _chosen(host, host.ledger_with(before), wanted)
            if isinstance(chosen, Refusal):
                return chosen
            record = record_of(
                wanted.request.cpus,
                chosen,
                candidate.resources,
                flavor=wanted.flavor,
                provider=candidate.provider,
            )
            change.write({**before, wanted.guest: record})
            refused = self._claimed(candidate, wanted.guest, change, before)
            if refused is not None:
                return Refusal(Reason.CLAIM_LOST, f"host {host.name}: {refused}")
            held = replace(record, state=GuestState.HELD)
            change.write({**before, wanted.guest: held})
            return held

    def _claimed(self, candidate: Candidate, guest: str, change: Change, before: Guests) -> str | None:
        """Claim; unless that succeeds, the ledger says again what it said before.

        Where no answer came, nobody knows whether the claim was made: the entry stays, and is settled later.
        """
        try:
            refused = self._offers.claim(guest, candidate)
        except UNCERTAIN:
            raise
        except OpenStackError:
            change.write(before)
            raise
        if refused is not None:
            change.write(before)
        return refused

    def _is_placed(self, guest: str) -> bool:
        """Whether a guest has a host; of one whose scheduler has died this is found out first."""
        name = next((name for name, (guests, _) in self._ledgers.items() if guest in guests), None)
        if name is None or name in self._damaged:
            return self._offers.exists(guest)
        host = self._hosts.known[name]
        if is_unsettled(host):
            with host.ledger.changing() as change:
                settle(change, self._offers)
            self._ledger(host)
        return guest in host.guests() or self._offers.exists(guest)


def _unowned(ledger: GuestLedger) -> int:
    return (ledger.dedicated_mask & ~ledger.taken).bit_count()


def _chosen(host: ComputeHost, ledger: GuestLedger, wanted: Wanted) -> GuestPins | Refusal:
    """Choose the guest's CPUs of a host; this is what filters and what claims."""
    if ledger.conflicts:
        return Refusal(Reason.CPUS_PROMISED_TWICE, f"host {host.name}: {ledger.conflicts[0].message}")
    placed = place(ledger, wanted.request.cpus, pack=wanted.pack)
    if isinstance(placed, Refusal):
        return dataclasses.replace(placed, message=f"host {host.name}: {placed.message}")
    return placed
