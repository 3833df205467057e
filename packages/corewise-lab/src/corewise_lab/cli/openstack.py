"""``corewise up --scenario openstack``: hosts, guests and an upgrade on the real Placement."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corewise.cli import output
from corewise.cli.errors import Failure
from corewise.cli.files import make_folder
from corewise.cli.output import Form, say
from corewise.service.program import on_stop_signals
from corewise.views.tables import Column
from corewise_lab.cli.folders import clear, locked, temporary_folder
from corewise_openstack.cli.guests import pins_record, pins_text
from corewise_openstack.cli.inventory import ratio_text
from corewise_openstack.cli.reshape import held_table
from corewise_openstack.cli.status import status_record, status_table
from corewise_openstack.compute.verdicts import NoValidHost
from corewise_openstack.vocabulary.placement import PCPU, VCPU, Inventory

if TYPE_CHECKING:
    from corewise_lab.openstack import CloudReport, GuestReport, HostReport, UpgradeReport
    from corewise_lab.owned_host import OwnerReport

NAME = "openstack"


def _where(row: GuestReport) -> str:
    if isinstance(row.outcome, NoValidHost):
        return "no valid host"
    how = " (by the fallback, as VCPU)" if row.outcome.by_fallback else ""
    return pins_text(row.outcome.record.pins) + how


_HOSTS: tuple[Column[HostReport], ...] = (
    Column("HOST", lambda row: row.name),
    Column("HYPERTHREADS", lambda row: "yes" if row.hyper_threading else "no"),
    Column("VCPU", lambda row: _offer(row.inventories.get(VCPU)), right=True),
    Column("PCPU", lambda row: _offer(row.inventories.get(PCPU)), right=True),
)
_GUESTS: tuple[Column[GuestReport], ...] = (
    Column("GUEST", lambda row: str(row.guest.number), right=True),
    Column("FLAVOR", lambda row: row.guest.flavor.name),
    Column("ASKS BY", lambda row: row.guest.form, priority=1),
    Column("HOST", lambda row: "-" if isinstance(row.outcome, NoValidHost) else row.outcome.host),
    Column("CPUS", _where, shrink=48),
)


def run_scenario(state: Path | None, duration: float | None, form: Form) -> None:
    """Run the cloud, print what happened, and keep its Placement served until the time is over.

    A cloud that ``state`` has already goes on as it is.

    Raises:
        Failure: if it cannot be run here.
    """
    with _folder(state) as folder:
        from corewise_lab.openstack import (  # noqa: PLC0415 - slow to import
            FLAVOR_FILE,
            HOSTS,
            MACHINES,
            is_complete,
            kept,
            run,
        )
        from corewise_openstack.openstack.embedded import in_process_client, served, start  # noqa: PLC0415

        goes_on = is_complete(folder)
        for found in (folder / HOSTS, folder / MACHINES):
            if not goes_on and found.exists():
                hint = "name another directory, or remove this one"
                raise Failure(f"{found} is not of a cloud that an earlier run completed", hint=hint)
        placement = start(None if state is None else folder / "placement.sqlite")
        report = (kept if goes_on else run)(folder, in_process_client(placement))
        if goes_on:
            say(f"{folder} has a cloud already, which goes on as it is; for a new one, first: rm -r {folder}")
        click.echo(_rendered(report, form), nl=False)
        if report.upgrade is not None and report.owner is None and form is Form.TABLE:
            say(
                "left out: a host with libvirt's domains; "
                "it needs the extra libvirt (docs/guides/placement.md)"
            )
        with served(placement) as endpoint:
            say(f"Placement: {endpoint}, hosts: {report.folder}. Try, in another terminal:")
            say(f"  corewise compute status --hosts {report.folder}")
            say(
                f"  corewise compute schedule --flavor {folder / FLAVOR_FILE} --hosts {report.folder} "
                f"--placement-url {endpoint}"
            )
            asyncio.run(_wait(duration))


@contextlib.contextmanager
def _folder(state: Path | None) -> Iterator[Path]:
    if state is None:
        path = temporary_folder()
        try:
            yield path
        finally:
            clear(path)
        return
    make_folder(state)
    with locked(state):
        yield state.absolute()


async def _wait(duration: float | None) -> None:
    stopped = asyncio.Event()
    on_stop_signals(stopped.set, hangup=True)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stopped.wait(), duration)


def _rendered(report: CloudReport, form: Form) -> str:
    if form is not Form.TABLE:
        return output.document_text(_document(report), form)
    parts = [
        "What the hosts offer\n",
        output.table(_HOSTS, report.hosts),
        "" if report.upgrade is None else _story(report, report.upgrade),
        "\nWho holds which CPU\n",
        status_table(list(report.before)),
        "" if report.owner is None else _owner_text(report.owner),
    ]
    return "".join(parts)


def _story(report: CloudReport, upgrade: UpgradeReport) -> str:
    refused = [each.outcome.message for each in report.guests if isinstance(each.outcome, NoValidHost)]
    parts = [
        "\nWhere the guests went\n",
        output.table(_GUESTS, report.guests),
        "".join(f"NoValidHost: {message}\n" for message in refused),
        f"\nHost old is upgraded: {upgrade.moved} pinned guests moved, in one request\n",
        held_table(upgrade.before, upgrade.after),
        f"A second pass of its agent wrote {upgrade.writes_of_second_pass or 'nothing'}.\n",
    ]
    return "".join(parts)


def _owner_text(owner: OwnerReport) -> str:
    lines = [
        f"\nHost {owner.host} has the domains of libvirt's test driver; corewise owns its CPUs",
        *(f"guest {owner.guest}: {each.reason}: {each.message}" for each in owner.changes),
        f"libvirt had the pins {_pins(owner.pins)}; the ledger had {_pins(owner.chosen)}",
        f"Placement had {owner.held} PCPU of the guest, and then {owner.left}\n",
    ]
    return output.Screen.of_stdout().wrapped("\n".join(lines), "  ")


def _pins(pins: Mapping[int, int]) -> str:
    return ", ".join(f"{vcpu} on {cpu}" for vcpu, cpu in sorted(pins.items()))


def _offer(inventory: Inventory | None) -> str:
    return "-" if inventory is None else f"{inventory.total} x {ratio_text(inventory)}"


def _document(report: CloudReport) -> dict[str, Any]:
    return {
        "hosts": [
            {
                "host": each.name,
                "hyperThreading": each.hyper_threading,
                **{name: _amounts(each.inventories.get(name)) for name in (VCPU, PCPU)},
            }
            for each in report.hosts
        ],
        "guests": [_guest_record(each) for each in report.guests],
        "upgrade": None if report.upgrade is None else _upgrade_record(report.upgrade),
        "cpus": [status_record(host) for host in report.before],
        "owner": _owner_record(report.owner),
    }


def _upgrade_record(upgrade: UpgradeReport) -> dict[str, Any]:
    return {
        "host": "old",
        "novaConf": upgrade.nova_conf,
        "before": {name: list(each) for name, each in upgrade.before.items()},
        "after": {name: list(each) for name, each in upgrade.after.items()},
        "guestsMoved": upgrade.moved,
        "writesOfSecondPass": upgrade.writes_of_second_pass,
    }


def _owner_record(owner: OwnerReport | None) -> dict[str, Any] | None:
    if owner is None:
        return None
    return {
        "host": owner.host,
        "guest": owner.guest,
        "chosen": {str(vcpu): cpu for vcpu, cpu in sorted(owner.chosen.items())},
        "pins": {str(vcpu): cpu for vcpu, cpu in sorted(owner.pins.items())},
        "heldPCPU": owner.held,
        "leftPCPU": owner.left,
        "changes": [{"reason": each.reason, "message": each.message} for each in owner.changes],
    }


def _amounts(inventory: Inventory | None) -> dict[str, Any] | None:
    if inventory is None:
        return None
    return {"total": inventory.total, "allocationRatio": float(inventory.allocation_ratio)}


def _guest_record(row: GuestReport) -> dict[str, Any]:
    known = {"guest": row.guest.number, "flavor": row.guest.flavor.name, "query": row.query}
    if isinstance(row.outcome, NoValidHost):
        return {**known, "host": None, "message": row.outcome.message}
    placed = row.outcome
    return {**known, "host": placed.host, "byFallback": placed.by_fallback, **pins_record(placed.record.pins)}
