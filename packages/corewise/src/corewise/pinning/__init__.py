"""Pinning: which CPUs of a machine a workload gets, and who holds which.

- :mod:`ledger`: a workload's wish, and its grant or refusal; who holds which CPU of one machine;
- :mod:`choice`: the CPUs for a wish, from what the ledger leaves.

Everything is a value: a choice changes no ledger, a claim makes a new one. The same wish on the same ledger
gives the same CPUs.
"""
