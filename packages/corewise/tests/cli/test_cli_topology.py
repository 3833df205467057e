"""``corewise topology`` over recorded machines: tables, documents, drawings, and how it takes bad input."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import machine_trees
from corewise.cli import corewise, svg
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.topology_drawing import cache_size
from machine_trees import CPUS

SVG = "{http://www.w3.org/2000/svg}"


def run(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(corewise, ["topology", "--root", str(root), *arguments])


def test_table_has_lines_for_caches_and_offline_cpus(tmp_path: Path) -> None:
    result = run(machine_trees.offline(tmp_path).root)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "Model:    Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz (GenuineIntel)",
        "Shape:    2 sockets, 2 NUMA nodes, 2 last-level caches, 7 cores, 13 CPUs online",
        "Offline:  1,9,14",
        "Settings: hyper-threading on, turbo on, L3 mask 7ff",
        "Memory:   376.7 GiB, 14.0 GiB of it in hugepages",
        "",
        "SOCKET  NUMA  LLC       SIZE  CORES  ONLINE  CPUS           OFFLINE     MEMORY  HUGEPAGES",
        "     0     0    0  35.75 MiB      3       6  0,2-3,8,10-11  1,9      187.8 GiB    6.0 GiB",
        "     1     1    1  35.75 MiB      4       7  4-7,12-13,15   14       187.8 GiB    8.0 GiB",
    ]


def test_wide_table_has_a_line_for_each_core(tmp_path: Path) -> None:
    result = run(machine_trees.hybrid(tmp_path).root, "-o", "wide")
    lines = result.stdout.splitlines()
    assert lines[lines.index("") + 1 : lines.index("") + 4] == [
        "SOCKET  NUMA  LLC    SIZE  CORE  CPUS  KIND",
        "     0     0    0  12 MiB     0  0-1   cpu_core",
        "     0     0    0  12 MiB     1  2-3   cpu_core",
    ]
    assert "one normalization ratio does not fit them all" in result.stderr


def test_node_memory_appears_once_so_columns_add_up(tmp_path: Path) -> None:
    lines = run(machine_trees.epyc(tmp_path).root).stdout.splitlines()[-8:]
    assert [line.split()[-2:] for line in lines][:2] == [["0.0", "GiB"], ["-", "-"]]


def test_memory_only_nodes_and_offline_cpus_have_lines(tmp_path: Path) -> None:
    tree = machine_trees.sub_numa(tmp_path).cpulists("0-7", "0-8")
    assert [line.split() for line in run(tree.root).stdout.splitlines()[-2:]] == [
        ["-", "2", "-", "-", "0", "0", "-", "-", "15.2", "GiB", "0.0", "GiB"],
        ["-", "-", "-", "-", "-", "0", "-", "8", "-", "-"],
    ]


def test_json_and_yaml_state_one_machine_with_units(tmp_path: Path) -> None:
    machine_trees.offline(tmp_path)
    document = json.loads(run(tmp_path, "-o", "json").stdout)
    assert document == yaml.safe_load(run(tmp_path, "-o", "yaml").stdout)
    assert document["offlineCPUs"] == "1,9,14"
    assert document["memoryBytes"] == 395_000_000 * 1024
    assert document["numaNodes"][1]["onlineCPUs"] == "4-7,12-13,15"
    assert document["caches"][0] == {
        "cache": 0,
        "level": 3,
        "sizeBytes": 36608 * 1024,
        "onlineCPUs": "0,2-3,8,10-11",
    }
    assert document["threads"][0] == {"cpu": 0, "core": 0, "cache": 0, "numaNode": 0, "socket": 0}
    assert len(document["threads"]) == 13


@pytest.mark.parametrize("machine", machine_trees.MACHINES)
def test_every_machine_is_drawn_with_every_cpu_once(tmp_path: Path, machine: str) -> None:
    machine_trees.MACHINES[machine](tmp_path)
    picture = ET.fromstring(run(tmp_path, "-o", "svg").stdout)  # noqa: S314 - our own output
    drawn = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") in {"number", "gone"}]
    present = json.loads(run(tmp_path, "-o", "json").stdout)
    online = {str(thread["cpu"]) for thread in present["threads"]}
    assert len(drawn) == len(set(drawn))
    assert online <= set(drawn)
    gone = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == "gone"]
    assert len(gone) == len(drawn) - len(online)


@pytest.mark.parametrize("machine", machine_trees.MACHINES)
def test_boxes_of_a_drawing_lie_inside_the_picture(tmp_path: Path, machine: str) -> None:
    machine_trees.MACHINES[machine](tmp_path)
    picture = ET.fromstring(run(tmp_path, "-o", "svg").stdout)  # noqa: S314 - our own output
    width, height = int(picture.get("width", "0")), int(picture.get("height", "0"))

    def check(element: ET.Element, x: float, y: float) -> None:
        for child in element:
            if child.tag == f"{SVG}g":
                moved = child.get("transform", "")[len("translate(") : -1].split()
                check(child, x + float(moved[0]), y + float(moved[1]))
            elif child.tag == f"{SVG}rect" and child.get("width") != "100%":
                assert x + float(child.get("width", "0")) <= width
                assert y + float(child.get("height", "0")) <= height

    check(picture, 0, 0)


def test_machine_names_cannot_break_out_of_the_drawing(tmp_path: Path) -> None:
    machine_trees.bare_vm(tmp_path).put("proc/cpuinfo", 'model name\t: <script>"&\x07')
    picture = run(tmp_path, "-o", "svg").stdout
    assert "<script>" not in picture
    assert "&lt;script&gt;&quot;&amp;" in picture
    ET.fromstring(picture)  # noqa: S314 - our own output


@given(st.text())
def test_any_text_is_well_formed_in_a_drawing(words: str) -> None:
    ET.fromstring(f'<svg a="{svg.escaped(words)}">{svg.text(0, 0, words)}</svg>')  # noqa: S314 - our own output


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(1, 200)), max_size=24))
def test_a_grid_has_room_for_all_its_boxes(sizes: list[tuple[int, int]]) -> None:
    arranged = svg.grid([svg.Box(width, height, "") for width, height in sizes])
    assert arranged.width * arranged.height >= sum(width * height for width, height in sizes)


def test_directory_that_is_no_machine_is_refused_helpfully(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == ExitCode.BAD_INPUT
    assert str(tmp_path) in str(result.exception)
    assert "sys/devices/system/cpu" in str(result.exception)


def test_what_cannot_be_read_is_named_on_stderr(tmp_path: Path) -> None:
    machine_trees.intel(tmp_path).put(f"{CPUS}/intel_pstate/no_turbo", "maybe")
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "turbo unknown" in result.stdout
    assert f"left out: {tmp_path / CPUS}/intel_pstate/no_turbo: 'maybe' is neither 0 nor 1" in result.stderr


def test_sizes_of_caches_have_the_decimals_they_need() -> None:
    sizes = [cache_size(kib * 1024) for kib in (512, 1024, 36608, 16384, 1536)]
    assert sizes == ["512 KiB", "1 MiB", "35.75 MiB", "16 MiB", "1.5 MiB"]


def test_this_machine_can_be_shown() -> None:
    assert "CPU" in CliRunner().invoke(corewise, ["topology"]).stdout
