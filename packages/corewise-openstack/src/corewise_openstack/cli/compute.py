"""``corewise compute``: dedicated and shared CPUs of OpenStack hosts."""

from __future__ import annotations

import click

from corewise.cli import LazyGroup
from corewise.cli.options import examples

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "run": ("corewise_openstack.cli.run", "Report what this host offers to Placement: the host agent."),
    "inventory": (
        "corewise_openstack.cli.inventory",
        "Show what a host offers to Placement, or why it cannot.",
    ),
    "request": (
        "corewise_openstack.cli.guests:request_command",
        "Turn a flavor and an image into Placement's query.",
    ),
    "schedule": (
        "corewise_openstack.cli.guests:schedule_command",
        "Find a host for a guest, claim it and pin the guest.",
    ),
    "pin": ("corewise_openstack.cli.guests:pin_command", "Choose a host's CPUs for a guest."),
    "apply": (
        "corewise_openstack.cli.apply",
        "Write guests' CPUs into their domains, or undo that.",
    ),
    "move": (
        "corewise_openstack.cli.moves:move_command",
        "Claim another host for a guest, and keep the old claim until confirmed.",
    ),
    "resize": (
        "corewise_openstack.cli.moves:resize_command",
        "Claim the CPUs of another flavor for a guest, until confirmed.",
    ),
    "evacuate": (
        "corewise_openstack.cli.moves:evacuate_command",
        "Move a guest away from a host that is down.",
    ),
    "rebuild": (
        "corewise_openstack.cli.moves:rebuild_command",
        "Check that a guest keeps its claim with another image.",
    ),
    "confirm": (
        "corewise_openstack.cli.moves:confirm_command",
        "Finish a move or a resize: the old claim is released.",
    ),
    "revert": (
        "corewise_openstack.cli.moves:revert_command",
        "Undo a move or a resize: the new claim is released.",
    ),
    "delete": ("corewise_openstack.cli.guests:delete_command", "Release all that a guest holds."),
    "reshape": (
        "corewise_openstack.cli.reshape",
        "Upgrade a legacy host: pinned guests hold PCPU, not VCPU.",
    ),
    "status": ("corewise_openstack.cli.status", "Show who holds which CPU, as a table or a drawing."),
}
"""Subcommand -> where its command is, and its one line of help."""


@click.group(
    cls=LazyGroup,
    table=SUBCOMMANDS,
    epilog=examples(
        "corewise up --scenario openstack --state cloud --for 1s",
        "corewise compute status --hosts cloud/hosts",
    ),
)
def command() -> None:
    """Dedicated and shared CPUs of OpenStack hosts, tracked in Placement.

    Every subcommand works offline, from files, and most against a Placement too: --placement-url (without
    Keystone), --os-cloud (clouds.yaml), or --placement-db (an embedded Placement on a file).

    Exit codes: 2 wrong call, 3 no answer, 4 no such guest or host, 5 a file or an option that cannot be
    used, 6 refused (no valid host among others), 8 not authorized, 9 conflict, 10 the ledger cannot be used.
    """
