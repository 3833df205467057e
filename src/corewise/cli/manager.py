"""``corewise manager``: run the manager, in a Pod or from outside the cluster."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable
from typing import Any

import click

from corewise.cli.cluster import cluster_options, find_cluster, run
from corewise.cli.errors import ExitCode, Failure
from corewise.kube.config import ClusterConfig
from corewise.manager.options import KUBELET_USER, LARGEST_AMPLIFICATION, ManagerOptions
from corewise.manager.program import Manager, run_manager
from corewise.quantities import ONE, Ratio, RatioError
from corewise.service.logs import LogFormat, configure
from corewise.service.options import Address, AddressError, OptionsError
from corewise.service.webhooks.options import ServiceAddress

_DRAIN = 5.0
"""Seconds; kube-proxy and kube-apiserver follow a change of endpoints within one or two."""


def _read(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback that reads an option with one of the manager's own parsers."""

    def convert(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else parse(value)
        except (AddressError, RatioError) as error:
            raise click.BadParameter(str(error), context, parameter) from error

    return convert


_ADDRESS: dict[str, Any] = {"metavar": "HOST:PORT", "callback": _read(Address.parse)}
_SERVICE: dict[str, Any] = {"metavar": "NAMESPACE/NAME[:PORT]", "callback": _read(ServiceAddress.parse)}
_RATIO: dict[str, Any] = {"metavar": "RATIO", "callback": _read(Ratio.parse)}


@click.command()
@cluster_options
@click.option("--webhook-listen", help="Serve the webhooks here (HTTPS).", **_ADDRESS)
@click.option("--webhook-url", default="", help="Base URL by which the API server reaches the webhooks.")
@click.option("--webhook-service", **_SERVICE, help="Service by which it reaches them, within the cluster.")
@click.option(
    "--manage-webhooks",
    is_flag=True,
    help="Make and rotate the webhooks' certificates, and install the webhook configurations.",
)
@click.option("--tls-cert", default="", help="Serving certificate (PEM), reloaded when the file changes.")
@click.option("--tls-key", default="", help="Its private key (PEM).")
@click.option("--metrics-listen", help="Serve /livez, /readyz and /metrics here (HTTP).", **_ADDRESS)
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@click.option("--dry-run", is_flag=True, help="Write nothing; print on stdout what would be done.")
@click.option(
    "--quiet-heartbeats/--no-quiet-heartbeats",
    default=True,
    show_default=True,
    help="Do not store kubelets' mere heartbeats. Off for kubelets that report less often than every 30 s.",
)
@click.option(
    "--kubelet-user",
    "kubelet_users",
    multiple=True,
    default=(KUBELET_USER,),
    show_default=True,
    help="Kubelets' user name, or its beginning before the node's name. Repeatable.",
)
@click.option(
    "--largest-amplification",
    **_RATIO,
    default=str(LARGEST_AMPLIFICATION),
    show_default=True,
    help="Largest amplification ratio.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="Nodes written at a time.",
)
@click.option(
    "--log-format", type=click.Choice([f.value for f in LogFormat]), default="text", show_default=True
)
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def command(
    kubeconfig: str | None, context: str | None, log_format: str, verbose: bool, **options: Any
) -> None:
    """Bring every node to its normalization and amplification ratios, and serve the webhooks.

    Runs until SIGTERM or SIGINT; then the lease is released and reviews in flight are answered.
    """
    manager_options = ManagerOptions(**_checked(options))
    configure(LogFormat(log_format), verbose=verbose)
    cluster = find_cluster(kubeconfig, context)
    try:
        run(_until_told(manager_options, cluster))
    except OptionsError as error:
        raise Failure(str(error), exit_code=ExitCode.USAGE) from error


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    if bool(options["tls_cert"]) != bool(options["tls_key"]):
        raise click.UsageError("--tls-cert and --tls-key go together")
    if options["manage_webhooks"] and not options["webhook_listen"]:
        raise click.UsageError("--manage-webhooks needs --webhook-listen: nobody would answer the webhooks")
    if options["webhook_url"] and not options["webhook_url"].startswith("https://"):
        raise click.BadParameter(
            "must begin with https://: the API server calls no other", param_hint="--webhook-url"
        )
    if not all(options["kubelet_users"]):
        raise click.BadParameter("must not be empty", param_hint="--kubelet-user")
    if options["largest_amplification"] < ONE:
        raise click.BadParameter(f"must be at least {ONE}", param_hint="--largest-amplification")
    return options


async def _until_told(options: ManagerOptions, cluster: ClusterConfig) -> None:
    """Run the manager until a signal ends it in order.

    Behind a Service, SIGTERM lets it answer a little longer: until every node of the cluster has heard that
    this replica is not ready any more, reviews are still sent to it.
    """
    loop = asyncio.get_running_loop()
    running: list[Manager] = []
    task = loop.create_task(
        run_manager(options, cluster, write=_print, started=running.append, synced=_spare_the_caches)
    )

    def stop() -> None:
        for manager in running:
            manager.stopping = True
        task.cancel()

    def drain() -> None:
        for manager in running:
            manager.stopping = True
        loop.call_later(_DRAIN if options.webhook_service else 0, stop)

    loop.add_signal_handler(signal.SIGINT, stop)
    loop.add_signal_handler(signal.SIGTERM, drain)
    try:
        await task
    except asyncio.CancelledError:
        if not (running and running[0].stopping):
            raise


def _spare_the_caches() -> None:
    """Take what the caches hold out of the collector's way: it stays, and each walk stalls the webhooks."""
    gc.collect()
    gc.freeze()


def _print(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()
