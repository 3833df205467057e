"""What the manager can be told."""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass, field

from corewise.quantities import Ratio
from corewise.service.options import Address
from corewise.service.webhooks.options import ServiceAddress, WebhookOptions
from corewise.vocabulary.names import CONFIG_NAME, CONFIG_NAMESPACE

KUBELET_USER = "system:node:"
LARGEST_AMPLIFICATION = Ratio(1000)


def _identity() -> str:
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """Everything the manager can be told. An empty address means: do not listen.

    ``webhook_url`` (from outside the cluster) or ``webhook_service`` (within) is what the API server calls;
    ``tls_cert`` and ``tls_key`` are files that something else renews; ``client_ca`` holds the authorities
    that sign the certificates of callers. ``metrics_auth``: /metrics takes a token that the
    API server reviews.
    """

    config_namespace: str = CONFIG_NAMESPACE
    config_name: str = CONFIG_NAME
    webhook_listen: Address | None = None
    webhook_url: str = ""
    webhook_service: ServiceAddress | None = None
    manage_webhooks: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    client_ca: str = ""
    metrics_listen: Address | None = None
    metrics_auth: bool = False
    leader_elect: bool = True
    identity: str = field(default_factory=_identity)
    dry_run: bool = False
    quiet_heartbeats: bool = True
    kubelet_users: tuple[str, ...] = (KUBELET_USER,)
    largest_amplification: Ratio = LARGEST_AMPLIFICATION
    concurrency: int = 16

    @property
    def webhooks(self) -> WebhookOptions:
        """How the webhooks are served; a dry run serves none."""
        return WebhookOptions(
            listen=None if self.dry_run else self.webhook_listen,
            url=self.webhook_url,
            service=self.webhook_service,
            manage=self.manage_webhooks,
            tls_cert=self.tls_cert,
            tls_key=self.tls_key,
            client_ca=self.client_ca,
        )
