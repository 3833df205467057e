"""How large an amount may be: more than any machine has, and less than what overflows where it is added up.

kube-apiserver takes amounts of any size, written in any number of digits, from everybody who may create pods.
Columns of the scheduler, and reports in JSON, are 64 bits wide. So every amount is bounded where it is read.

A pod's amount that cannot be read counts as the largest too: as none, a pod that owns CPUs would own none.
Such a pod fills its node, so nothing more is placed there, and the reason AmountTooLarge tells of it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from corewise.quantities.quantity import NANO, Quantity, QuantityError

_CPU: Final = "cpu"
LARGEST_MILLI: Final = 10**10
"""Milli-CPU: ten million CPUs. Linux runs on up to 8192, and a ratio of 10.00 makes 81920 of them. Times the
largest ratio that a record may state (10**6, in hundredths) it still fits into 64 bits; whole CPUs, so that
a pod which owns as many owns them all."""

LARGEST_AMOUNT: Final = 2**52
"""Of everything else, in its units: 4 PiB of memory."""


def bounded(resource: str, amount: int) -> int:
    """Return an amount (of cpu in milli) within 0 and the largest."""
    return max(0, min(amount, LARGEST_MILLI if resource == _CPU else LARGEST_AMOUNT))


def largest(resource: str) -> Quantity:
    """Return the largest amount of a resource."""
    return Quantity.of_milli(LARGEST_MILLI) if resource == _CPU else Quantity(LARGEST_AMOUNT * NANO)


@lru_cache(maxsize=8192)
def requested(resource: str, text: str | int) -> Quantity:
    """Read an amount that a pod states, once for all pods that state it; the largest if it cannot be read."""
    try:
        return min(Quantity.parse(str(text)), largest(resource))
    except QuantityError:
        return largest(resource)
