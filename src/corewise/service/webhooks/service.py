"""The webhooks of one program as a whole: their certificate, their server, their installed configurations.

Every replica serves them; the leader alone runs ``installer``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from corewise.kube.client import Client
from corewise.service.doors import Door, Route, anyone, certified
from corewise.service.options import Address, ServiceAddress, WebhookOptions
from corewise.service.program import Loop, Program
from corewise.service.webhooks.authority import Lifetimes
from corewise.service.webhooks.certificate import (
    CertificateKeeper,
    ServingContext,
    SharedCertificates,
    certificate_source,
)
from corewise.service.webhooks.installation import Configurations, Installer
from corewise.service.webhooks.server import Webhook, WebhookServer


class WebhookService:
    """All parts. ``secret`` is the namespace and name of the Secret that holds our own certificates.

    ``installed_bundle`` tells the authorities that the installed configuration trusts, empty if none.
    ``routes`` are served beside the webhooks, each with its own guard.
    """

    def __init__(
        self,
        client: Client,
        door: Door,
        listen: Address,
        options: WebhookOptions,
        webhooks: Iterable[Webhook],
        *,
        configurations: Configurations,
        field_manager: str,
        secret: tuple[str, str],
        installed_bundle: Callable[[], str],
        program: Program,
        lifetimes: Lifetimes | None = None,
        routes: Iterable[Route] = (),
    ) -> None:
        self._options = options
        self._clock = clock = program.clock
        routes = tuple(routes)
        # A caller with a token has no client certificate: where routes take tokens, TLS asks for one, and the
        # guards of the other routes demand it.
        self._serving = ServingContext(demand=not routes)
        self._server = WebhookServer(
            door,
            listen,
            self._serving,
            webhooks,
            program.metrics,
            routes=routes,
            guard=certified if options.client_ca else anyone,
        )
        self._source = certificate_source(
            options, client, secret, installed_bundle, clock=clock, lifetimes=lifetimes
        )
        self._keeper = CertificateKeeper(
            self._source,
            self._serving,
            options.client_ca,
            metrics=program.metrics,
            heartbeats=program.heartbeats,
            clock=clock,
        )
        self.installed = asyncio.Event()
        self.installer = self._new_installer(client, configurations, field_manager)

    @property
    def address(self) -> Address:
        """Where the webhooks listen."""
        return self._server.address

    @property
    def listening(self) -> bool:
        return self._server.listening.is_set()

    @property
    def expires(self) -> datetime | None:
        """When the certificate that is served expires."""
        return self._serving.expires

    def loops(self) -> Iterator[Loop]:
        """Yield what every replica runs."""
        yield "certificates", self._keeper.run
        yield "webhooks", self._server.run

    def problems(self) -> Iterator[str]:
        """Say why reviews are not answered, if they are not."""
        problem = self._serving.problem(self._clock.now())
        if problem:
            yield problem
        if not self.listening:
            yield "the webhooks do not listen yet"

    def _new_installer(
        self, client: Client, configurations: Configurations, field_manager: str
    ) -> Installer | None:
        if not self._options.manage:
            return None
        return Installer(
            client,
            base=self._base,
            bundle=self._bundle,
            configurations=configurations,
            field_manager=field_manager,
            clock=self._clock,
            installed=self.installed,
        )

    def _base(self) -> str | ServiceAddress | None:
        """Return how the API server reaches the webhooks; None until they listen."""
        if not self.listening:
            return None
        return self._options.service or self._options.url or f"https://{self._server.address}"

    def _bundle(self) -> str | None:
        """Return the authorities to trust: none of ours for files, None while ours are not known yet."""
        return (self._source.bundle or None) if isinstance(self._source, SharedCertificates) else ""
