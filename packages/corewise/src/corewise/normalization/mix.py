"""The work by which CPUs are compared: six kernels, two each of integer, float and memory work.

Python's standard library is the same everywhere, so no compiler is needed and nothing is downloaded. Each
pass is one call into a C loop that runs for 20 us or longer; the interpreter's part in it is below one
percent.

=========  =======  ================================================================================
deflate    integer  zlib.compress, level 6, 71 KiB of words: tables, branches, comparisons
modpow     integer  pow(base, exponent, modulus) with 1000, 300 and 1024 bits: long multiplication
fsum       float    math.fsum of 8192 numbers of very different size: additions that depend on each other
product    float    math.prod of 8192 numbers: a chain of multiplications
copy       memory   copying 16 MiB: the bandwidth of large caches and memory
gather     memory   65536 reads at random places of 32 MiB: the latency of large caches and memory
=========  =======  ================================================================================

A change to anything here changes what is measured: then raise :data:`VERSION`, so that old and new results
are not compared. Kernels that have instructions of their own on some CPUs (SHA, CRC32, AES) are left out on
purpose: they would rank CPUs by one instruction.
"""

from __future__ import annotations

import hashlib
import math
import operator
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

VERSION = 1
"""Of the mix. Only results of one version can be compared."""

MEMORY_PER_WORKER = 120 * 2**20
"""Bytes that a worker takes, its interpreter included."""

Pass = Callable[[], object]

_WORDS = 512
_TEXT_WORDS = 12_000
_FLOATS = 8192
_COPIED = 16 * 2**20
_PLACES = 1 << 20
_GATHERED = 1 << 16


class Work(StrEnum):
    """The kind of work that a kernel stands for."""

    INTEGER = "integer"
    FLOAT = "float"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kind of work. ``prepare`` makes the data, the same on every machine, and returns one pass."""

    work: Work
    prepare: Callable[[], Pass]


@dataclass(frozen=True, slots=True)
class Done:
    """The result of one worker: ``elapsed`` and ``cpu`` in nanoseconds."""

    passes: int
    elapsed: int
    cpu: int

    def __str__(self) -> str:
        return f"{self.passes} {self.elapsed} {self.cpu}"

    @classmethod
    def parse(cls, line: str) -> Done:
        passes, elapsed, cpu = map(int, line.split())
        return cls(passes, elapsed, cpu)


def _deflate() -> Pass:
    letters = bytes(97 + number % 26 for number in range(256))
    noise = _noise("words", _WORDS * 9).translate(letters)
    words = [noise[9 * index : 9 * index + 3 + index % 7] for index in range(_WORDS)]
    picks = zip(_numbers("first picks", _TEXT_WORDS), _numbers("second picks", _TEXT_WORDS), strict=True)
    text = b" ".join(words[min(a, b) % _WORDS] for a, b in picks)
    return lambda: zlib.compress(text, 6)


def _modpow() -> Pass:
    base, exponent, modulus = (
        int.from_bytes(_noise(name, bits // 8), "big") | 1 << bits - 1 | 1
        for name, bits in (("base", 1000), ("exponent", 296), ("modulus", 1024))
    )
    return lambda: pow(base, exponent, modulus)


def _fsum() -> Pass:
    numbers = _numbers("terms", _FLOATS)
    terms = [math.ldexp(number - 2**31, number % 53 - 26) for number in numbers]
    return lambda: math.fsum(terms)


def _product() -> Pass:
    factors = [1 + (number - 2**31) / 2**42 for number in _numbers("factors", _FLOATS)]
    return lambda: math.prod(factors)


def _copy() -> Pass:
    source, target = memoryview(bytearray(_COPIED)), memoryview(bytearray(_COPIED))

    def one_pass() -> None:
        target[:] = source

    return one_pass


def _gather() -> Pass:
    places = [float(place) for place in range(_PLACES)]
    pick = operator.itemgetter(*(number % _PLACES for number in _numbers("places", _GATHERED)))
    return lambda: pick(places)


KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        "deflate": Kernel(Work.INTEGER, _deflate),
        "modpow": Kernel(Work.INTEGER, _modpow),
        "fsum": Kernel(Work.FLOAT, _fsum),
        "product": Kernel(Work.FLOAT, _product),
        "copy": Kernel(Work.MEMORY, _copy),
        "gather": Kernel(Work.MEMORY, _gather),
    }
)


def _noise(name: str, count: int) -> bytes:
    """Return bytes without a pattern that are the same on every machine and Python."""
    return hashlib.shake_128(name.encode()).digest(count)


def _numbers(name: str, count: int) -> list[int]:
    """Return numbers below 2**32 without a pattern."""
    noise = _noise(name, 4 * count)
    return [int.from_bytes(noise[at : at + 4], "little") for at in range(0, 4 * count, 4)]
