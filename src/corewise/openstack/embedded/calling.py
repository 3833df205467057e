"""Ways to the embedded Placement: called in this process without a socket, or served on the loopback."""

from __future__ import annotations

import contextlib
import io
import socketserver
import threading
from collections.abc import Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from corewise.openstack.embedded.application import Application, EmbeddedPlacement
from corewise.openstack.errors import EmbeddedError, ExtraMissing
from corewise.openstack.quiet import quietly

try:
    with quietly():
        import requests
        from keystoneauth1 import session
        from requests.adapters import BaseAdapter
        from requests.structures import CaseInsensitiveDict
        from webob import Request
except ImportError as error:
    raise ExtraMissing("openstack", "openstack-placement") from error

from corewise.openstack.placement.client import PlacementClient
from corewise.openstack.placement.connecting import adapter_client, nobody_checks

LOOPBACK = "127.0.0.1"
_NOWHERE = "http://placement.embedded"
_POLL = 0.05
"""Seconds within which the server hears that it is to stop."""


def in_process_client(placement: Application) -> PlacementClient:
    """Return a client that calls the application itself. One a thread: they take turns."""
    over = requests.Session()
    over.mount(_NOWHERE, _InProcess(placement))
    return adapter_client(session.Session(auth=nobody_checks(), session=over), _NOWHERE)


class _InProcess(BaseAdapter):
    """Hands each request to the application, and its answer back."""

    def __init__(self, placement: Application) -> None:
        super().__init__()
        self._placement = placement

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        asked = Request.blank(
            request.url, method=request.method, headers=dict(request.headers), body=request.body or b""
        )
        answered = asked.get_response(self._placement)
        response = requests.Response()
        response.status_code = answered.status_code
        response.headers = CaseInsensitiveDict(answered.headers)
        response.raw = io.BytesIO(answered.body)
        response.url = request.url or ""
        response.request = request
        return response

    def close(self) -> None:
        """Nothing is open."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without asking the resolver for the address' name, which HTTPServer would wait for."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, int(self.server_address[1])
        self.setup_environ()


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in http.server
        """Placement tells in its own log what it was asked."""


@contextlib.contextmanager
def served(placement: EmbeddedPlacement, port: int = 0) -> Iterator[str]:
    """Serve it at the endpoint that is returned, until the block ends; port 0 is any that is free.

    Raises:
        EmbeddedError: if the port is taken.
    """
    try:
        server = _Server((LOOPBACK, port), _Silent)
    except OSError as error:
        raise EmbeddedError(f"{LOOPBACK}:{port}: {error.strerror}", hint="name another port, or 0") from error
    server.set_app(placement)
    thread = threading.Thread(
        target=server.serve_forever, args=(_POLL,), name="embedded-placement", daemon=True
    )
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
