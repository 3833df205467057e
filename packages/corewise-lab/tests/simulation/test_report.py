"""The report: what its JSON holds, and that numbers no one measured are null and never made up."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from corewise.cli.output import Form
from corewise.kube.objects import ObjectMeta
from corewise.quantities import ONE, Bytes, Ratio
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    NORMALIZATION_RATIO,
    QOS_CLASS,
    RAW_ALLOCATABLE,
    RAW_CAPACITY,
    RESOURCE_STATUS,
)
from corewise.workload.pods import Pod
from corewise_lab.cli.report import print_report
from corewise_lab.kubelets import SimulatedNode
from corewise_lab.machines import CATALOG, Machine
from corewise_lab.measurement import (
    ClusterMeasurement,
    Colocation,
    NodeMeasurement,
    Verdict,
    Workload,
    by_node,
    is_settled,
    of_account,
    total,
    view_node,
    workloads_of,
)
from corewise_lab.node_simulation import PodTotals
from corewise_lab.pods import manifest
from corewise_lab.report import Measurement, Rest, RunReport, document
from simulation.simulated_machine import SimulatedMachine

MODEL = CATALOG["Neoverse-N1"]
MACHINE = Machine("n1", MODEL, 8, Bytes(32 << 30), hyper_threading=False, turbo=False)
SPEED = MODEL.core_speed or 0.0


def node(*, cpu: str = "8", **annotations: str) -> SimulatedNode:
    return SimulatedNode(
        metadata=ObjectMeta(name="n1", annotations=annotations),
        status={"capacity": {"cpu": cpu}, "allocatable": {"cpu": cpu}},
    )


def pod(name: str = "web", **more: Any) -> dict[str, Any]:
    return manifest(name, cpu_milli=2000, memory=1 << 30, node="n1", **more)


Viewer = Callable[..., NodeMeasurement]


@pytest.fixture
def view(tmp_path: Path) -> Viewer:
    """Returns a function that shows a node with one pod, under a ratio."""
    count = itertools.count()

    def show(of: SimulatedNode, ratio: Ratio = ONE, machine: Machine = MACHINE) -> NodeMeasurement:
        simulated = SimulatedMachine(tmp_path / str(next(count)), machine)
        web = simulated.start(pod())
        simulated.normalize(ratio)
        return view_node(of, machine, [web], root=simulated.root, topology=simulated.topology())

    return show


def workload(folder: Path, ratio: Ratio, body: dict[str, Any]) -> Workload:
    simulated = SimulatedMachine(folder / body["metadata"]["name"], MACHINE)
    started = simulated.start(body)
    simulated.normalize(ratio)
    (only,) = workloads_of(started, simulated.root)
    return only


AMPLIFIED = {
    NORMALIZATION_RATIO: "2.00",
    AMPLIFICATION_RATIO: '{"cpu":2.00}',
    RAW_CAPACITY: '{"cpu":"8"}',
    RAW_ALLOCATABLE: '{"cpu":"8"}',
}


def test_node_shows_facts_ratio_raw_amplified_and_compute(view: Viewer) -> None:
    off, on = view(node()), view(node(cpu="16", **AMPLIFIED), ratio=Ratio(200))
    report = RunReport(
        "a test", (), Measurement(ClusterMeasurement((off,))), Measurement(ClusterMeasurement((on,)))
    )
    assert document(report)["nodes"] == [
        {
            "name": "n1",
            "cpuFacts": {
                "cpuModel": "Neoverse-N1",
                "hyperThreadEnabled": False,
                "turboEnabled": False,
                "vendorID": "ARM",
            },
            "normalizationRatio": "2.00",
            "amplificationRatio": {"cpu": "2.00"},
            "rawCPUMilli": 8000,
            "rawAllocatableCPUMilli": 8000,
            "amplifiedCPUMilli": 16000,
            "schedulableCPUMilli": {"off": 8000, "on": 16000},
            "requestedCPUMilli": {"off": 2000, "on": 2000},
            "pods": {"off": 1, "on": 1},
            "computePerRequestedCPU": {"off": SPEED, "on": SPEED / 2},
            "computeBaselineCPUs": {"off": 2 * SPEED, "on": SPEED},
            "colocation": None,
            "memory": None,
            "verdict": None,
        }
    ]


def test_the_whole_cluster_is_summed_up(view: Viewer) -> None:
    snapshot = ClusterMeasurement((view(node()),))
    rest = Rest(12.34, status_patches=7, node_writes=2, publications=2)
    memory = {"apiServer": Bytes(1), "manager": None}
    report = RunReport(
        "a test",
        ("assumed",),
        Measurement(snapshot),
        Measurement(snapshot, rest=rest),
        seconds={"load": 1.239},
        memory=memory,
    )
    whole = document(report)
    assert whole["spread"] == {"off": 1.0, "on": 1.0}
    assert whole["schedulableCPUMilli"] == {"off": 8000, "on": 8000}
    assert whole["atRest"] == {
        "off": None,
        "on": {
            "seconds": 12.3,
            "kubeletStatusPatchesSent": 7,
            "nodeWritesStored": 2,
            "offerPublications": 2,
        },
    }
    assert whole["colocation"] is None, "there are no offline pods"
    assert whole["seconds"] == {"load": 1.24}
    assert whole["residentMemoryBytes"] == {"apiServer": 1, "manager": None}
    assert (whole["notes"], whole["sound"]) == (["assumed"], True)


BESIDE_OFF = Colocation(
    cpus=8.0,
    online=4.0,
    offline=4.0,
    offered=None,
    refused=0.0,
    slowdowns=(0.0, 0.3),
    work=4.0,
    work_alone=5.0,
    online_alone=4.0,
)
BESIDE_ON = replace(BESIDE_OFF, offline=2.0, offered=2.5, refused=6.0, slowdowns=(0.0, 0.1), work=4.5)


def test_colocated_pods_shares_show_by_node_and_overall(view: Viewer) -> None:
    snapshot = ClusterMeasurement((view(node()),))
    report = RunReport(
        "a test",
        (),
        Measurement(snapshot, colocation={"n1": BESIDE_OFF, "n2": BESIDE_OFF}),
        Measurement(snapshot, colocation={"n1": BESIDE_ON, "n2": BESIDE_ON}),
    )
    whole = document(report)
    off = {
        "onlineSlowdown": {"mean": 0.15, "worst": 0.3},
        "onlineCPUTimeGrowth": 0.25,
        "onlineCPUs": 4.0,
        "offlineCPUs": 4.0,
        "idleCPUsWithoutOffline": 4.0,
        "offeredCPUs": None,
        "offlineCPUsRefused": 0.0,
        "utilization": 1.0,
    }
    assert whole["nodes"][0]["colocation"]["off"] == off
    assert whole["nodes"][0]["colocation"]["on"]["onlineSlowdown"] == {"mean": 0.05, "worst": 0.1}
    every = whole["colocation"]
    assert (every["nodes"], every["nodesNotSimulated"], every["simulatedSeconds"]) == (2, 0, 240)
    assert every["off"] == off | {"onlineCPUs": 8.0, "offlineCPUs": 8.0, "idleCPUsWithoutOffline": 8.0}
    assert (every["on"]["offlineCPUs"], every["on"]["offeredCPUs"]) == (4.0, 5.0)


def test_off_is_null_when_corewise_started_beside_offline(view: Viewer) -> None:
    on = Measurement(ClusterMeasurement((view(node()),)), colocation={"n1": BESIDE_ON})
    report = RunReport("a test", (), None, on)
    whole = document(report)
    assert whole["colocation"]["off"] is None
    assert whole["nodes"][0]["colocation"]["off"] is None
    assert whole["nodes"][0]["colocation"]["on"]["offlineCPUs"] == 2.0


def test_where_nobody_works_nothing_is_slowed() -> None:
    idle = of_account(PodTotals(seconds=10.0, cpus=8), ())
    assert (idle.mean_slowdown, idle.worst_slowdown, idle.stretch, idle.offered) == (None, None, None, None)
    assert (idle.utilization, total(())) == (0.0, None)


def test_offline_pods_are_excluded_from_requested_cpu_worth(tmp_path: Path) -> None:
    simulated = SimulatedMachine(tmp_path, MACHINE)
    web, batch = simulated.start(pod()), simulated.start(pod("batch", offline=True), qos="BestEffort")
    both, alone = (
        view_node(node(), MACHINE, pods, root=simulated.root, topology=None) for pods in ([web, batch], [web])
    )
    assert (both.delivered, both.requested) == (alone.delivered, alone.requested)
    assert both.pods == 2


def test_numbers_without_an_off_measurement_are_null(view: Viewer) -> None:
    whole = document(RunReport("a test", (), None, Measurement(ClusterMeasurement((view(node()),)))))
    assert whole["spread"]["off"] is None
    assert whole["schedulableCPUMilli"]["off"] is None
    assert whole["nodes"][0]["computePerRequestedCPU"]["off"] is None


def test_machine_of_unknown_speed_delivers_null(view: Viewer) -> None:
    unknown = Machine("n1", None, 8, Bytes(32 << 30))
    whole = document(
        RunReport("a test", (), None, Measurement(ClusterMeasurement((view(node(), machine=unknown),))))
    )
    assert whole["nodes"][0]["computePerRequestedCPU"]["on"] is None
    assert "cpuModel" not in whole["nodes"][0]["cpuFacts"]
    assert whole["spread"]["on"] is None


def test_a_verdict_is_shown_with_its_reason() -> None:
    verdict = Verdict("UnknownCPUModel", "no entry")
    seen = view_node(node(), MACHINE, [], root=Path("/"), topology=None, verdict=verdict)
    (shown,) = document(RunReport("a test", (), None, Measurement(ClusterMeasurement((seen,)))))["nodes"]
    assert shown["verdict"] == {"reason": "UnknownCPUModel", "message": "no entry"}


def test_cluster_drained_while_measured_is_not_at_rest(
    view: Viewer, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ClusterMeasurement((view(node()),))
    after = ClusterMeasurement(tuple(replace(each, pods=0, requested=0) for each in before.nodes))
    assert before.pods_by_node != after.pods_by_node
    print_report(RunReport("a test", (), None, Measurement(before), changed=True), Form.TABLE)
    told = capsys.readouterr().out
    assert (
        "pods changed after the measurement with corewise on: the tables show the nodes before that" in told
    )
    assert "with corewise on, while nothing changed" not in told


def test_run_with_unsettled_nodes_is_not_sound() -> None:
    report = RunReport("a test", (), None, Measurement(ClusterMeasurement(())), unsettled=("n1",))
    assert document(report)["sound"] is False
    assert document(report)["unsettledNodes"] == ["n1"]


@pytest.mark.parametrize(
    ("cpu", "annotations", "settled"),
    [
        ("8", {}, False),
        ("8", {NORMALIZATION_RATIO: "1.00"}, True),
        ("8", {NORMALIZATION_RATIO: "2.00", AMPLIFICATION_RATIO: '{"cpu":2.00}'}, False),
        ("16", AMPLIFIED, True),
        ("8", AMPLIFIED, False),
    ],
)
def test_node_is_settled_when_status_shows_written_ratio(
    cpu: str, annotations: dict[str, str], settled: bool
) -> None:
    assert is_settled(node(cpu=cpu, **annotations)) is settled


def test_only_quotas_of_cpushare_pods_are_divided(tmp_path: Path) -> None:
    share = workload(tmp_path, Ratio(200), pod())
    offline = workload(tmp_path, Ratio(200), pod("batch", qos_class="BE"))
    assert (share.quota, share.counts) == (1.0, True)
    assert (offline.quota, offline.counts) == (2.0, False)


def test_pod_that_owns_cpus_is_not_divided(tmp_path: Path) -> None:
    owner = pod()
    owner["metadata"]["labels"] = {QOS_CLASS: "LSR"}
    owner["metadata"].setdefault("annotations", {})[RESOURCE_STATUS] = '{"cpuset":"0-1"}'
    owned = workload(tmp_path, Ratio(200), owner)
    assert (owned.quota, owned.counts) == (2.0, False)


def test_only_pods_that_run_are_on_a_node() -> None:
    running, waiting = (
        msgspec.convert({**pod(name), "status": {"phase": phase}}, Pod)
        for name, phase in (("web", "Running"), ("late", "Pending"))
    )
    assert [each.metadata.name for each in by_node([running, waiting])["n1"]] == ["web"]
