"""``corewise compute schedule``: a host for a guest, claimed in Placement, and the guest pinned there."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from corewise.cli import output
from corewise.cli.compute_failures import failure, told
from corewise.cli.compute_hosts import GivenHosts, given_hosts
from corewise.cli.compute_inputs import FILE, text_of
from corewise.cli.compute_pins import pins_record, pins_table, pins_text
from corewise.cli.compute_placement import PlacementChoice, placement_options
from corewise.cli.compute_request import guest_request, request_options
from corewise.cli.errors import ExitCode
from corewise.cli.output import Form, say
from corewise.compute.errors import FileUnusable
from corewise.compute.hosts import Hosts
from corewise.compute.offers import LocalOffers, Offers
from corewise.compute.scheduling import Scheduler, Wanted
from corewise.compute.verdicts import NoValidHost, Placed
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.reasons import Reason

GUEST = click.option(
    "--guest", metavar="UUID", help="The guest's UUID, by which it is deleted.  [default: a new one]"
)
_SCORES = click.option(
    "--scores",
    type=FILE,
    metavar="FILE",
    help='Interference scores of hosts, 0 to 100, the higher the better: {"host": 80}.',
)
_BEST, _WORST = 100, 0


@click.command()
@request_options
@given_hosts
@GUEST
@_SCORES
@click.option("--pack", is_flag=True, help="Fill hosts and NUMA nodes up, instead of spreading guests.")
@click.option("--project", metavar="UUID", help="The guest's project, for Placement.")
@click.option("--user", metavar="UUID", help="The guest's user, for Placement.")
@placement_options
@output.option((Form.TABLE, Form.JSON, Form.YAML))
def command(
    flavor: Path,
    image: Path | None,
    given: GivenHosts,
    guest: str | None,
    scores: Path | None,
    pack: bool,
    project: str | None,
    user: str | None,
    placement: PlacementChoice,
    form: Form,
) -> None:
    """Find a host for a guest: query, filter by NUMA nodes and thread policy, weigh, claim, pin, record.

    Hosts are those of --hosts, or the one of --topology (or --root) and --config. Without a Placement, what
    they offer is computed from these files, and what is held stands in their ledgers alone; disk and other
    classes are not known then, and not checked.

    Exit code 6 if there is no valid host: the counts say how many fell at which demand.
    """
    with told():
        read, request = guest_request(flavor, image, given.compat)
        hosts = given.hosts()
        wanted = Wanted(_guest(guest, placement), request, read.name, pack)
        offers = _offers(placement, given, hosts, project, user)
        outcome = Scheduler(offers, hosts, scores=_scores(scores)).schedule(wanted)
        if isinstance(outcome, NoValidHost):
            if form is not Form.TABLE:
                click.echo(output.document_text(_refusal_document(outcome), form), nl=False)
            for detail in outcome.details:
                say(f"  {detail}")
            raise failure(Reason.NO_VALID_HOST, outcome.message, code=ExitCode.REFUSED)
        click.echo(_rendered(outcome, hosts, form), nl=False)


def _guest(guest: str | None, placement: PlacementChoice) -> str:
    """Return the guest's name; Placement takes UUIDs only."""
    if guest is None:
        return str(uuid.uuid4())
    if placement.is_given:
        try:
            return str(uuid.UUID(guest))
        except ValueError as error:
            raise click.BadParameter(f"{guest!r} is not a UUID", param_hint="--guest") from error
    return guest


def offers_of(placement: PlacementChoice, given: GivenHosts, hosts: Hosts) -> Offers:
    """Return who offers hosts: a Placement, or the hosts' files."""
    return _offers(placement, given, hosts, None, None)


def _offers(
    placement: PlacementChoice, given: GivenHosts, hosts: Hosts, project: str | None, user: str | None
) -> Offers:
    if not placement.is_given:
        return LocalOffers(hosts)
    from corewise.compute.placement import NOBODY, PlacementOffers  # noqa: PLC0415 - needs an extra

    return PlacementOffers(placement.client(given.conf), project=project or NOBODY, user=user or NOBODY)


def _scores(file: Path | None) -> Mapping[str, int] | None:
    if file is None:
        return None
    try:
        scores = msgspec.json.decode(text_of(file), type=dict[str, int])
    except UNREADABLE as error:
        raise FileUnusable(f"{file}: {error}", hint='write {"host": 80}: whole numbers, 0 to 100') from None
    for host, score in scores.items():
        if not _WORST <= score <= _BEST:
            raise FileUnusable(f"{file}: the score of {host} is {score}, which is not from 0 to 100")
    return scores


def _rendered(placed: Placed, hosts: Hosts, form: Form) -> str:
    pins = placed.record.pins
    if form is not Form.TABLE:
        return output.document_text(_document(placed), form)
    how = " (found by the fallback: it counts pinned guests as VCPU)" if placed.by_fallback else ""
    lines = f"guest {placed.guest} is on host {placed.host}{how}\nit {pins_text(pins)}\n"
    table = pins_table(pins, hosts.known[placed.host].machine)
    return f"{lines}\n{table}" if table else lines


def _document(placed: Placed) -> dict[str, Any]:
    return {
        "guest": placed.guest,
        "host": placed.host,
        "provider": placed.record.provider or None,
        "byFallback": placed.by_fallback,
        "resources": dict(placed.record.resources),
        **pins_record(placed.record.pins),
        "hosts": [
            {
                "host": each.host,
                "freeCPUs": each.free,
                "interferenceScore": each.interference,
                "score": float(each.score),
            }
            for each in placed.weighed
        ],
        "lost": {host: refusal.message for host, refusal in placed.lost.items()},
    }


def _refusal_document(outcome: NoValidHost) -> dict[str, Any]:
    return {
        "reason": Reason.NO_VALID_HOST,
        "message": outcome.message,
        "hosts": outcome.hosts,
        "fallen": [
            {"hosts": each.hosts, "demand": each.demand, "reason": each.reason} for each in outcome.fallen
        ],
        "details": list(outcome.details),
    }
