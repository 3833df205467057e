"""``corewise compute status``: who holds which CPU of a host, as a table, a document or a drawing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import click

from corewise.cli import output
from corewise.cli.errors import ExitCode
from corewise.cli.options import examples
from corewise.cli.output import Form, say
from corewise.cli.topology_drawing import drawing
from corewise.topology import CPUSet
from corewise.views.tables import Column
from corewise.views.text import count, number, some
from corewise.vocabulary.reasons import Reason
from corewise_openstack.cli.options import GivenHosts, given_hosts
from corewise_openstack.compute.hosts import ComputeHost, CPUUse, UseKind, conflicts_of, cpu_uses
from corewise_openstack.compute.ledger import GuestState
from corewise_openstack.guest_pinning.ledger import GuestLedger, HostCell, cpus_of

SVG = "svg"


@dataclass(frozen=True, slots=True)
class UseRow:
    """CPUs of one host and NUMA node with the same use."""

    host: str
    node: int | None
    use: str
    cpus: CPUSet
    holder: str
    guest_cpus: str


_COLUMNS: tuple[Column[UseRow], ...] = (
    Column("HOST", lambda row: row.host),
    Column("NUMA", lambda row: number(row.node), right=True, priority=1),
    Column("CPUS", lambda row: str(row.cpus), shrink=12),
    Column("NUMBER", lambda row: str(len(row.cpus)), right=True, priority=3),
    Column("USE", lambda row: row.use),
    Column("GUEST", lambda row: row.holder or "-", shrink=12),
    Column("GUEST CPUS", lambda row: row.guest_cpus or "-", priority=2, shrink=12),
)


@click.command(
    epilog=examples(
        "corewise compute status --hosts cloud/hosts",
        "corewise compute status --hosts cloud/hosts --host combined -o svg > host.svg",
    )
)
@given_hosts
@output.option(
    (Form.TABLE, Form.WIDE, Form.JSON, Form.YAML, SVG),
    help_text="Output form; wide has a line for each CPU, svg is a drawing of one host.",
)
def command(given: GivenHosts, form: str) -> None:
    """Show who holds which CPU: dedicated CPUs and their guests, shared ones, and those left to the host.

    Placement is not asked: only the ledgers know about single CPUs. Exit code 1 if two guests own one CPU.

    json and yaml describe each NUMA node in the fields of Nova's NUMACell: cpuset is its shared CPUs, pcpuset
    its dedicated ones, pinned_cpus those that guests hold, cpu_usage how many guest CPUs share its cpuset;
    memory is in MiB.
    """
    if form == SVG:
        click.echo(_drawn(given.host()), nl=False)
        return
    hosts = [given.host()] if not given.are_many or given.name else list(given.hosts().known.values())
    if form in {Form.JSON, Form.YAML}:
        document = {"hosts": [status_record(host) for host in hosts]}
        click.echo(output.document_text(document, Form(form)), nl=False)
    else:
        click.echo(status_table(hosts, wide=form == Form.WIDE), nl=False)
    for host in hosts:
        _warn(host, given)
    if any(conflicts_of(host.guests()) for host in hosts):
        raise click.exceptions.Exit(ExitCode.VERDICT)


def status_table(hosts: list[ComputeHost], *, wide: bool = False) -> str:
    """Return a table of hosts' CPUs and their users: a line for CPUs with the same use, or for each."""
    rows = [row for host in hosts for row in _rows(host, wide=wide)]
    return output.table(_COLUMNS, rows)


def _rows(host: ComputeHost, *, wide: bool) -> Iterator[UseRow]:
    groups: dict[tuple[Any, ...], list[CPUUse]] = {}
    for each in cpu_uses(host):
        key = (each.node, each.use, each.guest, each.cpu if wide else None)
        groups.setdefault(key, []).append(each)
    for (node, use, guest, _), members in groups.items():
        guest_cpus = CPUSet.of(each.guest_cpu for each in members if each.guest_cpu is not None)
        cpus = CPUSet.of(each.cpu for each in members)
        yield UseRow(host.name, node, use.value, cpus, guest, str(guest_cpus))


def status_record(host: ComputeHost) -> dict[str, Any]:
    """Return the CPUs of a host and their users, for programs."""
    guests = host.guests()
    ledger = host.ledger_with(guests)
    return {
        "host": host.name,
        "legacy": host.settings.legacy,
        "cells": [_cell_record(cell, ledger) for cell in host.cells],
        "cpus": [
            {
                "cpu": each.cpu,
                "numaNode": each.node,
                "use": each.use.value,
                "guest": each.guest or None,
                "guestCPU": each.guest_cpu,
            }
            for each in cpu_uses(host)
        ],
        "conflicts": [
            {"guest": each.owner, "cpus": str(each.cpus), "heldBy": each.holder}
            for each in conflicts_of(guests)
        ],
        "guests": [
            {
                "guest": uuid,
                "flavor": guest.flavor,
                "state": guest.state,
                "vcpus": guest.vcpus,
                "cpuPolicy": guest.cpu_policy,
                "threadPolicy": guest.thread_policy,
                "pinnedCPUs": str(guest.pins.cpus),
                "heldCPUs": str(guest.pins.held),
                "resources": dict(guest.resources),
            }
            for uuid, guest in guests.items()
        ],
    }


def _cell_record(cell: HostCell, ledger: GuestLedger) -> dict[str, Any]:
    """Return a NUMA node of a host in the fields of Nova's NUMACell."""
    given = cell.shared | cell.dedicated
    cores = [core & given for core in cell.cores if not core.isdisjoint(given)]
    present = CPUSet.of(cpu for core in cell.cores for cpu in core)
    return {
        "id": cell.number,
        "cpuset": str(cell.shared),
        "pcpuset": str(cell.dedicated),
        "memory": cell.memory_mb,
        "cpu_usage": ledger.floating[cell.number],
        "memory_usage": ledger.memory_used[cell.number],
        "pinned_cpus": str(present & CPUSet.of(cpus_of(ledger.taken))),
        "siblings": [str(core) for core in cores],
    }


def _drawn(host: ComputeHost) -> str:
    uses = tuple(cpu_uses(host))
    # Every use is named, so that each has its color in every drawing.
    kinds = {use.value: CPUSet.of(each.cpu for each in uses if each.use is use) for use in UseKind}
    drawn = replace(host.machine, kinds=MappingProxyType(kinds))
    guests = {each.cpu: each.guest for each in uses if each.guest}
    used = sum(len(guest.pins.held) for guest in host.guests().values())
    lines = [
        f"dedicated CPUs {host.settings.dedicated or 'none'}, shared CPUs {host.settings.shared or 'none'}",
        f"{count(len(host.guests()), 'guest')}, {count(used, 'CPU')} held",
    ]
    return drawing(drawn, f"Host {host.name}: who holds which CPU", lines, guests)


def _warn(host: ComputeHost, given: GivenHosts) -> None:
    guests = host.guests()
    checked = given.checked_with_guests(host, [guest.hosted(uuid) for uuid, guest in guests.items()])
    for problem in (*checked.errors, *checked.warnings):
        say(f"warning: host {host.name}: {problem.reason}: {problem}")
    floating = [uuid for uuid, guest in guests.items() if not guest.pins.held]
    if floating:
        say(f"host {host.name}: {count(len(floating), 'guest')} more, on shared CPUs")
    unsettled = [uuid for uuid, guest in guests.items() if guest.state is GuestState.CLAIMING]
    if unsettled:
        say(f"host {host.name}: being claimed, or left by a scheduler that died: {some(unsettled)}")
    for conflict in conflicts_of(guests):
        say(f"warning: host {host.name}: {Reason.CPUS_PROMISED_TWICE}: {conflict.message}")
