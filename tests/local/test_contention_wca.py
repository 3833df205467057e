"""WCA's workloads on a mixed cluster: by default machines drown, with Interference not, at a price."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from tools.interference_wca.experiment import Outcome, Run, arrivals, configuration, machines
from tools.interference_wca.workloads import WORKLOADS

DATA = os.environ.get("COREWISE_TEST_DATA")
LOAD, SEED = 0.6, 1


def outcome(bandwidth: float, factor: str | None) -> Outcome:
    settings = None if factor is None else configuration(factor)
    return Run(machines(bandwidth), settings).take(arrivals(LOAD, SEED))


def test_no_machine_is_asked_for_more_bandwidth_than_it_has_where_there_is_enough() -> None:
    default, interference = outcome(1.0, None), outcome(1.0, "1")
    assert default.oversubscribed > 0.05
    assert interference.oversubscribed == 0
    assert interference.slowdown < default.slowdown / 5
    assert interference.unplaced == default.unplaced == 0


def test_where_bandwidth_is_scarce_headroom_is_paid_for_with_pods_without_a_node() -> None:
    default, headroom = outcome(0.5, None), outcome(0.5, "2")
    assert default.oversubscribed > 0.2
    assert headroom.oversubscribed == 0
    assert headroom.unplaced > default.unplaced == 0
    assert headroom.placed + headroom.unplaced == default.placed


@pytest.mark.skipif(
    DATA is None, reason="COREWISE_TEST_DATA names no directory with the data beside the project"
)
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
