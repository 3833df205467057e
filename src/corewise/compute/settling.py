"""Guests that stand in a ledger as ``claiming``, although nobody is at work on them any more.

Whoever holds the ledger knows that: a scheduler holds it from before it enters a guest until Placement has
answered. What became of the claim stands in Placement.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from corewise.compute.hosts import ComputeHost
from corewise.compute.ledger_file import Change
from corewise.compute.offers import Offers
from corewise.compute.records import GuestState


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
