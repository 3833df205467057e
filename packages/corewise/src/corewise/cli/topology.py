"""``corewise topology``: what a machine is made of, as a table, a document or a drawing.

The table has a line for each last-level cache; the wide one has a line for each core. What belongs to a NUMA
node (memory, offline CPUs) is in the node's first line only, so that a column adds up. NUMA nodes without an
online CPU, and offline CPUs of an unknown node, have lines of their own at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from corewise.cli import output
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.extensions import not_installed, part
from corewise.cli.options import examples
from corewise.cli.output import Form
from corewise.cli.topology_drawing import CachePart, cache_size, drawing, nodes_elsewhere, sockets_of
from corewise.config.machine_file import machine_document
from corewise.kernel.cpu_facts import UNKNOWN, ObservedCPU
from corewise.kernel.machine import MachineReading, read_machine
from corewise.topology import CPUSet, Host, NumaMemory
from corewise.views.tables import Column
from corewise.views.text import count, gibibytes, number

SVG = "svg"
_LABEL_WIDTH = 10


@click.command(epilog=examples("corewise topology", "corewise topology -o svg > machine.svg"))
@click.option(
    "--root",
    envvar="COREWISE_ROOT",
    metavar="DIR",
    default="/",
    show_default=True,
    type=click.Path(exists=True, file_okay=False),
    help="Read DIR/proc and DIR/sys, or below $COREWISE_ROOT: a mounted host, or a recorded tree.",
)
@click.option(
    "--libvirt", metavar="URI", help="Read the machine of this libvirt instead (virsh capabilities)."
)
@output.option(
    (Form.TABLE, Form.WIDE, Form.JSON, Form.YAML, SVG),
    help_text="Output form; wide has a line for each core, svg is a drawing.",
)
def command(root: str, libvirt: str | None, form: str) -> None:
    """Show sockets, NUMA nodes, last-level caches, cores and CPUs of this machine, and its CPU facts.

    It needs no cluster and no root. What cannot be read is left out, and named on stderr.
    """
    if libvirt is not None and root != "/":
        raise click.UsageError("--libvirt and --root exclude each other: both say what the machine is")
    reading = read_machine(root) if libvirt is None else _reading_of(libvirt)
    if not reading.host.topology.threads:
        hint = f"is it the root of a machine? There must be {Path(root, 'sys/devices/system/cpu')}"
        raise Failure(f"no CPU is online below {root}", hint=hint, exit_code=ExitCode.BAD_INPUT)
    click.echo(_rendered(reading, form), nl=False)
    for problem in reading.problems:
        output.say(f"left out: {problem}")
    if reading.host.kinds:
        output.say("The cores are not all alike: one normalization ratio does not fit them all.")


def _reading_of(uri: str) -> MachineReading:
    """Return the machine that a libvirt reports; of the CPU facts it knows hyper-threading only."""
    host_of = part("libvirt-host")
    if host_of is None:
        raise not_installed("--libvirt", "corewise-openstack")
    host: Host = host_of(uri)
    return MachineReading(ObservedCPU(None, None, host.topology.hyper_threading, None, None), host)


def _rendered(reading: MachineReading, form: str) -> str:
    summary = list(_summary(reading))
    if form == SVG:
        return drawing(reading.host, reading.cpu.model or UNKNOWN, [f"{k}: {v}" for k, v in summary[1:]])
    if form in {Form.JSON, Form.YAML}:
        return output.document_text(_document(reading), Form(form))
    lines = "\n".join(f"{label + ':':<{_LABEL_WIDTH}}{words}" for label, words in summary)
    lines = output.Screen.of_stdout().wrapped(lines, " " * _LABEL_WIDTH)
    return f"{lines}\n\n{_table(reading.host, Form(form))}"


def _summary(reading: MachineReading) -> Iterator[tuple[str, str]]:
    host, cpu = reading.host, reading.cpu
    yield "Model", (cpu.model or UNKNOWN) + (f" ({cpu.vendor})" if cpu.vendor else "")
    shape = host.topology
    caches = count(len(host.caches), "last-level cache") if host.caches else "caches unknown"
    parts = [count(len(shape.sockets), "socket"), count(len(host.numa_nodes), "NUMA node"), caches]
    parts += [count(len(shape.cores), "core"), count(len(shape.cpus), "CPU") + " online"]
    yield "Shape", ", ".join(parts)
    if host.offline:
        yield "Offline", str(host.offline_cpus)
    for kind, cpus in host.kinds.items():
        yield "Kind", f"{kind}: CPUs {cpus}"
    mask = f", L3 mask {cpu.l3_mask}" if cpu.l3_mask else ""
    yield "Settings", f"hyper-threading {_switch(cpu.hyper_threading)}, turbo {_switch(cpu.turbo)}{mask}"
    if host.memory_total is not None:
        hugepages = sum(memory.hugepages for memory in host.memory.values())
        of_it = f", {gibibytes(hugepages)} GiB of it in hugepages" if hugepages else ""
        yield "Memory", f"{gibibytes(host.memory_total)} GiB{of_it}"


def _switch(on: bool | None) -> str:
    return "unknown" if on is None else "on" if on else "off"


def _document(reading: MachineReading) -> dict[str, Any]:
    host, cpu = reading.host, reading.cpu
    return {
        "cpuModel": cpu.model,
        "vendorID": cpu.vendor,
        "hyperThreadEnabled": cpu.hyper_threading,
        "turboEnabled": cpu.turbo,
        "catL3CbmMask": cpu.l3_mask or None,
        **machine_document(host),
        "problems": [str(problem) for problem in reading.problems],
    }


_NO_CPUS = CPUSet()


@dataclass(frozen=True, slots=True)
class _Row:
    """One line. None is unknown or does not apply; ``memory`` is set in a node's first line."""

    socket: int | None
    node: int | None
    cache: int | None = None
    size: int | None = None
    core: int | None = None
    cores: int | None = None
    kind: str = ""
    cpus: CPUSet = _NO_CPUS
    offline: CPUSet = _NO_CPUS
    memory: NumaMemory | None = None


def _table(host: Host, form: Form) -> str:
    empty = {"OFFLINE"} if not host.offline else set()
    empty |= {"KIND"} if not host.kinds else set()
    columns = [each for each in _columns(per_core=form is Form.WIDE) if each.title not in empty]
    rows = list(_core_rows(host) if form is Form.WIDE else _cache_rows(host))
    return output.table(columns, rows)


def _columns(*, per_core: bool) -> list[Column[_Row]]:
    place: list[Column[_Row]] = [
        Column("SOCKET", lambda row: number(row.socket), right=True),
        Column("NUMA", lambda row: number(row.node), right=True),
        Column("LLC", lambda row: number(row.cache), right=True),
        Column("SIZE", lambda row: cache_size(row.size) if row.size else "-", right=True, priority=1),
    ]
    cpus: list[Column[_Row]] = [
        Column("CPUS", lambda row: str(row.cpus) or "-", shrink=16),
        Column("KIND", lambda row: row.kind or "-"),
        Column("OFFLINE", lambda row: str(row.offline) or "-", shrink=12),
    ]
    if per_core:
        return [*place, Column("CORE", lambda row: number(row.core), right=True), *cpus]
    return [
        *place,
        Column("CORES", lambda row: number(row.cores), right=True),
        Column("ONLINE", lambda row: str(len(row.cpus)), right=True),
        *cpus,
        Column("MEMORY", lambda row: _gibibytes(row.memory.total if row.memory else None), right=True),
        Column(
            "HUGEPAGES",
            lambda row: _gibibytes(row.memory.hugepages if row.memory else None),
            right=True,
            priority=2,
        ),
    ]


def _gibibytes(amount: int | None) -> str:
    return "-" if amount is None else f"{gibibytes(amount)} GiB"


def _cache_rows(host: Host) -> Iterator[_Row]:
    for place, cache, first in _places(host):
        node = place[1]
        yield _Row(
            *place,
            cores=len(cache.cores),
            kind=", ".join(dict.fromkeys(core.kind for core in cache.cores)),
            cpus=cache.cpus,
            offline=host.offline_of(node) if first else _NO_CPUS,
            memory=host.memory.get(node) if first else None,
        )
    yield from _without_cpus(host)


def _core_rows(host: Host) -> Iterator[_Row]:
    for place, cache, first in _places(host):
        offline = host.offline_of(place[1]) if first else _NO_CPUS
        for core in cache.cores:
            yield _Row(*place, core=core.number, kind=core.kind, cpus=core.cpus, offline=offline)
            offline = _NO_CPUS
    yield from _without_cpus(host)


def _places(host: Host) -> Iterator[tuple[tuple[int, int, int | None, int | None], CachePart, bool]]:
    """Yield each cache after its socket, NUMA node, number and size; True for the first of its NUMA node."""
    for socket in sockets_of(host):
        for node in socket.nodes:
            for index, cache in enumerate(node.caches):
                known = host.caches.get(cache.number)
                number, size = (cache.number, known.size) if known else (None, None)
                yield (socket.number, node.number, number, size), cache, node.first and index == 0


def _without_cpus(host: Host) -> Iterator[_Row]:
    for node in nodes_elsewhere(host):
        yield _Row(None, node, cores=0, offline=host.offline_of(node), memory=host.memory.get(node))
    if nowhere := host.offline_of(None):
        yield _Row(None, None, offline=nowhere)
