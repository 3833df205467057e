"""What the manager can be told, and how the Service of its webhooks is written."""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass, field

from corewise.policy.names import CONFIG_NAME, CONFIG_NAMESPACE
from corewise.quantities import Ratio
from corewise.service.options import Address, AddressError

KUBELET_USER = "system:node:"
LARGEST_AMPLIFICATION = Ratio(1000)


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """The Service through which the API server reaches the webhooks, as ``NAMESPACE/NAME[:PORT]``."""

    namespace: str
    name: str
    port: int = 443

    @classmethod
    def parse(cls, text: str) -> ServiceAddress:
        """Read the text.

        Raises:
            AddressError: if it is not of that form.
        """
        namespace, separator, rest = text.partition("/")
        name, _, port = rest.partition(":")
        if not separator or not namespace or not name or (port and not port.isdigit()):
            raise AddressError(f"{text!r} is not a Service: write NAMESPACE/NAME or NAMESPACE/NAME:PORT")
        return cls(namespace, name, int(port or 443))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names by which the API server verifies the serving certificate."""
        return (f"{self.name}.{self.namespace}.svc", f"{self.name}.{self.namespace}.svc.cluster.local")


def _identity() -> str:
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerOptions:
    """Everything the manager can be told. An empty address means: do not listen.

    ``webhook_url`` (from outside the cluster) or ``webhook_service`` (within) is what the API server calls;
    ``tls_cert`` and ``tls_key`` are files that something else renews.
    """

    config_namespace: str = CONFIG_NAMESPACE
    config_name: str = CONFIG_NAME
    webhook_listen: Address | None = None
    webhook_url: str = ""
    webhook_service: ServiceAddress | None = None
    manage_webhooks: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    metrics_listen: Address | None = None
    leader_elect: bool = True
    identity: str = field(default_factory=_identity)
    dry_run: bool = False
    quiet_heartbeats: bool = True
    kubelet_users: tuple[str, ...] = (KUBELET_USER,)
    largest_amplification: Ratio = LARGEST_AMPLIFICATION
    concurrency: int = 16
