"""What the scheduler can be told."""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass, field

from corewise.scheduler.configuration import DEFAULTS, SchedulerConfiguration
from corewise.service.doors import EXTENDER
from corewise.service.options import Address
from corewise.service.webhooks.options import ServiceAddress, WebhookOptions
from corewise.vocabulary.names import CONFIG_NAMESPACE
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules


def _identity() -> str:
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """Everything the scheduler can be told. ``namespace`` is that of its Lease and its Secret.

    ``configuration`` is what ``configuration_file`` held at the start; it is read again when it changes.
    ``max_extender_body`` is the largest request of kube-scheduler, in bytes.
    ``prometheus`` is the URL of the server that knows the nodes' memory bandwidth and cache.

    ``webhook_url`` (from outside the cluster) or ``webhook_service`` (within) is what the API server calls;
    ``tls_cert`` and ``tls_key`` are files that something else renews; ``client_ca`` holds the authorities
    that sign the certificates of callers. ``metrics_auth``: /metrics takes a token that the
    API server reviews. ``rules``: which pods may be LSE.
    """

    listen: Address
    namespace: str = CONFIG_NAMESPACE
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
    max_extender_body: int = EXTENDER.max_body
    configuration: SchedulerConfiguration = DEFAULTS
    configuration_file: str = ""
    prometheus: str = ""
    rules: QoSRules = DEFAULT_RULES

    @property
    def webhooks(self) -> WebhookOptions:
        """How extender and gate are served."""
        return WebhookOptions(
            listen=self.listen,
            url=self.webhook_url,
            service=self.webhook_service,
            manage=self.manage_webhooks,
            tls_cert=self.tls_cert,
            tls_key=self.tls_key,
            client_ca=self.client_ca,
        )
