"""The experiment on a cluster: simulated nodes, arrivals, tables; and a short run on the local API server."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import load_config
from corewise.kube.resources import NODES, PODS
from corewise_lab.control_plane import running
from corewise_lab.local_scheduler import NAME, LocalScheduler
from experiments.interference_cluster import cells, rate
from experiments.interference_cluster.cells import COREWISE, MARK, OWN, STOCK, Cell, Outcome, Run
from experiments.interference_cluster.mixes import (
    ALL,
    CPUS,
    LOAD,
    MIXES,
    WORK,
    Arrival,
    Workload,
    arrivals,
    configuration,
    machines,
)
from experiments.interference_cluster.nodes import Node
from experiments.interference_cluster.offline import Offline
from experiments.interference_cluster.tables import Difference, difference, neighbors, slowdowns
from kubedouble import LocalAPIServer

HOG = ALL["sysbench-memory-big"]


def node() -> Node:
    return Node(machines("cell")[0])


def test_pod_alone_ends_when_work_is_done() -> None:
    one = node()
    one.start("a", ALL["pricing"], 10.0, now=100.0)
    assert one.next_end() == pytest.approx(110.0)
    (ended,) = one.end(now=110.0)
    assert ended.pod == "a"
    assert ended.slowdown == pytest.approx(0.0, abs=1e-9)
    assert one.next_end() is None
    assert one.busy == pytest.approx(10.0)


def test_neighbors_slow_each_other_while_both_run() -> None:
    one = node()
    for each in range(3):
        one.start(f"hog-{each}", HOG, 10.0, now=0.0)
    stretched = one.next_end()
    assert stretched is not None
    assert stretched > 12.0
    assert one.state().utilization > 0.9
    assert [each.slowdown for each in one.end(stretched)] == pytest.approx([1 - 10 / stretched] * 3)


def test_work_done_before_a_neighbor_came_counts() -> None:
    one = node()
    one.start("a", HOG, 10.0, now=0.0)
    alone = one.next_end()
    assert alone is not None
    for each in range(3):
        one.start(f"late-{each}", HOG, 10.0, now=alone - 0.1)
    end = one.next_end()
    assert end is not None
    assert alone < end < alone + 0.2


@pytest.mark.parametrize("mix", MIXES)
def test_arrivals_request_the_stated_load(mix: str) -> None:
    seconds = 5000
    found = arrivals(mix, 1, seconds)
    assert found == arrivals(mix, 1, seconds)
    used = math.fsum(each.workload.cpus * each.work for each in found)
    assert used / (seconds * CPUS) == pytest.approx(LOAD, rel=0.05)
    assert {each.workload.name for each in found} == set(MIXES[mix])


def test_every_workload_is_at_stake() -> None:
    assert {each.name for each in configuration().at_stake} == set(ALL)


def test_interval_is_student_s() -> None:
    assert difference([1.0, 2.0, 3.0, 4.0, 5.0]).half == pytest.approx(2.7764 * math.sqrt(2.5 / 5), rel=3e-3)
    assert str(Difference(-1.25, 0.5)) == "-1.25 (-1.75 to -0.75)"


def test_table_pairs_cells_by_seed() -> None:
    def cell(arm: str, seed: int, slowdown: float) -> Outcome:
        return Outcome("even", seed, arm, 10, slowdown, 2 * slowdown, 100.0, 9.0, 0.1, 1.0)

    outcomes = [cell(STOCK, 0, 0.1), cell(STOCK, 1, 0.2), cell("corewise", 1, 0.1), cell("corewise", 0, 0.0)]
    row = "| even | 2 | 15.00 | 5.00 | -10.00 (-10.00 to -10.00) | 30.0 | 10.0 | -20.00 (-20.00 to -20.00) |"
    assert slowdowns(outcomes).splitlines()[-1] == row
    outcomes += [cell("own", 0, 0.05), cell("own", 1, 0.15)]
    row = "| even | 2 | 15.00 → 10.00 → 5.00 | -10.00 (-10.00 to -10.00) | -5.00 (-5.00 to -5.00) "
    assert neighbors(outcomes).splitlines()[-1].startswith(row)


def test_virtual_cell_ends_every_pod_and_repeats() -> None:
    def outcome(arm: str, lag: float = 0.0) -> Outcome:
        to_come = arrivals("cache", 0, seconds=40)
        return Offline(Cell("cache", 0, arm, "", to_come), configuration(), lag).take()

    stock, own, with_corewise = map(outcome, (STOCK, OWN, COREWISE))
    late = outcome(COREWISE, lag=8.0)
    assert {each.pods for each in (stock, own, with_corewise, late)} == {
        len(arrivals("cache", 0, seconds=40))
    }
    assert outcome(COREWISE) == with_corewise
    assert len({each.slowdown for each in (stock, own, with_corewise)}) == 3
    assert with_corewise.longest_wait == 0 < late.wait
    assert 0 <= with_corewise.slowdown <= with_corewise.p99 < 1


def test_virtual_pods_wait_until_one_ends() -> None:
    to_come = [Arrival(0.0, ALL["pricing"], 10.0)] * (CPUS // ALL["pricing"].cpus + 1)
    outcome = Offline(Cell("cache", 0, STOCK, "", to_come), configuration()).take()
    assert outcome.pods == len(to_come)
    assert outcome.longest_wait == pytest.approx(10.0, rel=0.1)


def test_virtual_pods_of_one_moment_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hog needs twice its 14.4 GB/s: a node of 34 GB/s has room for one."""
    homes = Counter[str]()

    def started(self: Node, pod: str, workload: Workload, work: float, now: float) -> None:
        homes[self.machine.name] += 1
        start(self, pod, workload, work, now)

    start = Node.start
    monkeypatch.setattr(Node, "start", started)
    cell = Cell("bursts", 0, COREWISE, "", [Arrival(0.0, HOG, 10.0)] * 40)
    Offline(cell, configuration()).take()
    assert homes.total() == 40
    assert {number for name, number in homes.items() if "two-channels" in name} <= {1}


@pytest.fixture
async def client(
    api_server: LocalAPIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Client]:
    """The client of a cluster in which the stand-in of kube-scheduler runs."""
    for module in (cells, rate):
        monkeypatch.setattr(module, "_SETTLED", 0.5)
    api_server.write_kubeconfig(tmp_path / "kubeconfig")
    async with Client(load_config(str(tmp_path / "kubeconfig"), None)) as client:
        async with running(LocalScheduler(client, clock=SYSTEM_CLOCK).run):
            yield client
        assert not (await client.list(PODS, label_selector=MARK)).items
        assert not (await client.list(NODES, label_selector=MARK)).items


async def test_run_places_and_ends_every_pod(client: Client) -> None:
    to_come = arrivals("analytics", 0, seconds=20, scale=0.02)
    one = Cell("analytics", 0, STOCK, NAME, to_come)
    (outcome,) = await Run(client, [one]).take()
    assert outcome.pods == len(to_come) > 5
    assert 0 <= outcome.slowdown <= outcome.p99 < 1
    assert outcome.makespan > WORK[0] * 0.02
    assert 0 < outcome.nodes <= len(one.nodes)


async def test_rate_counts_until_all_are_bound(client: Client) -> None:
    async with rate.rig(client, nodes=3, pods=10, profiled=0, port=0) as rig:
        arm = rate.Arm(rate.ALONE, NAME, os.getpid())
        (run,) = [each async for each in rig.pair(0, [arm])]
    assert (run.arm, run.pods, run.corewise_ms) == (rate.ALONE, 10, 0.0)
    assert run.seconds > 0


def test_rates_are_compared_by_pair() -> None:
    def run(pair: int, arm: str, seconds: float) -> rate.Rate:
        return rate.Rate(pair, arm, 10, 100, 10, seconds, 200.0, 0.0 if arm == rate.ALONE else 5.0)

    runs = [
        run(0, rate.ALONE, 1.0),
        run(0, rate.COREWISE, 2.0),
        run(1, rate.COREWISE, 4.0),
        run(1, rate.ALONE, 2.0),
    ]
    row = "| 10, 100, 10 | 2 | 75 | 38 | -50.00 (-50.00 to -50.00) % | 2.00 ms | 2.00 ms | 0.050 ms |"
    assert rate.rates(runs).splitlines()[-1] == row
