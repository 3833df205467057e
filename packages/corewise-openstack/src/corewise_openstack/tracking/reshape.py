"""The upgrade of a host: pinned guests that hold VCPU are given PCPU, in one request.

Due as soon as ``cpu_dedicated_set`` is set and a pinned guest of the host holds VCPU for its dedicated CPUs
and no PCPU. Of such a guest the dedicated part of its VCPU becomes PCPU; what it holds of other classes
stays. Guests that share CPUs keep VCPU. A guest of thread policy ``isolate`` on a host with hyperthreads
keeps its cores' other threads from everybody: they count as PCPU too (compat nova: they do not), and so does
the CPU of its own that its emulator threads run on. With everything moved there is no plan: a second run
changes nothing.

The new inventories must hold what is moved, and VCPU that guests keep must still be offered, or the reshape
is refused before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from corewise.topology import CPUSet, Topology
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.actions import Reshape
from corewise_openstack.tracking.inventory import HostOffer
from corewise_openstack.tracking.options import Compat, HostedGuest, HostSettings
from corewise_openstack.vocabulary.guests import ThreadPolicy
from corewise_openstack.vocabulary.placement import PCPU, VCPU, Inventory, ProviderUse

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class GuestMove:
    """The allocations of one guest from the host's provider, before and after."""

    guest: HostedGuest
    before: Mapping[str, int]
    after: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReshapePlan:
    """The changes of one request; ``action`` carries it out. Never without a move."""

    before: Mapping[str, Inventory]
    after: Mapping[str, Inventory]
    moves: tuple[GuestMove, ...]
    action: Reshape
    warnings: tuple[Finding, ...] = ()


def plan_reshape(  # noqa: PLR0917 - six facts, of which none follows from another
    use: ProviderUse,
    guests: Sequence[HostedGuest],
    settings: HostSettings,
    offered: HostOffer,
    topology: Topology,
    compat: Compat = Compat.SPEC,
) -> ReshapePlan | Finding | None:
    """Plan the reshape of one host; None if there is nothing to move.

    ``use`` is the host's provider with everyone who holds something of it, ``guests`` those on the host.
    """
    if settings.legacy or not settings.dedicated:
        return None
    by_uuid = {guest.uuid: guest for guest in guests if guest.pinned}
    provider = use.provider
    moves: dict[str, GuestMove] = {}
    for consumer in use.consumers:
        held = consumer.allocations.get(provider.uuid, {})
        guest = by_uuid.get(consumer.uuid)
        if guest is not None and held.get(VCPU) and not held.get(PCPU):
            pcpus = _pcpus(guest, settings.dedicated, topology, compat)
            moves[consumer.uuid] = GuestMove(guest, held, _moved(held, guest, pcpus))
    if not moves:
        return None
    after = offered.inventories_of(provider)
    refusal = _refusal(use, after, moves)
    if refusal is not None:
        return refusal
    return ReshapePlan(
        before=provider.inventories,
        after=after,
        moves=tuple(moves.values()),
        action=_action(use, after, moves),
        warnings=tuple(_unexpected(moves.values())),
    )


def _pcpus(guest: HostedGuest, dedicated: CPUSet, topology: Topology, compat: Compat) -> int:
    """Return the number of dedicated CPUs that only this guest may use."""
    if compat is Compat.NOVA:
        return len(guest.pinned)
    own = guest.pinned | guest.emulator
    if guest.thread_policy is not ThreadPolicy.ISOLATE:
        return len(own)
    siblings = (topology.siblings(cpu) for cpu in guest.pinned & topology.cpus)
    return len(own | CPUSet.of(cpu for core in siblings for cpu in core & dedicated))


def _moved(held: Mapping[str, int], guest: HostedGuest, pcpus: int) -> Mapping[str, int]:
    left = max(0, held[VCPU] - len(guest.pinned)) if guest.shared else 0
    after = {**held, VCPU: left, PCPU: pcpus}
    return MappingProxyType({name: after[name] for name in sorted(after) if after[name]})


def _refusal(
    use: ProviderUse, after: Mapping[str, Inventory], moves: Mapping[str, GuestMove]
) -> Finding | None:
    """Return a refusal if something does not fit: too many PCPU, or VCPU that the host no longer offers."""
    held = {each.uuid: each.allocations.get(use.provider.uuid, {}) for each in use.consumers}
    held |= {guest: move.after for guest, move in moves.items()}
    used = sum(amounts.get(PCPU, 0) for amounts in held.values())
    capacity = after[PCPU].capacity if PCPU in after else 0
    if used > capacity:
        message = f"the pinned guests of the host need {used} PCPU, and it would offer {capacity}"
        return Finding(Reason.RESHAPE_EXCEEDS_INVENTORY, message)
    keeping = sorted(guest for guest, amounts in held.items() if amounts.get(VCPU))
    if VCPU in after or not keeping:
        return None
    more = f" and {len(keeping) - _MOST_NAMED} more" if len(keeping) > _MOST_NAMED else ""
    named = ", ".join(keeping[:_MOST_NAMED]) + more
    message = f"the host would offer no VCPU, and guests that share CPUs hold it: {named}"
    return Finding(Reason.GUEST_NEEDS_SHARED_CPUS, message)


def _action(use: ProviderUse, after: Mapping[str, Inventory], moves: Mapping[str, GuestMove]) -> Reshape:
    provider = use.provider
    consumers = tuple(
        replace(
            each,
            allocations=MappingProxyType({**each.allocations, provider.uuid: moves[each.uuid].after}),
        )
        for each in use.consumers
        if each.uuid in moves
    )
    why = f"{len(moves)} pinned guests of {provider.name} hold VCPU, and cpu_dedicated_set is set"
    return Reshape((replace(provider, inventories=after),), consumers, Reason.GUESTS_RESHAPED, why)


def _unexpected(moves: Iterable[GuestMove]) -> Iterable[Finding]:
    for move in moves:
        expected = len(move.guest.pinned) + move.guest.shared
        if move.before[VCPU] != expected:
            message = f"guest {move.guest.label} holds {move.before[VCPU]} VCPU and has {expected} CPUs"
            yield Finding(Reason.RESHAPE_AMOUNT_UNEXPECTED, message)
