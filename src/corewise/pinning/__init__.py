"""Pinning: which CPUs of a machine a workload gets, and who holds which.

- :mod:`ledger`: a workload's wish, and its grant or refusal; who holds which CPU of one machine;
- :mod:`choice`: the CPUs for a wish, from what the ledger leaves.

Guests of a compute host have rules of their own:

- :mod:`guest_ledger`: ``host_cells(host, dedicated, shared)``, the NUMA nodes of a host, and
  ``GuestLedger(cells, hyper_threading, legacy)``, who holds what of them;
- :mod:`guest_placement`: ``place(ledger, guest, pack=...) -> GuestPins | Refusal``: fit and claim at once.

Everything is a value: a choice changes no ledger, a claim makes a new one. The same wish on the same ledger
gives the same CPUs.
"""

from corewise.pinning.choice import choose
from corewise.pinning.guest_ledger import CellPins, GuestLedger, GuestPins, HostCell, host_cells
from corewise.pinning.guest_placement import place
from corewise.pinning.ledger import (
    Claim,
    ClaimConflict,
    CoreUse,
    Exclusivity,
    FreeCores,
    Grant,
    Ledger,
    Refusal,
    Wish,
)

__all__ = [
    "CellPins",
    "Claim",
    "ClaimConflict",
    "CoreUse",
    "Exclusivity",
    "FreeCores",
    "Grant",
    "GuestLedger",
    "GuestPins",
    "HostCell",
    "Ledger",
    "Refusal",
    "Wish",
    "choose",
    "host_cells",
    "place",
]
