"""Options that the programs share, and how a wrong option is told apart from a bug."""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.exit_codes import ExitCode
from corewise.vocabulary.names import SYSTEM_NAMESPACE


class AddressError(ValueError):
    """The text is not HOST:PORT."""


class OptionsError(OperationalError):
    """Options that do not go together; the message names them."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen on. An empty host is every interface; port 0 is any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read "127.0.0.1:9443", ":9443" or "[::1]:0".

        Raises:
            AddressError: for anything else.
        """
        host, separator, port = text.rpartition(":")
        if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise AddressError(f"{text!r} is not an address: write HOST:PORT, such as 127.0.0.1:9443")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise AddressError(f"{text!r} is not an address: write an IPv6 host in brackets, as [::1]:9443")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOptions:
    """The options of a program that serves webhooks and elects a leader among its replicas.

    ``namespace`` has its Lease and its Secrets. ``metrics_auth``: /metrics takes a token that the API server
    reviews.

    ``webhook_url`` (from outside the cluster) or ``webhook_service`` (within) is what the API server calls.
    ``manage_webhooks``: make and rotate certificates, and install the configurations; else ``tls_cert`` and
    ``tls_key`` are files that something else renews. ``client_ca`` is a file of the authorities that sign the
    certificates of callers; without it, TLS asks callers for none.
    """

    namespace: str = SYSTEM_NAMESPACE
    webhook_url: str = ""
    webhook_service: ServiceAddress | None = None
    manage_webhooks: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    client_ca: str = ""
    metrics_listen: Address | None = None
    metrics_auth: bool = False
    leader_elect: bool = True
    identity: str = field(default_factory=lambda: f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}")

    @property
    def elects_leader(self) -> bool:
        """Whether this replica takes part in the election."""
        return self.leader_elect

    def webhook_hosts(self, listen: Address) -> tuple[str, ...]:
        """Return the names by which the API server reaches webhooks that listen at an address.

        Raises:
            OptionsError: if there is none: a certificate for every interface cannot be made.
        """
        if self.webhook_service:
            return self.webhook_service.hosts
        host = urlsplit(self.webhook_url).hostname or listen.host
        if not host:
            raise OptionsError(
                "say how the API server reaches the webhooks: --webhook-url or --webhook-service"
            )
        return (host,)
