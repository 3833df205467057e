"""A cache of what was read of texts, bounded in bytes, since their writer chooses their number and length.

A cache that counts its entries is no bound where one entry may be 1,000 times as large as another. So each
entry has a weight: an upper estimate of the bytes of its arguments and of what was read. Entries are kept in
two generations, each of at most half of ``most``. When the younger one is full, it becomes the older one, and
what was in the older one is forgotten, except for what was asked for since. An entry that is more than
1/``_PARTS`` of all is not kept.

Two threads may read the same text twice; that is all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

MIB: Final = 1 << 20
CPU_BYTES: Final = 96
"""Bytes of one CPU of a CPUSet: the number, and its place in a frozenset that is a quarter full."""
_PARTS: Final = 16


def text_bytes(text: str | None) -> int:
    """Return at most how many bytes the characters of a text take; CPython stores up to 4 for each."""
    if text is None:
        return 0
    return len(text) if text.isascii() else 4 * len(text)


class TextCache(Generic[P, R]):
    """A function of texts that remembers what it returned. Its arguments are positional.

    ``weigh`` returns the bytes of an entry, from the result and the arguments.
    """

    def __init__(self, read: Callable[P, R], *, most: int, weigh: Callable[..., int]) -> None:
        self.read = read
        self.most = most
        self._weigh = weigh
        self._young: dict[object, R] = {}
        self._old: dict[object, R] = {}
        self._young_weight = self._old_weight = 0

    @property
    def weight(self) -> int:
        """The bytes of all entries, by their estimates."""
        return self._young_weight + self._old_weight

    def __call__(self, *texts: P.args, **none: P.kwargs) -> R:
        found = self._young.get(texts, self)
        if not isinstance(found, TextCache):
            return found
        found = self._old.get(texts, self)
        result = self.read(*texts, **none) if isinstance(found, TextCache) else found
        weight = self._weigh(result, *texts)
        if weight * _PARTS <= self.most:
            if (self._young_weight + weight) * 2 > self.most:
                self._old, self._old_weight = self._young, self._young_weight
                self._young, self._young_weight = {}, 0
            self._young[texts] = result
            self._young_weight += weight
        return result


def remembered(*, most: int, weigh: Callable[..., int]) -> Callable[[Callable[P, R]], TextCache[P, R]]:
    """Remember what a function of texts returned, in at most ``most`` bytes."""
    return lambda read: TextCache(read, most=most, weigh=weigh)
