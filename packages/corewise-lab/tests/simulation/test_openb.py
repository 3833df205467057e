"""The openb trace: what is loaded of it, where pods go, and how a malformed file is reported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from corewise.vocabulary.names import QOS_CLASS
from corewise_lab.filling import place
from corewise_lab.openb import load_openb
from corewise_lab.plan import InputError, Plan

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,131072,0,\nn1,96000,393216,8,P100\nn2,7000,1024,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "ls,12000,16384,1,1000,,LS,Running,0,10,5\n"
    "be,4000,1024,0,0,,BE,Running,0,10,1\n"
    "burst,1000,512,0,0,,Burstable,Running,0,10,\n"
    "sure,1500,512,0,0,,Guaranteed,Running,0,10,2\n"
    "huge,999000,1,0,0,,LS,Running,0,10,3\n"
    "gone,1000,512,0,0,,LS,Succeeded,0,10,4\n"
)


def load(folder: Path, nodes: str = NODES, pods: str = PODS) -> Plan:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "pods.csv").write_text(pods)
    return load_openb(folder / "nodes.csv", folder / "pods.csv", {})


def test_machines_have_trace_sizes_and_models_by_size(tmp_path: Path) -> None:
    machines = load(tmp_path).machines
    assert [(machine.name, machine.cpus) for machine in machines] == [("n0", 32), ("n1", 96), ("n2", 7)]
    assert all(machine.model is not None and machine.speed for machine in machines)


def test_the_same_files_give_the_same_plan(tmp_path: Path) -> None:
    assert load(tmp_path) == load(tmp_path)


def test_running_pods_are_placed_and_misfits_are_counted(tmp_path: Path) -> None:
    plan = load(tmp_path)
    where = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in plan.pods}
    assert where == {"ls": "n1", "be": "n0", "sure": "n2", "burst": "n0"}
    assert "4 running pods placed" in plan.notes[1]
    assert "1 did not fit" in plan.notes[1]
    assert "names no CPU models" in plan.notes[0]


def test_qos_becomes_label_and_limits(tmp_path: Path) -> None:
    pods = {pod["metadata"]["name"]: pod for pod in load(tmp_path).pods}
    limits = {name: "limits" in pod["spec"]["containers"][0]["resources"] for name, pod in pods.items()}
    assert limits == {"ls": True, "be": False, "burst": False, "sure": True}
    assert {name: pod["metadata"]["labels"].get(QOS_CLASS) for name, pod in pods.items()} == {
        "ls": "LS", "be": "BE", "burst": None, "sure": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        ("", PODS, "nodes.csv, line 1: column 'sn' is missing"),
        ("sn,cpu_milli,memory_mib,gpu\n", PODS, "nodes.csv: no nodes"),
        (NODES.replace("32000", "abc"), PODS, "nodes.csv, line 2, column 'cpu_milli': 'abc' is not"),
        (NODES.replace("32000", "32500"), PODS, "line 2, column 'cpu_milli': 32500 is not a whole number"),
        (NODES.replace("131072", "-1"), PODS, "line 2, column 'memory_mib'"),
        (NODES.replace("131072", "0"), PODS, "line 2, column 'memory_mib': 0 is out of range"),
        (NODES.replace("n1,", "n0,"), PODS, "line 3, column 'sn': node 'n0' is there twice"),
        (NODES.replace("n0,", ","), PODS, "line 2, column 'sn': is empty"),
        (NODES + "n9,1000\n", PODS, "line 5, column 'memory_mib'"),
        (NODES, PODS.replace("be,4000", "be,4e3"), "pods.csv, line 3, column 'cpu_milli': '4e3' is not"),
        (NODES, PODS.replace("be,", "ls,"), "line 3, column 'name': pod 'ls' is there twice"),
        (NODES, PODS.replace("qos", "class"), "line 1: column 'qos' is missing"),
        (NODES, PODS.replace("ls,12000", "ls,٣"), "is not a whole number"),
    ],
)
def test_malformed_file_is_reported_with_row_and_field(
    tmp_path: Path, nodes: str, pods: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, nodes, pods)
    assert message in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nodes\.csv: No such file"):
        load_openb(tmp_path / "nodes.csv", tmp_path / "pods.csv", {})
    (tmp_path / "nodes.csv").write_bytes(b"sn,\xff\xfe")
    with pytest.raises(InputError, match=r"nodes\.csv is not UTF-8: byte 3"):
        load_openb(tmp_path / "nodes.csv", tmp_path / "pods.csv", {})


def test_pod_goes_to_largest_free_share_that_fits() -> None:
    rooms = {"small": (4000, 100), "large": (8000, 10)}
    placed = place([(2000, 5), (2000, 50), (2000, 5), (1000, 500)], rooms)
    assert placed == {0: "small", 1: "small", 2: "large"}


def test_no_machine_is_ever_overfilled() -> None:
    rooms = {f"r{index}": (1000 * (index + 1), 10) for index in range(5)}
    pods = Counter(place([(700, 3)] * 50, rooms).values())
    assert all(700 * pods[name] <= cpu and 3 * pods[name] <= other for name, (cpu, other) in rooms.items())
    assert pods == {"r0": 1, "r1": 2, "r2": 3, "r3": 3, "r4": 3}
