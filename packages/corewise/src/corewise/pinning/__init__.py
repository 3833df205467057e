"""Pinning: which CPUs of a machine a workload gets, and who holds which.

- :mod:`ledger`: a workload's wish, and its grant or refusal; who holds which CPU of one machine;
- :mod:`choice`: the CPUs for a wish, from what the ledger leaves.

Guests of a compute host have rules of their own:

- :mod:`guest_ledger`: ``host_cells(host, dedicated, shared)``, the NUMA nodes of a host, and
  ``GuestLedger(cells, hyper_threading, legacy)``, who holds what of them;
- :mod:`guest_placement`: ``place(ledger, guest, pack=...) -> GuestPins | Refusal``: fit and claim at once.

Everything is a value: a choice changes no ledger, a claim makes a new one. The same wish on the same ledger
gives the same CPUs.

Nothing is exported from here: a program that keeps a ledger need not import what places guests.
"""
