"""Credentials from a command: the client-go exec plugin protocol, versions v1 and v1beta1.

The command is told in ``KUBERNETES_EXEC_INFO`` what is wanted and prints an ExecCredential. It gets no
terminal: corewise runs unattended. Its stderr is shown only when it fails.

Source: https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from datetime import datetime

import msgspec

from corewise.kube.auth import Identity
from corewise.kube.clock import Clock
from corewise.kube.config import ClusterConfig, ExecPlugin
from corewise.kube.errors import ConfigError
from corewise.vocabulary.errors import UNREADABLE

PLUGIN_TIMEOUT = 120.0
_STDERR_LIMIT = 500


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
        return await _output_of(process, plugin)


async def _output_of(process: asyncio.subprocess.Process, plugin: ExecPlugin) -> bytes:
    try:
        async with asyncio.timeout(PLUGIN_TIMEOUT):
            stdout, stderr = await process.communicate()
    except TimeoutError as error:
        raise ConfigError(f"exec plugin {plugin.command} gave no answer in {PLUGIN_TIMEOUT:.0f} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        talk = " ".join(stderr.decode("utf-8", "replace").split())[-_STDERR_LIMIT:]
        raise ConfigError(f"exec plugin {plugin.command} ended with code {process.returncode}: {talk}")
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
