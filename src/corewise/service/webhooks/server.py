"""HTTPS around the webhooks: POST a review, get an answer.

Malformed reviews are answered with 400 and a message, those that cannot be answered now with 503. A bug in a
webhook is answered with 500, logged with its traceback by the server and counted; with failurePolicy Ignore
the write then goes through as if no webhook was there, and no kubelet is held up. On shutdown, reviews in
flight are answered first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from aiohttp import web

from corewise.kube.admission import decode_review
from corewise.kube.errors import DecodeError
from corewise.prometheus.exposition import Exposition
from corewise.service.doors import Door, Guard, Handler, Listener, RefusedError, Route, anyone, read_body
from corewise.service.options import Address
from corewise.service.webhooks.answers import Outcome, Review, UnavailableError
from corewise.service.webhooks.certificate import ServingContext
from corewise.vocabulary.metrics.service import WEBHOOK_REQUESTS, WEBHOOK_SECONDS

_GRACE = 10.0


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook: its name in metrics, the path it is served at, and what answers."""

    name: str
    path: str
    review: Review


class WebhookServer(Listener):
    """Serves the webhooks, and other routes beside them, from the moment there is a certificate.

    ``guard`` checks who asks for a review.
    """

    def __init__(
        self,
        door: Door,
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
            door, listen, [*routes, *reviews], metrics, tls=lambda: serving.context, grace=_GRACE
        )
        self._serving = serving

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._serving.loaded.wait()
        await super().run()


def _handler(webhook: Webhook, metrics: Exposition) -> Handler:
    async def handle(http: web.BaseRequest) -> web.Response:
        started = time.perf_counter()
        outcome = Outcome.BUG
        try:
            body = await read_body(http)
            answer = await webhook.review(decode_review(body))
            outcome = answer.outcome
            return web.Response(body=answer.body, content_type="application/json")
        except UnavailableError as error:
            outcome = Outcome.UNAVAILABLE
            return web.Response(status=503, text=f"{error}\n")
        except DecodeError as error:
            outcome = Outcome.MALFORMED
            return web.Response(status=400, text=f"{error}\n")
        except RefusedError:
            outcome = Outcome.MALFORMED
            raise
        finally:
            metrics.count(WEBHOOK_REQUESTS, webhook.name, outcome)
            metrics.observe(WEBHOOK_SECONDS, time.perf_counter() - started, webhook.name)

    return handle
