"""Computes what follows from the pods of a node once, and not again for each loop and interval that asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, TypeVarTuple

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


class Latest(Generic[*Ts, T]):
    """The result of a function for its latest arguments.

    Tuples of the same objects are equal without a look into them, which makes the comparison cheap.
    """

    def __init__(self, function: Callable[[*Ts], T]) -> None:
        self._function = function
        self._known: tuple[tuple[*Ts], T] | None = None

    def __call__(self, *arguments: *Ts) -> T:
        if self._known is None or self._known[0] != arguments:
            self._known = arguments, self._function(*arguments)
        return self._known[1]
