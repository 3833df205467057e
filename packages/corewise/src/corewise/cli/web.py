"""``corewise web``: serve the page that shows the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import click

from corewise.cli.choice import Choice, one_of
from corewise.cli.extensions import part
from corewise.cli.files import TEXT_FILE
from corewise.cli.options import (
    ADDRESS,
    LOG_OPTIONS,
    METRICS_LISTEN,
    cluster_options,
    examples,
    run_program,
)
from corewise.cli.output import say
from corewise.config.interference.metrics import Preset
from corewise.kube.config import load_config
from corewise.prometheus.client import ServerURLError, checked_url
from corewise.service.logs import LogFormat, configure
from corewise.service.options import Address
from corewise.views.page.hosts import HostTable

F = TypeVar("F", bound=Callable[..., Any])


class HostsPart(Protocol):
    """The options and the views of OpenStack hosts, which corewise-openstack adds."""

    def options(self, function: F) -> F:
        """Add the options to the command."""

    def views(self, options: dict[str, Any]) -> HostTable | None:
        """Take the options out of all that were given; return what the page shows, None without hosts."""


class NoHosts:
    """Where corewise-openstack is not installed: no option, and no host."""

    def options(self, function: F) -> F:
        return function

    def views(self, _options: dict[str, Any]) -> None:
        return None


_HOSTS: HostsPart = part("hosts-page") or NoHosts()
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@click.command(
    epilog=examples(
        "corewise web",
        "corewise web --listen :8600 --tls-cert tls.crt --tls-key tls.key --auth token --host web.example",
    )
)
@cluster_options
@click.option("--listen", default="127.0.0.1:8600", show_default=True, help="Serve the page here.", **ADDRESS)
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="A host name of this page for browsers, in addition to localhost; may be repeated.",
)
@click.option(
    "--tls-cert", type=TEXT_FILE, default="", metavar="FILE", help="Serving certificate (PEM), reloaded."
)
@click.option("--tls-key", type=TEXT_FILE, default="", metavar="FILE", help="Its private key (PEM).")
@click.option(
    "--auth",
    type=Choice(["none", "token"]),
    default="none",
    show_default=True,
    help="token: show only what the API server lets the caller's bearer token list.",
)
@_HOSTS.options
@click.option(
    "--prometheus",
    metavar="URL",
    default="",
    help="Prometheus that has nodes' memory bandwidth and cache: each node is shown beside the others.",
)
@click.option(
    "--preset",
    **one_of(Preset.COREWISE),
    help="The exporter whose series Prometheus has.",
)
@METRICS_LISTEN
@LOG_OPTIONS
def command(
    kubeconfig: str | None,
    context: str | None,
    config_namespace: str,
    listen: Address,
    tls_cert: str,
    tls_key: str,
    auth: str,
    log_format: str,
    verbose: bool,
    prometheus: str,
    preset: str,
    **options: Any,
) -> None:
    """Show the cluster as a web page: nodes, pods, offline work, problems, and what-if.

    The page reads and writes nothing. What it shows is what corewise nodes, top, explain and plan print with
    -o json, as it changes. It is served to this machine alone; another address needs --tls-cert, --tls-key
    and --auth token, because whoever reaches the page sees all nodes and pods.
    """
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key go together")
    if listen.host not in _LOOPBACK and not (tls_cert and auth == "token"):
        raise click.UsageError(
            f"{listen} can be reached from other machines: add --tls-cert, --tls-key and --auth token, "
            "or listen on 127.0.0.1"
        )
    shown = _HOSTS.views(options)
    if prometheus:
        try:
            checked_url(prometheus)
        except ServerURLError as error:
            raise click.BadParameter(f"{error}; {error.hint}", param_hint="--prometheus") from error
    configure(LogFormat(log_format), verbose=verbose)
    from corewise.cli.web_page import WebOptions, run_page  # noqa: PLC0415 - slow, and --help needs none

    stopping = asyncio.Event()
    page = WebOptions(
        listen=listen,
        config_namespace=config_namespace,
        tls_cert=tls_cert,
        tls_key=tls_key,
        auth=auth == "token",
        compute_hosts=shown,
        prometheus=prometheus,
        preset=Preset(preset),
        **options,
    )
    work = run_page(
        page,
        load_config(kubeconfig, context),
        stopping=stopping,
        ready=lambda url: say(f"the page is at {url}"),
    )
    run_program(work, stopping=stopping)
