"""``corewise compute delete``: all that a guest holds goes back, in Placement and in its host's ledger."""

from __future__ import annotations

import click

from corewise.cli.compute_failures import told
from corewise.cli.compute_hosts import GivenHosts, given_hosts
from corewise.cli.compute_placement import PlacementChoice, placement_options
from corewise.cli.compute_schedule import offers_of
from corewise.compute.scheduling import Scheduler


@click.command()
@click.argument("guest")
@given_hosts
@placement_options
def command(guest: str, given: GivenHosts, placement: PlacementChoice) -> None:
    """Give back all that GUEST holds: its claim in Placement first, then its CPUs.

    A delete that broke off is finished by repeating it. Exit code 4 if nobody knows the guest.
    """
    with told():
        hosts = given.hosts()
        host = Scheduler(offers_of(placement, given, hosts), hosts).delete(guest)
        click.echo(f"guest {guest} has given back what it held" + (f" of host {host}" if host else ""))
