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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response

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


@dataclass(frozen=True, slots=True)
class PathAccess:
    """Leave to ``get`` a path, such as /metrics."""

    path: str

    @property
    def attributes(self) -> Mapping[str, Any]:
        return {"nonResourceAttributes": {"path": self.path, "verb": "get"}}

    @property
    def hint(self) -> str:
        return "bind it to a ClusterRole with this nonResourceURL"

    def __str__(self) -> str:
        return f"get {self.path}"


@dataclass(frozen=True, slots=True)
class ResourceAccess:
    """Leave to do something with objects of the core group: with one, those of a namespace, or all."""

    resource: str
    verb: str = "list"
    namespace: str = ""
    name: str = ""

    @property
    def attributes(self) -> Mapping[str, Any]:
        asked = {"verb": self.verb, "resource": self.resource, "version": "v1"}
        where = {"namespace": self.namespace, "name": self.name}
        return {"resourceAttributes": asked | {key: value for key, value in where.items() if value}}

    @property
    def hint(self) -> str:
        return "bind it to a role with this verb, such as the ClusterRole view"

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{name}{f' in {self.namespace}' if self.namespace else ''}"


Access = PathAccess | ResourceAccess


class TokenAccess:
    """Reviews tokens, and remembers the answers for a while."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._turns = asyncio.Semaphore(_AT_A_TIME)
        self._remembered: OrderedDict[tuple[bytes, Access], tuple[float, RefusedError | None]] = OrderedDict()

    def guard(self, path: str) -> Guard:
        """Return what lets callers in that may ``get`` the path."""
        return partial(self.check, needed=PathAccess(path))

    async def check(self, request: BaseRequest, needed: Access) -> None:
        """Return if the request has the token of somebody with this leave.

        Raises:
            RefusedError: as ``require``, and 401 without a token.
        """
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > _LONGEST_TOKEN:
            why = f"{request.path} needs a token: send Authorization: Bearer TOKEN (kubectl create token)"
            raise RefusedError(401, RefusalCause.UNAUTHENTICATED, why)
        await self.require(token, needed)

    async def require(self, token: str, needed: Access) -> None:
        """Return if the token's user has this leave.

        Raises:
            RefusedError: 401 for a token that is not valid, 403 for a user who may not, 503 if the API server
                does not answer.
        """
        key = (hashlib.sha256(token.encode()).digest(), needed)
        if (known := self._known(key)) is None:
            async with self._turns:
                if (known := self._known(key)) is None:
                    known = (self._clock.monotonic() + REMEMBERED_SECONDS, await self._review(token, needed))
                    self._remembered[key] = known
                    while len(self._remembered) > REMEMBERED_TOKENS:
                        self._remembered.popitem(last=False)
        if refused := known[1]:
            raise RefusedError(refused.status, refused.cause, str(refused))

    def _known(self, key: tuple[bytes, Access]) -> tuple[float, RefusedError | None] | None:
        known = self._remembered.get(key)
        return known if known and self._clock.monotonic() < known[0] else None

    async def _review(self, token: str, needed: Access) -> RefusedError | None:
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
                **needed.attributes,
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
        why = f"{user.username} may not {needed}: {needed.hint}"
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
        async def livez(_request: BaseRequest) -> Response:
            return _answer(alive())

        async def readyz(_request: BaseRequest) -> Response:
            return _answer(ready())

        async def measured(_request: BaseRequest) -> Response:
            return Response(body=text(), headers={"Content-Type": CONTENT_TYPE})

        routes = [
            Route("GET", "/livez", livez),
            Route("GET", "/readyz", readyz),
            Route("GET", _METRICS, measured, access.guard(_METRICS) if access else anyone),
        ]
        super().__init__(HEALTH, listen, routes, metrics)


def _answer(problems: Iterable[str]) -> Response:
    problems = list(problems)
    return Response(status=503 if problems else 200, text="\n".join(problems or ["ok"]) + "\n")
