"""A Keystone that speaks Identity v3 and knows one user, and a Placement that lets in whom it vouches for.

Both serve HTTP, or HTTPS by a private authority. The user may prove himself by his password or by an
application credential; a token is good until it is revoked, and then Placement answers 401, as its
keystonemiddleware does.
"""

from __future__ import annotations

import json
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError

PASSWORD = "right"
CREDENTIAL, SECRET = "the-id-of-an-application-credential", "its-secret"
_ADMIN = "admin"
"""The token of an administrator, as Placement's noauth2 reads it."""

_DOMAIN = {"id": "default", "name": "Default"}


@dataclass
class Keystone:
    """Which tokens are good. ``down``: it answers 503. ``asked``: by which methods it was asked."""

    address: str = ""
    placement: str = ""
    down: bool = False
    tokens: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def accepts(self, identity: dict[str, Any]) -> bool:
        (method,) = identity["methods"]
        self.asked.append(method)
        if method == "application_credential":
            shown = identity["application_credential"]
            return (shown["id"], shown["secret"]) == (CREDENTIAL, SECRET)
        return bool(method == "password" and identity["password"]["user"]["password"] == PASSWORD)

    def issue(self) -> str:
        token = f"token-{len(self.asked)}"
        self.tokens.add(token)
        return token

    def token(self) -> dict[str, Any]:
        endpoint = {"id": "e", "interface": "public", "region": "r", "region_id": "r", "url": self.placement}
        return {
            "methods": ["password"],
            "user": {"id": "u", "name": "nova", "domain": _DOMAIN},
            "project": {"id": "p", "name": "service", "domain": _DOMAIN},
            "roles": [{"id": "a", "name": "admin"}],
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "catalog": [{"type": "placement", "id": "p", "name": "placement", "endpoints": [endpoint]}],
        }


class _Answering(BaseHTTPRequestHandler):
    keystone: Keystone

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status: int, message: str) -> None:
        error = {"error": {"code": status, "message": message, "title": str(status)}}
        self.answer(status, json.dumps(error).encode())

    @property
    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """No one reads it."""


class _Identity(_Answering):
    def do_GET(self) -> None:
        if self.keystone.down:
            self.refuse(503, "under maintenance")
            return
        link = {"rel": "self", "href": self.keystone.address}
        version = {"id": "v3.14", "status": "stable", "links": [link]}
        found = {"version": version} if "v3" in self.path else {"versions": {"values": [version]}}
        self.answer(200, json.dumps(found).encode())

    def do_POST(self) -> None:
        identity = json.loads(self.body)["auth"]["identity"]
        if self.keystone.down:
            self.refuse(503, "under maintenance")
        elif self.keystone.accepts(identity):
            token = json.dumps({"token": self.keystone.token()}).encode()
            self.answer(201, token, {"X-Subject-Token": self.keystone.issue()})
        else:
            self.refuse(401, "The request you have made requires authentication.")


class _Gate(_Answering):
    """Placement behind the check of tokens."""

    behind = ""

    def _forward(self) -> None:
        body = self.body or None
        if self.headers.get("X-Auth-Token") not in self.keystone.tokens:
            self.refuse(401, "the token is not valid, or has expired")
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        headers |= {"X-Auth-Token": _ADMIN}
        asked = urllib.request.Request(  # noqa: S310 - the address is a test's own
            self.behind + self.path, body, headers, method=self.command
        )
        try:
            with urllib.request.urlopen(asked) as answered:  # noqa: S310
                self.answer(answered.status, answered.read())
        except HTTPError as refused:
            self.answer(refused.code, refused.read())

    do_GET = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815 - the names in http.server


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a handshake that a client refused."""


@contextmanager
def running_server(handler: type[BaseHTTPRequestHandler], certificate: Path | None = None) -> Iterator[str]:
    """A server on the loopback interface; the address is what it is reached by.

    ``certificate``: a file with its certificate and key, for HTTPS.
    """
    server = _Server(("127.0.0.1", 0), handler)
    scheme: Literal["http", "https"] = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # The handshake takes place in the request's thread: a client that refuses holds no one up.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "https"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def running_identity(placement: str, certificate: Path | None = None) -> Iterator[Keystone]:
    """A Keystone, and in front of a Placement one that asks for its tokens, both by HTTPS if certified."""
    keystone = Keystone()
    gate = type("Gate", (_Gate,), {"keystone": keystone, "behind": placement})
    identity = type("Identity", (_Identity,), {"keystone": keystone})
    with running_server(gate, certificate) as guarded, running_server(identity, certificate) as address:
        keystone.placement = guarded
        keystone.address = f"{address}/v3"
        yield keystone


@contextmanager
def running_keystone(placement: str) -> Iterator[str]:
    """A Keystone whose catalog has a Placement; the address is its auth_url."""
    with running_identity(placement) as keystone:
        yield keystone.address
