"""``make scale N=5000 PODS=50000``: figures of manager and scheduler at this size, as a table and as JSON.

    python -m tools.scale --nodes 1000 5000 20000 --out scale.json     # a curve, with its exponents
    python -m tools.scale --nodes 5000 --soak 60m --out soak.json      # does anything grow?

Ten pods a node, unless ``--pods`` says how many. A file that is there keeps the sizes that are not measured
now.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.bench.table import machine
from tools.scale.figures import measure, table
from tools.scale.soak import soak

_PODS_A_NODE = 10


def main(arguments: list[str]) -> int:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tools.scale", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=[1000], help="sizes to measure, one after the other"
    )
    parser.add_argument("--pods", type=int, nargs="+", help="pods of each size; default: ten a node")
    parser.add_argument(
        "--replicas", type=int, choices=(1, 2), default=2, help="of each program (default: 2)"
    )
    parser.add_argument("--churn", type=float, default=30.0, help="seconds of churn (default: %(default)s)")
    parser.add_argument(
        "--soak", type=_seconds, metavar="60m", help="run for so long; exit 1 if something grows"
    )
    parser.add_argument("--logs", type=Path, help="where to leave the programs' logs (default: nowhere)")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    given = parser.parse_args(arguments)
    pods = given.pods or [count * _PODS_A_NODE for count in given.nodes]
    if given.soak:
        with _folder(given.logs) as folder:
            result = asyncio.run(soak((given.nodes[0], pods[0]), given.soak, folder, _say, given.out))
        print(result.table(), flush=True)
        return 1 if result.problems else 0
    sizes: dict[int, dict[str, Any]] = {}
    if given.out and given.out.exists():
        sizes = {each["nodes"]: each for each in json.loads(given.out.read_text())["sizes"]}

    def ordered() -> list[dict[str, Any]]:
        return [sizes[each] for each in sorted(sizes)]

    def keep() -> None:
        if given.out:
            given.out.write_text(json.dumps({"machine": machine(), "sizes": ordered()}, indent=1) + "\n")

    for nodes, count in zip(given.nodes, pods, strict=True):
        what: dict[str, Any] = {"nodes": nodes, "pods": count, "replicas": given.replicas}
        size = sizes[nodes] = what | {"figures": {}, "notes": []}
        with _folder(given.logs) as folder:
            asyncio.run(measure(size, folder, _say, keep, churn=given.churn))
        print(table(ordered()), flush=True)
    return 0


@contextmanager
def _folder(logs: Path | None) -> Iterator[Path]:
    if logs:
        logs.mkdir(parents=True, exist_ok=True)
        yield logs
        return
    with TemporaryDirectory(prefix="corewise-scale-") as folder:
        yield Path(folder)


def _seconds(text: str) -> float:
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


_START = time.monotonic()


def _say(message: str) -> None:
    print(f"{time.monotonic() - _START:7.1f} s  {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
