"""Everything that can go wrong between a program and the API server, so that aiohttp and ssl never leak.

::

    KubeError                     message, hint, retryable, retry_after
    ├── ConfigError               kubeconfig, credentials: the user must mend it
    ├── TransportError            no answer: refused, cut, timed out            (retryable)
    ├── DecodeError               an answer that is not what the API promises
    ├── LineTooLongError          a watch event beyond the stated size: list again
    └── APIError                  an answer that says no; carries the Status
        ├── BadRequest            400
        ├── Unauthorized          401
        ├── Forbidden             403
        ├── NotFound              404
        ├── Conflict              409  someone else wrote first: read again
        │   └── AlreadyExists     409
        ├── Gone                  410  the version is too old: list again
        ├── Invalid               422  ``causes`` name the fields
        ├── TooManyRequests       429                                           (retryable)
        └── ServerError           5xx                                           (retryable)

``client`` repeats by itself what is retryable and idempotent.
"""
# ruff: noqa: N818 - these errors are named as the API names its reasons

from __future__ import annotations

import re

import msgspec

from corewise.kube.objects import Struct
from corewise.vocabulary.errors import UNREADABLE, OperationalError
from corewise.vocabulary.exit_codes import ExitCode

_TEXT_LIMIT = 300


class StatusCause(Struct, frozen=True):
    """metav1.StatusCause: one field and what is wrong with it."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True):
    """metav1.StatusDetails."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Struct, frozen=True):
    """metav1.Status: how the API server says no."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class KubeError(OperationalError):
    """Base of all errors of this package."""

    retry_after: float | None = None


class ConfigError(KubeError):
    """The kubeconfig or the credentials cannot be used."""

    exit_code = ExitCode.BAD_INPUT


class TransportError(KubeError):
    """No answer arrived, or only a part of one; ``sent`` is False when the request surely never left."""

    retryable = True
    default_hint = "is the API server up, and is its address correct? try: kubectl cluster-info"

    def __init__(self, message: str, *, hint: str = "", sent: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.sent = sent


class DecodeError(KubeError):
    """An answer that is not what the API promises."""


class LineTooLongError(KubeError):
    """A watch event is longer than the splitter accepts."""


class APIError(KubeError):
    """The API server said no. ``request`` is the method and path it was asked."""

    exit_code = ExitCode.REFUSED

    def __init__(self, status: Status, *, request: str = "", retry_after: float | None = None) -> None:
        text = status.message or status.reason or f"HTTP {status.code}"
        super().__init__(f"{request}: {text}" if request else text)
        self.status = status
        self.request = request
        self.retry_after = retry_after

    @property
    def code(self) -> int:
        return self.status.code

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        return self.status.details.causes if self.status.details else ()


class BadRequest(APIError):
    """400."""


class Unauthorized(APIError):
    """401: the credentials are not accepted."""

    exit_code = ExitCode.UNAUTHORIZED
    default_hint = (
        "the credentials are wrong or expired: renew the token or certificate of this identity, "
        "or name another kubeconfig (--kubeconfig)"
    )


_NOT_AUTHORIZED = re.compile(r'User ".*" cannot ')


class Forbidden(APIError):
    """403: known, but not allowed; or refused by an admission plugin, policy or webhook, without a hint."""

    exit_code = ExitCode.UNAUTHORIZED

    def __init__(self, status: Status, *, request: str = "", retry_after: float | None = None) -> None:
        super().__init__(status, request=request, retry_after=retry_after)
        if _NOT_AUTHORIZED.search(self.message):
            self.hint = (
                "the identity lacks a permission: compare its Role or ClusterRole with the request above, "
                "or name another kubeconfig (--kubeconfig)"
            )


class NotFound(APIError):
    """404: no such object, or no such resource (is the CRD installed?)."""

    exit_code = ExitCode.NOT_FOUND


class Conflict(APIError):
    """409: the object has changed since it was read, or another manager owns the field."""

    exit_code = ExitCode.CONFLICT


class AlreadyExists(Conflict):
    """409 to a create."""


class Gone(APIError):
    """410: the resourceVersion or continue token is too old."""


class Invalid(APIError):
    """422: the object does not pass validation; ``causes`` name the fields."""


class TooManyRequests(APIError):
    """429: the API server sheds load, or a disruption budget forbids an eviction."""

    retryable = True
    exit_code = ExitCode.CONNECTION

    @property
    def is_disruption_budget(self) -> bool:
        return any(each.reason == "DisruptionBudget" for each in self.causes)


class ServerError(APIError):
    """5xx."""

    retryable = True
    exit_code = ExitCode.CONNECTION


_BY_CODE: dict[int, type[APIError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
_BY_REASON: dict[str, type[APIError]] = {"AlreadyExists": AlreadyExists, "Expired": Gone}
_STATUS = msgspec.json.Decoder(Status)
_TOO_LONG = 10**9
"""Seconds; who states more, states nothing."""


def api_error(code: int, body: bytes, *, request: str = "", retry_after: float | None = None) -> APIError:
    """The error that an answer means; bodies that are no Status (a proxy's page) are quoted, shortened."""
    status = _status_of(code, body)
    asked = status.details.retry_after_seconds if status.details else 0
    if retry_after is None and 0 < asked < _TOO_LONG:
        retry_after = float(asked)
    kind = ServerError if status.code >= 500 else _BY_CODE.get(status.code, APIError)
    kind = _BY_REASON.get(status.reason, kind)
    return kind(status, request=request, retry_after=retry_after)


def _status_of(code: int, body: bytes) -> Status:
    try:
        status = _STATUS.decode(body)
    except UNREADABLE:
        status = Status()
    if status.kind == "Status":
        return msgspec.structs.replace(status, code=code or status.code)
    text = " ".join(body[: 4 * _TEXT_LIMIT].decode("utf-8", "replace").split())[:_TEXT_LIMIT]
    return Status(kind="Status", status="Failure", message=f"HTTP {code}: {text}".rstrip(": "), code=code)
