"""``corewise compute reshape``: the upgrade of a legacy host, shown or done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corewise.cli import output
from corewise.cli.files import FILE
from corewise.cli.options import examples
from corewise.cli.output import Form, say
from corewise.views.tables import Column
from corewise.views.text import count
from corewise_openstack.cli.inventory import inventory_records
from corewise_openstack.cli.options import (
    GivenHosts,
    PlacementChoice,
    given_hosts,
    placement_options,
    provider_of,
    text_of,
    usable,
)
from corewise_openstack.compute.beside_nova import refuse_provider_of_nova
from corewise_openstack.compute.guest_files import parse_guests, parse_provider
from corewise_openstack.compute.hosts import ComputeHost
from corewise_openstack.compute.offering import DryReporter, Offering
from corewise_openstack.tracking import GuestMove, HostedGuest, ReshapePlan
from corewise_openstack.vocabulary.placement import PCPU, VCPU, Inventory, ProviderUse

if TYPE_CHECKING:
    from corewise_openstack.compute.placement import Reporter
    from corewise_openstack.openstack.placement_client import PlacementClient

ClassUses = Mapping[str, tuple[int, int]]
"""Resource class -> the provider's total, and how much of it is held."""

_MOVES: tuple[Column[GuestMove], ...] = (
    Column("GUEST", lambda move: move.guest.label),
    Column("PINNED TO", lambda move: str(move.guest.pinned), shrink=12),
    Column("THREADS", lambda move: move.guest.thread_policy or "-", priority=1),
    Column("HOLDS", lambda move: _amounts(move.before)),
    Column("WILL HOLD", lambda move: _amounts(move.after)),
)


@click.command(epilog=examples("corewise compute reshape --hosts cloud/hosts --host old --dry-run"))
@given_hosts
@click.option("--guests", type=FILE, metavar="FILE", help="The host's guests, instead of those of --ledger.")
@click.option("--libvirt", metavar="URI", help="The host's guests are those of this libvirt.")
@click.option(
    "--provider", "provider_file", type=FILE, metavar="FILE", help="The provider, instead of a Placement's."
)
@placement_options
@click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
@output.option((Form.TABLE, Form.JSON, Form.YAML))
def command(
    given: GivenHosts,
    guests: Path | None,
    libvirt: str | None,
    provider_file: Path | None,
    placement: PlacementChoice,
    dry_run: bool,
    form: Form,
) -> None:
    """Upgrade a host whose pinned guests hold VCPU: from now on they hold PCPU.

    Set [compute] cpu_dedicated_set first. Inventories and allocations change in one request, or nothing does;
    a second run changes nothing. The host agent does the same by itself. Where nova-compute runs, it upgrades
    the host itself: then only --dry-run works.

    With --provider, what Placement answers about inventories and allocations is read from a file, and nothing
    is written anywhere.
    """
    if placement.is_given == (provider_file is not None):
        raise click.UsageError("say who has the provider: a Placement, or a file (--provider)")
    if guests is not None and libvirt is not None:
        raise click.UsageError("--guests and --libvirt exclude each other: both say which guests there are")
    host = given.host(placement)
    hosted = _guests(host, guests, libvirt)
    usable(given.checked_with_guests(host, hosted))
    offering = Offering(host.name, host.machine, host.settings, hosted)
    reporter: Reporter | DryReporter = DryReporter(None, given.compat)
    if provider_file is not None:
        use = parse_provider(text_of(provider_file), host.name, str(provider_file))
    else:
        client = placement.client(given.conf)
        use = _use(client, host, dry_run=dry_run)
        if not dry_run:
            from corewise_openstack.compute.placement import Reporter  # noqa: PLC0415 - slow to import

            reporter = Reporter(client, given.compat, host.ledger)
    plan = reporter.reshape(offering, use)
    click.echo(_rendered(host, use, plan, form, written=reporter.writes), nl=False)
    for warning in plan.warnings if plan else ():
        say(f"warning: {warning.reason}: {warning.message}")


def _guests(host: ComputeHost, file: Path | None, libvirt: str | None) -> tuple[HostedGuest, ...]:
    if file is not None:
        return parse_guests(text_of(file), str(file))
    if libvirt is not None:
        from corewise_openstack.compute.adoption import guests_of  # noqa: PLC0415 - few need it

        return guests_of(libvirt, host.machine, host.settings)
    return tuple(record.hosted(uuid) for uuid, record in host.guests().items())


def _use(client: PlacementClient, host: ComputeHost, *, dry_run: bool) -> ProviderUse:
    """Return the host's provider; a dry run also shows the upgrade of a host that is known to be Nova's."""
    if not dry_run:
        host.refuse_cpus_of_nova()
    provider = provider_of(client, host.name)
    if not dry_run or host.nova_cpus is None:
        refuse_provider_of_nova(host.name, provider.traits)
    return client.use(provider.uuid)


def _rendered(
    host: ComputeHost, use: ProviderUse, plan: ReshapePlan | None, form: Form, *, written: bool
) -> str:
    if form is not Form.TABLE:
        return output.document_text(reshape_record(host, use, plan, written=written), form)
    if plan is None:
        return f"host {host.name}: nothing to move\n"
    totals = held_table(*_held(use, plan))
    moves = output.table(_MOVES, plan.moves)
    verb = "moved" if written else "would move"
    return f"host {host.name}: {count(len(plan.moves), 'guest')} {verb}\n\n{totals}\n{moves}"


def held_table(before: ClassUses, after: ClassUses) -> str:
    """Return a table of a provider's VCPU and PCPU before and after a reshape."""

    def amount(held: ClassUses, place: int) -> Callable[[str], str]:
        return lambda name: str(held[name][place]) if name in held else "-"

    columns: tuple[Column[str], ...] = (
        Column("CLASS", str),
        Column("TOTAL BEFORE", amount(before, 0), right=True),
        Column("HELD BEFORE", amount(before, 1), right=True),
        Column("TOTAL AFTER", amount(after, 0), right=True),
        Column("HELD AFTER", amount(after, 1), right=True),
    )
    return output.table(columns, (VCPU, PCPU))


def _held(use: ProviderUse, plan: ReshapePlan) -> tuple[ClassUses, ClassUses]:
    before: Counter[str] = Counter()
    for consumer in use.consumers:
        before.update(consumer.allocations.get(use.provider.uuid, {}))
    after = Counter(before)
    for move in plan.moves:
        after.subtract(move.before)
        after.update(move.after)

    def totals(inventories: Mapping[str, Inventory], held: Counter[str]) -> ClassUses:
        return {
            name: (inventories[name].total if name in inventories else 0, held[name]) for name in (VCPU, PCPU)
        }

    return totals(plan.before, before), totals(plan.after, after)


def reshape_record(
    host: ComputeHost, use: ProviderUse, plan: ReshapePlan | None, *, written: bool
) -> dict[str, Any]:
    """Return the moves of an upgrade, planned or done, for programs."""
    before = use.provider.inventories if plan is None else plan.before
    after = before if plan is None else plan.after
    moves = () if plan is None else plan.moves
    return {
        "host": host.name,
        "written": plan is not None and written,
        "before": {"inventories": inventory_records(before)},
        "after": {"inventories": inventory_records(after)},
        "guests": [
            {"guest": move.guest.uuid, "before": dict(move.before), "after": dict(move.after)}
            for move in moves
        ],
        "warnings": [
            {"reason": each.reason, "message": each.message} for each in (plan.warnings if plan else ())
        ],
    }


def _amounts(held: Mapping[str, int]) -> str:
    return ", ".join(f"{held[name]} {name}" for name in (VCPU, PCPU) if name in held) or "-"
