"""From a guest's request to CPUs of a host: query, filter, weigh, claim, pin, record.

1. Placement is asked once for hosts that have enough of everything; if none of these takes the guest (compat
   nova: always), the fallback is asked for legacy hosts, which count pinned guests as VCPU.
   A host that Nova has disabled, or whose agent has been silent for too long, takes no guest.
2. Hosts are weighed by the CPUs that are free in their ledgers.
3. The best is tried first: its ledger says whether the guest's CPUs fit into its NUMA nodes by its thread
   policy. If not, the next host is tried, without a request.
4. With the ledger of the host locked, CPUs are chosen on its current state, entered as ``claiming``, claimed
   in Placement, and entered as held. The same function on the same state filters and chooses, so the choice
   cannot fail unless another scheduler was faster. If Placement refuses the claim, the entry is removed and
   the next host is tried. Whatever dies in between, the next holder of the ledger settles it.

A guest that is ``claiming`` while no one holds the ledger belongs to a scheduler that died: a scheduler holds
the ledger from before it enters a guest until Placement has answered. Placement knows whether the claim was
made.

A guest is deleted from Placement first: repeating a delete that broke off finishes it.

A host that is known by the address of its agent (:mod:`corewise_openstack.compute.remote`) does step 4, and
the delete, itself: its agent runs the same functions, under its own lock and with its own Placement client.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.beside_nova import refuse_provider_of_nova
from corewise_openstack.compute.errors import (
    ComputeError,
    GuestExists,
    GuestUnknown,
    HostUnknown,
    LedgerUnusable,
)
from corewise_openstack.compute.hosts import ComputeHost, Hosts
from corewise_openstack.compute.ledger import (
    Change,
    GuestClaim,
    GuestRecord,
    Guests,
    GuestState,
    HostDemands,
    record_of,
)
from corewise_openstack.compute.offers import CPU_CLASSES, Candidate, Offers, refuse_other_placement
from corewise_openstack.compute.verdicts import (
    HostScores,
    NoValidHost,
    Placed,
    Weighed,
    eliminated_by_fit,
    eliminated_by_query,
    weighed,
)
from corewise_openstack.guest_pinning.ledger import GuestLedger, GuestPins
from corewise_openstack.guest_pinning.placement import place
from corewise_openstack.openstack.errors import (
    OpenStackError,
    PlacementDown,
    PlacementServerError,
    UnexpectedAnswer,
)
from corewise_openstack.tracking import GuestRequest, PlacementQuery
from corewise_openstack.vocabulary.guests import GuestCPUs
from corewise_openstack.vocabulary.placement import DISABLED_TRAIT, VCPU


def settle(change: Change, offers: Offers) -> None:
    """Ask for every guest that is ``claiming`` whether it has been claimed: it becomes held, or is removed.

    It stays as it is, and keeps its CPUs, if these offers cannot know.
    """
    guests = dict(change.host.guests)
    for uuid, guest in change.host.guests.items():
        if guest.state is not GuestState.CLAIMING:
            continue
        holds = offers.holds(uuid, guest.provider)
        if holds:
            guests[uuid] = replace(guest, state=GuestState.HELD)
        elif holds is not None:
            del guests[uuid]
    change.write(guests)


def is_unsettled(host: ComputeHost) -> bool:
    """Whether a scheduler is claiming on a host, or has died there; an agent settles its host itself."""
    return host.agent is None and any(guest.state is GuestState.CLAIMING for guest in host.guests().values())


def pin(
    host: ComputeHost, request: GuestRequest, *, guest: str | None, flavor: str = "", pack: bool = False
) -> GuestPins | Finding:
    """Choose CPUs by the ledger, and enter the guest there if it has a name.

    Raises:
        NovaGivesCPUs: if nova-compute gives the host's CPUs to its own guests.
        GuestExists: if the host has a guest of this name.
        LedgerUnusable: if the ledger cannot be read or written.
    """
    host.refuse_cpus_of_nova()
    if guest is None:
        return place(host.ledger_with(host.guests()), request.cpus, pack=pack)
    with host.ledger.changing() as change:
        guests = change.host.guests
        if guest in guests:
            raise GuestExists(f"guest {guest} is on host {host.name} already")
        pins = place(host.ledger_with(guests), request.cpus, pack=pack)
        if isinstance(pins, GuestPins):
            claim = GuestClaim(guest, request.cpus, {"": request.query.resources}, flavor=flavor)
            change.write({**guests, guest: replace(record_of(claim, pins), state=GuestState.HELD)})
        return pins


def demanding_traits(demands: HostDemands, query: PlacementQuery) -> HostDemands:
    """Return a guest's demands on its host with the traits that its query demands."""
    required, forbidden = sorted(query.required), sorted(query.forbidden)
    return replace(demands, required=tuple(required), forbidden=tuple(forbidden))


def refusal_of(name: str, host: ComputeHost | None, traits: AbstractSet[str]) -> Finding | None:
    """Return the refusal of a host whose CPUs or provider are Nova's, or that Nova has disabled."""
    try:
        refuse_provider_of_nova(name, traits)
        if host is not None:
            host.refuse_cpus_of_nova()
    except ComputeError as error:
        return Finding(error.reason, str(error))
    if DISABLED_TRAIT in traits:
        return Finding(Reason.HOST_DISABLED, f"Nova has disabled host {name} (trait {DISABLED_TRAIT})")
    return None


def silence(host: ComputeHost, now: float, timeout: float) -> Finding | None:
    """Say for how long a host's agent has been silent, if that is too long; a host may have no agent."""
    last = host.last_report()
    silent = 0.0 if last is None else now - last
    if silent <= timeout:
        return None
    return Finding(Reason.HOST_SILENT, f"the agent of host {host.name} has not reported for {silent:.0f} s")


def take(host: ComputeHost, offers: Offers, claim: GuestClaim) -> GuestRecord | Finding:
    """Choose, enter, claim, and enter as held; or leave everything as it was, and say why.

    Raises:
        GuestExists: if the host has the guest already.
        LedgerUnusable: if the ledger cannot be read or written; nothing is claimed then.
        OpenStackError: what Placement refuses for other reasons than that somebody was faster.
    """
    with host.ledger.changing() as change:
        settle(change, offers)
        before = change.host.guests
        if claim.guest in before:
            raise GuestExists(f"guest {claim.guest} is on host {host.name} already")
        chosen = _chosen(host, host.ledger_with(before), claim.cpus, pack=claim.pack)
        if isinstance(chosen, Finding):
            return chosen
        record = record_of(claim, chosen)
        change.write({**before, claim.guest: record})
        try:
            refused = offers.claim(claim)
        except UNCERTAIN:
            raise  # the claim may have been made: the entry stays, and is settled later
        except OpenStackError:
            change.write(before)
            raise
        if refused is not None:
            change.write(before)
            return Finding(Reason.CLAIM_LOST, f"host {host.name}: {refused}")
        held = replace(record, state=GuestState.HELD)
        change.write({**before, claim.guest: held})
        return held


def release(host: ComputeHost, hosts: Hosts, offers: Offers, guest: str) -> None:
    """Release what a guest of a host holds: in Placement, then in the ledger.

    ``hosts`` are all that may know whether it is being moved.

    Raises:
        NovaGivesCPUs, ProviderOfNova: if it is a guest of Nova's.
        GuestMoving: if it is being moved.
        PlacementNotNamed: if its claim is in another Placement.
        ComputeError, OpenStackError: what else prevents it; the same call finishes it.
    """
    host.refuse_cpus_of_nova()
    offers.refuse_guest_of_nova(guest)
    with host.ledger.changing() as change:
        hosts.refuse_moving(guest)
        record = change.host.guests.get(guest)
        if record is not None:
            refuse_other_placement(guest, record.provider, host.name, offers)
        offers.release(guest)
        change.write({uuid: each for uuid, each in change.host.guests.items() if uuid != guest})


HOST_TIMEOUT = 300.0
"""Seconds without a report of a host's agent, after which it gets no guests; an agent reports each minute."""

_Refused = tuple[Candidate, Finding]
UNCERTAIN = (PlacementDown, UnexpectedAnswer, PlacementServerError)
"""After these errors it is unknown whether Placement carried out the request."""


class GuestScheduler:
    """Places guests on hosts. For one thread at a time; several may work on the same hosts and Placement."""

    def __init__(
        self,
        offers: Offers,
        hosts: Hosts,
        *,
        scores: HostScores | None = None,
        host_timeout: float = HOST_TIMEOUT,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._offers = offers
        self._hosts = hosts
        self._scores = scores
        self._host_timeout = host_timeout
        self._now = now
        self._ledgers: dict[str, tuple[Guests, GuestLedger]] = {}
        """Of each host: its guests when they were last read, and the ledger folded from them."""
        self._damaged: dict[str, LedgerUnusable] = {}

    def schedule(self, request: GuestRequest, wanted: GuestClaim) -> Placed | NoValidHost:
        """Find a host for a guest, claim it and pin the guest; the host decides the claim's allocations.

        Raises:
            GuestExists: if it has a host already.
            LedgerUnusable: if the ledger of the chosen host cannot be written; nothing is claimed then.
            PlacementError: what Placement refuses for other reasons than that somebody was faster.
        """
        self._read_ledgers()
        if where := self._place_of(wanted.guest):
            raise GuestExists(f"guest {wanted.guest} is {where} already")
        wanted = replace(wanted, demands=demanding_traits(wanted.demands, request.query))
        refusals: dict[str, _Refused] = {}
        lost: dict[str, Finding] = {}
        for found in self._rounds(request):
            offers = self._usable(found, refusals)
            order = self._weighed(offers, wanted)
            for each in order:
                candidate = offers[each.host]
                refusal = self._refusal(candidate, wanted)
                taken = refusal or self._take(candidate, wanted)
                if isinstance(taken, GuestRecord):
                    left = tuple(host for host in order if host.host not in refusals)
                    return Placed(wanted.guest, each.host, taken, candidate.by_fallback, left, lost)
                refusals[each.host] = candidate, taken
                lost |= {} if refusal else {each.host: taken}
        return self._no_valid_host(request, refusals.values())

    def delete(self, guest: str) -> str | None:
        """Release all that a guest holds; return its host, None if only Placement knew it.

        Raises:
            GuestUnknown: if neither Placement nor a ledger knows it.
            NovaGivesCPUs, ProviderOfNova: if it is a guest of Nova's.
            GuestMoving: if it is being moved.
            HostUnknown: if it holds CPUs of a host that is not known: that host's ledger may have it.
            ComputeError: if it may be on a host whose ledger or files cannot be used.
        """
        host = self._hosts.having(guest)
        if host is None:
            self._hosts.raise_unusable()
            self._hosts.refuse_moving(guest)
            self._offers.refuse_guest_of_nova(guest)
            self._refuse_unnamed_host(guest)
            if not self._offers.release(guest):
                raise GuestUnknown(f"no host has a guest {guest}")
            return None
        if host.agent is None:
            release(host, self._hosts, self._offers, guest)
        else:
            self._hosts.refuse_moving(guest)
            host.agent.release(guest)
        return host.name

    def _refuse_unnamed_host(self, guest: str) -> None:
        held = self._offers.held(guest) or {}
        giving = [uuid for uuid, amounts in held.items() if CPU_CLASSES & amounts.keys()]
        for relation in self._offers.relations(giving).values():
            if relation.name not in self._hosts.known:
                raise HostUnknown(
                    f"guest {guest} holds CPUs of host {relation.name}, which is not among the hosts named",
                    hint="its ledger has to give the CPUs back too: add --hosts DIR or --agent URL",
                )

    def _rounds(self, request: GuestRequest) -> Iterator[Sequence[Candidate]]:
        """Yield the hosts to try: those of the query, then those of the fallback; beside Nova all at once."""
        found = self._offers.candidates(request.query)
        if request.fallback is None:
            yield found
        elif request.fallback_always:
            yield [*found, *self._legacy(request.fallback)]
        else:
            yield found
            yield self._legacy(request.fallback)

    def _legacy(self, fallback: PlacementQuery) -> Sequence[Candidate]:
        """Return the hosts that the fallback finds; an upgraded one would reject the guest."""
        known = self._hosts.known
        return [
            dataclasses.replace(each, by_fallback=True)
            for each in self._offers.candidates(fallback)
            if each.host not in known or known[each.host].settings.legacy
        ]

    def _usable(self, found: Iterable[Candidate], refusals: dict[str, _Refused]) -> Mapping[str, Candidate]:
        """Return the hosts whose ledgers can be read, each once; ``refusals`` gets the others."""
        offers: dict[str, Candidate] = {}
        for candidate in found:
            name = candidate.host
            if name in offers or name in refusals:
                continue
            refusal = self._unusable(candidate)
            if refusal is None:
                offers[name] = candidate
            else:
                refusals[name] = candidate, refusal
        return offers

    def _unusable(self, candidate: Candidate) -> Finding | None:
        """Return the refusal of a host that takes no guest, whatever the guest needs."""
        name = candidate.host
        problem = self._damaged.get(name) or self._hosts.unusable.get(name)
        refusal = refusal_of(name, self._hosts.known.get(name), candidate.traits)
        if refusal is not None:
            return refusal
        if problem is not None:
            return Finding(problem.reason, str(problem))
        if name not in self._ledgers:
            return Finding(Reason.HOST_UNKNOWN, f"the CPUs of host {name} are unknown")
        return silence(self._hosts.known[name], self._now(), self._host_timeout)

    def _read_ledgers(self) -> None:
        """Read all ledgers, once for each guest that is to be placed."""
        self._damaged.clear()
        for host in self._hosts.known.values():
            try:
                self._ledger(host)
            except LedgerUnusable as error:
                self._damaged[host.name] = error

    def _ledger(self, host: ComputeHost) -> GuestLedger:
        """Return the ledger of a host's CPUs, rebuilt only if its guests have changed."""
        guests = host.guests()
        known = self._ledgers.get(host.name)
        if known is None or known[0] is not guests:
            known = self._ledgers[host.name] = guests, host.ledger_with(guests)
        return known[1]

    def _refusal(self, candidate: Candidate, wanted: GuestClaim) -> Finding | None:
        """Return the refusal of a guest by a host, or None if the host can take it."""
        host = self._hosts.known[candidate.host]
        chosen = _chosen(host, self._ledger(host), wanted.cpus, pack=wanted.pack)
        if isinstance(chosen, Finding) and is_unsettled(host):
            with host.ledger.changing() as change:
                settle(change, self._offers)
            chosen = _chosen(host, self._ledger(host), wanted.cpus, pack=wanted.pack)
        return chosen if isinstance(chosen, Finding) else None

    def _weighed(self, offers: Mapping[str, Candidate], wanted: GuestClaim) -> Sequence[Weighed]:
        """Order hosts: for guests with dedicated CPUs by those that are free, else by VCPU left."""
        if wanted.cpus.host_cpus:
            ledgers = {host: self._ledgers[host][1] for host in offers}
            free = {host: (of.dedicated_mask & ~of.taken).bit_count() for host, of in ledgers.items()}
        else:
            free = {host: each.free.get(VCPU, 0) for host, each in offers.items()}
        return weighed(free, self._scores, pack=wanted.pack)

    def _no_valid_host(self, request: GuestRequest, refused: Collection[_Refused]) -> NoValidHost:
        """Explain by counts: a part of the query eliminated what it does not find, their CPUs the others."""
        hosts, stages = self._offers.stages(request.query)
        found = [refusal for candidate, refusal in refused if not candidate.by_fallback]
        legacy = [refusal for candidate, refusal in refused if candidate.by_fallback]
        eliminated = [*eliminated_by_query(hosts, stages, len(found)), *eliminated_by_fit(found)]
        eliminated += eliminated_by_fit(legacy, by_fallback=True)
        return NoValidHost(hosts, tuple(eliminated), tuple(refusal.message for _, refusal in refused))

    def _take(self, candidate: Candidate, wanted: GuestClaim) -> GuestRecord | Finding:
        """Claim a host, or have its agent claim it."""
        host = self._hosts.known[candidate.host]
        claim = replace(wanted, allocations=candidate.allocations, provider=candidate.provider)
        return take(host, self._offers, claim) if host.agent is None else host.agent.take(claim)

    def _place_of(self, guest: str) -> str:
        """Say where a guest is, if anywhere; settles it first if its scheduler has died."""
        elsewhere = "in Placement, and in no ledger that can be read here,"
        name = next((name for name, (guests, _) in self._ledgers.items() if guest in guests), None)
        if name is None or name in self._damaged:
            return elsewhere if self._offers.exists(guest) else ""
        host = self._hosts.known[name]
        if is_unsettled(host):
            with host.ledger.changing() as change:
                settle(change, self._offers)
            self._ledger(host)
        if guest in host.guests():
            return f"on host {name}"
        return elsewhere if self._offers.exists(guest) else ""


def _chosen(host: ComputeHost, ledger: GuestLedger, cpus: GuestCPUs, *, pack: bool) -> GuestPins | Finding:
    """Choose the guest's CPUs of a host: the same function filters and claims."""
    if ledger.conflicts:
        return Finding(Reason.CPUS_PROMISED_TWICE, f"host {host.name}: {ledger.conflicts[0].message}")
    placed = place(ledger, cpus, pack=pack)
    if isinstance(placed, Finding):
        return dataclasses.replace(placed, message=f"host {host.name}: {placed.message}")
    return placed
