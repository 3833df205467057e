"""``corewise compute inventory``: what a host offers to Placement, and why it would offer nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from corewise.cli import output
from corewise.cli.options import examples
from corewise.cli.output import Form
from corewise.views.tables import Column
from corewise_openstack.cli.options import (
    HOST,
    PlacementChoice,
    checked_settings,
    host_name,
    host_options,
    machine,
    nova_conf,
    placement_options,
    provider_of,
)
from corewise_openstack.tracking.inventory import offer
from corewise_openstack.tracking.options import Compat, HostFacts
from corewise_openstack.vocabulary.placement import Inventory, Provider

_Row = tuple[str, Inventory]

_COLUMNS: tuple[Column[_Row], ...] = (
    Column("CLASS", lambda row: row[0]),
    Column("TOTAL", lambda row: str(row[1].total), right=True),
    Column("RESERVED", lambda row: str(row[1].reserved), right=True, priority=1),
    Column("MIN", lambda row: str(row[1].min_unit), right=True, priority=2),
    Column("MAX", lambda row: str(row[1].max_unit), right=True, priority=3),
    Column("STEP", lambda row: str(row[1].step_size), right=True, priority=4),
    Column("RATIO", lambda row: ratio_text(row[1]), right=True),
    Column("CAPACITY", lambda row: str(row[1].capacity), right=True),
)


@click.command(
    epilog=examples(
        "corewise compute inventory --config /etc/nova/nova.conf",
        "corewise compute inventory --topology topology.json -o json",
    )
)
@host_options
@HOST
@placement_options
@output.option((Form.TABLE, Form.JSON, Form.YAML))
def command(
    topology: Path | None,
    root: Path | None,
    config: tuple[Path, ...],
    compat: Compat,
    name: str | None,
    placement: PlacementChoice,
    form: Form,
) -> None:
    """Show which VCPU and PCPU a host offers, and its trait. Nothing is written.

    -o json prints the body that Placement takes for inventories, and the traits beside it. With a Placement,
    the host's provider counts too: its generation, other classes and traits, and a ratio that no option
    states.
    """
    conf = nova_conf(config)
    facts = HostFacts.of(machine(topology, root))
    settings = checked_settings(conf, facts, compat)
    provider = (
        provider_of(placement.client(conf), host_name(name, conf, beside_nova=compat is Compat.NOVA))
        if placement.is_given
        else None
    )
    offered = offer(settings, facts, provider)
    known = provider or Provider("", "", 0)
    inventories, traits = offered.inventories_of(known), offered.traits_of(known)
    if form is not Form.TABLE:
        document = {
            "inventories": inventory_records(dict(sorted(inventories.items()))),
            "resource_provider_generation": known.generation,
            "traits": sorted(traits),
        }
        click.echo(output.document_text(document, form), nl=False)
        return
    if inventories:
        click.echo(output.table(_COLUMNS, sorted(inventories.items())), nl=False)
    else:
        click.echo("no CPUs are offered")
    output.tell(f"\nTraits: {', '.join(sorted(traits)) or 'none'}")


def ratio_text(inventory: Inventory) -> str:
    """Return an allocation ratio with one place at least: 8.0."""
    text = format(inventory.allocation_ratio.normalize(), "f")
    return text if "." in text else f"{text}.0"


def inventory_records(inventories: Mapping[str, Inventory]) -> dict[str, dict[str, Any]]:
    """Return inventories as Placement writes them, by class."""
    return {
        name: {
            "total": each.total,
            "reserved": each.reserved,
            "min_unit": each.min_unit,
            "max_unit": each.max_unit,
            "step_size": each.step_size,
            "allocation_ratio": float(each.allocation_ratio),
        }
        for name, each in inventories.items()
    }
