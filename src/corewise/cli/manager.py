"""``corewise manager``: run the manager, in a Pod or from outside the cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from corewise.cli.cluster import cluster_options, find_cluster, run
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.serving import ADDRESS, CLIENT_CA, METRICS_AUTH, SERVICE, check_webhooks, read
from corewise.kube.config import ClusterConfig
from corewise.manager.options import KUBELET_USER, LARGEST_AMPLIFICATION, ManagerOptions
from corewise.manager.program import Manager, run_manager
from corewise.quantities import ONE, Ratio
from corewise.service.ending import until_told
from corewise.service.logs import LogFormat, configure
from corewise.service.options import OptionsError

_RATIO: dict[str, Any] = {"metavar": "RATIO", "callback": read(Ratio.parse)}


@click.command()
@cluster_options
@click.option("--webhook-listen", help="Serve the webhooks here (HTTPS).", **ADDRESS)
@click.option("--webhook-url", default="", help="Base URL by which the API server reaches the webhooks.")
@click.option("--webhook-service", **SERVICE, help="Service by which it reaches them, within the cluster.")
@click.option(
    "--manage-webhooks",
    is_flag=True,
    help="Make and rotate the webhooks' certificates, and install the webhook configurations.",
)
@click.option("--tls-cert", default="", help="Serving certificate (PEM), reloaded when the file changes.")
@click.option("--tls-key", default="", help="Its private key (PEM).")
@CLIENT_CA
@click.option("--metrics-listen", help="Serve /livez, /readyz and /metrics here (HTTP).", **ADDRESS)
@METRICS_AUTH
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
        behind_service = manager_options.webhook_service is not None
        run(until_told(partial(_run, manager_options, cluster), behind_service=behind_service))
    except OptionsError as error:
        raise Failure(str(error), exit_code=ExitCode.USAGE) from error


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    check_webhooks(options)
    if options["manage_webhooks"] and not options["webhook_listen"]:
        raise click.UsageError("--manage-webhooks needs --webhook-listen: nobody would answer the webhooks")
    if not all(options["kubelet_users"]):
        raise click.BadParameter("must not be empty", param_hint="--kubelet-user")
    if options["largest_amplification"] < ONE:
        raise click.BadParameter(f"must be at least {ONE}", param_hint="--largest-amplification")
    return options


async def _run(
    options: ManagerOptions,
    cluster: ClusterConfig,
    started: Callable[[Manager], None],
    synced: Callable[[], None],
) -> None:
    await run_manager(options, cluster, write=_print, started=started, synced=synced)


def _print(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()
