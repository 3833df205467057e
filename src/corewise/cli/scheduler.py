"""``corewise scheduler``: run the scheduler extender and the binding gate, in a Pod or from outside."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from corewise.cli.cluster import cluster_options, find_cluster, run
from corewise.cli.errors import ExitCode, Failure
from corewise.kube.config import ClusterConfig
from corewise.prometheus.client import checked_url
from corewise.prometheus.errors import AddressError
from corewise.scheduler.configuration import (
    DEFAULTS,
    SchedulerConfiguration,
    SchedulerConfigurationError,
    parse_configuration,
)
from corewise.scheduler.options import SchedulerOptions
from corewise.scheduler.program import Scheduler, run_scheduler
from corewise.scheduler.stanza import SERVICE_URL, scheduler_configuration
from corewise.service.logs import LogFormat, configure
from corewise.service.options import Address, OptionsError
from corewise.service.options import AddressError as ListenError
from corewise.service.webhooks.options import ServiceAddress

_DRAIN = 5.0
"""Seconds; kube-proxy and kube-apiserver follow a change of endpoints within one or two."""


def _read(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback that reads an option with one of the scheduler's own parsers."""

    def convert(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else parse(value)
        except ListenError as error:
            raise click.BadParameter(str(error), context, parameter) from error

    return convert


_ADDRESS: dict[str, Any] = {"metavar": "HOST:PORT", "callback": _read(Address.parse)}
_SERVICE: dict[str, Any] = {"metavar": "NAMESPACE/NAME[:PORT]", "callback": _read(ServiceAddress.parse)}


@click.group(invoke_without_command=True)
@cluster_options
@click.option("--listen", help="Serve extender and binding gate here (HTTPS).", **_ADDRESS)
@click.option("--webhook-url", default="", help="Base URL by which the API server reaches the gate.")
@click.option("--webhook-service", **_SERVICE, help="Service by which it reaches it, within the cluster.")
@click.option(
    "--manage-webhooks",
    is_flag=True,
    help="Make and rotate the certificates, and install the gate's webhook configuration.",
)
@click.option("--tls-cert", default="", help="Serving certificate (PEM), reloaded when the file changes.")
@click.option("--tls-key", default="", help="Its private key (PEM).")
@click.option("--metrics-listen", help="Serve /livez, /readyz and /metrics here (HTTP).", **_ADDRESS)
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Scoring, interference, and how many decisions to remember; read again when it changes.",
)
@click.option(
    "--prometheus", metavar="URL", default="", help="Where nodes' memory bandwidth and cache are known."
)
@click.option(
    "--log-format", type=click.Choice([f.value for f in LogFormat]), default="text", show_default=True
)
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
@click.pass_context
def command(called: click.Context, /, **options: Any) -> None:
    """Answer kube-scheduler as its extender, and check every binding at the gate.

    Runs until SIGTERM or SIGINT; then the lease is released and calls in flight are answered.
    """
    if called.invoked_subcommand is None:
        _serve(**options)


@command.command("config")
@click.option(
    "--url", default=SERVICE_URL, show_default=True, help="Where kube-scheduler reaches the extender."
)
@click.option("--ca-file", default="", help="File, on kube-scheduler's host, of the authority to trust.")
def config_command(url: str, ca_file: str) -> None:
    """Print the KubeSchedulerConfiguration by which kube-scheduler asks the extender."""
    if not url.startswith(("https://", "http://")):
        raise click.BadParameter("must begin with https:// or http://", param_hint="--url")
    click.echo(scheduler_configuration(url, ca_file), nl=False)


def _serve(
    *,
    kubeconfig: str | None,
    context: str | None,
    config_namespace: str,
    config_file: str | None,
    log_format: str,
    verbose: bool,
    **options: Any,
) -> None:
    configuration = _configuration(config_file)
    checked = SchedulerOptions(
        namespace=config_namespace,
        configuration=configuration,
        configuration_file=config_file or "",
        **_checked(options, configuration),
    )
    configure(LogFormat(log_format), verbose=verbose)
    cluster = find_cluster(kubeconfig, context)
    try:
        run(_until_told(checked, cluster))
    except OptionsError as error:
        raise Failure(str(error), exit_code=ExitCode.USAGE) from error


def _checked(options: dict[str, Any], configuration: SchedulerConfiguration) -> dict[str, Any]:
    if options["listen"] is None:
        raise click.UsageError("--listen is missing: where extender and binding gate are served")
    if bool(options["tls_cert"]) != bool(options["tls_key"]):
        raise click.UsageError("--tls-cert and --tls-key go together")
    if options["webhook_url"] and not options["webhook_url"].startswith("https://"):
        raise click.BadParameter(
            "must begin with https://: the API server calls no other", param_hint="--webhook-url"
        )
    if configuration.interference and not options["prometheus"]:
        raise click.UsageError("--prometheus is missing: interference is configured, and needs measurements")
    if options["prometheus"]:
        try:
            checked_url(options["prometheus"])
        except AddressError as error:
            raise click.BadParameter(f"{error}; {error.hint}", param_hint="--prometheus") from error
    return options


def _configuration(file: str | None) -> SchedulerConfiguration:
    if file is None:
        return DEFAULTS
    try:
        return parse_configuration(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        why = f"{file} cannot be read: {error.strerror}"
        raise Failure(why, exit_code=ExitCode.BAD_INPUT) from error
    except (SchedulerConfigurationError, UnicodeDecodeError) as error:
        wrong = "\n".join(f"{file}: {line}" for line in str(error).splitlines())
        raise Failure(wrong, exit_code=ExitCode.BAD_INPUT) from error


async def _until_told(options: SchedulerOptions, cluster: ClusterConfig) -> None:
    """Run the scheduler until a signal ends it in order; behind a Service, calls still come for a while."""
    loop = asyncio.get_running_loop()
    running: list[Scheduler] = []
    task = loop.create_task(run_scheduler(options, cluster, started=running.append, synced=_spare_the_caches))

    def stop() -> None:
        for scheduler in running:
            scheduler.stopping = True
        task.cancel()

    def drain() -> None:
        for scheduler in running:
            scheduler.stopping = True
        loop.call_later(_DRAIN if options.webhook_service else 0, stop)

    loop.add_signal_handler(signal.SIGINT, stop)
    loop.add_signal_handler(signal.SIGTERM, drain)
    try:
        await task
    except asyncio.CancelledError:
        if not (running and running[0].stopping):
            raise


def _spare_the_caches() -> None:
    """Take what the caches hold out of the collector's way: it stays, and each walk stalls the gate."""
    gc.collect()
    gc.freeze()
