"""What the commands that run a program with webhooks have in common: addresses, certificates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from corewise.quantities import Quantity, QuantityError, RatioError
from corewise.service.options import Address, AddressError
from corewise.service.webhooks.options import ServiceAddress


def read(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback that reads an option with one of the programs' own parsers."""

    def convert(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else parse(value)
        except (AddressError, QuantityError, RatioError) as error:
            raise click.BadParameter(str(error), context, parameter) from error

    return convert


CLIENT_CA = click.option(
    "--client-ca",
    default="",
    metavar="FILE",
    help="Demand client certificates signed by these authorities (PEM); read again when the file changes.",
)
METRICS_AUTH = click.option(
    "--metrics-auth",
    type=click.Choice(["none", "token"]),
    default="none",
    show_default=True,
    callback=lambda _context, _parameter, value: value == "token",
    help="token: serve /metrics to bearer tokens whose user may get it, as the API server says.",
)
ADDRESS: dict[str, Any] = {"metavar": "HOST:PORT", "callback": read(Address.parse)}
SERVICE: dict[str, Any] = {"metavar": "NAMESPACE/NAME[:PORT]", "callback": read(ServiceAddress.parse)}


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
    if options["webhook_url"] and not options["webhook_url"].startswith("https://"):
        raise click.BadParameter(
            "must begin with https://: the API server calls no other", param_hint="--webhook-url"
        )
