"""The options that the subcommands of ``corewise compute`` share, and what they name.

A host is read from a file or this machine, its options from nova.conf; many hosts are a directory. A
Placement is found by URL, cloud, nova.conf or a database file. Whatever needs a package of the extra
``openstack`` is imported only then: offline, none is needed.
"""

from __future__ import annotations

import functools
import io
import platform
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click
from click.shell_completion import CompletionItem

from corewise.cli import files
from corewise.cli.choice import one_of
from corewise.cli.completers import of_names
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import EXISTING_FOLDER, FILE
from corewise.cli.options import Decorated, Decorator, together
from corewise.cli.output import say
from corewise.config.decoding import Parsed
from corewise.config.machine_file import parse_machine
from corewise.kernel.machine import read_machine
from corewise.topology import Host
from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.errors import (
    FileUnusable,
    HostUnknown,
)
from corewise_openstack.compute.hosts import OPTIONS, ComputeHost, Hosts, nova_cpus_in, options_in, read_hosts
from corewise_openstack.compute.ledger import LedgerFile, MemoryLedger
from corewise_openstack.openstack.errors import CredentialsError, PlacementNotFound
from corewise_openstack.tracking import (
    Checked,
    Compat,
    HostedGuest,
    HostFacts,
    HostOptions,
    HostSettings,
    OptionProblem,
    check_options,
)
from corewise_openstack.vocabulary.placement import Provider

if TYPE_CHECKING:
    from corewise_openstack.openstack.nova_conf import NovaConf
    from corewise_openstack.openstack.placement_client import PlacementClient

T = TypeVar("T")

_MOST_SHOWN = 8


def failure(reason: Reason, message: str, *, code: ExitCode = ExitCode.BAD_INPUT) -> Failure:
    """Return the end of a command: ``<reason code>: <message>``."""
    return Failure(f"{reason}: {message}", hint=reason.fix, exit_code=code)


def _hosts_of(context: click.Context) -> Mapping[str, ComputeHost]:
    """Return the hosts that a command line names, to complete it; none if they cannot be used."""
    values: dict[str, Any] = {field.name: context.params.get(field.name) for field in fields(GivenHosts)}
    values |= {name: values[name] or () for name in ("config", "beside_nova", "agents")}
    values |= {"compat": Compat(values["compat"] or Compat.SPEC)}
    try:
        with redirect_stderr(io.StringIO()):
            return GivenHosts(**values).hosts().known
    except (Failure, OperationalError, click.UsageError):
        return {}


def _host_names(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    return of_names(_hosts_of(context), incomplete)


def guest_names(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete the name of a guest of the hosts that the command line names."""
    hosts = _hosts_of(context).values()
    return of_names(sorted(guest for host in hosts for guest in host.guests()), incomplete)


def _agents(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Read NAME=URL, or URL."""
    found = []
    for value in values:
        name, _, url = value.rpartition("=https://")
        url = f"https://{url}" if name else value
        try:
            parts = urlsplit(url)
            usable = parts.scheme == "https" and bool(parts.hostname) and not parts.path.strip("/")
            usable = usable and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            message = (
                f"{value!r} is not the address of an agent: write https://HOST:PORT or NAME=https://HOST:PORT"
            )
            raise click.BadParameter(message, context, parameter)
        found.append((name, url))
    return tuple(found)


COMPAT = click.option(
    "--compat",
    **one_of(Compat.SPEC),
    callback=lambda _context, _parameter, value: Compat(value),
    help="Follow the specification, or what Nova finally shipped where the two differ.",
)
CONFIG = click.option(
    "--config",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="nova.conf of the host; repeatable, later files win.  [default: nothing is configured]",
)
HOST = click.option(
    "--host",
    "name",
    metavar="NAME",
    shell_complete=_host_names,
    help="The host's name, and its provider's.  [default: from --config, else this machine's]",
)
BESIDE_NOVA = click.option(
    "--beside-nova",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="nova.conf of a nova-compute on the same host: corewise gives out none of its CPUs.",
)
_TOPOLOGY = click.option(
    "--topology",
    type=FILE,
    metavar="FILE",
    help="The host, as corewise topology -o json prints it; - is stdin.",
)
_ROOT = click.option(
    "--root",
    type=EXISTING_FOLDER,
    metavar="DIR",
    help="The host, read from DIR/proc and DIR/sys.  [default: this machine]",
)
_HOSTS = click.option(
    "--hosts",
    "folder",
    type=EXISTING_FOLDER,
    metavar="DIR",
    help="Many hosts: DIR/NAME has topology.json, nova.conf and ledger.json of each.",
)
_AGENTS = together(
    click.option(
        "--agent",
        "agents",
        multiple=True,
        metavar="[NAME=]URL",
        callback=_agents,
        help="A host whose agent (compute run --listen) serves its ledger: https://HOST:PORT; repeatable.",
    ),
    click.option(
        "--cacert", type=FILE, metavar="FILE", help="Authorities of the agents' certificates (PEM)."
    ),
    click.option("--cert", type=FILE, metavar="FILE", help="The certificate to show to agents (PEM)."),
    click.option("--key", type=FILE, metavar="FILE", help="Its private key (PEM)."),
)
_LEDGER = click.option(
    "--ledger",
    type=FILE,
    metavar="FILE",
    help="The host's ledger of CPUs and guests.  [default: no guests, nothing is recorded]",
)
_URL = click.option(
    "--placement-url", metavar="URL", help="Placement's endpoint, without Keystone (auth_strategy = noauth2)."
)
_CLOUD = click.option(
    "--os-cloud", metavar="NAME", help="A cloud in clouds.yaml: its Keystone knows where Placement is."
)
_DATABASE = click.option(
    "--placement-db",
    metavar="FILE",
    type=FILE,
    help="An embedded Placement on this SQLite file, created if it is missing.",
)
_FROM_CONFIG = click.option(
    "--placement-from-config", is_flag=True, help="The Placement of [placement] in --config."
)


host_options = together(_TOPOLOGY, _ROOT, CONFIG, COMPAT)
"""A host: ``topology``, ``root``, ``config`` and ``compat``."""


def text_of(file: Path) -> str:
    """Return the text of a file; ``-`` is stdin.

    Raises:
        FileUnusable: if it cannot be read.
    """
    try:
        return files.text_of(file)
    except Failure as error:
        raise FileUnusable(str(error)) from None


def parsed(file: Path, parse: Callable[[str], Parsed[T]]) -> T:
    """Return the parsed contents of a file; its warnings go to stderr.

    Raises:
        FileUnusable: if it has errors, naming each with line and column.
    """
    found = parse(text_of(file))
    for warning in found.warnings:
        say(f"warning: {file}: {warning}")
    if found.value is None:
        lines = [str(error) for error in found.errors[:_MOST_SHOWN]]
        more = [f"and {len(found.errors) - _MOST_SHOWN} more"] if len(found.errors) > _MOST_SHOWN else []
        raise FileUnusable("\n  ".join([f"{file} cannot be used", *lines, *more]))
    return found.value


def machine(topology: Path | None, root: Path | None) -> Host:
    """Return the host that the options name.

    Raises:
        FileUnusable: if there is none.
    """
    if topology is not None and root is not None:
        raise click.UsageError("--topology and --root exclude each other: both say what the host is")
    if topology is not None:
        return parsed(topology, parse_machine)
    where = root or Path("/")
    reading = read_machine(where)
    for problem in reading.problems:
        say(f"left out: {problem}")
    if not reading.host.topology.threads:
        hint = f"is it the root of a machine? There must be {where / 'sys/devices/system/cpu'}"
        raise FileUnusable(f"no CPU is online below {where}", hint=hint)
    return reading.host


def nova_conf(config: Sequence[Path]) -> NovaConf | None:
    """Return the contents of the configuration files; None without any."""
    if not config:
        return None
    from corewise_openstack.openstack.nova_conf import read_nova_conf  # noqa: PLC0415 - it needs oslo.config

    return read_nova_conf(config)


def host_name(
    name: str | None, conf: NovaConf | None, libvirt: str | None = None, *, beside_nova: bool = False
) -> str:
    """Return the host's name: from the option, from nova.conf, or this machine's.

    Beside Nova it is the one that libvirt reports, after which nova-compute names its provider; ``[DEFAULT]
    host`` names the service alone. Without ``libvirt``, its URI, that is this machine's.

    Raises:
        LibvirtError: if it does not answer.
    """
    if name:
        return name
    if beside_nova:
        if libvirt is None:
            return socket.gethostname()
        from corewise_openstack.openstack.libvirt import connected  # noqa: PLC0415 - slow to import

        with connected(libvirt) as connection:
            return connection.host_name()
    configured = None if conf is None else conf.get("DEFAULT", "host")
    return configured or platform.node().lower()


def checked_settings(conf: NovaConf | None, facts: HostFacts, compat: Compat) -> HostSettings:
    """Return the checked CPU settings of a host.

    Raises:
        Failure: if options have errors, with a line for each.
    """
    return usable(check_options(_options_of(conf), facts, compat=compat))


def usable(checked: Checked) -> HostSettings:
    """Return settings without errors; warnings go to stderr.

    Raises:
        Failure: with every error, a line each; the hint is that of the first.
    """
    for warning in checked.warnings:
        say(f"warning: {warning.reason}: {warning}")
    if checked.settings is None:
        lines = "\n".join(f"{error.reason}: {error}" for error in checked.errors)
        raise Failure(lines, hint=checked.errors[0].reason.fix, exit_code=ExitCode.BAD_INPUT)
    return checked.settings


def _options_of(conf: NovaConf | None) -> HostOptions:
    return HostOptions() if conf is None else HostOptions.of(conf.values)


def warning_records(warnings: Iterable[OptionProblem]) -> list[dict[str, str]]:
    """Return warnings for programs."""
    return [
        {"reason": each.reason, "option": each.option, "value": each.value, "message": each.why}
        for each in warnings
    ]


@dataclass(frozen=True)
class GivenHosts:
    """The options about hosts. ``conf`` is None without a configuration file."""

    topology: Path | None
    root: Path | None
    config: tuple[Path, ...]
    compat: Compat
    name: str | None
    ledger: Path | None
    folder: Path | None
    beside_nova: tuple[Path, ...]
    agents: tuple[tuple[str, str], ...] = ()
    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise click.UsageError("--cert and --key go together")
        if self.beside_nova:
            object.__setattr__(self, "compat", Compat.NOVA)

    @functools.cached_property
    def conf(self) -> NovaConf | None:
        """The contents of nova.conf."""
        return nova_conf(self.config or self.beside_nova)

    @property
    def are_many(self) -> bool:
        """Whether the hosts are those of a directory, or of agents."""
        return self.folder is not None or bool(self.agents)

    def hosts(self, placement: PlacementChoice | None = None) -> Hosts:
        """Return all hosts, or the one with the name; those that cannot be used are reported on stderr.

        With a ``placement`` from the configuration, --config names that beside many hosts.

        Raises:
            HostUnknown: if there is none with this name.
            ComputeError: if the only host cannot be used.
        """
        if not self.are_many:
            host = self.host()
            return Hosts(MappingProxyType({host.name: host}), MappingProxyType({}))
        config = self.config if placement is None or not placement.placement_from_config else ()
        if self.topology or self.root or config or self.ledger or self.beside_nova:
            raise click.UsageError(
                "--hosts and --agent exclude --topology, --root, --config, --beside-nova and --ledger: each "
                "host has its own; --config only goes with --placement-from-config"
            )
        hosts = self._read()
        if self.agents and not hosts.known:
            raise next(iter(hosts.unusable.values()))
        for name, error in hosts.unusable.items():
            say(f"warning: {error.reason}: host {name} is left out: {error}")
            if error.hint:
                say(f"  {error.hint}")
        if self.name is None:
            return hosts
        if self.name in hosts.unusable:
            raise hosts.unusable[self.name]
        if self.name not in hosts.known:
            names = ", ".join([*hosts.known, *hosts.unusable])
            raise HostUnknown(f"there is no host {self.name}", hint=f"there are {names}")
        return Hosts(MappingProxyType({self.name: hosts.known[self.name]}), MappingProxyType({}))

    def host(self, placement: PlacementChoice | None = None) -> ComputeHost:
        """Return the one host that is meant; ``placement`` as in ``hosts``.

        Raises:
            HostUnknown: if there is none with this name.
            ComputeError: if its files cannot be used.
        """
        if self.are_many:
            return self._of_many(placement)
        name = host_name(self.name, self.conf, beside_nova=bool(self.beside_nova))
        made_of = machine(self.topology, self.root)
        settings = checked_settings(self.conf, HostFacts.of(made_of), self.compat)
        ledger = MemoryLedger(name) if self.ledger is None else LedgerFile(self.ledger, name)
        ledger.read()
        nova_cpus = nova_cpus_in(self.beside_nova, name, made_of)
        return ComputeHost(name, made_of, settings, ledger, nova_cpus=nova_cpus)

    def checked_with_guests(self, host: ComputeHost, guests: Sequence[HostedGuest]) -> Checked:
        """Check the options of a host against its guests; warnings are about these guests alone.

        Raises:
            ComputeError: if the file of its options cannot be used.
        """
        if host.agent is not None:
            options = host.agent.options
        elif self.folder is not None:
            options = options_in(self.folder / host.name / OPTIONS)
        else:
            options = _options_of(self.conf)
        facts = HostFacts.of(host.machine)
        known = check_options(options, facts, compat=self.compat).warnings
        checked = check_options(options, facts, guests, self.compat)
        return replace(checked, warnings=tuple(each for each in checked.warnings if each not in known))

    def _read(self) -> Hosts:
        """Return the hosts of the directory, and those of agents."""
        found = [read_hosts(self.folder, self.compat)] if self.folder is not None else []
        if self.agents:
            from corewise_openstack.compute.remote import TLSFiles, remote_hosts  # noqa: PLC0415 - few need it

            found.append(remote_hosts(self.agents, TLSFiles(self.cacert, self.cert, self.key)))
        names = Counter(name for hosts in found for name in (*hosts.known, *hosts.unusable))
        if twice := [name for name, times in names.items() if times > 1]:
            raise click.UsageError(f"--hosts and --agent both name {', '.join(twice)}: leave one of them out")
        known = {name: host for hosts in found for name, host in hosts.known.items()}
        unusable = {name: error for hosts in found for name, error in hosts.unusable.items()}
        return Hosts(MappingProxyType(known), MappingProxyType(unusable))

    def _of_many(self, placement: PlacementChoice | None) -> ComputeHost:
        hosts = self.hosts(placement)
        names = [*hosts.known, *hosts.unusable]
        if len(names) > 1:
            raise click.UsageError(f"say which host with --host: {', '.join(names)}")
        if hosts.unusable:
            raise hosts.unusable[names[0]]
        return hosts.known[names[0]]


def _as_one(kind: type, argument: str, *options: Decorator) -> Decorator:
    """Return a decorator that adds options; the command gets them as one ``kind``, whose fields they are."""
    names = [field.name for field in fields(kind)]

    def decorate(command: Decorated) -> Decorated:
        @functools.wraps(command)
        def called(*arguments: Any, **given: Any) -> Any:
            values = {name: given.pop(name) for name in names}
            return command(*arguments, **{argument: kind(**values)}, **given)

        return together(*options)(called)

    return decorate


given_hosts = _as_one(GivenHosts, "given", _HOSTS, _AGENTS, host_options, BESIDE_NOVA, _LEDGER, HOST)
"""Hosts: ``given``."""


@dataclass(frozen=True, slots=True)
class PlacementChoice:
    """The options about Placement."""

    placement_url: str | None = None
    os_cloud: str | None = None
    placement_db: Path | None = None
    placement_from_config: bool = False

    def __post_init__(self) -> None:
        if sum(map(bool, self._choices)) > 1:
            raise click.UsageError(
                "--placement-url, --os-cloud, --placement-db and --placement-from-config exclude each other"
            )
        if self.placement_url and not self.placement_url.startswith(("http://", "https://")):
            raise click.UsageError("--placement-url must begin with http:// or https://")

    @property
    def _choices(self) -> tuple[object, ...]:
        return self.placement_url, self.os_cloud, self.placement_db, self.placement_from_config

    @property
    def is_given(self) -> bool:
        """Whether there is one to work against."""
        return any(self._choices)

    def client(self, conf: NovaConf | None = None) -> PlacementClient:
        """Return a client; nothing is sent yet.

        Raises:
            OpenStackError: if something is missing to make it.
        """
        from corewise_openstack.openstack import placement_access as access  # noqa: PLC0415

        if self.placement_url:
            return access.endpoint_client(self.placement_url.rstrip("/"))
        if self.os_cloud:
            return access.cloud_client(self.os_cloud)
        if self.placement_db:
            from corewise_openstack.openstack.embedded import in_process_client, start  # noqa: PLC0415

            return in_process_client(start(self.placement_db))
        if conf is None:
            raise CredentialsError("--placement-from-config needs the file: name it with --config")
        return access.nova_conf_client(conf)


running_placement = together(_URL, _CLOUD)
"""A Placement that runs somewhere: ``placement_url`` and ``os_cloud``."""

placement_options = _as_one(PlacementChoice, "placement", _URL, _CLOUD, _DATABASE, _FROM_CONFIG)
"""A Placement: ``placement``."""


def provider_of(client: PlacementClient, name: str) -> Provider:
    """Return the provider of a host.

    Raises:
        NotFound: if Placement has none.
    """
    found = client.find_provider(name)
    if found is None:
        hint = "name the host with --host, or make its provider: corewise compute run --once"
        message = f"Placement has no resource provider {name}"
        raise PlacementNotFound(message, status=404, request="GET /resource_providers", hint=hint)
    return found
