"""The webhooks of one program: their HTTPS server and their answers.

Every replica serves them; the leader alone runs ``installer`` (see :mod:`.installation`).

Malformed reviews are answered with 400 and a message. A bug in a webhook is answered with 500, logged with
its traceback by the server and counted; with failurePolicy Ignore the write then goes through as if no
webhook was there, and no kubelet is held up. On shutdown, reviews in flight are answered first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from aiohttp import web

from corewise.kube.admission import AdmissionRequest, Operation, allow, decode_review, deny
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.errors import DecodeError
from corewise.kube.resources import WebhookConfiguration
from corewise.prometheus.exposition import Exposition
from corewise.service.certificates import (
    CertificateKeeper,
    ClientCertificate,
    Lifetimes,
    ServingContext,
    SharedCertificates,
    certificate_source,
)
from corewise.service.http_servers import (
    Guard,
    Handler,
    HttpServer,
    Listener,
    RefusedError,
    Route,
    anyone,
    certified,
    read_body,
)
from corewise.service.installation import Alternative, Configurations, Installer
from corewise.service.options import Address, OptionsError, ReplicaOptions, ServiceAddress
from corewise.service.program import Loop, Program
from corewise.vocabulary.metrics import WEBHOOK_REQUESTS, WEBHOOK_SECONDS

_GRACE = 10.0
_TIMEOUT_SECONDS = 5


class ReviewOutcome(StrEnum):
    """The outcome of a review, as the metric labels it."""

    ALLOWED = "allowed"
    CHANGED = "changed"
    REFUSED = "refused"
    MALFORMED = "malformed"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of the answer, and what it counts as."""

    body: bytes
    outcome: ReviewOutcome


Review: TypeAlias = Callable[[AdmissionRequest], Coroutine[None, None, Answer]]
"""A webhook. Raises ``DecodeError`` when the review's objects are not what they should be."""


def allowed(
    request: AdmissionRequest, *, patch: Sequence[Operation] = (), warnings: Iterable[str] = ()
) -> Answer:
    """Return "yes", perhaps with changes."""
    outcome = ReviewOutcome.CHANGED if patch else ReviewOutcome.ALLOWED
    return Answer(allow(request, patch=patch, warnings=warnings), outcome)


def refused(request: AdmissionRequest, message: str, *, code: int, reason: str) -> Answer:
    """Return "no", and why."""
    return Answer(deny(request, message, code=code, reason=reason), ReviewOutcome.REFUSED)


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook: its name in metrics, the path it is served at, and what answers.

    A path that ends in a slash stands for all with one more step; ``called_at`` of the request says which.
    """

    name: str
    path: str
    review: Review


class WebhookServer(Listener):
    """Serves the webhooks, and other routes beside them, from the moment there is a certificate.

    ``guard`` checks who asks for a review.
    """

    def __init__(
        self,
        server: HttpServer,
        listen: Address,
        serving: ServingContext,
        webhooks: Iterable[Webhook],
        metrics: Exposition,
        *,
        routes: Iterable[Route] = (),
        guard: Guard = anyone,
    ) -> None:
        reviews = [Route("POST", each.path, _handler(each, metrics), guard) for each in webhooks]
        super().__init__(
            server, listen, [*routes, *reviews], metrics, tls=lambda: serving.context, grace=_GRACE
        )
        self._serving = serving

    async def run(self) -> None:
        await self._serving.loaded.wait()
        await super().run()


def _handler(webhook: Webhook, metrics: Exposition) -> Handler:
    for outcome in ReviewOutcome:
        metrics.count(WEBHOOK_REQUESTS, webhook.name, outcome, by=0)  # increase() misses what begins at 1

    async def handle(http: web.BaseRequest) -> web.Response:
        started = time.perf_counter()
        outcome = ReviewOutcome.BUG
        try:
            body = await read_body(http)
            answer = await webhook.review(decode_review(body, http.path))
            outcome = answer.outcome
            return web.Response(body=answer.body, content_type="application/json")
        except DecodeError as error:
            outcome = ReviewOutcome.MALFORMED
            return web.Response(status=400, text=f"{error}\n")
        except RefusedError:
            outcome = ReviewOutcome.MALFORMED
            raise
        finally:
            metrics.count(WEBHOOK_REQUESTS, webhook.name, outcome)
            metrics.observe(WEBHOOK_SECONDS, time.perf_counter() - started, webhook.name)

    return handle


def webhook(
    name: str, config: dict[str, Any], *rules: dict[str, Any], failure_policy: str = "Ignore"
) -> dict[str, Any]:
    """Return one webhook of a configuration: without side effects, and ignored while it does not answer."""
    return {
        "name": name,
        "clientConfig": config,
        "rules": list(rules),
        "failurePolicy": failure_policy,
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }


def rule(resource: str, *operations: str, scope: str, group: str = "", version: str = "v1") -> dict[str, Any]:
    """Return the rule for a resource."""
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": [resource],
        "scope": scope,
    }


def installed_bundle(installed: Cache[WebhookConfiguration], name: str) -> str:
    """Return the authorities that the installed configuration of this name trusts; empty if none."""
    found = installed.get(name)
    if found is None or not found.webhooks:
        return ""
    return found.webhooks[0].client_config.ca_bundle.decode("ascii", "replace")


class WebhookService:
    """All parts. ``secret`` is the namespace and name of the Secret that holds our own certificates.

    ``field_manager`` is also the name of the ClusterRole that owns what is created.

    ``installed_bundle`` says which authorities the installed configuration trusts.
    ``client_secret``: callers of routes need a client certificate: one of ``--client-ca``, or, without that
    option, the one that is then kept in this Secret.
    ``routes`` are served beside the webhooks, each with its own guard.
    ``changing`` is what no manifest can install, since it changes while the program runs. Without
    ``manage_webhooks`` that alone is installed, with the authorities that the installed configuration trusts.
    """

    def __init__(
        self,
        client: Client,
        server: HttpServer,
        listen: Address,
        options: ReplicaOptions,
        webhooks: Iterable[Webhook],
        *,
        configurations: Configurations,
        alternatives: Sequence[Alternative] = (),
        changing: Configurations | None = None,
        field_manager: str,
        secret: tuple[str, str],
        installed_bundle: Callable[[], str],
        program: Program,
        lifetimes: Lifetimes | None = None,
        routes: Iterable[Route] = (),
        client_secret: str = "",
    ) -> None:
        self._options = options
        self._clock = clock = program.clock
        routes = tuple(routes)
        # A caller with a token has no client certificate: where routes take tokens, TLS asks for one, and the
        # guards of the other routes demand it.
        self._serving = ServingContext(demand=not routes)
        self._server = WebhookServer(
            server,
            listen,
            self._serving,
            webhooks,
            program.metrics,
            routes=routes,
            guard=certified if options.client_ca else anyone,
        )
        self._source = certificate_source(
            options,
            listen,
            client,
            secret,
            installed_bundle,
            clock=clock,
            lifetimes=lifetimes,
            owner=field_manager,
        )
        clients: ClientCertificate | None = None
        if client_secret and not options.client_ca:
            if not isinstance(self._source, SharedCertificates):
                raise OptionsError(
                    "callers need a client certificate: name its authority with --client-ca; or leave "
                    "--tls-cert out, and --manage-webhooks makes one"
                )
            clients = ClientCertificate(
                client,
                secret[0],
                client_secret,
                self._source,
                clock=clock,
                lifetimes=lifetimes,
                owner=field_manager,
            )
        self._keeper = CertificateKeeper(
            self._source,
            self._serving,
            options.client_ca,
            clients=clients,
            metrics=program.metrics,
            heartbeats=program.heartbeats,
            clock=clock,
        )
        self.installed = asyncio.Event()
        self.installer: Installer | None = None
        managed = options.manage_webhooks
        kept = configurations if managed else changing
        if kept is not None and (managed or options.webhook_service or options.webhook_url):
            self.installer = Installer(
                client,
                base=self._base,
                bundle=self._bundle if managed else lambda: installed_bundle() or None,
                configurations=kept,
                alternatives=alternatives if managed else (),
                field_manager=field_manager,
                clock=clock,
                installed=self.installed,
            )

    @property
    def address(self) -> Address:
        return self._server.address

    @property
    def listening(self) -> bool:
        return self._server.listening.is_set()

    @property
    def bundle(self) -> str:
        """The authorities whose certificates are served; "" for files, and while they are not known yet."""
        return self._bundle() or ""

    @property
    def expires(self) -> datetime | None:
        return self._serving.expires

    def loops(self) -> Iterator[Loop]:
        yield "certificates", self._keeper.run
        yield "webhooks", self._server.run

    def problems(self) -> Iterator[str]:
        """Yield the reasons that reviews are not answered."""
        problem = self._serving.problem(self._clock.now())
        if problem:
            yield problem
        if not self.listening:
            yield "the webhooks do not listen yet"

    def _base(self) -> str | ServiceAddress | None:
        """Return the address at which the API server reaches the webhooks; None until they listen."""
        if not self.listening:
            return None
        return self._options.webhook_service or self._options.webhook_url or f"https://{self._server.address}"

    def _bundle(self) -> str | None:
        """Return the authorities to trust: none of ours for files, None while ours are not known yet."""
        return (self._source.bundle or None) if isinstance(self._source, SharedCertificates) else ""
