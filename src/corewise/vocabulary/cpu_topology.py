"""How a node's CPUs are arranged: the NodeResourceTopology annotation cpu-topology, as Koordinator has it.

``{"detail": [{"id": 0, "core": 0, "socket": 0, "node": 0}, ...]}``: one entry for each CPU
that is online. Cores may be numbered within their socket. Caches are not in it: the CPUs of a NUMA node
count as sharing one.
"""

from __future__ import annotations

import msgspec

from corewise.topology import LARGEST_CPU, Thread, Topology
from corewise.vocabulary.errors import UNREADABLE


class _CPU(msgspec.Struct):
    id: int
    core: int
    socket: int
    node: int


class _Topology(msgspec.Struct):
    detail: list[_CPU] = []


_DECODER = msgspec.json.Decoder(_Topology)


def parse_cpu_topology(text: str) -> Topology | str:
    """Read the annotation; a text that cannot be used gives what is wrong with it."""
    try:
        cpus = _DECODER.decode(text).detail
    except UNREADABLE as error:
        return str(error)
    if not cpus:
        return "it states no CPUs"
    wrong = [cpu for cpu in cpus if min(cpu.id, cpu.core, cpu.socket, cpu.node) < 0 or cpu.id > LARGEST_CPU]
    if wrong:
        return f"CPU {wrong[0].id} cannot be: numbers are 0 to {LARGEST_CPU}"
    numbers: dict[tuple[int, int], int] = {}
    threads = tuple(
        Thread(
            cpu.id, numbers.setdefault((cpu.socket, cpu.core), len(numbers)), cpu.node, cpu.node, cpu.socket
        )
        for cpu in sorted(cpus, key=lambda each: each.id)
    )
    try:
        return Topology(threads)
    except ValueError as error:
        return str(error)


def print_cpu_topology(topology: Topology) -> str:
    """Write the annotation."""
    cpus = [_CPU(each.cpu, each.core, each.socket, each.numa_node) for each in topology.threads]
    return msgspec.json.encode(_Topology(cpus)).decode()
