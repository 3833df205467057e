"""Reads the machine as it booted, with CPUs offline, with SMT switched off, and as it was again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corewise.kernel.machine import MachineReading, read_machine
from node.guest.records import Report, Shape

CPUS = Path("/sys/devices/system/cpu")
SMT = CPUS / "smt/control"
UNSUPPORTED = {"notsupported", "notimplemented"}


def bring_up() -> None:
    """Have every CPU online: the kernel has begun with one of them."""
    for file in sorted(CPUS.glob("cpu[0-9]*/online")):
        if file.read_text().strip() == "0":
            file.write_text("1")


def observe(report: Report) -> None:
    """Tell the shapes of this machine."""
    report.add("hardware/as booted", shape(read_machine()))
    last = max(read_machine().host.topology.cpus)
    with switched(CPUS / f"cpu{last}/online", "0", back="1"):
        report.add("hardware/last CPU offline", shape(read_machine()))
    with_smt = SMT.read_text().strip() not in UNSUPPORTED
    report.add("hardware/SMT can be switched", with_smt)
    if with_smt:
        with switched(SMT, "off", back="on"):
            report.add("hardware/SMT off", shape(read_machine()))
    report.add("hardware/as before", shape(read_machine()))


@contextmanager
def switched(file: Path, to: str, *, back: str) -> Iterator[None]:
    """Write to a file of sysfs, and write something else at the end."""
    file.write_text(to)
    try:
        yield
    finally:
        file.write_text(back)


def shape(reading: MachineReading) -> Shape:
    """Return a reading as a record."""
    host, facts = reading.host, reading.cpu.facts
    topology = host.topology
    return Shape(
        model=facts.model,
        vendor=facts.vendor,
        hyper_threading=facts.hyper_threading,
        turbo=facts.turbo,
        offline=str(host.offline_cpus),
        cores=[str(cpus) for cpus in topology.cores.values()],
        sockets={socket: str(cpus) for socket, cpus in topology.sockets.items()},
        caches={cache: str(cpus) for cache, cpus in topology.caches.items()},
        numa_nodes={node: str(cpus) for node, cpus in host.numa_nodes.items()},
        memory={node: memory.total for node, memory in host.memory.items()},
        memory_total=host.memory_total or 0,
        problems=[str(problem) for problem in reading.problems],
        threads=sorted((each.cpu, each.core, each.socket, each.numa_node) for each in topology.threads),
        lscpu=lscpu(),
    )


def lscpu() -> list[tuple[int, int, int, int]]:
    """Return the CPUs online as util-linux sees them."""
    command = ["lscpu", "--parse=CPU,CORE,SOCKET,NODE"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split(",") for line in text.splitlines() if not line.startswith("#")]
    return sorted((int(cpu), int(core), int(socket), int(node or 0)) for cpu, core, socket, node in rows)
