"""``corewise compute apply``: the ledger's CPUs in the domains of guests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corewise.cli import output
from corewise.cli.files import FILE
from corewise.cli.options import examples
from corewise.cli.output import Form, say
from corewise.views.tables import Column
from corewise.views.text import count
from corewise_openstack.cli.options import GivenHosts, given_hosts, guest_names, text_of
from corewise_openstack.compute.errors import DomainChanged, FileUnusable, GuestUnknown
from corewise_openstack.compute.hosts import ComputeHost, Hosts, tuning_of
from corewise_openstack.compute.ledger import LedgerFile
from corewise_openstack.openstack.libvirt_xml import tuned, uuid_of

if TYPE_CHECKING:
    from corewise_openstack.compute.applying import ApplyJournal, DomainExecutor
    from corewise_openstack.openstack.libvirt import Libvirt
    from corewise_openstack.openstack.libvirt_pins import DomainChange

_Row = tuple[str, "DomainChange"]

_COLUMNS: tuple[Column[_Row], ...] = (
    Column("GUEST", lambda row: row[0], shrink=12),
    Column("OF", lambda row: row[1].kind.value),
    Column("SETTING", lambda row: row[1].setting),
    Column("BEFORE", lambda row: row[1].before or "-", shrink=14),
    Column("AFTER", lambda row: row[1].after or "-", shrink=14),
)


@click.command(
    epilog=examples(
        "corewise compute apply GUEST --hosts cloud/hosts --libvirt qemu:///system",
        "corewise compute apply GUEST --hosts cloud/hosts --libvirt qemu:///system --write",
        "virsh dumpxml --inactive --security-info GUEST > d.xml",
        "corewise compute apply GUEST --hosts cloud/hosts --domain d.xml > new.xml",
        "virsh define new.xml",
    )
)
@click.argument("guests", metavar="GUEST...", nargs=-1, required=True, shell_complete=guest_names)
@given_hosts
@click.option("--libvirt", metavar="URI", help="The libvirt that runs the guests.")
@click.option("--write", is_flag=True, help="Write the CPUs.  [default: print what would change]")
@click.option("--undo", is_flag=True, help="Restore what the domains had before corewise wrote them.")
@click.option("--dry-run", is_flag=True, help="With --undo: print what it would restore.")
@click.option(
    "--domain",
    type=FILE,
    metavar="FILE",
    help="Without libvirt: print this domain (virsh dumpxml --inactive --security-info GUEST) with the "
    "CPUs; - is stdin.",
)
@output.option((Form.TABLE, Form.JSON, Form.YAML))
def command(
    guests: tuple[str, ...],
    given: GivenHosts,
    libvirt: str | None,
    write: bool,
    undo: bool,
    dry_run: bool,
    domain: Path | None,
    form: Form,
) -> None:
    """Write the CPUs that the ledger has for each GUEST into its domain, running or not.

    These are <vcpupin>, <emulatorpin>, <iothreadpin>, <vcpusched> and <numatune>. A running guest gets what
    libvirt can change while it runs, and all of it from its next start. Without --write, nothing changes.

    What is written is first recorded in applied.json beside the ledger, with what was there before; --undo
    restores that, except settings that were changed by others since (exit code 6). Exit code 4 if no
    ledger or no libvirt has the guest.
    """
    if (libvirt is None) == (domain is None):
        raise click.UsageError("say where the domain is: --libvirt URI, or --domain FILE")
    if domain is not None and (write or undo or form is not Form.TABLE or len(guests) > 1):
        raise click.UsageError("--domain prints one domain: not with --write, --undo, -o or several guests")
    if (write and undo) or (dry_run and not undo):
        raise click.UsageError("--write and --undo exclude each other; --dry-run goes with --undo")
    hosts = given.hosts()
    if domain is not None:
        click.echo(_printed(hosts, guests[0], domain))
        return
    from corewise_openstack.compute.applying import DRY, WRITING  # noqa: PLC0415 - few need it
    from corewise_openstack.openstack.libvirt import connected  # noqa: PLC0415 - slow to import

    executor = WRITING if write or (undo and not dry_run) else DRY
    with connected(libvirt or "") as connection:
        carry_out = _undo if undo else _apply
        carry_out(connection, hosts, guests, form, executor)


def _host_of(hosts: Hosts, guest: str) -> ComputeHost:
    host = hosts.having(guest)
    if host is None:
        hosts.raise_unusable()
        raise GuestUnknown(f"no ledger has a guest {guest}")
    host.refuse_cpus_of_nova()
    return host


def _written_host_of(hosts: Hosts, guest: str) -> ComputeHost:
    """Return the host of a guest, or the one whose journal still has it: it was deleted."""
    if hosts.having(guest) is None:
        for host in hosts.known.values():
            if isinstance(host.ledger, LedgerFile) and guest in _journal(host).read():
                host.refuse_cpus_of_nova()
                return host
    return _host_of(hosts, guest)


def _journal(host: ComputeHost) -> ApplyJournal:
    from corewise_openstack.compute.applying import journal_of  # noqa: PLC0415 - few need it

    if not isinstance(host.ledger, LedgerFile):
        raise click.UsageError("say which ledger: --hosts DIR or --ledger FILE")
    return journal_of(host.ledger.path)


def _printed(hosts: Hosts, guest: str, domain: Path) -> str:
    host = _host_of(hosts, guest)
    text = text_of(domain)
    named = uuid_of(text)
    if named != guest:
        raise FileUnusable(f"{domain} is the domain of guest {named}, not of {guest}")
    record = host.guests()[guest]
    return tuned(text, tuning_of(record.cpus, record.pins, host))


def _apply(
    libvirt: Libvirt, hosts: Hosts, guests: Sequence[str], form: Form, executor: DomainExecutor
) -> None:
    done = []
    for guest in guests:
        host = _host_of(hosts, guest)
        journal = _journal(host)
        each = executor.apply(libvirt, host, guest, journal)
        done.append(each)
        for note in each.notes:
            say(f"guest {guest}: {note}")
        if not executor.writes and guest in journal.unfinished():
            say(f"guest {guest}: an earlier write was interrupted; --write finishes it, --undo reverts it")
    if form is Form.TABLE:
        _print((each.guest, change) for each in done for change in each.changes)
        number = count(sum(len(each.changes) for each in done), "setting")
        say(f"{number} written" if executor.writes else f"{number} would be written; --write writes them")
    else:
        records = [
            {"guest": each.guest, "changes": _records(each.changes), "notes": list(each.notes)}
            for each in done
        ]
        click.echo(output.document_text({"written": executor.writes, "guests": records}, form), nl=False)


def _undo(
    libvirt: Libvirt, hosts: Hosts, guests: Sequence[str], form: Form, executor: DomainExecutor
) -> None:
    done = []
    for guest in guests:
        host = _written_host_of(hosts, guest)
        done.append(executor.undo(libvirt, host, guest, _journal(host)))
    since = [(each.guest, change) for each in done for change in each.changed_since]
    if form is Form.TABLE:
        _print((each.guest, change) for each in done for change in each.restored)
        number = count(sum(len(each.restored) for each in done), "setting")
        say(f"{number} restored" if executor.writes else f"{number} would be restored")
    else:
        records = [
            {
                "guest": each.guest,
                "changes": _records(each.restored),
                "changedSince": _records(each.changed_since),
            }
            for each in done
        ]
        click.echo(output.document_text({"written": executor.writes, "guests": records}, form), nl=False)
    for guest, change in since:
        now, was = change.before or "none", change.after or "none"
        say(f"guest {guest}: {change.setting} ({change.kind}) was set by others to {now}: kept; it was {was}")
    if since:
        raise DomainChanged(f"{count(len(since), 'setting')} left as others have set them")


def _print(rows: Iterable[_Row]) -> None:
    every = list(rows)
    if every:
        click.echo(output.table(_COLUMNS, every), nl=False)


def _records(changes: Iterable[DomainChange]) -> list[dict[str, Any]]:
    return [
        {"of": each.kind.value, "setting": each.setting, "before": each.before, "after": each.after}
        for each in changes
    ]
