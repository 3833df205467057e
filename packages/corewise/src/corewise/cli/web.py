"""``corewise web``: serve the page that shows the cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from corewise.cli.choice import Choice
from corewise.cli.compute_options import PlacementChoice, running_placement
from corewise.cli.files import EXISTING_FOLDER, TEXT_FILE
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
    help="A name by which browsers call this page, beside localhost; may be repeated.",
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
@click.option(
    "--compute-hosts",
    type=EXISTING_FOLDER,
    metavar="DIR",
    help="Show these OpenStack hosts too: DIR/NAME has topology.json, nova.conf and ledger.json of each.",
)
@running_placement
@click.option(
    "--prometheus",
    metavar="URL",
    default="",
    help="Prometheus that has nodes' memory bandwidth and cache: each node is shown beside the others.",
)
@click.option(
    "--preset",
    type=Choice([each.value for each in Preset]),
    default=Preset.COREWISE.value,
    show_default=True,
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
    placement_url: str | None,
    os_cloud: str | None,
    prometheus: str,
    preset: str,
    **options: Any,
) -> None:
    """Show the cluster as a web page: nodes, pods, offline work, what is wrong, and what would be if.

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
    placement = PlacementChoice(placement_url, os_cloud)
    if placement.is_given and not options["compute_hosts"]:
        raise click.UsageError("a Placement needs --compute-hosts: it shows what their upgrade would move")
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
        placement=placement.client() if placement.is_given else None,
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
