"""Keeps a CPU busy for a part of each slot of time, and counts the work that it does.

Work is hashing (SHA-256) in one thread. In each slot of about 20 ms, on a grid of its own, it works from the
slot's beginning until the load's part of the slot is over by the clock, whatever it got done: time for which
it had to wait for a CPU is work not done. Load 1 never rests.

A slot is no multiple of a timer tick (1, 4 or 10 ms): most kernels find out what CPUs do (proc/stat) by a
look at each tick, and would never see work that goes in step with it.

Runs alone, with nothing but the standard library: ``python -I -S spinner.py COUNTERS INDEX BEGAN CURVE``.
COUNTERS is a file of 64-bit numbers of which INDEX is this process's own; BEGAN is when the curve begins, on
the monotonic clock; CURVE is ``seconds:load,…``, joined by straight lines.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import sys
from pathlib import Path
from time import monotonic, sleep

SLOT = 0.0197
_BLOCK = bytes(2000)
_Points = list[tuple[float, float]]


def points(text: str) -> _Points:
    """Read a curve."""
    pairs = (pair.split(":") for pair in text.split(","))
    return [(float(at), float(load)) for at, load in pairs]


def load_at(curve: _Points, seconds: float) -> float:
    """Return the load; before the first point it is the first one's, after the last one the last one's."""
    before = curve[0]
    for point in curve:
        if point[0] > seconds:
            span = point[0] - before[0]
            part = (seconds - before[0]) / span if span > 0 else 1.0
            return before[1] + (point[1] - before[1]) * max(0.0, part)
        before = point
    return before[1]


def spin(counters: memoryview, index: int, began: float, curve: _Points) -> None:
    """Work as long as whoever started it lives. ``counters`` holds 64-bit numbers."""
    work, parent = hashlib.sha256, os.getppid()
    done, slot = 0, began
    while os.getppid() == parent:
        until = slot + SLOT * load_at(curve, slot - began)
        while monotonic() < until:
            work(_BLOCK)
            done += 1
            counters[index] = done
        slot = max(slot + SLOT, until)
        rest = slot - monotonic()
        if rest > 0:
            sleep(rest)
        elif rest < -SLOT:
            slot += int(-rest / SLOT) * SLOT


def main(arguments: list[str]) -> None:
    """Work as the command line says."""
    path, index, began, curve = arguments
    with Path(path).open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        sleep(max(0.0, float(began) - monotonic()))
        spin(memoryview(memory).cast("Q"), int(index), float(began), points(curve))


if __name__ == "__main__":
    main(sys.argv[1:])
