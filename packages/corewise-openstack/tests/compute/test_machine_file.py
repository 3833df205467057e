"""A machine as ``corewise topology -o json`` prints it is read back as it was, or refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import machine_trees
from corewise.cli import corewise
from corewise.config.machine_file import parse_machine
from corewise.kernel.machine import read_machine
from corewise.topology import CPUSet

SMALL: dict[str, Any] = {
    "threads": [{"cpu": cpu, "core": cpu % 2, "cache": None, "numaNode": 0, "socket": 0} for cpu in range(4)],
    "numaNodes": [{"numaNode": 0, "memoryBytes": 1 << 30, "hugepagesBytes": 0}],
}


@pytest.mark.parametrize("machine", machine_trees.MACHINES)
def test_every_machine_is_read_back_as_printed(tmp_path: Path, machine: str) -> None:
    machine_trees.MACHINES[machine](tmp_path)
    printed = CliRunner().invoke(corewise, ["topology", "--root", str(tmp_path), "-o", "json"]).stdout
    host = read_machine(tmp_path).host
    parsed = parse_machine(printed)
    assert parsed.problems == ()
    assert parsed.value is not None
    assert parsed.value.topology.cores == host.topology.cores
    assert parsed.value.topology.numa_nodes == host.topology.numa_nodes
    assert parsed.value.topology.sockets == host.topology.sockets
    assert set(parsed.value.topology.caches.values()) == set(host.topology.caches.values())
    assert parsed.value.offline == host.offline
    assert parsed.value.memory == host.memory
    assert parsed.value.memory_total == host.memory_total
    assert parsed.value.caches == host.caches
    assert parsed.value.kinds == host.kinds


def test_threads_alone_make_a_machine_without_other_facts() -> None:
    parsed = parse_machine(json.dumps({"threads": SMALL["threads"]}))
    assert parsed.value is not None
    assert parsed.value.topology.cpus == CPUSet.parse("0-3")
    assert parsed.value.topology.hyper_threading
    assert parsed.value.memory == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threads": None}, 'there are no "threads"'),
        ({"threads": [*SMALL["threads"], SMALL["threads"][1]]}, "CPU 1 is there twice"),
        ({"threads": [{"cpu": 0, "core": 0, "numaNode": 0}]}, "threads[0].socket: is missing"),
        ({"threads": [{**SMALL["threads"][0], "cpu": -1}]}, "-1 is outside 0..8191"),
        ({"threads": [{**SMALL["threads"][0], "cpu": "0"}]}, "threads[0].cpu"),
        (
            {"threads": [*SMALL["threads"], {"cpu": 4, "core": 0, "numaNode": 1, "socket": 1}]},
            "core 0 is in two places",
        ),
        ({"onlineCPUs": "0-2"}, "says CPUs 0-2, but the threads are those of CPUs 0-3"),
        ({"numaNodes": [{"numaNode": 0, "onlineCPUs": "0"}]}, "says CPUs 0, but the threads of NUMA node 0"),
        ({"offlineCPUs": "3-4"}, "CPUs 3 are online and offline at once"),
        ({"offlineCPUs": "4-"}, "'4-' is not a CPU"),
    ],
)
def test_contradictory_document_is_refused_in_words(change: dict[str, Any], message: str) -> None:
    parsed = parse_machine(json.dumps({**SMALL, **change}))
    assert parsed.value is None
    assert message in str(parsed.errors[0])


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"threads": {}}', '{"threads": []}'])
def test_what_is_no_machine_is_refused(text: str) -> None:
    parsed = parse_machine(text)
    assert parsed.value is None or not parsed.value.topology.threads
    assert parsed.errors


def test_a_key_that_is_misspelt_is_told() -> None:
    parsed = parse_machine(json.dumps({**SMALL, "offlineCPU": "7"}))
    assert parsed.value is not None
    assert 'did you mean "offlineCPUs"?' in str(parsed.warnings[0])
