"""``corewise compute move``, ``evacuate``, ``resize``, ``rebuild``, ``confirm``, ``revert``."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import click

from corewise.cli import output
from corewise.cli.errors import ExitCode
from corewise.cli.options import duration, examples
from corewise.cli.output import Form, say
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.cli.guests import (
    AGGREGATES,
    REQUEST_OPTIONS,
    guest_request,
    known_aggregates,
    offers_of,
    pins_record,
    pins_text,
)
from corewise_openstack.cli.options import (
    GivenHosts,
    PlacementChoice,
    failure,
    given_hosts,
    placement_options,
)
from corewise_openstack.compute.errors import GuestUnknown, PlacementNotNamed
from corewise_openstack.compute.hosts import ComputeHost, Hosts
from corewise_openstack.compute.ledger import HostDemands, MoveRecord
from corewise_openstack.compute.moved_claims import amounts_text, unsuited_traits
from corewise_openstack.compute.moving import GuestMover, WantedMove
from corewise_openstack.compute.offers import Offers
from corewise_openstack.compute.scheduling import HOST_TIMEOUT, demanding_traits
from corewise_openstack.tracking import GuestRequest

_GUEST = click.argument("guest")
_TO = click.option("--to", "destination", required=True, metavar="HOST", help="Destination host.")
_FORM = output.option((Form.TABLE, Form.JSON, Form.YAML))
_TIMEOUT = duration(
    "--host-timeout",
    default=f"{HOST_TIMEOUT:.0f}s",
    help="A host whose agent has not reported for this long is down.",
)


@click.command(
    "move",
    epilog=examples(
        "corewise compute move web-1 --to no-smt --hosts cloud/hosts",
        "corewise compute confirm web-1 --hosts cloud/hosts",
    ),
)
@_GUEST
@_TO
@given_hosts
@_TIMEOUT
@AGGREGATES
@placement_options
@_FORM
def move_command(
    guest: str,
    destination: str,
    given: GivenHosts,
    host_timeout: float,
    aggregates: Path | None,
    placement: PlacementChoice,
    form: Form,
) -> None:
    """Give GUEST a claim and CPUs on another host, and keep the old ones for it until the move is confirmed.

    Then migrate its domain, with the CPUs that corewise compute apply prints, and confirm; or revert. Run
    again, the command continues an interrupted move. Exit code 6 if the host cannot take the guest.
    """
    known = known_aggregates(aggregates, placement)
    wanted = WantedMove(guest, destination, _migration(), aggregates=known)
    _begin(given, placement, host_timeout, form, wanted)


@click.command("evacuate", epilog=examples("corewise compute evacuate web-1 --to no-smt --hosts cloud/hosts"))
@_GUEST
@_TO
@given_hosts
@_TIMEOUT
@AGGREGATES
@placement_options
@_FORM
def evacuate_command(
    guest: str,
    destination: str,
    given: GivenHosts,
    host_timeout: float,
    aggregates: Path | None,
    placement: PlacementChoice,
    form: Form,
) -> None:
    """Move GUEST away from a host that is down: its agent has not reported for --host-timeout.

    Start the guest on the other host. Confirm once the old host can no longer run it: until then its old
    claim is kept. Exit code 6 if the host still reports.
    """
    known = known_aggregates(aggregates, placement)
    wanted = WantedMove(guest, destination, _migration(), evacuate=True, aggregates=known)
    _begin(given, placement, host_timeout, form, wanted)


@click.command(
    "resize", epilog=examples("corewise compute resize web-1 --flavor flavor.json --hosts cloud/hosts")
)
@_GUEST
@REQUEST_OPTIONS
@click.option("--to", "destination", metavar="HOST", help="Destination host.  [default: the present one]")
@given_hosts
@_TIMEOUT
@AGGREGATES
@placement_options
@_FORM
def resize_command(
    guest: str,
    flavor: Path,
    image: Path | None,
    strict: bool,
    destination: str | None,
    given: GivenHosts,
    host_timeout: float,
    aggregates: Path | None,
    placement: PlacementChoice,
    form: Form,
) -> None:
    """Give GUEST the CPUs of another flavor, and keep the old ones for it until that is confirmed.

    Both claims are held until corewise compute confirm, or revert. Exit code 6 if the flavor does not fit.
    """
    known = known_aggregates(aggregates, placement)
    read, request = guest_request(flavor, image, given.compat, strict=strict, aggregates=known is not None)
    hosts = given.hosts(placement)
    unfinished = hosts.move_of(guest)
    at = unfinished.destination if unfinished else _host_of(guest, hosts)
    wanted = WantedMove(guest, destination or at, _migration(), request, read.name, aggregates=known)
    _begin(given, placement, host_timeout, form, wanted)


@click.command(
    "rebuild",
    epilog=examples("corewise compute rebuild web-1 --flavor flavor.json --hosts cloud/hosts"),
)
@_GUEST
@REQUEST_OPTIONS
@given_hosts
@placement_options
def rebuild_command(
    guest: str,
    flavor: Path,
    image: Path | None,
    strict: bool,
    given: GivenHosts,
    placement: PlacementChoice,
) -> None:
    """Check that GUEST may be rebuilt with another image: it keeps its CPUs and its claim.

    Nothing is written. With a Placement, all allocations of GUEST count; without one, those of its host's
    provider, which its ledger has.

    Exit code 6 if the flavor and the image ask for other CPUs than GUEST has, or for traits that its host's
    provider lacks.
    """
    _, request = guest_request(flavor, image, given.compat, strict=strict)
    hosts = given.hosts(placement)
    name = _host_of(guest, hosts)
    hosts.known[name].refuse_cpus_of_nova()
    hosts.refuse_moving(guest)
    record = hosts.known[name].guests()[guest]
    queries = [each.resources for each in (request.query, request.fallback) if each is not None]
    held = record.resources
    offers = offers_of(placement, given, hosts)
    if placement.is_given:
        held = _all_held(guest, offers)
    elif record.provider and any(held.items() < each.items() for each in queries):
        raise PlacementNotNamed(
            f"guest {guest} holds {amounts_text(held)} of host {name}, and would need "
            f"{amounts_text(queries[0])}: only its Placement knows whether it has the rest elsewhere",
            hint=Reason.PLACEMENT_NOT_NAMED.fix,
        )
    if record.cpus != request.cpus or held not in queries:
        message = f"guest {guest} holds {amounts_text(held)}, and would need {amounts_text(queries[0])}"
        if held in queries:
            message = f"guest {guest} would need other CPUs or NUMA nodes than it has"
        raise failure(Reason.REBUILD_CHANGES_CLAIM, message, code=ExitCode.REFUSED)
    demands = demanding_traits(record.demands, request.query)
    if not placement.is_given:
        if request.query.traits:
            say(f"warning: without a Placement the traits of host {name} are not checked")
    elif (unsuited := _unsuited(guest, hosts.known[name], demands, request, offers)) is not None:
        raise failure(unsuited.reason, f"host {name}: {unsuited.message}", code=ExitCode.REFUSED)
    output.tell(f"guest {guest} on host {name} keeps its claim, and {pins_text(record.pins)}")


@click.command("confirm", epilog=examples("corewise compute confirm web-1 --hosts cloud/hosts"))
@_GUEST
@given_hosts
@placement_options
def confirm_command(guest: str, given: GivenHosts, placement: PlacementChoice) -> None:
    """Finish a move or resize of GUEST: its old claim and CPUs are released.

    Run again, the command continues an interrupted confirmation. Exit code 4 if there is no move.
    """
    hosts = given.hosts(placement)
    move = _mover(given, placement, hosts, guest).confirm(guest)
    output.tell(
        f"guest {guest} is on host {move.destination}; its old claim on host {move.source} is released"
    )


@click.command("revert", epilog=examples("corewise compute revert web-1 --hosts cloud/hosts"))
@_GUEST
@given_hosts
@placement_options
def revert_command(guest: str, given: GivenHosts, placement: PlacementChoice) -> None:
    """Undo a move or resize of GUEST: it gets back its old claim and CPUs, and the new ones are released.

    Run again, the command continues where it was interrupted. Exit code 4 if there is no move.
    """
    hosts = given.hosts(placement)
    move = _mover(given, placement, hosts, guest).revert(guest)
    released = f"its new claim on host {move.destination} is released"
    click.echo(f"guest {guest} is on host {move.source} as before; {released}")


def _mover(
    given: GivenHosts,
    placement: PlacementChoice,
    hosts: Hosts,
    guest: str,
    host_timeout: float = HOST_TIMEOUT,
) -> GuestMover:
    """Return a mover of guests; it changes their claims itself, even where agents have the ledgers."""
    if given.agents and not placement.is_given:
        raise click.UsageError("--agent: name the Placement of the agents, where the guest's claims change")
    return GuestMover(offers_of(placement, given, hosts, guest), hosts, host_timeout=host_timeout)


def _migration() -> str:
    return str(uuid.uuid4())


def _host_of(guest: str, hosts: Hosts) -> str:
    host = hosts.having(guest)
    if host is None:
        hosts.raise_unusable()
        raise GuestUnknown(f"no ledger has a guest {guest}")
    return host.name


def _begin(
    given: GivenHosts, placement: PlacementChoice, host_timeout: float, form: Form, wanted: WantedMove
) -> None:
    hosts = given.hosts(placement)
    mover = _mover(given, placement, hosts, wanted.guest, host_timeout)
    begun = mover.begin(wanted)
    if isinstance(begun, Finding):
        raise failure(begun.reason, begun.message, code=ExitCode.REFUSED)
    move, record = begun
    if wanted.aggregates is None and record.demands.of_aggregates:
        zone = [f"availability zone {record.demands.zone}"] if record.demands.zone else []
        demanded = ", ".join([*zone, *(f"{key} = {value}" for key, value in record.demands.specs.items())])
        say(
            f"warning: guest {move.guest} demands a host of {demanded}; "
            f"without --aggregates FILE it is not checked whether host {move.destination} is one"
        )
    if form is not Form.TABLE:
        document = {**_move_document(move), **pins_record(record.pins)}
        click.echo(output.document_text(document, form), nl=False)
        return
    output.tell(f"guest {move.guest} holds its claim on host {move.destination}: it {pins_text(record.pins)}")
    output.tell(
        f"its old claim on host {move.source} is held until: corewise compute confirm {move.guest}, or revert"
    )


def _move_document(move: MoveRecord) -> dict[str, str]:
    return {
        "guest": move.guest,
        "migration": move.migration,
        "source": move.source,
        "destination": move.destination,
        "phase": move.phase,
    }


def _unsuited(
    guest: str, host: ComputeHost, demands: HostDemands, request: GuestRequest, offers: Offers
) -> Finding | None:
    """Return a refusal if the traits of a guest's host do not suit its image."""
    provider = offers.provider(host.name)
    if provider is None:
        return Finding(Reason.HOST_UNKNOWN, f"Placement has no provider {host.name}")
    others = [uuid for uuid in offers.held(guest) or {} if uuid != provider.uuid]
    kept = frozenset[str]().union(*(each.traits for each in offers.relations(others).values()))
    return unsuited_traits(demands, request.cpus, provider, kept, legacy=host.settings.legacy)


def _all_held(guest: str, offers: Offers) -> Mapping[str, int]:
    """Return the total amounts that a guest holds of all providers."""
    held = offers.held(guest)
    if held is None:
        raise GuestUnknown(f"Placement has no allocations of guest {guest}")
    total: Counter[str] = Counter()
    for amounts in held.values():
        total.update(amounts)
    return dict(total)
