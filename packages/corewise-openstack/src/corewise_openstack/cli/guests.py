"""``corewise compute request``, ``pin``, ``schedule``, ``delete``: the CPUs of one guest."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from corewise.cli import output
from corewise.cli.errors import ExitCode
from corewise.cli.files import FILE
from corewise.cli.options import duration, examples, together
from corewise.cli.output import Form, say
from corewise.topology import Host
from corewise.views.tables import Column
from corewise.views.text import count, number
from corewise.vocabulary.errors import UNREADABLE, unreadable_text
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.cli.options import (
    COMPAT,
    CONFIG,
    GivenHosts,
    PlacementChoice,
    failure,
    given_hosts,
    guest_names,
    nova_conf,
    parsed,
    placement_options,
    text_of,
)
from corewise_openstack.compute.aggregates import Aggregate, memberships, parse_aggregates
from corewise_openstack.compute.errors import FileUnusable, GuestExists
from corewise_openstack.compute.guest_files import parse_flavor, parse_image
from corewise_openstack.compute.hosts import Hosts, tuning_of
from corewise_openstack.compute.ledger import GuestClaim, HostDemands
from corewise_openstack.compute.offers import LocalOffers, Offers, refuse_claim_in_placement
from corewise_openstack.compute.scheduling import HOST_TIMEOUT, GuestScheduler, pin
from corewise_openstack.compute.verdicts import NoValidHost, Placed
from corewise_openstack.guest_pinning.ledger import GuestPins
from corewise_openstack.openstack.libvirt_xml import check_vcpus, tuned, uuid_of
from corewise_openstack.tracking.flavor import NO_IMAGE, Flavor
from corewise_openstack.tracking.options import Compat
from corewise_openstack.tracking.request import GuestRequest, translate
from corewise_openstack.vocabulary.guests import GuestCPUs

if TYPE_CHECKING:
    from corewise_openstack.openstack.placement_client import PlacementClient

XML = "xml"
QUERY = "query"
_LABEL_WIDTH = 13
_BEST, _WORST = 100, 0
_Row = tuple[str, int, int | None, int | None, str]
"""One host CPU of a guest: what it is for, CPU, NUMA node, core, and the CPUs of the core."""

_COLUMNS: tuple[Column[_Row], ...] = (
    Column("GUEST", lambda row: row[0]),
    Column("HOST CPU", lambda row: str(row[1]), right=True),
    Column("NUMA", lambda row: number(row[2]), right=True),
    Column("CORE", lambda row: number(row[3]), right=True, priority=1),
    Column("CPUS OF CORE", lambda row: row[4], priority=2, shrink=14),
)


REQUEST_OPTIONS = together(
    click.option(
        "--flavor",
        type=FILE,
        required=True,
        metavar="FILE",
        help='The flavor: {"name","vcpus","ram","disk","extra_specs":{}}.',
    ),
    click.option(
        "--image",
        type=FILE,
        metavar="FILE",
        help='The image: {"properties":{}}.  [default: asks for nothing]',
    ),
    click.option(
        "--strict", is_flag=True, help="Refuse extra specs about CPUs, memory or NUMA that are not served."
    ),
)
"""A guest: ``flavor``, ``image`` and ``strict``."""

AGGREGATES = click.option(
    "--aggregates",
    type=FILE,
    metavar="FILE",
    help="Host aggregates: openstack aggregate list --long -f json.  [default: none are known]",
)


@click.command(
    "request",
    epilog=examples(
        "corewise compute request --flavor flavor.json",
        "corewise compute request --flavor flavor.json --image image.json -o query",
    ),
)
@REQUEST_OPTIONS
@COMPAT
@CONFIG
@placement_options
@output.option(
    (Form.TABLE, Form.JSON, Form.YAML, QUERY),
    help_text="Output form; query is exactly the string that is sent.",
)
def request_command(
    flavor: Path,
    image: Path | None,
    strict: bool,
    compat: Compat,
    config: tuple[Path, ...],
    placement: PlacementChoice,
    form: str,
) -> None:
    """Turn a flavor and an image into the query to Placement, and its fallback.

    With a Placement, the queries also run, and the number of hosts found is shown. Nothing is claimed.
    """
    _, request = guest_request(flavor, image, compat, strict=strict)
    found = None
    if placement.is_given:
        found = _found(placement.client(nova_conf(config)), request)
    if form == QUERY:
        click.echo(request.query)
    elif form == Form.TABLE:
        for label, words in _lines(request, found):
            output.tell(f"{label + ':':<{_LABEL_WIDTH}}{words}", " " * _LABEL_WIDTH)
    else:
        click.echo(output.document_text(_document(request, found), Form(form)), nl=False)


@click.command(
    "pin",
    epilog=examples(
        "corewise topology -o json > topology.json",
        "corewise compute pin --flavor flavor.json --topology topology.json",
    ),
)
@REQUEST_OPTIONS
@given_hosts
@click.option("--guest", metavar="NAME", help="Record the guest under this name in the host's ledger.")
@click.option("--pack", is_flag=True, help="Fill NUMA nodes up, instead of taking the emptiest.")
@click.option(
    "--domain", type=FILE, metavar="FILE", help="The guest's domain (virsh dumpxml), for -o xml; - is stdin."
)
@output.option(
    (Form.TABLE, Form.JSON, Form.YAML, XML), help_text="Output form; xml is --domain with these CPUs."
)
def pin_command(
    flavor: Path,
    image: Path | None,
    strict: bool,
    given: GivenHosts,
    guest: str | None,
    pack: bool,
    domain: Path | None,
    form: str,
) -> None:
    """Choose the CPUs of one host for a guest, and print them. Placement is not asked.

    With --guest the guest holds them from then on: that is recorded in --ledger, or in the host's ledger of
    --hosts. Otherwise nothing is recorded. Exit code 6 if the guest does not fit.
    """
    if (form == XML) != (domain is not None):
        raise click.UsageError("-o xml and --domain go together")
    if guest is not None and given.ledger is None and given.folder is None:
        raise click.UsageError("--guest needs a ledger that records it: add --ledger FILE or --hosts DIR")
    read, request = guest_request(flavor, image, given.compat, strict=strict)
    host = given.host()
    text = None if domain is None else text_of(domain)
    if text is not None:
        known = uuid_of(text)
        if known in host.guests():
            raise GuestExists(
                f"guest {known} is on host {host.name} already: its CPUs are chosen",
                hint=f"print its domain with them: corewise compute apply {known} --domain {domain}",
            )
        if guest is not None and guest != known:
            raise FileUnusable(
                f"{domain} is the domain of guest {known}, not of {guest}",
                hint=f"record the guest under its UUID: --guest {known}",
            )
        check_vcpus(text, request.cpus.vcpus)
    pins = pin(host, request, guest=guest, flavor=read.name, pack=pack)
    if isinstance(pins, Finding):
        raise failure(pins.reason, f"host {host.name}: {pins.message}", code=ExitCode.REFUSED)
    if text is not None:
        click.echo(tuned(text, tuning_of(request.cpus, pins, host)))
    elif form == Form.TABLE:
        heading = f"host {host.name}: the guest {pins_text(pins)}\n"
        click.echo(heading + _pins_table(pins, host.machine), nl=False)
    else:
        document = {"host": host.name, **pins_record(pins)}
        click.echo(output.document_text(document, Form(form)), nl=False)


@click.command(
    "schedule",
    epilog=examples(
        "corewise compute schedule --flavor flavor.json --hosts cloud/hosts",
        "corewise compute schedule --flavor flavor.json --hosts cloud/hosts --pack",
        "corewise compute schedule --flavor flavor.json --hosts cloud/hosts --aggregates aggregates.json "
        "--zone east",
    ),
)
@REQUEST_OPTIONS
@given_hosts
@click.option(
    "--guest", metavar="UUID", help="The guest's UUID, for deleting it later.  [default: a new one]"
)
@click.option(
    "--scores",
    type=FILE,
    metavar="FILE",
    help='Interference scores of hosts, 0 to 100, the higher the better: {"host": 80}.',
)
@click.option("--pack", is_flag=True, help="Fill hosts and NUMA nodes up, instead of spreading guests.")
@duration(
    "--host-timeout",
    default=f"{HOST_TIMEOUT:.0f}s",
    help="Give no guest to a host of --hosts whose agent has not reported for this long.",
)
@AGGREGATES
@click.option(
    "--zone", default="", metavar="NAME", help="Only hosts of this availability zone of --aggregates."
)
@click.option(
    "--aggregate",
    "named",
    multiple=True,
    metavar="NAME",
    help="Only hosts in one of these aggregates, each a name of --aggregates or a UUID of Placement's.",
)
@click.option(
    "--not-aggregate",
    "excluded",
    multiple=True,
    metavar="NAME",
    help="Only hosts in none of these aggregates.",
)
@click.option("--project", metavar="UUID", help="The guest's project, for Placement.")
@click.option("--user", metavar="UUID", help="The guest's user, for Placement.")
@placement_options
@output.option((Form.TABLE, Form.JSON, Form.YAML))
def schedule_command(
    flavor: Path,
    image: Path | None,
    strict: bool,
    given: GivenHosts,
    guest: str | None,
    scores: Path | None,
    pack: bool,
    host_timeout: float,
    aggregates: Path | None,
    zone: str,
    named: tuple[str, ...],
    excluded: tuple[str, ...],
    project: str | None,
    user: str | None,
    placement: PlacementChoice,
    form: Form,
) -> None:
    """Find a host for a guest: query, filter by NUMA nodes and thread policy, weigh, claim, pin, record.

    Hosts are those of --hosts and --agent, or the one of --topology (or --root) and --config. Without a
    Placement, what they offer is computed from these, and only their ledgers say what is held; disk and other
    classes are not checked then. An agent (--agent) makes the claim itself, in its own Placement.

    Exit code 6 if there is no valid host: the counts say how many hosts each demand eliminated.
    """
    known = known_aggregates(aggregates, placement)
    read, request = guest_request(flavor, image, given.compat, strict=strict, aggregates=known is not None)
    if known is None and zone:
        raise click.UsageError("--zone needs to know which hosts it has: add --aggregates FILE")
    demands = HostDemands(zone, dict(request.aggregate_specs) if known is not None else {})
    if known is None and (named or excluded):
        if not placement.is_given:
            raise click.UsageError("only a Placement knows aggregates: name one, or add --aggregates FILE")
        known = tuple(Aggregate(each, each) for each in {*named, *excluded} if _checked_uuid(each))
    within = request.within(tuple(memberships(demands, known or (), named, excluded)))
    if isinstance(within, Finding):
        raise failure(within.reason, within.message)
    request = within
    hosts = given.hosts(placement)
    name = _guest(guest, as_uuid=placement.is_given or bool(given.agents))
    wanted = GuestClaim(name, request.cpus, {}, "", read.name, pack, demands, project, user)
    offers = offers_of(placement, given, hosts)
    scheduler = GuestScheduler(offers, hosts, scores=_scores(scores), host_timeout=host_timeout)
    outcome = scheduler.schedule(request, wanted)
    if isinstance(outcome, NoValidHost):
        if form is not Form.TABLE:
            click.echo(output.document_text(refusal_document(outcome), form), nl=False)
        for detail in outcome.details:
            say(f"  {detail}")
        raise failure(Reason.NO_VALID_HOST, outcome.message, code=ExitCode.REFUSED)
    if form is not Form.TABLE:
        click.echo(output.document_text(placed_document(outcome), form), nl=False)
        return
    how = " (found by the fallback: it counts pinned guests as VCPU)" if outcome.by_fallback else ""
    output.tell(f"guest {outcome.guest} is on host {outcome.host}{how}\nit {pins_text(outcome.record.pins)}")
    click.echo(_pins_table(outcome.record.pins, hosts.known[outcome.host].machine), nl=False)


@click.command("delete", epilog=examples("corewise compute delete web-1 --hosts cloud/hosts"))
@click.argument("guest", shell_complete=guest_names)
@given_hosts
@placement_options
def delete_command(guest: str, given: GivenHosts, placement: PlacementChoice) -> None:
    """Release everything that GUEST holds: its claim in Placement first, then its CPUs.

    Name the Placement in which it was scheduled. Without one, only a guest that was scheduled without one is
    deleted.

    Repeat an interrupted delete to finish it. Exit code 4 if the guest is unknown.
    """
    hosts = given.hosts(placement)
    host = GuestScheduler(offers_of(placement, given, hosts, guest), hosts).delete(guest)
    click.echo(f"guest {guest} released what it held" + (f" on host {host}" if host else ""))


def known_aggregates(file: Path | None, placement: PlacementChoice) -> tuple[Aggregate, ...] | None:
    """Return the aggregates of a file, if there is one.

    Raises:
        FileUnusable: if it cannot be used.
    """
    if file is None:
        return None
    return parsed(file, functools.partial(parse_aggregates, placement=placement.is_given))


def _checked_uuid(aggregate: str) -> uuid.UUID:
    try:
        return uuid.UUID(aggregate)
    except ValueError:
        hint = "without --aggregates FILE only the UUID of an aggregate is known"
        raise click.UsageError(f"{aggregate!r} is not a UUID: {hint}") from None


def guest_request(
    flavor: Path, image: Path | None, compat: Compat, *, strict: bool, aggregates: bool = False
) -> tuple[Flavor, GuestRequest]:
    """Return the flavor, and the request that the files make; warnings go to stderr.

    Raises:
        Failure: with the reason code, if they cannot be translated.
        FileUnusable: if a file cannot be used.
    """
    properties = NO_IMAGE if image is None else parsed(image, parse_image)
    read = parsed(flavor, parse_flavor)
    request = translate(read, properties, compat=compat, strict=strict, aggregates=aggregates)
    if isinstance(request, Finding):
        raise failure(request.reason, request.message)
    for warning in request.warnings:
        say(f"warning: {warning.reason}: {warning.message}")
    return read, request


def _found(client: PlacementClient, request: GuestRequest) -> dict[str, int]:
    """Return the number of hosts that each query finds; send the fallback only if the rules say so."""
    found = {"query": len(client.candidates(str(request.query)).hosts)}
    if request.fallback is not None and (request.fallback_always or not found["query"]):
        found["fallbackQuery"] = len(client.candidates(str(request.fallback)).hosts)
    return found


def _document(request: GuestRequest, found: dict[str, int] | None) -> dict[str, Any]:
    document = {
        "query": str(request.query),
        "fallbackQuery": None if request.fallback is None else str(request.fallback),
        "fallbackWhen": _fallback_when(request),
        "guest": _guest_record(request.cpus),
        "warnings": [{"reason": each.reason, "message": each.message} for each in request.warnings],
    }
    return document if found is None else {**document, "hostsFound": found}


def _fallback_when(request: GuestRequest) -> str | None:
    if request.fallback is None:
        return None
    return "always" if request.fallback_always else "no host fits"


def _guest_record(cpus: GuestCPUs) -> dict[str, Any]:
    return {
        "vcpus": cpus.vcpus,
        "cpuPolicy": cpus.policy,
        "threadPolicy": cpus.thread_policy,
        "emulatorThreads": cpus.emulator,
        "dedicated": cpus.dedicated,
        "realtimeCPUs": str(cpus.realtime),
        "numaNodes": [
            {"cpus": str(node.cpus), "dedicatedCPUs": str(node.dedicated), "memoryMiB": node.memory_mb}
            for node in cpus.nodes
        ],
    }


def _lines(request: GuestRequest, found: dict[str, int] | None) -> Iterator[tuple[str, str]]:
    yield "Query", str(request.query)
    used = "always used too" if request.fallback_always else "used only if no host fits"
    yield "Fallback", f"{request.fallback}  ({used})" if request.fallback is not None else "none"
    yield "Guest", _guest_text(request.cpus)
    for label, hosts in (found or {}).items():
        yield ("Found" if label == QUERY else "By fallback"), count(hosts, "host")


def _guest_text(cpus: GuestCPUs) -> str:
    """Describe a guest's CPUs for people: "8 CPUs, dedicated, isolate, 1 NUMA node"."""
    parts = [count(cpus.vcpus, "CPU"), cpus.policy.value]
    if cpus.dedicated not in {0, cpus.vcpus}:
        parts[1] = f"{cpus.policy.value} ({cpus.dedicated} dedicated)"
    parts += [cpus.thread_policy.value] if cpus.thread_policy else []
    parts += [f"emulator threads {cpus.emulator.value}"] if cpus.emulator else []
    parts += [count(len(cpus.nodes), "NUMA node")] if cpus.nodes else []
    return ", ".join(parts)


def _guest(guest: str | None, *, as_uuid: bool) -> str:
    """Return the guest's name; Placement accepts only UUIDs."""
    if guest is None:
        return str(uuid.uuid4())
    if as_uuid:
        try:
            return str(uuid.UUID(guest))
        except ValueError as error:
            raise click.BadParameter(f"{guest!r} is not a UUID", param_hint="--guest") from error
    return guest


def offers_of(placement: PlacementChoice, given: GivenHosts, hosts: Hosts, guest: str = "") -> Offers:
    """Return the source of host offers: a Placement, or the hosts' files.

    Raises:
        PlacementNotNamed: if the claim of ``guest`` is to change, and is in a Placement that is not given.
    """
    if not placement.is_given:
        if guest:
            refuse_claim_in_placement(guest, hosts)
        return LocalOffers(hosts)
    from corewise_openstack.compute.placement import PlacementOffers  # noqa: PLC0415 - slow to import

    return PlacementOffers(placement.client(given.conf))


def _scores(file: Path | None) -> Mapping[str, int] | None:
    if file is None:
        return None
    try:
        scores = msgspec.json.decode(text_of(file), type=dict[str, int])
    except UNREADABLE as error:
        raise FileUnusable(
            f"{file}: {unreadable_text(error)}", hint='write {"host": 80}: whole numbers, 0 to 100'
        ) from None
    for host, score in scores.items():
        if not _WORST <= score <= _BEST:
            raise FileUnusable(f"{file}: the score of {host} is {score}, which is not from 0 to 100")
    return scores


def placed_document(placed: Placed) -> dict[str, Any]:
    """Return a guest's placement and the reasons for it, for programs."""
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


def refusal_document(outcome: NoValidHost) -> dict[str, Any]:
    """Return the number of hosts that each demand eliminated, for programs."""
    return {
        "reason": Reason.NO_VALID_HOST,
        "message": outcome.message,
        "hosts": outcome.hosts,
        "fallen": [
            {"hosts": each.hosts, "demand": each.demand, "reason": each.reason} for each in outcome.eliminated
        ],
        "details": list(outcome.details),
    }


def pins_record(pins: GuestPins) -> dict[str, Any]:
    """Return a guest's CPUs and memory on its host, for programs."""
    return {
        "cells": [
            {
                "hostNode": cell.node,
                "pins": {str(guest): cpu for guest, cpu in sorted(cell.pins.items())},
                "memoryMiB": cell.memory_mb,
            }
            for cell in pins.cells
        ],
        "emulatorCPU": pins.emulator,
        "withheldCPUs": str(pins.withheld),
        "pinnedCPUs": str(pins.cpus),
    }


def pins_text(pins: GuestPins) -> str:
    """Describe a guest's CPUs on its host in a few words."""
    if not pins.cells:
        return "floats over the shared CPUs of the host"
    nodes = ", ".join(str(cell.node) for cell in pins.cells)
    parts = [f"is on NUMA node{'s' if len(pins.cells) > 1 else ''} {nodes}"]
    parts += [f"pinned to CPUs {pins.cpus}"] if pins.cpus else []
    parts += [f"emulator threads on CPU {pins.emulator}"] if pins.emulator is not None else []
    parts += [f"CPUs {pins.withheld} kept empty"] if pins.withheld else []
    return ", ".join(parts)


def _pins_table(pins: GuestPins, host: Host) -> str:
    """Return a line for each host CPU that a guest owns, below an empty line; "" if it owns none."""
    rows = list(_rows(pins, host))
    return f"\n{output.table(_COLUMNS, rows)}" if rows else ""


def _rows(pins: GuestPins, host: Host) -> Iterator[_Row]:
    uses = [(f"CPU {guest}", cpu) for cell in pins.cells for guest, cpu in sorted(cell.pins.items())]
    uses += [("emulator threads", pins.emulator)] if pins.emulator is not None else []
    uses += [("kept empty", cpu) for cpu in pins.withheld]
    threads = {thread.cpu: thread for thread in host.topology.threads}
    for use, cpu in uses:
        if cpu in threads:
            thread = threads[cpu]
            yield use, cpu, thread.numa_node, thread.core, str(host.topology.siblings(cpu))
        else:
            yield use, cpu, host.offline.get(cpu), None, "offline"
