"""The probe of memory: the helper in C on this machine, and on which CPUs it runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import machine_trees
from corewise.kernel.host_files import HostFiles
from corewise.kernel.memory_latency import LIBRARY, ROUNDS, Chase, bound_to, load_chase, numa_cpus, probe
from corewise.topology import CPUSet
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason


@pytest.fixture
def chase() -> Chase:
    loaded = load_chase()
    if isinstance(loaded, Finding):
        pytest.skip(f"the probe's helper is not built here: {loaded.message}")
    return loaded


def test_helper_builds_with_compiler_on_a_known_processor() -> None:
    if os.uname().machine not in {"x86_64", "aarch64"} or not LIBRARY.exists():
        pytest.skip("not built here: no compiler when the package was installed, or another processor")
    assert isinstance(load_chase(), Chase)


def test_probe_follows_256_lines_in_50_counted_rounds(chase: Chase) -> None:
    latency = probe(chase, CPUSet.of(os.sched_getaffinity(0)))
    assert chase.lines == 256
    assert len(latency.rounds) == ROUNDS >= 50
    assert min(latency.rounds) <= latency.seconds <= max(latency.rounds)
    assert latency.cpu_seconds > 0


def test_read_past_the_caches_takes_longer(chase: Chase) -> None:
    """First-level caches answer within two nanoseconds, memory in no less than tens; noise only adds."""
    assert probe(chase, CPUSet.of(os.sched_getaffinity(0))).seconds > 10e-9


def test_thread_is_bound_to_node_cpus_and_released() -> None:
    before = os.sched_getaffinity(0)
    one = min(before)
    with bound_to(CPUSet.of([one])):
        assert os.sched_getaffinity(0) == {one}
    assert os.sched_getaffinity(0) == before


def test_forbidden_cpus_are_an_error_and_change_nothing(chase: Chase) -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(OSError, match="Invalid argument"):
        probe(chase, CPUSet.of([8191]))
    assert os.sched_getaffinity(0) == before


def test_every_numa_node_with_cpus_is_probed_separately(tmp_path: Path) -> None:
    machine_trees.sub_numa(tmp_path)
    assert numa_cpus(HostFiles(tmp_path)) == {0: CPUSet.parse("0-3"), 1: CPUSet.parse("4-7")}


def test_isolated_cpus_are_left_alone(tmp_path: Path) -> None:
    machine_trees.sub_numa(tmp_path).put("sys/devices/system/cpu/isolated", "1,4-7")
    assert numa_cpus(HostFiles(tmp_path)) == {0: CPUSet.parse("0,2-3")}


def test_a_machine_without_numa_directories_is_one_node(tmp_path: Path) -> None:
    machine_trees.bare_vm(tmp_path)
    assert numa_cpus(HostFiles(tmp_path)) == {0: CPUSet.parse("0-3")}


def test_a_package_without_the_helper_says_so(tmp_path: Path) -> None:
    absent = load_chase(tmp_path / "chase.so")
    assert isinstance(absent, Finding)
    assert absent.reason is Reason.LATENCY_PROBE_NOT_BUILT


def test_helper_for_another_machine_counts_as_none(tmp_path: Path) -> None:
    other = tmp_path / "chase.so"
    other.write_bytes(b"\x7fELF of somebody else")
    absent = load_chase(other)
    assert isinstance(absent, Finding)
    assert absent.reason is Reason.LATENCY_PROBE_NOT_BUILT
