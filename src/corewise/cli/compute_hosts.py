"""The hosts that a subcommand of ``corewise compute`` is told of: one, or a directory of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from corewise.cli.compute_inputs import (
    Decorated,
    host_options,
    machine,
    nova_conf,
    options_of,
    several,
    usable,
)
from corewise.cli.compute_placement import HOST, host_name
from corewise.cli.output import say
from corewise.compute.errors import HostUnknown
from corewise.compute.hosts import OPTIONS, ComputeHost, Hosts, options_in, read_hosts
from corewise.compute.ledger import LedgerFile, MemoryLedger
from corewise.tracking import Compat, HostedGuest, HostFacts, check_options
from corewise.tracking.options import Checked

if TYPE_CHECKING:
    from corewise.openstack.nova_conf import NovaConf

_HOSTS = click.option(
    "--hosts",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Many hosts: DIR/NAME has topology.json, nova.conf and ledger.json of each.",
)
_LEDGER = click.option(
    "--ledger",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Who holds which CPUs of the host.  [default: nobody, and nothing is recorded]",
)


@dataclass(frozen=True)
class GivenHosts:
    """What was said about hosts. ``conf`` is None without a file of configuration."""

    topology: Path | None
    root: Path | None
    config: tuple[Path, ...]
    compat: Compat
    name: str | None
    ledger: Path | None
    folder: Path | None

    @functools.cached_property
    def conf(self) -> NovaConf | None:
        """What nova.conf says."""
        return nova_conf(self.config)

    def hosts(self) -> Hosts:
        """Return all hosts; those that cannot be used are told on stderr.

        Raises:
            ComputeError: if nothing can be said about the only one.
        """
        if self.folder is None:
            host = self.host()
            return Hosts(MappingProxyType({host.name: host}), MappingProxyType({}))
        if self.topology or self.root or self.config or self.ledger:
            raise click.UsageError(
                "--hosts goes without --topology, --root, --config and --ledger: DIR has those of each host"
            )
        hosts = read_hosts(self.folder, self.compat)
        for name, error in hosts.unusable.items():
            say(f"warning: {error.reason}: host {name} is left out: {error}")
        return hosts

    def host(self) -> ComputeHost:
        """Return the one host that is meant.

        Raises:
            HostUnknown: if there is none of the name.
            ComputeError: if its files cannot be used.
        """
        if self.folder is not None:
            return self._of_many()
        name = host_name(self.name, self.conf)
        made_of = machine(self.topology, self.root)
        settings = usable(check_options(options_of(self.conf), HostFacts.of(made_of), compat=self.compat))
        ledger = MemoryLedger(name) if self.ledger is None else LedgerFile(self.ledger, name)
        ledger.read()
        return ComputeHost(name, made_of, settings, ledger)

    def held_against_options(self, host: ComputeHost, guests: Sequence[HostedGuest]) -> Checked:
        """Say what the options mean for the guests of a host; warnings are about these guests alone.

        Raises:
            ComputeError: if the file of its options cannot be used.
        """
        file = None if self.folder is None else self.folder / host.name / OPTIONS
        options = options_of(self.conf) if file is None else options_in(file)
        facts = HostFacts.of(host.machine)
        known = check_options(options, facts, compat=self.compat).warnings
        checked = check_options(options, facts, guests, self.compat)
        return replace(checked, warnings=tuple(each for each in checked.warnings if each not in known))

    def _of_many(self) -> ComputeHost:
        hosts = self.hosts()
        names = [*hosts.known, *hosts.unusable]
        name = self.name or (names[0] if len(names) == 1 else "")
        if not name:
            raise click.UsageError(f"say which host with --host: {', '.join(names)}")
        if name in hosts.unusable:
            raise hosts.unusable[name]
        if name not in hosts.known:
            raise HostUnknown(
                f"there is no host {name} in {self.folder}", hint=f"there are {', '.join(names)}"
            )
        return hosts.known[name]


def given_hosts(command: Decorated) -> Decorated:
    """Add the options; the command gets them as ``given``."""

    @functools.wraps(command)
    def with_hosts(
        *arguments: Any,
        topology: Path | None,
        root: Path | None,
        config: tuple[Path, ...],
        compat: Compat,
        name: str | None,
        ledger: Path | None,
        folder: Path | None,
        **others: Any,
    ) -> Any:
        given = GivenHosts(topology, root, config, compat, name, ledger, folder)
        return command(*arguments, given=given, **others)

    return several(_HOSTS, host_options, _LEDGER, HOST)(with_hosts)
