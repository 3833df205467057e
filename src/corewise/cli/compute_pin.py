"""``corewise compute pin``: which CPUs of one host a guest gets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corewise.cli import output
from corewise.cli.compute_failures import failure, told
from corewise.cli.compute_hosts import GivenHosts, given_hosts
from corewise.cli.compute_inputs import FILE, text_of
from corewise.cli.compute_pins import pins_record, pins_table, pins_text
from corewise.cli.compute_request import guest_request, request_options
from corewise.cli.errors import ExitCode
from corewise.cli.output import Form
from corewise.compute.hosts import ComputeHost
from corewise.compute.scheduling import pin
from corewise.pinning import GuestPins, Refusal
from corewise.vocabulary.guests import GuestCPUs

if TYPE_CHECKING:
    from corewise.openstack.libvirt_xml import CPUTuning

XML = "xml"
_FORMS = (Form.TABLE.value, Form.JSON.value, Form.YAML.value, XML)


@click.command()
@request_options
@given_hosts
@click.option("--guest", metavar="NAME", help="Enter the guest in --ledger by this name.")
@click.option("--pack", is_flag=True, help="Fill NUMA nodes up, instead of taking the emptiest.")
@click.option(
    "--domain", type=FILE, metavar="FILE", help="The guest's domain (virsh dumpxml), for -o xml; - is stdin."
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(_FORMS),
    default=Form.TABLE.value,
    show_default=True,
    help="Output form; xml is --domain with these CPUs.",
)
def command(
    flavor: Path,
    image: Path | None,
    given: GivenHosts,
    guest: str | None,
    pack: bool,
    domain: Path | None,
    form: str,
) -> None:
    """Choose the CPUs of one host for a guest, and print them. Placement is not asked.

    With --guest and --ledger they are held from then on; otherwise nothing is recorded. Exit code 6 if the
    guest does not fit.
    """
    if (form == XML) != (domain is not None):
        raise click.UsageError("-o xml and --domain go together")
    if guest is not None and given.ledger is None and given.folder is None:
        raise click.UsageError("--guest needs the --ledger that it is entered in")
    with told():
        read, request = guest_request(flavor, image, given.compat)
        host = given.host()
        pins = pin(host, request, guest=guest, flavor=read.name, pack=pack)
        if isinstance(pins, Refusal):
            raise failure(pins.reason, f"host {host.name}: {pins.message}", code=ExitCode.REFUSED)
        if domain is not None:
            click.echo(_domain(text_of(domain), _tuning(request.cpus, pins, host)))
        else:
            click.echo(_rendered(host, pins, Form(form)), nl=False)


def _rendered(host: ComputeHost, pins: GuestPins, form: Form) -> str:
    if form is not Form.TABLE:
        return output.document_text({"host": host.name, **pins_record(pins)}, form)
    table = pins_table(pins, host.machine)
    return f"host {host.name}: the guest {pins_text(pins)}\n" + (f"\n{table}" if table else "")


def _domain(text: str, tuning: CPUTuning) -> str:
    from corewise.openstack.libvirt_xml import tuned  # noqa: PLC0415 - few need it

    return tuned(text, tuning)


def _tuning(guest: GuestCPUs, pins: GuestPins, host: ComputeHost) -> Any:
    """Return where the guest may run: pinned CPUs on their own, the others on what they share."""
    from corewise.compute.hosts import tuning_of  # noqa: PLC0415 - few need it

    return tuning_of(guest, pins, host)
