"""``corewise compute request``: the query that a flavor and an image make, or why they make none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corewise.cli import output
from corewise.cli.compute_options import (
    COMPAT,
    CONFIG,
    FILE,
    PlacementChoice,
    failure,
    nova_conf,
    parsed,
    placement_options,
    several,
)
from corewise.cli.output import Form, count, say
from corewise.compute.guest_files import parse_flavor, parse_image
from corewise.tracking.flavor import NO_IMAGE, Flavor, RequestRefusal
from corewise.tracking.options import Compat
from corewise.tracking.request import GuestRequest, translate
from corewise.vocabulary.guests import GuestCPUs

if TYPE_CHECKING:
    from corewise.openstack.placement_client import PlacementClient

QUERY = "query"
_LABEL_WIDTH = 13

request_options = several(
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
)
"""A guest: ``flavor`` and ``image``."""


@click.command()
@request_options
@COMPAT
@CONFIG
@placement_options
@output.option(
    (Form.TABLE, Form.JSON, Form.YAML, QUERY),
    help_text="Output form; query is exactly the string that is sent.",
)
def command(
    flavor: Path,
    image: Path | None,
    compat: Compat,
    config: tuple[Path, ...],
    placement: PlacementChoice,
    form: str,
) -> None:
    """Turn a flavor and an image into the query to Placement, and its fallback.

    With a Placement, it is asked too, and says how many hosts each query finds. Nothing is claimed.
    """
    _, request = guest_request(flavor, image, compat)
    found = None
    if placement.is_given:
        found = _found(placement.client(nova_conf(config)), request)
    if form == QUERY:
        click.echo(request.query)
    elif form == Form.TABLE:
        for label, words in _lines(request, found):
            click.echo(f"{label + ':':<{_LABEL_WIDTH}}{words}")
    else:
        click.echo(output.document_text(_document(request, found), Form(form)), nl=False)


def guest_request(flavor: Path, image: Path | None, compat: Compat) -> tuple[Flavor, GuestRequest]:
    """Return the flavor, and the request that the files make; warnings go to stderr.

    Raises:
        Failure: with the reason code, if they cannot be translated.
        FileUnusable: if a file cannot be used.
    """
    properties = NO_IMAGE if image is None else parsed(image, parse_image)
    read = parsed(flavor, parse_flavor)
    request = translate(read, properties, compat=compat)
    if isinstance(request, RequestRefusal):
        raise failure(request.reason, request.message)
    for warning in request.warnings:
        say(f"warning: {warning.reason}: {warning.message}")
    return read, request


def _found(client: PlacementClient, request: GuestRequest) -> dict[str, int]:
    """Return how many hosts each query finds; the fallback is sent only if the rules say so."""
    found = {"query": len(client.candidates(str(request.query)).providers)}
    if request.fallback is not None and (request.fallback_always or not found["query"]):
        found["fallbackQuery"] = len(client.candidates(str(request.fallback)).providers)
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
    """Return when the fallback is sent."""
    if request.fallback is None:
        return None
    return "always" if request.fallback_always else "nothing found"


def _guest_record(cpus: GuestCPUs) -> dict[str, Any]:
    """Return what a guest is promised, for programs."""
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
    when = _fallback_when(request)
    yield "Fallback", f"{request.fallback}  (asked: {when})" if when else "none"
    yield "Guest", _guest_text(request.cpus)
    for label, hosts in (found or {}).items():
        yield ("Found" if label == QUERY else "By fallback"), count(hosts, "host")


def _guest_text(cpus: GuestCPUs) -> str:
    """Return what a guest is promised, for people: "8 CPUs, dedicated, isolate, 1 NUMA node"."""
    parts = [count(cpus.vcpus, "CPU"), cpus.policy.value]
    if cpus.dedicated not in {0, cpus.vcpus}:
        parts[1] = f"{cpus.policy.value} ({cpus.dedicated} dedicated)"
    parts += [cpus.thread_policy.value] if cpus.thread_policy else []
    parts += [f"emulator threads {cpus.emulator.value}"] if cpus.emulator else []
    parts += [count(len(cpus.nodes), "NUMA node")] if cpus.nodes else []
    return ", ".join(parts)
