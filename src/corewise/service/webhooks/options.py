"""Where webhooks listen, how the API server reaches them, and whence their certificate."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from corewise.service.options import Address, AddressError, OptionsError


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
class WebhookOptions:
    """``url`` (from outside the cluster) or ``service`` (within) is what the API server calls.

    ``manage``: make and rotate certificates, and install the configurations; else ``tls_cert`` and
    ``tls_key`` are files that something else renews. ``client_ca`` is a file of the authorities that sign the
    certificates of callers; without it, TLS asks callers for none.
    """

    listen: Address | None = None
    url: str = ""
    service: ServiceAddress | None = None
    manage: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    client_ca: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names by which the API server reaches the webhooks.

        Raises:
            OptionsError: if there is none: a certificate for every interface cannot be made.
        """
        if self.service:
            return self.service.hosts
        host = urlsplit(self.url).hostname or (self.listen.host if self.listen else "")
        if not host:
            raise OptionsError(
                "say how the API server reaches the webhooks: --webhook-url or --webhook-service"
            )
        return (host,)
