"""``make bench``: run every measurement, print it, and write it to docs/benchmarks.

``python -m tools.bench watching webhook`` runs some of them only; nothing is written with ``--print``.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine

from tools.bench import (
    agent,
    applying,
    engine,
    guests,
    handler,
    interference,
    interference_metrics,
    placement,
    planner,
    policy,
    ratio_change,
    scheduler,
    suppression,
    table,
    tracking,
    watching,
    web,
    webhook,
)
from tools.bench.table import Row

NODE_COUNTS = (1_000, 5_000)
SCHEDULED_NODE_COUNTS = (1_000, 5_000, 20_000)
LARGEST_NODE_COUNT = 100_000
"""Of the engine alone: no cluster is as large."""
HOST_COUNTS = (100, 1_000, 5_000)
RATES = (200, 500)


async def _ratio_change() -> list[Row]:
    return [row for count in NODE_COUNTS for row in await ratio_change.measure(count)]


MEASUREMENTS: dict[str, Callable[[], Coroutine[None, None, list[Row]]]] = {
    "watching": watching.measure,
    "webhook": lambda: webhook.measure(RATES),
    "policy": policy.measure,
    "ratio-change": _ratio_change,
    "agent": agent.measure,
    "suppression": suppression.measure,
    "interference": lambda: interference.measure((SCHEDULED_NODE_COUNTS[1],)),
    "interference-metrics": interference_metrics.measure,
    "engine": lambda: engine.measure((*SCHEDULED_NODE_COUNTS, LARGEST_NODE_COUNT)),
    "planner": lambda: planner.measure(SCHEDULED_NODE_COUNTS),
    "handler": lambda: handler.measure(SCHEDULED_NODE_COUNTS),
    "scheduler": lambda: scheduler.measure(SCHEDULED_NODE_COUNTS),
    "tracking": tracking.measure,
    "placement": lambda: placement.measure(HOST_COUNTS),
    "moving": placement.measure_moves,
    "guests": lambda: guests.measure(HOST_COUNTS),
    "applying": applying.measure,
    "web": lambda: web.measure(NODE_COUNTS),
}


def main() -> None:
    """Run the named measurements, or all."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description="Measure, and write to docs.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(MEASUREMENTS)} (default: all)"
    )
    parser.add_argument("--print", action="store_true", help="write nothing to docs/benchmarks")
    given = parser.parse_args()
    for name in set(given.names) - set(MEASUREMENTS):
        parser.error(f"no measurement named {name}; there are {', '.join(MEASUREMENTS)}")
    for name in given.names or MEASUREMENTS:
        print(f"# {name}", flush=True)
        text = table.markdown(asyncio.run(MEASUREMENTS[name]()))
        print(text, flush=True)
        if not given.print:
            table.fill(name, text)
    if not given.print:
        table.fill("machine", table.machine())


main()
