"""/livez, /readyz and /metrics, on plain HTTP, and who may read metrics.

/livez: no loop has been silent for longer than it may. It does not depend on the API server: restarting
the program does not bring that back. /readyz: the program has what it needs for its work, and its view of the
cluster is current. Both answer with the reasons, one a line, and 503 if there are any. Probes carry no token:
both are open to every caller; /metrics takes a token where ``access`` is given.

``TokenAccess`` does as controller-runtime does for metrics: a TokenReview says whose token it is, a
SubjectAccessReview whether that user may ``get`` the path as a non-resource URL. Answers, refusals too, are
remembered for ten seconds: a token that is revoked or expires counts for so long. While the API server does
not answer, every token is refused.

Random tokens do not load the API server: four tokens are reviewed at a time, and after 64 rejected ones
within ten seconds, 48 of them from one address, only tokens that were accepted before are reviewed. What is
remembered are digests, never tokens.

Source: https://kubernetes.io/docs/reference/access-authn-authz/webhook/,
https://kubernetes.io/docs/reference/access-authn-authz/authorization/
"""

from __future__ import annotations

import asyncio
import hashlib
import re
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
from corewise.service.http_servers import HEALTH, Guard, Listener, RefusalCause, RefusedError, Route, anyone
from corewise.service.options import Address

REMEMBERED_SECONDS = 10.0
REMEMBERED_ANSWERS = 256
"""About tokens that are somebody's; an answer that is forgotten costs another review."""
REJECTED_TOKENS = 64
"""The most unknown tokens reviewed within ``REMEMBERED_SECONDS``."""
REJECTED_OF_ONE_ADDRESS = REJECTED_TOKENS - REJECTED_TOKENS // 4
AT_A_TIME = 4
_TOKEN = re.compile("[!-~]{1,8192}")
_SHOWN = 300
_TOO_MANY = RefusedError(
    429,
    RefusalCause.UNAUTHENTICATED,
    f"too many tokens were rejected, so no unknown one is reviewed: try again in {REMEMBERED_SECONDS:.0f} s",
)


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
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._remembered: OrderedDict[tuple[bytes, bytes], tuple[float, RefusedError | None]] = OrderedDict()
        """By token and access. What is too old stays until it is pushed out: its token was accepted once."""
        self._rejected: OrderedDict[bytes, tuple[float, RefusedError, str]] = OrderedDict()
        """By token, with the address that showed it."""

    def guard(self, path: str) -> Guard:
        """Return a guard that admits callers that may ``get`` the path."""
        return partial(self.check, needed=PathAccess(path))

    async def check(self, request: BaseRequest, needed: Access) -> None:
        """Return if the request has the token of somebody with this leave.

        Raises:
            RefusedError: as ``require``, and 401 without a token.
        """
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not _TOKEN.fullmatch(token):
            why = f"{request.path} needs a token: send Authorization: Bearer TOKEN (kubectl create token)"
            raise RefusedError(401, RefusalCause.UNAUTHENTICATED, why)
        await self.require(token, needed, address=request.remote or "")

    async def require(self, token: str, needed: Access, *, address: str = "") -> None:
        """Return if the token's user has this leave; ``address`` is that of the caller.

        Raises:
            RefusedError: 401 for a token that is not valid, 403 for a user who may not, 429 for an unknown
                token after too many, 503 if the API server does not answer.
        """
        key = (_digest(token), _digest(repr(needed)))
        if not (known := self._known(key)):
            async with self._turns:
                if not (known := self._known(key)):
                    known = (await self._answer(key, token, needed, address),)
        if refused := known[0]:
            raise RefusedError(refused.status, refused.cause, str(refused))

    def _known(self, key: tuple[bytes, bytes]) -> tuple[RefusedError | None] | None:
        """Return the remembered answer, which None is too, in a tuple."""
        now = self._clock.monotonic()
        while self._rejected and next(iter(self._rejected.values()))[0] <= now:
            self._rejected.popitem(last=False)
        if rejected := self._rejected.get(key[0]):
            return (rejected[1],)
        known = self._remembered.get(key)
        return (known[1],) if known and now < known[0] else None

    async def _answer(
        self, key: tuple[bytes, bytes], token: str, needed: Access, address: str
    ) -> RefusedError | None:
        """Review a token unless too many were rejected, and remember the answer."""
        was_accepted = any(each == key[0] for each, _ in self._remembered)
        of_address = sum(each[2] == address for each in self._rejected.values())
        full = len(self._rejected) >= REJECTED_TOKENS or of_address >= REJECTED_OF_ONE_ADDRESS
        if full and not was_accepted:
            return _TOO_MANY
        until = self._clock.monotonic() + REMEMBERED_SECONDS
        refused = await self._review(token, needed)
        if refused is None or refused.status == 403:
            self._remembered[key] = until, refused
            self._remembered.move_to_end(key)
            while len(self._remembered) > REMEMBERED_ANSWERS:
                self._remembered.popitem(last=False)
        elif refused.status == 401 or not was_accepted:
            self._rejected[key[0]] = until, refused, address
        return refused

    async def _review(self, token: str, needed: Access) -> RefusedError | None:
        """Ask the API server; None if the token's user has this leave."""
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
            return RefusedError(503, RefusalCause.UNAVAILABLE, why)
        except KubeError as error:
            return RefusedError(503, RefusalCause.UNAVAILABLE, f"tokens cannot be reviewed now: {error}")
        if answer.status.allowed:
            return None
        why = f"{user.username[:_SHOWN]} may not {str(needed)[:_SHOWN]}: {needed.hint}"
        return RefusedError(403, RefusalCause.FORBIDDEN, why)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogateescape")).digest()


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
