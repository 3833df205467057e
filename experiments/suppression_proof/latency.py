"""Latency of an online service beside offline pods, on real cgroups: ``latency --minutes N --out FILE``.

Every repetition runs all arms at all loads in a random order; arms of one repetition share their arrivals.
``latency --table FILE`` puts the table of a file of results into the documents.
"""

from __future__ import annotations

import argparse
import itertools
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from experiments.suppression_proof import requests
from experiments.suppression_proof.latency_figures import QUANTILES, Trial, quantile, schedule, table
from experiments.suppression_proof.real import ALONE, Machine, machine
from experiments.suppression_proof.telling import say, tell_text
from real_load.agents import OPTION_1, OPTION_2
from real_load.crew import Crew
from real_load.runs import Holder, Nobody
from tools.bench import table as bench_table

WEIGHTS = "weights only"
ARMS = {
    ALONE: None,
    WEIGHTS: None,
    "option 1": OPTION_1,
    "option 2": OPTION_2,
}
LOADS, SHAPES = (0.2, 0.5, 0.7), ("steady", "square")
WARM_UP, SECONDS, LEAD = 15, 20, 1.0


class Results(msgspec.Struct, frozen=True):
    """A file of results."""

    machine: str
    seconds: int
    trials: list[Trial]


def trial(
    on: Machine, arm: str, load: float, shape: str, *, seconds: int, warm_up: int, seed: int, speed: float
) -> Trial:
    """Run one arm; requests that arrive in the warm-up do not count."""
    tree, node = on.node.tree, on.node
    rng = random.Random(seed)  # noqa: S311
    with ExitStack() as stack:
        settings = ARMS[arm]
        holder: Holder = stack.enter_context(on.agent(settings)) if settings else Nobody()
        crew = stack.enter_context(Crew())
        began = time.monotonic() + LEAD
        if arm != ALONE:
            for pod in node.offline:
                crew.start(tree.process_directories(tree.container(pod)), ((0.0, 1.0),), began)
        servers, plans = [], []
        for cpu in node.cpus:
            plan = schedule(rng, warm_up + seconds, load, shape)
            path = on.directory / f"requests-{cpu}"
            path.write_text("".join(f"{at:.6f} {max(1, round(cost * speed))}\n" for at, cost in plan))
            command = [
                sys.executable,
                "-I",
                "-S",
                requests.__file__,
                str(path),
                f"{path}.done",
                f"{began:.6f}",
            ]
            server = subprocess.Popen(["taskset", "-c", str(cpu), *command])
            stack.callback(server.wait)
            stack.callback(server.kill)
            for directory in tree.process_directories(tree.container(node.online)):
                (directory / "cgroup.procs").write_text(str(server.pid))
            servers.append(server)
            plans.append((plan, Path(f"{path}.done")))
        for second in range(warm_up + seconds + 1):
            time.sleep(max(0.0, began + second - time.monotonic()))
            if second == warm_up:
                first = tree.usage(tree.best_effort), stolen(), time.monotonic()
            holder.tick(time.monotonic())
        spent = time.monotonic() - first[2]
        offline = (tree.usage(tree.best_effort) - first[0]) / 1e9 / spent
        steal = (stolen() - first[1]) / spent / len(node.cpus)
        for server in servers:
            if server.wait(timeout=60):
                raise SystemExit("a process that serves requests failed; its message is above")
    latencies = [
        float(text) * 1000
        for plan, done in plans
        for (at, _), text in zip(plan, done.read_text().splitlines(), strict=True)
        if at >= warm_up
    ]
    figures = tuple(quantile(latencies, part) for part in QUANTILES)
    return Trial(arm, load, shape, figures, offline, steal, len(latencies))


def stolen() -> float:
    """Return the CPU seconds that the hypervisor has given to others."""
    return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / 100


def main(arguments: Sequence[str]) -> None:
    """Measure as long as asked, at least one repetition; write after each trial, add to what the file has."""
    parser = argparse.ArgumentParser(prog="python -m experiments.suppression_proof latency")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="put the table of these results into the documents"
    )
    wish = parser.parse_args(arguments)
    if wish.table:
        results = msgspec.json.decode(wish.table.read_bytes(), type=Results)
        where = f"{results.machine}; {results.seconds} s each"
        tell_text("latency", f"{where}\n\n{table(results.trials, [*ARMS], WEIGHTS)}", write=True)
        return
    if not wish.out:
        parser.error("--out FILE is needed: results are written there")
    cases = list(itertools.product(ARMS, LOADS, SHAPES))
    repetitions = max(1, int(wish.minutes * 60 / (len(cases) * (WARM_UP + SECONDS + LEAD + 1))))
    speed = requests.hashes_per_second()
    trials = msgspec.json.decode(wish.out.read_bytes(), type=Results).trials if wish.out.exists() else []
    with machine(own_load=False) as on:
        for number in range(repetitions):
            seed = len(trials)
            rng = random.Random(seed)  # noqa: S311
            for arm, load, shape in rng.sample(cases, len(cases)):
                say(f"repetition {number + 1} of {repetitions}: {arm}, {load:.0%}, {shape}")
                trials.append(
                    trial(on, arm, load, shape, seconds=SECONDS, warm_up=WARM_UP, seed=seed, speed=speed)
                )
                wish.out.write_bytes(msgspec.json.encode(Results(bench_table.machine(), SECONDS, trials)))
    print(table(trials, [*ARMS], WEIGHTS))
