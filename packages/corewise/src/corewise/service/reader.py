"""Reads long texts in a thread, so that probes, watches and the lease do not wait for it.

There is one thread: each further one would take a further part of the event loop's time. What nothing else
touches needs no lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
MOST_AT_ONCE = 4096
"""The most characters of a text that are read in the event loop."""
_READER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reader")


def in_reader(read: Callable[[], T]) -> asyncio.Future[T]:
    """Call a function in the thread, after those that were given to it before."""
    return asyncio.get_running_loop().run_in_executor(_READER, read)


async def off_loop(size: int, read: Callable[[], T], *, most: int = MOST_AT_ONCE) -> T:
    """Read a text of this size: one longer than ``most`` in the thread."""
    return read() if size <= most else await in_reader(read)
