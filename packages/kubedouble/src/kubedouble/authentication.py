"""Authentication: client certificates, bearer tokens, impersonation.

As kube-apiserver does it: a verified client certificate names the user (CN) and groups (O); else a bearer
token is looked up, and an unknown one is refused with 401; else the request is anonymous. Every user that
is not anonymous is in ``system:authenticated``.

Tokens are opaque here and live in a table. Real service account tokens are JWTs, which clients must not
look into either.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import unquote

from kubedouble.errors import StatusError

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"

_API_GROUP = "authentication.k8s.io"
_EXTRA_HEADER = "impersonate-extra-"


@dataclass(frozen=True, slots=True)
class User:
    """An identity, with the groups it was authenticated with."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def info(self) -> dict[str, Any]:
        """The ``authentication.k8s.io/v1`` UserInfo, as reviews carry it."""
        info: dict[str, Any] = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            info["uid"] = self.uid
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info


def service_account(namespace: str, name: str, uid: str = "") -> User:
    """The identity of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", groups, uid)


def split_service_account(username: str) -> tuple[str, str] | None:
    """``(namespace, name)`` if the user name is a service account's."""
    if not username.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, _, name = username.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return (namespace, name) if namespace and name and ":" not in name else None


def user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """The user a client certificate names; ``certificate`` is what ``SSLSocket.getpeercert()`` returns."""
    attributes = [pair for relative_name in certificate.get("subject", ()) for pair in relative_name]
    names = [value for key, value in attributes if key == "commonName"]
    if not names:
        return None
    groups = [value for key, value in attributes if key == "organizationName"]
    return User(names[0], _with_authenticated(groups))


def _with_authenticated(groups: Sequence[str]) -> tuple[str, ...]:
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return tuple(groups)
    return (*groups, AUTHENTICATED)


class TokenTable:
    """The bearer tokens this server knows, each with its user and the moment it ends."""

    def __init__(self) -> None:
        self._tokens: dict[str, tuple[User, datetime | None]] = {}

    def add(self, token: str, user: User, *, expires: datetime | None = None) -> None:
        """Make a token known; without ``expires`` it never expires."""
        self._tokens[token] = (user, expires)

    def issue(self, user: User, *, expires: datetime | None = None) -> str:
        """A new token for the user, as the ``serviceaccounts/token`` subresource hands out."""
        token = secrets.token_urlsafe(32)
        self.add(token, user, expires=expires)
        return token

    def user(self, token: str, now: datetime) -> User | None:
        """Return the user of a token, or None if the token is unknown or has expired."""
        user, expires = self._tokens.get(token, (None, None))
        return user if expires is None or now < expires else None


class Authenticator:
    """Finds the user of a request from its connection and headers."""

    def __init__(self, tokens: TokenTable | None = None, *, anonymous: bool = True) -> None:
        self.tokens = tokens or TokenTable()
        self._anonymous = anonymous

    def authenticate(
        self, certificate: Mapping[str, Any] | None, authorization: str | None, *, now: datetime
    ) -> User:
        """The user of a request.

        ``certificate`` is the verified peer certificate, ``authorization`` the header of that name.
        Raises StatusError 401 where kube-apiserver does.
        """
        if certificate and (user := user_of_certificate(certificate)):
            return user
        scheme, _, token = (authorization or "").strip().partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            if user := self.tokens.user(token.strip(), now):
                return User(user.name, _with_authenticated(user.groups), user.uid, user.extra)
        elif self._anonymous:
            return User(ANONYMOUS, (UNAUTHENTICATED,))
        raise StatusError(401, "Unauthorized", "Unauthorized")


class Headers(Protocol):
    """Request headers, several values a name, names in any case (aiohttp's CIMultiDictProxy)."""

    def get(self, key: str, default: str = "") -> str: ...
    def getall(self, key: str, default: list[str]) -> list[str]: ...
    def keys(self) -> Any: ...


Require = Callable[..., None]
"""``require(verb=, group=, resource=, subresource=, namespace=, name=)``: raises a 403 if denied."""


def impersonate(headers: Headers, require: Require) -> User | None:
    """The user that the Impersonate-* headers ask to act as, or None without such headers.

    ``require`` authorizes the real user for each thing impersonated, with the verb ``impersonate``.
    """
    name = headers.get("Impersonate-User", "")
    groups = headers.getall("Impersonate-Group", [])
    uid = headers.get("Impersonate-Uid", "")
    extra = _extra(headers)
    if not name:
        if groups or uid or extra:
            raise StatusError(500, "InternalError", "Internal error: requested impersonation without a user")
        return None
    account = split_service_account(name)
    if account:
        require(verb="impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        require(verb="impersonate", resource="users", name=name)
    for group in groups:
        require(verb="impersonate", resource="groups", name=group)
    for key, values in extra.items():
        for value in values:
            require(verb="impersonate", group=_API_GROUP, resource="userextras", subresource=key, name=value)
    if uid:
        require(verb="impersonate", group=_API_GROUP, resource="uids", name=uid)
    if account and not groups:
        groups = list(service_account(*account).groups)
    if name == ANONYMOUS and AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups = [*groups, UNAUTHENTICATED]
    return User(name, _with_authenticated(groups), uid, extra)


def _extra(headers: Headers) -> dict[str, tuple[str, ...]]:
    names = {key.lower() for key in headers.keys() if key.lower().startswith(_EXTRA_HEADER)}  # noqa: SIM118 - Headers is not a mapping
    return {unquote(key.removeprefix(_EXTRA_HEADER)): tuple(headers.getall(key, [])) for key in sorted(names)}
