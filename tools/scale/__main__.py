"""``make scale N=5000 PODS=50000``: figures of manager and scheduler at this size, as a table and as JSON.

    make scale N='1000 5000 20000' OUT=scale.json     # a curve, with its exponents
    make scale N=5000 SOAK=60m OUT=soak.json          # does anything grow?
    python -m tools.scale --nodes 1000 --churn 120    # the same command, with more options

A size that the file has and that is not measured now stays in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.bench.table import machine
from tools.scale.figures import measure, table
from tools.scale.filling import MOST_PODS
from tools.scale.soak import EXPECTED, cause_of, soak

_PODS_A_NODE = 10
_UNITS = {"s": 1, "m": 60, "h": 3600}
_SHORTEST_SOAK = 60.0
_INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Measure one size after the other, or run the soak."""
    given, before = _parse(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with _folder(given.logs) as folder:
            return _soak(given, folder) if given.soak else _measure(given, before, folder)
    except KeyboardInterrupt:
        kept = f"; what was measured until now is in {given.out}" if given.out else ""
        print(f"interrupted; all programs have ended{kept}", file=sys.stderr)
        return _INTERRUPTED
    except Exception as error:
        cause = cause_of(error)
        if not isinstance(cause, EXPECTED):
            raise
        print(f"failed: {type(cause).__name__}: {cause}", file=sys.stderr)
        return 1


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, list[dict[str, Any]]]:
    """Return the options, and the sizes that the file of results already has."""
    parser = argparse.ArgumentParser(prog="python -m tools.scale", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--nodes", type=_count, nargs="+", default=[1000], help="sizes to measure (make: N; default: 1000)"
    )
    parser.add_argument(
        "--pods", type=_count, nargs="+", help="pods of each size (make: PODS; default: ten a node)"
    )
    parser.add_argument(
        "--replicas", type=int, choices=(1, 2), default=2, help="of each program (default: 2)"
    )
    parser.add_argument(
        "--churn", type=float, default=30.0, help="seconds of churn, without --soak (default: %(default)s)"
    )
    parser.add_argument(
        "--soak", type=_seconds, metavar="60m", help="run for so long; exit 1 if something grows (make: SOAK)"
    )
    parser.add_argument("--logs", type=Path, help="folder to keep the programs' logs in")
    parser.add_argument("--out", type=Path, help="JSON file for the figures (make: OUT)")
    given = parser.parse_args(arguments)
    given.pods = given.pods or [count * _PODS_A_NODE for count in given.nodes]
    if len(given.pods) != len(given.nodes):
        parser.error(f"--pods: {len(given.nodes)} sizes need {len(given.nodes)} numbers of pods")
    for nodes, pods in zip(given.nodes, given.pods, strict=True):
        if pods > nodes * MOST_PODS:
            parser.error(
                f"--pods: a node has room for {MOST_PODS} pods, {nodes} nodes for {nodes * MOST_PODS}"
            )
    if given.soak and (len(given.nodes) > 1 or given.replicas == 1):
        parser.error("--soak runs one size, with two replicas")
    try:
        return given, _earlier(given.out, "readings" if given.soak else "sizes")
    except OSError as error:
        parser.error(f"--out: cannot write {given.out}: {error.strerror}")
    except (ValueError, KeyError, TypeError):
        kind = "result of a soak" if given.soak else "figures by size"
        parser.error(f"--out: {given.out} exists and holds no {kind}: name another file")


def _earlier(out: Path | None, key: str) -> list[dict[str, Any]]:
    """Return what an earlier run left, and make sure that this run can write: hours would be lost."""
    if out is None:
        return []
    if not out.exists():
        out.touch()
        out.unlink()
        return []
    with out.open("r+") as file:
        found: list[dict[str, Any]] = json.load(file)[key]
    return found


def _soak(given: argparse.Namespace, folder: Path) -> int:
    result = asyncio.run(soak((given.nodes[0], given.pods[0]), given.soak, folder, _say, given.out))
    print(result.table(), flush=True)
    return 1 if result.problems else 0


def _measure(given: argparse.Namespace, before: list[dict[str, Any]], folder: Path) -> int:
    sizes = {each["nodes"]: each for each in before}

    def ordered() -> list[dict[str, Any]]:
        return [sizes[each] for each in sorted(sizes)]

    def keep() -> None:
        if given.out:
            given.out.write_text(json.dumps({"machine": machine(), "sizes": ordered()}, indent=1) + "\n")

    for nodes, pods in zip(given.nodes, given.pods, strict=True):
        what: dict[str, Any] = {"nodes": nodes, "pods": pods, "replicas": given.replicas}
        size = sizes[nodes] = what | {"figures": {}, "notes": []}
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


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)([smh])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text}: write a number with its unit: 90s, 60m or 2h")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds < _SHORTEST_SOAK:
        raise argparse.ArgumentTypeError(f"{text} is too short to judge growth: at least 1m")
    return seconds


_START = time.monotonic()


def _say(message: str) -> None:
    print(f"{time.monotonic() - _START:7.1f} s  {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
