"""/livez, /readyz and /metrics, on plain HTTP, and who may read metrics.

/livez: no loop has been silent for longer than it may. It does not depend on the API server: restarting
the program does not bring that back. /readyz: the program has what it needs for its work, and its view of the
cluster is current. Both answer with the reasons, one a line, and 503 if there are any. Probes carry no token:
both are open to every caller; /metrics takes a token where ``access`` is given.

``TokenAccess`` does as controller-runtime does for metrics: a TokenReview says whose token it is, a
SubjectAccessReview whether that user may ``get`` the path as a non-resource URL. Answers, refusals too, are
remembered for ten seconds, and at most four tokens are reviewed at a time, so that random tokens do not load
the API server.

Source: https://kubernetes.io/docs/reference/access-authn-authz/webhook/,
https://kubernetes.io/docs/reference/access-authn-authz/authorization/
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from aiohttp import web

from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.errors import Forbidden, KubeError
from corewise.kube.resources import Resource
from corewise.prometheus.exposition import CONTENT_TYPE, Exposition
from corewise.service.doors import HEALTH, Guard, Listener, RefusalCause, RefusedError, Route, anyone
from corewise.service.options import Address

REMEMBERED_SECONDS = 10.0
REMEMBERED_TOKENS = 256
_AT_A_TIME = 4
_LONGEST_TOKEN = 8192


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, Any] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _UserInfo = _UserInfo()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_TOKEN_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False, type=_TokenReview
)
_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
    namespaced=False,
    type=_AccessReview,
)


class TokenAccess:
    """Reviews tokens, and remembers the answers for a while."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._turns = asyncio.Semaphore(_AT_A_TIME)
        self._remembered: OrderedDict[tuple[bytes, str], tuple[float, RefusedError | None]] = OrderedDict()

    def guard(self, path: str) -> Guard:
        """Return what lets callers in that may ``get`` the path."""

        async def check(request: web.BaseRequest) -> None:
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            token = token.strip()
            if scheme.lower() != "bearer" or not token or len(token) > _LONGEST_TOKEN:
                why = f"{path} needs a token: send Authorization: Bearer TOKEN (kubectl create token)"
                raise RefusedError(401, RefusalCause.UNAUTHENTICATED, why)
            await self.require(token, path)

        return check

    async def require(self, token: str, path: str) -> None:
        """Return if the token's user may ``get`` the path.

        Raises:
            RefusedError: 401 for a token that is not valid, 403 for a user who may not, 503 if the API server
                does not answer.
        """
        key = (hashlib.sha256(token.encode()).digest(), path)
        if (known := self._known(key)) is None:
            async with self._turns:
                if (known := self._known(key)) is None:
                    known = (self._clock.monotonic() + REMEMBERED_SECONDS, await self._review(token, path))
                    self._remembered[key] = known
                    while len(self._remembered) > REMEMBERED_TOKENS:
                        self._remembered.popitem(last=False)
        if refused := known[1]:
            raise RefusedError(refused.status, refused.cause, str(refused))

    def _known(self, key: tuple[bytes, str]) -> tuple[float, RefusedError | None] | None:
        known = self._remembered.get(key)
        return known if known and self._clock.monotonic() < known[0] else None

    async def _review(self, token: str, path: str) -> RefusedError | None:
        try:
            asked = await self._client.create(_TOKEN_REVIEWS, {"spec": {"token": token}})
            if not asked.status.authenticated:
                return RefusedError(
                    401, RefusalCause.UNAUTHENTICATED, "the API server does not accept this token"
                )
            user = asked.status.user
            spec = {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "nonResourceAttributes": {"path": path, "verb": "get"},
            }
            answer = await self._client.create(_ACCESS_REVIEWS, {"spec": spec})
        except Forbidden as error:
            why = f"tokens cannot be reviewed: bind the ClusterRole system:auth-delegator: {error}"
            raise RefusedError(503, RefusalCause.UNAVAILABLE, why) from error
        except KubeError as error:
            raise RefusedError(
                503, RefusalCause.UNAVAILABLE, f"tokens cannot be reviewed now: {error}"
            ) from error
        if answer.status.allowed:
            return None
        why = f"{user.username} may not get {path}: bind it to a ClusterRole with this nonResourceURL"
        return RefusedError(403, RefusalCause.FORBIDDEN, why)


_METRICS = "/metrics"
Check = Callable[[], Iterable[str]]
"""Returns what is wrong, in words."""


class HealthServer(Listener):
    """Serves the three paths. ``text`` returns the metrics; ``access`` reviews who reads them."""

    def __init__(
        self,
        listen: Address,
        *,
        alive: Check,
        ready: Check,
        text: Callable[[], bytes],
        metrics: Exposition,
        access: TokenAccess | None = None,
    ) -> None:
        async def livez(_request: web.BaseRequest) -> web.Response:
            return _answer(alive())

        async def readyz(_request: web.BaseRequest) -> web.Response:
            return _answer(ready())

        async def measured(_request: web.BaseRequest) -> web.Response:
            return web.Response(body=text(), headers={"Content-Type": CONTENT_TYPE})

        routes = [
            Route("GET", "/livez", livez),
            Route("GET", "/readyz", readyz),
            Route("GET", _METRICS, measured, access.guard(_METRICS) if access else anyone),
        ]
        super().__init__(HEALTH, listen, routes, metrics)


def _answer(problems: Iterable[str]) -> web.Response:
    problems = list(problems)
    return web.Response(status=503 if problems else 200, text="\n".join(problems or ["ok"]) + "\n")
