"""``corewise manager``: run the manager, in a Pod or from outside the cluster."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import click

from corewise.amplification.policy import amplification_policy, static_policy
from corewise.cli.choice import one_of
from corewise.cli.options import (
    ADDRESS,
    LEADER_ELECT,
    LOG_OPTIONS,
    METRICS_AUTH,
    METRICS_LISTEN,
    SERVICE,
    SYSTEM_NAMESPACE_OPTION,
    TLS_OPTIONS,
    check_webhooks,
    cluster_options,
    examples,
    read,
    run_program,
)
from corewise.cli.output import print_manifests
from corewise.kube.config import load_config
from corewise.manager.options import (
    KUBELET_USER,
    LARGEST_AMPLIFICATION,
    AmplifyBy,
    FailurePolicy,
    ManagerOptions,
    OfflinePods,
)
from corewise.manager.program import run_manager
from corewise.quantities import ONE, Ratio
from corewise.service.logs import LogFormat, configure
from corewise.service.program import DRAIN, freeze_gc

_RATIO: dict[str, Any] = {"metavar": "RATIO", "callback": read(Ratio.parse)}
QUIET_HEARTBEATS = click.option(
    "--quiet-heartbeats/--no-quiet-heartbeats",
    default=True,
    show_default=True,
    help="Do not store kubelets' writes that only refresh heartbeats. "
    "Turn it off for kubelets that report less often than every 30 s.",
)
KUBELET_USERS = click.option(
    "--kubelet-user",
    "kubelet_users",
    multiple=True,
    default=(KUBELET_USER,),
    show_default=True,
    help="Kubelets' user name, or its beginning before the node's name. Repeatable.",
)
LARGEST = click.option(
    "--largest-amplification",
    **_RATIO,
    default=str(LARGEST_AMPLIFICATION),
    show_default=True,
    help="Largest amplification ratio.",
)


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "corewise manager --dry-run --no-leader-elect",
        "corewise manager --manage-webhooks --webhook-listen :9443 \\\n"
        "  --webhook-service corewise-system/corewise-webhook",
    ),
)
@cluster_options
@SYSTEM_NAMESPACE_OPTION
@click.option("--webhook-listen", help="Serve the webhooks here (HTTPS).", **ADDRESS)
@click.option("--webhook-url", default="", help="Base URL at which the API server reaches the webhooks.")
@click.option("--webhook-service", **SERVICE, help="Service in the cluster through which it reaches them.")
@click.option(
    "--manage-webhooks",
    is_flag=True,
    help="Install the admission policy, or webhooks before Kubernetes 1.36; make and rotate certificates.",
)
@TLS_OPTIONS
@METRICS_LISTEN
@METRICS_AUTH
@LEADER_ELECT
@click.option("--dry-run", is_flag=True, help="Write nothing; print on stdout what would be done.")
@QUIET_HEARTBEATS
@KUBELET_USERS
@LARGEST
@click.option(
    "--amplify-by",
    **one_of(AmplifyBy.AUTO),
    help="What amplifies nodes: auto is the policy where the API server serves MutatingAdmissionPolicies.",
)
@click.option(
    "--node-status-failure-policy",
    **one_of(FailurePolicy.FAIL),
    help="While the webhook is unavailable, Fail refuses amplified nodes' status, Ignore lets it be raw.",
)
@click.option(
    "--offline-pods",
    **one_of(OfflinePods.TRANSLATE),
    help="What to do with new offline pods that ask for cpu or memory instead of batch resources.",
)
@click.option(
    "--pod-failure-policy",
    **one_of(FailurePolicy.IGNORE),
    help="While no manager answers, Ignore leaves new offline pods as written, Fail refuses them.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="Nodes written at a time.",
)
@LOG_OPTIONS
@click.pass_context
def command(called: click.Context, /, **options: Any) -> None:
    """Keep every node's normalization and amplification ratios up to date, and serve the webhooks.

    Runs until SIGTERM or SIGINT; then the lease is released and reviews in flight are answered.
    """
    if called.invoked_subcommand is None:
        _run(**options)


@command.command(
    "policy",
    epilog=examples(
        "corewise manager policy | kubectl apply -f -", "corewise manager policy --static > corewise.yaml"
    ),
)
@KUBELET_USERS
@LARGEST
@QUIET_HEARTBEATS
@click.option(
    "--static", is_flag=True, help="Print it as a file for the staticManifestsDir of every kube-apiserver."
)
def policy_command(
    kubelet_users: tuple[str, ...], largest_amplification: Ratio, *, quiet_heartbeats: bool, static: bool
) -> None:
    """Print the policy that amplifies nodes in the API server.

    With --manage-webhooks the manager installs it. It needs Kubernetes 1.36; before that, the manager
    installs a webhook instead.

    With --static it is a file that kube-apiserver reads before its first request, and that cannot be
    deleted through the API (feature gate ManifestBasedAdmissionControlConfig). The manager finds that it
    is there, and installs no policy of its own; the options must be those of the manager.
    """
    policy = amplification_policy(
        maximum=largest_amplification, kubelet_users=kubelet_users, quiet_heartbeats=quiet_heartbeats
    )
    print_manifests(*(static_policy(policy) if static else policy))


def _run(
    *, kubeconfig: str | None, context: str | None, log_format: str, verbose: bool, **options: Any
) -> None:
    manager_options = ManagerOptions(**_checked(options))
    configure(LogFormat(log_format), verbose=verbose)
    cluster, stopping = load_config(kubeconfig, context), asyncio.Event()
    run_program(
        run_manager(
            manager_options, cluster, synced=freeze_gc, stopping=stopping, write=partial(click.echo, nl=False)
        ),
        stopping=stopping,
        drain=DRAIN if manager_options.webhook_service else 0.0,
    )


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    check_webhooks(options)
    if options["manage_webhooks"] and not options["webhook_listen"]:
        raise click.UsageError(
            "--manage-webhooks needs --webhook-listen: without it nothing answers the webhooks"
        )
    if not all(options["kubelet_users"]):
        raise click.BadParameter("must not be empty", param_hint="--kubelet-user")
    if options["largest_amplification"] < ONE:
        raise click.BadParameter(f"must be at least {ONE}", param_hint="--largest-amplification")
    return {
        **options,
        "amplify_by": AmplifyBy(options["amplify_by"]),
        "node_status_failure_policy": FailurePolicy(options["node_status_failure_policy"]),
        "offline_pods": OfflinePods(options["offline_pods"]),
        "pod_failure_policy": FailurePolicy(options["pod_failure_policy"]),
    }
