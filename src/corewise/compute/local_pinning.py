"""A guest is pinned on a host that was chosen otherwise, without a Placement."""

from __future__ import annotations

from msgspec.structs import replace

from corewise.compute.errors import GuestExists
from corewise.compute.hosts import ComputeHost
from corewise.compute.records import GuestState, record_of
from corewise.pinning import GuestPins, Refusal, place
from corewise.tracking import GuestRequest


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
