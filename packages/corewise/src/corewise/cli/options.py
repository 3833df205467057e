"""Options that commands share: how they find a cluster, how programs listen and log, durations and sizes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from functools import reduce
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from corewise.cli.choice import Choice, one_of
from corewise.cli.completers import context_names
from corewise.cli.files import TEXT_FILE
from corewise.cli.same_cluster import remember
from corewise.quantities import Quantity, QuantityError, RatioError
from corewise.service.logs import LogFormat
from corewise.service.options import Address, AddressError, ServiceAddress
from corewise.vocabulary.names import CONFIG_NAMESPACE, SYSTEM_NAMESPACE
from corewise.vocabulary.qos import DEFAULT_NAMESPACES

T = TypeVar("T")
Decorated = Callable[..., Any]
Decorator = Callable[[Decorated], Decorated]


def together(*options: Decorator) -> Decorator:
    """Return a decorator that adds these options to a command, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def examples(*commands: str, note: str = "") -> str:
    """Return the end of a command's help: commands that can be pasted, and a note below them."""
    lines = [line for command in commands for line in command.splitlines()]
    shown = "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
    return f"{shown}\n\n{note}" if note else shown


def named(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse the empty name of an object, as the callback of an argument: servers take it for all of them."""
    if value is not None and not value.rpartition("/")[2]:
        raise click.BadParameter("it is empty: write a name", context, parameter)
    return value


QOS_NAMESPACES = click.option(
    "--restricted-qos-namespace",
    multiple=True,
    metavar="NAMESPACE",
    default=DEFAULT_NAMESPACES,
    show_default=True,
    help="A namespace whose pods may be LSE or SYSTEM; may be repeated. The same for agents and scheduler.",
)


connection_options = together(
    click.option(
        "--kubeconfig",
        type=TEXT_FILE,
        metavar="FILE",
        default=None,
        callback=remember,
        help="Kubeconfig file; else KUBECONFIG, ~/.kube/config, or the Pod's own account.",
    ),
    click.option(
        "--context",
        metavar="NAME",
        default=None,
        callback=remember,
        shell_complete=context_names,
        help="Context of the kubeconfig to use.",
    ),
)
"""``--kubeconfig`` and ``--context``."""
CONFIG_NAMESPACE_OPTION = click.option(
    "--config-namespace",
    envvar="COREWISE_CONFIG_NAMESPACE",
    default=CONFIG_NAMESPACE,
    show_default=True,
    callback=remember,
    help="Namespace of the ConfigMap slo-controller-config, or $COREWISE_CONFIG_NAMESPACE.",
)
cluster_options = together(connection_options, CONFIG_NAMESPACE_OPTION)
"""``--kubeconfig``, ``--context`` and ``--config-namespace``."""
SYSTEM_NAMESPACE_OPTION = click.option(
    "--namespace",
    default=SYSTEM_NAMESPACE,
    show_default=True,
    help="Namespace of its Lease and its Secrets.",
)


def read(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback that reads an option with one of the programs' own parsers."""

    def convert(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else parse(value)
        except (AddressError, QuantityError, RatioError) as error:
            raise click.BadParameter(str(error), context, parameter) from error

    return convert


METRICS_AUTH = click.option(
    "--metrics-auth",
    type=Choice(["none", "token"]),
    default="none",
    show_default=True,
    callback=lambda _context, _parameter, value: value == "token",
    help="token: serve /metrics only to bearer tokens that the API server allows to read it.",
)
ADDRESS: dict[str, Any] = {"metavar": "HOST:PORT", "callback": read(Address.parse)}
SERVICE: dict[str, Any] = {"metavar": "NAMESPACE/NAME[:PORT]", "callback": read(ServiceAddress.parse)}


TLS_OPTIONS = together(
    click.option(
        "--tls-cert",
        type=TEXT_FILE,
        default="",
        metavar="FILE",
        help="Serving certificate (PEM), reloaded when the file changes.",
    ),
    click.option("--tls-key", type=TEXT_FILE, default="", metavar="FILE", help="Its private key (PEM)."),
    click.option(
        "--client-ca",
        type=TEXT_FILE,
        default="",
        metavar="FILE",
        help="Require client certificates signed by these authorities (PEM); reloaded when the file changes.",
    ),
)
LEADER_ELECT = click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Write only while this replica holds the Lease; turn it off to run without one.",
)
METRICS_LISTEN = click.option(
    "--metrics-listen", help="Serve /livez, /readyz and /metrics here (HTTP).", **ADDRESS
)
LOG_OPTIONS = together(
    click.option(
        "--log-format",
        **one_of(LogFormat.TEXT),
        help="Format of the log, which goes to stderr.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Log more."),
)


def _whole_bytes(text: str) -> int:
    size = Quantity.parse(text).units
    if size < 1:
        raise QuantityError(f"{text!r} is less than one byte: write 8Mi")
    return size


SIZE: dict[str, Any] = {"metavar": "SIZE", "callback": read(_whole_bytes)}


def check_webhooks(options: Mapping[str, Any]) -> None:
    """Check the options by which webhooks are reached and certified.

    Raises:
        click.UsageError: if they do not go together.
    """
    if bool(options["tls_cert"]) != bool(options["tls_key"]):
        raise click.UsageError("--tls-cert and --tls-key go together")
    if options["webhook_url"]:
        check_https(options["webhook_url"], "--webhook-url", "the API server calls no other")


def check_https(url: str, option: str, why: str, *, path: bool = True) -> None:
    """Check a URL by which others reach a program of ours; ``why`` it must be https, and may have a path.

    Raises:
        click.BadParameter: if it is none.
    """
    if not url.startswith("https://"):
        raise click.BadParameter(f"must begin with https://: {why}", param_hint=option)
    try:
        parts = urlsplit(url)
        usable = parts.hostname and parts.port != 0 and not parts.netloc.endswith(":")
        usable = usable and (path or parts.path in {"", "/"})
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or set(url) & set(" @?#"):
        form = f"https://HOST[:PORT]{'[/PATH]' if path else ''}"
        raise click.BadParameter(f"{url!r} is not {form}", param_hint=option)


def run_program(
    work: Coroutine[Any, Any, T], *, stopping: asyncio.Event | None = None, drain: float = 0.0
) -> T | None:
    """Run a program until it is done, or a signal ends it in order: see ``run_until_signal``."""
    from corewise.service.program import run_until_signal  # noqa: PLC0415 - slow, and --help needs none

    return asyncio.run(run_until_signal(work, stopping=stopping, drain=drain))


_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]+)?)(s|m|h|d|)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Read a duration, as the callback of an option."""
    if value is None:
        return None
    match = _DURATION.fullmatch(value.strip())
    if match is None or float(match[1]) == 0:
        raise click.BadParameter(f"{value!r} is not a duration: write 60s, 5m, 1h or 7d", context, parameter)
    return float(match[1]) * _UNITS[match[2]]


def duration(*names: str, **settings: Any) -> Decorator:
    """Return an option that is a duration; the command gets seconds."""
    return click.option(
        *names, metavar="TIME", **{"callback": seconds, "show_default": "default" in settings, **settings}
    )
