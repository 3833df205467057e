"""``corewise scheduler``: run the scheduler extender, in a Pod or from outside; print what it relies on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from corewise.cli.choice import Choice
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import TEXT_FILE, make_folder, text_of, write_private
from corewise.cli.options import (
    ADDRESS,
    LEADER_ELECT,
    LOG_OPTIONS,
    METRICS_AUTH,
    METRICS_LISTEN,
    QOS_NAMESPACES,
    SERVICE,
    SIZE,
    SYSTEM_NAMESPACE_OPTION,
    TLS_OPTIONS,
    check_https,
    check_webhooks,
    connection_options,
    examples,
    run_program,
)
from corewise.cli.output import print_manifests
from corewise.config.interference.model import WhileAway
from corewise.kube.certificates import CertificateError, hosts_of, made_at, not_after
from corewise.kube.client import Client
from corewise.kube.config import ClusterConfig, load_config
from corewise.kube.errors import Forbidden, NotFound
from corewise.kube.resources import SECRETS
from corewise.prometheus.client import ServerURLError, checked_url
from corewise.scheduler import marking
from corewise.scheduler.configuration import (
    DEFAULTS,
    SchedulerConfiguration,
    SchedulerConfigurationError,
    parse_configuration,
)
from corewise.scheduler.installation import (
    CA_FILE,
    CERT_FILE,
    CERTIFICATES,
    CLIENT_SECRET_NAME,
    KEY_FILE,
    PROFILED_WEIGHT,
    SECRET_NAME,
    SERVICE_URL,
    WEIGHTS,
    Pods,
    scheduler_configuration,
)
from corewise.scheduler.options import PROMETHEUS_MISSING, SchedulerOptions
from corewise.scheduler.policy import mutating_policy, policy_binding
from corewise.scheduler.program import run_scheduler
from corewise.service.logs import LogFormat, configure
from corewise.service.program import DRAIN, freeze_gc
from corewise.views.text import some
from corewise.vocabulary.qos import QoSRules


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "corewise scheduler --listen 127.0.0.1:9443 --tls-cert tls.crt \\\n"
        "  --tls-key tls.key --client-ca ca.crt"
    ),
)
@connection_options
@SYSTEM_NAMESPACE_OPTION
@click.option("--listen", help="Serve the extender here (HTTPS).", **ADDRESS)
@click.option(
    "--webhook-url",
    default="",
    help="Base URL at which the API server reaches the webhook, from outside the cluster.",
)
@click.option("--webhook-service", **SERVICE, help="Service in the cluster through which it does.")
@click.option(
    "--manage-webhooks",
    is_flag=True,
    help="Make and rotate the certificates, and install the policy, or before Kubernetes 1.36 the webhook.",
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
@LEADER_ELECT
@click.option(
    "--config",
    "config_file",
    type=TEXT_FILE,
    metavar="FILE",
    help="Scoring, normalized CPUs, interference, and how many decisions to remember; read again when it "
    "changes.",
)
@click.option(
    "--prometheus", metavar="URL", default="", help="Prometheus that has nodes' memory bandwidth and cache."
)
@QOS_NAMESPACES
@LOG_OPTIONS
@click.pass_context
def command(called: click.Context, /, **options: Any) -> None:
    """Answer kube-scheduler about pods that own CPUs, as its extender: filter, prioritize, preempt and bind.

    Runs until SIGTERM or SIGINT; then the lease is released and calls in flight are answered.
    """
    if called.invoked_subcommand is None:
        _serve(**options)


@command.command(
    "config",
    short_help="Print the configuration of kube-scheduler that calls corewise.",
    epilog=examples(
        "corewise scheduler config > extender.yaml",
        "corewise scheduler config --write-certificates /etc/kubernetes/corewise",
        note=f"weight: {WEIGHTS}",
    ),
)
@click.option(
    "--url", default=SERVICE_URL, show_default=True, help="Where kube-scheduler reaches the extender."
)
@click.option(
    "--pods",
    type=Choice([each.value for each in Pods]),
    show_default="owned; owned,profiled if --config configures interference",
    help="owned: kube-scheduler calls corewise for pods that own CPUs; while it is away, these wait. "
    "owned,profiled: also for pods whose interference profile has something at stake; what becomes of these "
    "while it is away, interference.whileAway says. "
    "all: for every pod, which other pods' NUMA policies need; while it is away, no pod is scheduled.",
)
@click.option(
    "--config",
    "config_file",
    type=TEXT_FILE,
    metavar="FILE",
    help="The scheduler's file: whether interference is configured, and its whileAway.",
)
@click.option(
    "--weight",
    type=click.IntRange(1, 100),
    metavar="N",
    show_default=f"{PROFILED_WEIGHT} for interference, 1 for everything",
    help="How much the score counts beside kube-scheduler's own: of interference with --pods owned,profiled, "
    "of everything with --pods all.",
)
@click.option(
    "--write-certificates",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write client.crt, client.key and ca.crt there, read from the cluster; do it again to renew them.",
)
@click.option(
    "--ca-file",
    type=TEXT_FILE,
    metavar="FILE",
    default="",
    help="CA file, on kube-scheduler's host, to verify the extender with.",
)
@click.option(
    "--cert-file",
    type=TEXT_FILE,
    metavar="FILE",
    default="",
    help="Client certificate file, on that host.",
)
@click.option(
    "--key-file", type=TEXT_FILE, metavar="FILE", default="", help="File of its private key, on that host."
)
@click.option(
    "--server-name", metavar="NAME", default="", help="Server name to verify, if --url has an address."
)
@connection_options
@SYSTEM_NAMESPACE_OPTION
def config_command(
    *,
    url: str,
    pods: str | None,
    config_file: str | None,
    weight: int | None,
    folder: Path | None,
    ca_file: str,
    cert_file: str,
    key_file: str,
    server_name: str,
    **cluster: Any,
) -> None:
    """Print the KubeSchedulerConfiguration for kube-scheduler: the extender, and scores by batch CPU.

    The files are expected in /etc/kubernetes/corewise, or where --write-certificates writes them, unless
    options say where they are on kube-scheduler's host. Only --write-certificates asks the cluster.
    """
    check_https(url, "--url", "the extender demands a client certificate", path=False)
    if bool(cert_file) != bool(key_file):
        raise click.UsageError("--cert-file and --key-file go together")
    interference = _configuration(config_file).interference
    asked = Pods(pods) if pods else Pods.PROFILED if interference else Pods.OWNED
    if weight and asked is Pods.OWNED:
        raise click.UsageError("--weight is for --pods owned,profiled and all")
    where = str(folder.absolute()) if folder else CERTIFICATES
    if folder:
        _write_certificates(folder, server_name or str(urlsplit(url).hostname), **cluster)
    tls = {
        "caFile": ca_file or f"{where}/{CA_FILE}",
        "certFile": cert_file or f"{where}/{CERT_FILE}",
        "keyFile": key_file or f"{where}/{KEY_FILE}",
        "serverName": server_name,
    }
    while_away = interference.while_away if interference else WhileAway.SCHEDULE
    click.echo(scheduler_configuration(url, tls, asked, weight=weight, while_away=while_away), nl=False)


@command.command(
    "policy",
    short_help="Print the policies that mark the new pods that kube-scheduler asks about.",
    epilog=examples(
        "corewise scheduler policy | kubectl apply -f -",
        "corewise scheduler policy --config scheduler.yaml | kubectl apply -f -",
    ),
)
@click.option(
    "--config",
    "config_file",
    type=TEXT_FILE,
    metavar="FILE",
    help="The scheduler's file: whether owned CPUs are normalized, and which interference profiles have "
    "something at stake.",
)
@QOS_NAMESPACES
def policy_command(config_file: str | None, restricted_qos_namespace: tuple[str, ...]) -> None:
    """Print the policy that adds corewise.io/owned-cpus to new pods that own CPUs, and with --config the one
    that adds corewise.io/interference to new pods whose interference profile has something at stake.

    With --manage-webhooks the scheduler installs both, and has the second follow its file. They need
    Kubernetes 1.36; before that, the scheduler installs webhooks instead.
    """
    rules = QoSRules(frozenset(restricted_qos_namespace))
    configuration = _configuration(config_file)
    manifests = [mutating_policy(normalize=configuration.normalize_cpuset), policy_binding(rules)]
    interference = configuration.interference
    if interference and interference.at_stake:
        manifests += [marking.mutating_policy(interference), marking.policy_binding()]
    print_manifests(*manifests)


def _write_certificates(
    folder: Path, host: str, *, kubeconfig: str | None, context: str | None, namespace: str
) -> None:
    """Write the client certificate, its key and the authorities, and print how long they are valid.

    ``host``: the name or address that kube-scheduler will verify the extender by.
    """
    data, hosts = asyncio.run(_secrets(load_config(kubeconfig, context), namespace))
    texts = {CERT_FILE: data["tls.crt"], KEY_FILE: data["tls.key"], CA_FILE: data["ca.crt"]}
    make_folder(folder)
    authorities = folder / CA_FILE
    trusted = authorities.read_bytes() if authorities.is_file() else b""
    for name, content in texts.items():
        write_private(folder / name, content)
    certificate = data["tls.crt"].decode()
    expires = not_after(certificate)
    due = expires - (expires - made_at(certificate)) / 3
    click.echo(
        f"wrote {', '.join(texts)} to {folder}: valid until {expires:%Y-%m-%d}. The scheduler makes a new "
        f"certificate on {due:%Y-%m-%d}: run this again between these days. kube-scheduler shows it at its "
        "next connection, without a restart.",
        err=True,
    )
    if trusted and trusted != data["ca.crt"]:
        click.echo(
            f"{CA_FILE} has changed: restart kube-scheduler, which reads it only when it starts.", err=True
        )
    if hosts and _as_verified(host) not in hosts:
        click.echo(
            f"kube-scheduler will refuse the extender: its certificate is for {some(sorted(hosts))}, not for "
            f"{host}. Choose --url or --server-name so that it verifies one of these.",
            err=True,
        )


def _as_verified(host: str) -> str:
    """Return a host as certificates state it."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host.lower().rstrip(".")


async def _secrets(cluster: ClusterConfig, namespace: str) -> tuple[Mapping[str, bytes], frozenset[str]]:
    """Return the contents of the client certificate's Secret, and the hosts of the extender's certificate.

    Without hosts if the account may not read that one, or the extender has it from a file.

    Raises:
        Failure: if there is no client certificate, or it is incomplete.
    """
    hosts: frozenset[str] = frozenset()
    where = f"Secret {namespace}/{CLIENT_SECRET_NAME}"
    async with Client(cluster) as client:
        try:
            data = (await client.get(SECRETS, CLIENT_SECRET_NAME, namespace)).data
        except NotFound:
            data = {}
        with suppress(NotFound, Forbidden, CertificateError):
            serving = (await client.get(SECRETS, SECRET_NAME, namespace)).data.get("tls.crt", b"")
            hosts = hosts_of(serving.decode())
    if not all(data.get(key) for key in ("tls.crt", "tls.key", "ca.crt")):
        hint = (
            "`corewise scheduler --manage-webhooks` makes it within seconds, unless it runs with --client-ca"
        )
        raise Failure(f"{where} holds no client certificate", hint=hint, exit_code=ExitCode.NOT_FOUND)
    return data, hosts


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
        raise click.UsageError("--listen is missing: where the extender is served")
    check_webhooks(options)
    if configuration.interference and not options["prometheus"]:
        raise click.UsageError(PROMETHEUS_MISSING)
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
        return parse_configuration(text_of(file))
    except SchedulerConfigurationError as error:
        wrong = "\n".join(f"{file}: {line}" for line in str(error).splitlines())
        raise Failure(wrong, exit_code=ExitCode.BAD_INPUT) from error
