"""Contention in a running cluster: pods are placed by default, then by what memory does, and it is told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from corewise.cli.output import Form
from corewise.quantities import Bytes
from corewise_lab import control_plane
from corewise_lab.cli.report import memory_line, memory_notes, print_report
from corewise_lab.kubelets import Periods
from corewise_lab.load import Load
from corewise_lab.machines import CATALOG, Machine
from corewise_lab.measurement import ClusterMeasurement, Colocation, NodeMeasurement
from corewise_lab.node_memory import BACKGROUND, MemoryState, memory_state, series, summary
from corewise_lab.node_simulation import NodeSimulation
from corewise_lab.plan import InputError, check_config
from corewise_lab.pods import manifest, parse_memory_use
from corewise_lab.report import Measurement, RunReport, document
from corewise_lab.run import RunOptions, run
from corewise_lab.scenario import load_scenario
from simulation.simulated_machine import SimulatedMachine

SCENARIO = """\
name: four
nodes:
  - name: narrow
    count: 2
    model: Neoverse-N1
    coresPerSocket: 16
    memory: 64Gi
    memoryBandwidth: 20G
    llc: 32Mi
  - name: wide
    count: 2
    model: Neoverse-N1
    coresPerSocket: 16
    memory: 64Gi
    memoryBandwidth: 200G
    llc: 32Mi
pods:
  - name: hog
    replicas: 8
    cpu: "2"
    load: {low: 2, high: 2}
    memoryUse: {bandwidth: 4G, llc: 1Gi}
  - name: graph
    replicas: 8
    cpu: "2"
    load: {low: 2, high: 2}
    memoryUse: {bandwidth: 200M, llc: 4Mi, cacheSensitivity: 0.4, memoryBound: 0.1}
scheduler: |
  interference:
    overprovisioning: 2
    relative: true
    profiles:
      hog:
        profile: {memoryBandwidth: 16GB/s, llc: 16MiB}
        affinity: {memorybandwidth: 80, memorylatency: 80, llc_occupancy: 0, llc_mpki: 0, cpu: 0}
      graph:
        profile: {memoryBandwidth: 1GB/s, llc: 4MiB}
        affinity: {memorybandwidth: 0, memorylatency: 10, llc_occupancy: 40, llc_mpki: 0, cpu: 0}
"""
PERIODS = Periods(status=60.0, report=300.0, lease=5.0)


class Silent:
    """A listener of a run that has nothing to say."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def homes(states: Mapping[str, MemoryState], kind: str) -> Counter[str]:
    """Return the number of pods of a type on each shape of node."""
    found: Counter[str] = Counter()
    for node, state in states.items():
        found[node.split("-")[0]] += len(state.slowdowns.get(kind, ()))
    return +found


async def test_scheduler_separates_pods_known_to_fight_over_memory(
    tmp_path: Path,
) -> None:
    file = tmp_path / "four.yaml"
    file.write_text(SCENARIO)
    plan, folder = load_scenario(str(file)).plan(), control_plane.Folder(tmp_path)
    done = await run(RunOptions(plan, folder, 0.1, PERIODS), Silent(), asyncio.Event())
    assert done.off
    off, on = summary(done.off.memory.values()), summary(done.on.memory.values())
    assert homes(done.off.memory, "hog")["narrow"] > 0, "by default bandwidth counts for nothing"
    assert homes(done.on.memory, "hog") == {"wide": 8}
    assert sum(homes(done.on.memory, "graph").values()) == 8
    assert homes(done.on.memory, "graph")["narrow"] > homes(done.on.memory, "graph")["wide"]
    assert done.on.pods_pending == 0
    assert (off.nodes, on.nodes) == (4, 4)
    assert on.crowded == 0 < off.crowded
    assert (on.mean_slowdown or 0) < (off.mean_slowdown or 0) / 2
    assert set(on.slowdowns) == {"hog", "graph"}


def test_packaged_scenario_has_hogs_sensitive_and_indifferent_types() -> None:
    plan = load_scenario("interference").plan()
    check_config(plan)
    uses = {group.name: group.memory_use for group in plan.groups}
    assert all(uses.values())
    assert max(use.bandwidth for use in uses.values() if use) == 3.6e9
    assert {use.cache_sensitivity > 0.1 for use in uses.values() if use} == {True, False}
    assert all(machine.memory_system for machine in plan.machines)


def test_scheduler_file_error_is_reported_before_anything_starts() -> None:
    plan = load_scenario("interference").plan()
    wrong = replace(plan, scheduler="interference: {points: [5, 10]}")
    with pytest.raises(InputError, match=r"scheduler, line 1, column \d+: interference.points"):
        check_config(wrong)


# One node.

MACHINE = Machine(
    "n1",
    CATALOG["Neoverse-N1"],
    16,
    Bytes(64 << 30),
    hyper_threading=False,
    memory_bandwidth=50 * 10**9,
    llc=Bytes(32 << 20),
)
HOG = parse_memory_use("bandwidth=4G,llc=1Gi")
GRAPH = parse_memory_use("bandwidth=200M,llc=8Mi,cacheSensitivity=0.4,memoryBound=0.1")


def state(
    folder: Path, hogs: int, load: Load | None = None, machine: Machine = MACHINE
) -> MemoryState | None:
    simulated = SimulatedMachine(folder, machine)
    pods = [
        simulated.start(
            manifest(
                f"hog-{number}",
                cpu_milli=4000,
                memory=1 << 30,
                node="n1",
                labels={"kind": "hog"},
                load=load or Load(1, 1),
                memory_use=HOG,
            )
        )
        for number in range(hogs)
    ]
    return memory_state(machine, simulated.root, pods, "kind")


def test_node_state_reflects_its_pods_memory_use(tmp_path: Path) -> None:
    seen = state(tmp_path, 4)
    assert seen is not None
    assert 0.8 < seen.utilization < 1
    assert seen.is_crowded
    assert seen.latency > 1.1e-7
    assert seen.llc_occupancy == 32 << 20
    assert seen.memory_available == (64 << 30) - int(0.7 * (4 << 30))
    assert {kind: len(lost) for kind, lost in seen.slowdowns.items()} == {"hog": 4}


def test_idle_node_moves_memory_since_zero_means_unmeasured(
    tmp_path: Path,
) -> None:
    seen = state(tmp_path, 0)
    assert seen is not None
    assert seen.used == BACKGROUND
    assert all(values[0] > 0 for name, values in series([seen]).items() if name not in {"cpu", "llc_mpki"})


def test_a_load_that_rises_and_falls_is_averaged(tmp_path: Path) -> None:
    steady, swinging = state(tmp_path / "a", 1), state(tmp_path / "b", 1, Load(0.0, 2.0, 60.0))
    assert steady is not None
    assert swinging is not None
    assert swinging.used == pytest.approx(steady.used, rel=0.02)


def test_machine_of_unknown_memory_has_no_state(tmp_path: Path) -> None:
    assert state(tmp_path, 1, machine=replace(MACHINE, memory_bandwidth=0)) is None


def test_offline_hogs_cost_online_pods_bandwidth_and_cache(tmp_path: Path) -> None:
    lost = []
    for memory_bandwidth in (0, 20 * 10**9):
        machine = replace(MACHINE, memory_bandwidth=memory_bandwidth)
        simulated = SimulatedMachine(tmp_path / str(memory_bandwidth), machine)
        web = manifest(
            "web", cpu_milli=4000, memory=1 << 30, node="n1", load=Load(100, 100), memory_use=GRAPH
        )
        batch = manifest("batch", cpu_milli=12000, memory=1 << 30, offline=True, node="n1", memory_use=HOG)
        pods = [simulated.start(web), simulated.start(batch, qos="BestEffort")]
        simulation = NodeSimulation(machine, simulated.root, pods)
        simulation.advance(20)
        lost += simulation.account.slowdowns
    assert lost[0] == pytest.approx(0, abs=1e-6), "one thread a core, and its quota is all that it wants"
    assert lost[1] > 0.2


# What is told.


def given(utilization: float, **slowdowns: list[float]) -> MemoryState:
    return MemoryState(
        bandwidth=100e9,
        used=utilization * 100e9,
        llc=32e6,
        latency=9e-8,
        llc_occupancy=1e6,
        llc_mpki=2.0,
        cpu=0.5,
        cpus=16,
        memory_available=1 << 30,
        slowdowns=slowdowns,
    )


def report(off: Mapping[str, MemoryState] | None, on: Mapping[str, MemoryState]) -> RunReport:
    nothing = ClusterMeasurement(())
    return RunReport(
        "scenario four",
        (),
        off=None if off is None else Measurement(nothing, memory=off),
        on=Measurement(nothing, memory=on),
    )


OFF = {"n1": given(0.97, hog=[0.4], graph=[0.2, 0.3]), "n2": given(0.10)}
ON = {"n1": given(0.60, hog=[0.02]), "n2": given(0.30, graph=[0.01, 0.03])}


def test_document_compares_crowded_nodes_and_slowdowns_off_on() -> None:
    memory = document(report(OFF, ON))["memory"]
    assert memory["off"] == {
        "nodes": 2,
        "nodesAbove80Percent": 1,
        "meanSlowdown": 0.3,
        "meanSlowdownByType": {"graph": 0.25, "hog": 0.4},
        "podsPending": 0,
    }
    assert memory["on"]["nodesAbove80Percent"] == 0
    assert memory["on"]["meanSlowdown"] == 0.02


def test_what_was_not_measured_is_null() -> None:
    assert document(report(None, {}))["memory"] is None
    assert document(report(None, ON))["memory"]["off"] is None


def test_people_read_it_in_lines_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    line = memory_line(summary(OFF.values()), 3)
    assert line == (
        "1 of 2 nodes above 80% of their memory bandwidth; pods slowed by 30.0%; 3 pods without a node"
    )
    assert "  graph: 25.0% off, 2.0% on" in list(memory_notes(report(OFF, ON)))
    print_report(report(OFF, ON), Form.TABLE)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = [row for row in rows if row and row[0] in ON]
    assert [row[0] for row in rows] == ["n1", "n2"]
    assert rows[0] == ["n1", "100", "97%", "60%", "90ns", "90ns", "30.0%", "2.0%"]


def test_narrow_terminal_fits_three_tables_with_headline_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    facts = {"cpuModel": "Intel(R) Xeon(R) Platinum 8369B CPU @ 2.70GHz", "hyperThreadEnabled": True}
    node = NodeMeasurement(
        "icelake-noht-0", facts, "3.06", {"cpu": "3.06"}, 32000, 31500, 97920, 96390, 78000, 9, None, None
    )
    together = Colocation(300.0, 123.4, 101.2, 104.5, 1.0, [0.143, 0.25], 90.0, 100.0, 123.4)
    measurement = Measurement(ClusterMeasurement((node,)), memory=ON, colocation={"icelake-noht-0": together})
    print_report(RunReport("scenario four", (), off=measurement, on=measurement), Form.TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    titles = [line.split("  ") for line in lines if line.startswith("NODE")]
    assert [
        ("SCHEDULABLE" in each, "ONLINE SLOWDOWN OFF" in each, "USED OFF" in each) for each in titles
    ] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
    assert sum(line.startswith("columns left out: ") for line in lines) == 2, "that of memory fits"
    story = lines[len(lines) - lines[::-1].index("") :]
    assert story == [
        "1 node, 1 CPU model.",
        "Nodes offer 96.39 CPUs; pods request 78.",
        "Online pods ran 19.7% slower beside offline pods; with corewise, 19.7% slower.",
        "Offline pods use 101.2 of the 176.6 CPUs that online pods leave idle.",
        "0 of 2 nodes were above 80% of their memory bandwidth; pods slowed by 2.0%.",
        "With corewise 0 of 2 nodes are; pods slowed by 2.0%.",
    ]
