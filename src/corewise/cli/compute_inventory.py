"""``corewise compute inventory``: what a host offers to Placement, and why it would offer nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from corewise.cli import output
from corewise.cli.compute_failures import told
from corewise.cli.compute_inputs import host_options, machine, nova_conf, options_of, usable
from corewise.cli.compute_placement import (
    HOST,
    PlacementChoice,
    host_name,
    placement_options,
    provider_of,
)
from corewise.cli.output import Column, Form, Listing
from corewise.tracking.inventory import Offer, offer
from corewise.tracking.options import Compat, HostFacts, check_options
from corewise.vocabulary.placement import Inventory, Provider

_Row = tuple[str, Inventory]

COLUMNS: tuple[Column[_Row], ...] = (
    Column("CLASS", lambda row: row[0]),
    Column("TOTAL", lambda row: str(row[1].total), right=True),
    Column("RESERVED", lambda row: str(row[1].reserved), right=True),
    Column("MIN", lambda row: str(row[1].min_unit), right=True),
    Column("MAX", lambda row: str(row[1].max_unit), right=True),
    Column("STEP", lambda row: str(row[1].step_size), right=True),
    Column("RATIO", lambda row: ratio_text(row[1]), right=True),
    Column("CAPACITY", lambda row: str(row[1].capacity), right=True),
)


@click.command()
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
    what the host's provider has already counts: its generation, other classes and traits, a ratio that no
    option states.
    """
    with told():
        conf = nova_conf(config)
        host = machine(topology, root)
        facts = HostFacts.of(host)
        settings = usable(check_options(options_of(conf), facts, compat=compat))
        provider = provider_of(placement.client(conf), host_name(name, conf)) if placement.is_given else None
        print_offer(offer(settings, facts, provider), provider, form)


def print_offer(offered: Offer, provider: Provider | None, form: Form) -> None:
    """Print what a host offers; of a host with a provider, all that the provider is to have."""
    known = provider or Provider("", "", 0)
    inventories, traits = offered.inventories_of(known), offered.traits_of(known)
    if form is not Form.TABLE:
        document = inventories_body(inventories, known.generation) | {"traits": sorted(traits)}
        click.echo(output.document_text(document, form), nl=False)
        return
    if inventories:
        rows = sorted(inventories.items())
        click.echo(output.render(Listing(COLUMNS, rows, (), lambda row: row[0]), form), nl=False)
    else:
        click.echo("no CPUs are offered")
    click.echo(f"\nTraits: {', '.join(sorted(traits)) or 'none'}")


def inventories_body(inventories: Mapping[str, Inventory], generation: int) -> dict[str, Any]:
    """Return the body of Placement's inventories. The generation of a provider that is not there yet is 0."""
    return {
        "inventories": {name: inventory_record(inventories[name]) for name in sorted(inventories)},
        "resource_provider_generation": generation,
    }


def ratio_text(inventory: Inventory) -> str:
    """Return an allocation ratio with one place at least: 8.0."""
    text = format(inventory.allocation_ratio.normalize(), "f")
    return text if "." in text else f"{text}.0"


def inventory_record(inventory: Inventory) -> dict[str, Any]:
    """Return an inventory as Placement writes it."""
    return {
        "total": inventory.total,
        "reserved": inventory.reserved,
        "min_unit": inventory.min_unit,
        "max_unit": inventory.max_unit,
        "step_size": inventory.step_size,
        "allocation_ratio": float(inventory.allocation_ratio),
    }
