"""How a signal ends a program that serves: it is not ready any more, answers a little longer, and stops.

Behind a Service calls still come for a while: until every node of the cluster has heard that this replica is
not ready any more.
"""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

DRAIN = 5.0
"""Seconds; kube-proxy and kube-apiserver follow a change of endpoints within one or two."""


class Program(Protocol):
    """A program that is not ready any more once it is stopping."""

    stopping: bool


Run: TypeAlias = Callable[[Callable[[Program], None], Callable[[], None]], Coroutine[Any, Any, None]]
"""Runs a program until cancelled; tells of it before its loops run, and when it has listed everything."""


async def until_told(start: Run, *, behind_service: bool) -> None:
    """Run a program until SIGTERM or SIGINT ends it in order. SIGINT ends it at once."""
    loop = asyncio.get_running_loop()
    running: list[Program] = []
    task = loop.create_task(start(running.append, spare_the_caches))

    def stop() -> None:
        for program in running:
            program.stopping = True
        task.cancel()

    def drain() -> None:
        for program in running:
            program.stopping = True
        loop.call_later(DRAIN if behind_service else 0, stop)

    loop.add_signal_handler(signal.SIGINT, stop)
    loop.add_signal_handler(signal.SIGTERM, drain)
    try:
        await task
    except asyncio.CancelledError:
        if not (running and running[0].stopping):
            raise


def spare_the_caches() -> None:
    """Take what the caches hold out of the collector's way: it stays, and each walk stalls what is served."""
    gc.collect()
    gc.freeze()
