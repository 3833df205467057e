"""Our identity to the API server: credentials that grow old and are renewed, and the TLS context.

- Files (a service account token, a certificate) are read again when what was read is older than a minute, or
  was refused with 401: kubelet rotates tokens well before they expire, and certificates are replaced on disk.
  If a file cannot be read later, the last good credentials stay in use.
- An exec plugin (the client-go protocol, v1 and v1beta1) runs when its credentials have expired, or were
  refused. It runs once for all callers that wait, learns from ``KUBERNETES_EXEC_INFO`` what is wanted, and
  prints an ExecCredential. It gets no terminal: corewise runs unattended. Its stderr is shown if it fails.

Nothing here blocks the event loop but the reading of a small file.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins,
https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
from base64 import b64encode
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec

from corewise.kube.clock import Clock
from corewise.kube.config import ClusterConfig, ExecPlugin, UserConfig
from corewise.kube.errors import ConfigError
from corewise.vocabulary.errors import UNREADABLE

REREAD_AFTER = 60.0
"""Seconds after which credential files are read again (client-go: a minute for tokens)."""
PLUGIN_TIMEOUT = 120.0
_STDERR_LIMIT = 500

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """Credentials for the server: a bearer token, a client certificate (PEM) with key, both or neither."""

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
        user, now = self._user, self._clock.monotonic()
        from_files = bool(user.token_file or user.certificate_file or user.key_file)
        if self._identity is None:
            self._identity, self._read_at = self._read(), now
        elif from_files and now - self._read_at >= REREAD_AFTER:
            self._read_at = now
            try:
                self._identity = self._read()
            except ConfigError as error:
                _log.warning("%s; the last good credentials are kept", error)
        return self._identity

    def refused(self, identity: Identity) -> None:
        if identity == self._identity:
            self._read_at = float("-inf")

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


class _CredentialStatus(msgspec.Struct, rename="camel", frozen=True):
    expiration_timestamp: datetime | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(msgspec.Struct, rename="camel", frozen=True):
    api_version: str = ""
    kind: str = ""
    status: _CredentialStatus | None = None


class PluginCredentials:
    """Runs the plugin when there is no identity, when it has expired, and when it was refused."""

    def __init__(self, plugin: ExecPlugin, config: ClusterConfig, clock: Clock) -> None:
        self._plugin = plugin
        self._config = config
        self._clock = clock
        self._identity: Identity | None = None
        self._expires: datetime | None = None
        self._running = asyncio.Lock()

    async def identity(self) -> Identity:
        async with self._running:
            if self._identity is None or (self._expires and self._clock.now() >= self._expires):
                status = credential_in(await self._run(), self._plugin)
                self._identity = Identity(
                    status.token, status.client_certificate_data.encode(), status.client_key_data.encode()
                )
                self._expires = status.expiration_timestamp
            return self._identity

    def refused(self, identity: Identity) -> None:
        if identity == self._identity:
            self._identity = None

    async def _run(self) -> bytes:
        plugin = self._plugin
        environ = os.environ | plugin.env | {"KUBERNETES_EXEC_INFO": _exec_info(plugin, self._config)}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environ,
            )
        except (OSError, ValueError) as error:
            hint = plugin.install_hint.strip() or f"install {plugin.command}, or use another credential"
            raise ConfigError(
                f"exec plugin {plugin.command} cannot be started: {error}", hint=hint
            ) from error
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT):
                stdout, stderr = await process.communicate()
        except TimeoutError as error:
            why = f"exec plugin {plugin.command} gave no answer in {PLUGIN_TIMEOUT:.0f} s"
            raise ConfigError(why) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = " ".join(stderr.decode("utf-8", "replace").split())[-_STDERR_LIMIT:]
            raise ConfigError(f"exec plugin {plugin.command} ended with code {process.returncode}: {said}")
        return stdout


def _exec_info(plugin: ExecPlugin, config: ClusterConfig) -> str:
    spec: dict[str, object] = {"interactive": False}
    if plugin.provide_cluster_info:
        cluster: dict[str, object] = {"server": config.server}
        if config.ca_pem:
            cluster["certificate-authority-data"] = b64encode(config.ca_pem).decode()
        if config.tls_server_name:
            cluster["tls-server-name"] = config.tls_server_name
        if config.insecure_skip_tls_verify:
            cluster["insecure-skip-tls-verify"] = True
        spec["cluster"] = cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


def credential_in(output: bytes, plugin: ExecPlugin) -> _CredentialStatus:
    """The credential in the plugin's output, checked as client-go checks it."""
    label = f"exec plugin {plugin.command}"
    try:
        credential = msgspec.json.decode(output, type=_ExecCredential)
    except UNREADABLE as error:
        raise ConfigError(f"{label} printed no ExecCredential: {error}") from error
    if credential.kind != "ExecCredential" or credential.api_version != plugin.api_version:
        got = f"{credential.api_version} {credential.kind}".strip() or "neither apiVersion nor kind"
        raise ConfigError(f"{label} printed {got}, not {plugin.api_version} ExecCredential")
    status = credential.status
    if status is not None and not status.token.isprintable():
        raise ConfigError(f"{label} printed a token that cannot stand in a header")
    if status is None or not (status.token or status.client_certificate_data):
        raise ConfigError(f"{label} printed neither a token nor a client certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ConfigError(f"{label} printed a client certificate without its key, or the reverse")
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        raise ConfigError(
            f"{label} printed an expirationTimestamp without a time zone: {expires.isoformat()}"
        )
    return status


def credentials_for(config: ClusterConfig, clock: Clock) -> Credentials:
    """The credentials that a configuration names; an exec plugin counts only if there is nothing else."""
    user = config.user
    if user.exec_plugin and not (user.token or user.token_file):
        return PluginCredentials(user.exec_plugin, config, clock)
    return StoredCredentials(user, config.source, clock)


def client_context(config: ClusterConfig, identity: Identity) -> ssl.SSLContext:
    """A context that trusts the configured authorities, else the system's, and shows our certificate.

    Raises:
        ConfigError: what is not a certificate, or a key that belongs to another.
    """
    try:
        context = ssl.create_default_context(cadata=config.ca_pem.decode("ascii") or None)
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise ConfigError(
            f"{config.source}: the certificate authority is not a PEM certificate: {error}"
        ) from error
    # Python 3.13 demands extensions here that the authorities of many clusters lack, and that Go does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if config.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity.certificate:
        _show_certificate(context, identity, config.source)
    return context


def _show_certificate(context: ssl.SSLContext, identity: Identity, source: str) -> None:
    # OpenSSL's Python binding takes files only; this one is ours alone (0600) and gone when it has been read.
    with tempfile.NamedTemporaryFile(prefix="corewise-") as file:
        file.write(identity.certificate.rstrip() + b"\n" + identity.key)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"{source}: the client certificate and key cannot be used: {error}") from error


def _no_password() -> str:
    """An encrypted key is an error; without this, OpenSSL would ask on the terminal."""
    raise ValueError("the key is encrypted")
