"""The tree of a simulated machine: quotas that stand in its files, kubelet's weights, who owns CPUs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from corewise.quantities import Bytes
from corewise.vocabulary.names import RESOURCE_STATUS
from corewise.workload.pods import Pod
from corewise_lab.fair_share import Cgroup
from corewise_lab.load import Load
from corewise_lab.machines import CATALOG, Machine
from corewise_lab.node_cgroups import (
    BEST_EFFORT,
    BURSTABLE,
    MOUNT,
    NodeTree,
    container_cgroup,
    describe,
    is_offline,
    pod_cgroup,
    read_tree,
    remove_cgroups,
)
from corewise_lab.pods import manifest
from simulation.simulated_machine import SimulatedMachine

CPUS = 8


@pytest.fixture
def machine(tmp_path: Path) -> SimulatedMachine:
    return SimulatedMachine(tmp_path, Machine("n1", CATALOG["Neoverse-N1"], CPUS, Bytes(32 << 30)))


def guaranteed(machine: SimulatedMachine, name: str = "web", *, cpuset: str = "") -> Pod:
    body = manifest(name, cpu_milli=2000, memory=1 << 30, node="n1")
    if cpuset:
        body["metadata"]["annotations"] = {RESOURCE_STATUS: f'{{"cpuset":"{cpuset}"}}'}
    return machine.start(body)


def burstable(machine: SimulatedMachine, name: str = "api") -> Pod:
    return machine.start(
        manifest(name, cpu_milli=3000, memory=1 << 30, limited=False, node="n1"), qos="Burstable"
    )


def offline(machine: SimulatedMachine, name: str = "batch", load: Load | None = None) -> Pod:
    body = manifest(name, cpu_milli=1500, memory=2 << 30, offline=True, node="n1", load=load)
    return machine.start(body, qos="BestEffort")


def tree_of(machine: SimulatedMachine, *pods: Pod) -> NodeTree:
    return read_tree(machine.root, describe(machine.root, pods), CPUS)


def cgroup(tree: NodeTree, path: str) -> Cgroup:
    return tree.tree.cgroups[tree.tree.index[path]]


def put(machine: SimulatedMachine, path: str, file: str, text: str) -> None:
    (machine.root / MOUNT / path / file).write_text(text)


def test_pod_is_offline_only_by_requesting_batch_cpu(machine: SimulatedMachine) -> None:
    assert is_offline(offline(machine))
    assert not is_offline(guaranteed(machine))
    body = manifest("both", cpu_milli=1500, memory=2 << 30, offline=True, node="n1")
    assert not is_offline(machine.start(body, qos="Burstable")), "it has limits of kubelet's own"


def test_weights_are_kubelets_where_nobody_has_written_others(machine: SimulatedMachine) -> None:
    web, api, batch = guaranteed(machine), burstable(machine), offline(machine)
    tree = tree_of(machine, web, api, batch)
    assert cgroup(tree, pod_cgroup(web)).weight == 1 + (2048 - 2) * 9999 // 262142
    assert cgroup(tree, BURSTABLE).weight == cgroup(tree, pod_cgroup(api)).weight == 118
    assert cgroup(tree, BEST_EFFORT).weight == cgroup(tree, pod_cgroup(batch)).weight == 1


def test_weights_and_quotas_in_files_count_everywhere(machine: SimulatedMachine) -> None:
    batch = offline(machine)
    put(machine, pod_cgroup(batch), "cpu.weight", "59\n")
    put(machine, BEST_EFFORT, "cpu.max", "480000 100000\n")
    put(machine, pod_cgroup(batch), "cpu.max", "150000 50000\n")
    put(machine, container_cgroup(batch, "main"), "cpu.max", "max 100000\n")
    tree = tree_of(machine, batch)
    assert cgroup(tree, pod_cgroup(batch)).weight == 59
    assert (cgroup(tree, BEST_EFFORT).quota, cgroup(tree, pod_cgroup(batch)).quota) == (4.8, 3.0)
    assert cgroup(tree, container_cgroup(batch, "main")).quota == math.inf


def test_kubelet_quotas_apply_to_pod_and_container(machine: SimulatedMachine) -> None:
    web = guaranteed(machine)
    tree = tree_of(machine, web)
    assert cgroup(tree, pod_cgroup(web)).quota == cgroup(tree, container_cgroup(web, "main")).quota == 2.0


def test_owned_cpus_confine_owners_and_exclude_other_pods(
    machine: SimulatedMachine,
) -> None:
    owner, other = guaranteed(machine, "owner", cpuset="0-2"), guaranteed(machine)
    tree = tree_of(machine, owner, other)
    assert cgroup(tree, pod_cgroup(owner)).cpus == frozenset({0, 1, 2})
    assert cgroup(tree, pod_cgroup(other)).cpus == frozenset(range(3, CPUS))
    assert tree.owners == (pod_cgroup(owner),)


def test_pods_are_unconfined_where_all_cpus_are_owned(machine: SimulatedMachine) -> None:
    owner, other = guaranteed(machine, "owner", cpuset="0-7"), guaranteed(machine)
    assert cgroup(tree_of(machine, owner, other), pod_cgroup(other)).cpus is None


@pytest.mark.parametrize("text", ["", "{", '{"cpuset":7}', '{"cpuset":"x"}', '{"cpuset":""}'])
def test_unreadable_cpu_statement_owns_no_cpus(machine: SimulatedMachine, text: str) -> None:
    body = manifest("web", cpu_milli=2000, memory=1 << 30, node="n1")
    body["metadata"]["annotations"] = {RESOURCE_STATUS: text}
    web = machine.start(body)
    assert cgroup(tree_of(machine, web), pod_cgroup(web)).cpus is None


def test_container_demand_is_its_load_times_its_request(machine: SimulatedMachine) -> None:
    pods = guaranteed(machine), burstable(machine), offline(machine), offline(machine, "slow", Load(0.5, 0.5))
    demands = {task.name.split("/")[1]: task.demand(0.0) for task in tree_of(machine, *pods).tasks}
    assert demands == {"web": 8.0, "api": 3.0, "batch": 6.0, "slow": 0.75}


def test_offline_cgroups_have_all_agent_files_until_deletion(
    machine: SimulatedMachine,
) -> None:
    batch = offline(machine)
    own = machine.root / MOUNT / pod_cgroup(batch)
    expected = {"cpu.idle", "cpu.max", "cpu.weight", "cpuset.cpus", "memory.current", "memory.max"}
    assert {path.name for path in own.iterdir() if path.is_file()} == expected
    assert {path.name for path in next(path for path in own.iterdir() if path.is_dir()).iterdir()} == expected
    remove_cgroups(machine.root, batch)
    assert not own.exists()
