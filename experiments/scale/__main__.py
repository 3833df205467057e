"""``make scale N=5000 PODS=50000``: figures of manager and scheduler at this size, as a table and as JSON.

    make scale N='1000 5000 20000' OUT=scale.json     # a curve, with its exponents
    make scale N=5000 SOAK=60m OUT=soak.json          # does anything grow?
    python -m experiments.scale --nodes 1000 --churn 120    # the same command, with more options
    python -m experiments.scale --fill scale.json soak.json # write them into the docs

A size that the file has and that is not measured now stays in it, and is replaced when it has been measured.
The command exits with 1 if a phase failed, and keeps the programs' logs then.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from corewise.kube.clock import SYSTEM_CLOCK
from experiments.scale.figures import measure, remarks, table
from experiments.scale.filling import MOST_PODS
from experiments.scale.rig import EXPECTED
from experiments.scale.soak import SoakResult, cause_of, soak
from tools.bench.table import fill, machine

_PODS_A_NODE = 10
_UNITS = {"s": 1, "m": 60, "h": 3600}
_SHORTEST_SOAK = 60.0
_INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Measure one size after the other, or run the soak."""
    if arguments[:1] == ["--fill"]:
        return _fill([Path(each) for each in arguments[1:]])
    given, before = _parse(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    folder, code = _folder(given.logs), 1
    try:
        code = _soak(given, folder) if given.soak else _measure(given, before, folder)
    except KeyboardInterrupt:
        kept = f"; what was measured until now is in {given.out}" if given.out else ""
        print(f"interrupted; all programs have ended{kept}", file=sys.stderr)
        code = _INTERRUPTED
    except Exception as error:
        cause = cause_of(error)
        if not isinstance(cause, EXPECTED):
            raise
        print(f"failed: {type(cause).__name__}: {cause}", file=sys.stderr)
    if code == 1:
        print(f"the programs' logs are in {folder}", file=sys.stderr)
    elif not given.logs:
        shutil.rmtree(folder)
    return code


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, list[dict[str, Any]]]:
    """Return the options, and the sizes that the file of results already has."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scale", description=__doc__)
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
        "--churn", type=_seconds, default=30.0, help="churn of one size, without --soak (default: 30s)"
    )
    parser.add_argument(
        "--soak",
        type=_at_least_a_minute,
        metavar="60m",
        help="run for so long; exit 1 if something grows (make: SOAK)",
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
    """Return the results of an earlier run, and check that this run can write: hours would be lost."""
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
    went_well = True

    def keep() -> None:
        if given.out:
            given.out.write_text(json.dumps({"sizes": _ordered(sizes)}, indent=1) + "\n")

    for nodes, pods in zip(given.nodes, given.pods, strict=True):
        size = {"nodes": nodes, "pods": pods, "replicas": given.replicas, "figures": {}, "notes": []}
        size |= {"machine": machine(), "commit": _commit(), "date": f"{SYSTEM_CLOCK.now():%Y-%m-%d}"}
        earlier = sizes.get(nodes)
        if earlier is None:
            sizes[nodes] = size
        went_well &= asyncio.run(measure(size, folder, _say, keep, churn=given.churn))
        sizes[nodes] = size
        keep()
        print(table(_ordered(sizes)), "", remarks(_ordered(sizes)), sep="\n", flush=True)
    return 0 if went_well else 1


def _ordered(sizes: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [sizes[each] for each in sorted(sizes)]


def _commit() -> str:
    found = subprocess.run(
        ("git", "describe", "--always", "--dirty"), capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def _fill(results: list[Path]) -> int:
    """Write the tables of files into the page."""
    for path in results:
        found = json.loads(path.read_text())
        if "sizes" in found:
            fill("figures", table(found["sizes"]))
        else:
            fill("soak", SoakResult.of(found).table())
    return 0


def _folder(logs: Path | None) -> Path:
    if logs is None:
        return Path(mkdtemp(prefix="corewise-scale-"))
    logs.mkdir(parents=True, exist_ok=True)
    return logs


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)([smh])", text)
    if not found or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text}: write a number above 0 with its unit: 90s, 60m or 2h")
    return float(found[1]) * _UNITS[found[2]]


def _at_least_a_minute(text: str) -> float:
    seconds = _seconds(text)
    if seconds < _SHORTEST_SOAK:
        raise argparse.ArgumentTypeError(f"{text} is too short to judge growth: at least 1m")
    return seconds


_START = time.monotonic()


def _say(message: str) -> None:
    print(f"{time.monotonic() - _START:7.1f} s  {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
