"""Where a guest lies, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from corewise.cli import output
from corewise.cli.output import Column, Form, Listing
from corewise.pinning import GuestPins
from corewise.topology import Host


@dataclass(frozen=True, slots=True)
class Pin:
    """One host CPU of a guest. ``use``: "CPU 3", "emulator threads", "kept empty"."""

    use: str
    cpu: int
    node: int | None
    core: int | None
    siblings: str


_COLUMNS: tuple[Column[Pin], ...] = (
    Column("GUEST", lambda pin: pin.use),
    Column("HOST CPU", lambda pin: str(pin.cpu), right=True),
    Column("NUMA", lambda pin: _number(pin.node), right=True),
    Column("CORE", lambda pin: _number(pin.core), right=True),
    Column("CPUS OF CORE", lambda pin: pin.siblings),
)


def pins_table(pins: GuestPins, host: Host) -> str:
    """Return a line for each host CPU that a guest owns; "" if it owns none."""
    rows = list(_rows(pins, host))
    return output.render(Listing(_COLUMNS, rows, (), lambda pin: str(pin.cpu)), Form.TABLE) if rows else ""


def pins_record(pins: GuestPins) -> dict[str, Any]:
    """Return where a guest lies, for programs."""
    return {
        "cells": [
            {
                "hostNode": cell.number,
                "pins": {str(guest): cpu for guest, cpu in sorted(cell.pins.items())},
                "memoryMiB": cell.memory_mb,
            }
            for cell in pins.cells
        ],
        "emulatorCPU": pins.emulator,
        "withheldCPUs": str(pins.withheld),
        "pinnedCPUs": str(pins.cpus),
    }


def pins_text(pins: GuestPins) -> str:
    """Return where a guest lies, in a few words."""
    if not pins.cells:
        return "floats over the shared CPUs of the host"
    nodes = ", ".join(str(cell.number) for cell in pins.cells)
    parts = [f"lies on NUMA node{'s' if len(pins.cells) > 1 else ''} {nodes}"]
    parts += [f"pinned to CPUs {pins.cpus}"] if pins.cpus else []
    parts += [f"emulator threads on CPU {pins.emulator}"] if pins.emulator is not None else []
    parts += [f"CPUs {pins.withheld} kept empty"] if pins.withheld else []
    return ", ".join(parts)


def _rows(pins: GuestPins, host: Host) -> Iterator[Pin]:
    for cell in pins.cells:
        for guest, cpu in sorted(cell.pins.items()):
            yield _pin(f"CPU {guest}", cpu, host)
    if pins.emulator is not None:
        yield _pin("emulator threads", pins.emulator, host)
    for cpu in pins.withheld:
        yield _pin("kept empty", cpu, host)


def _pin(use: str, cpu: int, host: Host) -> Pin:
    thread = next((each for each in host.topology.threads if each.cpu == cpu), None)
    if thread is None:
        return Pin(use, cpu, host.offline.get(cpu), None, "offline")
    return Pin(use, cpu, thread.numa_node, thread.core, str(host.topology.siblings(cpu)))


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
