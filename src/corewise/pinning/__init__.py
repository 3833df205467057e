"""Pinning: which CPUs of a machine a workload gets, and who holds which.

- :mod:`wish`: what a workload asks for, and what it gets: a grant, or a refusal with a reason;
- :mod:`ledger`: who holds which CPU of one machine, folded from what its workloads state;
- :mod:`choice`: the choice of CPUs for a wish, from what the ledger leaves;
- :mod:`groups`: sockets, NUMA nodes and caches as groups of free CPUs, and how one is filled.

Guests of a compute host have words and rules of their own:

- :mod:`host_cells`: ``host_cells(host, dedicated, shared)``, the NUMA nodes of a host;
- :mod:`guest_ledger`: ``GuestLedger(cells, hyper_threading, legacy)``, and ``pin``, ``unpin``, ``found``;
- :mod:`guest_placement`: ``place(ledger, guest, pack=...) -> GuestPins | Refusal``: fit and claim at once;
- :mod:`thread_choice`: the CPUs of one NUMA node, by thread policy;
- :mod:`matching`: guest nodes to host nodes;
- :mod:`guest_refusal`: why a host cannot take a guest.

Everything is a value: a choice changes no ledger, a claim makes a new one. The same wish on the same ledger
gives the same CPUs.
"""

from corewise.pinning.choice import choose
from corewise.pinning.guest_ledger import CellPins, GuestLedger, GuestPins
from corewise.pinning.guest_placement import place
from corewise.pinning.host_cells import HostCell, host_cells
from corewise.pinning.ledger import Claim, Conflict, FreeCores, Ledger
from corewise.pinning.wish import CoreUse, Exclusivity, Grant, Refusal, Wish

__all__ = [
    "CellPins",
    "Claim",
    "Conflict",
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
