"""What the options make of the webhooks and their certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.manager.authority import Lifetimes
from corewise.manager.options import ManagerOptions
from corewise.manager.serving import CertificateSource, FileCertificates, SharedCertificates
from corewise.manager.snapshot import Snapshot
from corewise.manager.usage import cpu_usage_milli
from corewise.manager.webhooks.answers import Review
from corewise.manager.webhooks.config_map import ConfigMapWebhook
from corewise.manager.webhooks.node import NodeWebhook
from corewise.manager.webhooks.node_status import NodeStatusWebhook
from corewise.manager.webhooks.server import CONFIG_MAP, NODE, NODE_STATUS
from corewise.prometheus.exposition import Exposition
from corewise.service.options import OptionsError


def webhooks(
    options: ManagerOptions, snapshot: Snapshot, client: Client, metrics: Exposition, clock: Clock
) -> Mapping[str, Review]:
    """Return the webhooks by name."""
    status = NodeStatusWebhook(
        surroundings=lambda: snapshot.surroundings,
        kubelet_users=options.kubelet_users,
        quiet_heartbeats=options.quiet_heartbeats,
        metrics=metrics,
        clock=clock,
    )
    node = NodeWebhook(
        surroundings=lambda: snapshot.surroundings,
        view=snapshot.view_of,
        ready=lambda: not snapshot.unsynced,
        usage=lambda name: cpu_usage_milli(client, name),
    )
    config_map = ConfigMapWebhook(
        options.config_namespace, options.config_name, options.largest_amplification, snapshot.node_labels
    )
    return {NODE_STATUS: status.review, NODE: node.review, CONFIG_MAP: config_map.review}


def certificate_source(
    options: ManagerOptions,
    client: Client,
    installed_bundle: Callable[[], str],
    clock: Clock,
    lifetimes: Lifetimes | None,
) -> CertificateSource:
    """Return where the serving certificate comes from.

    Raises:
        OptionsError: if nothing says where.
    """
    if options.tls_cert and options.tls_key:
        return FileCertificates(options.tls_cert, options.tls_key)
    if not options.manage_webhooks:
        raise OptionsError("webhooks need a certificate: --tls-cert and --tls-key, or --manage-webhooks")
    return SharedCertificates(
        client,
        options.config_namespace,
        webhook_hosts(options),
        installed_bundle,
        clock=clock,
        lifetimes=lifetimes,
    )


def webhook_hosts(options: ManagerOptions) -> tuple[str, ...]:
    """Return the names by which the API server reaches the webhooks.

    Raises:
        OptionsError: if there is none: a certificate for every interface cannot be made.
    """
    if options.webhook_service:
        return options.webhook_service.hosts
    listening = options.webhook_listen.host if options.webhook_listen else ""
    host = urlsplit(options.webhook_url).hostname or listening
    if not host:
        raise OptionsError("say how the API server reaches the webhooks: --webhook-url or --webhook-service")
    return (host,)
