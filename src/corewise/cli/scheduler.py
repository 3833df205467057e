"""``corewise scheduler``: run the scheduler extender and the binding gate, in a Pod or from outside."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from corewise.cli.errors import ExitCode, Failure
from corewise.cli.options import (
    ADDRESS,
    LOG_OPTIONS,
    METRICS_AUTH,
    METRICS_LISTEN,
    QOS_NAMESPACES,
    SERVICE,
    SIZE,
    TLS_OPTIONS,
    check_webhooks,
    cluster_options,
    run_program,
)
from corewise.kube.config import load_config
from corewise.prometheus.client import ServerURLError, checked_url
from corewise.scheduler.configuration import (
    DEFAULTS,
    SchedulerConfiguration,
    SchedulerConfigurationError,
    parse_configuration,
)
from corewise.scheduler.installation import SERVICE_URL, scheduler_configuration
from corewise.scheduler.options import SchedulerOptions
from corewise.scheduler.program import run_scheduler
from corewise.service.logs import LogFormat, configure
from corewise.service.program import DRAIN, freeze_gc
from corewise.vocabulary.qos import QoSRules


@click.group(invoke_without_command=True)
@cluster_options
@click.option("--listen", help="Serve extender and binding gate here (HTTPS).", **ADDRESS)
@click.option("--webhook-url", default="", help="Base URL at which the API server reaches the gate.")
@click.option(
    "--webhook-service", **SERVICE, help="Service through which it reaches the gate, inside the cluster."
)
@click.option(
    "--manage-webhooks",
    is_flag=True,
    help="Make and rotate the certificates, and install the gate's webhook configuration.",
)
@TLS_OPTIONS
@METRICS_LISTEN
@METRICS_AUTH
@click.option(
    "--max-extender-body",
    **SIZE,
    default="8Mi",
    show_default=True,
    help="Largest request of kube-scheduler. Without nodeCacheCapable, 5,000 nodes need 128Mi.",
)
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Scoring, interference, and how many decisions to remember; read again when it changes.",
)
@click.option(
    "--prometheus", metavar="URL", default="", help="Prometheus that has nodes' memory bandwidth and cache."
)
@QOS_NAMESPACES
@LOG_OPTIONS
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
@click.option("--ca-file", default="", help="CA file, on kube-scheduler's host, to verify the extender with.")
@click.option("--cert-file", default="", help="Client certificate file, on that host; see --client-ca.")
@click.option("--key-file", default="", help="File of its private key, on that host.")
@click.option("--server-name", default="", help="Server name to verify, if --url has an address.")
def config_command(url: str, ca_file: str, cert_file: str, key_file: str, server_name: str) -> None:
    """Print the KubeSchedulerConfiguration that makes kube-scheduler call the extender."""
    if not url.startswith(("https://", "http://")):
        raise click.BadParameter("must begin with https:// or http://", param_hint="--url")
    if bool(cert_file) != bool(key_file):
        raise click.UsageError("--cert-file and --key-file go together")
    tls = {"caFile": ca_file, "certFile": cert_file, "keyFile": key_file, "serverName": server_name}
    click.echo(scheduler_configuration(url, tls), nl=False)


def _serve(
    *,
    kubeconfig: str | None,
    context: str | None,
    config_file: str | None,
    restricted_qos_namespace: tuple[str, ...],
    log_format: str,
    verbose: bool,
    **options: Any,
) -> None:
    configuration = _configuration(config_file)
    checked = SchedulerOptions(
        configuration=configuration,
        configuration_file=config_file or "",
        rules=QoSRules(frozenset(restricted_qos_namespace)),
        **_checked(options, configuration),
    )
    configure(LogFormat(log_format), verbose=verbose)
    cluster, stopping = load_config(kubeconfig, context), asyncio.Event()
    run_program(
        run_scheduler(checked, cluster, synced=freeze_gc, stopping=stopping),
        stopping=stopping,
        drain=DRAIN if checked.webhook_service else 0.0,
    )


def _checked(options: dict[str, Any], configuration: SchedulerConfiguration) -> dict[str, Any]:
    if options["listen"] is None:
        raise click.UsageError("--listen is missing: where extender and binding gate are served")
    check_webhooks(options)
    if configuration.interference and not options["prometheus"]:
        raise click.UsageError("--prometheus is missing: interference is configured, and needs measurements")
    if options["prometheus"]:
        try:
            checked_url(options["prometheus"])
        except ServerURLError as error:
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
