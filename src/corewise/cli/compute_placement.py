"""Which Placement a subcommand of ``corewise compute`` works against, if any.

What needs a package of the extra ``openstack`` is imported when it is needed: offline, nothing of it is.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corewise.cli.compute_inputs import Decorated, several
from corewise.openstack.errors import CredentialsError, NotFound
from corewise.vocabulary.placement import Provider

if TYPE_CHECKING:
    from corewise.openstack.nova_conf import NovaConf
    from corewise.openstack.placement_client import PlacementClient

_URL = click.option(
    "--placement-url", metavar="URL", help="Placement's endpoint, without Keystone (auth_strategy = noauth2)."
)
_CLOUD = click.option(
    "--os-cloud", metavar="NAME", help="A cloud of clouds.yaml, whose Keystone says where Placement is."
)
_DATABASE = click.option(
    "--placement-db",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="An embedded Placement on this SQLite file, which is made if need be.",
)
_FROM_CONFIG = click.option(
    "--placement-from-config", is_flag=True, help="Placement as [placement] of --config has it."
)
HOST = click.option(
    "--host",
    "name",
    metavar="NAME",
    help="The host's name, and its provider's.  [default: as --config has it, else this machine's]",
)


@dataclass(frozen=True, slots=True)
class PlacementChoice:
    """What was said about Placement."""

    url: str | None = None
    cloud: str | None = None
    database: Path | None = None
    from_config: bool = False

    @property
    def is_given(self) -> bool:
        """Whether there is one to work against."""
        return bool(self.url or self.cloud or self.database or self.from_config)

    def client(self, conf: NovaConf | None = None) -> PlacementClient:
        """Return a client; nothing is sent yet.

        Raises:
            OpenStackError: if something is missing to make it.
        """
        from corewise.openstack import placement_access as access  # noqa: PLC0415

        if self.url:
            return access.endpoint_client(self.url.rstrip("/"))
        if self.cloud:
            return access.cloud_client(self.cloud)
        if self.database:
            from corewise.openstack.embedded import in_process_client, start  # noqa: PLC0415

            return in_process_client(start(self.database))
        if conf is None:
            raise CredentialsError("--placement-from-config needs the file: name it with --config")
        return access.nova_conf_client(conf)


def placement_options(command: Decorated) -> Decorated:
    """Add the options; the command gets them as ``placement``."""

    @functools.wraps(command)
    def with_choice(
        *arguments: Any,
        placement_url: str | None,
        os_cloud: str | None,
        placement_db: Path | None,
        placement_from_config: bool,
        **others: Any,
    ) -> Any:
        choice = PlacementChoice(placement_url, os_cloud, placement_db, placement_from_config)
        given = [choice.url, choice.cloud, choice.database, choice.from_config]
        if sum(map(bool, given)) > 1:
            raise click.UsageError(
                "--placement-url, --os-cloud, --placement-db and --placement-from-config exclude each other"
            )
        return command(*arguments, placement=choice, **others)

    decorate: Callable[[Decorated], Decorated] = several(_URL, _CLOUD, _DATABASE, _FROM_CONFIG)
    return decorate(with_choice)


def host_name(name: str | None, conf: NovaConf | None) -> str:
    """Return what a host is called: as it is said, as nova.conf has it, or as this machine is."""
    configured = None if conf is None else conf.get("DEFAULT", "host")
    return name or configured or platform.node().lower()


def provider_of(client: PlacementClient, name: str) -> Provider:
    """Return the provider of a host.

    Raises:
        NotFound: if Placement has none.
    """
    found = client.find_provider(name)
    if found is None:
        hint = "name the host with --host, or make its provider: corewise compute run --once"
        message = f"Placement has no resource provider {name}"
        raise NotFound(message, status=404, request="GET /resource_providers", hint=hint)
    return found
