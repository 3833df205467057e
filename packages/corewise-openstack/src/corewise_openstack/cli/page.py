"""Compute hosts: a row for each, who holds which CPU, whether it is upgraded, and where a flavor would fit.

Records are those of ``corewise compute status``, ``reshape --dry-run`` and ``schedule``. Files and Placement
are read in a thread. A flavor is tried on ledgers in memory, so nothing is claimed; Placement is not asked
for it, so disk and other resource classes do not count, as in ``compute schedule`` without a Placement.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from corewise.cli.files import EXISTING_FOLDER
from corewise.config.decoding import Parsed
from corewise.config.machine_file import machine_document
from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.findings import Finding
from corewise_openstack.cli.guests import placed_document, refusal_document
from corewise_openstack.cli.options import PlacementChoice, running_placement
from corewise_openstack.cli.reshape import reshape_record
from corewise_openstack.cli.status import status_record
from corewise_openstack.compute.errors import LedgerUnusable
from corewise_openstack.compute.guest_files import parse_flavor, parse_image
from corewise_openstack.compute.hosts import ComputeHost, Hosts, conflicts_of, read_hosts
from corewise_openstack.compute.ledger import GuestClaim, MemoryLedger
from corewise_openstack.compute.offering import Offering, planned
from corewise_openstack.compute.offers import LocalOffers
from corewise_openstack.compute.scheduling import GuestScheduler
from corewise_openstack.compute.verdicts import NoValidHost
from corewise_openstack.tracking import NO_IMAGE, Compat, translate

if TYPE_CHECKING:
    from corewise_openstack.openstack.placement_client import PlacementClient


F = TypeVar("F", bound=Callable[..., Any])


def options(function: F) -> F:
    """Add the options that name compute hosts and a Placement to ``corewise web``."""
    folder = click.option(
        "--compute-hosts",
        type=EXISTING_FOLDER,
        metavar="DIR",
        help="Show these OpenStack hosts too: DIR/NAME has topology.json, nova.conf and ledger.json of each.",
    )
    decorated: F = folder(running_placement(function))  # type: ignore[assignment]  # click keeps the function
    return decorated


def views(options: dict[str, Any]) -> HostViews | None:
    """Take the three options out of all that were given; return the views of the hosts they name, if any."""
    folder = options.pop("compute_hosts")
    placement = PlacementChoice(options.pop("placement_url"), options.pop("os_cloud"))
    if placement.is_given and not folder:
        raise click.UsageError("a Placement needs --compute-hosts: it shows what their upgrade would move")
    if not folder:
        return None
    client = placement.client() if placement.is_given else None
    return HostViews(lambda: read_hosts(folder, Compat.SPEC), Compat.SPEC, client)


class TriedFlavor(msgspec.Struct, forbid_unknown_fields=True):
    """A flavor and an image as the files of ``compute schedule`` have them."""

    flavor: dict[str, Any]
    image: dict[str, Any] | None = None
    pack: bool = False


class FlavorNotTried(ValueError):  # noqa: N818 - an answer, not a fault
    """The flavor cannot be tried; the text says why."""


class HostViews:
    """The page's data about compute hosts; ``read`` reads them, ``client`` is that of a Placement."""

    def __init__(
        self, read: Callable[[], Hosts], compat: Compat, client: PlacementClient | None = None
    ) -> None:
        self._read, self._compat, self._client = read, compat, client

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each host, in the order of their names; one that cannot be used says why.

        Raises:
            OperationalError: if no host can be read.
        """
        hosts = self._read()
        rows = {name: _unusable(name, error) for name, error in hosts.unusable.items()}
        for name, host in hosts.known.items():
            try:
                rows[name] = _row(host)
            except LedgerUnusable as error:
                rows[name] = _unusable(name, error)
        return [rows[name] for name in sorted(rows)]

    def document(self, name: str) -> dict[str, Any] | None:
        """Return the CPUs of a host and their users, and the moves of an upgrade; None if it is unknown.

        Of a host that cannot be used, the row says why.

        Raises:
            OperationalError: if no host can be read, or Placement does not answer.
        """
        hosts = self._read()
        if name in hosts.unusable:
            return {"host": _unusable(name, hosts.unusable[name]), "status": None, "reshape": None}
        host = hosts.known.get(name)
        if host is None:
            return None
        return {
            "host": _row(host),
            "topology": machine_document(host.machine),
            "status": status_record(host),
            "reshape": self._reshape(host),
        }

    def _reshape(self, host: ComputeHost) -> dict[str, Any] | None:
        provider = self._client.find_provider(host.name) if self._client else None
        if self._client is None or provider is None:
            return None
        use = self._client.use(provider.uuid)
        guests = tuple(record.hosted(name) for name, record in host.guests().items())
        plan = planned(Offering(host.name, host.machine, host.settings, guests), use, self._compat)
        return reshape_record(host, use, plan, written=False)

    def try_flavor(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the host that would take a guest, or the hosts each demand eliminates; claim nothing.

        Raises:
            FlavorNotTried: if it is not a flavor, or one that cannot be served.
        """
        try:
            asked = msgspec.convert(body, TriedFlavor)
        except msgspec.ValidationError as error:
            raise FlavorNotTried(f"this is not a flavor: {error}") from None
        flavor = _good(parse_flavor(json.dumps(asked.flavor)))
        image = NO_IMAGE if asked.image is None else _good(parse_image(json.dumps(asked.image)))
        request = translate(flavor, image, compat=self._compat)
        if isinstance(request, Finding):
            raise FlavorNotTried(f"{request.reason}: {request.message}")
        hosts = _in_memory(self._read())
        wanted = GuestClaim(str(uuid.uuid4()), request.cpus, {}, flavor=flavor.name, pack=asked.pack)
        outcome = GuestScheduler(LocalOffers(hosts), hosts).schedule(request, wanted)
        if isinstance(outcome, NoValidHost):
            return {"placed": None, "refused": refusal_document(outcome)}
        return {"placed": placed_document(outcome), "refused": None}


def _row(host: ComputeHost) -> dict[str, Any]:
    settings, guests = host.settings, host.guests()
    return {
        "name": host.name,
        "legacy": settings.legacy,
        "dedicatedCPUs": str(settings.dedicated),
        "sharedCPUs": str(settings.shared),
        "freeDedicatedCPUs": str(host.ledger_with(guests).free),
        "guests": len(guests),
        "conflicts": len(conflicts_of(guests)),
        "reason": None,
        "problem": None,
    }


def _unusable(name: str, error: OperationalError) -> dict[str, Any]:
    return {"name": name, "reason": error.reason, "problem": error.message}


def _good(parsed: Parsed[Any]) -> Any:
    if parsed.value is None:
        raise FlavorNotTried("; ".join(map(str, parsed.errors)))
    return parsed.value


def _in_memory(hosts: Hosts) -> Hosts:
    """Return the hosts with ledgers that forget; a host that has an agent is decided about here too."""
    unusable, known = dict(hosts.unusable), {}
    for name, host in hosts.known.items():
        try:
            known[name] = replace(host, ledger=MemoryLedger(name, host.guests()), agent=None)
        except LedgerUnusable as error:
            unusable[name] = error
    return Hosts(MappingProxyType(known), MappingProxyType(unusable))
