"""Whom the agent names on real cgroups: a short run with an antagonist and one without; and their table."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from corewise.kernel.cgroups.layout import Version, find_layout
from corewise.topology import CPUSet
from experiments.antagonist import node
from experiments.antagonist.command import build, read
from experiments.antagonist.node import PARENT, Named, Node, Outcome, Seen
from experiments.antagonist.scenarios import ANTAGONIST, KINDS, VICTIM, drawn
from experiments.antagonist.tables import table, wilson
from kernel.cgroup_writes import layout_here

ENOUGH = 16
"""In the published runs, nine of ten neighbors that the agent named were named within these seconds."""
DATA = Path(node.__file__).parent / "data" / "cgroup-v1-1-cpu.jsonl"


def _can_run() -> bool:
    if layout_here(Version.V1) is None or shutil.which("cc") is None:
        return False
    layout = find_layout()
    return layout.hybrid and "cpuset" in layout.mounts


@dataclass(frozen=True, slots=True)
class Run:
    seed: int
    names: frozenset[str]


@pytest.mark.skipif(not _can_run(), reason="needs root, cgroup v1 beside a unified hierarchy, and cc")
@pytest.mark.parametrize(
    "run",
    [
        Run(seed=0, names=frozenset({"", ANTAGONIST})),  # on a busy machine it may take longer
        Run(seed=8, names=frozenset({""})),
    ],
    ids=["spin", "own threads"],
)
def test_a_neighbor_is_never_accused_wrongly(tmp_path: Path, run: Run) -> None:
    cpu = CPUSet.of([min(os.sched_getaffinity(0))])
    with Node(drawn(run.seed, 1), cpu, build(tmp_path), tmp_path) as running:
        outcome = running.watch(ENOUGH)
        mounts = list(running.layout.mounts.values())
    for source, seen in outcome.seen.items():
        found = seen.named.get(VICTIM)
        assert (found.name if found else "") in run.names, source
    assert not any((mount / PARENT / Path(running.root).name).exists() for mount in mounts)


def test_a_seed_draws_the_same_run() -> None:
    assert drawn(1003, 1) == drawn(1003, 1)
    assert {drawn(seed, 1).kind for seed in range(1000, 1010)} == set(KINDS)
    assert all(bool(drawn(seed, 1).antagonist) is (seed % 10 < 6) for seed in range(1000, 1020))


def test_wilson_brackets_a_share() -> None:
    assert wilson(0, 0) == "-"
    assert wilson(50, 100) == "50.0 % (40.4-59.6)"
    assert wilson(10, 10) == "100.0 % (72.2-100.0)"


def test_the_table_counts_right_wrong_and_silent() -> None:
    def outcome(seed: int, name: str) -> Outcome:
        named = {VICTIM: Named(name, 12.0, 0.5, 0.3)} if name else {}
        return Outcome(drawn(seed, 1), {"cpu.pressure": Seen(named)})

    outcomes = [outcome(0, ANTAGONIST), outcome(10, ""), outcome(1, "default/neighbor-0"), outcome(6, "")]
    text = table(outcomes)
    assert "| spin | 2 | 1 | 0 | 1 | 12, 12 |" in text
    assert "| stream | 1 | 0 | 1 | 0 | - |" in text
    assert "| innocent | 1 | 0 | 0 | 1 | - |" in text
    assert "precision 50.0 %" in text
    assert "recall 33.3 %" in text


def test_the_published_runs_are_of_fresh_seeds() -> None:
    _, outcomes = read(DATA)
    seeds = [each.scenario.seed for each in outcomes]
    assert len(set(seeds)) == len(seeds)
    assert min(seeds) >= 1000
    assert all(each.scenario == drawn(each.scenario.seed, each.scenario.cpus) for each in outcomes)
    assert msgspec.json.decode(msgspec.json.encode(outcomes[0]), type=Outcome) == outcomes[0]
