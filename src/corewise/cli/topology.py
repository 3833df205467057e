"""``corewise topology``: what a machine is made of, as a table, a document or a drawing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from corewise.cli import output
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.output import Form, count, gibibytes
from corewise.cli.topology_drawing import drawing
from corewise.cli.topology_table import table
from corewise.compute.machine_file import machine_document
from corewise.kernel.arm_parts import UNKNOWN
from corewise.kernel.machine import MachineReading, read_machine

SVG = "svg"
_FORMS = (*(form.value for form in (Form.TABLE, Form.WIDE, Form.JSON, Form.YAML)), SVG)
_LABEL_WIDTH = 10


@click.command()
@click.option(
    "--root",
    metavar="DIR",
    default="/",
    show_default=True,
    type=click.Path(exists=True, file_okay=False),
    help="Read DIR/proc and DIR/sys: a mounted host, or a recorded tree.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(_FORMS),
    default=Form.TABLE.value,
    show_default=True,
    help="Output form; wide has a line for each core, svg is a drawing.",
)
def command(root: str, form: str) -> None:
    """Show sockets, NUMA nodes, last-level caches, cores and CPUs of this machine, and its CPU facts.

    It needs no cluster and no root. What cannot be read is left out, and named on stderr.
    """
    reading = read_machine(root)
    if not reading.host.topology.threads:
        hint = f"is it the root of a machine? There must be {Path(root, 'sys/devices/system/cpu')}"
        raise Failure(f"no CPU is online below {root}", hint=hint, exit_code=ExitCode.BAD_INPUT)
    click.echo(_rendered(reading, form), nl=False)
    for problem in reading.problems:
        output.say(f"left out: {problem}")
    if reading.host.kinds:
        output.say("The cores are not all alike: one normalization ratio does not fit them all.")


def _rendered(reading: MachineReading, form: str) -> str:
    summary = list(_summary(reading))
    if form == SVG:
        return drawing(reading.host, reading.cpu.model or UNKNOWN, [f"{k}: {v}" for k, v in summary[1:]])
    if form in {Form.JSON, Form.YAML}:
        return output.document_text(_document(reading), Form(form))
    lines = "".join(f"{label + ':':<{_LABEL_WIDTH}}{words}\n" for label, words in summary)
    return lines + "\n" + table(reading.host, Form(form))


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
        of_it = f", of it {gibibytes(hugepages)} GiB in hugepages" if hugepages else ""
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
