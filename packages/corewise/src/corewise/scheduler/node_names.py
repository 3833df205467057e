"""Names of nodes in the calls of kube-scheduler: thousands at once, found without a Python string for each.

A call has a JSON array of names. Their order tells nothing: several workers of kube-scheduler check nodes at
the same time, and each node that passes takes the next free place (pkg/scheduler/schedule_one.go). So every
name is looked up, by its bytes, all at once:

    word      = 8 bytes of a name; the quote that ends it belongs to it, zeros follow
    hash      = sum of word[i] x odd number[i], mixed
    candidate = the row in the table's place for this hash
    found     : all words are those of the candidate

Names that are not found so, unknown ones and those whose place another name has, are looked up one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, overload
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from corewise.amplification.numa import BoolColumn, IntColumn
from corewise.engine import NOWHERE, ClusterSnapshot

_ROOMY: Final = 64
"""Places of the table for each name: of 5,000 names some 25 share a place with another."""
_WORD: Final = 8
_ODD: Final = 0x9E3779B97F4A7C15
_QUOTE: Final = ord('"')
_SCORED: Final = (b'[{"Host":', b',"Score":0},{"Host":', b',"Score":0}]')


class SentNames(Sequence[str]):
    """A JSON array of names, without blanks: ``starts`` and ``ends`` say where in it each name is."""

    __slots__ = ("array", "ends", "starts")

    def __init__(self, array: bytes, starts: IntColumn, ends: IntColumn) -> None:
        self.array, self.starts, self.ends = array, starts, ends

    @classmethod
    def of(cls, names: Sequence[str]) -> SentNames:
        """Write names into an array."""
        written = list(map(msgspec.json.encode, names))
        lengths = np.fromiter(map(len, written), dtype=np.int64, count=len(written))
        ends = np.cumsum(lengths + 1) - 1
        return cls(b"[" + b",".join(written) + b"]", ends - lengths + 2, ends)

    @classmethod
    def read(cls, array: bytes) -> SentNames | None:
        """Take valid JSON as it was sent, if it is an array as kube-scheduler writes it; else None.

        Without escapes every quote begins or ends a string. Where strings, their quotes, a comma between two,
        and two brackets make up its length, there is nothing else in it.
        """
        if not array.startswith(b"[") or not array.isascii() or b"\\" in array:
            return None
        quotes = np.flatnonzero(np.frombuffer(array, dtype=np.uint8) == _QUOTE)
        starts, ends = quotes[0::2] + 1, quotes[1::2]
        lengths = ends - starts
        if not len(lengths) or not lengths.all() or int(lengths.sum()) + 3 * len(lengths) + 1 != len(array):
            return None
        return cls(array, starts, ends)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return msgspec.json.decode(self.array[self.starts[place] - 1 : self.ends[place] + 1], type=str)

    def __len__(self) -> int:
        return len(self.starts)

    def only(self, wanted: BoolColumn) -> SentNames:
        """Return some of the names."""
        if wanted.all():
            return self
        lengths = self.ends - self.starts + 3
        text = np.frombuffer(self.array, dtype=np.uint8)[1:]
        kept = text[np.repeat(wanted, lengths)].tobytes()
        ends = np.cumsum(lengths[wanted]) - 1
        return SentNames(b"[" + kept[:-1] + b"]", ends - lengths[wanted] + 3, ends)

    def scored(self, scores: IntColumn) -> bytes:
        """Write a HostPriorityList: scores are 0 to 10. Names with commas are written one by one."""
        if self.array.count(b",") >= len(self):
            pairs = zip(self, scores.tolist(), strict=True)
            return msgspec.json.encode([{"Host": name, "Score": score} for name, score in pairs])
        first, between, last = _SCORED
        text = bytearray(self.array.replace(b",", between))
        text[:1], text[-1:] = first, last
        shift = np.arange(len(self)) * (len(between) - 1) + len(first) - 1
        digits = self.ends + shift + len('","Score":')
        np.frombuffer(text, dtype=np.uint8)[digits] = ord("0") + scores % 10
        for digit in reversed(digits[scores == 10].tolist()):
            text[digit:digit] = b"1"
        return bytes(text)


class KnownNames:
    """The rows of the nodes that are known, by their names; and those of the last names that were kept."""

    def __init__(self) -> None:
        self._version = NOWHERE
        self._fill([])

    def keep(self, names: SentNames, rows: IntColumn) -> None:
        """Keep rows of names: prioritize is called with the nodes that filter has let through."""
        self._kept, self._kept_rows = names.array, rows

    def rows_of(self, names: SentNames, snapshot: ClusterSnapshot) -> IntColumn:
        """Return the rows of nodes by their names; NOWHERE is the row of one that is not known."""
        if self._version != snapshot.static_version:
            self._version = snapshot.static_version
            if self._names != snapshot.names:
                self._fill(list(snapshot.names))
        if names.array == self._kept:
            return self._kept_rows
        words = self._words(names)
        rows = self._table.take(self._places(words)).astype(np.int64)
        unlike = np.flatnonzero(self._known.take(rows, axis=0) != words) // words.shape[1]
        for place in set(unlike.tolist()):
            rows[place] = snapshot.index.get(names[place], NOWHERE)
        return rows

    def checksums(self, seed: str, rows: IntColumn) -> IntColumn:
        """Return the CRC-32 of a seed followed by the name of each node.

        A CRC is linear: that of two texts is that of the second, changed by the first and by how long the
        second is, whatever its bytes are.
        """
        start, shift = crc32(seed.encode()), np.zeros(self._longest + 1, dtype=np.int64)
        for length in self._all_lengths:
            shift[length] = crc32(bytes(length), start) ^ crc32(bytes(length))
        return self._checksums[rows] ^ shift[self._lengths[rows]]

    def _fill(self, names: list[str]) -> None:
        self._names = names
        self._kept, self._kept_rows = b"", np.zeros(0, dtype=np.int64)
        encoded = [name.encode() for name in (*names, "")]
        self._checksums = np.array([crc32(name) for name in encoded], dtype=np.int64)
        self._lengths = np.array([len(name) for name in encoded], dtype=np.int64)
        self._all_lengths = sorted(set(self._lengths.tolist()))
        self._longest = self._all_lengths[-1]

        width = (self._longest // _WORD + 1) * _WORD
        self._masks = np.tri(width + 1, width, -1, dtype=np.uint8) * np.uint8(255)
        self._odd = np.cumprod(np.full(width // _WORD, _ODD, dtype=np.uint64))
        bits = (len(encoded) * _ROOMY).bit_length()
        self._beyond = np.uint64(64 - bits)
        words = self._words(SentNames.of(names))
        self._known = np.vstack([words, np.zeros_like(words, shape=(1, words.shape[1]))])
        self._table = np.full(1 << bits, NOWHERE, dtype=np.int32)
        self._table[self._places(words)] = np.arange(len(names))

    def _words(self, names: SentNames) -> NDArray[np.uint64]:
        """Return the words of each name, as many as the longest known name has."""
        width = self._masks.shape[1]
        padded = names.array + bytes(width)
        at_each_byte = np.ndarray((len(names.array),), dtype=f"V{width}", buffer=padded, strides=(1,))
        words = at_each_byte[names.starts].view(np.uint64).reshape(-1, width // _WORD)
        lengths = np.minimum(names.ends - names.starts + 1, width)
        words &= self._masks.view(np.uint64).take(lengths, axis=0)
        return words

    def _places(self, words: NDArray[np.uint64]) -> IntColumn:
        """Return the table's place for each name."""
        mixed = np.zeros(len(words), dtype=np.uint64)
        for column, odd in zip(words.T, self._odd, strict=True):
            mixed += column * odd
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(_ODD)
        return (mixed >> self._beyond).view(np.int64)
