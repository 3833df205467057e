"""The NodeResourceTopology tells who owns which CPUs, and how CPUs are arranged and reserved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import machine_trees
from agent.pinning_node import PinNode, claim, pin_pod
from corewise.agent.topology_report import TopologyReport, topology_change, zone_demand
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.machine import read_machine
from corewise.quantities import ONE
from corewise.topology import CPUSet, Topology
from corewise.vocabulary.cpu_annotations import parse_cpu_topology
from corewise.vocabulary.names import CPU_MANAGER_POLICY, CPU_TOPOLOGY, POD_CPUS

NOT_YET = "[]"


@pytest.fixture
def node(tmp_path: Path) -> PinNode:
    return PinNode(tmp_path, Version.V2)


@pytest.fixture
def report(tmp_path: Path) -> TopologyReport:
    machine_trees.intel(tmp_path / "machine")
    reading = read_machine(tmp_path / "machine")
    return TopologyReport("n1", "uid-n1", reading.cpu, reading.host, ONE, cpu_manager="none")


def told(report: TopologyReport, existing: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the annotations written into an object that has these; into a new one without."""
    object_ = None if existing is None else {"metadata": {"annotations": existing}}
    change = topology_change(report, object_)
    return change.body["metadata"].get("annotations", {}) if change else {}


def test_ledger_is_sorted_and_has_the_koordinator_form(node: PinNode) -> None:
    node.cycle(pin_pod("z", claim("4-5")), pin_pod("a", claim("0-1"), bound="02"), pin_pod("web"))
    assert json.loads(node.local.pins.report) == [
        {"namespace": "default", "name": "a", "uid": "uid-a", "cpuset": "0-1"},
        {"namespace": "default", "name": "z", "uid": "uid-z", "cpuset": "4-5"},
    ]


def test_what_is_refused_is_not_in_it(node: PinNode) -> None:
    node.cycle(pin_pod("a", claim("9")), pin_pod("b", "{"))
    assert node.local.pins.report == NOT_YET


def test_owners_by_kubelets_static_policy_are_marked(node: PinNode) -> None:
    node.kubelet("static", **{"uid-db": "2-3"})
    node.cycle(pin_pod("db"), pin_pod("a", claim("0-1")))
    assert json.loads(node.local.pins.report) == [
        {"namespace": "default", "name": "db", "uid": "uid-db", "cpuset": "2-3", "managedByKubelet": True}
    ]


def test_nobody_is_told_of_only_where_somebody_was(report: TopologyReport) -> None:
    owned = '[{"namespace":"default","name":"a","uid":"u","cpuset":"0-1"}]'
    nobody, somebody = replace(report, pod_cpus=NOT_YET), replace(report, pod_cpus=owned)
    assert POD_CPUS not in told(report)
    assert POD_CPUS not in told(nobody)
    assert told(somebody)[POD_CPUS] == owned
    present = told(somebody)
    assert POD_CPUS not in told(report, present)
    assert told(somebody, present) == {}
    assert told(nobody, present) == {POD_CPUS: NOT_YET}


def test_unreadably_deep_annotation_takes_nothing_from_a_zone(report: TopologyReport) -> None:
    deep = '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"
    assert zone_demand([deep], report.host.topology, ONE) == {}


def test_the_arrangement_of_cpus_is_stated(report: TopologyReport) -> None:
    read = parse_cpu_topology(told(report)[CPU_TOPOLOGY])
    assert isinstance(read, Topology)
    assert (read.cpus, read.cores) == (report.host.topology.cpus, report.host.topology.cores)
    assert read.numa_nodes == report.host.topology.numa_nodes


@pytest.mark.parametrize(
    ("existing", "written"),
    [
        ('{"policy":"none","reservedCPUs":"0-1"}', None),
        ('{"policy":"none","reservedCPUs":"0-1","options":{"x":"y"}}', None),
        ('{"policy":"none"}', '{"policy": "none", "reservedCPUs": "0-1"}'),
        ('{"policy":"static","reservedCPUs":"0-1"}', '{"policy": "none", "reservedCPUs": "0-1"}'),
        ("{", '{"policy": "none", "reservedCPUs": "0-1"}'),
    ],
)
def test_reserved_cpus_stand_beside_the_policy(
    report: TopologyReport, existing: str, written: str | None
) -> None:
    reserved = replace(report, reserved=CPUSet.parse("0-1"))
    present = told(reserved) | {CPU_MANAGER_POLICY: existing}
    assert told(reserved, present).get(CPU_MANAGER_POLICY) == written
