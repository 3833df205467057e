"""A bare HTTP client of a Kubernetes API server, so that the contract is about the wire and nothing else."""

from __future__ import annotations

import io
import json
import ssl
import tempfile
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Object = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """One answer of the server."""

    code: int
    headers: Mapping[str, str]
    text: str
    warnings: tuple[str, ...]

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    def ok(self) -> Any:
        """The body of a success; anything else fails the test with what the server said."""
        assert self.code in {200, 201, 202}, f"{self.code}: {self.text}"
        return self.body

    def refused(self, code: int, reason: str | None = None) -> Any:
        """The Status of a refusal with that code and reason."""
        assert self.code == code, f"{self.code}: {self.text}"
        status = self.body
        assert status["kind"] == "Status"
        assert status["apiVersion"] == "v1"
        assert status["status"] == "Failure"
        assert status["code"] == code
        if reason is not None:
            assert status["reason"] == reason
        return status


@dataclass(frozen=True)
class Api:
    """An authenticated connection to one server; paths are relative to its root."""

    session: aiohttp.ClientSession
    headers: Mapping[str, str] = field(default_factory=dict)

    def acting_as(self, user: str, *groups: str) -> Api:
        """The same connection, acting as somebody else."""
        return Api(
            self.session, {**self.headers, "Impersonate-User": user, "Impersonate-Group": ",".join(groups)}
        )

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        **query: str,
    ) -> Reply:
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
        data = None if body is None else io.BytesIO(encoded)
        async with self.session.request(
            method, path, data=data, params=query, headers=self._headers(content_type, accept)
        ) as response:
            return Reply(
                response.status,
                response.headers,
                await response.text(),
                tuple(response.headers.getall("Warning", [])),
            )

    def _headers(self, content_type: str, accept: str) -> list[tuple[str, str]]:
        own = [(name, value) for name, value in self.headers.items() if name != "Impersonate-Group"]
        groups = [group for group in self.headers.get("Impersonate-Group", "").split(",") if group]
        impersonated = [("Impersonate-Group", group) for group in groups]
        return [*own, *impersonated, ("Content-Type", content_type), ("Accept", accept)]

    async def get(self, path: str, **query: str) -> Any:
        return (await self.request("GET", path, **query)).ok()

    async def create(self, path: str, body: Object, **query: str) -> Any:
        return (await self.request("POST", path, body, **query)).ok()

    async def replace(self, path: str, body: Object, **query: str) -> Any:
        return (await self.request("PUT", path, body, **query)).ok()

    async def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH, **query: str) -> Any:
        return (await self.request("PATCH", path, body, content_type=content_type, **query)).ok()

    async def apply(self, path: str, body: Object, manager: str, *, force: bool = False) -> Reply:
        query = {"fieldManager": manager, "force": "true"} if force else {"fieldManager": manager}
        return await self.request("PATCH", path, body, content_type=APPLY_PATCH, **query)

    async def delete(self, path: str, **query: str) -> Any:
        return (await self.request("DELETE", path, **query)).ok()

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[AsyncIterator[Object]]:
        """Events of a watch, as they come."""
        params = {"watch": "true", "timeoutSeconds": "30", **query}
        async with self.session.get(path, params=params, headers=self._headers(JSON, JSON)) as response:
            assert response.status == 200, await response.text()
            yield _events(response)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[Object]:
    buffer = b""
    async for chunk in response.content.iter_any():
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            if line:
                yield json.loads(line)


@asynccontextmanager
async def connect(kubeconfig: Path) -> AsyncIterator[Api]:
    """Log in as the kubeconfig's current context says: client certificate or token."""
    cluster, user = _read(kubeconfig)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    connector = aiohttp.TCPConnector(ssl=_tls(kubeconfig.parent, cluster, user))
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(cluster["server"], connector=connector, timeout=timeout) as session:
        yield Api(session, headers)


def _read(kubeconfig: Path) -> tuple[Object, Object]:
    """The cluster and the user of the current context."""
    config = yaml.safe_load(kubeconfig.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    return cluster, _named(config["users"], context["user"])["user"]


def _named(entries: list[Object], name: str) -> Object:
    return next(entry for entry in entries if entry["name"] == name)


def _tls(directory: Path, cluster: Object, user: Object) -> ssl.SSLContext:
    authority = _pem(directory, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _pem(directory, user, "client-certificate"), _pem(directory, user, "client-key")
    if certificate and key:
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(certificate + b"\n" + key)
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _pem(directory: Path, entry: Object, name: str) -> bytes | None:
    if data := entry.get(f"{name}-data"):
        return b64decode(data)
    return (directory / entry[name]).read_bytes() if name in entry else None
