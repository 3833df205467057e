"""Who we are to the API server, now: credentials that grow old and are renewed.

- Files (a service account token, a certificate) are read again when what was read is older than a minute, or
  was refused with 401: kubelet rotates tokens well before they expire, and certificates are replaced on disk.
  A file that cannot be read later leaves the last good credentials in force.
- An exec plugin runs when its credentials have expired, or were refused. It runs once for all that wait.

Nothing here blocks the event loop but the reading of a small file.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from corewise.kube.clock import Clock
from corewise.kube.config import ClusterConfig, UserConfig
from corewise.kube.errors import ConfigError

REREAD_AFTER = 60.0
"""Seconds after which credential files are read again (client-go: a minute for tokens)."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """What the server is shown: a bearer token, a client certificate (PEM) with its key, both or neither."""

    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


class Credentials(Protocol):
    """A source of identities."""

    async def identity(self) -> Identity:
        """The identity to use now; raises ``ConfigError`` when there is none to be had."""
        ...

    def refused(self, identity: Identity) -> None:
        """The server answered 401 to this identity: the next one must be fresh."""
        ...


class StoredCredentials:
    """Credentials that stand in the configuration or in files that it names."""

    def __init__(self, user: UserConfig, source: str, clock: Clock) -> None:
        self._user = user
        self._source = source
        self._clock = clock
        self._identity: Identity | None = None
        self._read_at = float("-inf")

    async def identity(self) -> Identity:
        now = self._clock.monotonic()
        if self._identity is None:
            self._identity = self._read()
            self._read_at = now
        elif self._from_files and now - self._read_at >= REREAD_AFTER:
            self._read_at = now
            self._identity = self._reread(self._identity)
        return self._identity

    def refused(self, identity: Identity) -> None:
        if identity == self._identity:
            self._read_at = float("-inf")

    @property
    def _from_files(self) -> bool:
        return bool(self._user.token_file or self._user.certificate_file or self._user.key_file)

    def _reread(self, last: Identity) -> Identity:
        try:
            return self._read()
        except ConfigError as error:
            _log.warning("%s; the last good credentials stay in force", error)
            return last

    def _read(self) -> Identity:
        user = self._user
        identity = Identity(user.token, user.certificate, user.key)
        if user.token_file:
            identity = replace(identity, token=self._read_token(user.token_file))
        if user.certificate_file:
            identity = replace(identity, certificate=self._read_file(user.certificate_file))
        if user.key_file:
            identity = replace(identity, key=self._read_file(user.key_file))
        return identity

    def _read_token(self, path: str) -> str:
        try:
            token = self._read_file(path).decode("ascii").strip()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{self._source}: {path} is not a token: {error}") from error
        if not token or not token.isprintable():
            raise ConfigError(f"{self._source}: {path} holds no token")
        return token

    def _read_file(self, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(f"{self._source}: {path}: {error.strerror or error}") from error


def credentials_for(config: ClusterConfig, clock: Clock) -> Credentials:
    """The credentials that a configuration names; an exec plugin counts only if there is nothing else."""
    # A plugin starts processes: not needed by those who have none.
    from corewise.kube.exec_plugin import PluginCredentials  # noqa: PLC0415

    user = config.user
    if user.exec_plugin and not (user.token or user.token_file):
        return PluginCredentials(user.exec_plugin, config, clock)
    return StoredCredentials(user, config.source, clock)
