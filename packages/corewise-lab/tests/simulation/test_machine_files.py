"""Simulated machines on disk: what programs read there is what the machine is, and it takes little room."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kernel.cgroups.layout import Version, find_layout
from corewise.kernel.host_files import read_boot_id
from corewise.kernel.machine import read_machine
from corewise.quantities import Bytes, Ratio
from corewise_lab.machine_files import MachineFiles
from corewise_lab.machines import CATALOG, CPUModel, Machine
from corewise_lab.node_cgroups import container_cgroup, make_cgroups, read_quota, remove_cgroups
from corewise_lab.pods import manifest
from simulation.simulated_machine import SimulatedMachine

MEMORY = Bytes(64 << 30)
COUNTER = itertools.count()


def facts_of(folder: Path, machine: Machine) -> dict[str, Any]:
    facts = read_machine(MachineFiles(folder).make(machine)).cpu.facts
    return {
        "cpuModel": facts.model,
        "hyperThreadEnabled": facts.hyper_threading,
        "turboEnabled": facts.turbo,
        "vendorID": facts.vendor,
        **({"catL3CbmMask": facts.l3_mask} if facts.l3_mask else {}),
    }


@pytest.mark.parametrize("model", CATALOG.values(), ids=str)
@pytest.mark.parametrize(("threads", "turbo"), [(True, True), (False, False), (True, False)])
def test_kernel_reports_the_facts_the_machine_has(
    tmp_path: Path, model: CPUModel, threads: bool, turbo: bool
) -> None:
    machine = Machine("n1", model, 8, MEMORY, hyper_threading=threads, turbo=turbo)
    assert facts_of(tmp_path / "m", machine) == machine.cpu_facts()


def test_model_missing_from_the_catalog_is_reported_too(tmp_path: Path) -> None:
    machine = Machine("n1", CPUModel("RISC-V X100", "acme", "riscv64", None), 4, MEMORY)
    assert facts_of(tmp_path / "m", machine) == machine.cpu_facts()


def test_an_unknown_cpu_is_told_as_not_readable(tmp_path: Path) -> None:
    reading = read_machine(MachineFiles(tmp_path / "m").make(Machine("n1", None, 4, MEMORY)))
    assert reading.cpu.model is None
    assert [problem.path.rpartition("/")[2] for problem in reading.problems] == ["cpuinfo"]


@given(
    cpus=st.integers(1, 260),
    sockets=st.integers(1, 4),
    numa=st.integers(1, 4),
    threads=st.booleans(),
)
def test_every_cpu_has_its_core_and_numa_node(
    tmp_path_factory: pytest.TempPathFactory, cpus: int, sockets: int, numa: int, threads: bool
) -> None:
    folder = tmp_path_factory.getbasetemp() / f"machines-{next(COUNTER)}"
    machine = Machine(
        "n1",
        CATALOG["AMD EPYC 7763 64-Core Processor"],
        cpus,
        MEMORY,
        hyper_threading=threads,
        sockets=sockets,
        numa_per_socket=numa,
    )
    host = read_machine(MachineFiles(folder).make(machine)).host
    topology = host.topology
    assert sorted(thread.cpu for thread in topology.threads) == list(range(cpus))
    assert len({thread.core for thread in topology.threads}) == -(-cpus // (2 if threads else 1))
    assert host.memory_total == MEMORY
    assert len(host.memory) == machine.numa_nodes


def test_machines_of_one_shape_share_their_files(tmp_path: Path) -> None:
    files = MachineFiles(tmp_path / "m")
    model = CATALOG["Neoverse-N1"]
    roots = [files.make(Machine(f"n{index}", model, 64, MEMORY)) for index in range(10)]
    other = files.make(Machine("other", model, 32, MEMORY))
    own = [path for path in (tmp_path / "m/nodes").rglob("*") if path.is_file() and not path.is_symlink()]
    assert len({(root / "proc").resolve() for root in roots}) == 1
    assert (other / "proc").resolve() != (roots[0] / "proc").resolve()
    assert {path.name for path in own if "/sys/fs/" in str(path)} == {"cgroup.controllers"}
    assert find_layout(roots[0]).version is Version.V2
    assert files.boot_id("n1") == read_boot_id(roots[1])


def test_what_an_earlier_run_left_is_removed(tmp_path: Path) -> None:
    machine = Machine("n1", CATALOG["Neoverse-N1"], 4, MEMORY)
    (MachineFiles(tmp_path / "m").make(machine) / "left").touch()
    assert not (MachineFiles(tmp_path / "m").make(machine) / "left").exists()


def test_pod_cgroups_carry_kubelet_quotas_until_pod_deletion(tmp_path: Path) -> None:
    simulated = SimulatedMachine(tmp_path / "m", Machine("n1", CATALOG["Neoverse-N1"], 4, MEMORY))
    body = manifest("web", cpu_milli=1500, memory=1 << 30, node="n1")
    web = simulated.start(body)
    (name,) = (each.name for each in web.spec.containers)
    assert read_quota(simulated.root, container_cgroup(web, name)) == 1.5
    simulated.normalize(Ratio(150))
    assert read_quota(simulated.root, container_cgroup(web, name)) == 1.0
    make_cgroups(simulated.root, web)
    assert read_quota(simulated.root, container_cgroup(web, name)) == 1.5
    remove_cgroups(simulated.root, web)
    assert read_quota(simulated.root, container_cgroup(web, name)) is None
