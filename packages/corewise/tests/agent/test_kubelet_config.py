"""What kubelet leaves of a machine of 16 CPUs and 64 GiB, 2 GiB of them hugepages, by its configuration file.

kubeReserved     systemReserved   evictionHard             reservedSystemCPUs  allocatable
---------------  ---------------  -----------------------  ------------------  ----------------------------
-                -                -                        -                   16, 62Gi - 100Mi
500m, 1Gi        1, 512Mi         -                        -                   14500m, 62Gi - 1636Mi
500m             1                -                        0-1                 14: the CPUs stand for both
-                -                {}                       -                   16, 62Gi: no threshold at all
-                -                memory.available: 1Gi    -                   16, 61Gi
-                -                memory.available: 5%     -                   16, memory unknown
more than all    -                -                        -                   0
"""

from __future__ import annotations

from pathlib import Path

import pytest

from corewise.agent.kubelet import CONFIG_FILE, KubeletConfig, config_file, parse_config
from corewise.quantities import Bytes, Quantity
from corewise.topology import CPUSet, Host, Topology
from corewise.topology.machine import NumaMemory, Thread

GIB = 2**30
MACHINE = Host(
    Topology(tuple(Thread(cpu, cpu, 0, 0, 0) for cpu in range(16))),
    memory={0: NumaMemory(Bytes(64 * GIB), Bytes(2 * GIB))},
    memory_total=Bytes(64 * GIB),
)
EVICTION = 100 * 2**20


@pytest.mark.parametrize(
    ("text", "cpu", "memory"),
    [
        ("kind: KubeletConfiguration", "16", 62 * GIB - EVICTION),
        (
            "kubeReserved: {cpu: 500m, memory: 1Gi}\nsystemReserved: {cpu: 1, memory: 512Mi}",
            "14500m",
            62 * GIB - 1536 * 2**20 - EVICTION,
        ),
        (
            "kubeReserved: {cpu: 500m}\nsystemReserved: {cpu: '1'}\nreservedSystemCPUs: 0-1",
            "14",
            62 * GIB - EVICTION,
        ),
        ("evictionHard: {}", "16", 62 * GIB),
        ("evictionHard: {memory.available: 1Gi}", "16", 61 * GIB),
        ("evictionHard: {memory.available: 5%}", "16", None),
        ("kubeReserved: {cpu: half, memory: 1Gi}", None, 61 * GIB - EVICTION),
        ("kubeReserved: {cpu: 20, memory: 1Ti}", "0", 0),
    ],
)
def test_what_kubelet_leaves_follows_from_its_configuration(
    text: str, cpu: str | None, memory: int | None
) -> None:
    amounts = parse_config(text.encode()).allocatable(MACHINE)
    assert amounts.get("cpu") == cpu
    stated = amounts.get("memory")
    assert (None if stated is None else Quantity.parse(stated).units) == memory


@pytest.mark.parametrize(
    "text", ["[", "- 1", "kubeReserved: 1", "systemReserved: [a]", "evictionHard: 100Mi"]
)
def test_what_is_no_configuration_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        parse_config(text.encode())


def test_missing_file_leaves_kubelet_reservations_unknown(tmp_path: Path) -> None:
    assert config_file(tmp_path).read() == KubeletConfig()
    assert config_file(tmp_path).read().allocatable(MACHINE) == {}


def test_unreadable_file_keeps_the_known_reservations(tmp_path: Path) -> None:
    path = tmp_path / CONFIG_FILE
    path.parent.mkdir(parents=True)
    path.write_text("reservedSystemCPUs: 0-1")
    file = config_file(tmp_path)
    assert file.read().reserved_cpus == CPUSet.parse("0-1")
    path.write_text("[ broken")
    assert file.read().allocatable(MACHINE)["cpu"] == "14"
