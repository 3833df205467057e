"""``make bench``: run every measurement, print it, and write it to docs/benchmarks.

``python -m tools.bench watching webhook`` runs some of them only; nothing is written with ``--print``.
``make bench COMPARE=REV`` and ``make bench-check`` measure the headline figures of two trees in pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine

from tools.bench import (
    agent,
    applying,
    comparing,
    engine,
    guests,
    handler,
    interference,
    interference_metrics,
    pages,
    pairs,
    placement,
    plain_pods,
    planner,
    policy,
    ratio_change,
    records,
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
    "plain-pods": plain_pods.measure,
    "tracking": tracking.measure,
    "placement": lambda: placement.measure(HOST_COUNTS),
    "moving": placement.measure_moves,
    "guests": lambda: guests.measure(HOST_COUNTS),
    "applying": applying.measure,
    "web": lambda: web.measure(NODE_COUNTS),
}


def main() -> int:
    """Measure what is named, or all; or compare with a commit. Return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench",
        description="Measure, and write docs/benchmarks; or compare the ten headline figures with a commit.",
    )
    names = (records.HEADLINE_FIGURES, *MEASUREMENTS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)} (default: all)")
    parser.add_argument("--print", action="store_true", help="write nothing to docs/benchmarks")
    parser.add_argument("--compare", metavar="COMMIT", help="measure the headline figures in pairs with it")
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit with 1 if one is more than 10 %% larger (default COMMIT: the last release)",
    )
    given = parser.parse_args()
    if given.check or given.compare is not None:
        return _compare(pairs.commit_of(given.compare or pairs.last_release()), check=given.check)
    for name in set(given.names) - set(names):
        parser.error(f"no measurement named {name}; there are {', '.join(names)}")
    for name in given.names or names:
        print(f"# {name}", flush=True)
        if name == records.HEADLINE_FIGURES:
            here = pairs.Tree(pairs.ROOT)
            pairs.measure(pairs.RUNS, [here])
            result = records.record(name, samples=here.samples)
        else:
            result = records.record(name, rows=asyncio.run(MEASUREMENTS[name]()))
        print(pages.shown(result), flush=True)
        if not given.print:
            records.write(name, result)
    if not given.print:
        for page, text in pages.pages():
            (records.ROOT / page).write_text(text)
    return 0


def _compare(commit: str, *, check: bool) -> int:
    here = pairs.Tree(pairs.ROOT)
    with pairs.tree_of(commit) as there:
        lacking = pairs.measure(pairs.RUNS, [here, there])
    found = comparing.ratios(here.samples, there.samples)
    for sentence in pairs.spoken(lacking, commit):
        print(sentence)
    if not found:
        print("No figure was compared: name a newer commit.")
        return 2
    print(comparing.table(here.samples, there.samples, commit))
    print(f"\nMedians of {pairs.PAIRS} pairs, and the median of the pairs' ratios with its 95 % interval.")
    print(f"{table.machine()}; load average {os.getloadavg()[0]:.1f}.")
    if check:
        print(comparing.verdict(found, commit))
    return 1 if check and comparing.slower(found) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pairs.NotMeasuredError as error:
        sys.exit(f"bench: this tree cannot be measured: {error}")
