"""Pinning: which CPUs of a machine a workload gets, and who holds which.

- :mod:`wish`: what a workload asks for, and what it gets: a grant, or a refusal with a reason;
- :mod:`ledger`: who holds which CPU of one machine, folded from what its workloads state;
- :mod:`choice`: the choice of CPUs for a wish, from what the ledger leaves;
- :mod:`groups`: sockets, NUMA nodes and caches as groups of free CPUs, and how one is filled.

Everything is a value: a choice changes no ledger, a claim makes a new one. The same wish on the same ledger
gives the same CPUs.
"""

from corewise.pinning.choice import choose
from corewise.pinning.ledger import Claim, Conflict, FreeCores, Ledger
from corewise.pinning.wish import CoreUse, Exclusivity, Grant, Refusal, Wish

__all__ = [
    "Claim",
    "Conflict",
    "CoreUse",
    "Exclusivity",
    "FreeCores",
    "Grant",
    "Ledger",
    "Refusal",
    "Wish",
    "choose",
]
