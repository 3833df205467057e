"""A Keystone that knows one user: enough to authenticate, and to find Placement in its catalog."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PASSWORD = "right"
TOKEN = "admin"
"""The token of an administrator, as Placement's noauth2 reads it."""


def _catalog(placement: str) -> list[dict[str, Any]]:
    endpoint = {"id": "e", "interface": "public", "region": "r", "region_id": "r", "url": placement}
    return [{"type": "placement", "id": "p", "name": "placement", "endpoints": [endpoint]}]


def _token(placement: str) -> dict[str, Any]:
    domain = {"id": "default", "name": "Default"}
    return {
        "token": {
            "methods": ["password"],
            "user": {"id": "u", "name": "nova", "domain": domain},
            "project": {"id": "p", "name": "service", "domain": domain},
            "roles": [{"id": "a", "name": "admin"}],
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "catalog": _catalog(placement),
        }
    }


class _Keystone(BaseHTTPRequestHandler):
    placement = ""

    def do_GET(self) -> None:
        host = self.headers["Host"]
        version = {
            "id": "v3.14",
            "status": "stable",
            "links": [{"rel": "self", "href": f"http://{host}/v3/"}],
        }
        self._answer(200, {"version": version} if "v3" in self.path else {"versions": {"values": [version]}})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        password = asked["auth"]["identity"]["password"]["user"]["password"]
        if password == PASSWORD:
            self._answer(201, _token(self.placement), {"X-Subject-Token": TOKEN})
        else:
            self._answer(401, {"error": {"code": 401, "message": "wrong password", "title": "Unauthorized"}})

    def _answer(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nobody reads it."""


@contextmanager
def running_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server on the loopback interface; the address is what it is reached by."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def running_keystone(placement: str) -> Iterator[str]:
    """A Keystone whose catalog has a Placement; the address is its auth_url."""
    with running_server(type("Keystone", (_Keystone,), {"placement": placement})) as address:
        yield f"{address}/v3"
