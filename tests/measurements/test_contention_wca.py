"""WCA's workloads on a mixed cluster: by default machines drown, with Interference not, at a price."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from corewise_lab.contention import growth
from corewise_lab.scenario import load_scenario
from experiments.interference_wca.experiment import Outcome, Run, arrivals, configuration, machines
from experiments.interference_wca.workloads import WORKLOADS

DATA = os.environ.get("COREWISE_TEST_DATA")
LOAD, SEED = 0.6, 1
needs_data = pytest.mark.skipif(DATA is None, reason="COREWISE_TEST_DATA names no folder with the figures")


def outcome(bandwidth: float, factor: str | None) -> Outcome:
    settings = None if factor is None else configuration(factor)
    return Run(machines(bandwidth), settings).take(arrivals(LOAD, SEED))


def test_ample_bandwidth_is_never_oversubscribed_on_any_machine() -> None:
    default, interference = outcome(1.0, None), outcome(1.0, "1")
    assert default.oversubscribed > 0.05
    assert interference.oversubscribed == 0
    assert interference.slowdown < default.slowdown / 5
    assert interference.unplaced == default.unplaced == 0


def test_headroom_leaves_pods_unplaced_where_bandwidth_is_scarce() -> None:
    default, headroom = outcome(0.5, None), outcome(0.5, "2")
    assert default.oversubscribed > 0.2
    assert headroom.oversubscribed == 0
    assert headroom.unplaced > default.unplaced == 0
    assert headroom.placed + headroom.unplaced == default.placed


@needs_data
def test_the_figures_are_those_that_were_measured() -> None:
    with (Path(DATA or "") / "workload_profiles.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(each.name, each.cpus, each.memory, each.read, each.write) for each in WORKLOADS] == [
        (
            row["app"],
            int(row["cpu_cores"]),
            int(row["memory_gb"]),
            float(row["dram_read_gbps"]),
            float(row["dram_write_gbps"]),
        )
        for row in rows
    ]


@needs_data
def test_scenario_sensitivities_match_slowdowns_of_their_namesake_programs() -> None:
    with (Path(DATA or "") / "interference_slowdown.csv").open(newline="") as file:
        rows = {
            row["app"]: {source: float(row[source]) for source in ("cpu", "llc", "membw")}
            for row in csv.DictReader(file)
        }
    uses = {group.name: group.memory_use for group in load_scenario("interference").plan().groups}
    for kind, program in {"graph": "canneal", "sort": "radix", "pricing": "blackscholes"}.items():
        use, slowdown = uses[kind], rows[program]
        assert use is not None
        assert use.memory_bound is not None
        assert use.cache_sensitivity == pytest.approx(slowdown["llc"] / slowdown["cpu"] - 1, abs=0.01)
        beside_a_hog = 1 + use.memory_bound * (growth(0.95) - 1)
        assert beside_a_hog == pytest.approx(slowdown["membw"] / slowdown["cpu"], abs=0.01)
    hogs = {"scan": "sysbench-memory-big", "stream": "stress-stream-big"}
    by_name = {each.name: each for each in WORKLOADS}
    for kind, application in hogs.items():
        use, measured = uses[kind], by_name[application]
        assert use is not None
        assert use.bandwidth == pytest.approx(measured.bandwidth / measured.cpus, rel=0.01)
