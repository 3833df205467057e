"""Calling webhooks over HTTPS, as kube-apiserver calls them.

One session, with connections kept open, for each CA bundle: five hundred calls a second go through a handful
of connections. The certificate must come from the webhook's own CA bundle. The URL carries ``timeout=<n>s``
so that the webhook knows how long it has. Whatever goes wrong becomes one `CallFailedError` whose message is
worded as Kubernetes words it, since people search for these words.

A ``clientConfig.service`` needs a cluster network, which there is none of: unless ``services`` maps
it to a base URL, the call fails and says so.
"""

from __future__ import annotations

import asyncio
import io
import os
import ssl
from base64 import b64decode
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from posixpath import normpath
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from kubedouble.errors import UNREADABLE

_CONNECTIONS = 64
_LARGE = 1 << 20
"""From this size on, aiohttp wants a stream."""
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "User-Agent": "kube-apiserver-admission",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a webhook, and the CA of its certificate ("" trusts the system's CAs)."""

    url: str
    server_name: str
    ca_pem: str
    service: str = ""
    """``namespace/name`` of the service the URL stands for, if it stands for one."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Endpoint:
        """From a webhook's clientConfig."""
        ca_pem = b64decode(config.get("caBundle") or "").decode("ascii", "backslashreplace")
        service = config.get("service")
        if not service:
            parts = urlsplit(config["url"])
            return cls(f"{parts.scheme}://{parts.netloc}{_cleaned(parts.path)}", "", ca_pem)
        host = f"{service['name']}.{service['namespace']}.svc"
        url = f"https://{host}:{service.get('port') or 443}{_cleaned(service.get('path') or '')}"
        return cls(url, host, ca_pem, f"{service['namespace']}/{service['name']}")


def _cleaned(path: str) -> str:
    """The path that is called: as path.Join of Go has it, without a slash at the end or twice."""
    return "/" + normpath(f"/{path}").lstrip("/")


class CallFailedError(Exception):
    """A webhook gave no usable answer; the message follows ``failed calling webhook "x": ``."""


class Caller:
    """Posts reviews to webhooks, and shows them ``certificate``, if there is one.

    kube-apiserver is given it by the kubeconfig that ``--admission-control-config-file`` names.
    """

    def __init__(self, services: Mapping[str, str] | None = None) -> None:
        self.services = dict(services or {})
        self.certificate = ""
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        sessions, self._sessions = self._sessions, {}
        async with AsyncExitStack() as closing:
            for session in sessions.values():
                closing.push_async_callback(session.close)

    async def post(self, endpoint: Endpoint, body: bytes, timeout_seconds: int) -> bytes:
        """Send a review and return the body of the answer.

        Raises CallFailedError, whatever the reason.
        """
        query = f"timeout={timeout_seconds}s"
        shown = f"{endpoint.url}{'&' if '?' in endpoint.url else '?'}{query}"
        prefix = f'failed to call webhook: Post "{shown}"'
        url, session = self._resolve(endpoint, shown, prefix), self._session(endpoint.ca_pem)
        try:
            async with session.post(
                url,
                data=body if len(body) < _LARGE else io.BytesIO(body),
                headers=_HEADERS,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds),
                server_hostname=endpoint.server_name or None,
                allow_redirects=False,
            ) as response:
                answer = await response.read()
        except (TimeoutError, aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as problem:
            raise CallFailedError(f"{prefix}: {_describe(problem)}") from problem
        if not 200 <= response.status <= 206:
            raise CallFailedError(f"failed to call webhook: {_http_problem(response.status, answer)}")
        return answer

    def _resolve(self, endpoint: Endpoint, shown: str, prefix: str) -> str:
        if not endpoint.service:
            return shown
        base = self.services.get(endpoint.service)
        if base is None:
            name = endpoint.service.partition("/")[2]
            raise CallFailedError(
                f'{prefix}: service "{name}" not found (the local cluster has no service network: '
                f"give the webhook a clientConfig.url)"
            )
        return base.rstrip("/") + "/" + shown.split("/", 3)[3]

    def _session(self, ca_pem: str) -> aiohttp.ClientSession:
        session = self._sessions.get(ca_pem)
        if session is None or session.closed:
            context = _trusting(ca_pem)
            if self.certificate:
                context.load_cert_chain(self.certificate)
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=context, keepalive_timeout=60)
            session = self._sessions[ca_pem] = aiohttp.ClientSession(connector=connector, trust_env=False)
        return session


def _trusting(ca_pem: str) -> ssl.SSLContext:
    """A context for one CA bundle, which has not been validated yet."""
    try:
        return ssl.create_default_context(cadata=ca_pem or None)
    except (ssl.SSLError, ValueError) as problem:
        why = "unable to load root certificates: unable to parse bytes as PEM block"
        raise CallFailedError(f"could not get REST client: {why}") from problem


def _describe(problem: BaseException) -> str:
    """The problem in the words of Go's HTTP client."""
    match problem:
        case asyncio.TimeoutError():
            return "context deadline exceeded"
        case aiohttp.ClientConnectorCertificateError():
            return (
                f"tls: failed to verify certificate: x509: {_certificate_problem(problem.certificate_error)}"
            )
        case aiohttp.ClientConnectorError():
            return f"dial tcp {problem.host}:{problem.port}: connect: {_os_problem(problem.os_error)}"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return "EOF"
        case _:
            return str(problem) or type(problem).__name__


def _certificate_problem(problem: Exception) -> str:
    reason = getattr(problem, "verify_message", "") or str(problem)
    if "self-signed" in reason or "unable to get" in reason:
        return "certificate signed by unknown authority"
    if "expired" in reason:
        return "certificate has expired or is not yet valid"
    return reason


def _os_problem(problem: OSError) -> str:
    return (os.strerror(problem.errno) if problem.errno else str(problem)).lower()


def _http_problem(status: int, body: bytes) -> str:
    """Return the error of Kubernetes' REST client for an unsuccessful response."""
    if message := _status_message(body):
        return message
    if status in _MEANINGS:
        return _MEANINGS[status]
    if status < 500:
        return f"the server responded with the status code {status} but did not return more information"
    text = body.decode(errors="replace").strip()[:2048].replace('"', '\\"') or "unknown"
    return f'an error on the server ("{text}") has prevented the request from succeeding'


_MEANINGS = {
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    503: "the server is currently unable to handle the request",
}


class _Status(msgspec.Struct):
    kind: str = ""
    message: str = ""


def _status_message(body: bytes) -> str:
    try:
        status = msgspec.json.decode(body, type=_Status)
    except UNREADABLE:
        return ""
    return status.message if status.kind == "Status" else ""
