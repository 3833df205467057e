"""Requests to one Placement: the microversion that both sides know, and an error for every refusal.

Before the first request, the newest microversion that Placement and this client know is negotiated. No
request to Placement is repeated here: only the caller knows whether it may be. A request for a token that
Keystone could not answer is: Placement has seen nothing of it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec
import requests
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as refusals

from corewise.vocabulary.errors import UNREADABLE
from corewise_openstack.openstack.errors import (
    AnswerRefusing,
    ConcurrentUpdate,
    CredentialsError,
    DoesNotFit,
    InventoryInUse,
    PlacementBadRequest,
    PlacementConflict,
    PlacementDown,
    PlacementError,
    PlacementForbidden,
    PlacementNotFound,
    PlacementServerError,
    PlacementUnauthorized,
    PlacementUntrusted,
    UnexpectedAnswer,
    UnknownTraits,
    VersionTooOld,
)

NEWEST = (1, 39)
"""The newest microversion whose answers this client knows."""

OLDEST = (1, 30)
"""The first that has all that is needed: reshaper (1.30), consumer generations (1.28), ``!TRAIT`` (1.22)."""

SERVICE_TYPE = "placement"

KEYSTONE_WAITS = (0.5, 1.0, 2.0)
"""Seconds before each new attempt, after Keystone has answered with an error of its own (5xx)."""

_GATEWAY = frozenset({502, 503, 504})
_LONGEST_DETAIL = 500
_NO_AUTHORITIES = "correct cafile in [placement] of nova.conf, cacert in clouds.yaml, or OS_CACERT"
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,5})")
_TRAIT_REFUSED = re.compile(r"No such trait(?:\(s\))?:? ([A-Z0-9_, ]+)")
_DOES_NOT_FIT = "Unable to allocate inventory"
_CONCURRENT = "placement.concurrent_update"
_IN_USE = "placement.inventory.inuse"


class _Problem(msgspec.Struct):
    status: int = 0
    code: str = ""
    detail: str = ""


class _Problems(msgspec.Struct):
    errors: list[_Problem] = []


class _Version(msgspec.Struct):
    min_version: str
    max_version: str


class _Versions(msgspec.Struct):
    versions: list[_Version]


_PROBLEMS = msgspec.json.Decoder(_Problems)
_VERSIONS = msgspec.json.Decoder(_Versions)


class PlacementTransport:
    """One Placement, as one user. ``sent`` counts the requests, the one for the versions among them."""

    def __init__(self, endpoint: adapter.Adapter) -> None:
        self._endpoint = endpoint
        self._version: tuple[int, int] | None = None
        self.sent = 0

    @property
    def version(self) -> tuple[int, int]:
        """The microversion in use; asks Placement, the first time."""
        if self._version is None:
            self._version = negotiate(self._exchange("GET", "/", {}, None))
        return self._version

    def send(
        self, method: str, path: str, body: bytes | None = None, *, version: tuple[int, int] | None = None
    ) -> bytes:
        """Send a request, and return the body of the answer; ``version`` is an older microversion to use.

        Raises:
            PlacementError: whatever Placement refuses, or when it does not answer.
        """
        microversion = _printed(version or self.version)
        return self._exchange(method, path, {"OpenStack-API-Version": f"{SERVICE_TYPE} {microversion}"}, body)

    def _exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        self.sent += 1
        request = f"{method} {path.partition('?')[0]}"
        sent: dict[str, Any] = {"headers": {**headers, "Accept": "application/json"}, "raise_exc": False}
        if body is not None:
            sent["headers"]["Content-Type"] = "application/json"
            sent["data"] = body
        try:
            answer = self._answer(path, method, sent)
        except refusals.ClientException as error:
            _raise_unanswered(error, request)
        except requests.RequestException as error:
            raise PlacementDown(f"{request}: {error}") from error
        except OSError as error:  # requests looks for the file of authorities only now
            raise CredentialsError(str(error), hint=_NO_AUTHORITIES) from error
        content: bytes = answer.content
        if answer.status_code >= 300:
            raise refusal(answer.status_code, content, request)
        return content

    def _answer(self, path: str, method: str, sent: Mapping[str, Any]) -> requests.Response:
        """Send a request; its token is asked for again while Keystone fails."""
        for wait in KEYSTONE_WAITS:
            try:
                return self._endpoint.request(path, method, **sent)
            except refusals.HttpServerError:  # Keystone's: raise_exc=False returns those of Placement
                time.sleep(wait)
        return self._endpoint.request(path, method, **sent)


def negotiate(root: bytes) -> tuple[int, int]:
    """Return the newest microversion that Placement's root and this client both know."""
    try:
        offered = _VERSIONS.decode(root).versions[0]
        oldest, newest = _parsed(offered.min_version), _parsed(offered.max_version)
    except (*UNREADABLE, IndexError, ValueError) as error:
        raise UnexpectedAnswer(f"GET /: no list of versions: {error}") from error
    if newest < OLDEST or oldest > NEWEST:
        raise VersionTooOld(
            f"Placement supports microversions {offered.min_version} to {offered.max_version}; "
            f"corewise needs one from {_printed(OLDEST)} to {_printed(NEWEST)}"
        )
    return min(newest, NEWEST)


def _parsed(text: str) -> tuple[int, int]:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:20]!r} is not a microversion")
    return int(match[1]), int(match[2])


def _printed(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _raise_unanswered(error: refusals.ClientException, request: str) -> NoReturn:
    """Raise what a failure on the way to an answer means: the network, Keystone, or the credentials."""
    match error:
        case refusals.Unauthorized():
            raise PlacementUnauthorized(f"Keystone: {error}", status=401, request=request) from error
        case refusals.Forbidden():
            raise PlacementForbidden(f"Keystone: {error}", status=403, request=request) from error
        case refusals.SSLError():
            raise PlacementUntrusted(f"{request}: {_network_words(error)}") from error
        case refusals.HttpServerError():
            hint = "see whether Keystone runs: openstack token issue"
            raise PlacementDown(f"Keystone: {error}", hint=hint) from error
        case refusals.ConnectionError() | refusals.DiscoveryFailure():
            raise PlacementDown(f"{request}: {_network_words(error)}") from error
        case refusals.HttpError():
            raise CredentialsError(f"Keystone refuses: {error}") from error
        case _:
            raise CredentialsError(f"{request}: {error}") from error


def _network_words(error: BaseException) -> str:
    """Return keystoneauth's message, with the kernel's word in place of those of the libraries between."""
    said = str(error).partition(": HTTP")[0]
    deepest = error
    while (below := deepest.__cause__ or deepest.__context__) is not None:
        deepest = below
    return f"{said}: {deepest.strerror}" if isinstance(deepest, OSError) and deepest.strerror else said


def refusal(status: int, content: bytes, request: str) -> PlacementError:
    """Return the error that an answer means; a body that is not Placement's is quoted, shortened."""
    try:
        problems = _PROBLEMS.decode(content).errors
    except UNREADABLE:
        problems = []
    quoted = content[: 4 * _LONGEST_DETAIL].decode("utf-8", "replace")
    problem = problems[0] if problems else _Problem(detail=quoted)
    detail = " ".join(problem.detail.split())[:_LONGEST_DETAIL] or f"HTTP {status}"
    if status in _GATEWAY:
        return PlacementDown(f"{request}: HTTP {status}: {detail}")
    if status == 400 and (named := _TRAIT_REFUSED.search(problem.detail)):
        traits = tuple(trait.strip() for trait in named[1].split(",") if trait.strip())
        return UnknownTraits(traits, status=status, request=request, code=problem.code)
    return _class_for(status, problem)(detail, status=status, request=request, code=problem.code)


def _class_for(status: int, problem: _Problem) -> type[AnswerRefusing]:
    if status == 409:
        if problem.code == _CONCURRENT:
            return ConcurrentUpdate
        if problem.code == _IN_USE:
            return InventoryInUse
        return DoesNotFit if _DOES_NOT_FIT in problem.detail else PlacementConflict
    if status >= 500:
        return PlacementServerError
    return {
        400: PlacementBadRequest,
        401: PlacementUnauthorized,
        403: PlacementForbidden,
        404: PlacementNotFound,
    }.get(status, AnswerRefusing)
