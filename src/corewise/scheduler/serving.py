"""The extender's routes, beside the gate on the same address: POST /filter and /prioritize, GET /explain.

What is wrong is said so that kube-scheduler shows it: a filter that cannot be answered is an
ExtenderFilterResult with ``Error``; arguments that cannot be read are 400, a prioritize that cannot be
answered is 503. Each fails the call, and with ``ignorable`` kube-scheduler goes on without it.

``/explain`` says where pods of every namespace run: it takes a token, which the API server reviews.

- ``/explain``: the last decisions in short, ``?pod=NAMESPACE/NAME`` those about one pod.
- ``/explain?pod=NAMESPACE/NAME&nodes=all``: with what every plugin said of every node; ``&nodes=NAME``: of
  one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from aiohttp import web

from corewise.prometheus.exposition import Exposition
from corewise.scheduler.decisions import Decisions, encode
from corewise.scheduler.extender import Extender
from corewise.scheduler.installation import EXPLAIN, FILTER, PRIORITIZE
from corewise.scheduler.wire import (
    Arguments,
    ArgumentsError,
    decode_arguments,
    encode_error,
    encode_filtered,
    encode_scores,
)
from corewise.service.doors import Guard, Handler, Route, read_body
from corewise.vocabulary.metrics.scheduler import EXTENDER_REQUESTS, EXTENDER_SECONDS

_JSON = "application/json"
_ANSWERED, _ERROR, _MALFORMED = "answered", "error", "malformed"
_BAD_REQUEST, _UNAVAILABLE = 400, 503


@dataclass(frozen=True, slots=True)
class _Said:
    status: int
    outcome: str
    body: bytes


@dataclass(frozen=True, slots=True)
class ExtenderRoutes:
    """Puts calls to the extender. ``problems`` says why it cannot answer, if it cannot.

    ``caller`` checks who calls the extender, ``reader`` who reads the decisions.
    """

    extender: Extender
    decisions: Decisions
    problems: Callable[[], Iterable[str]]
    metrics: Exposition
    caller: Guard
    reader: Guard

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("POST", f"/{FILTER}", self._call(FILTER, self._filter), self.caller),
            Route("POST", f"/{PRIORITIZE}", self._call(PRIORITIZE, self._prioritize), self.caller),
            Route("GET", f"/{EXPLAIN}", self._explain, self.reader),
        ]

    def _call(self, verb: str, answer: Callable[[bytes], _Said]) -> Handler:
        async def handle(http: web.BaseRequest) -> web.Response:
            body = await read_body(http)
            started = time.perf_counter()
            said = answer(body)
            self.metrics.count(EXTENDER_REQUESTS, verb, said.outcome)
            self.metrics.observe(EXTENDER_SECONDS, time.perf_counter() - started, verb)
            return web.Response(status=said.status, body=said.body, content_type=_JSON)

        return handle

    def _filter(self, body: bytes) -> _Said:
        arguments = _arguments(body)
        if isinstance(arguments, _Said):
            return arguments
        problem = self._problem()
        if problem:
            return _Said(200, _ERROR, encode_error(problem))
        return _Said(200, _ANSWERED, encode_filtered(arguments, self.extender.filter(arguments)))

    def _prioritize(self, body: bytes) -> _Said:
        arguments = _arguments(body)
        if isinstance(arguments, _Said):
            return arguments
        problem = self._problem()
        if problem:
            return _Said(_UNAVAILABLE, _ERROR, encode_error(problem))
        return _Said(200, _ANSWERED, encode_scores(arguments.names, self.extender.prioritize(arguments)))

    def _problem(self) -> str:
        problems = "; ".join(self.problems())
        return f"corewise scheduler: {problems}" if problems else ""

    async def _explain(self, http: web.BaseRequest) -> web.Response:
        pod, nodes = http.query.get("pod", ""), http.query.get("nodes", "")
        if nodes and not pod:
            return web.Response(status=_BAD_REQUEST, text="nodes needs pod=NAMESPACE/NAME\n")
        if nodes:
            found = self.decisions.details(pod, "" if nodes == "all" else nodes)
        else:
            found = self.decisions.summaries(pod)
        return web.Response(body=encode({"decisions": found}), content_type=_JSON)


def _arguments(body: bytes) -> Arguments | _Said:
    try:
        return decode_arguments(body)
    except ArgumentsError as error:
        return _Said(_BAD_REQUEST, _MALFORMED, encode_error(f"corewise scheduler: {error}"))
