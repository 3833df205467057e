"""HTTPS around the webhooks: POST a review, get an answer.

Malformed reviews are answered with 400 and a message, those that cannot be answered now with 503. A bug in a
webhook is answered with 500, logged with its traceback by the server and counted; with failurePolicy Ignore
the write then goes through as if no webhook was there, and no kubelet is held up. On shutdown, reviews in
flight are answered first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass

from aiohttp import web

from corewise.kube.admission import decode_review
from corewise.kube.errors import DecodeError
from corewise.policy.metrics.service import WEBHOOK_REQUESTS, WEBHOOK_SECONDS
from corewise.prometheus.exposition import Exposition
from corewise.service.listening import started
from corewise.service.options import Address
from corewise.service.webhooks.answers import Outcome, Review, UnavailableError
from corewise.service.webhooks.certificate import ServingContext

log = logging.getLogger(__name__)

LARGEST_REVIEW = 16 * 1024 * 1024
_GRACE = 10.0


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook: its name in metrics, the path it is served at, and what answers."""

    name: str
    path: str
    review: Review


class WebhookServer:
    """Serves the webhooks, and other routes beside them, from the moment there is a certificate.

    ``largest`` is the largest body, in bytes.
    """

    def __init__(
        self,
        listen: Address,
        serving: ServingContext,
        webhooks: Iterable[Webhook],
        metrics: Exposition,
        *,
        routes: Iterable[web.RouteDef] = (),
        largest: int = LARGEST_REVIEW,
    ) -> None:
        self._routes = tuple(routes)
        self._largest = largest
        self._listen = listen
        self._serving = serving
        self._webhooks = tuple(webhooks)
        self._metrics = metrics
        self.listening = asyncio.Event()
        self.address = listen

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._serving.loaded.wait()
        runner = web.AppRunner(self.application(), access_log=None, logger=log, shutdown_timeout=_GRACE)
        await runner.setup()
        try:
            site = web.TCPSite(
                runner, self._listen.host or None, self._listen.port, ssl_context=self._serving.context
            )
            await started(site, self._listen)
            self.address = Address(self._listen.host, runner.addresses[0][1])
            self.listening.set()
            log.info("webhooks listen on %s", self.address)
            await asyncio.Event().wait()
        finally:
            self.listening.clear()
            await runner.cleanup()

    def application(self) -> web.Application:
        """Return the routes."""
        application = web.Application(client_max_size=self._largest)
        application.router.add_routes(self._routes)
        for webhook in self._webhooks:
            application.router.add_post(webhook.path, _handler(webhook, self._metrics))
        return application


def _handler(
    webhook: Webhook, metrics: Exposition
) -> Callable[[web.Request], Coroutine[None, None, web.Response]]:
    async def handle(http: web.Request) -> web.Response:
        started = time.perf_counter()
        outcome = Outcome.BUG
        try:
            body = await http.read()
            answer = await webhook.review(decode_review(body))
            outcome = answer.outcome
            return web.Response(body=answer.body, content_type="application/json")
        except UnavailableError as error:
            outcome = Outcome.UNAVAILABLE
            return web.Response(status=503, text=f"{error}\n")
        except DecodeError as error:
            outcome = Outcome.MALFORMED
            return web.Response(status=400, text=f"{error}\n")
        except web.HTTPException:
            outcome = Outcome.MALFORMED
            raise
        finally:
            metrics.count(WEBHOOK_REQUESTS, webhook.name, outcome)
            metrics.observe(WEBHOOK_SECONDS, time.perf_counter() - started, webhook.name)

    return handle
