"""CPU facts of recorded machines, and what happens to files that are missing, unreadable or wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import machine_trees
from corewise.config.facts import CPUFacts
from corewise.kernel.cpu_facts import (
    ObservedCPU,
    model_and_vendor,
    part_name,
)
from corewise.kernel.errors import Malformed, Unreadable
from corewise.kernel.machine import read_machine
from machine_trees import CPUS

TABLE = [
    # machine, model, vendor, hyper-threading, turbo, L3 mask
    ("intel", "Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz", "GenuineIntel", True, True, "7ff"),
    ("epyc", "AMD EPYC 7402 24-Core Processor", "AuthenticAMD", True, True, ""),
    ("smt_off", "Intel(R) Xeon(R) CPU E5-2682 v4 @ 2.50GHz", "GenuineIntel", False, False, ""),
    ("neoverse", "Neoverse-N1", "ARM", False, False, ""),
    ("big_little", "Cortex-A53", "ARM", False, False, ""),
    ("hybrid", "13th Gen Intel(R) Core(TM) i5-1335U", "GenuineIntel", True, True, ""),
    ("bare_vm", "QEMU Virtual CPU version 2.5+", "GenuineIntel", False, False, ""),
    ("sub_numa", "Intel(R) Xeon(R) Platinum 8480+", "GenuineIntel", False, False, ""),
]


@pytest.mark.parametrize(("machine", "model", "vendor", "threads", "turbo", "mask"), TABLE)
def test_facts_of_a_machine(
    tmp_path: Path, machine: str, model: str, vendor: str, threads: bool, turbo: bool, mask: str
) -> None:
    machine_trees.MACHINES[machine](tmp_path)
    reading = read_machine(tmp_path)
    assert reading.cpu == ObservedCPU(model, vendor, threads, turbo, mask)
    assert reading.cpu.facts == CPUFacts(model, threads, turbo, mask, vendor)
    assert reading.problems == ()


def test_core_threads_reveal_hyper_threading_without_smt_switch(tmp_path: Path) -> None:
    tree = machine_trees.intel(tmp_path)
    (tree.root / CPUS / "smt/active").unlink()
    assert read_machine(tmp_path).cpu.hyper_threading
    tree.cpulists("0-7", "0-15")
    assert read_machine(tmp_path).cpu.hyper_threading is False


TURBO = [
    # no_turbo, boost, turbo
    ("0", None, True),
    ("1", None, False),
    ("1", "1", True),
    (None, "1", True),
    (None, "0", False),
    (None, None, False),
    ("nonsense", "1", True),
    ("nonsense", None, None),
    (None, "", None),
    ("0", "0", True),
]


@pytest.mark.parametrize(("no_turbo", "boost", "turbo"), TURBO)
def test_turbo_comes_from_intel_pstate_or_else_cpufreq(
    tmp_path: Path, no_turbo: str | None, boost: str | None, turbo: bool | None
) -> None:
    tree = machine_trees.bare_vm(tmp_path)
    if no_turbo is not None:
        tree.put(f"{CPUS}/intel_pstate/no_turbo", no_turbo)
    if boost is not None:
        tree.put(f"{CPUS}/cpufreq/boost", boost)
    reading = read_machine(tmp_path)
    assert reading.cpu.turbo is turbo
    wrong = [text for text in (no_turbo, boost) if text not in {None, "0", "1"}]
    assert [type(problem) for problem in reading.problems] == [Malformed] * len(wrong)


ARM = [
    # implementer, part, model, vendor: as lscpu prints them
    ("0x41", "0xd0c", "Neoverse-N1", "ARM"),
    ("0x41", "0xd40", "Neoverse-V1", "ARM"),
    ("0x41", "0xd4f", "Neoverse-V2", "ARM"),
    ("0x48", "0xd01", "Kunpeng-920", "HiSilicon"),
    ("0x46", "0x001", "A64FX", "FUJITSU"),
    ("0x43", "0x0af", "ThunderX2-99xx", "Cavium"),
    ("0xc0", "0xac3", "Ampere-1", "Ampere"),
    ("0x41", "0xfff", "unknown", "ARM"),
    ("0x99", "0xd0c", "unknown", ""),
    ("ARM", "0xd0c", "unknown", ""),
    ("0x41", "-1", "unknown", "ARM"),
]


@pytest.mark.parametrize(("implementer", "part", "model", "vendor"), ARM)
def test_arm_cpus_are_named_by_implementer_and_part(
    tmp_path: Path, implementer: str, part: str, model: str, vendor: str
) -> None:
    machine_trees.neoverse(tmp_path).arm(part, implementer=implementer)
    reading = read_machine(tmp_path)
    assert (reading.cpu.model, reading.cpu.vendor) == (model, vendor)


def test_a_model_name_wins_over_the_part_number(tmp_path: Path) -> None:
    fields = "model name\t: ARMv7 Processor rev 4 (v7l)\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n"
    machine_trees.neoverse(tmp_path).put("proc/cpuinfo", fields)
    assert read_machine(tmp_path).cpu.model == "ARMv7 Processor rev 4 (v7l)"


@pytest.mark.parametrize("text", ["", "model name\t:\n", "model\t: 85\n", "\n\n::\n", "model name"])
def test_a_cpu_that_nobody_names_is_unknown(text: str) -> None:
    assert model_and_vendor(text) == ("unknown", "")


def test_the_first_of_several_models_counts() -> None:
    text = "model name\t: A\n\nmodel name\t: B\n"
    assert model_and_vendor(text) == ("A", "")


def _directory(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.mkdir(parents=True)


def _garbage(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(range(256)))


FILES = {
    "proc/cpuinfo": "model",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "turbo",
    "sys/fs/resctrl/info/L3/cbm_mask": "l3_mask",
}


@pytest.mark.parametrize(("path", "fact"), FILES.items())
def test_unreadable_fact_is_omitted_and_others_stay(tmp_path: Path, path: str, fact: str) -> None:
    whole = read_machine(machine_trees.intel(tmp_path).root).cpu
    _directory(tmp_path / path)
    reading = read_machine(tmp_path)
    assert getattr(reading.cpu, fact) is None
    assert [type(problem) for problem in reading.problems] == [Unreadable]
    assert str(tmp_path / path) in str(reading.problems[0])
    assert "EISDIR" in str(reading.problems[0])
    left_out = {fact, "vendor"} if fact == "model" else {fact}
    for other in {"model", "vendor", "hyper_threading", "turbo", "l3_mask"} - left_out:
        assert getattr(reading.cpu, other) == getattr(whole, other)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_left_out(tmp_path: Path) -> None:
    tree = machine_trees.intel(tmp_path)
    (tree.root / "proc/cpuinfo").chmod(0)
    reading = read_machine(tmp_path)
    assert reading.cpu.model is None
    assert "EACCES" in str(reading.problems[0])


@pytest.mark.parametrize("path", [*FILES, "sys/devices/system/cpu/smt/active", f"{CPUS}/online"])
def test_garbage_in_a_file_costs_only_its_fact(tmp_path: Path, path: str) -> None:
    machine_trees.intel(tmp_path)
    _garbage(tmp_path / path)
    reading = read_machine(tmp_path)
    assert len(reading.host.topology.cpus) == 16
    assert len(reading.problems) == (0 if path == "proc/cpuinfo" else 1)


def test_an_empty_directory_is_a_machine_without_anything(tmp_path: Path) -> None:
    reading = read_machine(tmp_path)
    assert not reading.host.topology.threads
    assert reading.cpu == ObservedCPU("unknown", "", hyper_threading=False, turbo=False, l3_mask="")
    assert reading.host.memory_total is None


@given(st.text(max_size=400))
def test_any_cpuinfo_parses_and_names_are_printable(text: str) -> None:
    for name in model_and_vendor(text):
        assert name.isprintable()
        assert len(name) <= 128
        assert name == name.strip()


@given(st.integers(), st.integers())
def test_every_part_number_has_name_or_is_unknown(implementer: int, part: int) -> None:
    assert part_name(implementer, part)


@given(st.integers(0, 2**32 - 1))
def test_every_implementer_has_a_printable_name_or_none(implementer: int) -> None:
    _, vendor = model_and_vendor(f"CPU implementer\t: {implementer:#x}\n")
    assert vendor.isprintable()


@pytest.fixture(scope="module")
def intel_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return machine_trees.intel(tmp_path_factory.mktemp("fuzzed")).root


FUZZED = [
    *FILES,
    f"{CPUS}/smt/active",
    "proc/meminfo",
    f"{CPUS}/online",
    f"{CPUS}/cpu0/topology/core_cpus_list",
]


@given(content=st.binary(max_size=300), path=st.sampled_from(FUZZED))
def test_any_file_content_lets_machine_reading_finish(intel_tree: Path, content: bytes, path: str) -> None:
    file = intel_tree / path
    before = file.read_bytes()
    try:
        file.write_bytes(content)
        assert read_machine(intel_tree).host.topology.cpus
    finally:
        file.write_bytes(before)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and /sys")
def test_this_machine_has_facts() -> None:
    reading = read_machine()
    assert reading.cpu.model
    assert reading.host.topology.cpus
    assert reading.host.memory_total
    assert read_machine() == reading
