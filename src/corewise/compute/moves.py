"""A reshape that was done, noted in the host's ledger: what its guests hold now."""

from __future__ import annotations

from msgspec.structs import replace

from corewise.actions import Reshape
from corewise.compute.ledger_file import LedgerStore


def note_moves(ledger: LedgerStore, done: Reshape) -> None:
    """Enter what moved guests hold of their host.

    Raises:
        LedgerUnusable: if the ledger cannot be written; Placement has been changed.
    """
    held = {
        consumer.uuid: dict(consumer.allocations.get(provider.uuid, {}))
        for provider in done.providers
        for consumer in done.consumers
    }
    with ledger.changing() as change:
        guests = change.host.guests
        moved = {uuid: replace(guest, resources=held[uuid]) for uuid, guest in guests.items() if uuid in held}
        change.write({**guests, **moved})
